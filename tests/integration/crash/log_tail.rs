//! The end of the log after a power loss: torn groups are cut, damage before them is refused.

use std::thread;

use heddledb::Error;
use heddledb::testing::SimulatedDisk;

use super::{Ledger, Quiet, tiny};
use crate::support::logged::*;

/// A group that was written and not synced is torn by the crash; it is cut off, said, and its place is used again.
/// Then the same once more.
#[test]
fn torn_groups_are_cut_and_said_and_written_over_again_and_again() {
    in_time("torn groups", || {
        for seed in 2..12 {
            let mut disk = SimulatedDisk::new();
            drop(Ledger::create(tiny(&disk)).expect("new"));
            let mut made = 0;
            let mut cuts = 0;
            for round in 0..4 {
                let ledger = Ledger::open(tiny(&disk)).expect("opens");
                cuts += u32::from(ledger.db.recovery().cut.is_some());
                if let Some(cut) = &ledger.db.recovery().cut {
                    assert!(cut.contains("00000001.log") && cut.contains("bytes"), "{cut}");
                }
                let found = ledger.transfers_of(0);
                assert!(found == made || found == made + 1, "{made} {found}");
                made = found;
                ledger.check(&[made], &format!("seed {seed}, round {round}"));
                for _ in 0..3 {
                    ledger.transfer(0, made).expect("committed");
                    made += 1;
                }
                disk.wait_for_quiet();
                let held = HeldSyncs::of(&disk);
                let pending = {
                    let ledger = ledger.handles();
                    thread::spawn(move || ledger.transfer(0, made))
                };
                disk.wait_for_held_syncs(1);
                let image = disk.crash_image(seed + round);
                held.release();
                pending.join().expect("no panic").expect("committed");
                disk = image;
            }
            let _ = cuts;
        }
    });
}

/// The unsynced group is torn by hand, in its payload: then it must be cut, and how much is said.
#[test]
fn a_torn_tail_is_said_with_file_and_offset() {
    let disk = SimulatedDisk::new();
    let ledger = Ledger::create(tiny(&disk)).expect("new");
    ledger.transfer(0, 0).expect("committed");
    ledger.transfer(0, 1).expect("committed");
    drop(ledger);
    let mut log = disk.bytes(&segment(1)).expect("there");
    let last = (0..log.len() / 4_096).rev().find(|page| log[page * 4_096..][..4] != [0; 4]).expect("a block");
    log[last * 4_096 + 60] ^= 1;
    disk.put_bytes(&segment(1), log).expect("there");
    let ledger = Ledger::open(tiny(&disk)).expect("opens");
    let cut = ledger.db.recovery().cut.clone().expect("it was cut");
    assert!(cut.contains("00000001.log") && cut.contains(&(last * 4_096).to_string()), "{cut}");
    ledger.check(&[1], "without the torn group");
    ledger.transfer(0, 1).expect("committed again");
    drop(ledger);
    let ledger = Ledger::open(tiny(&disk.crash_image(0))).expect("opens");
    assert_eq!(ledger.db.recovery().cut, None, "it was cut for good");
    ledger.check(&[2], "after the cut");
}

#[test]
fn damage_before_the_tail_is_refused_with_file_and_offset_and_nothing_is_changed() {
    let disk = SimulatedDisk::new();
    let ledger = Ledger::create(tiny(&disk)).expect("new");
    for number in 0..6 {
        ledger.transfer(0, number).expect("committed");
    }
    drop(ledger);
    let log = disk.bytes(&segment(1)).expect("there");
    let blocks: Vec<usize> =
        (1..log.len() / 4_096).filter(|page| log[page * 4_096..][..4] != [0; 4]).collect();
    for &page in &blocks[..blocks.len() - 1] {
        for at in [0, 5, 20, 50] {
            let mut damaged = log.clone();
            damaged[page * 4_096 + at] ^= 0x10;
            disk.put_bytes(&segment(1), damaged.clone()).expect("there");
            let error = Ledger::open(tiny(&disk)).err().expect("damage");
            let Error::Damaged { path, offset, .. } = &error else { panic!("{error}") };
            assert!(path.ends_with("00000001.log"), "{error}");
            assert_eq!(*offset, page as u64 * 4_096, "{error}");
            assert_eq!(disk.bytes(&segment(1)).expect("there"), damaged, "it was changed");
        }
    }
    disk.put_bytes(&segment(1), log).expect("there");
    Ledger::open(tiny(&disk)).expect("whole again").check(&[6], "whole again");
}

#[test]
fn a_missing_segment_is_refused_by_its_name() {
    let disk = SimulatedDisk::new();
    let ledger = Ledger::create(tiny(&disk)).expect("new");
    for number in 0..60 {
        ledger.transfer(0, number).expect("committed");
    }
    drop(ledger);
    for missing in 1..=3 {
        let copy = disk.crash_image(1);
        heddledb::testing::Disk::remove(&copy, &segment(missing)).expect("it was there");
        match Ledger::open(tiny(&copy)) {
            Err(Error::MissingFile { path, .. }) => {
                assert!(path.ends_with(&format!("{missing:08}.log")), "{path}");
            }
            Err(error) => panic!("{error}"),
            // The last one may be prepared and unused.
            Ok(ledger) => {
                assert!(disk.bytes(&segment(missing + 1)).is_err(), "segment {missing} is missing");
                ledger.check(&[60], "without an unused segment");
            }
        }
    }
}
