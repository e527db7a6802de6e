//! Power loss at every boundary of every disk operation, of a short life and of its recovery.

use std::thread;

use heddledb::testing::SimulatedDisk;
use heddledb::{Error, Options, ProtocolKind, Range};

use super::{Ledger, Quiet, tiny, tiny_under};
use crate::support::logged::*;

/// The work of the test at every boundary: creates a database, tables, makes transfers that fill segments,
/// closes. Returns the number of acknowledged transfers; `None` if not even the database was created.
fn a_short_life(options: Options) -> Option<i64> {
    let ledger = Ledger::create(options).ok()?;
    let mut acknowledged = 0;
    let mut refused = None;
    for number in 0..30 {
        refused = ledger.transfer(0, number).err();
        if refused.is_some() {
            break;
        }
        acknowledged = number + 1;
    }
    let closed = ledger.db.close();
    match refused {
        None => {}
        // It was a segment that could not be made: what was refused was not committed, and all else is durable.
        Some(Error::NoLogSpace { .. } | Error::LogNotExtended { .. }) => assert_eq!(closed, Ok(())),
        Some(error) => {
            assert!(matches!(error, Error::LogFailed { .. }), "{error}");
            assert!(closed.is_err(), "closed well, and yet only {acknowledged} transfers");
        }
    }
    Some(acknowledged)
}

/// Opens what a crash has left, twice, and works on: both times everything that was acknowledged must be there.
fn survives(options: &Options, acknowledged: Option<i64>, what: &str) {
    let ledger = match Ledger::open(options.clone()) {
        Ok(ledger) => ledger,
        // Before the ledger was made nothing was acknowledged. It may be made now.
        Err(Error::UnknownTable { .. }) if acknowledged.is_none() => return,
        Err(error) => panic!("{what}: {error}"),
    };
    let accounts =
        ledger.db.run(|tx| Ok(tx.scan(&ledger.accounts, Range::all())?.count())).expect("readable");
    if accounts == 0 && acknowledged.is_none() {
        return;
    }
    ledger.check(&[acknowledged.unwrap_or(0)], what);
    let next = ledger.transfers_of(0);
    ledger.transfer(0, next).unwrap_or_else(|error| panic!("{what}: {error}"));
    ledger.db.close().unwrap_or_else(|error| panic!("{what}: {error}"));
    Ledger::open(options.clone()).expect("again").check(&[next + 1], what);
}

/// The operations of a life depend a little on what the threads do when; so the boundaries go on until a whole life
/// fits before the crash. Segments need many operations that are alike: they are sampled.
#[test]
fn a_crash_at_every_boundary_from_creation_to_closing() {
    in_time("every boundary", || crash_at_boundaries(ProtocolKind::default(), 1));
}

/// A protocol is nothing to the log, but for what is appended, by which thread, and when: so some boundaries are enough.
#[test]
fn a_crash_at_some_boundaries_under_every_protocol() {
    for &protocol in ProtocolKind::ALL {
        in_time("some boundaries", move || crash_at_boundaries(protocol, 7));
    }
}

fn crash_at_boundaries(protocol: ProtocolKind, stride: u64) {
    let mut boundary = 0;
    loop {
        let disk = SimulatedDisk::new();
        disk.crash_after(boundary);
        let acknowledged = a_short_life(tiny_under(protocol, &disk));
        let whole = disk.operations() <= boundary;
        for seed in [0, 1, boundary + 2] {
            let what = format!("{protocol}, boundary {boundary}, seed {seed}");
            survives(&tiny_under(protocol, &disk.crash_image(seed)), acknowledged, &what);
        }
        if whole {
            assert_eq!(acknowledged, Some(30));
            break;
        }
        boundary += stride;
    }
    assert!(boundary > 60, "only {boundary} operations: is anything synced?");
}

/// The power goes again while the database recovers, at every boundary of that.
#[test]
fn a_crash_at_every_boundary_of_recovery() {
    in_time("recovery", || {
        let disk = SimulatedDisk::new();
        let ledger = Ledger::create(tiny(&disk)).expect("new");
        for number in 0..12 {
            ledger.transfer(0, number).expect("committed");
        }
        // A group that was written and not synced, so that there is something to cut or to make durable.
        disk.wait_for_quiet();
        let held = HeldSyncs::of(&disk);
        let pending = {
            let ledger = Ledger { db: ledger.db.clone(), ..ledger.handles() };
            thread::spawn(move || ledger.transfer(0, 12))
        };
        disk.wait_for_held_syncs(1);
        for seed in 0..6 {
            let image = disk.crash_image(seed);
            for boundary in 0.. {
                let again = image.crash_image(1);
                again.crash_after(boundary);
                let opened = Ledger::open(tiny(&again)).is_ok();
                let whole = again.operations() <= boundary;
                for second in [0, 1, boundary + 2] {
                    let what = format!("seed {seed}, boundary {boundary}, then {second}");
                    survives(&tiny(&again.crash_image(second)), Some(12), &what);
                }
                if whole || opened && boundary > 40 {
                    break;
                }
            }
        }
        held.release();
        pending.join().expect("no panic").expect("committed");
    });
}
