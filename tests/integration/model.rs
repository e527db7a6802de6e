//! Random transactions on one thread against a model of maps: every read, every error, every range and every index
//! must be as the model has it, through failures, savepoints and reopening.
//!
//! A failure prints its seed; `HEDDLE_MODEL_SEED=<seed>` runs that one again, `HEDDLE_MODEL_ROUNDS` more of them.

use std::collections::BTreeMap;

use heddledb::testing::SimulatedDisk;
use heddledb::{
    DataType, Database, Error, PrimaryIndex, Range, Result, Table, TableDefinition, Tx, Value, ValueRef,
    fail, key,
};
use tables::{open, rows_of};

use crate::support::tables;

/// Few keys and few values, so that transactions meet each other's rows often.
const GROUPS: i64 = 4;
const MEMBERS: i64 = 25;
const TAGS: i64 = 30;

#[derive(Clone, Debug, PartialEq)]
struct Row {
    tag: Option<i64>,
    note: Option<String>,
    count: i64,
    rank: Option<i64>,
}

type Key = (i64, i64);
type Model = BTreeMap<Key, Row>;

fn definition(kind: PrimaryIndex) -> TableDefinition {
    TableDefinition::new("member")
        .column("note", DataType::Text)
        .column("group", DataType::Int64)
        .column("number", DataType::Int32)
        .column("tag", DataType::Int64)
        .column("count", DataType::Int32)
        .not_null()
        .column("rank", DataType::Int64)
        .primary_key(["group", "number"])
        .primary_index(kind)
        .unique_index("by_tag", ["tag"])
        .index("by_rank", ["rank", "group"])
}

impl Row {
    fn random(random: &mut fastrand::Rng) -> Row {
        Row {
            tag: random_tag(random),
            note: random_note(random),
            count: random.i64(-5..100),
            rank: random.bool().then(|| random.i64(0..6)),
        }
    }

    fn values(&self, key: Key) -> Vec<Value> {
        vec![
            self.note.clone().into(),
            key.0.into(),
            key.1.into(),
            self.tag.into(),
            self.count.into(),
            self.rank.into(),
        ]
    }
}

fn random_tag(random: &mut fastrand::Rng) -> Option<i64> {
    (random.u8(0..3) > 0).then(|| random.i64(0..TAGS))
}

fn random_note(random: &mut fastrand::Rng) -> Option<String> {
    let length = [0, 3, 7, 8, 40][random.usize(0..5)];
    (random.u8(0..4) > 0).then(|| (0..length).map(|_| random.alphabetic()).collect())
}

fn random_key(random: &mut fastrand::Rng) -> Key {
    (random.i64(0..GROUPS), random.i64(0..MEMBERS))
}

/// A key that is probably there.
fn likely_key(model: &Model, random: &mut fastrand::Rng) -> Key {
    if random.u8(0..8) == 0 {
        return random_key(random);
    }
    let from = random_key(random);
    model.range(from..).chain(model.range(..from)).next().map_or(from, |(&key, _)| key)
}

fn tag_is_taken(model: &Model, tag: Option<i64>, by_other_than: Key) -> bool {
    tag.is_some() && model.iter().any(|(&key, row)| key != by_other_than && row.tag == tag)
}

/// The outcome of a statement by the model.
#[derive(Debug, PartialEq)]
enum Outcome {
    Done,
    Duplicate,
    Missing,
    Overflow,
}

fn outcome(result: Result<()>) -> Result<Outcome> {
    match result {
        Ok(()) => Ok(Outcome::Done),
        Err(Error::DuplicateKey { .. }) => Ok(Outcome::Duplicate),
        Err(Error::MissingKey { .. }) => Ok(Outcome::Missing),
        Err(Error::Overflow { .. }) => Ok(Outcome::Overflow),
        Err(error) => Err(error),
    }
}

/// One random statement, made in the transaction and in the model; both must say the same.
fn write(tx: &Tx<'_, '_>, table: &Table, model: &mut Model, random: &mut fastrand::Rng) -> Result<()> {
    let key = likely_key(model, random);
    let at = key![key.0, key.1];
    let (found, expected) = match random.u8(0..12) {
        0..=3 => {
            let (key, row) = (random_key(random), Row::random(random));
            let values = row.values(key);
            let expected = if model.contains_key(&key) || tag_is_taken(model, row.tag, key) {
                Outcome::Duplicate
            } else {
                model.insert(key, row);
                Outcome::Done
            };
            (tx.insert(table, values.iter().map(ValueRef::from).collect::<Vec<_>>()), expected)
        }
        4 | 5 => {
            let was_there = model.remove(&key).is_some();
            assert_eq!(tx.delete(table, at)?, was_there, "delete of {key:?}");
            return Ok(());
        }
        6 | 7 => {
            let (tag, note) = (random_tag(random), random_note(random));
            let expected = match model.get(&key) {
                None => Outcome::Missing,
                Some(_) if tag_is_taken(model, tag, key) => Outcome::Duplicate,
                Some(_) => Outcome::Done,
            };
            if let (Outcome::Done, Some(row)) = (&expected, model.get_mut(&key)) {
                (row.tag, row.note) = (tag, note.clone());
            }
            let changes = [("tag", ValueRef::from(tag)), ("note", note.as_deref().into())];
            (tx.update(table, at, &changes), expected)
        }
        8 | 9 => {
            let amount = random.i64(-10..10);
            let row = model.get_mut(&key);
            let expected = if row.is_some() { Outcome::Done } else { Outcome::Missing };
            if let Some(row) = row {
                row.count += amount;
            }
            (tx.add(table, at, "count", amount), expected)
        }
        10 => {
            let value = random.i64(0..100);
            let row = model.get_mut(&key);
            let expected = if row.is_some() { Outcome::Done } else { Outcome::Missing };
            if let Some(row) = row {
                row.count = row.count.max(value);
            }
            (tx.max(table, at, "count", value), expected)
        }
        _ => return write_indexed(tx, table, model, key, random),
    };
    assert_eq!(outcome(found)?, expected, "{key:?}");
    Ok(())
}

/// An operation on a column that an index holds.
fn write_indexed(
    tx: &Tx<'_, '_>,
    table: &Table,
    model: &mut Model,
    key: Key,
    random: &mut fastrand::Rng,
) -> Result<()> {
    let at = key![key.0, key.1];
    let amount = if random.u8(0..6) == 0 { i64::MAX } else { random.i64(-2..3) };
    let (column, current) = match random.u8(0..2) {
        0 => ("rank", model.get(&key).map(|row| row.rank)),
        _ => ("tag", model.get(&key).map(|row| row.tag)),
    };
    let sum = current.map(|current| current.map(|current| current.checked_add(amount)));
    let expected = match sum {
        None => Outcome::Missing,
        Some(Some(None)) => Outcome::Overflow,
        Some(sum) if column == "tag" && tag_is_taken(model, sum.flatten(), key) => Outcome::Duplicate,
        Some(_) => Outcome::Done,
    };
    if let (Outcome::Done, Some(row), Some(sum)) = (&expected, model.get_mut(&key), sum) {
        *(if column == "rank" { &mut row.rank } else { &mut row.tag }) = sum.flatten();
    }
    assert_eq!(outcome(tx.add(table, at, column, amount))?, expected, "{column} of {key:?} + {amount}");
    Ok(())
}

/// One random look, which must be as the model has it.
fn look(tx: &Tx<'_, '_>, table: &Table, model: &Model, random: &mut fastrand::Rng) -> Result<()> {
    let key = likely_key(model, random);
    let all = |keep: &dyn Fn(&Key, &Row) -> bool| -> Vec<Vec<Value>> {
        model.iter().filter(|(key, row)| keep(key, row)).map(|(key, row)| row.values(*key)).collect()
    };
    match random.u8(0..7) {
        0 | 1 => {
            let found = tx.get(table, key![key.0, key.1])?.map(|row| row.to_values());
            assert_eq!(found, model.get(&key).map(|row| row.values(key)), "get of {key:?}");
        }
        2 => assert_eq!(tx.exists(table, key![key.0, key.1])?, model.contains_key(&key), "exists of {key:?}"),
        3 => {
            let mut found = rows_of(tx.scan(table, Range::all()))?;
            found.sort_by_key(|row| (format!("{:?}", row[1]), number_of(&row[2])));
            assert_eq!(found, all(&|_, _| true), "all rows");
        }
        4 if table.definition().kind_of_primary_index() != PrimaryIndex::Hash => {
            let (from, to) = (random_key(random), random_key(random));
            let mut expected = all(&|key, _| (from..=to).contains(key));
            let mut range = Range::from(key![from.0, from.1]).to_inclusive(key![to.0, to.1]);
            if random.bool() {
                range = range.reverse();
                expected.reverse();
            }
            let limit = random.usize(0..40);
            expected.truncate(limit);
            assert_eq!(rows_of(tx.scan(table, range.limit(limit)))?, expected, "{from:?} to {to:?}");
        }
        5 => {
            let rank = random.bool().then(|| random.i64(0..6));
            let found = rows_of(tx.scan_index(table, "by_rank", Range::prefix(key![rank])))?;
            assert_eq!(found, all(&|_, row| row.rank == rank), "rank {rank:?}");
        }
        _ => {
            let (low, high) = (random.i64(0..TAGS), random.i64(0..TAGS));
            let range = Range::from(key![low]).to(key![high]).reverse();
            let found = rows_of(tx.scan_index(table, "by_tag", range))?;
            let mut expected = all(&|_, row| row.tag.is_some_and(|tag| (low..high).contains(&tag)));
            expected.sort_by_key(|row| std::cmp::Reverse(number_of(&row[3])));
            assert_eq!(found, expected, "tags {low} to {high}");
        }
    }
    Ok(())
}

fn number_of(value: &Value) -> i64 {
    if let Value::Int(number) = value { *number } else { i64::MIN }
}

/// One transaction; the model after it, if it is to commit.
fn transaction(tx: &Tx<'_, '_>, table: &Table, mut model: Model, seed: u64) -> Result<Option<Model>> {
    let random = &mut fastrand::Rng::with_seed(seed);
    let mut savepoints = Vec::new();
    for _ in 0..random.usize(0..30) {
        match random.u8(0..20) {
            0 => savepoints.push((tx.savepoint(), model.clone())),
            1 if !savepoints.is_empty() => {
                let back_to = random.usize(0..savepoints.len());
                savepoints.truncate(back_to + 1);
                let (savepoint, before) = &savepoints[back_to];
                tx.rollback_to(savepoint);
                model = before.clone();
            }
            2..=8 => look(tx, table, &model, random)?,
            _ => write(tx, table, &mut model, random)?,
        }
    }
    match random.u8(0..5) {
        0 => Ok(None),
        _ => Ok(Some(model)),
    }
}

fn check(db: &Database, table: &Table, model: &Model) {
    db.check().unwrap();
    let mut seed = fastrand::Rng::with_seed(model.len() as u64);
    db.run(|tx| (0..20).try_for_each(|_| look(tx, table, model, &mut seed))).unwrap();
    assert_eq!(tables::dump(db, table), model.iter().map(|(key, row)| row.values(*key)).collect::<Vec<_>>());
}

fn run(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let kind = [PrimaryIndex::Hash, PrimaryIndex::Ordered, PrimaryIndex::Both][random.usize(0..3)];
    let disk = SimulatedDisk::new();
    let mut db = open(&disk);
    let mut table = db.create_table(definition(kind)).unwrap();
    let mut model = Model::new();
    for _ in 0..60 {
        let seed = random.u64(..);
        let mut after = None;
        let result = db.run(|tx| {
            after = transaction(tx, &table, model.clone(), seed)?;
            if after.is_some() { Ok(()) } else { Err(fail("no trace")) }
        });
        match after {
            Some(after) => {
                result.unwrap();
                model = after;
            }
            None => assert_eq!(result, Err(fail("no trace"))),
        }
        if random.u8(0..20) == 0 {
            check(&db, &table, &model);
            db.close().unwrap();
            db = open(&disk);
            table = db.table("member").unwrap();
            check(&db, &table, &model);
        }
    }
    check(&db, &table, &model);
}

/// Says which seed it was when a round panics.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the model test failed: run it again with HEDDLE_MODEL_SEED={}", self.0);
        }
    }
}

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn random_transactions_do_what_the_model_does() {
    let rounds = number_from("HEDDLE_MODEL_ROUNDS").unwrap_or(15);
    let seeds = match number_from("HEDDLE_MODEL_SEED") {
        Some(seed) => vec![seed],
        None => (0..rounds).map(|_| fastrand::u64(..)).collect(),
    };
    for seed in seeds {
        let guard = Seed(seed);
        run(guard.0);
    }
}

#[test]
fn seeds_that_once_failed_pass() {
    (0..10).for_each(run);
}
