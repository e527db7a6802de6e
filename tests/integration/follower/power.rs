//! The power goes, or a process is killed, at any moment while a follower writes checkpoints and the database names them.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use heddledb::testing::SimulatedDisk;
use heddledb::{Options, ProtocolKind};

use crate::checkpoint::journal::*;
use crate::follower::companion::*;
use crate::support::split::in_time;

/// Ways in which the power may go, tried at each moment.
const WAYS: u64 = 4;

struct Image {
    disk: SimulatedDisk,
    reported: i64,
    what: String,
}

/// Calls, and checkpoints by a follower beside them; images of every moment, with what had been acknowledged by then.
fn images_of_a_run(protocol: ProtocolKind, with: fn(Options) -> Options) -> Vec<Image> {
    let (disk, place) = (SimulatedDisk::new(), Place::new());
    Journal::create(with(options(&disk, protocol))).db.close().expect("durable");
    let journal = Journal::open(place.with(with(options(&disk, protocol)))).expect("opens");
    let companion = place.follow(disk.clone());
    wait_for_follower(&journal.db);
    let (reported, images) = (Arc::new(AtomicI64::new(0)), Arc::new(Mutex::new(Vec::new())));
    let (watched, taken) = (reported.clone(), images.clone());
    disk.watch(move |moment| {
        for way in 0..WAYS {
            let seed = if way < 2 { way } else { moment.number() * WAYS + way };
            let what =
                format!("{protocol}, before {:?} {}, seed {seed}", moment.operation(), moment.number());
            let image = Image { reported: watched.load(Ordering::SeqCst), disk: moment.image(seed), what };
            taken.lock().expect("no panic").push(image);
        }
    });
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..24 {
                journal.call(0, number).expect("committed");
                reported.store(number + 1, Ordering::SeqCst);
            }
        });
        scope.spawn(|| (0..2).for_each(|_| assert!(journal.db.checkpoint().expect("whole").by_follower)));
    });
    journal.db.close().expect("durable");
    disk.watch_no_more();
    companion.end();
    std::mem::take(&mut *images.lock().expect("no panic"))
}

fn nothing_is_lost(protocol: ProtocolKind, with: fn(Options) -> Options) {
    let images = images_of_a_run(protocol, with);
    assert!(images.len() as u64 > 50 * WAYS, "{} images", images.len());
    for Image { disk, reported, what } in &images {
        let made = Made { calls: vec![*reported], tables: 0 };
        let read_only = with(options(disk, ProtocolKind::default())).read_only(true);
        drop(Journal::survives(read_only, &made, what));
    }
    // Some are worked on, by a follower of their own.
    for Image { disk, reported, what } in images.iter().step_by(97) {
        let place = Place::new();
        let plain = || with(options(disk, protocol));
        let journal =
            Journal::survives(place.with(plain()), &Made { calls: vec![*reported], tables: 0 }, what);
        let number = journal.made(1).calls[0];
        let companion = place.follow(disk.clone());
        wait_for_follower(&journal.db);
        journal.call(0, number).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(journal.db.checkpoint().unwrap_or_else(|error| panic!("{what}: {error}")).by_follower);
        journal.db.close().unwrap_or_else(|error| panic!("{what}: {error}"));
        companion.end();
        let made = Made { calls: vec![number + 1], tables: 0 };
        drop(Journal::survives(with(options(&disk.crash_image(0), protocol)), &made, what));
    }
}

#[test]
fn nothing_acknowledged_is_lost_at_any_moment() {
    in_time(|| nothing_is_lost(ProtocolKind::default(), |options| options));
}

#[test]
fn nor_while_columns_are_split() {
    in_time(|| nothing_is_lost(ProtocolKind::Phased, |options| options));
}

#[test]
fn nor_with_parts_in_other_directories() {
    in_time(|| {
        nothing_is_lost(ProtocolKind::default(), |options| {
            options.checkpoints(|checkpoints| checkpoints.directory("elsewhere"))
        })
    });
}
