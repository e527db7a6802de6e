//! Bugs on purpose: each of [`Bug::ALL`] is switched on, and the same checks that find nothing wrong with the engine
//! as it is must find it. What is checked: images of the disk at every moment of a run with groups of several
//! transactions and several blocks, a checkpoint, and changes of segments; recovery again after recovery; and damage.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use super::*;
use crate::base::disk::{Bug, Disk};
use crate::database::Database;
use crate::durability::checkpoint::NewCheckpoint;
use crate::options::{Durability, Options};
use crate::testing::Moment;
use crate::{DataType, Range, Table, TableDefinition, key, row};

const THREADS: i64 = 3;
/// Calls of each thread.
const CALLS: i64 = 10;
/// Checkpoints made beside calls whose results are released at once.
const CHECKPOINTS: u32 = 5;
/// Calls of the first thread when all else has ended.
const BEHIND: i64 = 4;
/// A bug that hides is looked for again, with other losses.
const ROUNDS: u64 = 40;

fn options(disk: &SimulatedDisk) -> Options {
    Options::default()
        .disk(Arc::new(disk.clone()))
        .log(|log| log.segment_bytes(64 << 10).buffer_bytes(16 << 10))
        .checkpoints(|checkpoints| checkpoints.log_bytes(0).threads(1))
        .threads(|threads| threads.max_worker_contexts(8))
        .workers(1)
}

/// What a run, or the look at an image, ends with if all is well.
type Found<T = ()> = std::result::Result<T, String>;

fn reported<T>(what: &str, result: Result<T>) -> Found<T> {
    result.map_err(|error| format!("{what}: {error}"))
}

struct Ledger {
    db: Database,
    calls: Table,
    sums: Table,
}

impl Ledger {
    fn create(disk: &SimulatedDisk) -> Result<Ledger> {
        let db = Database::open(DATABASE, options(disk))?;
        let column = |name: &str| TableDefinition::new(name).column("thread", DataType::Int64);
        let calls = column("call").column("number", DataType::Int64).column("text", DataType::Text);
        let calls = db.create_table(calls.primary_key(["thread", "number"]))?;
        let sums = db.create_table(column("sum").column("n", DataType::Int64).primary_key(["thread"]))?;
        db.run(|tx| (0..THREADS).try_for_each(|thread| tx.insert(&sums, row![thread, 0])))?;
        Ok(Ledger { db, calls, sums })
    }

    fn open(disk: &SimulatedDisk, read_only: bool) -> Result<Ledger> {
        Ledger::open_with(options(disk).read_only(read_only))
    }

    fn open_with(options: Options) -> Result<Ledger> {
        let db = Database::open(DATABASE, options)?;
        let (calls, sums) = (db.table("call")?, db.table("sum")?);
        Ok(Ledger { db, calls, sums })
    }

    /// A call of more than a page, so that groups of several calls have several blocks where a segment ends.
    fn call(&self, thread: i64, number: i64) -> Result<()> {
        self.call_with(thread, number, &format!("{number} ").repeat(1_500))
    }

    fn call_with(&self, thread: i64, number: i64, text: &str) -> Result<()> {
        self.db.run(|tx| {
            tx.insert(&self.calls, row![thread, number, text])?;
            tx.add(&self.sums, key![thread], "n", number + 1)
        })
    }

    /// How many calls of each thread are there; all of each, and no gap before them.
    fn made(&self) -> Found<Vec<i64>> {
        reported("the check", self.db.check())?;
        (0..THREADS).map(|thread| self.made_by(thread)).collect()
    }

    fn made_by(&self, thread: i64) -> Found<i64> {
        let rows = self.db.run(|tx| {
            let rows = tx.scan(&self.calls, Range::prefix(key![thread]))?;
            let numbers: Result<Vec<i64>> = rows.map(|row| row?.int("number")).collect();
            let sum = tx.get(&self.sums, key![thread])?.map(|row| row.int("n")).transpose()?;
            Ok((numbers?, sum))
        });
        let (numbers, sum) = reported("a scan", rows)?;
        let made = numbers.len() as i64;
        if numbers.into_iter().eq(0..made) && sum == Some(made * (made + 1) / 2) {
            return Ok(made);
        }
        Err(format!("thread {thread} has {made} calls, which are no beginning, or by half: sum {sum:?}"))
    }
}

/// What must be there in an image: this many calls of each thread, or one more.
fn recover(disk: &SimulatedDisk, least: &[i64], read_only: bool) -> Found<Vec<i64>> {
    let ledger = reported("opening", Ledger::open(disk, read_only))?;
    let made = ledger.made()?;
    if !made.iter().zip(least).all(|(made, least)| made == least || *made == least + 1) {
        return Err(format!("{least:?} acknowledged, {made:?} found"));
    }
    if !read_only {
        // It works on, so that what recovery has left in the log is met by what comes then.
        reported("a call", ledger.call(0, made[0]))?;
        reported("closing", ledger.db.close())?;
        let mut more = made.clone();
        more[0] += 1;
        let again = recover(disk, &more, true)?;
        if again != more {
            return Err(format!("{more:?} acknowledged after recovery, {again:?} found"));
        }
    }
    Ok(made)
}

/// A run; the images of its moments are looked at. The disk in the end, and how many calls of each thread are on it.
fn run_and_look(bug: Option<Bug>, round: u64) -> Found<(SimulatedDisk, Vec<i64>)> {
    let disk = SimulatedDisk::new();
    bug.into_iter().for_each(|bug| disk.seed_bug(bug));
    let ledger = reported("a new ledger", Ledger::create(&disk))?;
    let counts: Arc<Vec<AtomicI64>> = Arc::new((0..THREADS).map(|_| AtomicI64::new(0)).collect());
    let wrong = Arc::new(Mutex::new(None));
    let read =
        |counts: &[AtomicI64]| counts.iter().map(|count| count.load(Ordering::SeqCst)).collect::<Vec<_>>();
    let (noted, found) = (counts.clone(), wrong.clone());
    disk.watch(move |moment: &Moment<'_>| {
        let some = 2 + round * 1_000 + moment.number();
        for seed in [0, 1, some] {
            let mut found = found.lock();
            if found.is_none() {
                let read_only = seed < 2;
                let what = |what| format!("before {:?} {}: {what}", moment.operation(), moment.number());
                *found = recover(&moment.image(seed), &read(&noted), read_only).map_err(what).err();
            }
        }
    });
    thread::scope(|scope| {
        for (thread, count) in (0..).zip(counts.iter()) {
            let ledger = &ledger;
            scope.spawn(move || {
                for number in 0..CALLS {
                    if ledger.call(thread, number).is_ok() {
                        count.store(number + 1, Ordering::SeqCst);
                    }
                }
            });
        }
        scope.spawn(|| (0..3).for_each(|_| drop(ledger.db.checkpoint())));
    });
    // Behind the last checkpoint, one group each.
    for number in CALLS..CALLS + BEHIND {
        if ledger.call(0, number).is_ok() {
            counts[0].store(number + 1, Ordering::SeqCst);
        }
    }
    reported("closing", ledger.db.close())?;
    disk.watch_no_more();
    if let Some(what) = wrong.lock().take() {
        return Err(what);
    }
    let made = recover(&disk.crash_image(0), &read(&counts), true)?;
    Ok((disk, made))
}

/// Every block is damaged in turn, each on a disk of its own.
fn damage_and_look(disk: &SimulatedDisk, made: &[i64]) -> Found {
    let directory = Path::new(DATABASE).join("log");
    for name in reported("a list", disk.list(&directory).map_err(|_| Error::Closed))? {
        let path = directory.join(name);
        let good = disk.bytes(&path).unwrap_or_default();
        for page in (1..good.len() / PAGE_BYTES as usize).filter(|page| good[page * 4096..][..4] == *b"HBL3")
        {
            let image = disk.crash_image(1);
            let mut bad = good.clone();
            bad[page * PAGE_BYTES as usize + 200] ^= 4;
            image.put_bytes(&path, bad).map_err(|error| error.to_string())?;
            // Else it was refused, as damage should be.
            if let Ok(ledger) = Ledger::open(&image, true) {
                let what = |what| format!("damaged page {page} of {}: {what}", path.display());
                let found = ledger.made().map_err(what)?;
                // The last group cannot be distinguished from a torn one, and is truncated as a whole; before the
                // checkpoint's beginning nothing is read.
                let is_short = |(found, made): (&i64, &i64)| *found == *made - 1;
                let mut differences = found.iter().zip(made).filter(|(found, made)| found != made);
                let is_cut = ledger.db.recovery().cut.is_some();
                if !differences.all(|pair| is_cut && is_short(pair)) {
                    return Err(what(format!("{made:?} acknowledged, {found:?} found, and not refused")));
                }
            }
        }
    }
    Ok(())
}

/// A checkpoint is made while results are released before they are durable: its copies are of different moments, so
/// that without the log behind it no moment's state comes of it. The power goes as soon as it is whole.
fn checkpoint_and_look(bug: Option<Bug>) -> Found {
    let disk = SimulatedDisk::new();
    drop(reported("a new ledger", Ledger::create(&disk))?);
    bug.into_iter().for_each(|bug| disk.seed_bug(bug));
    let late = options(&disk).durability(Durability::Async).log(|log| log.group_milliseconds(1_000.0));
    let ledger = reported("opening", Ledger::open_with(late.log(|log| log.buffer_bytes(4 << 20))))?;
    let stop = AtomicBool::new(false);
    let images = thread::scope(|scope| {
        let ledger = &ledger;
        let calls = scope.spawn(|| {
            let numbers = (0..20_000).take_while(|_| !stop.load(Ordering::SeqCst));
            numbers.into_iter().all(|number| ledger.call_with(0, number, "short").is_ok())
        });
        let images: Result<Vec<SimulatedDisk>> = (0..CHECKPOINTS)
            .map(|_| {
                thread::sleep(Duration::from_millis(5));
                ledger.db.checkpoint().map(|_| disk.crash_image(0))
            })
            .collect();
        stop.store(true, Ordering::SeqCst);
        let _ = calls.join();
        images
    });
    for image in reported("a checkpoint", images)? {
        reported("opening after a checkpoint", Ledger::open(&image, true))?.made()?;
    }
    Ok(())
}

/// A part of a checkpoint that a follower sends is damaged in turn in each block.
fn follower_and_look(bug: Option<Bug>) -> Found {
    let disk = SimulatedDisk::new();
    let ledger = reported("a new ledger", Ledger::create(&disk))?;
    reported("a call", ledger.call(0, 0))?;
    reported("a checkpoint", ledger.db.checkpoint())?;
    reported("closing", ledger.db.close())?;
    bug.into_iter().for_each(|bug| disk.seed_bug(bug));
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let directory = DatabaseDirectory::open_existing(disk.clone(), Path::new(DATABASE), None);
    let checkpoints = reported("a database", directory)?.checkpoints(disk.clone());
    let manifest = reported("a manifest", checkpoints.manifest(1))?;
    let adopt =
        || NewCheckpoint::of_number(&checkpoints, 1, &[]).adopt(manifest.written(), &|| true).map(drop);
    reported("whole parts", adopt())?;
    let path = Path::new(DATABASE).join("checkpoint/00000001-0002.part");
    let part = reported("a part", disk.open_write(&path).map_err(|_| Error::Closed))?;
    reported("damage", part.write_all_at(b"!", 100).map_err(|_| Error::Closed))?;
    match adopt() {
        Err(Error::Damaged { .. }) => Ok(()),
        other => Err(format!("a follower's damaged part was taken for whole: {other:?}")),
    }
}

fn look(bug: Option<Bug>, round: u64) -> Found {
    follower_and_look(bug)?;
    two_in_flight::look(bug, round)?;
    let (disk, made) = run_and_look(bug, round)?;
    damage_and_look(&disk, &made)?;
    checkpoint_and_look(bug)
}

#[test]
fn nothing_is_found_where_there_is_no_bug() {
    for round in 0..2 {
        assert_eq!(look(None, round), Ok(()), "round {round}");
    }
}

#[test]
fn every_seeded_bug_is_caught() {
    for bug in Bug::ALL {
        let caught = (0..ROUNDS).find_map(|round| look(Some(bug), round).err().map(|what| (round, what)));
        let (round, what) = caught.unwrap_or_else(|| panic!("{bug:?} was not caught"));
        println!("{bug:?}, round {round}: {what}");
    }
}
