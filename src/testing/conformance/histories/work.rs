//! The transactions of a random history, and their notes of what they have seen.
//!
//! Rows get unique values, and a transaction that writes one has read it before; counters are only added to, each time
//! another power of two. So from what is seen follows the order of transactions (see `graph.rs`).

mod steps;

use std::ops::Range as Span;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::thread;

use heddledb::{
    Action, ActionContext, Args, DataType, Database, Error, Output, PrimaryIndex, Procedure,
    ProcedureDefinition, Result, SessionState, SplitOperation, Table, TableDefinition, Value, args, fail,
    key, row,
};
use parking_lot::Mutex;

use self::steps::{Seen, Tables};
use super::graph::Event;

pub use steps::Step;

/// The greatest number of rows: few, so that transactions meet.
pub const KEYS: i64 = 8;
const COUNTERS: i64 = 6;
/// Far more attempts than a session needs: under a protocol that is broken it might try for ever.
const ATTEMPTS_MAX: u64 = 10_000;
/// The number of additions to a counter: each has a bit of its own.
const BITS: i64 = 62;

/// The counters' keys.
pub fn counters() -> Span<i64> {
    0..COUNTERS
}

/// The tables of a history, and what its threads share.
pub struct World {
    db: Database,
    tables: Tables,
    touch: Procedure,
    clock: AtomicU64,
    bits: [AtomicI64; COUNTERS as usize],
    values: AtomicI64,
    events: Mutex<Vec<Event>>,
}

impl World {
    /// A new world with half of the rows, and all counters. `labels`: whether the counters are to be split.
    pub fn new(db: Database, labels: bool) -> World {
        let table = |name: &str| TableDefinition::new(name).column("id", DataType::Int64);
        let items = table("item")
            .column("value", DataType::Int64)
            .primary_key(["id"])
            .primary_index(PrimaryIndex::Both)
            .unique_index("by_value", ["value"]);
        let items = db.create_table(items).expect("a table");
        let counters = table("counter").column("n", DataType::Int64).not_null().primary_key(["id"]);
        let counters = db.create_table(counters).expect("a table");
        let world = World {
            touch: touch(&db, &items),
            tables: Tables { items, counters },
            db,
            clock: AtomicU64::new(2),
            bits: Default::default(),
            values: AtomicI64::new(KEYS),
            events: Mutex::default(),
        };
        let writes = (0..KEYS / 2).map(|key| (key, Some(key))).collect();
        let start = Event { end: 1, committed: true, writes, ..Event::default() };
        world
            .db
            .run(|tx| {
                (0..KEYS / 2).try_for_each(|key| tx.insert(&world.tables.items, row![key, key]))?;
                (0..COUNTERS).try_for_each(|key| tx.insert(&world.tables.counters, row![key, 0]))
            })
            .expect("rows");
        world.events.lock().push(start);
        if labels {
            for counter in 0..COUNTERS {
                let label = world.db.split(&world.tables.counters, key![counter], "n", SplitOperation::ADD);
                label.expect("a label");
            }
        }
        world
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.db
    }

    /// The notes so far.
    pub fn events(&self) -> Vec<Event> {
        self.events.lock().clone()
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn value(&self) -> i64 {
        self.values.fetch_add(1, Ordering::SeqCst)
    }

    fn steps(&self, random: &mut fastrand::Rng) -> Vec<Step> {
        let step = |random: &mut fastrand::Rng| {
            let key = random.i64(0..KEYS);
            let counter = random.i64(0..COUNTERS);
            match random.u32(0..22) {
                0..4 => Step::Read(key),
                4 => Step::Exists(key),
                5..10 => Step::Write(key, self.value()),
                10..12 => Step::Write(key, -1),
                12..14 => Step::Scan(key, random.i64(key..=KEYS), random.bool()),
                14 => Step::First(key, random.usize(0..4), random.bool()),
                15 => Step::ScanIndex(random.bool()),
                16..18 => Step::Count(counter),
                18..21 => match self.bits[counter as usize].fetch_add(1, Ordering::SeqCst) {
                    bit if bit < BITS => Step::Add(counter, bit as u32),
                    _ => Step::Count(counter),
                },
                _ => Step::Fail,
            }
        };
        (0..random.usize(1..6)).map(|_| step(random)).collect()
    }

    /// Runs these steps in a closure.
    pub fn closure(&self, steps: &[Step], yielding: bool) {
        let mut last = Event::default();
        let begin = self.tick();
        let result = self.db.run(|tx| {
            let mut seen = Seen::default();
            let ran = steps.iter().try_for_each(|&step| {
                if yielding {
                    thread::yield_now();
                }
                self.tables.step(tx, step, &mut seen)
            });
            last = seen.event;
            ran
        });
        self.note(last, begin, result);
    }

    /// Reads with these steps in a snapshot. Its moment lies between the request and the answer, however late it is read.
    pub fn snapshot(&self, steps: &[Step]) {
        let begin = self.tick();
        let snapshot = self.db.snapshot().expect("a snapshot");
        let end = self.tick();
        let mut seen = Seen::default();
        for _ in 0..2 {
            for &step in steps {
                thread::yield_now();
                self.tables.look(&snapshot, step, &mut seen).expect("a read in a snapshot");
            }
        }
        self.events.lock().push(Event { begin, end, committed: true, ..seen.event });
    }

    /// Runs these steps in a session, each as an access. An attempt that met a conflict has returned something, too:
    /// it counts as a transaction that failed.
    pub fn session(&self, steps: &[Step]) {
        let mut session = self.db.session().expect("a session");
        for attempt in 1.. {
            assert!(attempt < ATTEMPTS_MAX, "a session conflicts without end");
            let begin = self.tick();
            session.begin().expect("a transaction");
            let mut event = Event::default();
            let reported = steps.iter().try_for_each(|&step| {
                thread::yield_now();
                event = session.run(|tx| {
                    let mut seen = Seen { event: event.clone() };
                    self.tables.step(tx, step, &mut seen).map(|()| seen.event)
                })?;
                Ok(())
            });
            let ended = reported.and_then(|()| session.commit());
            if session.state() != SessionState::Idle {
                session.rollback().expect("a transaction");
            }
            let is_retried = ended.as_ref().is_err_and(Error::is_retryable);
            self.note(event, begin, if is_retried { Err(fail("a conflict")) } else { ended });
            if !is_retried {
                return;
            }
        }
    }

    /// A procedure that declares both tables as a whole, and runs these steps.
    fn whole_tables(&self, steps: Vec<Step>, run: impl FnOnce(&Procedure, Args) -> Result<Output>) {
        let last = std::sync::Arc::new(Mutex::new(Event::default()));
        let action = |action: Action, tables: Tables, steps: Vec<Step>, first: bool| {
            let last = last.clone();
            action.body(move |action: &ActionContext<'_, '_>| {
                let event = if first { Event::default() } else { last.lock().clone() };
                let mut seen = Seen { event };
                let ran = steps.iter().try_for_each(|&step| tables.step(&action.tx(), step, &mut seen));
                *last.lock() = seen.event;
                ran
            })
        };
        let counts = |step: &Step| matches!(step, Step::Count(_) | Step::Add(..));
        let reads = !steps.iter().any(|step| matches!(step, Step::Write(..) | Step::Add(..)));
        let (on_counters, on_items) = steps.into_iter().partition(counts);
        let whole = |table: &Table| if reads { Action::read(table) } else { Action::write(table) };
        let tables = &self.tables;
        let definition = ProcedureDefinition::new("steps")
            .phase([action(whole(&tables.items), tables.clone(), on_items, true)])
            .phase([action(whole(&tables.counters), tables.clone(), on_counters, false)]);
        let procedure = self.db.register_anonymous(definition).expect("a procedure");
        let begin = self.tick();
        let result = run(&procedure, args![]);
        let event = last.lock().clone();
        self.note(event, begin, result.map(drop));
    }

    /// A procedure that writes two rows, each found by its declared key, and reads a third.
    fn each_key(&self, random: &mut fastrand::Rng, run: impl FnOnce(&Procedure, Args) -> Result<Output>) {
        let mut keys: Vec<i64> = (0..KEYS).collect();
        random.shuffle(&mut keys);
        let (first, second) = (self.value(), if random.u32(0..4) == 0 { -1 } else { self.value() });
        let begin = self.tick();
        let result = run(&self.touch, args![keys[0], first, keys[1], second, keys[2], random.u32(0..8) == 0]);
        let mut event = Event::default();
        if let Ok(output) = &result {
            for row in &output.rows {
                let [Value::Int(key), before, after] = &row[..] else { panic!("{row:?}") };
                let value = |value: &Value| if let Value::Int(value) = value { Some(*value) } else { None };
                event.reads.insert(*key, value(before));
                if *after != Value::Bool(false) {
                    event.writes.insert(*key, value(after));
                }
            }
        }
        self.note(event, begin, result.map(drop));
    }

    fn note(&self, event: Event, begin: u64, result: Result<()>) {
        match result {
            Ok(()) | Err(Error::Failed { .. }) => {}
            // A transaction's own error only comes of what cannot have been.
            Err(error) => panic!("{error}, after {event:?}"),
        }
        let event = Event { begin, end: self.tick(), committed: result.is_ok(), ..event };
        self.events.lock().push(event);
    }

    /// Runs some random transactions, in every way.
    pub fn work(&self, mut random: fastrand::Rng, each: usize) {
        let mut worker = random.bool().then(|| self.db.worker().expect("a slot"));
        for _ in 0..each {
            match (random.u32(0..12), &mut worker) {
                (8, _) => self.snapshot(&self.steps(&mut random)),
                (0, _) => self.each_key(&mut random, |procedure, args| self.db.call(procedure, args)),
                (1, _) => {
                    let steps = self.steps(&mut random);
                    self.whole_tables(steps, |procedure, args| self.db.call(procedure, args));
                }
                (2, Some(worker)) => {
                    self.each_key(&mut random, |procedure, args| worker.execute(procedure, args).wait());
                }
                (3, Some(worker)) => {
                    let steps = self.steps(&mut random);
                    self.whole_tables(steps, |procedure, args| worker.execute(procedure, args).wait());
                }
                (9.., _) => {
                    let steps = self.steps(&mut random);
                    self.session(&steps);
                }
                _ => {
                    let steps = self.steps(&mut random);
                    self.closure(&steps, random.bool());
                }
            }
        }
    }
}

/// `touch(write, value, write, value or -1 to delete, read, whether to fail)`: returns key, row before, row after.
fn touch(db: &Database, items: &Table) -> Procedure {
    let write = |key: usize, value: usize| {
        Action::write(items).key(move |args, builder| builder.push(args.int(key)?)).body(move |action| {
            let before = action.get()?.map(|row| row.int("value")).transpose()?;
            let (key, value) = (action.args().int(key)?, action.args().int(value)?);
            match (before, value) {
                (Some(_), -1) => drop(action.delete()?),
                (None, -1) => {}
                (Some(_), value) => action.update(&[("value", value.into())])?,
                (None, value) => action.insert(row![key, value])?,
            }
            let after = if value == -1 { Value::Null } else { Value::Int(value) };
            action.return_row(vec![Value::Int(key), Value::from(before), after]);
            Ok(())
        })
    };
    let read = Action::read(items).key(|args, key| key.push(args.int(4)?)).body(|action| {
        let value = action.get()?.map(|row| row.int("value")).transpose()?;
        action.return_row(vec![Value::Int(action.args().int(4)?), Value::from(value), Value::Bool(false)]);
        if action.args().bool(5)? { Err(fail("its own")) } else { Ok(()) }
    });
    let mut definition = ProcedureDefinition::new("touch");
    for number in 0..5 {
        definition = definition.parameter(format!("{number}"), DataType::Int64);
    }
    let definition = definition.parameter("fail", DataType::Bool);
    db.register_anonymous(definition.phase([write(0, 1), write(2, 3), read])).expect("a procedure")
}
