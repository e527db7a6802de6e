//! Primary keys and unique constraints that ALTER TABLE adds, and primary keys that it drops.
//!
//! # Invariants
//! - A table with a primary key lies under it in the engine; one with a deferrable primary key, or with none, under a hidden
//!   key.

use std::sync::Arc;

use heddledb::TableChange;

use crate::bind::Checks;
use crate::catalog::store::HIDDEN_KEY;
use crate::catalog::{Deferral, ForeignKey, Index, IndexColumn, Table, View};
use crate::ddl::alter_table::qualified;
use crate::ddl::create_table::{check_key_column, free_name};
use crate::ddl::drop::names_relation;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::quote_identifier;
use crate::run::next_row_number;
use crate::session::Connection;

/// The rules of a unique constraint beside its columns.
pub(super) struct UniqueRules {
    pub deferral: Option<Deferral>,
    /// True if it is a deferrable primary key.
    pub primary: bool,
    /// NULLS NOT DISTINCT.
    pub nulls_equal: bool,
}

/// An error if a table has a primary key, deferrable or not.
pub(super) fn refuse_second_key(table: &str, key: &[usize], indexes: &[Index]) -> Result<()> {
    if key.is_empty() && !indexes.iter().any(|index| index.primary) {
        return Ok(());
    }
    let message = format!("multiple primary keys for table \"{table}\" are not allowed");
    Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message))
}

impl Connection {
    /// Makes a column NOT NULL.
    pub(super) fn forbid_nulls(&mut self, table: &Arc<Table>, position: usize) -> Result<()> {
        let column = &table.columns[position];
        if column.not_null {
            return Ok(());
        }
        self.refuse_nulls(table, &column.name)?;
        self.change_engine(table, TableChange::new().not_null(column.name.as_str()), &column.name)?;
        self.redefine(table, |table| table.columns[position].not_null = true)
    }

    pub(super) fn add_unique(
        &mut self,
        table: &Arc<Table>,
        name: Option<String>,
        columns: &[usize],
        rules: UniqueRules,
    ) -> Result<()> {
        for &column in columns {
            check_key_column(&table.columns[column], "unique index")?;
        }
        let mut catalog = self.catalog_to_change();
        let names: Vec<&str> = columns.iter().map(|&column| table.columns[column].name.as_str()).collect();
        let name = name.unwrap_or_else(|| {
            let (columns, label) = match rules.primary {
                true => (String::new(), "pkey"),
                false => (names.join("_"), "key"),
            };
            let taken = |name: &str| catalog.relation(&table.schema, name).is_some();
            free_name(&table.name, &columns, label, taken)
        });
        self.is_free(&table.schema.clone(), &name, false)?;
        let constraint = if rules.primary { "PRIMARY KEY" } else { "UNIQUE" };
        self.note_implicit_index(&format!("ALTER TABLE / ADD {constraint}"), &name, &table.name);
        let mut index = Index {
            oid: 0,
            name,
            columns: columns.iter().map(|&column| IndexColumn::ascending(column)).collect(),
            unique: true,
            constraint: true,
            included: Vec::new(),
            deferral: rules.deferral,
            nulls_equal: rules.nulls_equal,
            primary: rules.primary,
            method: Default::default(),
        };
        self.add_index_to_engine(table, &index)?;
        index.oid = catalog.new_oid();
        self.redefine(table, |table| table.indexes.push(index))
    }

    /// An error if rows are equal in a unique index.
    pub(crate) fn refuse_duplicates(&mut self, table: &Table, index: &Index) -> Result<()> {
        let keys: Vec<String> =
            table.index_keys(index).iter().map(|key| table.column_text(key.column)).collect();
        let mut given: Vec<String> =
            table.predicate(index).map(|text| format!("({text})")).into_iter().collect();
        if !index.nulls_equal {
            given.extend(keys.iter().map(|key| format!("{key} is not null")));
        }
        let given = if given.is_empty() { String::new() } else { format!("where {}", given.join(" and ")) };
        let sql = format!(
            "select 1 from {} {given} group by {} having count(*) > 1 limit 1",
            qualified(table),
            keys.join(", ")
        );
        if self.run_own(&sql, Checks::Nothing)?.is_empty() {
            return Ok(());
        }
        let constraint = &index.name;
        let message = format!("could not create unique index \"{constraint}\"");
        Err(SqlError::new(SqlState::UNIQUE_VIOLATION, message)
            .with_detail("Rows with equal values were found.")
            .with_table(table.schema.clone(), table.name.clone())
            .with_constraint(constraint))
    }

    pub(super) fn add_primary_key(
        &mut self,
        table: &Arc<Table>,
        name: Option<String>,
        key: Vec<usize>,
    ) -> Result<()> {
        refuse_second_key(&table.name, &table.key, &table.indexes)?;
        let mut catalog = self.catalog_to_change();
        let mut change = TableChange::new();
        for &column in &key {
            let column = &table.columns[column];
            check_key_column(column, "primary key")?;
            self.refuse_nulls(table, &column.name)?;
            change = change.not_null(column.name.as_str());
        }
        let name = name.unwrap_or_else(|| {
            free_name(&table.name, "", "pkey", |name| catalog.relation(&table.schema, name).is_some())
        });
        self.is_free(&table.schema.clone(), &name, false)?;
        self.note_implicit_index("ALTER TABLE / ADD PRIMARY KEY", &name, &table.name);
        let names: Vec<&str> = key.iter().map(|&column| table.columns[column].name.as_str()).collect();
        let hidden = table.engine.definition().columns()[0].name.clone();
        change = change.primary_key(names).drop_column(hidden);
        self.change_engine(table, change, &name)?;
        let oid = catalog.new_oid();
        self.redefine(table, |table| {
            for column in &mut table.columns {
                column.engine -= 1;
            }
            key.iter().for_each(|&column| table.columns[column].not_null = true);
            (table.key, table.key_name, table.key_oid) = (key, Some(name), Some(oid));
        })
    }

    /// Drops the primary key: the rows are copied under a hidden one.
    pub(super) fn drop_primary_key(&mut self, table: &Arc<Table>, name: &str, cascade: bool) -> Result<()> {
        self.release_constraint(table, (name, &table.key), cascade)?;
        self.change_engine(table, TableChange::new().numbered_key(HIDDEN_KEY, next_row_number), name)?;
        self.redefine(&*self.current(table.oid)?, |table| {
            table.columns.iter_mut().for_each(|column| column.engine += 1);
            table.key_comments.retain(|(of, _)| Some(*of) != table.key_oid);
            (table.key, table.key_name, table.key_oid) = (Vec::new(), None, None);
        })?;
        self.check_groupings(table, name)
    }

    /// An error if a view needs the key: it names columns that GROUP BY does not, but that the key decides.
    fn check_groupings(&mut self, table: &Table, key: &str) -> Result<()> {
        let catalog = self.current_catalog();
        let is_named = |view: &Arc<View>| names_relation(view, &table.schema, &table.name);
        for view in catalog.stored_queries().filter(is_named) {
            let bound = self.with_binder("", |binder| binder.view_query(&view, 0).map(|_| ()));
            if bound.is_err_and(|error| error.state() == SqlState::GROUPING_ERROR) {
                let name = quote_identifier(&view.name);
                let detail = format!("view {name} depends on constraint {key} on table {}", table.name);
                return Err(needed(table, key, detail).with_hint("Drop the view first, and create it again."));
            }
        }
        Ok(())
    }

    /// Releases a key as [`release_key`](Self::release_key) does, unless the table has another key over the same
    /// columns: foreign keys refer to that one from then on.
    pub(super) fn release_constraint(
        &mut self,
        table: &Table,
        (name, columns): (&str, &[usize]),
        cascade: bool,
    ) -> Result<()> {
        let is_other = |index: &Index| {
            let over: Vec<usize> = index.columns.iter().map(|column| column.column).collect();
            index.name != name && index.is_unique_always() && are_same(&over, columns)
        };
        let is_other_key = table.key_name.as_deref() != Some(name) && are_same(&table.key, columns);
        if is_other_key || table.indexes.iter().any(is_other) {
            return Ok(());
        }
        self.release_key(table, (name, columns), cascade)
    }

    /// Drops the foreign keys that refer to a key which is to be dropped, with CASCADE.
    ///
    /// # Errors
    /// 2BP01: there are some, and CASCADE was not said.
    pub(super) fn release_key(
        &mut self,
        table: &Table,
        (name, columns): (&str, &[usize]),
        cascade: bool,
    ) -> Result<()> {
        let refers = |key: &ForeignKey| key.table == table.oid && are_same(&key.references, columns);
        let catalog = self.current_catalog();
        for other in catalog.tables().filter(|other| other.foreign_keys.iter().any(refers)) {
            if !cascade {
                let key = other.foreign_keys.iter().find(|key| refers(key)).map_or("", |key| &key.name);
                let detail = format!("constraint {key} on table {} depends on index {name}", other.name);
                let hint = "Use DROP ... CASCADE to drop the dependent objects too.";
                return Err(needed(table, name, detail).with_hint(hint));
            }
            let other = self.current(other.oid)?;
            self.redefine(&other, |other| other.foreign_keys.retain(|key| !refers(key)))?;
        }
        Ok(())
    }
}

/// Returns true if two keys have the same columns, in whatever order.
fn are_same(one: &[usize], other: &[usize]) -> bool {
    one.len() == other.len() && one.iter().all(|column| other.contains(column))
}

fn needed(table: &Table, name: &str, detail: String) -> SqlError {
    let message =
        format!("cannot drop constraint {name} on table {} because other objects depend on it", table.name);
    SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message).with_detail(detail)
}
