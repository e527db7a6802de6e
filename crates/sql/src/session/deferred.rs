//! Deferred foreign keys, deferred unique constraints, and SET CONSTRAINTS.
//!
//! A deferrable constraint that does not hold when a statement ends is noted with its values. COMMIT, and SET CONSTRAINTS …
//! IMMEDIATE, look at the noted values again.
//!
//! # Invariants
//! - What is noted may be too much, never too little: notes of attempts that were retried and of statements that were
//!   rolled back stay, because a value without referencing rows violates nothing.
//! - Notes live until the transaction ends.

use hashbrown::{HashMap, HashSet};

use crate::catalog::relation::MIXED_KEY;
use crate::catalog::{ForeignKey, Index, Table};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::quote_identifier;
use crate::parse::syntax::ObjectName;
use crate::session::Severity;
use crate::session::connection::Connection;
use crate::types::text::to_text;
use crate::types::{DeferrableKey, KeySide, Type, Value};

/// How many values of a constraint are noted. Beyond that, all rows of the table are checked.
const VALUES_MAX: usize = 100_000;

/// A constraint: the oid of its table and the name of its constraint.
type Constraint = (u32, String);
/// The values to look at; none: all rows.
type Noted = Option<HashSet<(Vec<Value>, KeySide)>>;

/// Whether constraints are deferred, as SET CONSTRAINTS said. A rollback to a savepoint restores it.
#[derive(Clone, Default)]
pub(crate) struct Modes {
    /// What it said of ALL, and of single constraints after that.
    all: Option<bool>,
    single: HashMap<Constraint, bool>,
}

/// The constraints that a transaction still has to check.
#[derive(Default)]
pub(crate) struct Deferred {
    /// Whether a transaction block is open, whose end can check them.
    in_block: bool,
    pub modes: Modes,
    noted: HashMap<Constraint, Noted>,
}

impl Deferred {
    pub fn set_in_block(&mut self, in_block: bool) {
        self.in_block = in_block;
    }

    /// Forgets everything: the transaction has ended.
    pub fn clear(&mut self) {
        if self.modes.all.is_some() || !self.modes.single.is_empty() || !self.noted.is_empty() {
            *self = Deferred::default();
        }
    }

    /// Notes values that do not satisfy a constraint, if it is deferred now.
    pub fn take(&mut self, key: DeferrableKey<'_>, values: &[Value], side: KeySide) -> bool {
        if !self.in_block {
            return false;
        }
        let constraint = (key.table, key.name.to_string());
        let said = self.modes.single.get(&constraint).copied().or(self.modes.all);
        if !said.unwrap_or(key.deferred) {
            return false;
        }
        let noted = self.noted.entry(constraint).or_insert_with(|| Some(HashSet::new()));
        if let Some(values_noted) = noted {
            values_noted.insert((values.to_vec(), side));
            if values_noted.len() > VALUES_MAX {
                *noted = None;
            }
        }
        true
    }
}

impl Connection {
    /// Checks every constraint that was deferred.
    ///
    /// # Errors
    /// 23503 and 23505 for the first that does not hold.
    pub(super) fn check_deferred(&mut self) -> Result<()> {
        if self.environment.deferred.noted.is_empty() {
            return Ok(());
        }
        let mut constraints: Vec<Constraint> = self.environment.deferred.noted.keys().cloned().collect();
        constraints.sort();
        constraints.iter().try_for_each(|constraint| self.check_constraint(constraint))
    }

    fn check_constraint(&mut self, constraint: &Constraint) -> Result<()> {
        let Some(noted) = self.environment.deferred.noted.get(constraint).cloned() else { return Ok(()) };
        let (oid, name) = constraint;
        // A table or constraint that was dropped since constrains nothing.
        let Some(child) = self.current_catalog().table_by_oid(*oid).cloned() else { return Ok(()) };
        if let Some(index) = child.indexes.iter().find(|index| index.name == *name) {
            return self.check_unique(&child, index, noted);
        }
        let Some(key) = child.foreign_keys.iter().find(|key| key.name == *name) else { return Ok(()) };
        let Some(parent) = self.current_catalog().table_by_oid(key.table).cloned() else { return Ok(()) };
        let Some(noted) = noted else { return self.validate_foreign_key(&child, key) };
        let types: Vec<Option<Type>> =
            key.columns.iter().map(|&column| Some(child.columns[column].ty)).collect();
        let texts = [equal_rows(&parent, &key.references, &[], 1), equal_rows(&child, &key.columns, &[], 1)];
        for (values, side) in noted {
            // Values with a NULL are noted for MATCH FULL alone, which does not allow it.
            let nulls: Vec<bool> = values.iter().map(Value::is_null).collect();
            let is_wrong = match nulls.contains(&true) {
                true => self.exists(&equal_rows(&child, &key.columns, &nulls, 1), &types, &values)?,
                false => {
                    !self.exists(&texts[0], &types, &values)? && self.exists(&texts[1], &types, &values)?
                }
            };
            if is_wrong {
                return Err(self.violation(&child, &parent, key, &values, side));
            }
        }
        Ok(())
    }

    /// Checks that no two rows have the noted values in a unique constraint's columns.
    fn check_unique(&mut self, table: &Table, index: &Index, noted: Noted) -> Result<()> {
        let columns: Vec<usize> = index.columns.iter().map(|column| column.column).collect();
        let Some(noted) = noted else { return self.refuse_duplicates(table, index) };
        let types: Vec<Option<Type>> = columns.iter().map(|&column| Some(table.columns[column].ty)).collect();
        for (values, _) in noted {
            let nulls: Vec<bool> = values.iter().map(Value::is_null).collect();
            let text = equal_rows(table, &columns, &nulls, 2);
            if self.count(&text, &types, &values)? > 1 {
                let message = format!("duplicate key value violates unique constraint \"{}\"", index.name);
                let detail = format!("Key {} already exists.", self.key_text(table, &columns, &values));
                return Err(SqlError::new(SqlState::UNIQUE_VIOLATION, message)
                    .with_detail(detail)
                    .with_table(&table.schema, &table.name)
                    .with_constraint(&index.name));
            }
        }
        Ok(())
    }

    /// Whether a query with these parameters returns a row.
    fn exists(&mut self, text: &str, types: &[Option<Type>], values: &[Value]) -> Result<bool> {
        Ok(self.count(text, types, values)? > 0)
    }

    /// How many rows a query with these parameters returns.
    fn count(&mut self, text: &str, types: &[Option<Type>], values: &[Value]) -> Result<u64> {
        let statements = crate::parse::parse(text)?;
        let [parsed] = &statements[..] else { return Ok(0) };
        let plan = self.plan(&parsed.statement, text, types)?;
        self.run_plan(&plan, values, &mut |_| Ok(()))
    }

    /// Columns and their values, as details show them.
    fn key_text(&self, table: &Table, columns: &[usize], values: &[Value]) -> String {
        let names: Vec<&str> = columns.iter().map(|&column| table.columns[column].name.as_str()).collect();
        let shown = columns.iter().zip(values).map(|(&column, value)| {
            to_text(&self.environment, table.columns[column].ty, value).unwrap_or_default()
        });
        format!("({})=({})", names.join(", "), shown.collect::<Vec<_>>().join(", "))
    }

    fn violation(
        &self,
        child: &Table,
        parent: &Table,
        key: &ForeignKey,
        values: &[Value],
        side: KeySide,
    ) -> SqlError {
        let text = |table: &Table, columns: &[usize]| self.key_text(table, columns, values);
        let (message, detail) = match side {
            KeySide::Referencing => (
                format!(
                    "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
                    child.name, key.name
                ),
                match values.iter().any(Value::is_null) {
                    true => MIXED_KEY.to_string(),
                    false => {
                        format!(
                            "Key {} is not present in table \"{}\".",
                            text(child, &key.columns),
                            parent.name
                        )
                    }
                },
            ),
            KeySide::Referenced => (
                format!(
                    "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \"{}\"",
                    parent.name, key.name, child.name
                ),
                format!(
                    "Key {} is still referenced from table \"{}\".",
                    text(parent, &key.references),
                    child.name
                ),
            ),
        };
        SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, message)
            .with_detail(detail)
            .with_table(&child.schema, &child.name)
            .with_constraint(&key.name)
    }

    /// SET CONSTRAINTS; no names: ALL.
    pub(super) fn set_constraints(&mut self, names: &[ObjectName], deferred: bool) -> Result<&'static str> {
        const TAG: &str = "SET CONSTRAINTS";
        if self.transaction.is_idle() {
            let message = "SET CONSTRAINTS can only be used in transaction blocks";
            self.environment.add_notice(Severity::Warning, SqlState::NO_ACTIVE_SQL_TRANSACTION, message);
            return Ok(TAG);
        }
        let mut named = Vec::new();
        for name in names {
            named.extend(self.deferrable(name)?);
        }
        let modes = &mut self.environment.deferred.modes;
        if names.is_empty() {
            modes.single.clear();
            modes.all = Some(deferred);
        }
        modes.single.extend(named.iter().map(|constraint| (constraint.clone(), deferred)));
        match (deferred, names.is_empty()) {
            (true, _) => {}
            (false, true) => self.check_deferred()?,
            (false, false) => named.iter().try_for_each(|constraint| self.check_constraint(constraint))?,
        }
        Ok(TAG)
    }

    /// The deferrable constraints of a name.
    ///
    /// # Errors
    /// 42704 if there is none; 42809 if one is not deferrable.
    fn deferrable(&self, name: &ObjectName) -> Result<Vec<Constraint>> {
        let catalog = self.current_catalog();
        let path = self.environment.path();
        let mut found = Vec::new();
        for table in catalog.tables() {
            let in_schema = match name.schema() {
                Some(schema) => table.schema == schema,
                None => path.contains(&table.schema),
            };
            if !in_schema {
                continue;
            }
            let keys = table.foreign_keys.iter().filter(|key| key.name == name.last());
            found.extend(keys.map(|key| (table.oid, key.deferrable || key.deferred)));
            let unique = table.indexes.iter().filter(|index| index.constraint && index.name == name.last());
            found.extend(unique.map(|index| (table.oid, index.deferral.is_some())));
            let is_key = table.key_name.as_deref() == Some(name.last());
            found.extend(is_key.then_some((table.oid, false)));
        }
        if found.is_empty() {
            let message = format!("constraint \"{}\" does not exist", name.last());
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        }
        if found.iter().any(|(_, is_deferrable)| !is_deferrable) {
            let message = format!("constraint \"{}\" is not deferrable", name.last());
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        Ok(found.into_iter().map(|(oid, _)| (oid, name.last().to_string())).collect())
    }
}

/// A query for rows of a table with the parameters' values in these columns, at most this many. `nulls`: whether the value of a
/// column is NULL (none: no value is).
fn equal_rows(table: &Table, columns: &[usize], nulls: &[bool], limit: u32) -> String {
    let conditions: Vec<String> = columns
        .iter()
        .enumerate()
        .map(|(number, &column)| {
            let name = quote_identifier(&table.columns[column].name);
            match nulls.get(number) {
                Some(true) => format!("{name} is null and ${} is null", number + 1),
                _ => format!("{name} = ${}", number + 1),
            }
        })
        .collect();
    let table = crate::ddl::qualified(table);
    format!("select 1 from {table} where {} limit {limit}", conditions.join(" and "))
}
