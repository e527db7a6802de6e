//! Tests that pg_dump's script of a database is restored by PostgreSQL and by another HeddleDB, without an
//! error.
//!
//! Needs PostgreSQL's programs: those of `HEDDLE_POSTGRES` (a directory), or of Debian's package of version 15. Where
//! they are missing, the tests are skipped with a message.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::skips;
use crate::support::Running;

const SCHEMA: &str = include_str!("dump.sql");

/// Every table and view, and what the next rows get from sequences: the same wherever the dump was restored.
const CHECKS: &[&str] = &[
    "select * from author order by id",
    "select * from book order by id",
    "select * from other.\"Odd Name\" order by a",
    "select * from uses order by n",
    "select * from titles order by name",
    "select * from a_first order by name",
    "select * from other.counted",
    "select * from sold order by name",
    "select relname, relkind, relispopulated, obj_description(oid) from pg_class where relkind = 'm' order by relname",
    "refresh materialized view concurrently sold",
    "refresh materialized view other.empty",
    "select * from other.empty order by name",
    "select indexname from pg_indexes where tablename = 'sold' order by 1",
    "insert into author (name) values ('Bachman') returning id, born, feels",
    "insert into book (author_id, title) values (3, 'The Programmer') returning id, tags, length",
    "insert into other.\"Odd Name\" (e) values ('z') returning a, \"B c\", d",
    "insert into uses default values returning n, k",
    "select pg_get_serial_sequence('author', 'id'), pg_get_serial_sequence('other.\"Odd Name\"', 'B c'),
     pg_get_serial_sequence('book', 'id'), pg_get_serial_sequence('other.\"Odd Name\"', 'e')",
    "select obj_description('book'::regclass), col_description('book'::regclass, 3)",
    "select * from kinds",
    "select * from event order by id",
    "select indexdef from pg_indexes where tablename in ('event', 'book') order by indexname",
    "select classoid::regclass, objsubid, description from pg_description
     where objoid >= 16384 order by description collate \"C\"",
    "select tgname, pg_get_triggerdef(oid) from pg_trigger where not tgisinternal order by 1",
    "select conname, pg_get_constraintdef(oid) from pg_constraint where conrelid = 'event'::regclass order by 1",
    "insert into event (name) values ('c') returning id, twice",
    "drop table other.\"Odd Name\" cascade",
    "select count(*) from pg_sequences where schemaname = 'other'",
];

/// Statements that neither side may accept, with their SQLSTATEs.
const REFUSED: &[(&str, &str)] = &[
    ("insert into author (name) values ('Gray')", "23505"),
    ("insert into book (author_id, title) values (77, 'x')", "23503"),
    ("insert into book (author_id, title) values (1, '')", "23514"),
    ("insert into book (author_id, cost) values (1, -1)", "23514"),
    ("insert into uses (m) values ('o''k')", "23514"),
    ("insert into sold values ('x', 1)", "42809"),
    ("comment on trigger none on ledger is 'x'", "42704"),
    ("comment on constraint none on book is 'x'", "42704"),
    ("comment on constraint none on domain price is 'x'", "42704"),
    ("comment on view author is 'x'", "42809"),
    ("comment on table titles is 'x'", "42809"),
    ("comment on index none is 'x'", "42P01"),
    ("comment on column titles.none is 'x'", "42703"),
    ("drop sequence alone", "2BP01"),
    ("drop sequence author_id_seq", "2BP01"),
];

/// The directory of PostgreSQL's programs.
fn programs() -> Option<PathBuf> {
    let named = std::env::var_os("HEDDLE_POSTGRES").map(PathBuf::from);
    let directory = named.unwrap_or_else(|| "/usr/lib/postgresql/15/bin".into());
    let found =
        ["initdb", "pg_ctl", "pg_dump", "psql"].iter().all(|program| directory.join(program).exists());
    if !found {
        let why = format!("{} has no initdb, pg_ctl, pg_dump and psql", directory.display());
        skips::skip("postgresql", &why);
    }
    found.then_some(directory)
}

/// The output of a program that must succeed.
fn output(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("the program starts");
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?}: {stderr}");
    String::from_utf8(stdout).expect("UTF-8")
}

/// A server of either kind, as PostgreSQL's programs reach it.
struct Target {
    programs: PathBuf,
    host: String,
    port: u16,
    database: &'static str,
}

impl Target {
    fn of(programs: &Path, running: &Running) -> Target {
        let (programs, host) = (programs.to_owned(), "127.0.0.1".to_owned());
        Target { programs, host, port: running.port(), database: "heddle" }
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command.args(["-h", &self.host, "-U", "ada", "-d", self.database, "-p"]).arg(self.port.to_string());
        command
    }

    fn psql(&self) -> Command {
        let mut command = self.program("psql");
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]);
        command
    }

    fn run(&self, statement: &str) -> String {
        output(self.psql().args(["-c", statement]))
    }

    /// Runs a file as `psql -f` does. Any error ends it.
    fn restore(&self, dump: &str) {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(&file, dump).expect("written");
        output(self.psql().arg("-f").arg(file.path()));
    }

    /// A dump without the lines that are different each time.
    fn dump(&self) -> String {
        let dump = output(&mut self.program("pg_dump"));
        let lines =
            dump.lines().filter(|line| !line.starts_with("\\restrict") && !line.starts_with("\\unrestrict"));
        lines.map(|line| format!("{line}\n")).collect()
    }

    /// The answers of the checks. The refused statements are behind them: they take values from sequences,
    /// too.
    fn answers(&self) -> Vec<String> {
        let answers = CHECKS.iter().map(|check| self.run(check)).collect();
        for (statement, state) in REFUSED {
            let verbose = ["-v", "VERBOSITY=sqlstate", "-c", statement];
            let refused = self.psql().args(verbose).output().expect("psql starts");
            let message = String::from_utf8_lossy(&refused.stderr);
            assert!(message.contains(state), "{statement}: {message}");
        }
        answers
    }
}

/// A PostgreSQL server of the test's own, on a socket in its directory.
struct PostgreSql {
    programs: PathBuf,
    directory: tempfile::TempDir,
}

impl PostgreSql {
    fn start(programs: &Path) -> PostgreSql {
        let directory = tempfile::tempdir().expect("a directory");
        // For the user that the server runs as if the tests run as root, which PostgreSQL refuses.
        std::fs::set_permissions(&directory, Permissions::from_mode(0o777)).expect("permissions");
        let postgres = PostgreSql { programs: programs.to_owned(), directory };
        output(postgres.command("initdb").args(["-A", "trust", "-U", "ada", "-E", "UTF8", "--no-sync"]));
        let options = format!("-F -c listen_addresses= -k {}", postgres.directory.path().display());
        let log = postgres.directory.path().join("log");
        // Not `output`: the server would keep the pipe open.
        let status = postgres
            .command("pg_ctl")
            .args(["-w", "-s", "-o", &options, "-l"])
            .arg(log)
            .arg("start")
            .status();
        assert!(status.expect("pg_ctl starts").success(), "PostgreSQL starts");
        postgres
    }

    fn command(&self, program: &str) -> Command {
        let path = self.programs.join(program);
        let is_root = output(Command::new("id").arg("-u")).trim() == "0";
        let mut command = Command::new(if is_root { "runuser".into() } else { path.clone() });
        if is_root {
            command.args(["-u", "postgres", "--"]).arg(path);
        }
        command.arg("-D").arg(self.directory.path().join("data")).current_dir(&self.directory);
        command
    }

    fn target(&self) -> Target {
        let host = self.directory.path().display().to_string();
        Target { programs: self.programs.clone(), host, port: 5432, database: "postgres" }
    }
}

impl Drop for PostgreSql {
    fn drop(&mut self) {
        let _ = self.command("pg_ctl").args(["-s", "-m", "immediate", "stop"]).status();
    }
}

/// Checks that two texts are the same; if not, shows the lines that only one of them has.
#[track_caller]
fn assert_same(left: &str, right: &str) {
    let of_one = |one: &str, other: &str| {
        let only = one.lines().filter(|line| !other.lines().any(|known| known == *line));
        only.map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(left == right, "only left: {:#?}, only right: {:#?}", of_one(left, right), of_one(right, left));
}

#[test]
fn a_dump_is_restored_by_postgresql() {
    let Some(programs) = programs() else { return };
    let running = Running::start();
    let ours = Target::of(&programs, &running);
    ours.restore(SCHEMA);
    let postgres = PostgreSql::start(&programs);
    let theirs = postgres.target();
    theirs.restore(&ours.dump());
    assert_same(&theirs.answers().concat(), &ours.answers().concat());
}

#[test]
fn a_dump_is_restored_here_and_dumped_again_the_same() {
    let Some(programs) = programs() else { return };
    let (first, second) = (Running::start(), Running::start());
    let (first, second) = (Target::of(&programs, &first), Target::of(&programs, &second));
    first.restore(SCHEMA);
    let dump = first.dump();
    second.restore(&dump);
    assert_same(&second.dump(), &dump);
    assert_same(&second.answers().concat(), &first.answers().concat());
}

#[test]
fn a_dump_of_the_restored_database_by_postgresql_is_restored_here() {
    let Some(programs) = programs() else { return };
    let (first, second) = (Running::start(), Running::start());
    let (first, second) = (Target::of(&programs, &first), Target::of(&programs, &second));
    first.restore(SCHEMA);
    let postgres = PostgreSql::start(&programs);
    postgres.target().restore(&first.dump());
    second.restore(&postgres.target().dump());
    assert_same(&second.answers().concat(), &first.answers().concat());
}

#[test]
fn a_database_of_postgresql_comes_back_from_here_without_a_difference() {
    let Some(programs) = programs() else { return };
    let (postgres, running) = (PostgreSql::start(&programs), Running::start());
    let (theirs, ours) = (postgres.target(), Target::of(&programs, &running));
    theirs.restore(SCHEMA);
    let before = theirs.dump();
    ours.restore(&before);
    let back = ours.dump();
    theirs.run("create database back");
    let restored = Target { database: "back", ..postgres.target() };
    restored.restore(&back);
    assert_same(&restored.dump(), &before);
}
