//! Allocations of the hot path: a caller that reads one record through a closure allocates nothing.

#[path = "support/concurrent.rs"]
mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use heddledb::{
    Action, DataType, Options, ProcedureDefinition, SerialOptions, TableDefinition, args, fail, key, row,
};
use support::{accounts, in_memory, on_disk, small};

/// The system's allocator, which counts what the present thread asks of it.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // No access while the thread ends: nothing is measured then.
    let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
}

// SAFETY: every request goes to the system's allocator as it is; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is the system's too.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The number of this thread's allocations in this many rounds, after more of them to warm up: by then it has
/// also done its part in freeing what earlier transactions have left.
fn allocations(rounds: u64, mut round: impl FnMut()) -> u64 {
    (0..10 * rounds).for_each(|_| round());
    let before = ALLOCATIONS.get();
    (0..rounds).for_each(|_| round());
    ALLOCATIONS.get() - before
}

/// One test after the other, so that none frees what another one leaves.
#[test]
fn the_hot_path_allocates_as_little_as_it_should() {
    assert_eq!(allocations(10, || drop(std::hint::black_box(Box::new(7)))), 10, "the counter counts");
    reading_one_record_allocates_nothing();
    an_autocommit_access_of_a_session_copies_no_write();
    values_of_earlier_phases_are_kept_in_memory_of_the_call_before();
    tell_of_a_debit_credit_like_call();
}

fn reading_one_record_allocates_nothing() {
    for partitions in [1, 4] {
        let serial = SerialOptions::default().partitions(partitions);
        let (logged, _disk) = on_disk(small().protocol(serial));
        for db in [in_memory(Options::default().protocol(serial)), logged] {
            let table = accounts(&db, 100);
            let balance = table.column("balance").expect("a column");
            let by_name = allocations(500, || {
                let read =
                    db.run(|tx| tx.get(&table, key![7])?.ok_or_else(|| fail("no row"))?.int("balance"));
                assert_eq!(read, Ok(100));
            });
            let by_handle = allocations(500, || {
                let read = db.run(|tx| tx.get(&table, key![7])?.map(|row| row.int(balance)).transpose());
                assert_eq!(read, Ok(Some(100)));
            });
            let missing = allocations(500, || {
                assert_eq!(db.run(|tx| tx.exists(&table, key![7_000])), Ok(false));
            });
            assert_eq!((by_name, by_handle, missing), (0, 0, 0), "{partitions} partitions");
        }
    }
}

fn an_autocommit_access_of_a_session_copies_no_write() {
    const ROWS: i64 = 1_000;
    let db = in_memory(Options::default());
    let table = accounts(&db, ROWS);
    let mut session = db.session().expect("a session");
    let made = allocations(5, || {
        let written = session.run(|tx| (0..ROWS).try_for_each(|id| tx.add(&table, key![id], "balance", 1)));
        assert_eq!(written, Ok(()));
    });
    assert!(made < 5 * ROWS as u64 / 2, "{made} allocations");
}

/// Tests that the values of the first call of a group are allocated once and reused by its other calls, and
/// by those that only set values.
fn values_of_earlier_phases_are_kept_in_memory_of_the_call_before() {
    const CALLS: usize = 64;
    let db = in_memory(Options::default());
    let table = accounts(&db, 100);
    let set = || {
        let key = Action::read(&table).key(|args, key| key.push(args.int(0)?));
        key.body(|action| {
            action.set_value(0, action.args().int(0)?);
            Ok(())
        })
    };
    let read = Action::read(&table).key(|args, key| key.push(args.int(0)?));
    let read = read.body(|action| match action.values().int(0)? == action.args().int(0)? {
        true => Ok(()),
        false => Err(fail("another call's value")),
    });
    let define = |name| ProcedureDefinition::new(name).parameter("id", DataType::Int64);
    let both = db.register(define("both").phase([set()]).phase([read])).expect("a procedure");
    let first = db.register(define("first").phase([set()])).expect("a procedure");
    let mut worker = db.worker().expect("a free context");
    for procedure in [both, first] {
        let calls: Vec<_> = (0..CALLS as i64).map(|number| (0, args![number])).collect();
        let mut done = Vec::with_capacity(CALLS);
        let made = allocations(20, || {
            worker.execute_group(std::slice::from_ref(&procedure), &calls, &mut done);
            assert!(done.drain(..).all(|executed| !executed.failed()));
        });
        assert!(made < 20 * CALLS as u64 / 4, "{made} allocations in 20 groups of {CALLS} calls");
    }
}

/// Not asserted, only reported: a call like debit-credit's, as a worker makes it.
fn tell_of_a_debit_credit_like_call() {
    const CALLS: u64 = 64;
    let db = in_memory(Options::default());
    let table = accounts(&db, 100);
    let history = TableDefinition::new("history")
        .column("id", DataType::Int64)
        .column("amount", DataType::Int64)
        .primary_key(["id"]);
    let history = db.create_table(history).expect("a table");
    let balance = table.column("balance").expect("a column");
    let add = |at: usize| {
        Action::commute(&table)
            .key(move |args, key| key.push(args.int(at)?))
            .body(move |action| action.add(balance, action.args().int(3)?))
    };
    let note = Action::write(&history)
        .key(|args, key| key.push(args.int(4)?))
        .body(|action| action.insert(row![action.args().int(4)?, action.args().int(3)?]));
    let definition = (0..5).fold(ProcedureDefinition::new("debit-credit"), |definition, number| {
        definition.parameter(format!("{number}"), DataType::Int64)
    });
    let call = db.register(definition.phase([add(0), add(1), add(2), note])).expect("a procedure");
    let mut worker = db.worker().expect("a free context");
    let (mut calls, mut done, mut next) = (Vec::new(), Vec::new(), 0);
    let made = allocations(20, || {
        for _ in 0..CALLS {
            next += 1;
            calls.push((0, args![next % 100, 50 + next % 10, 99, 1, next]));
        }
        worker.execute_group(std::slice::from_ref(&call), &calls, &mut done);
        calls.clear();
        assert!(done.drain(..).all(|executed| !executed.failed()));
    });
    println!("{:.2} allocations for a debit-credit call in a group", made as f64 / (20 * CALLS) as f64);
}
