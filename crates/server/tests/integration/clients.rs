//! A server and real clients: queries, transactions, errors, COPY, cancellation, passwords, and the end of the server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use heddle_server::server::Server;
use heddle_server::settings::Settings;
use heddledb::{Database, Durability, Options};
use postgres::error::SqlState;
use postgres::{Client, Config, NoTls};

struct Running {
    /// Closed when the server has ended.
    _db: Database,
    server: Server,
}

fn settings() -> Settings {
    let flags = "listen = '127.0.0.1:0'\nauthentication_timeout_s = 5\ndrain_s = 1";
    Settings::load(Some(flags), [], toml::Table::new()).expect("the settings are right")
}

fn start() -> Running {
    let db =
        Database::in_memory_with(Options::default().durability(Durability::None)).expect("options are right");
    let server = Server::listen(settings()).expect("a port is free");
    server.serve(&db).expect("the catalog can be made");
    Running { _db: db, server }
}

impl Running {
    fn config(&self, user: &str) -> Config {
        let mut config = Config::new();
        config.host("127.0.0.1").port(self.server.address().port()).user(user).dbname("heddle");
        config
    }

    fn connect(&self) -> Client {
        self.config("ada").connect(NoTls).expect("loopback is trusted")
    }
}

fn code(error: &postgres::Error) -> String {
    error.code().map_or_else(|| error.to_string(), |code| code.code().to_owned())
}

#[test]
fn statements_have_parameters_and_typed_results() {
    let running = start();
    let mut client = running.connect();
    client
        .batch_execute("CREATE TABLE item (id int PRIMARY KEY, name text, price float8, sold bool)")
        .expect("created");
    for id in 1..=3_i32 {
        let values: [&(dyn postgres::types::ToSql + Sync); 4] =
            [&id, &format!("item {id}"), &(f64::from(id) / 2.0), &(id % 2 == 0)];
        let inserted = client.execute("INSERT INTO item VALUES ($1, $2, $3, $4)", &values);
        assert_eq!(inserted.expect("inserted"), 1);
    }
    let rows = client
        .query("SELECT name, price, sold FROM item WHERE id > $1 ORDER BY id", &[&1_i32])
        .expect("read");
    let read: Vec<(String, f64, bool)> =
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    assert_eq!(read, [("item 2".to_owned(), 1.0, true), ("item 3".to_owned(), 1.5, false)]);
    let none = client.query_opt("SELECT name FROM item WHERE id = $1", &[&9_i32]).expect("read");
    assert!(none.is_none());
}

#[test]
fn a_failed_transaction_refuses_everything_until_it_ends() {
    let running = start();
    let mut client = running.connect();
    client.batch_execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)").expect("created");
    client.batch_execute("BEGIN; INSERT INTO t VALUES (2)").expect("begun");
    let duplicate = client.batch_execute("INSERT INTO t VALUES (1)").expect_err("a duplicate");
    assert_eq!(code(&duplicate), "23505");
    let refused = client.batch_execute("SELECT 1").expect_err("the transaction has failed");
    assert_eq!(code(&refused), "25P02");
    client.batch_execute("ROLLBACK").expect("rolled back");
    let count: i64 = client.query_one("SELECT count(*) FROM t", &[]).expect("read").get(0);
    assert_eq!(count, 1);
}

#[test]
fn an_error_in_a_text_of_several_statements_takes_all_of_them_back() {
    let running = start();
    let mut client = running.connect();
    client.batch_execute("CREATE TABLE t (id int PRIMARY KEY)").expect("created");
    let failed = client
        .batch_execute("INSERT INTO t VALUES (1); INSERT INTO t VALUES (1/0)")
        .expect_err("division by zero");
    assert_eq!(code(&failed), "22012");
    let count: i64 = client.query_one("SELECT count(*) FROM t", &[]).expect("read").get(0);
    assert_eq!(count, 0);
}

#[test]
fn copy_loads_and_unloads() {
    let running = start();
    let mut client = running.connect();
    client.batch_execute("CREATE TABLE t (id int PRIMARY KEY, name text)").expect("created");
    let mut writer = client.copy_in("COPY t FROM STDIN").expect("it begins");
    for id in 0..5_000 {
        writeln!(writer, "{id}\tname {id}").expect("it is sent");
    }
    assert_eq!(writer.finish().expect("loaded"), 5_000);
    let mut text = String::new();
    client.copy_out("COPY t TO STDOUT").expect("it begins").read_to_string(&mut text).expect("unloaded");
    assert_eq!(text.lines().count(), 5_000);
    assert!(text.lines().any(|line| line == "4999\tname 4999"));
    let mut writer = client.copy_in("COPY t FROM STDIN").expect("it begins");
    writeln!(writer, "x\ty").expect("it is sent");
    assert_eq!(code(&writer.finish().expect_err("no number")), "22P02");
    let count: i64 = client.query_one("SELECT count(*) FROM t", &[]).expect("the connection goes on").get(0);
    assert_eq!(count, 5_000);
}

#[test]
fn many_clients_add_to_one_row() {
    let running = start();
    running
        .connect()
        .batch_execute("CREATE TABLE c (id int PRIMARY KEY, n bigint); INSERT INTO c VALUES (1, 0)")
        .expect("made");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = running.connect();
                for _ in 0..50 {
                    client
                        .execute("UPDATE c SET n = n + 1 WHERE id = $1", &[&1_i32])
                        .expect("additions do not conflict");
                }
            });
        }
    });
    let n: i64 = running.connect().query_one("SELECT n FROM c", &[]).expect("read").get(0);
    assert_eq!(n, 400);
}

#[test]
fn passwords_are_asked_for_once_there_is_a_user() {
    let running = start();
    drop(running.connect());
    let users = running.server.users().expect("a database is served");
    users.add("ada", "correct horse", true).expect("added");
    let attempt = |user: &str, password: &str| running.config(user).password(password).connect(NoTls);
    let mut client = attempt("ada", "correct horse").expect("the right password");
    assert_eq!(client.query_one("SELECT 1", &[]).expect("read").get::<_, i32>(0), 1);
    let wrong = |user, password| attempt(user, password).map(drop).expect_err("refused");
    assert_eq!(wrong("ada", "battery staple").code(), Some(&SqlState::INVALID_PASSWORD));
    assert_eq!(wrong("bob", "correct horse").code(), Some(&SqlState::INVALID_PASSWORD));
    users.remove("ada").expect("removed");
    assert!(users.remove("ada").is_err());
}

#[test]
fn one_database_is_served_and_others_do_not_exist() {
    let running = start();
    let mut config = running.config("ada");
    assert!(config.dbname("postgres").connect(NoTls).is_ok());
    let unknown = config.dbname("shop").connect(NoTls).map(drop).expect_err("unknown");
    assert_eq!(unknown.code(), Some(&SqlState::UNDEFINED_DATABASE));
}

#[test]
fn clients_are_notified_that_the_server_starts_or_ends() {
    let starting = Server::listen(settings()).expect("a port is free");
    let mut config = Config::new();
    config.host("127.0.0.1").port(starting.address().port()).user("ada").dbname("heddle");
    let early = config.connect(NoTls).map(drop).expect_err("it has no database yet");
    assert_eq!(early.code(), Some(&SqlState::CANNOT_CONNECT_NOW));
    let running = start();
    let mut client = running.connect();
    client.batch_execute("SELECT 1").expect("it runs");
    let Running { server, .. } = running;
    server.shut_down();
    assert!(client.batch_execute("SELECT 1").is_err());
}

/// Sends bytes, and reads what comes until the server closes the connection.
fn send(running: &Running, bytes: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(running.server.address()).expect("it listens");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a time-out");
    socket.write_all(bytes).expect("it reads");
    let _ = socket.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer);
    answer
}

fn startup() -> Vec<u8> {
    let body = b"\0\x03\0\0user\0ada\0database\0heddle\0\0";
    [&(body.len() as u32 + 4).to_be_bytes()[..], body].concat()
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[tag][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

#[test]
fn after_an_error_a_pipeline_is_skipped_to_its_sync() {
    let running = start();
    let bytes = [
        startup(),
        message(b'P', b"\0SELECT 1/0\0\0\0"),
        message(b'B', b"\0\0\0\0\0\0\0\0"),
        message(b'E', b"\0\0\0\0\0"),
        message(b'P', b"s\0SELECT 2\0\0\0"),
        message(b'S', b""),
        message(b'B', b"\0s\0\0\0\0\0\0\0"),
        message(b'S', b""),
        message(b'Q', b"SELECT 3\0"),
        message(b'X', b""),
    ];
    let answer = send(&running, &bytes.concat());
    let text = String::from_utf8_lossy(&answer);
    assert_eq!(text.matches("22012").count(), 1, "one division by zero: {text:?}");
    assert!(
        text.contains("prepared statement \"s\" does not exist"),
        "the Parse behind the error was skipped"
    );
    assert!(text.contains("SELECT 1"), "and the connection goes on");
}

#[test]
fn copy_refuses_the_character_zero() {
    let running = start();
    let mut client = running.connect();
    client.batch_execute("CREATE TABLE texts (v text)").expect("created");
    for (format, data) in
        [("TEXT", &b"a\0b\n"[..]), ("TEXT", b"a\\000b\n"), ("TEXT", b"\\x00\n"), ("CSV", b"a\0b\n")]
    {
        let mut writer = client.copy_in(&format!("COPY texts FROM STDIN (FORMAT {format})")).expect("begun");
        writer.write_all(data).expect("sent");
        let error = writer.finish().expect_err("zero");
        assert_eq!(code(&error), "22021", "{format} {data:?}");
    }
}

#[test]
fn a_malformed_message_ends_its_own_connection_only() {
    let running = start();
    let mut client = running.connect();
    let broken: [&[u8]; 7] = [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0\0\0\0",
        b"\xff\xff\xff\xff\0\x03\0\0",
        b"\0\0\0\x08\0\x02\0\0",
        b"\0\0\0\x09\0\x03\0\0\0",
        b"\0\x01\0\0\0\x03\0\0",
    ];
    for bytes in broken {
        send(&running, bytes);
    }
    for (tag, length) in
        [(b'Q', 0_u32), (b'Q', 3), (b'Q', u32::MAX), (b'?', 4), (b'B', 5), (b'd', 0x7fff_ffff)]
    {
        let bytes = [startup(), vec![tag], length.to_be_bytes().to_vec(), vec![0; 3]].concat();
        let answer = send(&running, &bytes);
        assert!(String::from_utf8_lossy(&answer).contains("08P01") || length == 5, "{tag} {length}");
    }
    client.batch_execute("SELECT 1").expect("other connections go on");
}
