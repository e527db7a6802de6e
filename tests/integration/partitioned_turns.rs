//! Tests that an executor's messages reach other executors before it runs code that may take long or wait for
//! them, and that the state which one action leaves concerns no other transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use heddledb::{
    Action, Args, DataType, Database, Durability, Error, Options, PartitionedOptions, Plan, Procedure,
    ProcedureDefinition, Result, SequenceDefinition, Table, TableDefinition, args, key, row,
};

const ROWS: i64 = 32;

/// Rows 0 to 31 on two executors that keep their ranges.
struct Accounts {
    db: Database,
    table: Table,
    /// Rows of each executor.
    rows: [Vec<i64>; 2],
}

impl Accounts {
    fn new() -> Accounts {
        let protocol = PartitionedOptions::default().executors(2).plan(Plan::Parallel).repartitioning(false);
        let options = Options::default().protocol(protocol).durability(Durability::None);
        let db = Database::in_memory_with(options).unwrap();
        let definition =
            TableDefinition::new("account").column("id", DataType::Int64).column("n", DataType::Int64);
        let table = db.create_table(definition.primary_key(["id"])).unwrap();
        db.run(|tx| (0..ROWS).try_for_each(|id| tx.insert(&table, row![id, 0]))).unwrap();
        let owner = |id: i64| db.executor_of(&table, key![id]).unwrap();
        let rows = [0, 1].map(|executor| (0..ROWS).filter(|id| owner(*id) == Some(executor)).collect());
        Accounts { db, table, rows }
    }

    /// A write of the row that the argument of this number names.
    fn action(&self, which: usize, body: impl Fn() -> Result<()> + Send + Sync + 'static) -> Action {
        let action = Action::write(&self.table).key(move |args, key| key.push(args.int(which)?));
        action.body(move |action| {
            let n = action.get()?.unwrap().int("n")?;
            body()?;
            action.update(&[("n", (n + 1).into())])
        })
    }

    fn register(&self, name: &str, phases: impl IntoIterator<Item = Vec<Action>>) -> Procedure {
        let definition =
            ProcedureDefinition::new(name).parameter("a", DataType::Int64).parameter("b", DataType::Int64);
        self.db.register(phases.into_iter().fold(definition, |all, phase| all.phase(phase))).unwrap()
    }

    fn n(&self, id: i64) -> i64 {
        self.db.run(|tx| tx.get(&self.table, key![id])?.unwrap().int("n")).unwrap()
    }

    /// Runs the calls as one group, which one turn of an executor takes.
    fn run_group(&self, procedures: &[Procedure], calls: &[(usize, Args)]) -> Vec<Result<()>> {
        let mut done = Vec::new();
        self.db.worker().unwrap().execute_group(procedures, calls, &mut done);
        done.into_iter().map(|one| one.wait().map(drop)).collect()
    }
}

/// A body that ends well only if another one runs at the same time.
fn meet(arrived: &Arc<AtomicUsize>) -> impl Fn() -> Result<()> + Send + Sync + 'static {
    let arrived = arrived.clone();
    move || {
        arrived.fetch_add(1, Ordering::SeqCst);
        let start = Instant::now();
        while arrived.load(Ordering::SeqCst) < 2 {
            if start.elapsed() > Duration::from_secs(60) {
                let detail = "the other one does not come".to_string();
                return Err(Error::InvalidValue { what: "a meeting".to_string(), detail });
            }
            thread::yield_now();
        }
        Ok(())
    }
}

/// Takes so long that the other executor has done its part of the phase before.
fn be_last() -> Result<()> {
    thread::sleep(Duration::from_millis(30));
    Ok(())
}

#[test]
fn actions_of_a_later_phase_run_at_the_same_time() {
    let accounts = Accounts::new();
    let arrived = Arc::default();
    let first = vec![accounts.action(0, || Ok(())), accounts.action(1, || Ok(()))];
    let later = vec![accounts.action(0, meet(&arrived)), accounts.action(1, meet(&arrived))];
    let both = accounts.register("both", [first, later]);
    let (a, b) = (accounts.rows[0][0], accounts.rows[1][0]);
    accounts.db.call(&both, args![a, b]).unwrap();
    assert_eq!((accounts.n(a), accounts.n(b)), (2, 2));
}

#[test]
fn actions_of_another_attempt_run_at_the_same_time() {
    let accounts = Accounts::new();
    let arrived = Arc::default();
    let meet_after = |first: Result<()>| {
        let (runs, meet) = (AtomicUsize::new(0), meet(&arrived));
        move || if runs.fetch_add(1, Ordering::SeqCst) == 0 { first.clone() } else { meet() }
    };
    let both =
        vec![accounts.action(0, meet_after(Ok(()))), accounts.action(1, meet_after(Err(Error::Conflict)))];
    let both = accounts.register("both", [both]);
    let (a, b) = (accounts.rows[0][0], accounts.rows[1][0]);
    accounts.db.call(&both, args![a, b]).unwrap();
    assert_eq!((accounts.n(a), accounts.n(b)), (1, 1));
}

/// The first attempt aborts before its other executor, which is busy, has granted any lock. The next attempt must hold that lock: the
/// other transaction adds to the same row while the attempt runs.
#[test]
fn another_attempt_holds_its_locks_at_an_executor_that_was_late() {
    let accounts = Accounts::new();
    let (runs, has_read, is_added) =
        (AtomicUsize::new(0), <Arc<AtomicUsize>>::default(), <Arc<AtomicUsize>>::default());
    let (read, added) = (has_read.clone(), is_added.clone());
    let abort_and_wait = move || {
        if runs.fetch_add(1, Ordering::SeqCst) == 0 {
            return Err(Error::Conflict);
        }
        let start = Instant::now();
        while added.load(Ordering::SeqCst) == 0 && start.elapsed() < Duration::from_millis(300) {
            thread::yield_now();
        }
        Ok(())
    };
    let note = move || {
        read.fetch_add(1, Ordering::SeqCst);
        Ok(())
    };
    let both = vec![accounts.action(0, abort_and_wait), accounts.action(1, note)];
    let both = accounts.register("both", [both]);
    let busy = accounts.register("busy", [vec![accounts.action(0, be_last)]]);
    let add = accounts.register("add", [vec![accounts.action(0, || Ok(()))]]);
    let [own, other] = &accounts.rows;
    let busy = accounts.db.submit(&busy, args![other[1], 0]).unwrap();
    thread::sleep(Duration::from_millis(10));
    let both = accounts.db.submit(&both, args![own[0], other[0]]).unwrap();
    while has_read.load(Ordering::SeqCst) == 0 {
        thread::yield_now();
    }
    accounts.db.call(&add, args![other[0], 0]).unwrap();
    is_added.store(1, Ordering::SeqCst);
    assert!(busy.wait().is_ok() && both.wait().is_ok());
    assert_eq!(accounts.n(other[0]), 2, "both have added to it");
}

/// The first transaction ends at executor 0 in the turn in which the second one runs there, and holds a lock at executor 1 that the
/// second one needs.
#[test]
fn actions_of_one_phase_run_at_the_same_time_behind_another_transaction() {
    let accounts = Accounts::new();
    let arrived = Arc::default();
    let first = vec![accounts.action(0, be_last), accounts.action(1, || Ok(()))];
    let second = vec![accounts.action(0, meet(&arrived)), accounts.action(1, meet(&arrived))];
    let procedures = [accounts.register("first", [first]), accounts.register("second", [second])];
    let [own, other] = &accounts.rows;
    let calls = [(0, args![own[0], other[0]]), (1, args![own[1], other[0]])];
    assert_eq!(accounts.run_group(&procedures, &calls), [Ok(()), Ok(())]);
    assert_eq!(accounts.n(other[0]), 2);
}

/// Tests the same with transactions of one executor behind: in their batch, or each with locks of its own.
#[test]
fn a_transaction_that_has_ended_keeps_no_locks_while_the_next_ones_run() {
    for has_held_locks in [false, true] {
        let accounts = Accounts::new();
        let arrived = Arc::default();
        let first = vec![accounts.action(0, be_last), accounts.action(1, || Ok(()))];
        let alone = accounts.action(0, meet(&arrived));
        let longer = || be_last().and_then(|()| be_last());
        let blocked = vec![accounts.action(0, || Ok(())), accounts.action(1, longer)];
        let procedures = [
            accounts.register("first", [first]),
            accounts.register("alone", [vec![alone]]),
            accounts.register("blocked", [blocked]),
        ];
        let [own, other] = &accounts.rows;
        let mut calls = vec![(0, args![own[0], other[0]])];
        if has_held_locks {
            calls.push((2, args![own[3], other[3]]));
        }
        calls.extend([(1, args![own[1], 0]), (1, args![other[0], 0])]);
        let done = accounts.run_group(&procedures, &calls);
        assert!(done.iter().all(Result::is_ok), "{done:?}");
    }
}

/// Takes values of a sequence until it has to wait for more, at the first call.
fn drain(accounts: &Accounts, runs: &Arc<AtomicUsize>) -> impl Fn() -> Result<()> + Send + Sync + 'static {
    let sequence = accounts.db.create_sequence(SequenceDefinition::new("s")).unwrap();
    let runs = runs.clone();
    move || {
        if runs.fetch_add(1, Ordering::SeqCst) == 0 {
            loop {
                sequence.next()?;
            }
        }
        sequence.next().map(drop)
    }
}

/// A transaction that waits for a sequence's values keeps no executor busy with attempts: its caller retries it.
#[test]
fn what_waits_for_another_transaction_is_retried_by_the_caller_only() {
    let accounts = Accounts::new();
    let runs = Arc::default();
    let drain = vec![accounts.action(0, drain(&accounts, &runs)), accounts.action(1, be_last)];
    let drain = accounts.register("drain", [drain]);
    let (a, b) = (accounts.rows[0][0], accounts.rows[1][0]);
    let submitted = accounts.db.submit(&drain, args![a, b]).unwrap().wait();
    assert!(matches!(submitted, Err(Error::Conflict)), "{submitted:?}");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    accounts.db.call(&drain, args![a, b]).unwrap();
    assert_eq!((accounts.n(a), accounts.n(b)), (1, 1));
}

#[test]
fn what_waits_for_another_transaction_leaves_nothing_at_its_executor() {
    let accounts = Accounts::new();
    let drain = vec![accounts.action(0, drain(&accounts, &Arc::default())), accounts.action(1, be_last)];
    let drain = accounts.register("drain", [drain]);
    let runs = AtomicUsize::new(0);
    let conflict =
        move || if runs.fetch_add(1, Ordering::SeqCst) == 0 { Err(Error::Conflict) } else { Ok(()) };
    let conflict = accounts.register("conflict", [vec![accounts.action(0, conflict)]]);
    let [own, other] = &accounts.rows;
    _ = accounts.db.submit(&drain, args![own[0], other[0]]).unwrap().wait();
    let submitted = accounts.db.submit(&conflict, args![own[1], 0]).unwrap().wait();
    assert!(submitted.is_ok(), "its executor retries it: {submitted:?}");
}
