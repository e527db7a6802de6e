//! Limits of sessions: lock and statement timeouts, memory for statements, clients that do not read, new settings.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::support::Running;
use heddle_server::settings::Settings;
use postgres::{Client, Config, NoTls};

/// Time for which a test waits for something that must happen.
const PATIENCE: Duration = Duration::from_secs(60);

fn connect(running: &Running) -> Client {
    let mut config = Config::new();
    config.host("127.0.0.1").port(running.port()).user("ada").dbname("heddle");
    config.connect(NoTls).expect("loopback is trusted")
}

fn failure(client: &mut Client, text: &str) -> (String, String) {
    let error = client.batch_execute(text).expect_err(text);
    let error = error.as_db_error().unwrap_or_else(|| panic!("{text}: {error}"));
    (error.code().code().to_owned(), error.message().to_owned())
}

#[test]
fn a_lock_is_waited_for_no_longer_than_the_timeouts_say() {
    let running = Running::start();
    let (mut holder, mut waiter) = (connect(&running), connect(&running));
    holder
        .batch_execute("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0), (2, 0)")
        .expect("made");
    holder
        .batch_execute("BEGIN; SELECT * FROM t WHERE id = 1 FOR UPDATE; SELECT pg_advisory_xact_lock(7)")
        .expect("held");
    let lock = ("55P03".to_owned(), "canceling statement due to lock timeout".to_owned());
    let statement = ("57014".to_owned(), "canceling statement due to statement timeout".to_owned());
    for waiting in [
        "SELECT * FROM t WHERE id = 1 FOR UPDATE",
        "UPDATE t SET n = n + 1 WHERE id = 1",
        "DELETE FROM t WHERE id = 1",
        "SELECT pg_advisory_lock(7)",
    ] {
        waiter.batch_execute("SET lock_timeout = '30ms'").expect("set");
        assert_eq!(failure(&mut waiter, waiting), lock, "{waiting}");
        waiter.batch_execute("SET lock_timeout = 0; SET statement_timeout = '30ms'").expect("set");
        assert_eq!(failure(&mut waiter, waiting), statement, "{waiting}");
        waiter.batch_execute("RESET statement_timeout").expect("reset");
    }
    // SET LOCAL ends with its transaction, and so does its timeout.
    waiter.batch_execute("BEGIN; SET LOCAL lock_timeout = '30ms'").expect("begun");
    assert_eq!(failure(&mut waiter, "SELECT * FROM t WHERE id = 1 FOR UPDATE"), lock);
    waiter.batch_execute("ROLLBACK; UPDATE t SET n = 5 WHERE id = 2").expect("nobody holds the other row");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| waiter.batch_execute("UPDATE t SET n = n + 1 WHERE id = 1"));
        holder.batch_execute("UPDATE t SET n = 10 WHERE id = 1; COMMIT").expect("committed");
        waits.join().expect("no panic").expect("without a timeout it waits as long as it takes");
    });
    let n: i32 = holder.query_one("SELECT n FROM t WHERE id = 1", &[]).expect("read").get(0);
    assert_eq!(n, 11);
}

#[test]
fn statements_beyond_their_memory_spill_or_fail_and_the_server_goes_on() {
    let running = Running::with("work_mem_bytes = 1048576\ntotal_work_mem_bytes = 2097152");
    let mut client = connect(&running);
    let shown: String = client.query_one("SHOW work_mem", &[]).expect("read").get(0);
    assert_eq!(shown, "1MB");
    let sorted = "SELECT n FROM generate_series(1, 200000) AS n ORDER BY -n";
    let rows = client.query(sorted, &[]).expect("a sort spills to disk");
    assert_eq!((rows.len(), rows[0].get::<_, i32>(0)), (200_000, 200_000));
    let gathered = "SELECT length(string_agg(repeat('x', 1000), '')) FROM generate_series(1, 50000)";
    let materialized = "WITH kept AS MATERIALIZED (SELECT repeat('x', 100) AS x, n FROM generate_series(1, 100000) AS n) \
                        SELECT count(*) FROM kept AS a JOIN kept AS b USING (n)";
    let count: i64 = client.query_one(materialized, &[]).expect("rows of WITH spill to disk").get(0);
    assert_eq!(count, 100_000);
    let hashed = "WITH RECURSIVE r AS (SELECT n FROM generate_series(1, 100000) AS n UNION SELECT -n FROM r WHERE n > 0) \
                  SELECT count(*) FROM r";
    let (code, message) = failure(&mut client, hashed);
    assert_eq!(code, "53200", "{message}");
    // More than the total allows, though the session may raise its own limit.
    client.batch_execute("SET work_mem = '1GB'").expect("set");
    let (code, message) = failure(&mut client, hashed);
    assert!(code == "53200" && message.contains("together"), "{code} {message}");
    client
        .batch_execute("CREATE TABLE lists (a int[]); INSERT INTO lists VALUES (ARRAY[1])")
        .expect("a table of one row");
    // Large values count, too, however they come to be, and are given back at once.
    for too_large in [
        gathered,
        "SELECT length(repeat('x', 100000000))",
        "SELECT length(repeat('x', 1000000) || repeat('y', 1500000))",
        "SELECT repeat('x', 100000) FROM generate_series(1, 1000) ORDER BY 1",
        "SELECT length(replace(repeat('a', 1000), 'a', repeat('b', 10000)))",
        "SELECT cardinality(array_fill(0, ARRAY[1000000]))",
        "SELECT cardinality(string_to_array(repeat('a,', 100000), ','))",
        "SELECT length(array_to_string(array_fill(repeat('x', 1000), ARRAY[10000]), ','))",
        "SELECT length(lpad('x', 10000000)), length(format('%s%s', repeat('x', 1500000), repeat('x', 1500000)))",
        "SELECT json_agg(repeat('x', 1000)) IS NULL FROM generate_series(1, 10000)",
        "SELECT length(concat_ws(repeat('x', 1000), VARIADIC array_fill(''::text, ARRAY[10000])))",
        "SELECT count(*) FROM string_to_table(repeat('a,', 100000), ',')",
        "UPDATE lists SET a[1000000] = 1",
        "UPDATE lists SET a[999999:1000000] = ARRAY[1, 2]",
        "DO $$ DECLARE a int[]; BEGIN a[1] := 1; a[1000000] := 1; END $$",
        "DO $$ DECLARE a text := 'x'; BEGIN LOOP a := a || a; END LOOP; END $$",
    ] {
        let (code, message) = failure(&mut client, too_large);
        assert_eq!(code, "53200", "{too_large}: {message}");
    }
    let one_by_one = "SELECT sum(length(repeat('x', 100000) || n)) FROM generate_series(1, 1000) AS n";
    client.batch_execute(one_by_one).expect("each row gives back what it held");
    let folded = "PREPARE p AS SELECT length(repeat('x', 300000) || repeat('y', 200000))";
    client.batch_execute(folded).expect("plans keep no large constants");
    client.batch_execute("EXECUTE p; EXECUTE p; DEALLOCATE p").expect("they are computed");
    client.batch_execute(sorted).expect("a sort still spills");
    let served = connect(&running).query_one("SELECT 1", &[]).expect("others go on");
    assert_eq!(served.get::<_, i32>(0), 1);
}

#[test]
fn a_row_of_copy_that_never_ends_takes_no_more_than_the_common_limit() {
    let running = Running::with("work_mem_bytes = 1048576\ntotal_work_mem_bytes = 2097152");
    let mut client = connect(&running);
    client.batch_execute("CREATE TABLE t (name text)").expect("made");
    let header = [b"PGCOPY\n\xff\r\n\0".as_slice(), &[0; 8], &[0, 1, 0x40, 0, 0, 0]].concat();
    for (format, begin) in [("text", b"".to_vec()), ("csv", b"\"".to_vec()), ("binary", header)] {
        let mut writer = client.copy_in(&format!("COPY t FROM STDIN (FORMAT {format})")).expect("it begins");
        writer.write_all(&begin).expect("it is sent");
        // What the client sends after the refusal is ignored.
        let piece = vec![b'x'; 100_000];
        let written = (0..50).try_for_each(|_| writer.write_all(&piece));
        let error =
            written.map_err(|_| "the server has refused").and(Ok(writer.finish().expect_err("too long")));
        let error = error.unwrap_or_else(|text: &str| panic!("{text}"));
        assert_eq!(error.code().map(|code| code.code()), Some("53200"), "{format}: {error}");
    }
    let mut writer = client.copy_in("COPY t FROM STDIN").expect("it begins");
    let line = "x".repeat(999) + "\n";
    (0..5_000).for_each(|_| writer.write_all(line.as_bytes()).expect("it is sent"));
    assert_eq!(writer.finish().expect("more lines than the limit are no fault"), 5_000);
}

#[test]
fn a_client_that_does_not_read_is_dropped_and_holds_up_no_other() {
    let running = Running::with("client_write_timeout_s = 1");
    let mut socket = TcpStream::connect(running.server.address()).expect("it listens");
    let body = b"\0\x03\0\0user\0ada\0database\0heddle\0\0";
    let text = b"SELECT repeat('x', 1000) FROM generate_series(1, 1000000)\0";
    let startup = [&(body.len() as u32 + 4).to_be_bytes()[..], body].concat();
    let query = [&b"Q"[..], &(text.len() as u32 + 4).to_be_bytes(), text].concat();
    socket.write_all(&[startup, query].concat()).expect("sent");
    let mut other = connect(&running);
    other.batch_execute("SELECT 1").expect("others go on");
    drop(other);
    let begun = Instant::now();
    while running.server.connections() > 0 {
        assert!(begun.elapsed() < PATIENCE, "the client that does not read is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn new_settings_are_for_connections_that_begin_later() {
    let running = Running::start();
    let settings = |text: &str| {
        let text = format!("listen = '127.0.0.1:0'\ndrain_s = 1\n{text}");
        Settings::load(Some(&text), [], toml::Table::new()).expect("they are right")
    };
    let mut before = connect(&running);
    let changed = "lock_timeout_ms = 77\nwork_mem_bytes = 131072\n[[host]]\naddress = 'all'\nusers = ['ada']\nmethod = 'trust'";
    assert_eq!(running.server.reload(settings(changed)).expect("they can be used"), Vec::<&str>::new());
    let show = |client: &mut Client, name: &str| -> String {
        client.query_one(&format!("SHOW {name}"), &[]).expect("read").get(0)
    };
    assert_eq!(show(&mut before, "lock_timeout"), "0");
    let mut after = connect(&running);
    assert_eq!(
        (show(&mut after, "lock_timeout"), show(&mut after, "work_mem")),
        ("77ms".into(), "128kB".into())
    );
    let mut config = Config::new();
    config.host("127.0.0.1").port(running.port()).user("bob").dbname("heddle");
    let refused = config.connect(NoTls).map(drop).expect_err("no rule is for bob");
    assert_eq!(refused.code().map(|code| code.code()), Some("28000"));
    let unusable = settings("tls_certificate = '/no/such/file'\ntls_key = '/no/such/file'");
    assert!(running.server.reload(unusable).is_err());
    assert_eq!(show(&mut connect(&running), "lock_timeout"), "77ms", "a broken file changes nothing");
}
