//! Random transactions on parents and children, on several threads: no transaction that ends sees a child without its
//! parent, whatever the others do meanwhile.
//!
//! Children are inserted without a look at their parent, and parents are deleted without a look at their children, so only
//! the foreign key keeps them together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use heddledb::{
    Action, DataType, Database, Error, ForeignKey, Procedure, ProcedureDefinition, Range, ReferentialAction,
    Result, Row, Table, TableDefinition, Tx, args, fail, key, row,
};

use super::super::{Subject, seeds};
use super::on_simulated_disk;

const PARENTS: i64 = 4;
const CHILDREN: i64 = 8;
/// Pairs of numbers: of threads, and of transactions that each runs.
const CROWDS: [(u64, usize); 2] = [(2, 60), (8, 20)];
/// The error of a transaction that has seen an impossible state.
const IMPOSSIBLE: &str = "a child without its parent";

/// Random histories on 2 and 8 threads, in memory and with group commit.
pub fn random(subject: &Subject) {
    for seed in seeds(10) {
        for (threads, each) in CROWDS {
            let options = subject.options.clone();
            let db = if seed % 4 == 3 { on_simulated_disk(options) } else { subject.database() };
            let _mover = subject.disturb(&db);
            if let Err(what) = judge(db, seed, threads, each) {
                panic!("HEDDLE_SEED={seed} {}, {threads} threads: {what}", subject.name);
            }
        }
    }
}

/// Runs one history, and checks it.
///
/// # Errors
/// The impossible thing that was found.
pub fn judge(db: Database, seed: u64, threads: u64, each: usize) -> Result<(), String> {
    let family = Arc::new(Family::new(db, seed));
    thread::scope(|scope| {
        for thread in 0..threads {
            let family = family.clone();
            scope.spawn(move || family.work(fastrand::Rng::with_seed(seed << 8 | thread), each));
        }
    });
    if family.impossible.load(Ordering::SeqCst) > 0 {
        return Err(IMPOSSIBLE.to_string());
    }
    family.db.check().map(drop).map_err(|error| error.to_string())
}

/// One step of a transaction.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A child of this parent is inserted, or moves to it.
    Refer(i64, i64),
    Leave(i64),
    /// A parent is inserted.
    Come(i64),
    /// A parent is deleted.
    Go(i64),
    /// A parent changes, which its children do not mind.
    Grow(i64),
    /// A look for a child, and for its parent.
    Look(i64),
    /// A look for a parent that does not exist, and for its children.
    Call(i64),
}

struct Family {
    db: Database,
    parents: Table,
    children: Table,
    delete: Procedure,
    impossible: AtomicU64,
}

impl Family {
    fn new(db: Database, seed: u64) -> Family {
        let table = |name: &str| TableDefinition::new(name).column("id", DataType::Int64);
        let parents = table("parent").column("n", DataType::Int64).not_null().primary_key(["id"]);
        let parents = db.create_table(parents).expect("a table");
        let action = ReferentialAction::ALL[seed as usize % ReferentialAction::ALL.len()];
        let key = ForeignKey::new("of", ["parent"], "parent").on_delete(action);
        let key = if seed % 3 == 2 { key.deferred() } else { key };
        let children = table("child").column("parent", DataType::Int64).default(0).primary_key(["id"]);
        let children = db.create_table(children.foreign_key(key)).expect("a table");
        db.run(|tx| (0..PARENTS).try_for_each(|id| tx.insert(&parents, row![id, 0]))).expect("rows");
        let delete = Action::write(&parents).key(|args, key| key.push(args.int(0)?));
        let delete = delete.body(|action| action.delete().map(drop));
        let delete = ProcedureDefinition::new("delete").parameter("id", DataType::Int64).phase([delete]);
        let delete = db.register_anonymous(delete).expect("a procedure");
        Family { db, parents, children, delete, impossible: AtomicU64::new(0) }
    }

    fn steps(random: &mut fastrand::Rng) -> Vec<Step> {
        let step = |random: &mut fastrand::Rng| {
            // The parent of the defaults stays.
            let (parent, child) = (random.i64(1..PARENTS), random.i64(0..CHILDREN));
            match random.u32(0..14) {
                0..4 => Step::Refer(child, parent),
                4 => Step::Leave(child),
                5..7 => Step::Come(parent),
                7..9 => Step::Go(parent),
                9 => Step::Grow(parent),
                10..12 => Step::Look(child),
                _ => Step::Call(parent),
            }
        };
        (0..random.usize(1..5)).map(|_| step(random)).collect()
    }

    fn step(&self, tx: &Tx<'_, '_>, step: Step) -> Result<()> {
        match step {
            Step::Refer(child, parent) => match tx.insert(&self.children, row![child, parent]) {
                Err(Error::DuplicateKey { .. }) => {
                    tx.update(&self.children, key![child], &[("parent", parent.into())])
                }
                other => other,
            },
            Step::Leave(child) => tx.delete(&self.children, key![child]).map(drop),
            Step::Come(parent) => tx.insert(&self.parents, row![parent, 0]),
            Step::Go(parent) => tx.delete(&self.parents, key![parent]).map(drop),
            Step::Grow(parent) => tx.add(&self.parents, key![parent], "n", 1),
            Step::Look(child) => {
                let Some(parent) = tx.get(&self.children, key![child])?.map(parent_of).transpose()?.flatten()
                else {
                    return Ok(());
                };
                possible(tx.exists(&self.parents, key![parent])?)
            }
            Step::Call(parent) => {
                let mut children = tx.scan_index(&self.children, "of", Range::prefix(key![parent]))?;
                let has_children = children.next().transpose()?.is_some();
                possible(!has_children || tx.exists(&self.parents, key![parent])?)
            }
        }
    }

    /// Notes how a transaction has ended: an error is a result, and must not come of what cannot have been. What a
    /// deferred foreign key has not checked yet may be seen by its own transaction.
    fn note(&self, result: Result<()>) {
        match result {
            Err(Error::Failed { message }) if message == IMPOSSIBLE => {
                self.impossible.fetch_add(1, Ordering::SeqCst);
            }
            Ok(())
            | Err(
                Error::Conflict
                | Error::Deadlock
                | Error::NoReferencedRow { .. }
                | Error::StillReferenced { .. }
                | Error::DuplicateKey { .. }
                | Error::MissingKey { .. },
            ) => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// Steps that look come first, so that they see what other transactions have left.
    fn in_order(mut steps: Vec<Step>) -> Vec<Step> {
        steps.sort_by_key(|step| !matches!(step, Step::Look(_) | Step::Call(_)));
        steps
    }

    fn work(&self, mut random: fastrand::Rng, each: usize) {
        for _ in 0..each {
            let steps = Self::in_order(Self::steps(&mut random));
            self.note(match random.u32(0..8) {
                0 => self.db.call(&self.delete, args![random.i64(1..PARENTS)]).map(drop),
                1 => self.whole_tables(steps),
                2 => self.snapshot(),
                3..5 => self.session(&steps),
                _ => self.db.run(|tx| {
                    steps.iter().try_for_each(|&step| {
                        thread::yield_now();
                        self.step(tx, step)
                    })
                }),
            });
        }
    }

    fn session(&self, steps: &[Step]) -> Result<()> {
        let mut session = self.db.session()?;
        session.begin()?;
        steps.iter().try_for_each(|&step| {
            thread::yield_now();
            session.run(|tx| self.step(tx, step))
        })?;
        session.commit()
    }

    /// A procedure that declares the children as a whole; what it does to parents follows from it.
    fn whole_tables(&self, steps: Vec<Step>) -> Result<()> {
        let children = self.children.clone();
        let action = Action::write(&self.children).body(move |action| {
            steps.iter().try_for_each(|step| match *step {
                Step::Refer(child, parent) => {
                    action.tx().delete(&children, key![child])?;
                    action.tx().insert(&children, row![child, parent])
                }
                Step::Leave(child) => action.tx().delete(&children, key![child]).map(drop),
                _ => Ok(()),
            })
        });
        let procedure = self.db.register_anonymous(ProcedureDefinition::new("children").phase([action]))?;
        self.db.call(&procedure, args![]).map(drop)
    }

    fn snapshot(&self) -> Result<()> {
        let snapshot = self.db.snapshot()?;
        for child in snapshot.scan(&self.children, Range::all())? {
            if let Some(parent) = parent_of(child?.row())? {
                thread::yield_now();
                possible(snapshot.exists(&self.parents, key![parent])?)?;
            }
        }
        Ok(())
    }
}

fn parent_of(row: Row<'_>) -> Result<Option<i64>> {
    if row.get("parent")?.is_null() { Ok(None) } else { row.int("parent").map(Some) }
}

fn possible(is_possible: bool) -> Result<()> {
    if is_possible { Ok(()) } else { Err(fail(IMPOSSIBLE)) }
}
