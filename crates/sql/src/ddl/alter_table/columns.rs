//! Columns that ALTER TABLE adds and drops, and the effect on other definitions of their table.

use std::sync::Arc;

use heddledb::TableChange;

use super::qualified;
use crate::bind::Checks;
use crate::catalog::store::Object;
use crate::catalog::{ColumnOrigin, Index, Relation, Table};
use crate::ddl::composite::check_member;
use crate::ddl::create_table::TableDraft;
use crate::ddl::keys::UniqueRules;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::quote_identifier;
use crate::parse::syntax::ColumnDefinition;
use crate::session::{Connection, Severity};
use crate::types::Type;

impl Connection {
    pub(super) fn add_column(
        &mut self,
        table: &Arc<Table>,
        definition: &ColumnDefinition,
        tolerant: bool,
        text: &str,
    ) -> Result<()> {
        let name = &definition.name.text;
        if table.columns.iter().any(|column| column.name == *name) {
            let message = format!("column \"{name}\" of relation \"{}\" already exists", table.name);
            if !tolerant {
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
            }
            self.environment_mut().add_notice(
                Severity::Notice,
                SqlState::DUPLICATE_COLUMN,
                message + ", skipping",
            );
            return Ok(());
        }
        let mut catalog = self.catalog_to_change();
        let mut draft = TableDraft::of(table);
        let had_key = !draft.key.is_empty();
        self.draft_column(definition, &mut draft, &mut catalog, text)?;
        // The key is added when the column has its values.
        let key = if had_key { Vec::new() } else { std::mem::take(&mut draft.key) };
        let position = draft.columns.len() - 1;
        draft.columns[position].engine = table.engine.definition().columns().len();
        self.check_draft(&mut draft, text)?;
        let column = draft.columns[position].clone();
        check_member(&catalog, column.ty, (Type::row_of(table.oid), &table.name))?;
        let engine_type = crate::storage::engine_type(column.ty, column.modifier);
        let past = self.past_value(&column, text)?;
        let is_filled = past.is_some();
        // The catalog decides which default later rows have.
        let mut change = TableChange::new()
            .add_column(name.as_str(), engine_type, past.unwrap_or(heddledb::Value::Null))
            .set_default(name.as_str(), heddledb::Value::Null);
        if is_filled && column.not_null {
            change = change.not_null(name.as_str());
        }
        let engine = self.change_engine(table, change, name)?;
        let mut bare = Table { engine, ..table.as_ref().clone() };
        let bare_column =
            crate::catalog::Column { origin: ColumnOrigin::Nothing, not_null: false, ..column.clone() };
        insert_column(&mut bare, bare_column);
        let sequences = std::mem::take(&mut draft.sequences);
        let mut objects: Vec<Object> = sequences.iter().cloned().map(Object::Sequence).collect();
        let shared = self.shared().clone();
        for sequence in sequences {
            shared.sequences.forget(&shared.database, sequence.oid)?;
            let (schema, name) = (sequence.schema.clone(), sequence.name.clone());
            catalog.put_relation(&schema, &name, Relation::Sequence(Arc::new(sequence)));
        }
        let bare = Arc::new(bare);
        objects.push(Object::table(&bare));
        catalog.put_table(bare.clone());
        self.publish(&objects, catalog)?;
        self.fill_column(&bare, &column, &draft, is_filled)?;
        if key.is_empty() {
            return Ok(());
        }
        let table = self.current(table.oid)?;
        self.add_primary_key(&table, draft.key_name, key)
    }

    /// Sets the new column in existing rows, unless they have its value, then checks its constraints.
    fn fill_column(
        &mut self,
        table: &Arc<Table>,
        column: &crate::catalog::Column,
        draft: &TableDraft,
        is_filled: bool,
    ) -> Result<()> {
        let value = match &column.origin {
            _ if is_filled => None,
            ColumnOrigin::IndexKey(_) | ColumnOrigin::IndexPredicate(_) => None,
            ColumnOrigin::Nothing => {
                let default = self.with_binder("", |binder| Ok(binder.domain_default(column)))?;
                default.map(|text| format!("({text})"))
            }
            ColumnOrigin::Default(text) | ColumnOrigin::Generated(text) => Some(format!("({text})")),
            ColumnOrigin::Identity { sequence, .. } => Some(format!("nextval({sequence}::oid::regclass)")),
        };
        if let Some(value) = value {
            let column = quote_identifier(&column.name);
            self.run_own(&format!("update {} set {column} = {value}", qualified(table)), Checks::Nothing)?;
        }
        if column.not_null && !is_filled {
            self.refuse_nulls(table, &column.name)?;
            let change = TableChange::new().not_null(column.name.as_str());
            self.change_engine(table, change, &column.name)?;
        }
        let position = table.visible().len() - 1;
        self.redefine(table, |table| {
            table.columns[position] =
                crate::catalog::Column { engine: table.columns[position].engine, ..column.clone() };
        })?;
        let catalog = self.catalog_to_change();
        let Some(table) = catalog.table_by_oid(table.oid).cloned() else { return Ok(()) };
        for check in draft.checks.iter().skip(table.checks.len()) {
            self.add_check(&table, check.name.clone(), check.condition.clone(), true)?;
        }
        for index in draft.indexes.iter().filter(|index| index.oid == 0) {
            let columns: Vec<usize> = index.columns.iter().map(|column| column.column).collect();
            let name = (!index.name.is_empty()).then(|| index.name.clone());
            let Index { deferral, primary, nulls_equal, .. } = *index;
            let rules = UniqueRules { deferral, primary, nulls_equal };
            self.add_unique(&self.current(table.oid)?, name, &columns, rules)?;
        }
        for declared in &draft.foreign_keys {
            self.add_foreign_key(&self.current(table.oid)?, declared.clone(), true)?;
        }
        Ok(())
    }

    pub(in crate::ddl) fn drop_column(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        if_exists: bool,
        cascade: bool,
    ) -> Result<()> {
        let Some(position) = table.visible().iter().position(|column| column.name == name) else {
            if if_exists {
                let message =
                    format!("column \"{name}\" of relation \"{}\" does not exist, skipping", table.name);
                self.environment_mut().add_notice(Severity::Notice, SqlState::SUCCESSFUL_COMPLETION, message);
                return Ok(());
            }
            return self.column_of(table, name).map(|_| ());
        };
        let users = self.column_users(table, position)?;
        if !cascade {
            users.refuse_drop(table, name)?;
        }
        if !users.is_empty() {
            self.drop_views_and_triggers(users.views, users.triggers)?;
            for generated in users.generated {
                self.drop_column(&self.current(table.oid)?, &generated, true, true)?;
            }
            let table = self.current(table.oid)?;
            return self.drop_column(&table, name, if_exists, cascade);
        }
        if table.key.contains(&position) {
            let key = table.key_name.clone().unwrap_or_default();
            self.release_key(table, (&key, &table.key), cascade)?;
            self.drop_primary_key(table, &key, cascade)?;
        }
        let table = &self.without_indexes_on(&self.current(table.oid)?, name)?;
        let catalog = self.catalog_to_change();
        let referencing = catalog.tables().filter(|other| other.oid != table.oid);
        for other in referencing {
            let refers = |key: &&crate::catalog::ForeignKey| {
                key.table == table.oid && key.references.contains(&position)
            };
            if let Some(key) = other.foreign_keys.iter().find(refers) {
                if !cascade {
                    let message = format!(
                        "cannot drop column {name} of table {} because other objects depend on it",
                        table.name
                    );
                    let detail = format!(
                        "constraint {} on table {} depends on column {name} of table {}",
                        key.name, other.name, table.name
                    );
                    return Err(
                        SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message).with_detail(detail)
                    );
                }
                let other = other.clone();
                self.redefine(&other, |other| other.foreign_keys.retain(|known| !refers(&known)))?;
            }
        }
        self.change_engine(table, TableChange::new().drop_column(name), name)?;
        let catalog = self.catalog_to_change();
        let owned =
            catalog.sequences().find(|sequence| sequence.owner == Some((table.oid, position))).cloned();
        self.redefine(table, |table| without_column(table, position))?;
        self.shift_others(table.oid, position)?;
        if let Some(sequence) = owned {
            self.drop_owned_sequence(sequence.oid, cascade)?;
        }
        Ok(())
    }

    /// Positions of columns behind a dropped one, in other tables' foreign keys and in sequences' owners.
    fn shift_others(&mut self, oid: u32, dropped: usize) -> Result<()> {
        let mut catalog = self.catalog_to_change();
        let mut objects = Vec::new();
        for table in catalog.tables().cloned().collect::<Vec<_>>() {
            if !table
                .foreign_keys
                .iter()
                .any(|key| key.table == oid && key.references.iter().any(|&it| it > dropped))
            {
                continue;
            }
            let mut changed = table.as_ref().clone();
            for key in changed.foreign_keys.iter_mut().filter(|key| key.table == oid) {
                key.references.iter_mut().filter(|it| **it > dropped).for_each(|it| *it -= 1);
            }
            let changed = Arc::new(changed);
            objects.push(Object::table(&changed));
            catalog.put_table(changed);
        }
        for sequence in catalog.sequences().cloned().collect::<Vec<_>>() {
            if let Some((table, position)) = sequence.owner
                && table == oid
                && position > dropped
            {
                let mut changed = sequence.as_ref().clone();
                changed.owner = Some((table, position - 1));
                let (schema, name) = (changed.schema.clone(), changed.name.clone());
                catalog.put_relation(&schema, &name, Relation::Sequence(Arc::new(changed.clone())));
                objects.push(Object::Sequence(changed));
            }
        }
        self.publish(&objects, catalog)
    }
}

/// Adds a column behind all visible ones: the hidden ones of indexes move.
pub(crate) fn insert_column(table: &mut Table, column: crate::catalog::Column) {
    let position = table.visible().len();
    table.columns.insert(position, column);
    let columns = table.indexes.iter_mut().flat_map(|index| &mut index.columns);
    columns.filter(|column| column.column >= position).for_each(|column| column.column += 1);
}

/// Removes a column from a table: parts that name it are removed, positions behind it move.
pub(crate) fn without_column(table: &mut Table, dropped: usize) {
    let name = table.columns[dropped].name.clone();
    let engine = table.columns[dropped].engine;
    table.columns.remove(dropped);
    table.columns.iter_mut().filter(|column| column.engine > engine).for_each(|column| column.engine -= 1);
    let shift = |position: &mut usize| {
        if *position > dropped {
            *position -= 1;
        }
    };
    table.indexes.retain(|index| index.columns.iter().all(|column| column.column != dropped));
    table
        .indexes
        .iter_mut()
        .flat_map(|index| &mut index.columns)
        .for_each(|column| shift(&mut column.column));
    table.indexes.iter_mut().for_each(|index| index.included.retain(|&column| column != dropped));
    table.indexes.iter_mut().flat_map(|index| &mut index.included).for_each(shift);
    table.key.iter_mut().for_each(shift);
    table.foreign_keys.retain(|key| !key.columns.contains(&dropped));
    let own = table.oid;
    for key in &mut table.foreign_keys {
        key.columns.iter_mut().for_each(shift);
        if key.table == own {
            key.references.iter_mut().for_each(shift);
        }
    }
    let names = |text: &String| crate::parse::names_column(text, &name);
    table.nominal_indexes.retain(|index| !index.texts().any(names));
    table.checks.retain(|check| !crate::parse::names_column(&check.condition, &name));
}
