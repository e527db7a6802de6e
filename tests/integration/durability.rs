//! The durability rule: a result is released only when everything that its call wrote and read, absence included, is
//! durable. Each test holds the disk's syncs back, so that what is committed is not durable, and crashes there.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use crate::support::logged::*;
use heddledb::testing::SimulatedDisk;
use heddledb::{
    Args, Database, Durability, Error, Executed, Output, Procedure, Range, Result, SerialOptions,
    SerialVariant, Stages, Value, args, key, row,
};

/// Commits what is not durable, and then makes sure that `reader` learns nothing of it before it is.
struct Undurable {
    _held: HeldSyncs,
    disk: SimulatedDisk,
    bank: Bank,
}

impl Undurable {
    /// `write` is committed, and the disk does not sync any more.
    fn after(write: impl FnOnce(&Bank) -> (Procedure, Args)) -> Undurable {
        let disk = SimulatedDisk::new();
        let bank = bank(&disk);
        bank.wait_for_segments(&disk);
        let held = HeldSyncs::of(&disk);
        let (procedure, arguments) = write(&bank);
        let mut worker = bank.db.worker().expect("open");
        let written = worker.execute(&procedure, arguments);
        assert!(!written.is_released() && !written.failed());
        drop(worker);
        Undurable { _held: held, disk, bank }
    }

    /// A call that must wait, made in every way that there is: through a worker, the queue, and by a closure.
    fn must_wait<T: Send + 'static>(
        &self,
        procedure: &Procedure,
        arguments: Args,
        closure: impl Fn(&Database) -> Result<T> + Send + 'static,
    ) -> (Executed<'_>, heddledb::Submitted, Receiver<Result<T>>) {
        let executed = self.bank.db.worker().expect("open").execute(procedure, arguments.clone());
        let submitted = self.bank.db.submit(procedure, arguments).expect("taken");
        let (reported, hears) = channel();
        let db = self.bank.db.clone();
        thread::spawn(move || reported.send(closure(&db)));
        grace();
        assert!(!executed.is_released(), "a worker tells what is not durable");
        assert!(!submitted.is_done(), "the pipeline tells what is not durable");
        assert!(hears.try_recv().is_err(), "a closure tells what is not durable");
        (executed, submitted, hears)
    }

    /// Reads of durable data are released although nothing can be synced.
    fn others_are_reported(&self) {
        assert_eq!(self.bank.value(9), Ok(Some(0)), "a closure that reads durable data");
        let call = self.bank.db.call(&self.bank.get, args![9, 0]).expect("reported at once");
        assert_eq!(call.rows, [[Value::Int(0)]]);
        let executed = self.bank.db.worker().expect("open").execute(&self.bank.range, args![8, 10]);
        assert!(executed.is_released());
        assert_eq!(executed.wait().expect("reported at once").rows.len(), 2);
    }

    /// The bank after a crash now.
    fn crashed(&self) -> Bank {
        reopened(&self.disk.crash_image(0))
    }
}

fn rows(result: Result<Output>) -> Vec<Vec<Value>> {
    result.expect("it was no failure").rows
}

#[test]
fn a_reader_of_an_undurable_write_waits_and_others_do_not() {
    let undurable = Undurable::after(|bank| (bank.set.clone(), args![1, 7]));
    let items = undurable.bank.items.clone();
    let (executed, submitted, hears) =
        undurable.must_wait(&undurable.bank.get, args![1, 0], move |db: &Database| {
            db.run(|tx| tx.get(&items, key![1])?.map(|row| row.int("value")).transpose())
        });
    undurable.others_are_reported();
    assert_eq!(undurable.crashed().value(1), Ok(Some(0)), "7 was never released, and it is lost");
    undurable.disk.release_syncs();
    assert_eq!(rows(executed.wait()), [[Value::Int(7)]]);
    assert_eq!(rows(submitted.wait()), [[Value::Int(7)]]);
    assert_eq!(hears.recv().expect("reported"), Ok(Some(7)));
    assert_eq!(undurable.crashed().value(1), Ok(Some(7)), "it was released, and so it is durable");
}

#[test]
fn a_reader_of_an_undurable_delete_waits() {
    let undurable = Undurable::after(|bank| (bank.delete.clone(), args![1, 0]));
    let items = undurable.bank.items.clone();
    let (executed, submitted, hears) =
        undurable.must_wait(&undurable.bank.get, args![1, 0], move |db: &Database| {
            db.run(|tx| tx.exists(&items, key![1]))
        });
    undurable.others_are_reported();
    assert_eq!(undurable.crashed().value(1), Ok(Some(0)), "its deletion was never released");
    undurable.disk.release_syncs();
    assert_eq!(rows(executed.wait()), Vec::<Vec<Value>>::new());
    assert_eq!(rows(submitted.wait()), Vec::<Vec<Value>>::new());
    assert_eq!(hears.recv().expect("reported"), Ok(false));
    assert_eq!(undurable.crashed().value(1), Ok(None));
}

#[test]
fn a_reader_of_a_range_from_which_a_row_was_deleted_undurably_waits() {
    let undurable = Undurable::after(|bank| (bank.delete.clone(), args![2, 0]));
    let items = undurable.bank.items.clone();
    let (executed, submitted, hears) =
        undurable.must_wait(&undurable.bank.range, args![1, 4], move |db: &Database| {
            db.run(|tx| Ok(tx.scan(&items, Range::from(key![1]).to(key![4]).reverse())?.count()))
        });
    undurable.others_are_reported();
    let crashed = undurable.crashed();
    assert_eq!(rows(crashed.db.call(&crashed.range, args![1, 4])).len(), 3);
    undurable.disk.release_syncs();
    assert_eq!(rows(executed.wait()).len(), 2);
    assert_eq!(rows(submitted.wait()).len(), 2);
    assert_eq!(hears.recv().expect("reported"), Ok(2));
}

#[test]
fn a_reader_of_an_undurable_index_entry_waits_and_so_does_one_of_an_entry_that_has_gone() {
    let undurable = Undurable::after(|bank| (bank.insert.clone(), args![50, 5]));
    let items = undurable.bank.items.clone();
    let (executed, submitted, hears) =
        undurable.must_wait(&undurable.bank.by_tag, args![5_000, 0], move |db: &Database| {
            db.run(|tx| Ok(tx.scan_index(&items, "item_by_tag", Range::prefix(key![5_000]))?.count()))
        });
    undurable.others_are_reported();
    undurable.disk.release_syncs();
    assert_eq!(rows(executed.wait()).len(), 1);
    assert_eq!(rows(submitted.wait()).len(), 1);
    assert_eq!(hears.recv().expect("reported"), Ok(1));

    let undurable = Undurable::after(|bank| (bank.delete.clone(), args![3, 0]));
    let items = undurable.bank.items.clone();
    let (executed, submitted, hears) =
        undurable.must_wait(&undurable.bank.by_tag, args![300, 0], move |db: &Database| {
            db.run(|tx| Ok(tx.scan_index(&items, "item_by_tag", Range::prefix(key![300]))?.count()))
        });
    let crashed = undurable.crashed();
    assert_eq!(rows(crashed.db.call(&crashed.by_tag, args![300, 0])).len(), 1);
    undurable.disk.release_syncs();
    assert!(rows(executed.wait()).is_empty() && rows(submitted.wait()).is_empty());
    assert_eq!(hears.recv().expect("reported"), Ok(0));
}

#[test]
fn a_duplicate_key_is_reported_when_the_row_that_it_met_is_durable() {
    let undurable = Undurable::after(|bank| (bank.insert.clone(), args![50, 5]));
    let items = undurable.bank.items.clone();
    let (executed, submitted, hears) =
        undurable.must_wait(&undurable.bank.insert, args![50, 6], move |db: &Database| {
            db.run(|tx| tx.insert(&items, row![50, 7, 1]))
        });
    undurable.others_are_reported();
    assert_eq!(undurable.crashed().value(50), Ok(None));
    undurable.disk.release_syncs();
    let duplicate = |error: &Error| matches!(error, Error::DuplicateKey { .. });
    assert!(executed.wait().is_err_and(|error| duplicate(&error)));
    assert!(submitted.wait().is_err_and(|error| duplicate(&error)));
    assert!(hears.recv().expect("reported").is_err_and(|error| duplicate(&error)));
}

#[test]
fn a_duplicate_in_a_unique_index_is_reported_when_the_entry_that_it_met_is_durable() {
    let undurable = Undurable::after(|bank| (bank.insert.clone(), args![50, 5]));
    let items = undurable.bank.items.clone();
    let (reported, hears) = channel();
    let db = undurable.bank.db.clone();
    thread::spawn(move || reported.send(db.run(|tx| tx.insert(&items, row![51, 7, 5_000]))));
    grace();
    assert!(hears.try_recv().is_err());
    undurable.disk.release_syncs();
    let error = hears.recv().expect("reported").expect_err("the tag is taken");
    assert!(matches!(error, Error::DuplicateKey { .. }), "{error}");
    assert!(error.to_string().contains("item_by_tag"), "{error}");
}

#[test]
fn an_own_error_that_tells_of_undurable_data_waits() {
    let undurable = Undurable::after(|bank| (bank.set.clone(), args![1, 7]));
    let items = undurable.bank.items.clone();
    let (executed, submitted, hears) =
        undurable.must_wait(&undurable.bank.read_and_fail, args![1, 0], move |db: &Database| {
            db.run(|tx| {
                let value = tx.get(&items, key![1])?.map(|row| row.int("value")).transpose()?;
                Err::<(), _>(heddledb::fail(format!("{value:?}")))
            })
        });
    assert!(executed.failed());
    undurable.others_are_reported();
    let at_once = undurable.bank.db.call(&undurable.bank.read_and_fail, args![9, 0]);
    assert_eq!(at_once, Err(heddledb::fail("the value is 0")), "an error about durable data");
    undurable.disk.release_syncs();
    assert_eq!(executed.wait(), Err(heddledb::fail("the value is 7")));
    assert_eq!(submitted.wait(), Err(heddledb::fail("the value is 7")));
    assert_eq!(hears.recv().expect("reported"), Err(heddledb::fail("Some(7)")));
}

#[test]
fn a_panic_and_a_missing_key_tell_of_undurable_data_too() {
    let undurable = Undurable::after(|bank| (bank.delete.clone(), args![1, 0]));
    let items = undurable.bank.items.clone();
    let (executed, submitted, hears) =
        undurable.must_wait(&undurable.bank.set, args![1, 1], move |db: &Database| {
            db.run(|tx| {
                assert!(tx.exists(&items, key![1])?, "it has gone");
                Ok(())
            })
        });
    undurable.disk.release_syncs();
    assert!(matches!(executed.wait(), Err(Error::MissingKey { .. })));
    assert!(matches!(submitted.wait(), Err(Error::MissingKey { .. })));
    let panicked = hears.recv().expect("reported");
    assert!(
        matches!(&panicked, Err(Error::Panicked { message }) if message == "it has gone"),
        "{panicked:?}"
    );
}

/// The closure meets the new value only when it commits: its addition is blind until then.
#[test]
fn an_overflow_found_at_commit_is_reported_when_the_value_that_overflowed_is_durable() {
    let disk = SimulatedDisk::new();
    let bank = Arc::new(bank(&disk));
    bank.wait_for_segments(&disk);
    let held = HeldSyncs::of(&disk);
    let (reported, hears) = channel();
    let in_body = Arc::new(Barrier::new(2));
    let (has_set, is_set) = channel();
    let adder = {
        let (bank, in_body) = (bank.clone(), in_body.clone());
        let mut runs = 0;
        thread::spawn(move || {
            let result = bank.db.run(|tx| {
                tx.add(&bank.items, key![1], "value", 10)?;
                runs += 1;
                if runs == 1 {
                    in_body.wait();
                    // The rival commits first.
                    is_set.recv().expect("it sets the value");
                }
                Ok(())
            });
            reported.send(result).expect("the receiver is open");
        })
    };
    in_body.wait();
    let written = bank.db.worker().expect("open").execute(&bank.set, args![1, i64::MAX - 5]);
    has_set.send(()).expect("it waits");
    assert!(!written.is_released());
    grace();
    grace();
    let early = hears.try_recv();
    assert!(early.is_err(), "released before the value is durable: {early:?}");
    held.release();
    let result = hears.recv().expect("reported");
    assert!(matches!(result, Err(Error::Overflow { .. })), "{result:?}");
    adder.join().expect("no panic");
}

/// A body sleeps while groups are closed around it: it must be part of the group in which it commits, and wait for
/// that one.
#[test]
fn a_body_that_spans_epochs_commits_in_the_later_one_and_is_recovered() {
    let disk = SimulatedDisk::new();
    let bank = bank(&disk);
    let before = bank.db.durable_epoch();
    let spanning = {
        let (db, items, other) = (bank.db.clone(), bank.items.clone(), bank.set.clone());
        let mut first = true;
        move || {
            db.clone().run(|tx| {
                tx.update(&items, key![1], &[("value", 1.into())])?;
                if std::mem::take(&mut first) {
                    // Groups close while this body runs: nothing that it holds keeps an epoch open. (Another
                    // thread's, because calls inside of a body are refused; writers wait for its partition, so idle
                    // epochs have to do.)
                    let start = db.durable_epoch();
                    let deadline = std::time::Instant::now() + Duration::from_secs(120);
                    while db.durable_epoch() < start + 2 {
                        assert!(std::time::Instant::now() < deadline, "a slow body holds the epochs up");
                        thread::sleep(Duration::from_millis(5));
                    }
                }
                Ok(())
            })?;
            let _ = &other;
            Ok::<u64, Error>(db.durable_epoch())
        }
    };
    let mut spanning = spanning;
    let after = spanning().expect("it commits");
    assert!(after > before + 2, "{before} {after}");
    assert_eq!(reopened(&disk.crash_image(0)).value(1), Ok(Some(1)));
}

#[test]
fn with_async_results_are_reported_at_once_and_a_crash_keeps_a_beginning_of_them() {
    let disk = SimulatedDisk::new();
    bank(&disk).db.close().expect("durable");
    let bank =
        reopened_with(options(&disk).durability(Durability::Async).log(|log| log.group_milliseconds(1.0)));
    for value in 1..=200 {
        bank.db
            .run(|tx| {
                tx.update(&bank.items, key![1], &[("value", value.into())])?;
                tx.update(&bank.items, key![2], &[("value", value.into())])
            })
            .expect("reported at once");
        if value % 20 == 0 {
            let crashed = reopened(&disk.crash_image(value as u64));
            let seen = crashed.db.run(|tx| {
                let value =
                    |id: i64| tx.get(&crashed.items, key![id])?.map(|row| row.int("value")).transpose();
                Ok((value(1)?, value(2)?))
            });
            let (first, second) = seen.expect("readable");
            assert_eq!(first, second, "a half transaction");
            assert!(first.is_none_or(|first| first <= value));
            crashed.db.check().expect("consistent");
        }
    }
    bank.db.close().expect("everything becomes durable");
    assert_eq!(reopened(&disk.crash_image(0)).value(1), Ok(Some(200)), "closing waits for the disk");
}

#[test]
fn with_async_nobody_waits_for_held_syncs() {
    let disk = SimulatedDisk::new();
    let bank = bank_with(options(&disk).durability(Durability::Async).log(|log| log.group_milliseconds(1.0)));
    bank.wait_for_segments(&disk);
    let held = HeldSyncs::of(&disk);
    let executed = bank.db.worker().expect("open").execute(&bank.set, args![1, 5]);
    assert!(executed.is_released());
    assert_eq!(bank.value(1), Ok(Some(5)));
    held.release();
}

#[test]
fn with_none_nothing_is_written_and_what_was_there_is_read() {
    let disk = SimulatedDisk::new();
    bank(&disk).db.close().expect("durable");
    let none = || Database::open(DIRECTORY, options(&disk).durability(Durability::None)).expect("opens");
    let db = none();
    let operations = disk.operations();
    let items = db.table("item").expect("recovered");
    db.run(|tx| tx.update(&items, key![1], &[("value", 5.into())])).expect("reported at once");
    assert_eq!(db.run(|tx| tx.get(&items, key![1])?.map(|row| row.int("value")).transpose()), Ok(Some(5)));
    db.close().expect("nothing to write");
    assert_eq!(disk.operations(), operations, "nothing is changed on disk");
    assert_eq!(reopened(&disk).value(1), Ok(Some(0)), "it lived as long as the process");
}

#[test]
fn in_memory_is_said_to_be_without_durability() {
    let refused = Database::in_memory_with(heddledb::Options::default()).expect_err("group is the default");
    assert!(
        refused.to_string().contains("durability") && refused.to_string().contains("Durability::None"),
        "{refused}"
    );
}

#[test]
fn dropping_the_last_handle_and_closing_wait_for_the_disk() {
    let disk = SimulatedDisk::new();
    let bank = bank(&disk);
    let submitted = bank.db.submit(&bank.set, args![1, 1]).expect("taken");
    drop(submitted);
    drop(bank);
    assert_eq!(reopened(&disk.crash_image(0)).value(1), Ok(Some(1)));
}

/// A transaction that is under way when another handle closes the database is either durable or refused.
#[test]
fn a_commit_after_closing_is_not_acknowledged() {
    for durability in [Durability::Group, Durability::Async] {
        let disk = SimulatedDisk::new();
        bank(&disk).db.close().expect("durable");
        let bank = reopened_with(options(&disk).durability(durability));
        let (in_body, closed) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
        let late = {
            let (db, items) = (bank.db.clone(), bank.items.clone());
            let (in_body, closed) = (in_body.clone(), closed.clone());
            let mut first = true;
            thread::spawn(move || {
                db.run(|tx| {
                    if std::mem::take(&mut first) {
                        in_body.wait();
                        closed.wait();
                    }
                    tx.update(&items, key![1], &[("value", 5.into())])
                })
            })
        };
        in_body.wait();
        bank.db.close().expect("closed");
        closed.wait();
        let result = late.join().expect("no panic");
        let recovered = reopened(&disk).value(1).expect("readable");
        assert_eq!(recovered, Some(if result.is_ok() { 5 } else { 0 }), "{durability}: {result:?}");
    }
}

#[test]
fn the_second_close_waits_as_long_and_returns_the_same() {
    let disk = SimulatedDisk::new();
    let bank = bank(&disk);
    bank.wait_for_segments(&disk);
    let held = HeldSyncs::of(&disk);
    let written = bank.db.worker().expect("open").execute(&bank.set, args![1, 5]);
    let (reported, hears) = channel();
    for _ in 0..2 {
        let (db, reported) = (bank.db.clone(), reported.clone());
        thread::spawn(move || reported.send(db.close()));
    }
    grace();
    assert!(hears.try_recv().is_err(), "closed, and yet not durable");
    held.release();
    assert_eq!(hears.recv().expect("reported"), Ok(()));
    assert_eq!(hears.recv().expect("reported"), Ok(()));
    assert_eq!(written.wait().map(|_| ()), Ok(()));
}

#[test]
fn the_rule_holds_in_every_layout_of_the_stages_and_every_variant() {
    for stages in Stages::ALL {
        for variant in SerialVariant::ALL.iter().filter(|variant| **variant != SerialVariant::Naive) {
            let disk = SimulatedDisk::new();
            let bank = bank_with(
                options(&disk)
                    .threads(|threads| threads.stages(*stages))
                    .protocol(SerialOptions::default().variant(*variant)),
            );
            bank.wait_for_segments(&disk);
            let held = HeldSyncs::of(&disk);
            let written = bank.db.submit(&bank.set, args![1, 7]).expect("taken");
            let read = bank.db.submit(&bank.get, args![1, 0]).expect("taken");
            grace();
            assert!(!written.is_done() && !read.is_done(), "{stages} {variant}");
            held.release();
            assert!(written.wait().is_ok());
            assert_eq!(rows(read.wait()), [[Value::Int(7)]]);
        }
    }
}

/// The paper's plain precommit: a reader waits for all of the log so far.
#[test]
fn with_precommit_a_reader_of_durable_data_waits_for_the_log_and_with_sp_not() {
    for (variant, waits) in [(SerialVariant::Precommit, true), (SerialVariant::Sp, false)] {
        let disk = SimulatedDisk::new();
        let bank = bank_with(options(&disk).protocol(SerialOptions::default().variant(variant)));
        bank.wait_for_segments(&disk);
        let held = HeldSyncs::of(&disk);
        let mut worker = bank.db.worker().expect("open");
        let written = worker.execute(&bank.set, args![1, 7]);
        let read = worker.execute(&bank.get, args![9, 0]);
        assert_eq!(read.is_released(), !waits, "{variant}");
        held.release();
        assert!(written.wait().is_ok() && read.wait().is_ok());
    }
}

#[test]
fn a_ring_of_two_places_tells_everybody_in_time() {
    let disk = SimulatedDisk::new();
    let bank = Arc::new(bank_with(options(&disk).log(|log| log.waiter_slots(2))));
    let threads: Vec<_> = (1..5)
        .map(|id| {
            let bank = bank.clone();
            thread::spawn(move || {
                for value in 1..=40 {
                    bank.db
                        .run(|tx| tx.update(&bank.items, key![id], &[("value", value.into())]))
                        .expect("ok");
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    let crashed = reopened(&disk.crash_image(0));
    for id in 1..5 {
        assert_eq!(crashed.value(id), Ok(Some(40)));
    }
}
