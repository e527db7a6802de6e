//! Random transactions of several threads: what they have seen must be possible one after another.
//!
//! Each history prints its seed if it fails; `HEDDLE_SEED=n` runs that one alone. Which transactions meet depends on
//! the machine, so a seed says what they do, not when.

#[path = "support/history.rs"]
mod history;
#[path = "support/concurrent.rs"]
mod support;

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::thread;

use heddledb::{
    Action, Args, DataType, Database, Error, Options, Procedure, ProcedureDefinition, ProtocolKind, Range,
    Result, SerialVariant, Table, TableDefinition, Tx, Value, args, fail, key, row,
};
use history::Event;
use support::{in_memory, on_disk, small, watched};

const KEYS: i64 = 8;
const COUNTERS: i64 = 6;
const THREADS: u64 = 4;
const EACH: usize = 22;

/// The tables of a history, and what its threads share.
struct World {
    db: Database,
    items: Table,
    counters: Table,
    touch: Procedure,
    clock: AtomicU64,
    values: AtomicI64,
    bits: [AtomicI64; COUNTERS as usize],
    events: Mutex<Vec<Event>>,
}

/// One step of a transaction.
#[derive(Clone, Copy, Debug)]
enum Step {
    Read(i64),
    Exists(i64),
    Write(i64),
    Remove(i64),
    Scan(i64, i64, bool),
    ScanIndex,
    Count(i64),
    Add(i64),
    Fail,
}

/// What a body has seen so far: the part of an event that it can know, and its own view of the rows.
#[derive(Default)]
struct Seen {
    event: Event,
}

impl Seen {
    /// Notes what was read; what the transaction itself has written it must see so.
    fn row(&mut self, key: i64, value: Option<i64>) {
        if let Some(own) = self.event.writes.get(&key) {
            assert_eq!(*own, value, "a transaction sees its own write of key {key}");
        } else if let Some(before) = self.event.reads.insert(key, value) {
            assert_eq!(before, value, "two reads of key {key} in one transaction differ");
        }
    }
}

impl World {
    fn new(db: Database) -> World {
        let table = |name: &str| TableDefinition::new(name).column("id", DataType::Int64);
        let items =
            table("item").column("value", DataType::Int64).primary_key(["id"]).index("by_value", ["value"]);
        let items = db.create_table(items).expect("a table");
        let counters = table("counter").column("n", DataType::Int64).primary_key(["id"]);
        let counters = db.create_table(counters).expect("a table");
        let touch = touch(&db, &items);
        let world = World {
            touch,
            items,
            counters,
            db,
            clock: AtomicU64::new(2),
            values: AtomicI64::new(1_000),
            bits: Default::default(),
            events: Mutex::default(),
        };
        let start = Event {
            end: 1,
            committed: true,
            writes: (0..KEYS / 2).map(|key| (key, Some(key))).collect(),
            ..Event::default()
        };
        world
            .db
            .run(|tx| {
                (0..KEYS / 2).try_for_each(|key| tx.insert(&world.items, row![key, key]))?;
                (0..COUNTERS).try_for_each(|key| tx.insert(&world.counters, row![key, 0]))
            })
            .expect("rows");
        world.events.lock().expect("lock").push(start);
        world
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn value(&self) -> i64 {
        self.values.fetch_add(1, Ordering::SeqCst)
    }

    fn steps(random: &mut fastrand::Rng) -> Vec<Step> {
        let key = |random: &mut fastrand::Rng| random.i64(0..KEYS);
        (0..random.usize(1..6))
            .map(|_| match random.u32(0..20) {
                0..4 => Step::Read(key(random)),
                4 => Step::Exists(key(random)),
                5..10 => Step::Write(key(random)),
                10..12 => Step::Remove(key(random)),
                12..14 => {
                    let from = key(random);
                    Step::Scan(from, random.i64(from..=KEYS), random.bool())
                }
                14 => Step::ScanIndex,
                15..17 => Step::Count(random.i64(0..COUNTERS)),
                17..19 => Step::Add(random.i64(0..COUNTERS)),
                _ => Step::Fail,
            })
            .collect()
    }

    /// One step; `bits` are what the transaction adds to which counter, taken out of the counter's stock once.
    fn step(
        &self,
        tx: &Tx<'_, '_>,
        step: Step,
        seen: &mut Seen,
        bits: &mut HashMap<i64, Option<i64>>,
    ) -> Result<()> {
        match step {
            Step::Read(key) => {
                let row = tx.get(&self.items, key![key])?;
                seen.row(key, row.map(|row| row.int("value")).transpose()?);
            }
            Step::Exists(key) => {
                let there = tx.exists(&self.items, key![key])?;
                let row = tx.get(&self.items, key![key])?;
                assert_eq!(there, row.is_some());
                seen.row(key, row.map(|row| row.int("value")).transpose()?);
            }
            Step::Write(key) => {
                self.step(tx, Step::Read(key), seen, bits)?;
                let value = self.value();
                if tx.exists(&self.items, key![key])? {
                    tx.update(&self.items, key![key], &[("value", value.into())])?;
                } else {
                    tx.insert(&self.items, row![key, value])?;
                }
                seen.event.writes.insert(key, Some(value));
            }
            Step::Remove(key) => {
                self.step(tx, Step::Read(key), seen, bits)?;
                tx.delete(&self.items, key![key])?;
                seen.event.writes.insert(key, None);
            }
            Step::Scan(from, to, backward) => {
                let range = Range::from(key![from]).to(key![to]);
                self.scan(
                    tx.scan(&self.items, if backward { range.reverse() } else { range })?,
                    from..to,
                    seen,
                )?;
            }
            Step::ScanIndex => {
                self.scan(tx.scan_index(&self.items, "by_value", Range::all())?, 0..KEYS, seen)?;
            }
            Step::Count(key) => {
                if let (Some(row), false) =
                    (tx.get(&self.counters, key![key])?, seen.event.added.contains_key(&key))
                {
                    seen.event.counted.insert(key, row.int("n")?);
                }
            }
            Step::Add(key) => {
                let stock =
                    || Some(self.bits[key as usize].fetch_add(1, Ordering::SeqCst)).filter(|&bit| bit < 62);
                if let (Some(bit), false) =
                    (*bits.entry(key).or_insert_with(stock), seen.event.added.contains_key(&key))
                {
                    tx.add(&self.counters, key![key], "n", 1_i64 << bit)?;
                    seen.event.added.insert(key, 1 << bit);
                }
            }
            Step::Fail => return Err(fail("its own")),
        }
        Ok(())
    }

    fn scan<'a>(
        &self,
        scan: impl Iterator<Item = Result<heddledb::Row<'a>>>,
        keys: std::ops::Range<i64>,
        seen: &mut Seen,
    ) -> Result<()> {
        let mut found = HashMap::new();
        for row in scan {
            let row = row?;
            let twice = found.insert(row.int("id")?, row.int("value")?);
            assert_eq!(twice, None, "a scan gives no row twice");
        }
        for key in keys {
            seen.row(key, found.remove(&key));
        }
        assert!(found.is_empty(), "a scan gives no row outside of its range: {found:?}");
        Ok(())
    }

    fn closure(&self, random: &mut fastrand::Rng) {
        let (steps, yielding) = (Self::steps(random), random.bool());
        let (mut last, mut bits) = (Event::default(), HashMap::new());
        let begin = self.tick();
        let result = self.db.run(|tx| {
            let mut seen = Seen::default();
            let ran = steps.iter().try_for_each(|&step| {
                if yielding {
                    thread::yield_now();
                }
                self.step(tx, step, &mut seen, &mut bits)
            });
            last = seen.event;
            ran
        });
        self.note(last, begin, result);
    }

    /// The same through a procedure: it writes two rows, each found by its declared key, and reads a third.
    fn procedure(
        &self,
        random: &mut fastrand::Rng,
        run: impl FnOnce(&Procedure, Args) -> Result<heddledb::Output>,
    ) {
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
            Err(error) => panic!("{error}"),
        }
        let event = Event { begin, end: self.tick(), committed: result.is_ok(), ..event };
        self.events.lock().expect("lock").push(event);
    }

    fn work(&self, seed: u64) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut worker = seed.is_multiple_of(2).then(|| self.db.worker().expect("a seat"));
        for _ in 0..EACH {
            match (random.u32(0..6), &mut worker) {
                (0, _) => self.procedure(&mut random, |procedure, args| self.db.call(procedure, args)),
                (1, Some(worker)) => {
                    self.procedure(&mut random, |procedure, args| worker.execute(procedure, args).wait())
                }
                _ => self.closure(&mut random),
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
    db.register(definition.phase([write(0, 1), write(2, 3), read])).expect("a procedure")
}

fn history(seed: u64, db: Database) {
    let world = World::new(db);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let world = &world;
            scope.spawn(move || world.work(seed * THREADS + thread));
        }
    });
    // A last look at everything, so that what was written last was seen.
    let mut seen = Seen::default();
    let begin = world.tick();
    let all = world.db.run(|tx| {
        seen = Seen::default();
        world.step(tx, Step::Scan(0, KEYS, false), &mut seen, &mut HashMap::new())?;
        world.step(tx, Step::ScanIndex, &mut seen, &mut HashMap::new())?;
        (0..COUNTERS).try_for_each(|key| world.step(tx, Step::Count(key), &mut seen, &mut HashMap::new()))
    });
    world.note(seen.event, begin, all);
    world.db.check().expect("consistent");
    let events = world.events.lock().expect("lock");
    if let Err(found) = history::check(&events) {
        panic!("HEDDLE_SEED={seed}: {found}");
    }
}

fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("HEDDLE_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => vec![seed],
        None => (0..count).collect(),
    }
}

#[test]
fn random_histories_in_memory_are_serializable() {
    watched(|| {
        for seed in seeds(40) {
            let sites = [1, 2, 4][seed as usize % 3];
            let variant = SerialVariant::ALL[seed as usize % SerialVariant::ALL.len()];
            history(
                seed,
                in_memory(
                    Options::default()
                        .sites(sites)
                        .protocol(ProtocolKind::Serial)
                        .serial_variant(variant)
                        .workers(2),
                ),
            );
        }
    });
}

#[test]
fn random_histories_with_group_commit_are_serializable() {
    watched(|| {
        for seed in seeds(20) {
            let sites = [1, 2, 4][seed as usize % 3];
            let (db, _disk) = on_disk(small().sites(sites).workers(2).waiting_places(2));
            history(seed, db);
        }
    });
}

/// Keys come and go, with blocks of long values, while others read them: nothing is freed under a reader.
#[test]
fn long_values_come_and_go_under_readers() {
    watched(|| {
        let db = in_memory(Options::default().sites(2));
        let table = db
            .create_table(
                TableDefinition::new("text")
                    .column("id", DataType::Int64)
                    .column("body", DataType::Text)
                    .primary_key(["id"])
                    .index("by_body", ["body"]),
            )
            .expect("a table");
        let body = |number: u64| {
            char::from(b'a' + (number % 26) as u8).to_string().repeat(100 + number as usize % 50)
        };
        thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (db, table) = (&db, &table);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(thread);
                    for _ in 0..400 {
                        let (id, text) = (random.i64(0..40), body(random.u64(..)));
                        db.run(|tx| match random.u32(0..4) {
                            0 => tx.delete(table, key![id]).map(drop),
                            1 => match tx.insert(table, row![id, text.as_str()]) {
                                Err(Error::DuplicateKey { .. }) => Ok(()),
                                other => other,
                            },
                            2 if tx.exists(table, key![id])? => {
                                tx.update(table, key![id], &[("body", text.as_str().into())])
                            }
                            _ => {
                                for row in tx.scan(table, Range::from(key![id]))? {
                                    let text = row?.text("body")?;
                                    let same = text.as_bytes().windows(2).all(|pair| pair[0] == pair[1]);
                                    assert!(same && text.len() >= 100, "half a value: {text}");
                                }
                                Ok(())
                            }
                        })
                        .expect("a transaction");
                    }
                });
            }
        });
        db.check().expect("consistent");
    });
}
