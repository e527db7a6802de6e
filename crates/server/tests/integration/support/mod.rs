//! Support of the server's tests: a server on a free port, and a client that speaks the protocol message by
//! message.

#![allow(dead_code, reason = "each test file uses its own part")]

pub mod random;
pub mod wire;

use heddle_server::server::Server;
use heddle_server::settings::Settings;
use heddledb::{Database, Durability, Options};

/// A server with a database in memory.
pub struct Running {
    pub db: Database,
    pub server: Server,
}

impl Running {
    pub fn start() -> Running {
        Running::with("")
    }

    /// With these lines of a settings file.
    pub fn with(settings: &str) -> Running {
        let db = Database::in_memory_with(Options::default().durability(Durability::None))
            .expect("options are right");
        Running::of(db, settings)
    }

    /// A server of this database, with these lines of a settings file.
    pub fn of(db: Database, settings: &str) -> Running {
        let text = format!("listen = '127.0.0.1:0'\nauthentication_timeout_s = 5\ndrain_s = 1\n{settings}");
        let settings = Settings::load(Some(&text), [], toml::Table::new()).expect("the settings are right");
        let server = Server::listen(settings).expect("a port is free");
        server.serve(&db).expect("the catalog can be made");
        Running { db, server }
    }

    pub fn port(&self) -> u16 {
        self.server.address().port()
    }
}
