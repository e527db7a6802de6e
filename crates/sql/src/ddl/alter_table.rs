//! ALTER TABLE: columns are added and dropped, constraints added and dropped, things renamed.
//!
//! The actions of one statement take effect together, in their order.

use std::sync::Arc;

use heddledb::TableChange;

use crate::bind::Checks;
use crate::catalog::relation::MIXED_KEY;
use crate::catalog::rights::CREATE;
use crate::catalog::store::Object;
use crate::catalog::{ColumnOrigin, Index, Persistence, Relation, Table};
use crate::ddl::column_type::check_changed_at_once;
use crate::ddl::create_table::{TableDraft, deferral};
use crate::ddl::drop::names_relation;
use crate::ddl::keys::{UniqueRules, refuse_second_key};
use crate::ddl::materialized::check_materialized;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{
    AlterAction, AlterTable, ColumnDefinition, Name, PersistenceName, TableConstraint, TableConstraintKind,
};
use crate::parse::{quote_identifier, with_renamed_table};
use crate::session::{Connection, Severity};
use crate::types::Value;

const TAG: &str = "ALTER TABLE";

/// A table's name as it stands in SQL text.
pub(crate) fn qualified(table: &Table) -> String {
    format!("{}.{}", quote_identifier(&table.schema), quote_identifier(&table.name))
}

impl Connection {
    pub(crate) fn alter_table(&mut self, alter: &AlterTable, text: &str) -> Result<&'static str> {
        let Some(relation) = self.relation_to_alter(&alter.name, alter.if_exists)? else { return Ok(TAG) };
        self.check_relation_owner(&relation)?;
        if let (
            Relation::View(_) | Relation::Sequence(_) | Relation::Index { .. },
            [AlterAction::RenameTable(to)],
        ) = (&relation, &alter.actions[..])
        {
            self.rename_relation(&relation, &to.text)?;
            return Ok(TAG);
        }
        if let [AlterAction::SetSchema(to)] = &alter.actions[..] {
            self.move_relation(&relation, &to.text)?;
            return Ok(TAG);
        }
        if let (Relation::View(view), [AlterAction::RenameColumn { from, to }]) =
            (&relation, &alter.actions[..])
        {
            self.rename_view_column(view, &from.text, &to.text)?;
            return Ok(TAG);
        }
        let Relation::Table(table) = relation else {
            if alter.actions.iter().all(|action| matches!(action, AlterAction::Ignored)) {
                return Ok(TAG);
            }
            let message = format!("ALTER TABLE of a {} is not supported", relation.kind());
            return Err(SqlError::unsupported(message));
        };
        if table.stored_query.is_some() {
            check_materialized(&table.name, &alter.actions)?;
        }
        check_changed_at_once(&alter.actions)?;
        for action in &alter.actions {
            self.alter_action(table.oid, action, text)?;
        }
        Ok(TAG)
    }

    fn alter_action(&mut self, oid: u32, action: &AlterAction, text: &str) -> Result<()> {
        let catalog = self.catalog_to_change();
        let Some(table) = catalog.table_by_oid(oid).cloned() else {
            return Err(crate::catalog::no_relation(""));
        };
        match action {
            AlterAction::AddColumn { column, if_not_exists } => {
                self.add_column(&table, column, *if_not_exists, text)
            }
            AlterAction::DropColumn { name, if_exists, cascade } => {
                self.drop_column(&table, &name.text, *if_exists, *cascade)
            }
            AlterAction::AddConstraint(constraint) => self.add_constraint(&table, constraint, text),
            AlterAction::DropConstraint { name, if_exists, cascade } => {
                self.drop_constraint(&table, &name.text, *if_exists, *cascade)
            }
            AlterAction::RenameTable(to) => self.rename_relation(&Relation::Table(table), &to.text),
            AlterAction::RenameColumn { from, to } => self.rename_column(&table, from, to),
            AlterAction::RenameConstraint { from, to } => {
                self.rename_constraint(&table, &from.text, &to.text)
            }
            AlterAction::AlterConstraint { name, timing } => {
                self.alter_constraint(&table, &name.text, *timing)
            }
            AlterAction::SetPersistence(persistence) => {
                let persistence = match persistence {
                    PersistenceName::Unlogged => Persistence::Unlogged,
                    _ => Persistence::Permanent,
                };
                if table.persistence == persistence {
                    return Ok(());
                }
                self.check_persistence(&table, persistence)?;
                self.redefine(&table, |table| table.persistence = persistence)
            }
            AlterAction::ValidateConstraint(name) => self.validate_constraint(&table, &name.text),
            AlterAction::Ignored => Ok(()),
            AlterAction::SetSchema(to) => self.move_relation(&Relation::Table(table), &to.text),
            _ => self.alter_column(&table, action, text),
        }
    }

    /// Changes a table's definition, without touching the engine's.
    pub(crate) fn redefine(&mut self, table: &Table, change: impl FnOnce(&mut Table)) -> Result<()> {
        let mut catalog = self.catalog_to_change();
        let engine = catalog.table_by_oid(table.oid).map_or(&table.engine, |current| &current.engine).clone();
        let mut changed = Table { engine, ..table.clone() };
        change(&mut changed);
        let changed = Arc::new(changed);
        catalog.remove_table(table);
        catalog.put_table(changed.clone());
        self.publish(&[Object::table(&changed)], catalog)
    }

    /// The position of a column that must be there.
    pub(crate) fn column_of(&self, table: &Table, name: &str) -> Result<usize> {
        table.visible().iter().position(|column| column.name == name).ok_or_else(|| {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })
    }

    fn add_column(
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
        let engine_type = crate::storage::engine_type(column.ty, column.modifier);
        let past = self.past_value(&column, text)?;
        let is_filled = past.is_some();
        // Which default later rows have is what the catalog says.
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

    /// Gives existing rows the new column's value, unless they have it, then makes its constraints hold.
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
            self.run_internal(&format!(
                "update {} set {} = {value}",
                qualified(table),
                quote_identifier(&column.name)
            ))?;
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

    /// The table as it is now.
    pub(crate) fn current(&self, oid: u32) -> Result<Arc<Table>> {
        let found = self.current_catalog().table_by_oid(oid).cloned();
        found.ok_or_else(|| crate::catalog::no_relation(&oid.to_string()))
    }

    /// An error if a column holds NULLs.
    pub(crate) fn refuse_nulls(&mut self, table: &Table, column: &str) -> Result<()> {
        self.refuse_nulls_in(table, column, column)
    }

    /// The same, where `stored` has the values that `column` is to have.
    pub(super) fn refuse_nulls_in(&mut self, table: &Table, stored: &str, column: &str) -> Result<()> {
        let sql =
            format!("select 1 from {} where {} is null limit 1", qualified(table), quote_identifier(stored));
        if self.run_internal(&sql)?.is_empty() {
            return Ok(());
        }
        let message = format!("column \"{column}\" of relation \"{}\" contains null values", table.name);
        Err(SqlError::new(SqlState::NOT_NULL_VIOLATION, message)
            .with_table(table.schema.clone(), table.name.clone())
            .with_column(column))
    }

    pub(super) fn drop_column(
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

    fn add_constraint(&mut self, table: &Arc<Table>, constraint: &TableConstraint, text: &str) -> Result<()> {
        let name = constraint.name.as_ref().map(|name| name.text.clone());
        if let Some(name) = &name {
            let taken = table.checks.iter().any(|check| check.name == *name)
                || table.foreign_keys.iter().any(|key| key.name == *name)
                || table.key_name.as_deref() == Some(name);
            if taken {
                let message = format!("constraint \"{name}\" for relation \"{}\" already exists", table.name);
                return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
            }
        }
        let draft = TableDraft::of(table);
        match &constraint.kind {
            TableConstraintKind::Check(condition) => {
                let mut draft = draft;
                draft.check(constraint.name.as_ref(), condition)?;
                self.check_draft(&mut draft, text)?;
                let added = draft.checks.pop();
                let Some(check) = added else { return Ok(()) };
                self.add_check(table, check.name, check.condition, !constraint.not_valid)
            }
            TableConstraintKind::Unique { columns, nulls_equal, timing, .. } => {
                let columns = draft.positions(columns)?;
                let rules =
                    UniqueRules { deferral: deferral(*timing), primary: false, nulls_equal: *nulls_equal };
                self.add_unique(table, name, &columns, rules)
            }
            TableConstraintKind::PrimaryKey { columns, timing, .. } => {
                let columns = draft.positions(columns)?;
                if deferral(*timing).is_none() {
                    return self.add_primary_key(table, name, columns);
                }
                refuse_second_key(&table.name, &table.key, &table.indexes)?;
                let rules = UniqueRules { deferral: deferral(*timing), primary: true, nulls_equal: false };
                self.add_unique(table, name, &columns, rules)?;
                columns.iter().try_for_each(|&column| self.forbid_nulls(&self.current(table.oid)?, column))
            }
            TableConstraintKind::UsingIndex { timing, .. } if deferral(*timing).is_some() => {
                Err(SqlError::unsupported("deferrable constraints over an existing index are not supported"))
            }
            TableConstraintKind::UsingIndex { index, primary: false, .. } => {
                let known = table.indexes.iter().position(|known| known.name == index.text);
                let Some(position) = known else {
                    let message = format!("index \"{}\" does not exist", index.text);
                    return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
                };
                self.redefine(table, |table| table.indexes[position].constraint = true)?;
                match name.filter(|name| *name != index.text) {
                    Some(name) => self.rename_constraint(&self.current(table.oid)?, &index.text, &name),
                    None => Ok(()),
                }
            }
            TableConstraintKind::UsingIndex { index, primary: true, .. } => {
                let found = table.indexes.iter().find(|it| it.name == index.text);
                let Some(found) = found else {
                    let message = format!("index \"{}\" does not exist", index.text);
                    return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
                };
                let columns = found.columns.iter().map(|column| column.column).collect();
                self.add_primary_key(table, name, columns)
            }
            TableConstraintKind::ForeignKey { columns, reference } => {
                let columns = draft.positions(columns)?;
                self.add_foreign_key(table, (name, columns, reference.clone()), !constraint.not_valid)
            }
        }
    }

    fn add_check(
        &mut self,
        table: &Arc<Table>,
        name: String,
        condition: String,
        validate: bool,
    ) -> Result<()> {
        if validate {
            self.validate_check(table, &name, &condition)?;
        }
        self.redefine(table, |table| {
            table.checks.push(crate::catalog::Check { name, condition, comment: None })
        })
    }

    pub(super) fn validate_check(&mut self, table: &Table, name: &str, condition: &str) -> Result<()> {
        let sql = format!("select 1 from {} where not ({condition}) limit 1", qualified(table));
        if self.run_internal(&sql)?.is_empty() {
            return Ok(());
        }
        let message =
            format!("check constraint \"{name}\" of relation \"{}\" is violated by some row", table.name);
        Err(SqlError::new(SqlState::CHECK_VIOLATION, message)
            .with_table(table.schema.clone(), table.name.clone())
            .with_constraint(name))
    }

    /// VALIDATE CONSTRAINT: the rows that were there when it was added NOT VALID must meet it, too.
    fn validate_constraint(&mut self, table: &Arc<Table>, name: &str) -> Result<()> {
        if let Some(check) = table.checks.iter().find(|check| check.name == name) {
            return self.validate_check(table, name, &check.condition);
        }
        if let Some(key) = table.foreign_keys.iter().find(|key| key.name == name) {
            return self.validate_foreign_key(table, key);
        }
        let is_unique = table.key_name.as_deref() == Some(name)
            || table.indexes.iter().any(|index| index.constraint && index.name == name);
        Err(if is_unique {
            let message = format!(
                "constraint \"{name}\" of relation \"{}\" is not a foreign key or check constraint",
                table.name
            );
            SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
        } else {
            let message = format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name);
            SqlError::new(SqlState::UNDEFINED_OBJECT, message)
        })
    }

    fn add_foreign_key(
        &mut self,
        table: &Arc<Table>,
        declared: crate::ddl::foreign_key::Declared,
        validate: bool,
    ) -> Result<()> {
        let catalog = self.catalog_to_change();
        let draft = TableDraft::of(table);
        let mut keys = self.resolve_references(&draft, &[declared], &catalog)?;
        let Some(key) = keys.pop() else { return Ok(()) };
        if validate {
            self.validate_foreign_key(table, &key)?;
        }
        self.redefine(table, |table| table.foreign_keys.push(key))
    }

    pub(crate) fn validate_foreign_key(
        &mut self,
        table: &Arc<Table>,
        key: &crate::catalog::ForeignKey,
    ) -> Result<()> {
        let other = self.current(key.table)?;
        let column = |table: &Table, position: usize| quote_identifier(&table.columns[position].name);
        let is_given = |&position: &usize| format!("a.{} is not null", column(table, position));
        let given: Vec<String> = key.columns.iter().map(is_given).collect();
        let whole = given.join(" and ");
        // With MATCH FULL, a row with one value refers to what is not there.
        let given = given.join(if key.is_full { " or " } else { " and " });
        let equal: Vec<String> = key
            .columns
            .iter()
            .zip(&key.references)
            .map(|(&own, &theirs)| format!("b.{} = a.{}", column(&other, theirs), column(table, own)))
            .collect();
        let sql = format!(
            "select {whole} from {} a where ({given}) and not exists (select 1 from {} b where {}) limit 1",
            qualified(table),
            qualified(&other),
            equal.join(" and ")
        );
        let found = self.run_own(&sql, Checks::Nothing)?;
        let Some(row) = found.first() else { return Ok(()) };
        let message = format!(
            "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
            table.name, key.name
        );
        let detail = match row.first() {
            Some(Value::Bool(false)) => MIXED_KEY.to_string(),
            _ => format!("A row refers to a key that is not present in table \"{}\".", other.name),
        };
        Err(SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, message)
            .with_detail(detail)
            .with_table(table.schema.clone(), table.name.clone())
            .with_constraint(key.name.clone()))
    }

    fn drop_constraint(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        if_exists: bool,
        cascade: bool,
    ) -> Result<()> {
        if table.key_name.as_deref() == Some(name) {
            return self.drop_primary_key(table, name, cascade);
        }
        if let Some(index) = table.indexes.iter().find(|index| index.constraint && index.name == name) {
            let columns: Vec<usize> = index.columns.iter().map(|column| column.column).collect();
            self.release_constraint(table, (name, &columns), cascade)?;
            let table = &self.current(table.oid)?;
            self.change_engine(table, TableChange::new().drop_index(name), name)?;
            return self.redefine(table, |table| table.indexes.retain(|index| index.name != name));
        }
        let known = table.checks.iter().any(|check| check.name == name)
            || table.foreign_keys.iter().any(|key| key.name == name);
        if known {
            return self.redefine(table, |table| {
                table.checks.retain(|check| check.name != name);
                table.foreign_keys.retain(|key| key.name != name);
            });
        }
        let message = format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name);
        if if_exists {
            self.environment_mut().add_notice(
                Severity::Notice,
                SqlState::SUCCESSFUL_COMPLETION,
                message + ", skipping",
            );
            return Ok(());
        }
        Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
    }

    /// Gives a relation another name in its schema.
    pub(crate) fn rename_relation(&mut self, relation: &Relation, to: &str) -> Result<()> {
        let mut catalog = self.catalog_to_change();
        let Some((schema, from)) = catalog.relation_name(relation.oid()).cloned() else { return Ok(()) };
        self.check_relation_owner(relation)?;
        self.check_schema(&schema, CREATE)?;
        self.is_free(&schema, to, false)?;
        if matches!(relation, Relation::Table(_) | Relation::View(_))
            && let Some(view) = catalog.stored_queries().find(|view| names_relation(view, &schema, &from))
        {
            let message = format!("cannot rename {from} because view {} depends on it", view.name);
            let hint = "Drop the view first, and create it again.";
            return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message).with_hint(hint));
        }
        match relation {
            Relation::Table(table) => {
                let engine_name = self.engine_name(&schema, to);
                self.change_engine(table, TableChange::new().rename(engine_name), to)?;
                self.redefine(table, |table| {
                    table.name = to.to_string();
                    let renamed = |text: &mut String| *text = with_renamed_table(text, &from, to);
                    table.checks.iter_mut().for_each(|check| renamed(&mut check.condition));
                    table.columns.iter_mut().filter_map(|column| column.origin.text_mut()).for_each(renamed);
                })
            }
            Relation::View(view) => {
                let mut changed = view.as_ref().clone();
                changed.name = to.to_string();
                catalog.remove_relation(&schema, &from);
                catalog.put_relation(&schema, to, Relation::View(Arc::new(changed.clone())));
                self.publish(&[Object::View(changed)], catalog)
            }
            Relation::Sequence(sequence) => {
                let mut changed = sequence.as_ref().clone();
                changed.name = to.to_string();
                catalog.remove_relation(&schema, &from);
                catalog.put_relation(&schema, to, Relation::Sequence(Arc::new(changed.clone())));
                self.publish(&[Object::Sequence(changed)], catalog)
            }
            Relation::Index { table, .. } => {
                let table = self.current(*table)?;
                self.rename_constraint(&table, &from, to)
            }
        }
    }

    fn rename_constraint(&mut self, table: &Arc<Table>, from: &str, to: &str) -> Result<()> {
        let is_index = table.indexes.iter().any(|index| index.name == from);
        if is_index {
            self.is_free(&table.schema.clone(), to, false)?;
            self.change_engine(table, TableChange::new().rename_index(from, to), to)?;
        }
        let known = is_index
            || table.key_name.as_deref() == Some(from)
            || table.checks.iter().any(|check| check.name == from)
            || table.foreign_keys.iter().any(|key| key.name == from);
        if !known {
            let message = format!("constraint \"{from}\" for table \"{}\" does not exist", table.name);
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        }
        self.redefine(table, |table| {
            let rename = |name: &mut String| {
                if name == from {
                    *name = to.to_string();
                }
            };
            table.indexes.iter_mut().for_each(|index| rename(&mut index.name));
            table.checks.iter_mut().for_each(|check| rename(&mut check.name));
            table.foreign_keys.iter_mut().for_each(|key| rename(&mut key.name));
            table.key_name.iter_mut().for_each(rename);
        })
    }

    fn rename_column(&mut self, table: &Arc<Table>, from: &Name, to: &Name) -> Result<()> {
        let position = self.column_of(table, &from.text)?;
        if table.columns.iter().any(|column| column.name == to.text) {
            let message = format!("column \"{}\" of relation \"{}\" already exists", to.text, table.name);
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        if let Some(view) = self.column_users(table, position)?.views.first() {
            let message = format!(
                "cannot rename column {} of table {} because view {} depends on it",
                from.text, table.name, view.name
            );
            let hint = "Drop the view first, and create it again.";
            return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message).with_hint(hint));
        }
        self.rename_in_triggers(table, &from.text, &to.text)?;
        let change = TableChange::new().rename_column(from.text.as_str(), to.text.as_str());
        self.change_engine(table, change, &from.text)?;
        self.redefine(table, |table| {
            table.columns[position].name = to.text.clone();
            let renamed = |text: &mut String| *text = crate::parse::with_renamed(text, &from.text, &to.text);
            table.checks.iter_mut().for_each(|check| renamed(&mut check.condition));
            for column in &mut table.columns {
                if let ColumnOrigin::Generated(text)
                | ColumnOrigin::IndexKey(text)
                | ColumnOrigin::IndexPredicate(text) = &mut column.origin
                {
                    renamed(text);
                }
            }
        })
    }

    /// Renames a column in the table's triggers: where they fire at an update of it, and in their conditions.
    fn rename_in_triggers(&mut self, table: &Table, from: &str, to: &str) -> Result<()> {
        let mut catalog = self.catalog_to_change();
        let mut changed = Vec::new();
        for trigger in catalog.triggers_of(table.oid).to_vec() {
            let mut trigger = trigger.as_ref().clone();
            trigger.columns.iter_mut().filter(|name| *name == from).for_each(|name| *name = to.to_string());
            if let Some(condition) = &mut trigger.condition {
                *condition = crate::parse::with_renamed(condition, from, to);
            }
            catalog.put_trigger(Arc::new(trigger.clone()));
            changed.push(Object::Trigger(trigger));
        }
        if changed.is_empty() { Ok(()) } else { self.publish(&changed, catalog) }
    }

    /// Runs a statement of our own, which fires no triggers, and gives its rows. What of it the user wrote needs the user's privileges.
    pub(crate) fn run_internal(&mut self, sql: &str) -> Result<Vec<Vec<Value>>> {
        self.run_own(sql, Checks::Privileges)
    }

    /// Runs a statement of which the user wrote nothing, and which needs no privileges.
    pub(super) fn run_own(&mut self, sql: &str, checks: Checks) -> Result<Vec<Vec<Value>>> {
        let statements = crate::parse::parse(sql)?;
        let mut rows = Vec::new();
        for parsed in &statements {
            let collected = self.collect_rows(&parsed.statement, sql, checks, &mut rows);
            collected.map_err(SqlError::without_position)?;
        }
        Ok(rows)
    }
}

/// Adds a column behind all visible ones: the hidden ones of indexes move.
pub(crate) fn insert_column(table: &mut Table, column: crate::catalog::Column) {
    let position = table.visible().len();
    table.columns.insert(position, column);
    let columns = table.indexes.iter_mut().flat_map(|index| &mut index.columns);
    columns.filter(|column| column.column >= position).for_each(|column| column.column += 1);
}

/// A table without one of its columns: what names it goes, positions behind it move.
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
    table.checks.retain(|check| !crate::parse::names_column(&check.condition, &name));
}
