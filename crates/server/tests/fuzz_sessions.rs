//! Sessions of clients that are authenticated and behave badly: values of random bytes for every type, counts in messages
//! that nothing follows, functions with extreme arguments, COPY both ways with damaged data, pipelines whose statements
//! fail, cancel requests, notifications, and connections that end anywhere. Nothing of it ends the server, panics in it,
//! or disturbs another session, and the memory of statements stays within its limit.
//!
//! `HEDDLE_FUZZ_ROUNDS` sets how many connections are tried, `HEDDLE_SEED` the random numbers, to repeat a run.

#[path = "integration/support/mod.rs"]
mod support;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use support::Running;
use support::random::{Random, number};
use support::wire::{Answer, Wire, errors, execute, first, flush, message, open, parse, run, sync};

/// Texts that a type's input accepts, or nearly does, at the ends of its range.
const EXTREMES: &[(&str, &[&str])] = &[
    ("boolean", &["t", "f"]),
    ("smallint", &["-32768", "32767", "0"]),
    ("integer", &["-2147483648", "2147483647", "-1", "0", "1", "100000"]),
    ("bigint", &["-9223372036854775808", "9223372036854775807", "0", "-1"]),
    ("numeric", &["1e130000", "-1e-16000", "NaN", "Infinity", "-Infinity", "0", "99999999999999999999.9"]),
    ("real", &["NaN", "3.4e38", "-0", "Infinity"]),
    ("double precision", &["NaN", "1.7e308", "-0", "-Infinity", "5e-324"]),
    (
        "text",
        &[
            "",
            "%",
            "\\",
            "(a*)*(b|(c*)+)*$",
            "\u{10ffff}ß",
            "[[:alpha:]",
            "a,b",
            "YYYY-MM-DD HH24:MI:SS.US TZ",
            "FM999.99V9",
        ],
    ),
    ("character varying", &["", "x"]),
    ("bytea", &["\\x", "\\x00ff", "a"]),
    ("date", &["infinity", "-infinity", "5874897-12-31", "4713-11-24 BC", "2000-02-29"]),
    ("time without time zone", &["24:00:00", "00:00:00", "23:59:59.999999"]),
    (
        "timestamp without time zone",
        &["infinity", "-infinity", "294276-12-31 23:59:59.999999", "4713-11-24 00:00:00 BC"],
    ),
    ("timestamp with time zone", &["infinity", "294276-12-31 23:59:59+00", "2000-01-01 00:00:00+15:59"]),
    (
        "interval",
        &["178000000 years", "-178000000 years", "2147483647 days", "-2562047788:00:54.775807", "0"],
    ),
    ("uuid", &["00000000-0000-0000-0000-000000000000"]),
    ("json", &["null", "[1,{\"a\":[]}]", "{\"a\":{\"a\":1e400}}", "\"\\u0000\""]),
    ("jsonb", &["null", "[1,{\"a\":[]}]", "{\"a\":{\"a\":-1e-400}}", "\"\\ud83d\\ude00\""]),
    ("jsonpath", &["$", "$.**", "strict $[*] ? (@ > 1)", "$[last to 0]"]),
    ("regclass", &["t", "pg_class", "4294967295"]),
    ("oid", &["0", "4294967295", "16384"]),
    ("name", &["t", "id"]),
];

/// Values that are tried in each function's arguments, for types that have no extremes of their own.
const OTHERS: &[&str] = &[
    "NULL",
    "'{}'::integer[]",
    "'{{1,2},{3,4}}'::integer[]",
    "'[-2147483648:-2147483647]={1,2}'::integer[]",
    "'[2147483647:2147483647]={1}'::bigint[]",
    "'{NULL,\"\",a}'::text[]",
    "ROW(1, NULL, 'x')",
    "(SELECT array_agg(n) FROM generate_series(1, 300) AS n)",
];

/// Functions that end other sessions, or wait on purpose.
const LEFT_OUT: &[&str] = &[
    "pg_terminate_backend",
    "pg_cancel_backend",
    "pg_sleep",
    "pg_sleep_for",
    "pg_sleep_until",
    "pg_advisory_lock",
];

/// The parts of attacks.
struct Material {
    /// Names of functions, with the types of their arguments.
    functions: Vec<(String, Vec<String>)>,
    /// Names and oids of types.
    types: Vec<(String, u32)>,
}

impl Material {
    fn of(wire: &mut Wire) -> Material {
        let text = |row: &[Option<String>], at: usize| row[at].clone().unwrap_or_default();
        let functions = wire.rows(
            "SELECT proname, array_to_string(ARRAY(SELECT format_type(t, NULL) FROM unnest(proargtypes) AS t), ';') \
             FROM pg_proc WHERE prokind <> 'p'",
        );
        let types = wire.rows("SELECT format_type(oid, NULL), oid FROM pg_type WHERE typtype <> 'p'");
        let names =
            |list: String| list.split(';').map(str::to_owned).filter(|name| !name.is_empty()).collect();
        let functions = functions.iter().map(|row| (text(row, 0), names(text(row, 1))));
        Material {
            functions: functions.filter(|(name, _)| !LEFT_OUT.contains(&name.as_str())).collect(),
            types: types.iter().map(|row| (text(row, 0), text(row, 1).parse().expect("an oid"))).collect(),
        }
    }

    /// An argument of this type.
    fn argument(&self, ty: &str, random: &mut Random) -> String {
        let known = EXTREMES.iter().find(|(name, _)| *name == ty).or_else(|| {
            // Any type stands for a pseudo type, and now and then for another one.
            (ty.contains("any") || random.below(30) == 0).then(|| random.one(EXTREMES))
        });
        match known {
            _ if random.below(12) == 0 => (*random.one(OTHERS)).to_owned(),
            Some((name, texts)) => format!("'{}'::{name}", random.one(texts).replace('\'', "''")),
            None if ty.ends_with("[]") => {
                format!("'{}'::{ty}", random.one(&["{}", "{NULL}", "[5:5]={NULL}"]))
            }
            None => (*random.one(OTHERS)).to_owned(),
        }
    }

    /// A call of a function with extreme arguments.
    fn call(&self, random: &mut Random) -> String {
        let (name, types) = random.one(&self.functions);
        let arguments: Vec<String> = types.iter().map(|ty| self.argument(ty, random)).collect();
        let call = format!("\"{name}\"({})", arguments.join(", "));
        match random.below(8) {
            0 => format!("SELECT * FROM {call} LIMIT 1000"),
            1 => format!("SELECT {call} OVER () FROM t"),
            2 => format!("SELECT {call}::text FROM generate_series(1, 3)"),
            3 => {
                format!("INSERT INTO t SELECT 1, {call}::text ON CONFLICT (id) DO UPDATE SET v = excluded.v")
            }
            _ => format!("SELECT {call}"),
        }
    }

    /// An operator between extreme operands, or a cast.
    fn expression(&self, random: &mut Random) -> String {
        let operators = [
            "+",
            "-",
            "*",
            "/",
            "%",
            "^",
            "||",
            "<<",
            ">>",
            "~",
            "LIKE",
            "@>",
            "->",
            "#>",
            "=",
            "AT TIME ZONE",
        ];
        let (left, right) = (random.one(EXTREMES).0, random.one(EXTREMES).0);
        let (left, right) = (self.argument(left, random), self.argument(right, random));
        match random.below(3) {
            0 => format!("SELECT CAST({left} AS {})", random.one(&self.types).0),
            _ => format!("SELECT {left} {} {right}", random.one(&operators)),
        }
    }

    /// Parse, Bind and Execute with values of random bytes in random formats.
    fn binding(&self, random: &mut Random) -> Vec<u8> {
        let count = 1 + random.below(3);
        let oids: Vec<u32> = (0..count).map(|_| random.one(&self.types).1).collect();
        let targets: Vec<String> = (1..=count).map(|at| format!("${at}")).collect();
        let mut body = format!("\0SELECT {}\0", targets.join(", ")).into_bytes();
        body.extend((count as u16).to_be_bytes());
        oids.iter().for_each(|oid| body.extend(oid.to_be_bytes()));
        [
            message('P', &body),
            values(count, random),
            message('D', b"P\0"),
            execute(random.below(3) as u32),
            sync(),
        ]
        .concat()
    }
}

/// Bind of the unnamed statement: this number of values, mostly, with bytes and formats of chance.
fn values(count: usize, random: &mut Random) -> Vec<u8> {
    let mut body = b"\0\0".to_vec();
    let formats = *random.one(&[0, 1, 1, count, 2, 65_535]);
    body.extend((formats as u16).to_be_bytes());
    (0..formats.min(count)).for_each(|_| body.extend(random.one(&[0_u16, 1, 1, 1, 2, 0xffff]).to_be_bytes()));
    let said = if random.below(10) == 0 { *random.one(&[0, count + 1, 65_535]) } else { count };
    body.extend((said as u16).to_be_bytes());
    for _ in 0..count {
        // The lengths that types of a fixed length have, and any other.
        let usual = *random.one(&[1, 2, 4, 8, 12, 16]);
        let mut value = random.bytes(40);
        if random.below(2) == 0 {
            value.resize(usual, 0);
        }
        let length = match random.below(12) {
            0 => -1,
            1 => *random.one(&[i32::MIN, -2, i32::MAX, value.len() as i32 + 1]),
            _ => value.len() as i32,
        };
        body.extend(length.to_be_bytes());
        if length >= 0 {
            body.extend(&value);
        }
    }
    let results = *random.one(&[0_u16, 1, 1, 2, 0xffff]);
    body.extend(results.to_be_bytes());
    (0..results.min(4)).for_each(|_| body.extend(random.one(&[0_u16, 1, 1, 7]).to_be_bytes()));
    message('B', &body)
}

/// Messages with counts and lengths that nothing follows, or that are as large as they can be.
fn huge(random: &mut Random) -> Vec<u8> {
    let many = |count: u16, each: &[u8]| each.repeat(count.into());
    match random.below(8) {
        0 => message('P', &[b"\0SELECT $65535\0\xff\xff", &many(65_535, b"\0\0\0\x17")[..]].concat()),
        1 => message('P', b"\0SELECT 1\0\xff\xff\0\0\0\x17"),
        2 => message('B', &[b"\0\0\0\0\xff\xff", &many(65_535, b"\xff\xff\xff\xff")[..], b"\0\0"].concat()),
        3 => message('B', b"\0\0\xff\xff\0\x01"),
        4 => message('F', b"\0\0\0\x01\xff\xff\0\x01\xff\xff\0\0"),
        5 => query(&format!("SELECT {}1{}", "(".repeat(20_000), ")".repeat(20_000))),
        6 => query(&format!("SELECT 1 {}", "+ 1 ".repeat(20_000))),
        _ => query(&format!("SELECT {}", "ARRAY[".repeat(5_000))),
    }
}

fn query(text: &str) -> Vec<u8> {
    message('Q', &[text.as_bytes(), b"\0"].concat())
}

/// COPY into a table, or out of it, with data that may be damaged.
fn copy(random: &mut Random) -> Vec<u8> {
    let format = *random.one(&["TEXT", "CSV", "BINARY"]);
    if random.below(4) == 0 {
        return query(&format!("COPY (SELECT * FROM copied ORDER BY id) TO STDOUT (FORMAT {format})"));
    }
    let mut data = match format {
        "TEXT" => b"1\ta\\\\b\t\\N\n2\t\\x41\\101\t{\"a\":1}\n\\.\n".to_vec(),
        "CSV" => b"1,\"a\"\"b\n\",\n2,\"\",\"{}\"\n".to_vec(),
        _ => {
            b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x03\0\0\0\x04\0\0\0\x05\0\0\0\x01x\xff\xff\xff\xff\xff\xff"
                .to_vec()
        }
    };
    for _ in 0..random.below(4) {
        let at = random.below(data.len());
        match random.below(3) {
            0 => data[at] = random.next() as u8,
            1 => drop(data.splice(at..at, random.bytes(8))),
            _ => data.truncate(at.max(1)),
        }
    }
    let mut bytes = query(&format!("COPY copied FROM STDIN (FORMAT {format})"));
    while !data.is_empty() {
        let rest = data.split_off((1 + random.below(20)).min(data.len()));
        bytes.extend(message('d', &data));
        data = rest;
        if random.below(15) == 0 {
            bytes
                .extend(random.one(&[flush(), sync(), query("SELECT 1"), message('f', b"enough\0")]).clone());
        }
    }
    bytes.extend(random.one(&[message('c', b""), message('c', b""), message('f', b"\0"), message('X', b"")]));
    bytes
}

/// A pipeline of statements, some of which fail, with portals that are executed in parts.
fn pipeline(random: &mut Random) -> Vec<u8> {
    let steps = [
        run("INSERT INTO copied VALUES ($1, 'p')", &["1"]),
        run("SELECT 1 / $1::int", &["0"]),
        run("SELECT * FROM generate_series(1, 100000)", &[]),
        [
            parse("", "SELECT * FROM generate_series(1, $1)"),
            support::wire::bind("", &["9"]),
            execute(4),
            execute(4),
            execute(4),
        ]
        .concat(),
        run("BEGIN", &[]),
        run("COMMIT", &[]),
        run("ROLLBACK", &[]),
        run("SAVEPOINT s", &[]),
        run("ROLLBACK TO s", &[]),
        run("CREATE TEMP TABLE p (n int)", &[]),
        run("COPY copied FROM STDIN", &[]),
        run("LISTEN a", &[]),
        run("NOTIFY a, 'x'", &[]),
        run("DECLARE c CURSOR FOR SELECT * FROM t", &[]),
        run("FETCH ALL FROM c", &[]),
        message('C', b"P\0"),
        message('D', b"S\0"),
        flush(),
        sync(),
    ];
    let mut bytes: Vec<u8> = (0..random.below(20)).flat_map(|_| random.one(&steps).clone()).collect();
    bytes.extend(sync());
    bytes
}

/// One attack on an open session.
fn attack(material: &Material, random: &mut Random) -> Vec<u8> {
    match random.below(10) {
        0..=2 => query(&material.call(random)),
        3 => query(&material.expression(random)),
        4..=5 => material.binding(random),
        6 => huge(random),
        7 => copy(random),
        _ => pipeline(random),
    }
}

/// The process and the secret of a BackendKeyData.
fn key(answers: &[Answer]) -> Vec<u8> {
    answers.iter().find(|answer| answer.tag == 'K').expect("BackendKeyData").body.clone()
}

/// Cancels what the session with this key does, or no session where the key is damaged.
fn cancel(port: u16, key: &[u8], random: &mut Random) {
    let mut key = key.to_vec();
    if random.below(4) == 0 {
        let at = random.below(key.len());
        key[at] ^= 1;
    }
    let _ = open(port).write_all(&first(80_877_102, &key));
}

/// One client: it attacks, cancels meanwhile, and leaves in one way or the other.
fn client(port: u16, material: &Material, random: &mut Random, seen: &mut Vec<Vec<u8>>) {
    let mut wire = Wire { socket: open(port) };
    let answers = wire.start("ada");
    assert_eq!(errors(&answers), Vec::<String>::new());
    let attacks: Vec<Vec<u8>> = (0..1 + random.below(12)).map(|_| attack(material, random)).collect();
    seen.clone_from(&attacks);
    for bytes in &attacks {
        // The server may close the connection first.
        let _ = wire.socket.write_all(bytes);
    }
    for _ in 0..random.below(3) {
        cancel(port, &key(&answers), random);
    }
    match random.below(6) {
        0 => (),
        1 => {
            let _ = wire.socket.read(&mut [0; 100]);
        }
        _ => {
            let _ = wire.socket.shutdown(Shutdown::Write);
            let _ = std::io::copy(&mut wire.socket, &mut std::io::sink());
        }
    }
}

/// The most memory that this process has taken, in bytes; 0 where the system does not say.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) << 10
}

#[test]
fn no_session_ends_the_server_or_another_session() {
    let rounds = number("HEDDLE_FUZZ_ROUNDS").unwrap_or(150);
    let seed = number("HEDDLE_SEED").unwrap_or_else(|| std::process::id().into());
    println!("HEDDLE_SEED={seed}");
    let panics = Arc::new(AtomicUsize::new(0));
    let (counted, usual) = (panics.clone(), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |info| {
        // Relaxed: it is read when the connection has ended.
        counted.fetch_add(1, Ordering::Relaxed);
        usual(info);
    }));
    let limits = "statement_timeout_ms = 2000\nidle_in_transaction_session_timeout_ms = 2000\n\
                  work_mem_bytes = 4194304\ntotal_work_mem_bytes = 33554432\nmax_message_bytes = 4194304";
    let running = Running::with(limits);
    let mut other = Wire::connect(running.port());
    other.rows("SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0");
    other.rows("CREATE TABLE t (id int PRIMARY KEY, v text)");
    other.rows("CREATE TABLE copied (id int, v text, j jsonb)");
    other.rows("CREATE TABLE own (id int PRIMARY KEY)");
    other.rows("INSERT INTO t SELECT n, 'x' FROM generate_series(1, 10) AS n");
    let material = Material::of(&mut other);
    assert!(material.functions.len() > 400 && material.types.len() > 60, "the catalog lists them");
    other.rows("BEGIN");
    for round in 0..rounds {
        // Each round has random numbers of its own, so that it can be repeated alone.
        let mut random = Random((seed ^ round << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut attacks = Vec::new();
        client(running.port(), &material, &mut random, &mut attacks);
        other.rows(&format!("INSERT INTO own VALUES ({round})"));
        let texts: Vec<_> = attacks.iter().map(|bytes| String::from_utf8_lossy(bytes)).collect();
        assert_eq!(panics.load(Ordering::Relaxed), 0, "round {round} of seed {seed}: {texts:?}");
    }
    other.rows("COMMIT");
    assert_eq!(other.value("SELECT count(*) FROM own"), rounds.to_string());
    let peak = peak_memory();
    println!("{rounds} sessions, at most {} MB", peak >> 20);
    assert!(peak < 2 << 30, "{peak} bytes at the peak, where statements may take 32 MiB together");
}
