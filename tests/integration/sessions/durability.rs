//! Tests that a session's reads are of durable state, and that its commits are durable when they are
//! acknowledged.

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use heddledb::testing::{Fault, Operation, SimulatedDisk};
use heddledb::{Database, Error, Options, ProtocolKind, SessionState, row};

use crate::sessions::rig::Rig;

/// Holds what is to be made durable back, for as long as it lives.
struct HeldSyncs<'d>(&'d SimulatedDisk);

impl<'d> HeldSyncs<'d> {
    fn of(disk: &'d SimulatedDisk) -> Self {
        disk.hold_syncs();
        HeldSyncs(disk)
    }
}

impl Drop for HeldSyncs<'_> {
    fn drop(&mut self) {
        self.0.release_syncs();
    }
}

fn open(disk: &SimulatedDisk, protocol: ProtocolKind) -> Database {
    let options = Options::default().protocol(protocol).workers(2);
    let options =
        options.log(|log| log.buffer_bytes(1 << 18).segment_bytes(1 << 20)).disk(Arc::new(disk.clone()));
    Database::open("/db", options).expect("a database")
}

fn reopened(disk: &SimulatedDisk, protocol: ProtocolKind) -> Rig {
    let db = open(disk, protocol);
    let items = db.table("item").expect("the table");
    Rig { db, items, protocol }
}

#[test]
fn what_was_committed_is_there_after_a_power_loss_and_nothing_else() {
    for &protocol in ProtocolKind::ALL {
        let disk = SimulatedDisk::new();
        let rig = Rig::of(open(&disk, protocol), protocol);
        let mut session = rig.begin();
        rig.increase(&mut session, 1).expect("an update");
        session.run(|tx| tx.insert(&rig.items, row![5, 50, 1, 5])).expect("an insert");
        session.commit().expect("a commit");
        session.begin().expect("a transaction");
        rig.increase(&mut session, 2).expect("an update");
        for seed in 0..4 {
            let crashed = reopened(&disk.crash_image(seed), protocol);
            assert_eq!(crashed.all(), [(1, 11), (2, 20), (3, 30), (4, 40), (5, 50)], "{protocol}");
            crashed.db.check().expect("consistent");
        }
    }
}

#[test]
fn what_a_session_reads_is_reported_when_it_is_durable_and_not_before() {
    for &protocol in ProtocolKind::ALL {
        let disk = SimulatedDisk::new();
        let rig = Rig::of(open(&disk, protocol), protocol);
        let [mut reader, mut refused, mut committer] = [rig.begin(), rig.begin(), rig.begin()];
        let committed = || rig.db.statistics().committed;
        let before = committed();
        thread::scope(|scope| {
            let held = HeldSyncs::of(&disk);
            scope.spawn(|| rig.set(1, 11));
            while committed() == before {
                thread::yield_now();
            }
            let mut context = Context::from_waker(Waker::noop());
            {
                // The update is in memory, and no client may learn of it, by a value or by an error.
                let mut read = pin!(reader.run_async(|tx| {
                    tx.get(&rig.items, [1.into()])?.map(|row| row.int("value")).transpose()
                }));
                let mut insert = pin!(refused.run_async(|tx| tx.insert(&rig.items, row![1, 0, 0, 0])));
                let mut write = pin!(
                    committer.run_async(|tx| { tx.update(&rig.items, [2.into()], &[("value", 21.into())]) })
                );
                assert!(read.as_mut().poll(&mut context).is_pending(), "{protocol}");
                assert!(insert.as_mut().poll(&mut context).is_pending(), "{protocol}");
                assert_eq!(write.as_mut().poll(&mut context), Poll::Ready(Ok(())), "it was durable before");
                drop(held);
                while read.as_mut().poll(&mut context).is_pending() {
                    thread::yield_now();
                }
                while insert.as_mut().poll(&mut context).is_pending() {
                    thread::yield_now();
                }
            }
        });
        assert_eq!(rig.read(&mut reader, 1), Ok(Some(11)), "{protocol}");
        committer.commit().expect("a commit");
    }
}

#[test]
fn after_the_log_has_failed_reads_of_durable_data_go_on_and_commits_are_refused() {
    for &protocol in ProtocolKind::ALL {
        let disk = SimulatedDisk::new();
        let rig = Rig::of(open(&disk, protocol), protocol);
        let [mut reader, mut writer, mut unknown, mut late] =
            [rig.begin(), rig.begin(), rig.begin(), rig.begin()];
        rig.write(&mut writer, 2, 21).expect("an update");
        rig.write(&mut unknown, 1, 11).expect("an update");
        // From then on only the log syncs.
        let deadline = Instant::now() + Duration::from_secs(60);
        while disk.bytes(Path::new("/db/log/00000002.log")).is_err() {
            assert!(Instant::now() < deadline, "the second segment is never prepared");
            thread::yield_now();
        }
        disk.fail_next(Operation::Sync, Fault::InputOutput);
        let is_unknown = |result: &heddledb::Result<()>| matches!(result, Err(Error::LogFailed { .. }));
        let outcome = unknown.commit();
        assert!(is_unknown(&outcome), "{protocol}: {outcome:?}");
        assert_eq!(unknown.state(), SessionState::Idle);
        assert_eq!(rig.read(&mut reader, 3), Ok(Some(30)), "it is durable");
        let reported = rig.read(&mut reader, 1).map(drop);
        assert!(is_unknown(&reported), "{protocol}: {reported:?}");
        assert_eq!(reader.state(), SessionState::Aborted);
        let refused = writer.commit();
        assert!(is_unknown(&refused), "{protocol}: {refused:?}");
        let refused = rig.write(&mut late, 4, 41);
        assert!(is_unknown(&refused), "{protocol}: {refused:?}");
        for seed in 0..4 {
            let crashed = reopened(&disk.crash_image(seed), protocol);
            let value = crashed.value(1);
            assert!(matches!(value, Some(10 | 11)), "unknown, and found {value:?}");
            assert_eq!((crashed.value(2), crashed.value(4)), (Some(20), Some(40)), "refused");
        }
    }
}
