//! INCR1 with another operation than add, or with all of them in turn.
//!
//! Each transaction adds 1 to its row's counter and applies one operation to a column that belongs to it. The columns of
//! max, min, ordered put and top-K start as NULL, which is below everything. Operands come from a small range, so that
//! equal ones occur: of equal orders the greater payload stays.
//!
//! Invariants:
//! - The sum of the counters is the number of committed transactions.
//! - Every column is what one thread computes from the operands of all transactions on its row. The operands of earlier
//!   processes are not known; what they left is read when a run begins.
//!
//! Concurrency: callers share the expected content behind a mutex, which each locks once for a group of transactions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use heddledb::{
    Action, ActionContext, DataType, Database, PrimaryIndex, Procedure, ProcedureDefinition, Row, Table,
    TableDefinition, TupleType, Value, row,
};
use serde_json::json;

use super::keys::Choice;
use super::{Increment, Pattern, VALUE};
use crate::calls::{Call, Calls};
use crate::workload::{Bound, Generator, Workload, random_of};
use crate::{Error, Result, scan};

const TABLE: &str = "incr1_operations";

/// Entries of a top-K set.
const BEST: u32 = 8;

/// Operands are below this: so few that equal ones occur.
const OPERANDS: i64 = 1_000;

/// Rows per loading transaction.
const BATCH: i64 = 1_000;

/// A commutative operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Adds 1.
    Add,
    /// Raises a column.
    Max,
    /// Lowers a column.
    Min,
    /// Multiplies a column by -1.
    Multiply,
    /// Replaces a tuple by a greater one.
    OrderedPut,
    /// Inserts into the greatest entries.
    TopK,
}

impl Operation {
    /// All of them, in the order in which they take turns.
    pub const ALL: [Operation; 6] = [
        Operation::Add,
        Operation::Max,
        Operation::Min,
        Operation::Multiply,
        Operation::OrderedPut,
        Operation::TopK,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Add => "add",
            Operation::Max => "max",
            Operation::Min => "min",
            Operation::Multiply => "multiply",
            Operation::OrderedPut => "ordered-put",
            Operation::TopK => "top-k",
        }
    }
}

/// INCR1 with its operation.
#[derive(Clone)]
pub struct Operations {
    /// Keys and their choice. If operations take turns, `rotate_seconds` of the pattern is the time of each,
    /// and the hot key stays.
    pub increment: Increment,
    /// The operation; `None`: all of them in turn.
    pub operation: Option<Operation>,
    /// The expected content of the table, by key; empty until a run begins.
    expected: Arc<Mutex<BTreeMap<i64, Content>>>,
}

/// The columns of a row.
#[derive(Clone, Debug, PartialEq)]
struct Content {
    count: i64,
    highest: Option<i64>,
    lowest: Option<i64>,
    sign: i64,
    newest: Option<(i64, i64)>,
    /// Payloads by order.
    best: BTreeMap<i64, i64>,
}

impl Default for Content {
    fn default() -> Self {
        Self { count: 0, highest: None, lowest: None, sign: 1, newest: None, best: BTreeMap::new() }
    }
}

impl Content {
    /// Applies an operation to the expected content.
    fn apply(&mut self, operation: Operation, order: i64, payload: i64) {
        self.count += 1;
        match operation {
            Operation::Add => {}
            Operation::Max => self.highest = self.highest.max(Some(order)),
            Operation::Min => self.lowest = Some(self.lowest.map_or(order, |least| least.min(order))),
            Operation::Multiply => self.sign = -self.sign,
            Operation::OrderedPut => self.newest = self.newest.max(Some((order, payload))),
            Operation::TopK => {
                let kept = self.best.entry(order).or_insert(payload);
                *kept = payload.max(*kept);
                while self.best.len() > BEST as usize {
                    self.best.pop_first();
                }
            }
        }
    }

    fn read(row: &Row<'_>) -> heddledb::Result<Content> {
        let optional = |name| if row.is_null(name)? { Ok(None) } else { row.int(name).map(Some) };
        let newest = match row.get("newest")?.to_value() {
            Value::Tuple(tuple) => pair(&tuple.row(&entry_type()?)?),
            _ => None,
        };
        let best = match row.get("best")?.to_value() {
            Value::TopK(set) => set.rows(&entry_type()?)?.iter().filter_map(|row| pair(row)).collect(),
            _ => BTreeMap::new(),
        };
        Ok(Content {
            count: row.int(VALUE)?,
            highest: optional("highest")?,
            lowest: optional("lowest")?,
            sign: row.int("sign")?,
            newest,
            best,
        })
    }
}

/// Order and payload of an entry.
fn pair(row: &[Value]) -> Option<(i64, i64)> {
    match row {
        [Value::Int(order), Value::Int(payload)] => Some((*order, *payload)),
        _ => None,
    }
}

fn entry_type() -> heddledb::Result<TupleType> {
    TupleType::new(vec![DataType::Int64], vec![DataType::Int64])
}

impl Operations {
    /// INCR1 with one operation, or with all of them in turn.
    pub fn new(increment: Increment, operation: Option<Operation>) -> Self {
        Self { increment, operation, expected: Arc::default() }
    }

    fn expected(&self) -> MutexGuard<'_, BTreeMap<i64, Content>> {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_settings(&self) -> Result<()> {
        self.increment.check_settings()?;
        match (self.operation, self.increment.pattern) {
            (None, Pattern::OneHot { rotate_seconds: 0.0, .. }) => Err(Error::Unusable(
                "--rotate-operation needs to know how long each operation lasts: give --rotate-seconds"
                    .to_owned(),
            )),
            _ => Ok(()),
        }
    }

    /// Seconds until the next operation takes its turn.
    fn turn(&self) -> f64 {
        match self.increment.pattern {
            Pattern::OneHot { rotate_seconds, .. } if self.operation.is_none() => rotate_seconds,
            _ => f64::INFINITY,
        }
    }

    /// The choice of keys: the hot one stays if the operation changes.
    fn choice(&self) -> Choice {
        let mut increment = self.increment;
        if let (None, Pattern::OneHot { percent, .. }) = (self.operation, increment.pattern) {
            increment.pattern = Pattern::OneHot { percent, rotate_seconds: 0.0 };
        }
        Choice::new(&increment)
    }
}

impl Workload for Operations {
    fn name(&self) -> &'static str {
        "incr1"
    }

    fn tables(&self) -> &'static [&'static str] {
        &[TABLE]
    }

    fn transactions(&self) -> &'static [&'static str] {
        &["increment"]
    }

    fn transaction_of(&self, _procedure: usize) -> usize {
        0
    }

    fn parameters(&self) -> Vec<(&'static str, serde_json::Value)> {
        let mut parameters = self.increment.parameters();
        parameters.push(("operation", json!(self.operation.map_or("all in turn", Operation::name))));
        parameters
    }

    fn load(&self, db: &Database) -> Result<()> {
        self.check_settings()?;
        let table = match scan::table_if_there(db, TABLE)? {
            Some(table) => table,
            None => db.create_table(definition()?)?,
        };
        let null = heddledb::ValueRef::Null;
        scan::load_in_order(db, &table, i64::from(self.increment.keys), "keys", BATCH, |tx, key| {
            tx.insert(&table, row![key, 0, null, null, 1, null, null])
        })
    }

    fn bind(&self, db: &Database, callers: usize) -> Result<Box<dyn Bound>> {
        self.check_settings()?;
        let table = db.table(TABLE)?;
        *self.expected() = contents(db, &table)?;
        let procedures = (0..callers.max(1)).map(|_| register_all(db, &table, self));
        Ok(Box::new(Operated { settings: self.clone(), procedures: procedures.collect::<Result<_, _>>()? }))
    }

    fn marks(&self, db: &Database) -> Result<u64> {
        let Some(table) = scan::table_if_there(db, TABLE)? else { return Ok(0) };
        Ok(contents(db, &table)?.values().map(|content| content.count.unsigned_abs()).sum())
    }

    fn check(&self, db: &Database, marks: Option<u64>) -> Result<(), String> {
        let table = scan::table_if_there(db, TABLE).map_err(|error| error.to_string())?;
        let found = table.map_or_else(|| Ok(BTreeMap::new()), |table| contents(db, &table));
        let found = found.map_err(|error| format!("{TABLE} can't be read: {error}"))?;
        for (key, content) in &found {
            check_row(*key, content)?;
        }
        for (key, expected) in self.expected().iter() {
            if found.get(key) != Some(expected) {
                return Err(format!("key {key} holds {:?} instead of {expected:?}", found.get(key)));
            }
        }
        let sum: u64 = found.values().map(|content| content.count.unsigned_abs()).sum();
        match marks {
            Some(committed) if committed != sum => {
                Err(format!("the counters add up to {sum}, but {committed} transactions were committed"))
            }
            _ => Ok(()),
        }
    }

    fn check_acknowledged(&self, db: &Database, keys: &[String]) -> Result<(), String> {
        self.increment.check_acknowledged(db, keys)
    }
}

/// Checks the conditions that a row satisfies with any operands.
fn check_row(key: i64, content: &Content) -> Result<(), String> {
    let untouched = Content { count: content.count, ..Content::default() };
    match content {
        Content { count, .. } if *count < 0 => Err(format!("key {key}: its counter has fallen to {count}")),
        Content { sign, .. } if sign.abs() != 1 => Err(format!("key {key}: its sign is {sign}")),
        Content { count: 0, .. } if *content != untouched => {
            Err(format!("key {key} has changed, but its counter is 0: {content:?}"))
        }
        _ => Ok(()),
    }
}

fn contents(db: &Database, table: &Table) -> heddledb::Result<BTreeMap<i64, Content>> {
    scan::fold(db, table, BTreeMap::new, |contents, row| {
        contents.insert(row.int("id")?, Content::read(row)?);
        Ok(())
    })
}

fn definition() -> heddledb::Result<TableDefinition> {
    Ok(TableDefinition::new(TABLE)
        .column("id", DataType::Int64)
        .column(VALUE, DataType::Int64)
        .not_null()
        .column("highest", DataType::Int64)
        .column("lowest", DataType::Int64)
        .column("sign", DataType::Int64)
        .not_null()
        .column("newest", DataType::OrderedTuple(entry_type()?))
        .column("best", DataType::TopK { limit: BEST, of: entry_type()? })
        .primary_key(["id"])
        .primary_index(PrimaryIndex::Hash))
}

/// One procedure for each operation.
fn register_all(db: &Database, table: &Table, settings: &Operations) -> heddledb::Result<Vec<Procedure>> {
    Operation::ALL.iter().map(|operation| register(db, table, *operation, settings)).collect()
}

fn register(
    db: &Database,
    table: &Table,
    operation: Operation,
    settings: &Operations,
) -> heddledb::Result<Procedure> {
    let column = |name| table.column(name);
    let (count, highest, lowest) = (column(VALUE)?, column("highest")?, column("lowest")?);
    let (sign, newest, best) = (column("sign")?, column("newest")?, column("best")?);
    let pause = settings.increment.pause;
    let body = move |action: &ActionContext| {
        let (order, payload) = (action.args().int(1)?, action.args().int(2)?);
        action.add(count, 1)?;
        match operation {
            Operation::Add => {}
            Operation::Max => action.max(highest, order)?,
            Operation::Min => action.min(lowest, order)?,
            Operation::Multiply => action.multiply(sign, -1)?,
            Operation::OrderedPut => action.ordered_put(newest, &[order.into()], &[payload.into()])?,
            Operation::TopK => action.top_k_insert(best, &[order.into()], &[payload.into()])?,
        }
        pause.take();
        Ok(())
    };
    let action = Action::commute(table).key(|args, key| key.push(args.int(0)?)).body(body);
    let mut definition = ProcedureDefinition::new(operation.name());
    for name in ["id", "order", "payload"] {
        definition = definition.parameter(name, DataType::Int64);
    }
    db.register_anonymous(definition.phase([action]))
}

/// The table of an open database.
struct Operated {
    settings: Operations,
    /// One of each operation for each caller, whose handles are counted apart.
    procedures: Vec<Vec<Procedure>>,
}

impl Bound for Operated {
    fn generator(&self, seed: u64, caller: usize) -> Result<Box<dyn Generator>> {
        Ok(Box::new(Operator {
            procedures: self.procedures[caller % self.procedures.len()].clone(),
            choice: self.settings.choice(),
            settings: self.settings.clone(),
            random: random_of(seed, caller),
        }))
    }

    fn acknowledgement(&self, _call: Call<'_>) -> Option<String> {
        None
    }
}

/// The transactions of one caller.
struct Operator {
    procedures: Vec<Procedure>,
    choice: Choice,
    settings: Operations,
    random: fastrand::Rng,
}

impl Generator for Operator {
    fn procedures(&self) -> &[Procedure] {
        &self.procedures
    }

    fn fill(&mut self, calls: &mut Calls, at_most: usize) -> Result<bool> {
        let wanted = at_most.saturating_sub(calls.len());
        let turns = (calls.elapsed().as_secs_f64() / self.settings.turn()) as usize;
        let operation = self.settings.operation.unwrap_or(Operation::ALL[turns % Operation::ALL.len()]);
        let mut keys = Vec::with_capacity(wanted);
        self.choice.choose_each(calls.elapsed(), &mut self.random, wanted, |key| keys.push(key));
        let mut expected = self.settings.expected();
        for key in keys {
            let (order, payload) = (self.random.i64(0..OPERANDS), self.random.i64(0..OPERANDS));
            expected.entry(key).or_default().apply(operation, order, payload);
            calls.add_integers(operation as usize, 1, &[key, order, payload]);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
