//! Random sequences of messages, cut at random bytes, are answered as PostgreSQL 15 answers them: the same messages with the same
//! contents, none of them held back.
//!
//! `HEDDLE_FUZZ_ROUNDS` sets how many sequences are tried, `HEDDLE_SEED` the random numbers, to repeat a run.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::oracle;

use super::support::Running;
use super::support::random::{Random, number};
use super::support::wire::{Answer, Wire, bind, flush, message, open, parse, sync};

/// Statements, and how many parameters they have.
const STATEMENTS: &[(&str, usize)] = &[
    ("select 1", 0),
    ("select * from t order by id", 0),
    ("select id, v from t where id = $1", 1),
    ("insert into t values ($1, $2) on conflict do nothing", 2),
    ("insert into t values (7, 'q') on conflict do nothing returning *", 0),
    ("insert into t values (1, 'x')", 0),
    ("insert into t select g, 'v' from generate_series(1, 4) g on conflict do nothing", 0),
    ("insert into t values (100, 'a'); select 1 / 0", 0),
    ("update t set v = $2 where id = $1", 2),
    ("delete from t where id = $1 returning id", 1),
    ("truncate t", 0),
    ("select 1 / 0", 0),
    ("selec", 0),
    ("", 0),
    ("begin", 0),
    ("commit", 0),
    ("rollback", 0),
    ("savepoint a", 0),
    ("rollback to a", 0),
    ("release a", 0),
    ("begin; select 1", 0),
    ("select 1; select 2", 0),
    ("select 1; commit", 0),
    ("commit; select 2", 0),
    ("set transaction read only", 0),
    ("select generate_series(1, 5)", 0),
    ("select $1::int + $2::int", 2),
    ("select null::text, 'x'::bytea", 0),
    ("values (1, 'a'), (2, 'b')", 0),
    ("table nosuch", 0),
    ("show application_name", 0),
    ("set application_name = 'x'", 0),
    ("do $$ begin raise notice 'hi %', 1; end $$", 0),
    ("do $$ begin raise warning 'w'; raise exception 'e'; end $$", 0),
    ("listen c1", 0),
    ("notify c1, 'p'", 0),
    ("select pg_notify('c1', 'z')", 0),
    ("declare cc cursor for select * from t order by id", 0),
    ("fetch 1 from cc", 0),
    ("close cc", 0),
    ("create temp table if not exists tt (a int)", 0),
    ("drop table if exists tt", 0),
    ("prepare ps as select 1", 0),
    ("execute ps", 0),
    ("deallocate ps", 0),
    ("deallocate all", 0),
    ("discard all", 0),
];

const VALUES: &[&str] = &["1", "2", "abc", "", "-5", "99999999999"];

const STATEMENT_NAMES: &[&str] = &["", "s1", "s2"];

const PORTAL_NAMES: &[&str] = &["", "p1"];

const SCHEMA: &str = "drop table if exists t; create table t (id int primary key, v text); \
                      insert into t values (1, 'one'), (2, 'two'), (3, null)";

fn query(text: &str) -> Vec<u8> {
    message('Q', &[text.as_bytes(), b"\0"].concat())
}

/// A message that names a statement or a portal.
fn named(tag: char, random: &mut Random) -> Vec<u8> {
    let (kind, names) = *random.one(&[(b'S', STATEMENT_NAMES), (b'P', PORTAL_NAMES)]);
    message(tag, &[&[kind], random.one(names).as_bytes(), b"\0"].concat())
}

fn execute(random: &mut Random) -> Vec<u8> {
    let rows: u32 = *random.one(&[0, 0, 0, 1, 2]);
    message('E', &[random.one(PORTAL_NAMES).as_bytes(), b"\0", &rows.to_be_bytes()].concat())
}

/// A simple query, or messages of the extended protocol up to their Sync: each has one ReadyForQuery.
fn unit(random: &mut Random, known: &mut [usize]) -> Vec<u8> {
    if random.below(5) < 2 {
        return query(random.one(STATEMENTS).0);
    }
    if random.below(30) == 0 {
        let bodies: &[&[u8]] = &[b"select '\xff'\0", b"select 1", b"", b"select 1\0x\0"];
        let body: &&[u8] = random.one(bodies);
        return message('Q', body);
    }
    let mut bytes = Vec::new();
    for _ in 0..1 + random.below(7) {
        let at = random.below(STATEMENT_NAMES.len());
        bytes.extend(match random.below(20) {
            0..5 => {
                let (text, parameters) = *random.one(STATEMENTS);
                known[at] = parameters;
                parse(STATEMENT_NAMES[at], text)
            }
            5..10 => {
                let count = known[at] + usize::from(random.below(20) == 0);
                let parameters: Vec<&str> = (0..count).map(|_| *random.one(VALUES)).collect();
                let mut binding = bind(STATEMENT_NAMES[at], &parameters);
                if random.below(2) == 0 {
                    // To the named portal: the name stands first.
                    binding = message('B', &[b"p1", &binding[5..]].concat());
                }
                binding
            }
            10..15 => execute(random),
            15..17 => named('D', random),
            17 => named('C', random),
            18 => flush(),
            _ => message(*random.one(&['d', 'c', 'f']), b"x\0"),
        });
    }
    bytes.extend(sync());
    bytes
}

/// The part of an answer that must be equal; `None` if it differs from server to server.
fn compared(answer: &Answer) -> Option<(char, String)> {
    let text = match answer.tag {
        'S' | 'K' | 'R' => return None,
        'E' | 'N' => ['S', 'C', 'M'].map(|code| answer.field(code).unwrap_or_default()).join(" "),
        // Behind the process.
        'A' => format!("{:?}", &answer.body[4..]),
        'T' => columns(&answer.body),
        _ => format!("{:?}", answer.body),
    };
    Some((answer.tag, text))
}

/// A RowDescription's columns without the oids of tables.
fn columns(body: &[u8]) -> String {
    let mut rest = &body[2..];
    let mut shown = String::new();
    while let Some(end) = rest.iter().position(|byte| *byte == 0) {
        shown += &format!("{} {:?}, ", String::from_utf8_lossy(&rest[..end]), &rest[end + 5..end + 19]);
        rest = &rest[end + 19..];
    }
    shown
}

/// Sends all units in pieces, and returns all answers.
fn converse<S: Read + Write>(wire: &mut Wire<S>, units: &[Vec<u8>], seed: u64) -> Vec<(char, String)> {
    wire.start_in("postgres", "postgres");
    wire.ask(&query(SCHEMA));
    let mut random = Random(seed);
    let mut answers = Vec::new();
    if seed.is_multiple_of(2) {
        // Each is sent when the one before is answered.
        units.iter().for_each(|unit| answers.extend(wire.ask(unit)));
    } else {
        let bytes = units.concat();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (piece, after) = rest.split_at((*random.one(&[1, 3, 7, 50, 500, 5_000])).min(rest.len()));
            wire.send(piece);
            rest = after;
        }
        units.iter().for_each(|_| answers.extend(wire.until_ready()));
    }
    answers.iter().filter_map(compared).collect()
}

#[test]
fn random_sequences_of_messages_are_answered_as_by_postgresql() {
    let Some(oracle) = oracle::Oracle::start() else { return };
    let running = Running::start();
    let seed = number("HEDDLE_SEED").unwrap_or(1);
    for seed in seed..seed + number("HEDDLE_FUZZ_ROUNDS").unwrap_or(60) {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut known = [0; 3];
        let units: Vec<_> = (0..2 + random.below(8)).map(|_| unit(&mut random, &mut known)).collect();
        let socket = UnixStream::connect(oracle.socket()).expect("PostgreSQL listens");
        socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        let expected = converse(&mut Wire { socket }, &units, seed);
        let socket: TcpStream = open(running.port());
        let answers = converse(&mut Wire { socket }, &units, seed);
        let differs = answers.iter().zip(&expected).position(|(ours, theirs)| ours != theirs);
        assert_eq!(
            (differs.map(|at| &answers[at]), answers.len()),
            (differs.map(|at| &expected[at]), expected.len()),
            "seed {seed}: {}",
            units
                .iter()
                .map(|unit| String::from_utf8_lossy(unit).into_owned())
                .collect::<Vec<_>>()
                .join("\n")
        );
    }
}
