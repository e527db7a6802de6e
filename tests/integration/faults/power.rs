//! Power loss at every moment: before every write, sync, rename and other change of a run with groups, checkpoints, changes
//! of segments, split phases and changes of the schema, the disk is imagined as the power going just then may leave it, in
//! several ways; from each of these images the database is recovered and compared with what had been acknowledged by then.
//!
//! There are at least ten thousand images, no two of them alike; `HEDDLE_IMAGES` is a factor of how many.

use std::any::Any;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use heddledb::testing::{Disk, SimulatedDisk};
use heddledb::{ProtocolKind, Result};

use crate::checkpoint::journal::{DIRECTORY, Journal, Made, names, options};
use crate::support::split::report;

/// Different images that are recovered, at least.
const IMAGES: u64 = 10_000;
/// Ways in which the power may go, tried at each moment.
const WAYS: u64 = 10;
const THREADS: usize = 2;
/// Calls of each thread in one run.
const CALLS: i64 = 24;

/// The calls and tables that were acknowledged to callers.
#[derive(Default)]
struct Acknowledged {
    calls: [AtomicI64; THREADS],
    tables: AtomicI64,
}

impl Acknowledged {
    fn now(&self) -> Made {
        let calls = self.calls.iter().map(|count| count.load(Ordering::SeqCst)).collect();
        Made { calls, tables: self.tables.load(Ordering::SeqCst) }
    }
}

/// An image, what had been acknowledged when it was taken, and what it is called.
struct Image {
    disk: SimulatedDisk,
    reported: Made,
    what: String,
}

/// The outcomes of recoveries.
#[derive(Default)]
struct Seen {
    different: Mutex<HashSet<u64>>,
    recovered: AtomicU64,
    failure: Mutex<Option<Box<dyn Any + Send>>>,
}

/// A number for what is on a disk, and what must be in it.
fn identity(image: &Image) -> u64 {
    let mut hasher = DefaultHasher::new();
    for folder in ["", "log", "checkpoint"] {
        for name in names(&image.disk, folder) {
            let path = Path::new(DIRECTORY).join(folder).join(&name);
            let content = image.disk.bytes(&path).map(|bytes| crc32c::crc32c(&bytes)).ok();
            (folder, name, content).hash(&mut hasher);
        }
    }
    (&image.reported.calls, image.reported.tables).hash(&mut hasher);
    hasher.finish()
}

/// Recovers image after image.
fn recover_all(images: &Mutex<Receiver<Image>>, seen: &Seen) {
    loop {
        let next = images.lock().expect("no panic").recv();
        let Ok(image) = next else { return };
        if !seen.different.lock().expect("no panic").insert(identity(&image)) {
            continue;
        }
        let number = seen.recovered.fetch_add(1, Ordering::SeqCst);
        // A thread that has panicked goes on taking images, so that the run ends; the test fails all the same.
        let recovered = catch_unwind(AssertUnwindSafe(|| recover(&image, number)));
        if let Err(panic) = recovered {
            seen.failure.lock().expect("no panic").get_or_insert(panic);
        }
    }
}

/// Recovers one image: for reading only, or, every sixteenth, to work on under one protocol or another.
fn recover(Image { disk, reported, what }: &Image, number: u64) {
    let plain = options(disk, ProtocolKind::ALL[number as usize / 16 % ProtocolKind::ALL.len()]);
    if !number.is_multiple_of(16) {
        Journal::survives(options(disk, ProtocolKind::default()).read_only(true), reported, what);
        return;
    }
    let journal = Journal::survives(plain, reported, what);
    let made = journal.made(THREADS);
    journal.call(0, made.calls[0]).unwrap_or_else(|error| panic!("{what}: {error}"));
    journal.db.close().unwrap_or_else(|error| panic!("{what}: {error}"));
    // A table whose creation was not acknowledged may be there by half.
    let calls = vec![made.calls[0] + 1, made.calls[1]];
    let image = options(&disk.crash_image(0), ProtocolKind::default());
    Journal::survives(image, &Made { calls, tables: reported.tables }, what);
}

/// Does one thing after the other and counts what was acknowledged.
fn in_turn(enough: i64, reported: &AtomicI64, mut act: impl FnMut(i64) -> Result<()>) {
    for number in 0..enough {
        act(number).expect("the disk is healthy");
        reported.store(number + 1, Ordering::SeqCst);
    }
}

/// Events in the runs that their images must cover. One run may lack some of it: if a busy machine lets many
/// calls share a group, its log stays in its first segments.
#[derive(Default)]
struct Covered {
    split_phases: u64,
    changes_of_segments: u64,
}

/// One run under a protocol; every moment's images go to those that recover them.
fn run(protocol: ProtocolKind, round: u64, images: &SyncSender<Image>, covered: &mut Covered) {
    let disk = SimulatedDisk::new();
    Journal::create(options(&disk, protocol)).db.close().expect("durable");
    let reported = Arc::new(Acknowledged::default());
    let (watched, images) = (reported.clone(), images.clone());
    disk.watch(move |moment| {
        for way in 0..WAYS {
            // Nothing of what is unsynced, all of it, or some.
            let seed = if way < 2 { way } else { (round * 100_000 + moment.number()) * WAYS + way };
            let what =
                format!("{protocol}, before {:?} {}, seed {seed}", moment.operation(), moment.number());
            let image = Image { reported: watched.now(), disk: moment.image(seed), what };
            // The recovering thread has panicked if the channel is closed; that is reported at the end.
            let _ = images.send(image);
        }
    });
    let journal = Journal::open(options(&disk, protocol)).expect("opens");
    thread::scope(|scope| {
        for (thread, calls) in reported.calls.iter().enumerate() {
            let journal = &journal;
            scope.spawn(move || in_turn(CALLS, calls, |number| journal.call(thread as i64, number)));
        }
        scope.spawn(|| in_turn(2, &reported.tables, |number| journal.make_table(number)));
        scope.spawn(|| (0..2).for_each(|_| drop(journal.db.checkpoint().expect("whole"))));
    });
    covered.split_phases += journal.db.phases().map_or(0, |_| report(&journal.db).split);
    assert_eq!(journal.db.checkpoints().made, 2);
    journal.db.close().expect("durable");
    disk.watch_no_more();
    let segments = disk.list(&Path::new(DIRECTORY).join("log")).expect("a log");
    covered.changes_of_segments += u64::from(segments.last().is_some_and(|name| *name > *"00000003.log"));
}

#[test]
fn nothing_acknowledged_is_lost_at_any_moment() {
    let factor = std::env::var("HEDDLE_IMAGES").ok().and_then(|factor| factor.parse().ok()).unwrap_or(1);
    let (start, seen) = (Instant::now(), Seen::default());
    let (send, receive) = sync_channel(8);
    let receive = Mutex::new(receive);
    let (mut rounds, mut covered) = (0, Covered::default());
    thread::scope(|scope| {
        let recoverers = thread::available_parallelism().map_or(2, usize::from).max(2);
        (0..recoverers).for_each(|_| drop(scope.spawn(|| recover_all(&receive, &seen))));
        let is_well = || seen.failure.lock().expect("no panic").is_none();
        while seen.recovered.load(Ordering::SeqCst) < IMAGES * factor && is_well() {
            let protocol = ProtocolKind::ALL[rounds as usize % ProtocolKind::ALL.len()];
            run(protocol, rounds, &send, &mut covered);
            rounds += 1;
        }
        drop(send);
    });
    if let Some(panic) = seen.failure.lock().expect("no panic").take() {
        resume_unwind(panic);
    }
    let recovered = seen.recovered.load(Ordering::SeqCst);
    let Covered { split_phases, changes_of_segments } = covered;
    println!(
        "{recovered} different images of {rounds} runs with {split_phases} split phases, {changes_of_segments} of them with \
         changes of segments, {:?}",
        start.elapsed()
    );
    assert!(split_phases > 0, "no run had a split phase");
    assert!(changes_of_segments > 0, "in no run was a segment changed");
    assert!(recovered >= IMAGES * factor);
}
