//! Tests of planner and executor: statements on tables of an engine in memory, with results as text.

mod joins;
mod queries;
mod spilling;
mod wide_rows;
mod writes;

use std::sync::Arc;

use heddledb::{Database, Options, TableDefinition};

use crate::bind::{BindContext, bind};
use crate::catalog::{
    Catalog, Column, ColumnOrigin, ForeignKey, Index, IndexColumn, KeyAction, Persistence, Table,
};
use crate::error::{Result, SqlError};
use crate::parse::parse;
use crate::plan::statement::{Action, BoundRowRules};
use crate::plan::statistics::{StatisticsCache, TableStatistics};
use crate::plan::{Known, Planned, plan};
use crate::run::memory::{MEMORY_BYTES_DEFAULT, Memory};
use crate::run::parameters::Parameters;
use crate::run::{Run, operator};
use crate::storage::engine_type;
use crate::types::text::to_text;
use crate::types::{Environment, Modifier, PlainEnvironment, Type, Value};

/// A database with tables.
pub(super) struct Fixture {
    database: Database,
    catalog: Catalog,
    statistics: StatisticsCache,
}

impl Known for Fixture {
    fn table(&self, oid: u32) -> Option<Arc<Table>> {
        self.catalog.table_by_oid(oid).cloned()
    }

    fn referencing(&self, oid: u32) -> Vec<Arc<Table>> {
        let refers = |table: &&Arc<Table>| table.foreign_keys.iter().any(|key| key.table == oid);
        self.catalog.tables().filter(refers).cloned().collect()
    }

    fn row_rules(&self, _: &Arc<Table>) -> Result<BoundRowRules> {
        Ok(BoundRowRules::none())
    }

    fn statistics(&self, table: &Table) -> Arc<TableStatistics> {
        self.statistics.get(&self.database, table)
    }
}

/// A column of a table that is made by hand.
fn plain_column(name: &str, ty: Type, not_null: bool, engine: usize) -> Column {
    Column {
        name: name.to_string(),
        ty,
        modifier: Modifier::NONE,
        not_null,
        origin: ColumnOrigin::Nothing,
        domain: None,
        engine,
        comment: None,
        acl: None,
        collation: None,
        settings: Default::default(),
    }
}

impl Fixture {
    pub(super) fn new() -> Fixture {
        let options = Options::default().durability(heddledb::Durability::None);
        let database = Database::in_memory_with(options).unwrap();
        Fixture { database, catalog: Catalog::default(), statistics: StatisticsCache::default() }
    }

    /// A table of `name type[!]` columns (`!`: NOT NULL), with a primary key and indexes (`+`: unique) of column names.
    pub(super) fn table(mut self, name: &str, columns: &str, key: &str, indexes: &[&str]) -> Fixture {
        let hidden = usize::from(key.is_empty());
        let mut definition = TableDefinition::new(name);
        if hidden == 1 {
            definition = definition.column("#", heddledb::DataType::Int64);
        }
        let mut all = Vec::new();
        for (at, text) in columns.split(',').enumerate() {
            let (column, ty) = text.trim().split_once(' ').unwrap();
            let not_null = ty.ends_with('!');
            let ty = Type::from_name(ty.trim_end_matches('!')).unwrap();
            definition = definition.column(column, engine_type(ty, Modifier::NONE));
            all.push(plain_column(column, ty, not_null, at + hidden));
        }
        let position = |name: &str| all.iter().position(|column| column.name == name.trim()).unwrap();
        let key: Vec<usize> = key.split(',').filter(|name| !name.is_empty()).map(position).collect();
        let names: Vec<String> = match key.is_empty() {
            true => vec!["#".to_string()],
            false => key.iter().map(|&column| all[column].name.clone()).collect(),
        };
        definition = definition.primary_key(names.iter().map(String::as_str));
        let mut found = Vec::new();
        for (number, index) in indexes.iter().enumerate() {
            let unique = index.starts_with('+');
            let positions: Vec<usize> = index.trim_start_matches('+').split(',').map(position).collect();
            let index_name = format!("{name}_{number}");
            let columns: Vec<&str> = positions.iter().map(|&column| all[column].name.as_str()).collect();
            definition = match unique {
                true => definition.unique_index(&index_name, columns),
                false => definition.index(&index_name, columns),
            };
            let columns = positions.iter().map(|&column| IndexColumn::ascending(column));
            found.push(Index {
                oid: self.catalog.new_oid(),
                name: index_name,
                columns: columns.collect(),
                unique,
                constraint: false,
                included: Vec::new(),
                deferral: None,
                nulls_equal: false,
                primary: false,
                method: Default::default(),
            });
        }
        let engine = self.database.create_table(definition).unwrap();
        let table = Table {
            oid: self.catalog.new_oid(),
            schema: "public".to_string(),
            name: name.to_string(),
            columns: all,
            key_name: (!key.is_empty()).then(|| format!("{name}_pkey")),
            key_oid: None,
            key,
            indexes: found,
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            persistence: Persistence::Permanent,
            comment: None,
            key_comments: Vec::new(),
            rights: Default::default(),
            stored_query: None,
            nominal_indexes: Vec::new(),
            options: Vec::new(),
            engine,
        };
        self.catalog.put_table(Arc::new(table));
        self
    }

    /// A foreign key of the first table's columns to the second table's primary key.
    pub(super) fn foreign_key(
        mut self,
        child: &str,
        columns: &[usize],
        parent: &str,
        action: KeyAction,
    ) -> Fixture {
        let find = |name: &str| self.catalog.tables().find(|table| table.name == name).cloned().unwrap();
        let (mut table, parent) = ((*find(child)).clone(), find(parent));
        table.foreign_keys.push(ForeignKey {
            name: format!("{child}_fkey"),
            columns: columns.to_vec(),
            table: parent.oid,
            references: parent.key.clone(),
            is_full: false,
            on_delete: action,
            on_update: action,
            deferrable: false,
            deferred: false,
            comment: None,
        });
        self.catalog.put_table(Arc::new(table));
        self
    }

    pub(super) fn planned(&self, text: &str) -> Result<Planned> {
        plan(&self.bound(text)?, self)
    }

    fn bound(&self, text: &str) -> Result<crate::bind::tree::BoundStatement> {
        let mut environment = PlainEnvironment::new(0);
        let path = ["public".to_string()];
        let context = BindContext { catalog: &self.catalog, path: &path, text };
        let parsed = parse(text)?;
        bind(context, &mut environment, &parsed[0].statement, &[], crate::bind::Checks::Privileges)
    }

    /// Runs a statement in a transaction: the rows that it returns, as text, or how many it has written.
    pub(super) fn try_run(&self, text: &str) -> Result<Vec<String>> {
        self.run_with(text, &[], crate::run::memory::MEMORY_BYTES_DEFAULT)
    }

    /// How much of the memory a query uses after at most this many batches, and how much of it its operators hold when they
    /// are dropped then.
    pub(super) fn used_of_memory(&self, text: &str, batches: usize) -> (usize, usize) {
        let planned = plan(&self.bound(text).unwrap(), self).unwrap();
        let Action::Query(query) = &planned.action else { panic!("{text} is no query") };
        let (snapshot, mut environment) = (self.database.snapshot().unwrap(), PlainEnvironment::new(0));
        let memory = Memory::new(MEMORY_BYTES_DEFAULT);
        let parameters = Parameters::Values(&[]);
        let mut run = Run::new(&snapshot, None, &mut environment, parameters, planned.sizes, memory);
        planned.ctes.iter().for_each(|(number, plan)| run.define_cte(*number, plan));
        let mut rows = operator::operator(query, &mut run).unwrap();
        for _ in 0..batches {
            if rows.next(&mut run).unwrap().is_none() {
                break;
            }
        }
        let used = run.memory.used();
        drop(rows);
        // What the statement keeps until its end: results of subqueries, common table expressions, shared right sides.
        run.numbered = None;
        run.builds.clear();
        (used, run.memory.used())
    }

    pub(super) fn run_with(&self, text: &str, parameters: &[Value], memory: usize) -> Result<Vec<String>> {
        let bound = self.bound(text)?;
        let (planned, columns) = (plan(&bound, self)?, &bound.columns);
        let on_snapshot = !planned.writes && text.len().is_multiple_of(2);
        let mut run = |access: crate::run::Access<'_>| {
            let mut environment = PlainEnvironment::new(0);
            let mut rows = Vec::new();
            let mut sink = |batch: crate::run::batch::Batch| {
                for row in batch.rows() {
                    let plain = PlainEnvironment::new(0);
                    let value = |(value, column): (&Value, &crate::bind::tree::BoundColumn)| match value {
                        Value::Null => "NULL".to_string(),
                        value => to_text(&plain as &dyn Environment, column.ty, value).unwrap(),
                    };
                    rows.push(row.iter().zip(columns).map(value).collect::<Vec<_>>().join(" "));
                }
                Ok(())
            };
            let options =
                crate::run::RunOptions { memory: crate::run::memory::Memory::new(memory), counts: false };
            let (count, _) =
                crate::run::execute_with(&planned, access, parameters, &mut environment, options, &mut sink)?;
            if columns.is_empty() {
                rows.push(count.to_string());
            }
            Ok::<_, SqlError>(rows)
        };
        match on_snapshot {
            true => crate::access::read(&self.database, run),
            false => crate::access::run(&self.database, &mut run),
        }
    }

    /// The rows of a statement that succeeds.
    #[track_caller]
    pub(super) fn run(&self, text: &str) -> Vec<String> {
        match self.try_run(text) {
            Ok(rows) => rows,
            Err(error) => panic!("{text}: {error}"),
        }
    }

    /// The rows in one line, for statements with few of them.
    #[track_caller]
    pub(super) fn line(&self, text: &str) -> String {
        self.run(text).join(" | ")
    }

    /// The SQLSTATE of a statement that fails.
    #[track_caller]
    pub(super) fn state(&self, text: &str) -> String {
        match self.try_run(text) {
            Ok(rows) => panic!("{text} succeeded: {rows:?}"),
            Err(error) => error.state().as_str().to_string(),
        }
    }

    /// The plan in lines.
    #[track_caller]
    pub(super) fn explain(&self, text: &str) -> String {
        let planned = self.planned(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let environment = &crate::types::PlainEnvironment::new(0);
        let shown = crate::plan::explain::Shown { costs: true, timing: false, counts: None, environment };
        crate::plan::explain::Explained::new(&planned, shown).lines().join("\n")
    }
}
