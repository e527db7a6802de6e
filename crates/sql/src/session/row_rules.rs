//! The rules of SQL's tables, for rows that the engine's closures, procedures and sessions write: each such write is
//! made as a statement of SQL, inside of the same attempt, so that all rules are evaluated as they are for statements.
//!
//! # Invariants
//! - Effects that an engine transaction cannot undo are refused: sequences, notifications, advisory locks, settings.
//! - Statements run with the rights of the bootstrap superuser: a program that has the database open may do everything.
//! - What was planned for one version of the catalog is forgotten with the next.
//!
//! Concurrency: any thread may write; each write has a [`Writer`] to itself, which is kept for the next one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use hashbrown::HashMap;
use heddledb::{Canceler, Dependency, Error, RowEvaluator, RowWrite, Tx, ValueRef};
use parking_lot::Mutex;

use crate::access::RunsIn;
use crate::bind::{NameConflict, Names, VariableRef};
use crate::catalog::rules::EVALUATOR;
use crate::catalog::uses::{self, Uses};
use crate::catalog::{ColumnOrigin, Table};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::{parse, quote_identifier};
use crate::routine::query::{Door, Execution, Frame, Query};
use crate::run::Access;
use crate::session::Shared;
use crate::session::connection::ConnectOptions;
use crate::session::environment::{SessionEnvironment, now};
use crate::session::run::PLANNED_AGAIN_MAX;
use crate::storage::decode;
use crate::types::record::RecordField;
use crate::types::{Type, Value};

/// The evaluator of the rules of SQL's tables, registered with the engine.
pub(crate) struct RowRules {
    shared: Arc<Shared>,
    /// The canceler of an engine session that is not used: statements need one.
    canceler: Canceler,
    /// Writers that no thread uses now.
    idle: Mutex<Vec<Writer>>,
    /// The number of consecutive writes that have met a table different from the catalog's.
    stale: AtomicU32,
}

impl RowRules {
    /// Registers SQL as the evaluator of its tables, for as long as the answer lives.
    ///
    /// # Errors
    /// The engine's.
    pub fn register(shared: &Arc<Shared>) -> Result<Arc<RowRules>> {
        let canceler = shared.database.session()?.canceler();
        let rules =
            RowRules { shared: shared.clone(), canceler, idle: Mutex::default(), stale: AtomicU32::new(0) };
        let rules = Arc::new(rules);
        shared.database.register_evaluator(EVALUATOR, &rules);
        Ok(rules)
    }

    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The engine's form of a statement's error.
    fn in_engine(&self, error: SqlError, table: &heddledb::Table, write: &RowWrite<'_>) -> Error {
        if error.is_of_stale_plan() {
            return self.stale(error);
        }
        if let Some(engine) = error.engine() {
            return engine.clone();
        }
        let (name, row) = (table.name().to_string(), row_text(&error, write));
        match (error.state(), error.constraint()) {
            (SqlState::CHECK_VIOLATION, Some(constraint)) => {
                Error::CheckViolation { table: name, constraint: constraint.to_string(), row }
            }
            (SqlState::UNIQUE_VIOLATION, Some(constraint)) => {
                let key = error.detail().and_then(|detail| between(detail, ")=(", ") already exists."));
                let key = key.map_or(row, str::to_string);
                Error::DuplicateKey { table: format!("{name} ({constraint})"), key }
            }
            (state, _) => {
                let known = SqlState::ALL.iter().map(|(_, known)| known).find(|known| **known == state);
                let detail = error.detail().map_or_else(String::new, |detail| format!(" ({detail})"));
                Error::RuleViolation {
                    table: name,
                    message: format!("the row ({row}): {}{detail}", error.message()),
                    state: known.map_or("P0001", SqlState::as_str),
                }
            }
        }
    }

    /// The error of a write that has met another table than the catalog's. A schema change has just
    /// committed: the transaction is retried.
    fn stale(&self, error: SqlError) -> Error {
        // Relaxed: it only counts.
        let stale = self.stale.fetch_add(1, Ordering::Relaxed);
        if stale == PLANNED_AGAIN_MAX / 10 {
            // No catalog comes: the engine's own interface has changed the table.
            self.shared.follow_engine();
        }
        match error.engine() {
            Some(engine) if stale >= PLANNED_AGAIN_MAX => engine.clone(),
            _ => Error::Conflict,
        }
    }
}

impl RowEvaluator for RowRules {
    fn write(&self, tx: &Tx<'_, '_>, table: &heddledb::Table, write: &RowWrite<'_>) -> heddledb::Result<()> {
        let idle = self.idle.lock().pop();
        let done = match idle {
            Some(writer) => Ok(writer),
            None => Writer::new(&self.shared, self.canceler.clone()),
        };
        let done = done.and_then(|mut writer| {
            let done = writer.write(tx, table, write);
            self.idle.lock().push(writer);
            done
        });
        match done {
            Ok(true) => {
                if self.stale.load(Ordering::Relaxed) != 0 {
                    self.stale.store(0, Ordering::Relaxed);
                }
                Ok(())
            }
            Ok(false) => Err(Error::NeedsEvaluator {
                table: table.name().to_string(),
                evaluator: format!("a statement of {EVALUATOR}"),
            }),
            Err(error) => Err(self.in_engine(error, table, write)),
        }
    }
}

/// The row that a write is about, as text.
fn row_text(error: &SqlError, write: &RowWrite<'_>) -> String {
    if let Some(row) = error.detail().and_then(|detail| between(detail, "Failing row contains (", ").")) {
        return row.to_string();
    }
    let values = match write {
        RowWrite::Insert { row } => row,
        RowWrite::Update { key, .. } | RowWrite::Delete { key } => key,
    };
    let show = |value: &ValueRef<'_>| match value {
        ValueRef::Null => "NULL".to_string(),
        value => value.to_string(),
    };
    values.iter().map(show).collect::<Vec<_>>().join(", ")
}

fn between<'t>(text: &'t str, before: &str, after: &str) -> Option<&'t str> {
    let from = text.find(before)? + before.len();
    text[from..].strip_suffix(after)
}

/// Writes rows, one after the other.
struct Writer {
    environment: SessionEnvironment,
    /// The tables that it has written, by their names in the engine, as this version of the catalog has them.
    tables: HashMap<String, RuledTable>,
    version: u64,
}

/// A table and the statements that write it.
struct RuledTable {
    table: Arc<Table>,
    /// The definitions that its statements depend on.
    uses: Arc<Uses>,
    /// The queries by the columns that they set; an insert and a delete by none.
    updates: HashMap<Vec<usize>, Query>,
    insert: Query,
    delete: Query,
}

impl Writer {
    fn new(shared: &Arc<Shared>, canceler: Canceler) -> Result<Writer> {
        let catalog = shared.catalog();
        let bootstrap = catalog.role_by_oid(crate::catalog::role::BOOTSTRAP);
        let user = bootstrap.map_or_else(|| ConnectOptions::default().user, |role| role.name.clone());
        let options = ConnectOptions { user, ..ConnectOptions::default() };
        let mut environment = SessionEnvironment::new(shared.clone(), options, 0, (0, canceler))?;
        environment.evaluates_rules = true;
        Ok(Writer { environment, tables: HashMap::new(), version: catalog.version })
    }

    /// Makes a write. Returns false if it cannot be made: the table is unknown to SQL, or has no primary key.
    fn write(&mut self, tx: &Tx<'_, '_>, table: &heddledb::Table, write: &RowWrite<'_>) -> Result<bool> {
        self.begin();
        if !self.find(table.name())? {
            return Ok(false);
        }
        let Some(ruled) = self.tables.get_mut(table.name()) else { return Ok(false) };
        let arguments = ruled.arguments(write)?;
        let query = match write {
            RowWrite::Insert { .. } => &ruled.insert,
            RowWrite::Delete { .. } => &ruled.delete,
            RowWrite::Update { .. } if arguments.columns.is_empty() => return Ok(true),
            RowWrite::Update { .. } => {
                if !ruled.updates.contains_key(&arguments.columns) {
                    let query = query(&ruled.update_text(&arguments.columns))?;
                    ruled.updates.insert(arguments.columns.clone(), query);
                }
                &ruled.updates[&arguments.columns]
            }
        };
        let door = Door::Attempt(Access::writes(tx, tx, RunsIn::Engine));
        let mut execution = Execution { environment: &mut self.environment, door, may_write: true };
        let noting = uses::enter(Some(ruled.uses.clone()));
        let done = query.run(&mut execution, &arguments, &mut |_| Ok(true));
        drop(noting);
        let uses: Arc<dyn Dependency> = ruled.uses.clone();
        tx.depend_on(&uses);
        done.map(|_| true)
    }

    /// Prepares for a statement.
    fn begin(&mut self) {
        let environment = &mut self.environment;
        if environment.catalog.version != environment.shared.catalog_version() {
            environment.catalog = environment.shared.catalog();
        }
        if self.version != environment.catalog.version {
            self.version = environment.catalog.version;
            self.tables.clear();
        }
        drop(environment.notices.take());
        environment.routines.uncounted.clear();
        environment.begin_attempts();
        environment.begin_attempt();
        environment.forget_large_values();
        environment.statement_start = now();
        environment.transaction_start = environment.statement_start;
        environment.transaction_number = None;
    }

    /// Adds a table to those that it can write; returns false if that fails.
    fn find(&mut self, name: &str) -> Result<bool> {
        if self.tables.contains_key(name) {
            return Ok(true);
        }
        let mut tables = self.environment.catalog.tables();
        let Some(table) = tables.find(|table| table.engine.name() == name && !table.key.is_empty()) else {
            return Ok(false);
        };
        let ruled = RuledTable::new(table.clone(), Uses::new(self.environment.shared.history.clone()))?;
        self.tables.insert(name.to_string(), ruled);
        Ok(true)
    }
}

impl RuledTable {
    fn new(table: Arc<Table>, uses: Uses) -> Result<RuledTable> {
        let (insert, delete) = (query(&insert_text(&table))?, query(&delete_text(&table))?);
        Ok(RuledTable { table, uses: Arc::new(uses), updates: HashMap::new(), insert, delete })
    }

    /// The parameters of the statement that makes a write.
    fn arguments(&self, write: &RowWrite<'_>) -> Result<Arguments> {
        let table = &*self.table;
        let mut arguments = Arguments::default();
        match write {
            RowWrite::Insert { row } => {
                for column in given(table) {
                    arguments.push(table, column, row[table.columns[column].engine])?;
                }
            }
            RowWrite::Delete { key } => arguments.push_key(table, key)?,
            RowWrite::Update { key, changes } => {
                for &(name, value) in *changes {
                    let engine = table.engine.definition().position(name)?;
                    // Computed columns have the values that their expressions give them.
                    let Some(column) = given(table).find(|&column| table.columns[column].engine == engine)
                    else {
                        continue;
                    };
                    arguments.columns.push(column);
                    arguments.push(table, column, value)?;
                }
                arguments.push_key(table, key)?;
            }
        }
        Ok(arguments)
    }

    fn update_text(&self, columns: &[usize]) -> String {
        let sets = columns.iter().enumerate();
        let sets = sets.map(|(at, &column)| format!("{} = ${}", name(&self.table, column), at + 1));
        let sets = sets.collect::<Vec<_>>().join(", ");
        format!("UPDATE {} SET {sets} WHERE {}", full_name(&self.table), is_key(&self.table, columns.len()))
    }
}

/// The columns that are not computed.
fn given(table: &Table) -> impl Iterator<Item = usize> + '_ {
    let is_given = |&column: &usize| !matches!(table.columns[column].origin, ColumnOrigin::Generated(_));
    (0..table.visible().len()).filter(is_given)
}

fn full_name(table: &Table) -> String {
    format!("{}.{}", quote_identifier(&table.schema), quote_identifier(&table.name))
}

fn name(table: &Table, column: usize) -> String {
    quote_identifier(&table.columns[column].name)
}

/// The condition that names a row by its primary key, whose first value is the parameter after this many.
fn is_key(table: &Table, before: usize) -> String {
    let equals = table.key.iter().enumerate();
    let equals = equals.map(|(at, &column)| format!("{} = ${}", name(table, column), before + at + 1));
    equals.collect::<Vec<_>>().join(" AND ")
}

fn insert_text(table: &Table) -> String {
    let columns: Vec<String> = given(table).map(|column| name(table, column)).collect();
    let values: Vec<String> = (1..=columns.len()).map(|number| format!("${number}")).collect();
    format!(
        "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE VALUES ({})",
        full_name(table),
        columns.join(", "),
        values.join(", ")
    )
}

fn delete_text(table: &Table) -> String {
    format!("DELETE FROM {} WHERE {}", full_name(table), is_key(table, 0))
}

fn query(text: &str) -> Result<Query> {
    let parsed = parse(text)?.pop().ok_or_else(|| SqlError::internal("a statement is empty"))?;
    Ok(Query::new(parsed.statement, text))
}

/// The parameters of a statement, by their numbers.
#[derive(Default)]
struct Arguments {
    values: Vec<Value>,
    types: Vec<Type>,
    /// The columns that an update sets.
    columns: Vec<usize>,
}

impl Arguments {
    fn push(&mut self, table: &Table, column: usize, value: ValueRef<'_>) -> Result<()> {
        let column = &table.columns[column];
        self.values.push(decode(column.ty, column.modifier, value)?);
        self.types.push(column.ty);
        Ok(())
    }

    fn push_key(&mut self, table: &Table, key: &[ValueRef<'_>]) -> Result<()> {
        table.key.iter().zip(key).try_for_each(|(&column, &value)| self.push(table, column, value))
    }
}

impl Names for Arguments {
    fn find(&self, parts: &[&str]) -> Result<Option<(VariableRef, Type)>> {
        let [name] = parts else { return Ok(None) };
        let number = name.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok());
        let slot = number.and_then(|number| number.checked_sub(1)).filter(|slot| *slot < self.types.len());
        Ok(slot.map(|slot| (VariableRef { slot, field: None }, self.types[slot])))
    }

    fn fields(&self, _parts: &[&str]) -> Result<Option<Vec<(String, VariableRef, Type)>>> {
        Ok(None)
    }

    fn conflict(&self) -> NameConflict {
        NameConflict::Column
    }
}

impl Frame for Arguments {
    fn values(&self) -> &[Value] {
        &self.values
    }

    fn shape(&self, _slot: usize) -> Option<Arc<[RecordField]>> {
        None
    }
}
