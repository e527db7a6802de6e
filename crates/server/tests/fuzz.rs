//! The protocol under messages that are damaged, cut, repeated and made up: no input ends the server, panics in it, or
//! disturbs another session.
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
use support::wire::{Wire, bind, execute, first, flush, message, open, parse, run, sync};

/// Messages that make sense, in an order that may make none.
fn samples() -> Vec<Vec<u8>> {
    let query = |text: &str| message('Q', &[text.as_bytes(), b"\0"].concat());
    vec![
        query("SELECT 1; SELECT 'x' || $tag$y$tag$, ARRAY[1, 2]"),
        query("BEGIN; INSERT INTO t VALUES (1, 'a') ON CONFLICT DO NOTHING; SAVEPOINT s; ROLLBACK TO s"),
        query("COMMIT"),
        query("COPY t FROM STDIN (FORMAT BINARY)"),
        query("COPY t TO STDOUT (FORMAT CSV)"),
        query("DECLARE c CURSOR WITH HOLD FOR SELECT * FROM t"),
        query("FETCH BACKWARD ALL FROM c"),
        query("LISTEN a; NOTIFY a, 'b'"),
        parse("named", "SELECT * FROM t WHERE id = $1 AND v LIKE $2"),
        bind("named", &["1", "%"]),
        message('B', b"p\0named\0\0\x02\0\x01\0\0\0\x02\0\0\0\x04\0\0\0\x01\xff\xff\xff\xff\0\x01\0\x01"),
        message('B', b"\0named\0\0\x01\0\x01\0\x02\x7f\xff\xff\xff"),
        message('D', b"Snamed\0"),
        message('D', b"Pc\0"),
        message('E', b"p\0\0\0\0\x01"),
        message('C', b"Pp\0"),
        message('C', b"Snamed\0"),
        run("UPDATE t SET v = $1 WHERE id = 1", &["z"]),
        execute(1),
        message('d', b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\x04\0\0\0\x05\xff\xff\xff\xff\xff\xff"),
        message('d', b"1\tx\n\\.\n"),
        message('c', b""),
        message('f', b"no more\0"),
        message('p', b"secret\0"),
        message('F', b"\0\0\0\x01\0\0\0\0\0\0"),
        flush(),
        sync(),
        sync(),
    ]
}

/// A conversation: some messages, most of them whole, some damaged.
fn conversation(samples: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..1 + random.below(24) {
        let mut sample = samples[random.below(samples.len())].clone();
        match random.below(12) {
            0 => {
                let at = random.below(sample.len());
                sample[at] ^= 1 << random.below(8);
            }
            1 => sample.truncate(random.below(sample.len())),
            2 => {
                let length = [0, 3, 4, 5, 0x7fff_ffff, u32::MAX, 70_000_000][random.below(7)];
                sample[1..5].copy_from_slice(&length.to_be_bytes());
            }
            3 => {
                // The length is right, and the body is not.
                let body: Vec<u8> = (0..random.below(64)).map(|_| random.next() as u8).collect();
                sample = message(sample[0] as char, &body);
            }
            4 => sample = (0..random.below(200)).map(|_| random.next() as u8).collect(),
            5 => {
                let (at, byte) = (5 + random.below(sample.len() - 4), random.next() as u8);
                let mut body = sample[5..].to_vec();
                body.insert((at - 5).min(body.len()), byte);
                sample = message(sample[0] as char, &body);
            }
            _ => (),
        }
        bytes.extend(sample);
    }
    bytes
}

/// A first message, mostly damaged.
fn beginning(random: &mut Random) -> Vec<u8> {
    let mut bytes = match random.below(4) {
        0 => first(80_877_102, &random.next().to_be_bytes()),
        1 => first(80_877_103, b""),
        2 => (0..random.below(64)).map(|_| random.next() as u8).collect(),
        _ => first(0x0003_0002, b"user\0ada\0_pq_.unknown\0on\0\0"),
    };
    if !bytes.is_empty() && random.below(2) == 0 {
        let at = random.below(bytes.len());
        bytes[at] = random.next() as u8;
    }
    bytes
}

/// Sends bytes, says that there are no more, and reads what the server answers until it closes the connection.
fn exchange(socket: &mut (impl Read + Write), bytes: &[u8], close: impl FnOnce()) {
    // The server may close the connection first.
    let _ = socket.write_all(bytes);
    close();
    let _ = std::io::copy(socket, &mut std::io::sink());
}

#[test]
fn no_input_ends_the_server_or_another_session() {
    let rounds = number("HEDDLE_FUZZ_ROUNDS").unwrap_or(400);
    let seed = number("HEDDLE_SEED").unwrap_or_else(|| std::process::id().into());
    println!("HEDDLE_SEED={seed}");
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let panics = Arc::new(AtomicUsize::new(0));
    let (seen, usual) = (panics.clone(), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |info| {
        // Relaxed: it is read when the connection has ended.
        seen.fetch_add(1, Ordering::Relaxed);
        usual(info);
    }));
    let running = Running::with("statement_timeout_ms = 2000");
    let mut other = Wire::connect(running.port());
    other.rows("SET statement_timeout = 0");
    other.rows("CREATE TABLE t (id int PRIMARY KEY, v text)");
    other.rows("CREATE TABLE own (id int PRIMARY KEY)");
    other.rows("BEGIN");
    let samples = samples();
    for round in 0..rounds {
        let mut socket = if random.below(5) == 0 {
            let mut socket = open(running.port());
            let _ = socket.write_all(&beginning(&mut random));
            socket
        } else {
            Wire::connect(running.port()).socket
        };
        let bytes = conversation(&samples, &mut random);
        let closing = socket.try_clone().expect("a descriptor");
        exchange(&mut socket, &bytes, || drop(closing.shutdown(Shutdown::Write)));
        assert_eq!(panics.load(Ordering::Relaxed), 0, "round {round} of seed {seed}: {bytes:?}");
        other.rows(&format!("INSERT INTO own VALUES ({round})"));
    }
    other.rows("COMMIT");
    assert_eq!(other.value("SELECT count(*) FROM own"), rounds.to_string());
}
