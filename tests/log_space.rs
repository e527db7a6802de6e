//! Room for the log: a full buffer, transactions larger than it, a full disk, the limits of a group.

#[path = "support/logged.rs"]
mod logged;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use heddledb::testing::{Fault, Operation, SimulatedDisk};
use heddledb::{
    Action, DataType, Database, Durability, Error, Procedure, ProcedureDefinition, Result, Table,
    TableDefinition, args, fail, key, row,
};
use logged::*;

/// A table of texts, in which transactions can be as large as one likes.
fn texts(db: &Database) -> Table {
    let definition = TableDefinition::new("texts")
        .column("id", DataType::Int64)
        .column("text", DataType::Text)
        .primary_key(["id"]);
    db.create_table(definition).expect("a new table")
}

/// Waits until something has come true.
fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !is_true() {
        assert!(Instant::now() < deadline, "{what}: not after two minutes");
        thread::sleep(Duration::from_millis(2));
    }
}

fn text_of(db: &Database, table: &Table, id: i64) -> Result<Option<String>> {
    db.run(|tx| tx.get(table, key![id])?.map(|row| row.text("text").map(str::to_string)).transpose())
}

#[test]
fn a_transaction_larger_than_the_buffer_and_than_segments_is_committed_and_recovered() {
    let disk = SimulatedDisk::new();
    let sizes = [3_000, 5_000, 70_000, 300_000, 17];
    let options = small_options(&disk);
    in_time("large transactions", move || {
        let db = Database::open(DIRECTORY, options).expect("new");
        let table = texts(&db);
        for (id, size) in sizes.into_iter().enumerate() {
            let text = "x".repeat(size);
            db.run(|tx| tx.insert(&table, row![id as i64, text.as_str()])).expect("committed");
        }
        drop(db);
    });
    let db = open(&disk.crash_image(0)).expect("recovered");
    let table = db.table("texts").expect("there");
    for (id, size) in sizes.into_iter().enumerate() {
        assert_eq!(text_of(&db, &table, id as i64), Ok(Some("x".repeat(size))));
    }
    db.check().expect("consistent");
}

/// More threads than the buffer has portions, each with transactions of every size: what one thread keeps in
/// reserve must never be what all the others wait for.
#[test]
fn threads_with_a_tiny_buffer_all_finish() {
    let disk = SimulatedDisk::new();
    let options = small_options(&disk);
    let shared = disk.clone();
    in_time("twelve threads", move || {
        let db = Database::open(DIRECTORY, options).expect("new");
        let table = texts(&db);
        let threads: Vec<_> = (0..12_i64)
            .map(|thread| {
                let (db, table) = (db.clone(), table.clone());
                thread::spawn(move || {
                    for round in 0..12 {
                        let size = [10, 600, 1_500, 2_500, 9_000][(thread + round) as usize % 5];
                        let text = "y".repeat(size);
                        db.run(|tx| tx.insert(&table, row![thread * 100 + round, text.as_str()]))
                            .expect("ok");
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    });
    let db = open(&shared.crash_image(0)).expect("recovered");
    assert_eq!(db.run(|tx| Ok(tx.scan(&db.table("texts")?, heddledb::Range::all())?.count())), Ok(144));
}

/// Workers keep what they have reserved between calls. Idle ones must not starve one that has much to write.
#[test]
fn idle_workers_do_not_keep_all_room_for_themselves() {
    let disk = SimulatedDisk::new();
    let options = small_options(&disk);
    in_time("a writer beside idle workers", move || {
        let bank = bank_with(options);
        let mut workers: Vec<_> = (0..8).map(|_| bank.db.worker().expect("open")).collect();
        for round in 0..3 {
            for worker in &mut workers {
                worker.execute(&bank.set, args![1, round]).wait().expect("committed");
            }
            let table = if round == 0 { texts(&bank.db) } else { bank.db.table("texts").expect("there") };
            for size in [100, 1_000, 2_000, 4_000, 50_000] {
                let text = "z".repeat(size);
                let id = round * 1_000_000 + size as i64;
                bank.db.run(|tx| tx.insert(&table, row![id, text.as_str()])).expect("committed");
            }
        }
    });
}

/// Room that a failed call had reserved is there for others.
#[test]
fn a_large_call_that_fails_in_its_second_attempt_gives_its_room_back() {
    let disk = SimulatedDisk::new();
    let options = small_options(&disk);
    in_time("calls after a failed one", move || {
        let db = Database::open(DIRECTORY, options).expect("new");
        let table = texts(&db);
        let text = "w".repeat(100_000);
        let mut runs = 0;
        let result = db.run(|tx| {
            runs += 1;
            tx.insert(&table, row![1, text.as_str()])?;
            if runs > 1 { Err(fail("not this time")) } else { Ok(()) }
        });
        assert_eq!((result, runs), (Err(fail("not this time")), 2));
        let threads: Vec<_> = (2..6)
            .map(|id| {
                let (db, table) = (db.clone(), table.clone());
                thread::spawn(move || db.run(|tx| tx.insert(&table, row![id, "v".repeat(1_500).as_str()])))
            })
            .collect();
        for thread in threads {
            thread.join().expect("no panic").expect("committed");
        }
    });
}

/// A procedure that counts how often its body runs.
fn counting(bank: &Bank) -> (Procedure, Arc<AtomicU64>) {
    let runs = Arc::new(AtomicU64::new(0));
    let definition =
        ProcedureDefinition::new("count").parameter("id", DataType::Int64).phase([Action::commute(
            &bank.items,
        )
        .key(|args, key| key.push(args.int(0)?))
        .body({
            let runs = runs.clone();
            move |a| {
                runs.fetch_add(1, Ordering::SeqCst);
                a.add("value", 1)
            }
        })]);
    (bank.db.register(definition).expect("sound"), runs)
}

#[test]
fn without_space_updates_are_refused_before_they_run_reads_go_on_and_updates_resume() {
    let disk = SimulatedDisk::new();
    let options = small_options(&disk);
    in_time("a full disk", move || {
        let bank = bank_with(options);
        let (count, runs) = counting(&bank);
        // No further segment fits from here on.
        bank.wait_for_segments(&disk);
        disk.set_capacity(0);
        let mut acknowledged = 0_u64;
        let refused = loop {
            assert!(acknowledged < 10_000, "the disk never gets full");
            match bank.db.call(&count, args![1]) {
                Ok(_) => acknowledged += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, Error::NoLogSpace { .. }) && refused.is_retryable(), "{refused}");
        assert!(acknowledged > 0 && runs.load(Ordering::SeqCst) == acknowledged, "a refused body ran");
        for _ in 0..20 {
            let refused = bank.db.call(&count, args![1]);
            assert!(matches!(refused, Err(Error::NoLogSpace { .. })), "{refused:?}");
            let closure = bank.db.run(|tx| tx.add(&bank.items, key![1], "value", 1));
            assert!(matches!(closure, Err(Error::NoLogSpace { .. })), "{closure:?}");
            assert_eq!(bank.value(1), Ok(Some(acknowledged as i64)), "reads go on");
        }
        assert_eq!(runs.load(Ordering::SeqCst), acknowledged);
        assert_eq!(reopened(&disk.crash_image(0)).value(1), Ok(Some(acknowledged as i64)));

        disk.heal();
        wait_until("updates resume", || bank.db.call(&count, args![1]).is_ok());
        for _ in 0..50 {
            bank.db.call(&count, args![1]).expect("there is space");
        }
        bank.db.close().expect("durable");
        assert_eq!(reopened(&disk).value(1), Ok(Some(acknowledged as i64 + 51)), "nothing is lost");
    });
}

/// Repeats an update as often as it is refused for want of space.
fn until_done(bank: &Bank, id: i64, value: i64) {
    wait_until("a checkpoint frees the log", || match bank.db.call(&bank.set, args![id, value]) {
        Ok(_) => true,
        Err(Error::NoLogSpace { .. }) => false,
        Err(error) => panic!("{error}"),
    });
}

/// A disk on which the data has room several times, and the log of all updates has not.
#[test]
fn a_full_disk_requests_a_checkpoint_which_frees_the_log() {
    const CAPACITY: u64 = 12 * SMALL_SEGMENT;
    for automatic_bytes in [0, 1 << 30] {
        let disk = SimulatedDisk::new();
        let options =
            small_options(&disk).checkpoints(|checkpoints| checkpoints.log_bytes(automatic_bytes).threads(2));
        in_time("updates on a small disk", move || {
            let bank = bank_with(options);
            disk.set_capacity(CAPACITY);
            let mut rounds = 0;
            while bank.db.checkpoints().made < 3 {
                rounds += 1;
                until_done(&bank, 1 + rounds % 9, rounds);
            }
            let status = bank.db.checkpoints();
            assert!(status.last.expect("one was made").log_segments_removed > 0);
            assert_eq!(bank.value(1 + rounds % 9), Ok(Some(rounds)));
            assert_eq!(reopened(&disk.crash_image(0)).value(1 + rounds % 9), Ok(Some(rounds)));
            bank.db.close().expect("durable");
        });
    }
}

/// No checkpoint fits: it fails, is tried again, and everything goes on once there is space.
#[test]
fn a_checkpoint_that_does_not_fit_either_is_tried_again() {
    let disk = SimulatedDisk::new();
    let options = small_options(&disk).checkpoints(|checkpoints| checkpoints.log_bytes(0));
    in_time("a disk that is full for a time", move || {
        let bank = bank_with(options);
        bank.wait_for_segments(&disk);
        disk.set_capacity(0);
        let mut value = 0;
        while bank.db.call(&bank.set, args![1, value + 1]).is_ok() {
            value += 1;
        }
        wait_until("a checkpoint has failed", || bank.db.checkpoints().failed > 0);
        assert_eq!(bank.value(1), Ok(Some(value)));
        disk.heal();
        until_done(&bank, 1, -1);
        bank.db.close().expect("durable");
        assert_eq!(reopened(&disk).value(1), Ok(Some(-1)));
    });
}

/// A caller with reserved room is refused, too: small groups take far more of the disk than of the buffer.
#[test]
fn every_worker_is_refused_once_there_is_no_space_and_no_commit_hangs() {
    let disk = SimulatedDisk::new();
    let options = options(&disk).log(|log| log.segment_bytes(SMALL_SEGMENT).buffer_bytes(64 << 10));
    in_time("workers on a full disk", move || {
        let bank = bank_with(options);
        wait_until("room is prepared", || disk.bytes(&segment(4)).is_ok());
        grace();
        disk.set_capacity(0);
        let threads: Vec<_> = (1..7_i64)
            .map(|id| {
                let (db, set) = (bank.db.clone(), bank.set.clone());
                thread::spawn(move || {
                    let mut worker = db.worker().expect("open");
                    for value in 1..5_000 {
                        match worker.execute(&set, args![id, value]).wait() {
                            Ok(_) => {}
                            Err(Error::NoLogSpace { .. }) => return value - 1,
                            Err(error) => panic!("{error}"),
                        }
                    }
                    panic!("the disk never gets full");
                })
            })
            .collect();
        let acknowledged: Vec<i64> = threads.into_iter().map(|one| one.join().expect("no panic")).collect();
        let crashed = reopened(&disk.crash_image(0));
        for (id, value) in (1..7).zip(acknowledged) {
            assert_eq!(crashed.value(id), Ok(Some(value)));
        }
    });
}

#[test]
fn a_transaction_for_which_there_is_no_space_is_refused_and_small_ones_go_on() {
    let disk = SimulatedDisk::new();
    let options = options(&disk);
    in_time("a transaction larger than the disk", move || {
        let bank = bank_with(options);
        let table = texts(&bank.db);
        bank.wait_for_segments(&disk);
        disk.set_capacity(0);
        let text = "x".repeat(2 << 20);
        let refused = bank.db.run(|tx| tx.insert(&table, row![1, text.as_str()]));
        assert!(matches!(refused, Err(Error::NoLogSpace { .. })), "{refused:?}");
        assert_eq!(text_of(&bank.db, &table, 1), Ok(None));
        disk.heal();
        wait_until("it fits", || bank.db.run(|tx| tx.insert(&table, row![1, text.as_str()])).is_ok());
        let crashed = open(&disk.crash_image(0)).expect("recovered");
        assert_eq!(text_of(&crashed, &table_of(&crashed), 1), Ok(Some(text)));
    });
}

fn table_of(db: &Database) -> Table {
    db.table("texts").expect("there")
}

#[test]
fn a_database_without_room_for_a_segment_opens_for_reading_and_resumes() {
    let disk = SimulatedDisk::new();
    let shared = disk.clone();
    in_time("opening on a full disk", move || {
        let bank = bank_with(small_options(&disk));
        // Until the last segment is nearly full; no checkpoint fits either.
        bank.wait_for_segments(&disk);
        disk.set_capacity(0);
        let (count, _) = counting(&bank);
        let mut acknowledged = 0;
        while bank.db.call(&count, args![1]).is_ok() {
            acknowledged += 1;
        }
        bank.db.close().expect("durable");
        let bank = reopened_with(small_options(&disk));
        let (count, runs) = counting(&bank);
        assert_eq!(bank.value(1), Ok(Some(acknowledged)));
        let refused = bank.db.call(&count, args![1]);
        assert!(matches!(refused, Err(Error::NoLogSpace { .. })), "{refused:?}");
        assert_eq!(runs.load(Ordering::SeqCst), 0);
        disk.heal();
        wait_until("updates resume", || bank.db.call(&count, args![1]).is_ok());
        assert_eq!(bank.value(1), Ok(Some(acknowledged + 1)));
    });
    reopened(&shared).db.check().expect("consistent");
}

/// A failure to make a segment is no failure of the log.
#[test]
fn a_segment_that_cannot_be_made_once_is_made_the_next_time() {
    let disk = SimulatedDisk::new();
    let options = small_options(&disk);
    in_time("segments that fail", move || {
        let bank = bank_with(options);
        let (count, _) = counting(&bank);
        for (round, operation) in
            [Operation::Create, Operation::Rename, Operation::SyncDirectory].into_iter().enumerate()
        {
            disk.fail_next(operation, Fault::InputOutput);
            let before = (1..).find(|&number| disk.bytes(&segment(number)).is_err()).expect("finite");
            wait_until("a new segment", || {
                let _ = bank.db.call(&count, args![1 + round as i64]);
                disk.bytes(&segment(before + 1)).is_ok()
            });
        }
        bank.db.close().expect("durable");
        reopened(&disk.crash_image(0)).db.check().expect("consistent");
    });
}

#[test]
fn a_group_never_has_more_transactions_than_its_limit() {
    for (limit, durability) in [(1, Durability::Group), (3, Durability::Group), (5, Durability::Async)] {
        let disk = SimulatedDisk::new();
        let bank = bank_with(
            options(&disk)
                .log(|log| log.group_size(limit))
                .durability(durability)
                .log(|log| log.group_milliseconds(5.0)),
        );
        let shared = Arc::new(bank);
        let threads: Vec<_> = (1..7)
            .map(|id| {
                let bank = shared.clone();
                thread::spawn(move || {
                    for value in 1..=10 {
                        bank.db
                            .run(|tx| {
                                let change = tx.update(&bank.items, key![id], &[("value", value.into())]);
                                // Some bodies see groups close around them.
                                thread::sleep(Duration::from_micros(300 * (id as u64 % 3)));
                                change
                            })
                            .expect("committed");
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        let sizes = group_sizes(shared, &disk);
        assert!(sizes.iter().all(|&size| size <= limit as u64), "limit {limit}: {sizes:?}");
    }
}

/// Closes the database, and reads how many transactions each group of its log has, from a copy that is cut behind
/// one group after the other.
fn group_sizes(bank: Arc<Bank>, disk: &SimulatedDisk) -> Vec<u64> {
    let bank = Arc::into_inner(bank).expect("the threads have ended");
    bank.db.close().expect("durable");
    let log = disk.bytes(&segment(1)).expect("small enough for one segment");
    let mut sizes = Vec::new();
    let mut before = 0;
    for page in 2..log.len() / 4_096 {
        if log[page * 4_096 - 4_096..][..4] == [0; 4] {
            break;
        }
        let copy = disk.crash_image(0);
        let mut cut = log.clone();
        cut[page * 4_096..].fill(0);
        copy.put_bytes(&segment(1), cut).expect("there");
        let recovered = open(&copy).expect("a beginning of the log");
        sizes.push(recovered.recovery().transactions - before);
        before = recovered.recovery().transactions;
    }
    sizes
}

#[test]
fn a_reader_is_not_delayed_by_a_full_group() {
    let disk = SimulatedDisk::new();
    let bank = Arc::new(bank_with(options(&disk).log(|log| log.group_size(1))));
    bank.wait_for_segments(&disk);
    let held = HeldSyncs::of(&disk);
    let mut worker = bank.db.worker().expect("open");
    let first = worker.execute(&bank.set, args![1, 5]);
    disk.wait_for_held_syncs(1);
    let second = worker.execute(&bank.set, args![2, 5]);
    let (reported, hears) = std::sync::mpsc::channel();
    let reader = {
        let bank = bank.clone();
        thread::spawn(move || reported.send(bank.value(9)))
    };
    let read = hears.recv_timeout(Duration::from_secs(5));
    held.release();
    assert_eq!(read, Ok(Ok(Some(0))), "a reader of durable data waits for a group");
    reader.join().expect("no panic").expect("the receiver is open");
    assert!(first.wait().is_ok() && second.wait().is_ok());
}

#[test]
fn with_async_a_group_waits_for_its_time_and_no_longer() {
    let disk = SimulatedDisk::new();
    let options = options(&disk).durability(Durability::Async).log(|log| log.group_milliseconds(150.0));
    let bank = bank_with(options);
    wait_until("the first group", || bank.db.statistics().log_groups > 0);
    // Everything here fits into few groups; without the group's time there would be one for nearly each.
    let before = bank.db.statistics();
    let start = Instant::now();
    for value in 0..200 {
        bank.db
            .run(|tx| tx.update(&bank.items, key![1], &[("value", value.into())]))
            .expect("reported at once");
    }
    wait_until("all are written", || {
        let written = bank.db.statistics() - before;
        written.log_transactions >= 200
    });
    let written = bank.db.statistics() - before;
    let longest = start.elapsed().as_millis() as u64 / 150 + 2;
    assert!(written.log_groups <= longest, "{} groups in {:?}", written.log_groups, start.elapsed());
}

/// A segment that cannot be made for another reason than a full disk: the refusal says what is so, and contradicts neither
/// itself nor the disk.
#[test]
fn a_log_that_cannot_be_extended_says_why_and_updates_resume() {
    for (fault, words) in [
        (Fault::InputOutput, "Input/output error"),
        (Fault::TooManyFiles, "Too many open files"),
        (Fault::PermissionDenied, "Permission denied"),
    ] {
        let disk = SimulatedDisk::new();
        let options = small_options(&disk);
        in_time("a log that cannot be extended", move || {
            let bank = bank_with(options);
            let (count, _) = counting(&bank);
            bank.wait_for_segments(&disk);
            disk.fail_from_now(Operation::Create, fault);
            let refused = loop {
                if let Err(error) = bank.db.call(&count, args![1]) {
                    break error;
                }
            };
            assert!(matches!(refused, Error::LogNotExtended { .. }) && refused.is_retryable(), "{refused}");
            let text = refused.to_string();
            assert!(text.contains(words) && text.contains("cannot be extended"), "{text}");
            assert!(!["no space", "check the disk", "see to"].iter().any(|no| text.contains(no)), "{text}");
            assert_eq!(refused.sqlstate(), "58030");
            disk.heal();
            wait_until("updates resume", || bank.db.call(&count, args![1]).is_ok());
        });
    }
}

/// The failure that ends the log has one way out: its own.
#[test]
fn a_log_that_failed_for_want_of_space_names_one_way_out() {
    let disk = SimulatedDisk::new();
    in_time("a failed log", move || {
        let bank = bank_with(small_options(&disk));
        bank.wait_for_segments(&disk);
        disk.fail_next(Operation::Write, Fault::StorageFull);
        let unknown = bank.db.call(&bank.set, args![1, 2]).expect_err("it is not written").to_string();
        assert!(unknown.contains("No space left on device") && unknown.contains("00000001.log"), "{unknown}");
        assert!(unknown.ends_with("open the database again") && !unknown.contains("try again"), "{unknown}");
    });
}

/// A wait for room in the log is no attempt that a rival has ended.
#[test]
fn a_call_that_waits_for_room_has_made_one_attempt() {
    let disk = SimulatedDisk::new();
    in_time("a large call", move || {
        let db = Database::open(DIRECTORY, small_options(&disk)).expect("new");
        let table = texts(&db);
        let definition = ProcedureDefinition::new("write")
            .parameter("id", DataType::Int64)
            .parameter("text", DataType::Text)
            .phase([Action::write(&table)
                .key(|args, key| key.push(args.int(0)?))
                .body(|action| action.insert(row![action.args().int(0)?, action.args().text(1)?]))]);
        let write = db.register(definition).expect("a procedure");
        let mut worker = db.worker().expect("open");
        for (id, size) in [10, 300_000, 20, 500_000].into_iter().enumerate() {
            let executed = worker.execute(&write, args![id as i64, "x".repeat(size)]);
            assert_eq!(executed.attempts(), 1, "{size} bytes");
            executed.wait().expect("durable");
        }
    });
}
