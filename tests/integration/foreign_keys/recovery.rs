//! Foreign keys after recovery: in the catalog, from the log and from checkpoints, after power loss at any time, and for
//! `Database::check`.

use std::sync::Arc;

use heddledb::testing::SimulatedDisk;
use heddledb::{Database, Options, ProtocolKind, ReferentialAction, TableChange, key, row};

use crate::foreign_keys::rig::{
    Rig, by_code, by_key, children, no_parent, orphans, parents, still_referenced,
};

fn open(disk: &SimulatedDisk, protocol: ProtocolKind) -> Database {
    try_open(disk, protocol).expect("a database")
}

fn try_open(disk: &SimulatedDisk, protocol: ProtocolKind) -> heddledb::Result<Database> {
    let log = |log: heddledb::LogOptions| log.segment_bytes(1 << 20).buffer_bytes(1 << 18);
    let options = Options::default().protocol(protocol).log(log).disk(Arc::new(disk.clone()));
    Database::open("/db", options)
}

fn again(db: Database) -> Rig {
    let (parents, children) = (db.table("parent").expect("parents"), db.table("child").expect("children"));
    Rig { db, parents, children }
}

#[test]
fn a_foreign_key_is_enforced_after_recovery_as_before() {
    for &protocol in ProtocolKind::ALL {
        for with_checkpoint in [false, true] {
            let disk = SimulatedDisk::new();
            let key_of = by_code()
                .on_delete(ReferentialAction::SetNull)
                .on_update(ReferentialAction::Cascade)
                .deferred();
            let rig = Rig::new(open(&disk, protocol), key_of);
            let definition = rig.children.definition().clone();
            rig.db.change_table("parent", TableChange::new().rename("elder")).expect("renamed");
            rig.db.change_table("elder", TableChange::new().rename("parent")).expect("renamed back");
            if with_checkpoint {
                rig.db.checkpoint().expect("a checkpoint");
            }
            drop(rig);
            let rig = again(open(&disk, protocol));
            assert_eq!(rig.children.definition(), &definition);
            rig.db
                .run(|tx| tx.update(&rig.parents, key![1], &[("code", 15.into())]))
                .expect("children follow");
            assert_eq!(rig.children(), [(11, Some(15)), (12, Some(15))]);
            no_parent(rig.db.run(|tx| tx.insert(&rig.children, row![13, 10, 0])));
            rig.db.run(|tx| tx.delete(&rig.parents, key![1])).expect("children stay");
            rig.check();
            drop(rig);
            let rig = again(open(&disk, protocol));
            assert_eq!(rig.children(), [(11, None), (12, None)]);
            rig.check();
        }
    }
}

/// The changes of a run until the disk fails.
fn work(db: &Database) -> heddledb::Result<()> {
    let parents = db.create_table(parents())?;
    let children = db.create_table(children(by_key().on_delete(ReferentialAction::Cascade)))?;
    db.run(|tx| (1..=9).try_for_each(|id| tx.insert(&parents, row![id, id * 10, 0])))?;
    for id in 1..=9 {
        db.run(|tx| (0..3).try_for_each(|place| tx.insert(&children, row![id * 10 + place, id, 0])))?;
    }
    for id in 1..=4 {
        db.run(|tx| tx.delete(&parents, key![id]))?;
    }
    db.change_table("child", TableChange::new().drop_constraint("child_parent"))?;
    db.change_table("child", TableChange::new().add_foreign_key(by_key()))?;
    db.change_table("parent", TableChange::new().rename("elder"))?;
    db.run(|tx| tx.delete(&children, key![50]))?;
    Ok(())
}

#[test]
fn no_power_loss_leaves_a_child_without_its_parent() {
    let prepared = SimulatedDisk::new();
    drop(open(&prepared, ProtocolKind::Optimistic));
    let mut with_key = 0;
    for boundary in (1..).step_by(2) {
        let disk = prepared.crash_image(1);
        disk.crash_after(boundary);
        if let Ok(db) = try_open(&disk, ProtocolKind::Optimistic) {
            let _ = work(&db);
        }
        if disk.operations() <= boundary {
            assert!(boundary > 40 && with_key > 10, "{boundary} operations, {with_key}");
            break;
        }
        let db = open(&disk.crash_image(boundary), ProtocolKind::Optimistic);
        let (Some(parents), Ok(children)) =
            (db.table("parent").or_else(|_| db.table("elder")).ok(), db.table("child"))
        else {
            continue;
        };
        let found = db.run(|tx| orphans(tx, (&children, "parent"), (&parents, "id")));
        assert_eq!(found.expect("a scan"), [], "after power loss at {boundary}");
        db.check().expect("consistent");
        if children.definition().foreign_keys().is_empty() {
            continue;
        }
        with_key += 1;
        no_parent(db.run(|tx| tx.insert(&children, row![99, 77, 0])));
    }
}

#[test]
fn a_foreign_key_without_an_action_holds_after_recovery() {
    let disk = SimulatedDisk::new();
    drop(Rig::new(open(&disk, ProtocolKind::Optimistic), by_key()));
    let rig = again(open(&disk, ProtocolKind::Optimistic));
    still_referenced(rig.db.run(|tx| tx.delete(&rig.parents, key![1])));
    rig.check();
}
