//! A private PostgreSQL 15 as an oracle: started in a temporary directory, reached through its Unix socket with `psql`.
//!
//! Invariants: the server runs as a user other than root, listens to no network, and ends with [`Oracle`]. Where
//! PostgreSQL is missing, [`Oracle::start`] counts the test as skipped and answers none.

#[path = "../../../../../tests/support/skips.rs"]
pub mod skips;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The directory of PostgreSQL 15 in Debian.
const DEBIAN_BINARIES: &str = "/usr/lib/postgresql/15/bin";
/// Time in which the server must accept connections.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Between columns of `psql`'s output.
const FIELD_SEPARATOR: char = '\x1f';
/// Between rows of `psql`'s output.
const RECORD_SEPARATOR: char = '\x1e';
/// The text that `psql` prints for NULL.
const NULL_TEXT: &str = "\x1dNULL";
/// Printed behind each answer.
const END_MARK: &str = "\x1cEND";

/// A running PostgreSQL.
pub struct Oracle {
    server: Child,
    directory: TempDir,
    binaries: PathBuf,
    identity: Option<(u32, u32)>,
}

/// A connection to it.
pub struct Session {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// The answer of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The rows, as text; NULL is none.
    pub rows: Vec<Vec<Option<String>>>,
    /// `00000`, or the error's.
    pub sqlstate: String,
}

/// The result of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evaluated {
    /// Its type's name, and its value as text.
    Value(String, Option<String>),
    /// The SQLSTATE of its error.
    Error(String),
}

impl Oracle {
    /// Starts PostgreSQL 15, or says why it can't and answers none.
    pub fn start() -> Option<Oracle> {
        let Some(binaries) = binaries() else {
            skips::skip("postgresql", "PostgreSQL 15 is not installed, so nothing was compared with it");
            return None;
        };
        let directory = tempfile::tempdir().unwrap();
        let identity = identity();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let data = directory.path().join("data");
        fs::create_dir(&data).unwrap();
        fs::set_permissions(&data, fs::Permissions::from_mode(0o700)).unwrap();
        if let Some((user, group)) = identity {
            chown(directory.path(), Some(user), Some(group)).unwrap();
            chown(&data, Some(user), Some(group)).unwrap();
        }
        let mut initdb = command(&binaries, "initdb", identity);
        initdb
            .args(["--locale=C.UTF-8", "-E", "UTF8", "-A", "trust", "-U", "postgres", "--no-sync", "-D"])
            .arg(&data);
        let output = initdb.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "initdb: {}", String::from_utf8_lossy(&output.stderr));
        let mut server = command(&binaries, "postgres", identity);
        server.arg("-D").arg(&data).arg("-k").arg(directory.path());
        for setting in [
            "listen_addresses=",
            "fsync=off",
            "TimeZone=UTC",
            "default_transaction_isolation=serializable",
            "log_min_messages=fatal",
            "max_connections=20",
        ] {
            server.args(["-c", setting]);
        }
        let server = server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let oracle = Oracle { server, directory, binaries, identity };
        oracle.wait_until_ready();
        Some(oracle)
    }

    /// The socket at which it listens.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join(".s.PGSQL.5432")
    }

    /// The server's process.
    pub fn process_id(&self) -> u32 {
        self.server.id()
    }

    fn wait_until_ready(&self) {
        let started = Instant::now();
        loop {
            let ready = command(&self.binaries, "pg_isready", None)
                .arg("-q")
                .arg("-h")
                .arg(self.directory.path())
                .status();
            if ready.is_ok_and(|status| status.success()) {
                return;
            }
            assert!(started.elapsed() < START_TIMEOUT, "PostgreSQL did not start");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Runs a script to its first error, which is answered.
    pub fn run_script(&self, script: &Path) -> Result<(), String> {
        let mut psql = command(&self.binaries, "psql", None);
        psql.args(["-X", "-q", "-U", "postgres", "-d", "postgres", "-v", "ON_ERROR_STOP=1", "-h"]);
        let output = psql.arg(self.directory.path()).arg("-f").arg(script).output().unwrap();
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    /// Opens a connection.
    pub fn connect(&self) -> Session {
        let mut psql = command(&self.binaries, "psql", None);
        psql.args(["-X", "-q", "-A", "-t", "-U", "postgres", "-d", "postgres", "-h"])
            .arg(self.directory.path());
        psql.args(["-P", &format!("null={NULL_TEXT}")]);
        psql.args(["-F", &FIELD_SEPARATOR.to_string(), "-R", &RECORD_SEPARATOR.to_string()]);
        psql.env("PGOPTIONS", "-c client_min_messages=error");
        psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = psql.spawn().unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut session = Session { process, input, output };
        session.prepare();
        session
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        let mut stop = command(&self.binaries, "pg_ctl", self.identity);
        stop.args(["stop", "-m", "immediate", "-s", "-D"]).arg(self.directory.path().join("data"));
        let _ = stop.stdout(Stdio::null()).stderr(Stdio::null()).status();
        let _ = self.server.wait();
    }
}

impl Session {
    fn prepare(&mut self) {
        let answer = self.run(
            "CREATE OR REPLACE FUNCTION pg_temp.heddle_evaluate(expression text) RETURNS text LANGUAGE plpgsql AS $f$
             DECLARE result text;
             BEGIN
               EXECUTE 'SELECT pg_typeof(x)::text || chr(31) || CASE WHEN x IS NOT DISTINCT FROM NULL THEN chr(29) ELSE
                        format(''%s'', x) END FROM (SELECT ' || expression || ' AS x) AS t' INTO result;
               RETURN result;
             EXCEPTION WHEN OTHERS THEN RETURN chr(30) || SQLSTATE;
             END $f$",
        );
        assert_eq!(answer.sqlstate, "00000");
    }

    /// Runs one statement (without a semicolon).
    pub fn run(&mut self, statement: &str) -> Answer {
        let text = self.send(&format!("{statement}\n;\n"));
        let (rows, sqlstate) = text.rsplit_once('\x1b').unwrap();
        // One empty text is an empty line, no row is nothing at all.
        let body = rows.strip_suffix('\n').unwrap_or(rows);
        let field = |field: &str| if field == NULL_TEXT { None } else { Some(field.to_string()) };
        let row = |row: &str| row.split(FIELD_SEPARATOR).map(field).collect();
        let rows = if rows.is_empty() { Vec::new() } else { body.split(RECORD_SEPARATOR).map(row).collect() };
        Answer { rows, sqlstate: sqlstate.to_string() }
    }

    /// The message of the last error.
    pub fn last_message(&mut self) -> String {
        let text = self.send("\\echo :LAST_ERROR_MESSAGE\n");
        text.rsplit_once('\x1b').map_or(String::new(), |(message, _)| message.trim_end().to_string())
    }

    /// The names and types of a statement's columns.
    pub fn describe(&mut self, statement: &str) -> Result<Vec<(String, String)>, String> {
        let text = self.send(&format!("{statement}\n\\gdesc\n"));
        let (rows, sqlstate) = text.rsplit_once('\x1b').unwrap();
        if sqlstate != "00000" {
            return Err(sqlstate.to_string());
        }
        let body = rows.trim_end_matches('\n');
        let column = |row: &str| {
            let (name, kind) = row.split_once(FIELD_SEPARATOR).unwrap_or((row, ""));
            (name.to_string(), kind.to_string())
        };
        Ok(body.split(RECORD_SEPARATOR).filter(|row| !row.is_empty()).map(column).collect())
    }

    /// Evaluates expressions one by one; an error of one does not touch the others.
    pub fn evaluate(&mut self, expressions: &[String]) -> Vec<Evaluated> {
        let mut results = Vec::with_capacity(expressions.len());
        for part in expressions.chunks(500) {
            let rows: Vec<String> =
                part.iter().enumerate().map(|(at, it)| format!("({at}, $q${it}$q$)")).collect();
            // The separators inside of results are those between columns and rows: encode them away.
            let answer = self.run(&format!(
                "SELECT encode(convert_to(pg_temp.heddle_evaluate(e), 'UTF8'), 'hex') FROM (VALUES {}) v(n, e) ORDER BY n",
                rows.join(",\n")
            ));
            assert_eq!(answer.sqlstate, "00000", "{part:?}");
            results.extend(answer.rows.iter().map(|row| decode_evaluated(row[0].as_deref().unwrap())));
        }
        results
    }

    /// Sends lines and reads everything up to the end mark; the SQLSTATE stands behind the last escape character.
    fn send(&mut self, text: &str) -> String {
        writeln!(self.input, "{text}\\echo '\\033':SQLSTATE'{END_MARK}'").unwrap();
        self.input.flush().unwrap();
        let mut received = Vec::new();
        let mark = END_MARK.as_bytes();
        while !received.ends_with(&[mark, b"\n"].concat()) {
            let before = received.len();
            self.output.read_until(b'\n', &mut received).unwrap();
            if received.len() == before {
                let status = self.process.wait();
                panic!("psql ended: {status:?}, after {}", String::from_utf8_lossy(&received));
            }
        }
        received.truncate(received.len() - mark.len() - 1);
        String::from_utf8_lossy(&received).into_owned()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.input.write_all(b"\\q\n");
        let _ = self.input.flush();
        let mut rest = Vec::new();
        let _ = self.output.read_to_end(&mut rest);
        let _ = self.process.wait();
    }
}

fn decode_evaluated(hex: &str) -> Evaluated {
    let bytes: Vec<u8> =
        (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[at * 2..at * 2 + 2], 16).unwrap()).collect();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if let Some(sqlstate) = text.strip_prefix('\x1e') {
        return Evaluated::Error(sqlstate.to_string());
    }
    let (kind, value) = text.split_once('\x1f').unwrap();
    Evaluated::Value(kind.to_string(), (value != "\x1d").then(|| value.to_string()))
}

fn binaries() -> Option<PathBuf> {
    let candidate = std::env::var("HEDDLE_POSTGRES_BIN").unwrap_or_else(|_| DEBIAN_BINARIES.to_string());
    Path::new(&candidate).join("initdb").exists().then(|| PathBuf::from(candidate))
}

/// The user under which the server runs, if these tests run as root: PostgreSQL refuses root.
fn identity() -> Option<(u32, u32)> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let is_root =
        status.lines().any(|line| line.starts_with("Uid:") && line.split_whitespace().nth(2) == Some("0"));
    if !is_root {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let find = |name: &str| {
        users.lines().map(|line| line.split(':').collect::<Vec<_>>()).find_map(|fields| {
            match fields.as_slice() {
                [user, _, uid, gid, ..] if *user == name => Some((uid.parse().ok()?, gid.parse().ok()?)),
                _ => None,
            }
        })
    };
    find("postgres").or_else(|| find("nobody"))
}

fn command(binaries: &Path, program: &str, identity: Option<(u32, u32)>) -> Command {
    let mut command = Command::new(binaries.join(program));
    command.current_dir("/");
    if let Some((user, group)) = identity {
        command.uid(user).gid(group);
    }
    command
}
