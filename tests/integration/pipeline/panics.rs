//! Panics in closures and procedures: they leave no trace, and harm no neighbor.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use heddledb::{
    Action, DataType, Database, Error, Options, Procedure, ProcedureDefinition, Result, SerialOptions,
    Stages, Table, args, fail, key, row,
};

use crate::support::concurrent::{accounts, balance, in_memory, total, watched};

/// Checks that an error is a panic's, with its message.
fn assert_panicked<T>(result: Result<T>) {
    match result {
        Err(Error::Panicked { message }) => assert_eq!(message, "on purpose"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("the call succeeded"),
    }
}

/// Panics without a trace in the test's output.
fn boom() -> ! {
    std::panic::resume_unwind(Box::new("on purpose"))
}

#[test]
fn a_panic_in_a_closure_leaves_no_trace() {
    watched(|| {
        for partitions in [1, 4] {
            let db = in_memory(Options::default().protocol(SerialOptions::default().partitions(partitions)));
            let table = accounts(&db, 3);
            let attempts = AtomicUsize::new(0);
            assert_panicked(db.run(|tx| -> Result<()> {
                tx.add(&table, key![0], "balance", 7)?;
                tx.insert(&table, row![77, 7])?;
                tx.delete(&table, key![1])?;
                attempts.fetch_add(1, Ordering::SeqCst);
                boom()
            }));
            assert_panicked(db.run(|tx| -> Result<()> {
                let mut scan = tx.scan(&table, heddledb::Range::all())?;
                scan.next().transpose()?;
                boom()
            }));
            assert_eq!(attempts.load(Ordering::SeqCst), 1);
            assert_eq!(total(&db, &table), 300);
            assert_eq!(balance(&db, &table, 77), None);
            // The partition is free for others, alone and shared.
            thread::scope(|scope| {
                scope.spawn(|| db.run(|tx| tx.add(&table, key![0], "balance", 1)).expect("a free site"));
            });
            db.check().expect("consistent");
        }
    });
}

/// The second attempt of a closure has its partitions exclusively: a panic there must release them, too.
#[test]
fn a_panic_while_the_partition_is_held_alone_leaves_it_free() {
    watched(|| {
        let db = in_memory(Options::default());
        let table = accounts(&db, 2);
        let attempts = AtomicUsize::new(0);
        let rival = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                rival.wait();
                // It waits for the partition until the first attempt has ended, or comes before its commit.
                db.run(|tx| tx.add(&table, key![0], "balance", 1)).expect("a commit");
                rival.wait();
            });
            assert_panicked(db.run(|tx| {
                let before = tx.get(&table, key![0])?.ok_or_else(|| fail("no row"))?.int("balance")?;
                if attempts.fetch_add(1, Ordering::SeqCst) > 0 {
                    boom();
                }
                tx.update(&table, key![0], &[("balance", before.into())])?;
                Err::<(), _>(Error::Conflict)
            }));
            rival.wait();
            rival.wait();
        });
        assert_eq!(attempts.load(Ordering::SeqCst), 2);
        assert_eq!(balance(&db, &table, 0), Some(101));
    });
}

/// `shaky(mode)`: panics in its key, in its body, in a later phase's key, or not at all.
fn shaky(db: &Database, table: &Table) -> Procedure {
    let definition = ProcedureDefinition::new("shaky")
        .parameter("mode", DataType::Int64)
        .phase([Action::write(table)
            .key(|args, key| if args.int(0)? == 1 { boom() } else { key.push(0) })
            .body(|action| {
                action.add("balance", 1)?;
                if action.args().int(0)? == 2 { boom() } else { Ok(()) }
            })])
        .phase([Action::write(table)
            .key_from(|args, _, key| if args.int(0)? == 3 { boom() } else { key.push(1) })
            .body(|action| action.add("balance", 1))]);
    db.register(definition).expect("a procedure")
}

#[test]
fn panics_in_a_procedures_key_or_body_leave_no_trace_and_their_neighbours_unharmed() {
    watched(|| {
        for stages in [Stages::Folded, Stages::Staged] {
            for partitions in [1, 2] {
                let db = in_memory(
                    Options::default()
                        .threads(|threads| threads.stages(stages))
                        .protocol(SerialOptions::default().partitions(partitions))
                        .queues(|queues| queues.max_in_flight(4)),
                );
                let table = accounts(&db, 2);
                let shaky = shaky(&db, &table);
                for mode in [1, 2, 3, 1, 2, 3, 1, 2, 3] {
                    assert_panicked(db.call(&shaky, args![mode]));
                    db.call(&shaky, args![0]).expect("a call without a panic");
                }
                let mut worker = db.worker().expect("a free context");
                let calls: Vec<_> = (0..20).map(|n| (0, args![n % 4])).collect();
                let mut done = Vec::new();
                worker.execute_group(std::slice::from_ref(&shaky), &calls, &mut done);
                assert_eq!(done.len(), 20);
                for (n, executed) in done.into_iter().enumerate() {
                    match n % 4 {
                        0 => drop(executed.wait().expect("a call without a panic")),
                        _ => assert_panicked(executed.wait()),
                    }
                }
                drop(worker);
                assert_eq!(total(&db, &table), 200 + 2 * 9 + 2 * 5);
                db.close().expect("every thread is well");
            }
        }
    });
}
