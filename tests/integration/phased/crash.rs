//! Power loss in every phase: what was acknowledged is there, no call is half there, whether its parts were merged
//! operations of split columns, writes to other columns of the same rows, or rows of their own.
//!
//! Each thread makes its calls one after the other and waits for each; so what is there after a crash is, for each
//! thread, a beginning of its calls: at least those that were acknowledged, at most one more. From these numbers
//! everything else follows, and is compared.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use heddledb::testing::{Disk, SimulatedDisk};
use heddledb::{
    DataType, Database, Error, Options, PhasedOptions, Range, Result, Table, TableDefinition, Value, key, row,
};

use crate::support::split::*;

/// The labelled rows are 1 to this.
const ROWS: i64 = 3;
/// Far longer than any of them works once the power has gone.
const PATIENCE: Duration = Duration::from_secs(5);
/// The least calls that a thread of a short life makes.
const CALLS: i64 = 9;

fn options(disk: &SimulatedDisk, phase_milliseconds: f64) -> Options {
    Options::default()
        .protocol(PhasedOptions::default().phase_milliseconds(phase_milliseconds))
        .disk(Arc::new(disk.clone()))
        .log(|log| log.segment_bytes(64 << 10).buffer_bytes(4 << 10))
        .workers(1)
        .threads(|threads| threads.max_worker_contexts(16))
}

struct Journal {
    db: Database,
    board: Table,
    events: Table,
}

/// The labelled row that a call is about.
fn row_of(thread: i64, number: i64) -> i64 {
    1 + (thread + number) % ROWS
}

/// Returns true if a call sets the plain column of its row, beside the split ones.
fn sets_plain(number: i64) -> bool {
    number % 4 == 1
}

/// Returns true if a call reads a split column, and so waits for a joined phase.
fn reads(number: i64) -> bool {
    number % 8 == 7
}

/// A value that no other call sets.
fn mark(thread: i64, number: i64) -> i64 {
    number * 100 + thread + 1
}

impl Journal {
    fn create(disk: &SimulatedDisk) -> Journal {
        let db = Database::open("journal", options(disk, 0.5)).expect("a new database");
        let board = board(&db);
        let events = TableDefinition::new("event")
            .column("thread", DataType::Int64)
            .column("number", DataType::Int64)
            .primary_key(["thread", "number"]);
        let events = db.create_table(events).expect("a table");
        Journal { db, board, events }
    }

    fn open(disk: &SimulatedDisk, phase_milliseconds: f64) -> Result<Journal> {
        let db = Database::open("journal", options(disk, phase_milliseconds))?;
        let (board, events) = (db.table("board")?, db.table("event")?);
        for id in 1..=ROWS {
            label_row(&db, &board, id);
        }
        Ok(Journal { db, board, events })
    }

    /// One call: every operation on the split columns of a row, an addition to a row that is not split, a row of its
    /// own, now and then a delete, a write to another column, or a read.
    fn call(&self, thread: i64, number: i64) -> Result<()> {
        let (board, id) = (&self.board, row_of(thread, number));
        self.db.run(|tx| {
            if sets_plain(number) {
                let note = format!("call {number} of thread {thread}, longer than a word");
                let changes = [("plain", mark(thread, number).into()), ("note", note.as_str().into())];
                tx.update(board, key![id], &changes)?;
            }
            tx.add(board, key![id], "n", 1)?;
            tx.max(board, key![id], "high", mark(thread, number))?;
            tx.multiply(board, key![id], "product", -1)?;
            tx.ordered_put(board, key![id], "best", &row![number], &row![thread])?;
            tx.top_k_insert(board, key![id], "top", &row![number], &row![thread])?;
            tx.add(board, key![PLAIN_ROW], "n", 1)?;
            if reads(number) {
                let n = tx.get(board, key![id])?.ok_or(Error::Closed)?.int("n")?;
                assert!(n > 0, "its own addition");
            }
            tx.insert(&self.events, row![thread, number])?;
            if number % 5 == 4 {
                tx.delete(&self.events, key![thread, number - 2])?;
            }
            Ok(())
        })
    }

    /// The number of calls of each thread, by its last event.
    fn made(&self, threads: usize) -> Vec<i64> {
        let last = |thread: i64| {
            self.db.run(|tx| {
                let mut rows = tx.scan(&self.events, Range::prefix(key![thread]).reverse().limit(1))?;
                rows.next().map_or(Ok(0), |row| Ok(row?.int("number")? + 1))
            })
        };
        (0..threads as i64).map(|thread| last(thread).expect("readable")).collect()
    }

    /// Everything must be what these numbers of calls lead to.
    fn check(&self, made: &[i64], what: &str) {
        self.db.check().unwrap_or_else(|error| panic!("{what}: {error}"));
        let calls: Vec<(i64, i64)> = (0..)
            .zip(made)
            .flat_map(|(thread, &made)| (0..made).map(move |number| (thread, number)))
            .collect();
        for id in 1..=ROWS {
            let of_row: Vec<_> =
                calls.iter().copied().filter(|&(thread, number)| row_of(thread, number) == id).collect();
            self.check_row(id, &of_row, what);
        }
        let plain = int(&self.db, &self.board, PLAIN_ROW, "n");
        assert_eq!(plain, Ok(calls.len() as i64), "{what}: the counter that is not split");
        let kept = calls.iter().filter(|&&(thread, number)| {
            let deleter = number + 2;
            !(deleter % 5 == 4 && deleter < made[thread as usize])
        });
        let events = self.db.run(|tx| {
            tx.scan(&self.events, Range::all())?
                .map(|row| {
                    let row = row?;
                    Ok((row.int("thread")?, row.int("number")?))
                })
                .collect::<Result<Vec<_>>>()
        });
        assert_eq!(events, Ok(kept.copied().collect()), "{what}: the events");
    }

    fn check_row(&self, id: i64, calls: &[(i64, i64)], what: &str) {
        let values = self
            .db
            .run(|tx| Ok(tx.get(&self.board, key![id])?.ok_or(Error::Closed)?.to_values()))
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        let value = |column: &str| {
            let columns = self.board.definition().columns();
            &values[columns.iter().position(|other| other.name == column).expect("a column")]
        };
        let count = calls.len() as i64;
        assert_eq!(*value("n"), Value::Int(count), "{what}: row {id}");
        let highest = calls.iter().map(|&(thread, number)| mark(thread, number)).max().unwrap_or(0);
        assert_eq!(*value("high"), Value::Int(highest), "{what}: row {id}");
        assert_eq!(*value("product"), Value::Int(if count % 2 == 0 { 1 } else { -1 }), "{what}: row {id}");
        let mut puts: Vec<_> = calls.iter().map(|&(thread, number)| (number, thread)).collect();
        puts.push((-1, -1));
        puts.sort_by(|one, other| other.cmp(one));
        assert_eq!(entries(value("best")), &puts[..1], "{what}: row {id}");
        puts.pop();
        puts.truncate(TOP as usize);
        assert_eq!(entries(value("top")), puts, "{what}: row {id}");
        self.check_plain(value("plain"), value("note"), calls, what);
    }

    /// The plain column has what one of the threads has set last, and the note is of the same call.
    fn check_plain(&self, plain: &Value, note: &Value, calls: &[(i64, i64)], what: &str) {
        let setters = || calls.iter().filter(|&&(_, number)| sets_plain(number));
        let last_of_its_thread = |&&(thread, number): &&(i64, i64)| {
            !setters().any(|&(other, later)| other == thread && later > number)
        };
        let set = setters().filter(last_of_its_thread).find(|&&(thread, number)| {
            let note_of_it = format!("call {number} of thread {thread}, longer than a word");
            *plain == Value::Int(mark(thread, number)) && *note == Value::from(note_of_it.as_str())
        });
        let untouched = setters().next().is_none() && *plain == Value::Int(0);
        assert!(set.is_some() || untouched, "{what}: {plain:?} and {note:?} are of no last call");
    }

    /// Opens what a crash has left, and looks that it holds these acknowledged calls, and no others than at most one
    /// more of each thread. Gives back how many there are.
    fn survives(disk: &SimulatedDisk, acknowledged: &[i64], what: &str) -> (Journal, Vec<i64>) {
        let journal = Journal::open(disk, 0.5).unwrap_or_else(|error| panic!("{what}: {error}"));
        let made = journal.made(acknowledged.len());
        for (&made, &least) in made.iter().zip(acknowledged) {
            assert!(made == least || made == least + 1, "{what}: {least} acknowledged, {made} found");
        }
        journal.check(&made, what);
        (journal, made)
    }
}

/// Returns true if the power has gone: then not even a directory can be listed.
fn is_gone(disk: &SimulatedDisk) -> bool {
    disk.list(Path::new("journal/log")).is_err()
}

/// Threads call until they are refused, or `enough`; from this many calls on that they have made before. Gives back how
/// many were acknowledged in all.
fn work(
    disk: &SimulatedDisk,
    journal: &Journal,
    made: &[i64],
    enough: impl Fn(&Journal, i64) -> bool + Sync,
) -> Vec<i64> {
    let enough = &enough;
    thread::scope(|scope| {
        let call = |thread: i64, first: i64| {
            let mut next = first;
            while !enough(journal, next - first) {
                match journal.call(thread, next) {
                    Ok(()) => next += 1,
                    Err(
                        Error::LogFailed { .. }
                        | Error::NoLogSpace { .. }
                        | Error::LogNotExtended { .. }
                        | Error::Closed,
                    ) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            next
        };
        let threads: Vec<_> =
            (0..).zip(made).map(|(thread, &first)| scope.spawn(move || call(thread, first))).collect();
        let mut gone = None;
        while threads.iter().any(|thread| !thread.is_finished()) {
            if is_gone(disk) && gone.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                // It could not make a segment for what was committed already, and would wait for one forever.
                let _ = journal.db.clone().close();
                break;
            }
            thread::sleep(Duration::from_micros(500));
        }
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

/// The calls before each crash: some on two threads, over several split phases.
fn a_short_life(disk: &SimulatedDisk) -> Option<Vec<i64>> {
    let journal = Journal::open(disk, 0.5).ok()?;
    let acknowledged =
        work(disk, &journal, &[0, 0], |journal, calls| calls >= CALLS && report(&journal.db).split >= 3);
    let _ = journal.db.close();
    Some(acknowledged)
}

/// A disk with a new database, durable.
fn prepared() -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    Journal::create(&disk).db.close().expect("durable");
    disk
}

#[test]
fn a_crash_at_every_operation_of_a_life_with_split_phases() {
    in_time(|| {
        let prepared = prepared();
        for boundary in 0.. {
            let disk = prepared.crash_image(1);
            disk.crash_after(boundary);
            let acknowledged = a_short_life(&disk);
            let whole = disk.operations() <= boundary;
            assert!(!whole || acknowledged.as_ref().is_some_and(|all| all.iter().all(|&made| made >= CALLS)));
            for seed in [0, boundary + 2] {
                let least = acknowledged.clone().unwrap_or_else(|| vec![0; 2]);
                let what = format!("boundary {boundary}, seed {seed}");
                Journal::survives(&disk.crash_image(seed), &least, &what);
            }
            if whole {
                assert!(boundary > 20, "only {boundary} operations: is anything synced?");
                break;
            }
        }
    });
}

/// Crash, recover, go on, crash again: several times, with groups that are torn, and other phase lengths.
#[test]
fn crash_after_crash_every_call_is_whole() {
    in_time(|| {
        for seed in 2..8 {
            let mut disk = prepared();
            let mut made = vec![0; 3];
            for round in 0..4 {
                let what = format!("seed {seed}, round {round}");
                let (journal, found) = Journal::survives(&disk, &made, &what);
                disk.crash_after(10 + 7 * seed + 5 * round);
                made = work(&disk, &journal, &found, |_, _| false);
                drop(journal);
                disk = disk.crash_image(seed + round);
            }
            Journal::survives(&disk, &made, &format!("seed {seed}, at the end"));
        }
    });
}

/// Images are taken at any moment, under load.
#[test]
fn an_image_of_any_moment_holds_what_was_acknowledged_before() {
    in_time(|| {
        let disk = prepared();
        let journal = Journal::open(&disk, 1.0).expect("opens");
        let counts: Vec<AtomicI64> = (0..3).map(|_| AtomicI64::new(0)).collect();
        let stop = AtomicBool::new(false);
        let read = || counts.iter().map(|count| count.load(Ordering::SeqCst)).collect::<Vec<_>>();
        thread::scope(|scope| {
            for (thread, count) in (0..).zip(&counts) {
                let (journal, stop) = (&journal, &stop);
                scope.spawn(move || {
                    for number in 0.. {
                        if stop.load(Ordering::SeqCst) {
                            return;
                        }
                        journal.call(thread, number).expect("committed");
                        count.store(number + 1, Ordering::SeqCst);
                        // Recovery of each image reads the whole log: it shall not grow without bounds.
                        thread::sleep(Duration::from_millis(2));
                    }
                });
            }
            for seed in 0..8 {
                thread::sleep(Duration::from_millis(5));
                let before = read();
                let image = disk.crash_image(seed);
                let after = read();
                let crashed = Journal::open(&image, 1.0).expect("opens");
                let made = crashed.made(before.len());
                for ((&least, &most), &made) in before.iter().zip(&after).zip(&made) {
                    assert!(
                        (least..=most + 1).contains(&made),
                        "seed {seed}: {least} to {most}, {made} found"
                    );
                }
                crashed.check(&made, &format!("seed {seed}"));
            }
            wait_until("several split phases", || report(&journal.db).split > 5);
            stop.store(true, Ordering::SeqCst);
        });
        let counted = read();
        journal.db.close().expect("durable");
        Journal::survives(&disk.crash_image(0), &counted, "at the end");
    });
}
