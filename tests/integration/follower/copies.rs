//! Copies of a directory have the same identity; a checkpoint of one of them must not touch another one's files.

use std::path::Path;

use heddledb::testing::{Disk, SimulatedDisk};
use heddledb::{Database, Error, Options, ProtocolKind, Range};

use crate::checkpoint::journal::*;
use crate::follower::companion::*;
use crate::support::split::{in_time, wait_until};

fn plain(disk: &SimulatedDisk) -> Options {
    options(disk, ProtocolKind::default())
}

/// Copies a closed database, file by file.
fn copy(disk: &SimulatedDisk, to: &str) {
    for folder in ["", "log", "checkpoint"] {
        disk.create_dir_all(&Path::new(to).join(folder)).expect("a directory");
        for name in names(disk, folder) {
            if let Ok(bytes) = disk.bytes(&file(folder, &name)) {
                disk.put_bytes(&Path::new(to).join(folder).join(&name), bytes).expect("there");
            }
        }
    }
}

#[test]
fn a_copied_databases_checkpoints_leave_the_originals_alone() {
    in_time(|| {
        let (disk, place) = (SimulatedDisk::new(), Place::new());
        let journal = Journal::create(place.with(plain(&disk)));
        let companion = place.follow(disk.clone());
        wait_for_follower(&journal.db);
        (0..40).for_each(|number| journal.call(0, number).expect("committed"));
        assert!(journal.db.checkpoint().expect("whole").by_follower);
        journal.db.close().expect("durable");
        companion.end();
        copy(&disk, "copy");
        // The copy makes checkpoints of its own, by a follower of its own and on its own, and removes what these replace.
        let other = Place::new();
        let db = Database::open("copy", other.with(plain(&disk))).expect("opens");
        let companion = other.follow_in("copy", disk.clone());
        wait_for_follower(&db);
        assert!(db.checkpoint().expect("whole").by_follower);
        companion.end();
        wait_for_its_end(&db);
        assert!(!db.checkpoint().expect("whole").by_follower);
        db.close().expect("durable");
        let made = Made { calls: vec![40], tables: 0 };
        drop(Journal::survives(plain(&disk), &made, "the original"));
        let db = Database::open("copy", plain(&disk)).expect("the copy");
        let events = db.table("event").expect("a table");
        let count = db.run(|tx| Ok(tx.scan(&events, Range::all())?.count()));
        assert!(count.is_ok_and(|count| count > 30));
    });
}

#[test]
fn a_reader_of_a_copys_directory_is_no_follower_of_the_original() {
    in_time(|| {
        let (disk, place) = (SimulatedDisk::new(), Place::new());
        // Parts go elsewhere, where the original would look for them.
        let journal = Journal::create(
            place.with(plain(&disk)).checkpoints(|checkpoints| checkpoints.directory("elsewhere")),
        );
        journal.call(0, 0).expect("committed");
        journal.db.checkpoint().expect("whole");
        copy(&disk, "copy");
        let companion = place.follow_in("copy", disk.clone());
        wait_until("a refusal", || !companion.errors().is_empty());
        assert!(matches!(companion.errors()[0], Error::ForeignFile { .. }), "{:?}", companion.errors());
        journal.call(0, 1).expect("committed");
        assert!(!journal.db.checkpoint().expect("whole").by_follower);
        journal.db.close().expect("durable");
        companion.end();
        let made = Made { calls: vec![2], tables: 0 };
        drop(Journal::survives(plain(&disk), &made, "the original"));
    });
}
