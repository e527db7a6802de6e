//! The columns of CREATE TABLE: types, column constraints, serial and identity columns with their sequences.

use super::draft::TableDraft;
use super::names::free_name;
use crate::bind::NamedType;
use crate::catalog::rights::RightsKind;
use crate::catalog::system::declared_collation;
use crate::catalog::{Catalog, Column, ColumnOrigin, Sequence};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{
    ColumnConstraintKind, ColumnDefinition, CreateTable, ObjectName, SequenceOption, TypeName,
};
use crate::session::Connection;
use crate::types::{Modifier, Type};

/// The most columns of a table.
const COLUMNS_MAX: usize = 1_600;

fn too_wide() -> SqlError {
    let message = format!("tables can have at most {COLUMNS_MAX} columns");
    SqlError::new(SqlState::TOO_MANY_COLUMNS, message)
}

/// Refuses the names of the columns that every table has.
pub(crate) fn check_column_name(name: &str) -> Result<()> {
    if !["tableoid", "ctid", "xmin", "xmax", "cmin", "cmax"].contains(&name) {
        return Ok(());
    }
    let message = format!("column name \"{name}\" conflicts with a system column name");
    Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message))
}

impl Connection {
    pub(super) fn draft_columns(
        &mut self,
        create: &CreateTable,
        draft: &mut TableDraft,
        catalog: &mut Catalog,
        text: &str,
    ) -> Result<()> {
        let mut likes = create.likes.iter().peekable();
        for (position, definition) in create.columns.iter().enumerate() {
            while let Some(like) = likes.next_if(|like| like.position <= position) {
                self.draft_like(like, draft, catalog)?;
            }
            self.draft_column(definition, draft, catalog, text)?;
        }
        for like in likes {
            self.draft_like(like, draft, catalog)?;
        }
        if draft.columns.len() > COLUMNS_MAX {
            return Err(too_wide());
        }
        Ok(())
    }

    /// A column with its constraints.
    pub(crate) fn draft_column(
        &mut self,
        definition: &ColumnDefinition,
        draft: &mut TableDraft,
        catalog: &mut Catalog,
        text: &str,
    ) -> Result<()> {
        let name = &definition.name.text;
        if draft.columns.len() >= COLUMNS_MAX {
            return Err(too_wide());
        }
        check_column_name(name)?;
        if draft.columns.iter().any(|column| column.name == *name) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        let serial = serial_type(&definition.ty);
        let named = match serial {
            Some(ty) => NamedType { ty, modifier: Modifier::NONE, domain: None },
            None => self.with_binder(text, |binder| binder.named_type(&definition.ty))?,
        };
        if named.ty.category() == crate::types::Category::Pseudo {
            let message = format!("column \"{name}\" has pseudo-type {}", named.ty.display_name());
            return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
        }
        self.check_type_usage(&named)?;
        let collation = self.column_collation(definition.collation.as_ref(), named.ty, text)?;
        let domain = named.domain.as_ref();
        draft.columns.push(Column {
            name: name.clone(),
            ty: named.ty,
            modifier: named.modifier,
            not_null: domain.is_some_and(|domain| self.current_catalog().domain_refuses_null(domain)),
            origin: ColumnOrigin::Nothing,
            domain: domain.map(|domain| domain.oid),
            engine: 0,
            comment: None,
            acl: None,
            collation,
            settings: Default::default(),
        });
        let position = draft.columns.len() - 1;
        if let Some(ty) = serial {
            let sequence = self.owned_sequence(draft, position, ty, &[], catalog)?;
            draft.columns[position].not_null = true;
            let default = format!("nextval({}::oid::regclass)", sequence.oid);
            draft.columns[position].origin = ColumnOrigin::Default(default);
            draft.sequences.push(sequence);
        }
        self.draft_column_constraints(definition, position, draft, catalog)
    }

    /// The oid of the collation that a column is declared with, unless it is the default.
    pub(in crate::ddl) fn column_collation(
        &mut self,
        collation: Option<&ObjectName>,
        ty: Type,
        text: &str,
    ) -> Result<Option<u32>> {
        let Some(collation) = collation else { return Ok(None) };
        self.with_binder(text, |binder| binder.check_collation(collation, ty))?;
        Ok(declared_collation(collation.last()))
    }

    fn draft_column_constraints(
        &mut self,
        definition: &ColumnDefinition,
        position: usize,
        draft: &mut TableDraft,
        catalog: &mut Catalog,
    ) -> Result<()> {
        let mut null = None;
        for constraint in &definition.constraints {
            let has_origin = draft.columns[position].origin != ColumnOrigin::Nothing;
            match &constraint.kind {
                ColumnConstraintKind::Null | ColumnConstraintKind::NotNull => {
                    let not_null = constraint.kind == ColumnConstraintKind::NotNull;
                    if null.is_some_and(|known| known != not_null) {
                        return Err(conflicting_null(draft, position));
                    }
                    null = Some(not_null);
                    draft.columns[position].not_null |= not_null;
                }
                ColumnConstraintKind::Default(_)
                | ColumnConstraintKind::Generated(_)
                | ColumnConstraintKind::Identity { .. }
                    if has_origin =>
                {
                    return Err(origin_twice(draft, position, &constraint.kind));
                }
                ColumnConstraintKind::Default(default) => {
                    draft.columns[position].origin =
                        ColumnOrigin::Default(self.stored_default(&default.text));
                }
                ColumnConstraintKind::Generated(expr) => {
                    draft.columns[position].origin = ColumnOrigin::Generated(expr.text.clone());
                }
                ColumnConstraintKind::Identity { always, options } => {
                    if null == Some(false) {
                        return Err(conflicting_null(draft, position));
                    }
                    null = Some(true);
                    self.draft_identity(*always, options, position, draft, catalog)?;
                }
                ColumnConstraintKind::Check(condition) => {
                    draft.check(constraint.name.as_ref(), condition)?;
                }
                ColumnConstraintKind::Unique { nulls_equal, timing } => {
                    draft.unique(constraint.name.as_ref(), vec![position], *nulls_equal, *timing);
                }
                ColumnConstraintKind::PrimaryKey(timing) => {
                    draft.primary_key(constraint.name.as_ref(), vec![position], *timing)?
                }
                ColumnConstraintKind::References(reference) => {
                    let name = constraint.name.as_ref().map(|name| name.text.clone());
                    draft.foreign_keys.push((name, vec![position], reference.clone()));
                }
            }
        }
        Ok(())
    }

    fn draft_identity(
        &mut self,
        always: bool,
        options: &[SequenceOption],
        position: usize,
        draft: &mut TableDraft,
        catalog: &mut Catalog,
    ) -> Result<()> {
        let ty = draft.columns[position].ty;
        if !matches!(ty, Type::Int2 | Type::Int4 | Type::Int8) {
            let message = "identity column type must be smallint, integer, or bigint";
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        let sequence = self.owned_sequence(draft, position, ty, options, catalog)?;
        draft.columns[position].not_null = true;
        draft.columns[position].origin = ColumnOrigin::Identity { always, sequence: sequence.oid };
        draft.sequences.push(sequence);
        Ok(())
    }

    /// The sequence of a serial or identity column.
    pub(super) fn owned_sequence(
        &mut self,
        draft: &TableDraft,
        position: usize,
        ty: Type,
        options: &[SequenceOption],
        catalog: &mut Catalog,
    ) -> Result<Sequence> {
        let column = &draft.columns[position].name;
        let taken = |name: &str| {
            catalog.relation(&draft.schema, name).is_some()
                || draft.sequences.iter().any(|sequence| sequence.name == name)
        };
        let new_name = || free_name(&draft.name, column, "seq", taken);
        let name = self.identity_sequence_name(&draft.schema, options, new_name)?;
        let oid = catalog.new_oid();
        let mut sequence = crate::ddl::objects::new_sequence(oid, &draft.schema, &name, Some(ty), options)?;
        sequence.owner = Some((draft.oid, position));
        sequence.rights = self.new_rights(RightsKind::Sequence, &draft.schema);
        sequence.rights.change_owner(draft.rights.owner);
        let is_new = self.current_catalog().relation(&draft.schema, &draft.name).is_none();
        self.note_implicit_sequence(&name, (&draft.name, &draft.columns[position].name), is_new);
        Ok(sequence)
    }
}

/// `serial` and its kin.
fn serial_type(name: &TypeName) -> Option<Type> {
    if name.dimensions > 0 || name.name.schema().is_some() {
        return None;
    }
    match name.name.last() {
        "serial" | "serial4" => Some(Type::Int4),
        "bigserial" | "serial8" => Some(Type::Int8),
        "smallserial" | "serial2" => Some(Type::Int2),
        _ => None,
    }
}

/// The error of a column with a second default, generation expression or identity.
fn origin_twice(draft: &TableDraft, position: usize, kind: &ColumnConstraintKind) -> SqlError {
    let column = &draft.columns[position];
    let is_identity = column.is_identity() || matches!(kind, ColumnConstraintKind::Identity { .. });
    let what = if is_identity { "both default and identity" } else { "multiple default values" };
    let (name, table) = (&column.name, &draft.name);
    let message = format!("{what} specified for column \"{name}\" of table \"{table}\"");
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

/// The error of a column declared both NULL and NOT NULL.
fn conflicting_null(draft: &TableDraft, position: usize) -> SqlError {
    let (name, table) = (&draft.columns[position].name, &draft.name);
    let message =
        format!("conflicting NULL/NOT NULL declarations for column \"{name}\" of table \"{table}\"");
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}
