//! Tests that wait for a timeout, which is short in the engine's own tests.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::connection::SILENCE;
use super::message::{FromFollower, ToFollower, VERSION};
use crate::base::socket::Connection;
use crate::database::Database;
use crate::options::Options;
use crate::testing::SimulatedDisk;
use crate::{Error, TableDefinition, row};

fn open(disk: &SimulatedDisk, socket: &Path) -> Database {
    let options = Options::default()
        .disk(Arc::new(disk.clone()))
        .checkpoints(|checkpoints| checkpoints.follower_socket(socket))
        .workers(1);
    let db = Database::open("bank", options.log(|log| log.segment_bytes(64 << 10).buffer_bytes(4 << 10)))
        .expect("opens");
    let table = TableDefinition::new("t").column("id", crate::DataType::Int64).primary_key(["id"]);
    let table = db.create_table(table).expect("a table");
    db.run(|tx| tx.insert(&table, row![1])).expect("committed");
    db
}

/// Connects, as a follower would; the first message it receives.
fn come(socket: &Path) -> (Connection, ToFollower) {
    let mut line = Connection::to(socket, Duration::from_millis(10)).expect("the primary listens");
    say(&mut line, &FromFollower::Hello { version: VERSION });
    let first = (0..1_000).find_map(|_| line.receive().expect("it is there")).expect("an answer");
    (line, ToFollower::decode(&first).expect("a message"))
}

fn say(line: &mut Connection, message: &FromFollower) {
    line.put(&message.encode());
    line.send().expect("it is there");
}

#[test]
fn a_follower_that_says_nothing_is_given_up_after_a_while() {
    let place = tempfile::tempdir().expect("a directory");
    let (disk, socket) = (SimulatedDisk::new(), place.path().join("socket"));
    let db = open(&disk, &socket);
    let (_line, first) = come(&socket);
    assert!(matches!(first, ToFollower::Begin { checkpoint: 0, directory, .. } if directory == "bank"));
    let start = Instant::now();
    let report = db.checkpoint().expect("by the database itself");
    assert!(!report.by_follower && report.number == 2, "its number may have been used: {report:?}");
    assert!(start.elapsed() < 20 * SILENCE);
    let follower = db.checkpoints().follower.expect("one is waited for");
    assert!(!follower.attached && matches!(follower.failure, Some(Error::FollowerFailed { .. })));
    // The next one begins with what is there by now.
    let (_line, first) = come(&socket);
    assert!(matches!(first, ToFollower::Begin { checkpoint: 2, .. }), "{first:?}");
    db.close().expect("durable");
}

#[test]
fn a_follower_that_is_slow_and_alive_is_waited_for() {
    let place = tempfile::tempdir().expect("a directory");
    let (disk, socket) = (SimulatedDisk::new(), place.path().join("socket"));
    let db = open(&disk, &socket);
    let (mut line, _) = come(&socket);
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| db.checkpoint().expect("by the database itself"));
        let start = Instant::now();
        while start.elapsed() < 2 * SILENCE {
            say(&mut line, &FromFollower::Alive { epoch: 1, busy: start.elapsed().as_nanos() as u64 });
            std::thread::sleep(SILENCE / 20);
        }
        assert!(db.checkpoints().running, "it is at work, for all that is known");
        say(&mut line, &FromFollower::Failed { number: 1, reason: "no room".to_string() });
        assert!(!asked.join().expect("no panic").by_follower);
    });
    let follower = db.checkpoints().follower.expect("one is waited for");
    assert!(follower.attached, "it may have room the next time");
    assert!(follower.failure.expect("reported").to_string().contains("no room"));
    assert!(db.statistics().follower_busy > SILENCE);
    db.close().expect("durable");
}
