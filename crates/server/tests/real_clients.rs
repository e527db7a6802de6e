//! Unmodified clients of PostgreSQL against the server, each as a program of its own in `clients/`.
//!
//! `clients/install DIR` installs them, and `HEDDLE_CLIENTS=DIR` tells where they are. A client that is not installed is
//! skipped with a message; `HEDDLE_CLIENTS_REQUIRED` set to anything makes that a failure.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::Running;

/// What is installed at this path below `HEDDLE_CLIENTS`.
fn installed(path: &str) -> Option<PathBuf> {
    let found = std::env::var_os("HEDDLE_CLIENTS").map(|directory| Path::new(&directory).join(path));
    let found = found.filter(|path| path.exists());
    if found.is_none() {
        assert!(std::env::var_os("HEDDLE_CLIENTS_REQUIRED").is_none(), "{path} is not installed");
        println!("skipped: HEDDLE_CLIENTS has no {path} (see clients/install)");
    }
    found
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

/// Runs a client's program, which says itself what does not hold.
fn succeeds(command: &mut Command) {
    let output = command.output().expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    println!("{}", text(&output.stdout));
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}

fn url(running: &Running, scheme: &str) -> String {
    format!("{scheme}://ada@127.0.0.1:{}/heddle", running.port())
}

fn address(running: &Running) -> [String; 4] {
    ["127.0.0.1".to_owned(), running.port().to_string(), "ada".to_owned(), "heddle".to_owned()]
}

#[test]
fn psycopg() {
    let Some(python) = installed("python/bin/python") else { return };
    let running = Running::start();
    let conninfo = format!("host=127.0.0.1 port={} user=ada dbname=heddle", running.port());
    succeeds(Command::new(python).arg(source("psycopg_client.py")).arg(conninfo));
}

#[test]
fn asyncpg() {
    let Some(python) = installed("python/bin/python") else { return };
    let running = Running::start();
    succeeds(Command::new(python).arg(source("asyncpg_client.py")).args(address(&running)));
}

#[test]
fn sqlalchemy_and_alembic() {
    let Some(python) = installed("python/bin/python") else { return };
    let running = Running::start();
    let url = url(&running, "postgresql+psycopg");
    succeeds(Command::new(python).arg(source("sqlalchemy_client.py")).arg(url));
}

#[test]
fn django() {
    let Some(python) = installed("python/bin/python") else { return };
    let running = Running::start();
    succeeds(Command::new(python).arg(source("django_client.py")).args(address(&running)));
}

#[test]
fn node_postgres() {
    let Some(modules) = installed("node/node_modules") else { return };
    let running = Running::start();
    let program = source("node_client.js");
    succeeds(Command::new("node").arg(program).arg(url(&running, "postgresql")).env("NODE_PATH", modules));
}

#[test]
fn pgx() {
    let Some(program) = installed("go/pgxclient") else { return };
    let running = Running::start();
    succeeds(Command::new(program).arg(url(&running, "postgresql")));
}

#[test]
fn jdbc() {
    let Some(driver) = installed("java/postgresql-42.7.4.jar") else { return };
    let running = Running::start();
    let url = format!("jdbc:postgresql://127.0.0.1:{}/heddle?user=ada", running.port());
    succeeds(Command::new("java").arg("-cp").arg(driver).arg(source("jdbc/JdbcClient.java")).arg(url));
}
