//! Random transactions on columns with bounds, on several threads: what is taken and put back stays between them, and every
//! refusal is one that some order of the transactions explains.
//!
//! Sums tell: each committed transaction notes what it has added. A refusal is not judged alone, because others may have
//! changed the value since; but in the end the value is the sum of what was added, and no look ever sees one beyond a bound.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use heddledb::{
    Action, DataType, Database, Error, Procedure, ProcedureDefinition, Result, SplitOperation, Table,
    TableDefinition, args, fail, key, row,
};

use super::super::{Subject, seeds};
use super::on_simulated_disk;

const ITEMS: i64 = 3;
/// The bounds of the stock: few, so that transactions meet them.
const MOST: i64 = 40;
/// Pairs of numbers: of threads, and of transactions that each runs.
const CROWDS: [(u64, usize); 2] = [(2, 80), (8, 30)];
/// The error of a transaction that has seen an impossible state.
const IMPOSSIBLE: &str = "a stock beyond its bounds";

/// Random histories on 2 and 8 threads, in memory and with group commit.
pub fn random(subject: &Subject) {
    for seed in seeds(6) {
        for (threads, each) in CROWDS {
            let options = subject.options.clone();
            let db = if seed % 3 == 2 { on_simulated_disk(options) } else { subject.database() };
            let _mover = subject.disturb(&db);
            if let Err(what) = judge(db, (subject.labels, true), seed, threads, each) {
                panic!("HEDDLE_SEED={seed} {}, {threads} threads: {what}", subject.name);
            }
        }
    }
}

/// Runs one history, and checks it. `labels`: whether the stock is to be split; `is_bounded`: whether anything keeps it to
/// its bounds, as all but a canary do.
///
/// # Errors
/// The impossible thing that was found.
pub fn judge(
    db: Database,
    (labels, is_bounded): (bool, bool),
    seed: u64,
    threads: u64,
    each: usize,
) -> Result<(), String> {
    let stock = Arc::new(Stock::new(db, labels, is_bounded));
    let barrier = Barrier::new(threads as usize);
    thread::scope(|scope| {
        for thread in 0..threads {
            let (stock, barrier) = (stock.clone(), &barrier);
            scope.spawn(move || {
                barrier.wait();
                stock.work(fastrand::Rng::with_seed(seed << 8 | thread), each);
            });
        }
    });
    stock.check()
}

struct Stock {
    db: Database,
    items: Table,
    add: Procedure,
    /// The sums that committed transactions have added to each item.
    added: [AtomicI64; ITEMS as usize],
    impossible: AtomicU64,
}

impl Stock {
    fn new(db: Database, labels: bool, is_bounded: bool) -> Stock {
        let items = TableDefinition::new("item")
            .column("id", DataType::Int64)
            .column("stock", DataType::Int64)
            .not_null()
            .primary_key(["id"]);
        let bounds = format!("stock BETWEEN 0 AND {MOST}");
        let items = if is_bounded { items.check("bounds", &bounds) } else { items };
        let items = db.create_table(items).expect("a table");
        db.run(|tx| (0..ITEMS).try_for_each(|id| tx.insert(&items, row![id, MOST / 2]))).expect("rows");
        if labels {
            (0..ITEMS).for_each(|id| {
                db.split(&items, key![id], "stock", SplitOperation::ADD).expect("a label");
            });
        }
        let add = Action::commute(&items).key(|args, key| key.push(args.int(0)?));
        let add = add.body(|action| action.add("stock", action.args().int(1)?));
        let add = ProcedureDefinition::new("add").parameter("id", DataType::Int64).phase([add]);
        let add = db.register_anonymous(add.parameter("amount", DataType::Int64)).expect("a procedure");
        Stock { db, items, add, added: Default::default(), impossible: AtomicU64::new(0) }
    }

    fn work(&self, mut random: fastrand::Rng, each: usize) {
        for _ in 0..each {
            let (item, amount) = (random.i64(0..ITEMS), random.i64(-6..6));
            let result = match random.u32(0..10) {
                0..5 => self.db.call(&self.add, args![item, amount]).map(|_| amount),
                5 | 6 => self.db.run(|tx| tx.add(&self.items, key![item], "stock", amount).map(|()| amount)),
                7 => self.in_session(item, amount),
                8 => {
                    self.db.run(|tx| self.look(tx.get(&self.items, key![item])?.map(|row| row.int("stock"))))
                }
                _ => self.db.snapshot().and_then(|snapshot| {
                    self.look(snapshot.get(&self.items, key![item])?.map(|row| row.int("stock")))
                }),
            };
            match result {
                Ok(added) => drop(self.added[item as usize].fetch_add(added, Ordering::SeqCst)),
                Err(Error::CheckViolation { .. } | Error::Conflict | Error::Deadlock) => {}
                Err(Error::Failed { message }) if message == IMPOSSIBLE => {
                    self.impossible.fetch_add(1, Ordering::SeqCst);
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Adds in two accesses of a session.
    fn in_session(&self, item: i64, amount: i64) -> Result<i64> {
        let mut session = self.db.session()?;
        session.begin()?;
        for part in [amount / 2, amount - amount / 2] {
            thread::yield_now();
            session.run(|tx| tx.add(&self.items, key![item], "stock", part))?;
        }
        session.commit().map(|()| amount)
    }

    /// A look adds nothing.
    fn look(&self, stock: Option<Result<i64>>) -> Result<i64> {
        match stock.transpose()? {
            Some(0..=MOST) => Ok(0),
            _ => Err(fail(IMPOSSIBLE)),
        }
    }

    fn check(&self) -> Result<(), String> {
        if self.impossible.load(Ordering::SeqCst) > 0 {
            return Err(IMPOSSIBLE.to_string());
        }
        for item in 0..ITEMS {
            let expected = MOST / 2 + self.added[item as usize].load(Ordering::SeqCst);
            let stock =
                self.db.run(|tx| tx.get(&self.items, key![item])?.map(|row| row.int("stock")).transpose());
            if stock != Ok(Some(expected)) || !(0..=MOST).contains(&expected) {
                return Err(format!("item {item}: {stock:?} where {expected} was added up"));
            }
        }
        self.db.check().map(drop).map_err(|error| error.to_string())
    }
}
