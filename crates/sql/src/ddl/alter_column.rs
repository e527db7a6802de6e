//! ALTER TABLE … ALTER COLUMN: defaults, NOT NULL, identity.

use std::sync::Arc;

use heddledb::TableChange;

use crate::catalog::rights::RightsKind;
use crate::catalog::store::Object;
use crate::catalog::{Column, ColumnOrigin, Relation, Sequence, Table};
use crate::ddl::create_table::{TableDraft, free_name};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{AlterAction, SequenceOption};
use crate::plan::value_for_all_rows;
use crate::session::Connection;
use crate::storage::encode;
use crate::types::Type;

impl Connection {
    pub(crate) fn alter_column(
        &mut self,
        table: &Arc<Table>,
        action: &AlterAction,
        text: &str,
    ) -> Result<()> {
        match action {
            AlterAction::SetDefault { column, default } => {
                let position = self.column_of(table, &column.text)?;
                let is = match &table.columns[position].origin {
                    ColumnOrigin::Generated(_) => Some("a generated column"),
                    ColumnOrigin::Identity { .. } => Some("an identity column"),
                    _ => None,
                };
                if let Some(is) = is {
                    let message =
                        format!("column \"{}\" of relation \"{}\" is {is}", column.text, table.name);
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                }
                let origin = match default {
                    Some(default) => ColumnOrigin::Default(self.stored_default(&default.text)),
                    None => ColumnOrigin::Nothing,
                };
                let mut draft = TableDraft::of(table);
                draft.columns[position].origin = origin;
                self.check_draft(&mut draft, text)?;
                let origin = draft.columns.swap_remove(position).origin;
                self.redefine(table, |table| table.columns[position].origin = origin)
            }
            AlterAction::SetNotNull { column, not_null } => self.set_not_null(table, &column.text, *not_null),
            AlterAction::SetType { column, ty, collation, using } => {
                self.set_type(table, &column.text, (ty, collation.as_ref()), using.as_ref(), text)
            }
            AlterAction::AddIdentity { column, always, options } => {
                self.add_identity(table, &column.text, *always, options)
            }
            AlterAction::ChangeIdentity { column, always, options } => {
                self.change_identity(table, &column.text, *always, options)
            }
            AlterAction::DropIdentity { column, if_exists } => {
                let position = self.column_of(table, &column.text)?;
                let sequence = self.identity_sequence(table, position);
                self.drop_origin(table, position, sequence.is_some(), *if_exists, "an identity column")?;
                sequence.map_or(Ok(()), |sequence| self.drop_owned_sequence(sequence.oid, false))
            }
            AlterAction::DropExpression { column, if_exists } => {
                let position = self.column_of(table, &column.text)?;
                let is_generated = matches!(table.columns[position].origin, ColumnOrigin::Generated(_));
                self.drop_origin(table, position, is_generated, *if_exists, "a stored generated column")
            }
            _ => Err(SqlError::unsupported("this change of a column is not supported")),
        }
    }

    /// The value that all existing rows have in a new column, if that is one value that the column may have: they get
    /// it with the column, and none of them is written.
    pub(super) fn past_value(&mut self, column: &Column, text: &str) -> Result<Option<heddledb::Value>> {
        if column.domain.is_some() || !matches!(column.origin, ColumnOrigin::Default(_)) {
            return Ok(None);
        }
        let default = self.with_binder(text, |binder| binder.default_value(column))?;
        // An error is that of the first row, if there is one.
        let value = value_for_all_rows(&default, self.environment_mut()).unwrap_or_default();
        let value = value.map(|value| encode(column.ty, column.modifier, &value));
        Ok(value.transpose()?.filter(|value| !(column.not_null && value.is_null())))
    }

    fn drop_origin(
        &mut self,
        table: &Table,
        position: usize,
        is_such: bool,
        if_exists: bool,
        what: &str,
    ) -> Result<()> {
        if is_such {
            return self.redefine(table, |table| table.columns[position].origin = ColumnOrigin::Nothing);
        }
        if if_exists {
            return Ok(());
        }
        Err(is_not(table, position, what))
    }

    fn set_not_null(&mut self, table: &Arc<Table>, name: &str, not_null: bool) -> Result<()> {
        let position = self.column_of(table, name)?;
        if !not_null && table.columns[position].is_identity() {
            let message = format!("column \"{name}\" of relation \"{}\" is an identity column", table.name);
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        if !not_null && table.is_in_key(position) {
            let message = format!("column \"{name}\" is in a primary key");
            return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
        }
        if table.columns[position].not_null == not_null {
            return Ok(());
        }
        let change = if not_null {
            self.refuse_nulls(table, name)?;
            TableChange::new().not_null(name)
        } else {
            TableChange::new().nullable(name)
        };
        self.change_engine(table, change, name)?;
        self.redefine(table, |table| table.columns[position].not_null = not_null)
    }

    fn add_identity(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        always: bool,
        options: &[SequenceOption],
    ) -> Result<()> {
        let position = self.column_of(table, name)?;
        let column = &table.columns[position];
        if column.origin != ColumnOrigin::Nothing || !column.not_null {
            let message = if column.is_identity() {
                format!("column \"{name}\" of relation \"{}\" is already an identity column", table.name)
            } else if column.not_null {
                format!("column \"{name}\" of relation \"{}\" already has a default value", table.name)
            } else {
                format!(
                    "column \"{name}\" of relation \"{}\" must be declared NOT NULL before identity can be added",
                    table.name
                )
            };
            return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
        }
        check_identity_type(column.ty)?;
        let mut catalog = self.catalog_to_change();
        let sequence_name = self.identity_sequence_name(&table.schema, options, || {
            free_name(&table.name, name, "seq", |name| catalog.relation(&table.schema, name).is_some())
        })?;
        let oid = catalog.new_oid();
        let mut sequence =
            crate::ddl::objects::new_sequence(oid, &table.schema, &sequence_name, Some(column.ty), options)?;
        sequence.owner = Some((table.oid, position));
        sequence.rights = self.new_rights(RightsKind::Sequence, &table.schema);
        sequence.rights.change_owner(table.rights.owner);
        catalog.put_relation(&table.schema, &sequence_name, Relation::Sequence(Arc::new(sequence.clone())));
        self.publish(&[Object::Sequence(sequence)], catalog)?;
        self.redefine(table, |table| {
            table.columns[position].origin = ColumnOrigin::Identity { always, sequence: oid };
        })
    }

    fn change_identity(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        always: Option<bool>,
        options: &[SequenceOption],
    ) -> Result<()> {
        let position = self.column_of(table, name)?;
        let Some(sequence) = self.identity_sequence(table, position) else {
            return Err(is_not(table, position, "an identity column"));
        };
        if let Some(option) = options.iter().find_map(refused_in_identity) {
            let message = format!("sequence option \"{option}\" not supported here");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        if !options.is_empty() {
            self.change_known_sequence(&sequence, options)?;
        }
        let Some(always) = always else { return Ok(()) };
        self.redefine(table, |table| {
            table.columns[position].origin = ColumnOrigin::Identity { always, sequence: sequence.oid };
        })
    }

    /// The sequence of a column, if it is an identity column.
    pub(super) fn identity_sequence(&mut self, table: &Table, position: usize) -> Option<Arc<Sequence>> {
        let ColumnOrigin::Identity { sequence, .. } = table.columns[position].origin else { return None };
        self.catalog_to_change().sequences().find(|known| known.oid == sequence).cloned()
    }
}

/// The option that an identity column's sequence does not take later.
fn refused_in_identity(option: &SequenceOption) -> Option<&'static str> {
    match option {
        SequenceOption::As(_) => Some("as"),
        SequenceOption::OwnedBy(_) => Some("owned_by"),
        SequenceOption::Name(_) => Some("sequence_name"),
        _ => None,
    }
}

/// # Errors
/// 22023.
pub(super) fn check_identity_type(ty: Type) -> Result<()> {
    if matches!(ty, Type::Int2 | Type::Int4 | Type::Int8) {
        return Ok(());
    }
    let message = "identity column type must be smallint, integer, or bigint";
    Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
}

fn is_not(table: &Table, position: usize, what: &str) -> SqlError {
    let name = &table.columns[position].name;
    let message = format!("column \"{name}\" of relation \"{}\" is not {what}", table.name);
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
}
