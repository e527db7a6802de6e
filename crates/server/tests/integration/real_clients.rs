//! Unmodified clients of PostgreSQL against the server, each as a program of its own in `clients/`.
//!
//! `clients/install DIR` installs them, and `HEDDLE_CLIENTS=DIR` tells where they are. A client that is not installed is
//! skipped with a message, unless `HEDDLE_REQUIRED` names it (`tests/support/skips.rs`): `python`, `node`, `go`, `java`, `sysbench`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::skips;
use crate::support::Running;

/// The client that is installed at this path below `HEDDLE_CLIENTS`.
fn installed(path: &str) -> Option<PathBuf> {
    let found = std::env::var_os("HEDDLE_CLIENTS").map(|directory| Path::new(&directory).join(path));
    let found = found.filter(|path| path.exists());
    if found.is_none() {
        let client = path.split('/').next().unwrap_or(path);
        skips::skip(client, &format!("HEDDLE_CLIENTS has no {path} (see clients/install)"));
    }
    found
}

/// A program of Debian's that is on the path.
fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|directory| directory.join(name)).find(|path| path.exists());
    if found.is_none() {
        skips::skip(name, &format!("{name} is not installed"));
    }
    found
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/integration/clients").join(name)
}

/// Runs a client's program, which says itself what does not hold; what it printed.
fn succeeds(command: &mut Command) -> String {
    let output = command.output().expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let printed = text(&output.stdout) + &text(&output.stderr);
    println!("{printed}");
    assert!(output.status.success(), "{printed}");
    printed
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
fn django_runs_its_tests_in_the_database_that_is_there() {
    let Some(python) = installed("python/bin/python") else { return };
    let running = Running::start();
    // The second time, the schema and rows of the first are there.
    for _ in 0..2 {
        let mut command = Command::new(&python);
        command.args(["-B", "-m", "django", "test", "--keepdb", "--noinput", "shop"]);
        command.current_dir(source("django_project")).env("PYTHONPATH", source("django_project"));
        command.env("DJANGO_SETTINGS_MODULE", "settings").env("HEDDLE_DATABASE", "heddle");
        succeeds(command.env("HEDDLE_PORT", running.port().to_string()));
    }
}

/// sysbench's workloads, each prepared, run with one thread and with eight, and cleaned up.
#[test]
fn sysbench() {
    let Some(sysbench) = on_path("sysbench") else { return };
    let running = Running::start();
    for workload in [
        "oltp_read_write",
        "oltp_read_only",
        "oltp_write_only",
        "oltp_point_select",
        "oltp_update_index",
        "oltp_update_non_index",
        "oltp_insert",
        "oltp_delete",
        "select_random_points",
        "select_random_ranges",
        "bulk_insert",
    ] {
        let run = |threads: &str, step: &str| {
            let mut command = Command::new(&sysbench);
            command.args([
                "--db-driver=pgsql",
                "--pgsql-host=127.0.0.1",
                "--pgsql-user=ada",
                "--pgsql-db=heddle",
            ]);
            command.arg(format!("--pgsql-port={}", running.port()));
            command
                .args(["--time=0", "--events=200", "--table-size=2000"])
                .arg(format!("--threads={threads}"));
            succeeds(command.args([workload, step]))
        };
        // What bulk_insert inserts begins with 1 each time.
        for threads in ["1", "8"] {
            run(threads, "prepare");
            let printed = run(threads, "run");
            assert!(!printed.contains("FATAL"), "{workload}: {printed}");
            run(threads, "cleanup");
        }
    }
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
