//! The listener, and a thread for each connection.
//!
//! # Concurrency
//! One thread accepts; each connection has a thread of its own, which decodes its messages, runs its statements and
//! waits where they wait (see `docs/decisions/2026-11-22-a-thread-for-each-connection.md`). Threads share `Shared`
//! only. Dropping the [`Server`] ends all of them: first those that are idle, then, after the settings' `drain_s`,
//! the others.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use heddle_sql::{SlowStatement, Sql};
use heddledb::{Database, StandbyError};
use parking_lot::RwLock;

use crate::connection;
use crate::connection::failure::Failure;
use crate::http::Http;
use crate::http::busiest::Busiest;
use crate::registry::{ConnectionKind, Registry};
use crate::settings::{Settings, SettingsError, limit};
use crate::tls::{self, Tls};
use crate::transport::Transport;
use crate::users::Users;
use crate::watch;

/// The stack of a connection's thread, in bytes: only what is used takes memory.
const STACK_BYTES: usize = 4 << 20;

/// The largest message of a client that is not authenticated yet, in bytes.
const STARTUP_BYTES_MAX: usize = 10 << 10;

/// The reason for which a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address is in use, or not this machine's.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// Address at which the server was to listen.
        address: SocketAddr,
        /// The operating system's error.
        error: io::Error,
    },
    /// The system refuses a thread.
    #[error("the system refuses a thread: {0}")]
    Thread(io::Error),
    /// The system gives no random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(#[from] getrandom::Error),
    /// The settings cannot be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The engine's.
    #[error(transparent)]
    Engine(#[from] heddledb::Error),
    /// An error of the SQL catalog.
    #[error(transparent)]
    Sql(#[from] heddle_sql::SqlError),
}

/// State that all connections share.
pub(crate) struct Shared {
    current: RwLock<Current>,
    pub(crate) registry: Arc<Registry>,
    /// Set when the server shuts down.
    is_ending: AtomicBool,
    /// The secret from which the salts of unknown users are made.
    pub(crate) secret: [u8; 32],
    /// The database, once it has recovered.
    pub(crate) served: OnceLock<Served>,
    pub(crate) started: SystemTime,
    /// Accesses that open pages show.
    pub(crate) busiest: Busiest,
}

/// Configuration that a reload replaces. A connection uses the one that is in force when it begins.
#[derive(Clone)]
pub(crate) struct Current {
    pub(crate) settings: Arc<Settings>,
    pub(crate) tls: Option<Tls>,
}

impl Shared {
    /// The settings and certificates that are in force now.
    pub(crate) fn current(&self) -> Current {
        self.current.read().clone()
    }

    /// The gravest problem that an operator has to solve. `None` if there is none.
    pub(crate) fn trouble(&self) -> Option<String> {
        let database = self.served.get()?.sql.database();
        if let Some(failure) = database.log_failure() {
            return Some(format!("the log has failed, and commits are refused: {failure}"));
        }
        if let Some(standby) = database.standby_status() {
            return standby.failure.map(|failure| failure.to_string());
        }
        if let Some(refusal) = database.updates_refused() {
            return Some(format!("commits are refused: {refusal}"));
        }
        let checkpoints = database.checkpoints();
        let failure = checkpoints.failure.filter(|_| checkpoints.failed > 0)?;
        Some(format!("the last checkpoint failed: {failure}"))
    }

    /// Returns true if statements are accepted: the database has recovered, its log has not failed, and the
    /// server is not shutting down.
    pub(crate) fn is_ready(&self) -> bool {
        let writes = |served: &Served| served.sql.database().log_failure().is_none();
        // Acquire: partner of the store in `Server::end`.
        self.served.get().is_some_and(writes) && !self.is_ending.load(Ordering::Acquire)
    }

    /// Returns true if the server is shutting down.
    pub(crate) fn has_ended(&self) -> bool {
        // Acquire: as above.
        self.is_ending.load(Ordering::Acquire)
    }

    /// Returns true if clients from this machine are trusted under any name.
    pub(crate) fn trusts_everybody(&self) -> bool {
        let has_rules = !self.current().settings.hosts.is_empty();
        self.served.get().is_some_and(|served| !has_rules && !served.sql.has_passwords())
    }
}

/// State that exists once the database has recovered.
pub(crate) struct Served {
    pub(crate) sql: Sql,
}

/// A server that accepts clients until it is dropped.
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    http: Option<Http>,
    acceptor: Option<JoinHandle<()>>,
    watcher: Option<JoinHandle<()>>,
}

/// Interval between two checks for clients that have left.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

impl Server {
    /// Listens. Until a database is [served](Self::serve), clients receive the error that it starts up (SQLSTATE 57P03).
    ///
    /// # Errors
    /// The address is in use or not this machine's, a file of the settings cannot be used, or the system refuses a
    /// thread.
    pub fn listen(settings: Settings) -> Result<Server, ServerError> {
        let tls = tls::configure(&settings)?;
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)?;
        let asked = settings.listen;
        let listen = |error| ServerError::Listen { address: asked, error };
        let listener = TcpListener::bind(asked).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let http = settings.http;
        let shared = Arc::new(Shared {
            current: RwLock::new(Current { settings: Arc::new(settings), tls }),
            registry: Registry::new(),
            is_ending: AtomicBool::new(false),
            secret,
            served: OnceLock::new(),
            started: SystemTime::now(),
            busiest: Busiest::default(),
        });
        let http = http.map(|address| Http::listen(address, shared.clone())).transpose()?;
        let life = {
            let shared = shared.clone();
            move || accept(&listener, &shared)
        };
        let acceptor = thread::Builder::new().name("heddle-accept".to_owned()).spawn(life);
        let acceptor = acceptor.map_err(ServerError::Thread)?;
        let watched = shared.clone();
        let watcher = thread::Builder::new().name("heddle-watch".to_owned()).spawn(move || watch(&watched));
        let mut server = Server { shared, address, http, acceptor: Some(acceptor), watcher: None };
        server.watcher = Some(watcher.map_err(ServerError::Thread)?);
        Ok(server)
    }

    /// Serves this database to all that connect from now on. A server serves one database: a second call changes nothing.
    ///
    /// # Errors
    /// The tables of users and of the SQL catalog cannot be read or made.
    pub fn serve(&self, database: &Database) -> Result<(), ServerError> {
        let served = Served { sql: Sql::new(database)? };
        let settings = self.shared.current().settings;
        apply(&settings, &served.sql);
        served.sql.set_database_names(&[&settings.database, "postgres"]);
        served.sql.on_slow_statement(log_slow_statement);
        for setting in served.sql.ignored_settings() {
            tracing::warn!("a setting that ALTER SYSTEM has saved is not in force: {setting}");
        }
        // Accesses are noted only while a page is open that shows them.
        database.trace_accesses(false);
        let _ = self.shared.served.set(served);
        watch::start(&self.shared).map_err(ServerError::Thread)
    }

    /// Makes the standby that is served the database that it replays. Its clients go on.
    ///
    /// # Errors
    /// Those of [`Sql::promote`]; [`StandbyError::NoStandby`] where no database is served.
    pub fn promote(&self) -> Result<(), ServerError> {
        let served = self.shared.served.get();
        let served = served.ok_or(heddledb::Error::Standby(StandbyError::NoStandby))?;
        Ok(served.sql.promote()?)
    }

    /// Puts new settings in force: limits at once, session defaults and certificates for connections that begin later.
    /// Returns the keys that have changed and need a restart: for these, the old values stay in force.
    ///
    /// # Errors
    /// A file of the settings cannot be used. Then nothing has changed.
    pub fn reload(&self, mut settings: Settings) -> Result<Vec<&'static str>, ServerError> {
        let tls = tls::configure(&settings)?;
        let mut current = self.shared.current.write();
        let restart = current.settings.that_need_a_restart(&settings);
        settings.keep_what_needs_a_restart(&current.settings);
        if let Some(served) = self.shared.served.get() {
            apply(&settings, &served.sql);
        }
        *current = Current { settings: Arc::new(settings), tls };
        Ok(restart)
    }

    /// The address at which it listens, with its actual port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The users of the served database, once there is one.
    pub fn users(&self) -> Option<Users> {
        self.shared.served.get().map(|served| Users::of(&served.sql))
    }

    /// Returns true if clients from this machine are trusted under any name, because no role has a password.
    pub fn trusts_everybody(&self) -> bool {
        self.shared.trusts_everybody()
    }

    /// The address of metrics and the live page, if they are served.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(Http::address)
    }

    /// The number of connections.
    pub fn connections(&self) -> usize {
        self.shared.registry.connections()
    }

    /// Takes no more clients, lets statements in progress end for the settings' `drain_s`, and closes all connections
    /// (SQLSTATE 57P01).
    pub fn shut_down(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let Some(acceptor) = self.acceptor.take() else { return };
        // Release: the acceptor acquires it after the connection that wakes it up.
        self.shared.is_ending.store(true, Ordering::Release);
        wake_acceptor(self.address);
        let _ = acceptor.join();
        let timeout = self.shared.current().settings.drain_s;
        self.shared.registry.drain(Duration::from_secs(timeout));
        self.http = None;
        if let Some(watcher) = self.watcher.take() {
            watcher.thread().unpark();
            let _ = watcher.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Puts those settings in force that all sessions share.
fn apply(settings: &Settings, sql: &Sql) {
    sql.set_work_memory_limit(clamped(settings.total_work_mem_bytes));
    sql.set_slow_statement_limit(settings.log_min_duration_ms.map(Duration::from_millis));
}

/// Logs a statement without its constants: its parameters and passwords appear nowhere.
fn log_slow_statement(slow: SlowStatement) {
    let SlowStatement { time, process_id, user, statement } = slow;
    let milliseconds = time.as_secs_f64() * 1e3;
    tracing::info!(process_id, user, milliseconds, statement, "slow statement");
}

/// A number of bytes, however many the settings ask for.
fn clamped(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Wakes a thread that waits for a connection at this address.
pub(crate) fn wake_acceptor(address: SocketAddr) {
    // If it fails, the next client wakes it.
    let _ = TcpStream::connect_timeout(&loopback(address), Duration::from_secs(1));
}

/// An address at which this machine reaches a listener.
fn loopback(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        let ip: IpAddr =
            if address.is_ipv4() { [127, 0, 0, 1].into() } else { [0, 0, 0, 0, 0, 0, 0, 1_u16].into() };
        address.set_ip(ip);
    }
    address
}

/// Ends the statements of clients that have left, until the server ends.
fn watch(shared: &Shared) {
    // Acquire: partner of the store in `Server::end`.
    while !shared.is_ending.load(Ordering::Acquire) {
        thread::park_timeout(WATCH_INTERVAL);
        shared.registry.end_abandoned();
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    loop {
        let accepted = listener.accept();
        // Acquire: partner of the store in `Server::end`.
        if shared.is_ending.load(Ordering::Acquire) {
            return;
        }
        match accepted {
            Ok((socket, address)) => {
                if let Err(error) = serve(shared, socket, address) {
                    tracing::warn!(%address, %error, "no connection could be made");
                }
            }
            Err(error) => {
                // Out of file descriptors, say: some come back when connections end.
                tracing::warn!(%error, "cannot accept a connection");
                thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

/// Starts the thread of a connection.
fn serve(shared: &Arc<Shared>, socket: TcpStream, address: SocketAddr) -> io::Result<()> {
    let keepalive = socket2::TcpKeepalive::new()
        .with_time(Duration::from_secs(60))
        .with_interval(Duration::from_secs(10));
    socket2::SockRef::from(&socket).set_tcp_keepalive(&keepalive)?;
    let write_timeout = limit(shared.current().settings.client_write_timeout_s.saturating_mul(1_000));
    socket.set_write_timeout(write_timeout)?;
    let mut transport = Transport::new(socket, STARTUP_BYTES_MAX)?;
    let settings = shared.current().settings;
    // Beyond the limit for unauthenticated the clients are closed without an error: one would cost a thread, too.
    let Some(unauthenticated) =
        shared.registry.admit(ConnectionKind::Unauthenticated, settings.max_unauthenticated)
    else {
        return Err(io::Error::other("there are too many unauthenticated connections"));
    };
    let admitted = shared.registry.admit(ConnectionKind::Connection, settings.max_connections);
    let shared = shared.clone();
    let life = move || match admitted {
        Some(admitted) => connection::run(&shared, transport, address.ip(), (admitted, unauthenticated)),
        None => {
            let failure = Failure::fatal("53300", "sorry, too many clients already: raise max_connections");
            connection::refuse(&shared, &mut transport, &failure);
        }
    };
    thread::Builder::new().name("heddle-client".to_owned()).stack_size(STACK_BYTES).spawn(life).map(drop)
}
