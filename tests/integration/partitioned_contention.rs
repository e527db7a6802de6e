//! Thread-to-data execution under contention: many workers at few executors, transactions over one executor, several or all,
//! reads without locks, repartitioning. The constraints that every transaction keeps hold for all of them together.

use std::thread;
use std::time::{Duration, Instant};

use heddledb::{
    Action, Args, DataType, Database, Durability, Error, Options, PartitionedOptions, Procedure,
    ProcedureDefinition, Range, Result, Table, TableDefinition, Value, args, key, row,
};

use crate::support::concurrent;

const ROWS: i64 = 64;
const WARDS: i64 = 4;
/// Half of the holders have a badge.
const HOLDERS: i64 = 32;

/// A database with the constraints that its procedures keep.
struct Hospital {
    db: Database,
    /// Doctors on duty in a ward: at least one in each.
    duty: Table,
    /// Badge numbers of holders: each number once.
    badge: Table,
    /// Balances of rows 0 and 1 of an account: the total is constant.
    account: Table,
    /// Beds in pairs, of which at most one is taken.
    bed: Table,
    procedures: Vec<Procedure>,
}

fn table(db: &Database, name: &str, columns: &[&str], more: fn(TableDefinition) -> TableDefinition) -> Table {
    let definition = TableDefinition::new(name);
    let definition =
        columns.iter().fold(definition, |definition, column| definition.column(*column, DataType::Int64));
    db.create_table(more(definition)).unwrap()
}

fn hospital(executors: usize) -> Hospital {
    let options = Options::default().protocol(PartitionedOptions::default().executors(executors));
    let db = Database::in_memory_with(options.durability(Durability::None)).unwrap();
    let duty = table(&db, "duty", &["id", "ward", "on"], |duty| {
        duty.primary_key(["id"]).index("by ward", ["ward", "on"])
    });
    let badge = table(&db, "badge", &["id", "number"], |badge| {
        badge.primary_key(["id"]).unique_index("by number", ["number"])
    });
    let account = table(&db, "account", &["id", "part", "n"], |account| account.primary_key(["id", "part"]));
    let bed = table(&db, "bed", &["id", "taken"], |bed| bed.primary_key(["id"]));
    let load = |id: i64| {
        db.run(|tx| {
            tx.insert(&duty, row![id, id % WARDS, 1])?;
            tx.insert(&account, row![id, 0, 100])?;
            tx.insert(&bed, row![id, 0])?;
            if id < HOLDERS / 2 { tx.insert(&badge, row![id, id]) } else { Ok(()) }
        })
    };
    (0..ROWS).for_each(|id| load(id).unwrap());
    let mut hospital = Hospital { db, duty, badge, account, bed, procedures: Vec::new() };
    hospital.procedures = hospital.procedures();
    hospital
}

fn own(table: &Table, which: usize) -> Action {
    Action::write(table).key(move |args, key| key.push(args.int(which)?))
}

impl Hospital {
    fn register(&self, name: &str, phases: impl IntoIterator<Item = Vec<Action>>) -> Procedure {
        let definition = ProcedureDefinition::new(name);
        let definition = definition.parameter("one", DataType::Int64).parameter("other", DataType::Int64);
        self.db.register(phases.into_iter().fold(definition, ProcedureDefinition::phase)).unwrap()
    }

    fn procedures(&self) -> Vec<Procedure> {
        let all = self.duty.clone();
        // Counts rows of all executors without locks.
        let count = Action::read(&self.duty).body(move |action| {
            let ward = action.args().int(0)? % WARDS;
            let on = action.tx().scan_index(&all, "by ward", Range::prefix(key![ward, 1]))?.count();
            action.set_value(0, on as i64);
            Ok(())
        });
        let go = own(&self.duty, 0).body(|action| {
            // Let others count meanwhile.
            thread::yield_now();
            let is_on = action.get()?.unwrap().int("on")? == 1;
            if is_on && action.values().int(0)? > 1 { action.update(&[("on", 0.into())]) } else { Ok(()) }
        });
        let come = own(&self.duty, 0).body(|action| action.update(&[("on", 1.into())]));
        let take = own(&self.badge, 0).body(|action| {
            let number = action.get()?.map(|row| row.int("number")).transpose()?;
            action.set_value(0, number.unwrap_or(-1));
            action.delete().map(|_| ())
        });
        let give = own(&self.badge, 1).body(|action| match action.values().int(0)? {
            -1 => Ok(()),
            number => action.insert(row![action.args().int(1)?, number]),
        });
        let look = Action::read(&self.bed).key(|args, key| key.push(args.int(0)? ^ 1)).body(|action| {
            let taken = action.get()?.unwrap().int("taken")?;
            action.set_value(0, taken);
            Ok(())
        });
        let lie_down = own(&self.bed, 0).body(|action| {
            thread::yield_now();
            let is_free = action.get()?.unwrap().int("taken")? == 0 && action.values().int(0)? == 0;
            action.update(&[("taken", i64::from(is_free).into())])
        });
        let all = self.account.clone();
        let sum = Action::read(&self.account).body(move |action| {
            let rows = action.tx().scan(&all, Range::all())?;
            action.return_row(vec![rows.map(|row| row?.int("n")).sum::<Result<i64>>()?.into()]);
            Ok(())
        });
        vec![
            self.register("go off duty", [vec![count], vec![go]]),
            self.register("come", [vec![come]]),
            self.register("pass the badge on", [vec![take], vec![give]]),
            self.register("lie down", [vec![look], vec![lie_down]]),
            self.register("pay", [vec![self.pay(0, -1), self.pay(1, 1)]]),
            self.register("pay in phases", [vec![self.pay(0, -1)], vec![self.pay(1, 1)]]),
            self.register("sum", [vec![sum]]),
        ]
    }

    /// Changes an account, and inserts or deletes its second row.
    fn pay(&self, which: usize, amount: i64) -> Action {
        let account = self.account.clone();
        own(&self.account, which).body(move |action| {
            let (tx, id) = (action.tx(), action.args().int(which)?);
            let Some(second) = tx.get(&account, key![id, 1])? else {
                return tx.insert(&account, row![id, 1, amount]);
            };
            let n = tx.get(&account, key![id, 0])?.unwrap().int("n")? + second.int("n")? + amount;
            tx.delete(&account, key![id, 1])?;
            tx.update(&account, key![id, 0], &[("n", n.into())])
        })
    }

    fn call(&self, random: &mut fastrand::Rng) -> (usize, Args) {
        // The sum locks the table at all executors: seldom.
        let is_small = random.u8(0..16) > 0;
        let which = random.usize(0..self.procedures.len() - usize::from(is_small));
        // More leave than come, so that few are left and the constraint matters.
        let which = if which == 1 && random.u8(0..4) > 0 { 0 } else { which };
        let ids = if which == 2 { HOLDERS } else { ROWS };
        let one = random.i64(0..ids);
        (which, args![one, (one + random.i64(1..ids)) % ids])
    }

    /// The groups of one worker, for this long.
    fn work(&self, seed: u64, time: Duration) {
        let mut worker = self.db.worker().unwrap();
        let mut random = fastrand::Rng::with_seed(seed);
        let start = Instant::now();
        while start.elapsed() < time {
            let calls: Vec<_> = (0..random.usize(1..48)).map(|_| self.call(&mut random)).collect();
            let mut done = Vec::new();
            worker.execute_group(&self.procedures, &calls, &mut done);
            for (executed, (which, args)) in done.into_iter().zip(calls) {
                match executed.wait() {
                    Ok(output) if which == 6 => assert_eq!(output.rows, [[Value::from(ROWS * 100)]]),
                    Ok(_) => {}
                    Err(error) => {
                        let is_held = which == 2 && matches!(error, Error::DuplicateKey { .. });
                        assert!(is_held, "{which} of {args:?}: {error}");
                    }
                }
            }
        }
    }

    fn column(&self, table: &Table, column: &str) -> Vec<i64> {
        self.db.run(|tx| tx.scan(table, Range::all())?.map(|row| row?.int(column)).collect()).unwrap()
    }

    fn check(&self) {
        let on = self.column(&self.duty, "on");
        let in_ward = |ward| on.iter().skip(ward).step_by(WARDS as usize).sum::<i64>();
        assert!((0..WARDS as usize).all(|ward| in_ward(ward) > 0), "a ward without a doctor: {on:?}");
        let mut numbers = self.column(&self.badge, "number");
        numbers.sort_unstable();
        assert!(numbers.iter().copied().eq(0..HOLDERS / 2), "badges: {numbers:?}");
        let beds = self.column(&self.bed, "taken");
        assert!(beds.chunks(2).all(|pair| pair.iter().sum::<i64>() < 2), "both of a pair: {beds:?}");
        assert_eq!(self.column(&self.account, "n").iter().sum::<i64>(), ROWS * 100);
    }
}

/// This many workers at this many executors, with or without repartitioning.
fn run(executors: usize, workers: u64, is_repartitioned: bool) {
    concurrent::watched(move || {
        let hospital = hospital(executors);
        thread::scope(|scope| {
            let hospital = &hospital;
            let work = |seed| scope.spawn(move || hospital.work(seed, Duration::from_millis(400)));
            let workers: Vec<_> = (0..workers).map(work).collect();
            let mut random = fastrand::Rng::with_seed(executors as u64);
            while is_repartitioned && workers.iter().any(|worker| !worker.is_finished()) {
                let mut starts: Vec<f64> = (1..executors).map(|_| random.f64()).collect();
                starts.sort_by(f64::total_cmp);
                hospital.db.repartition(&starts).unwrap();
                thread::sleep(Duration::from_micros(random.u64(0..2_000)));
            }
            workers.into_iter().for_each(|worker| worker.join().unwrap());
        });
        hospital.check();
    });
}

#[test]
fn constraints_hold_at_one_executor() {
    [2, 3, 16].into_iter().for_each(|workers| run(1, workers, false));
}

#[test]
fn constraints_hold_under_repartitioning() {
    for (executors, workers) in [(2, 3), (4, 2), (4, 16)] {
        run(executors, workers, true);
    }
}
