//! Foreign keys: the keys that they refer to are looked up when they are declared.

use crate::catalog::{
    Catalog, Column, ColumnOrigin, ForeignKey, Index, KeyAction, Persistence, Relation, Table,
};
use crate::ddl::create_table::{TableDraft, free_name};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{Reference, ReferenceAction};
use crate::session::Connection;

/// A foreign key as it was declared: its name, its columns, and what it refers to.
pub(crate) type Declared = (Option<String>, Vec<usize>, Reference);

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_FOREIGN_KEY, message)
}

fn action(action: ReferenceAction) -> KeyAction {
    match action {
        ReferenceAction::NoAction => KeyAction::NoAction,
        ReferenceAction::Restrict => KeyAction::Restrict,
        ReferenceAction::Cascade => KeyAction::Cascade,
        ReferenceAction::SetNull => KeyAction::SetNull,
        ReferenceAction::SetDefault => KeyAction::SetDefault,
    }
}

impl Connection {
    /// Looks up what the foreign keys of a table refer to: its own columns, or another table's.
    pub(crate) fn resolve_references(
        &self,
        draft: &TableDraft,
        declared: &[Declared],
        catalog: &Catalog,
    ) -> Result<Vec<ForeignKey>> {
        let mut keys: Vec<ForeignKey> = Vec::with_capacity(declared.len());
        for (name, columns, reference) in declared {
            let own = reference.table.last() == draft.name
                && reference.table.schema().is_none_or(|schema| schema == draft.schema)
                && catalog
                    .relation(&draft.schema, &draft.name)
                    .is_none_or(|relation| relation.oid() == draft.oid);
            let (oid, target_columns, key, indexes) = if own {
                (draft.oid, draft.columns.clone(), draft.key.clone(), draft.indexes.clone())
            } else {
                match self.find_relation(&reference.table)? {
                    Relation::Table(table) if table.stored_query.is_none() => {
                        check_lifetimes(draft, &table)?;
                        self.check_references(&Relation::Table(table.clone()), reference)?;
                        (table.oid, table.columns.clone(), table.key.clone(), table.indexes.clone())
                    }
                    _ => {
                        let message = format!("referenced relation \"{}\" is not a table", reference.table);
                        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
                    }
                }
            };
            let references = referenced(reference, &target_columns, &key, &indexes)?;
            let is_generated =
                |&column: &usize| matches!(draft.columns[column].origin, ColumnOrigin::Generated(_));
            if columns.iter().any(is_generated) {
                check_generated(reference)?;
            }
            if references.len() != columns.len() {
                return Err(invalid("number of referencing and referenced columns for foreign key disagree"));
            }
            let name = match name {
                Some(name) => name.clone(),
                None => {
                    let names: Vec<&str> =
                        columns.iter().map(|&column| draft.columns[column].name.as_str()).collect();
                    let known = catalog.table_by_oid(draft.oid).map_or(&[][..], |table| &table.foreign_keys);
                    let taken = |name: &str| keys.iter().chain(known).any(|key| key.name == name);
                    free_name(&draft.name, &names.join("_"), "fkey", taken)
                }
            };
            for (&column, &other) in columns.iter().zip(&references) {
                check_types(&name, &draft.columns[column], &target_columns[other])?;
            }
            keys.push(ForeignKey {
                name,
                columns: columns.clone(),
                table: oid,
                references,
                is_full: reference.is_full,
                on_delete: action(reference.on_delete),
                on_update: action(reference.on_update),
                deferrable: reference.deferrable,
                deferred: reference.initially_deferred,
                comment: None,
            });
        }
        Ok(keys)
    }
}

impl Connection {
    /// Makes a foreign key deferrable or not.
    ///
    /// # Errors
    /// 42704, 42809.
    pub(super) fn alter_constraint(
        &mut self,
        table: &Table,
        name: &str,
        (deferrable, deferred): (bool, bool),
    ) -> Result<()> {
        if table.foreign_keys.iter().any(|key| key.name == name) {
            return self.redefine(table, |table| {
                for key in table.foreign_keys.iter_mut().filter(|key| key.name == name) {
                    (key.deferrable, key.deferred) = (deferrable, deferred);
                }
            });
        }
        let of = &table.name;
        let is_other = table.checks.iter().any(|check| check.name == name)
            || table.indexes.iter().any(|index| index.constraint && index.name == name)
            || table.key_name.as_deref() == Some(name);
        if is_other {
            let message =
                format!("constraint \"{name}\" of relation \"{of}\" is not a foreign key constraint");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        let message = format!("constraint \"{name}\" of relation \"{of}\" does not exist");
        Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
    }

    /// Checks that a table may become logged or unlogged: a logged one refers to logged ones only.
    ///
    /// # Errors
    /// 42P16.
    pub(super) fn check_persistence(&self, table: &Table, to: Persistence) -> Result<()> {
        let invalid = |message: String| SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message);
        let name = &table.name;
        if table.persistence.is_temporary() {
            let message = format!("cannot change logged status of table \"{name}\" because it is temporary");
            return Err(invalid(message).with_table(&table.schema, name));
        }
        let refuse = |key: &ForeignKey, to: &str, other: &Table| {
            let is = if to == "logged" { "unlogged" } else { "logged" };
            let other = &other.name;
            let message = format!(
                "could not change table \"{name}\" to {to} because it references {is} table \"{other}\""
            );
            Err(invalid(message).with_table(&table.schema, name).with_constraint(&key.name))
        };
        let catalog = &self.environment().catalog;
        if to == Persistence::Permanent {
            let others = table.foreign_keys.iter().filter(|key| key.table != table.oid);
            let mut others = others.filter_map(|key| Some((key, catalog.table_by_oid(key.table)?)));
            let unlogged = others.find(|(_, other)| other.persistence == Persistence::Unlogged);
            return unlogged.map_or(Ok(()), |(key, other)| refuse(key, "logged", other));
        }
        let logged = catalog.tables().filter(|other| other.persistence == Persistence::Permanent);
        let referring = logged.filter(|other| other.oid != table.oid).flat_map(|other| {
            other.foreign_keys.iter().filter(|key| key.table == table.oid).map(move |key| (key, other))
        });
        // PostgreSQL's message says that this table refers to the other one, too.
        let first = referring.min_by_key(|(_, other)| other.oid);
        first.map_or(Ok(()), |(key, other)| refuse(key, "unlogged", other))
    }
}

/// Checks that the rows of a referenced table live as long as those that refer to them.
///
/// # Errors
/// 42P16: the tables are of different persistence. 0A000: a commit empties the referenced table alone; PostgreSQL reports
/// this at the commit.
fn check_lifetimes(draft: &TableDraft, referenced: &Table) -> Result<()> {
    let (own, other) = (draft.persistence, referenced.persistence);
    let message = match own {
        own if own.is_temporary() && !other.is_temporary() => {
            "constraints on temporary tables may reference only temporary tables"
        }
        Persistence::Permanent if other != Persistence::Permanent => {
            "constraints on permanent tables may reference only permanent tables"
        }
        Persistence::Unlogged if other.is_temporary() => {
            "constraints on unlogged tables may reference only permanent or unlogged tables"
        }
        Persistence::EmptiedAtCommit => return Ok(()),
        _ if other == Persistence::EmptiedAtCommit => {
            let message = "unsupported ON COMMIT and foreign key combination";
            let detail = format!(
                "Tables \"{}\" and \"{}\" do not have the same ON COMMIT setting.",
                draft.name, referenced.name
            );
            return Err(SqlError::unsupported(message).with_detail(detail));
        }
        _ => return Ok(()),
    };
    Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message))
}

/// The columns referred to: those named, or the primary key.
fn referenced(
    reference: &Reference,
    columns: &[Column],
    key: &[usize],
    indexes: &[Index],
) -> Result<Vec<usize>> {
    if reference.columns.is_empty() {
        if indexes.iter().any(|index| index.primary) {
            return Err(deferrable("primary key", reference));
        }
        if key.is_empty() {
            let message = format!("there is no primary key for referenced table \"{}\"", reference.table);
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        }
        return Ok(key.to_vec());
    }
    let mut positions = Vec::with_capacity(reference.columns.len());
    for name in &reference.columns {
        let position = columns.iter().position(|column| column.name == name.text).ok_or_else(|| {
            let message =
                format!("column \"{}\" referenced in foreign key constraint does not exist", name.text);
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })?;
        positions.push(position);
    }
    let same = |known: &[usize]| {
        known.len() == positions.len() && known.iter().all(|column| positions.contains(column))
    };
    let is_over =
        |index: &&Index| same(&index.columns.iter().map(|column| column.column).collect::<Vec<usize>>());
    let mut unique = indexes.iter().filter(|index| index.unique).filter(is_over).peekable();
    let has_deferrable = unique.peek().is_some();
    if same(key) || unique.any(Index::is_unique_always) {
        return Ok(positions);
    }
    if has_deferrable {
        return Err(deferrable("unique constraint", reference));
    }
    Err(invalid(format!(
        "there is no unique constraint matching given keys for referenced table \"{}\"",
        reference.table
    )))
}

/// Checks that no action writes columns that are generated.
///
/// # Errors
/// 42601.
fn check_generated(reference: &Reference) -> Result<()> {
    let is_set = |action| matches!(action, ReferenceAction::SetNull | ReferenceAction::SetDefault);
    let clause = match (reference.on_update, reference.on_delete) {
        (ReferenceAction::Cascade, _) => "ON UPDATE",
        (update, _) if is_set(update) => "ON UPDATE",
        (_, delete) if is_set(delete) => "ON DELETE",
        _ => return Ok(()),
    };
    let message = format!("invalid {clause} action for foreign key constraint containing generated column");
    Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
}

fn deferrable(kind: &str, reference: &Reference) -> SqlError {
    let message = format!("cannot use a deferrable {kind} for referenced table \"{}\"", reference.table);
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
}

pub(super) fn check_types(key: &str, column: &Column, other: &Column) -> Result<()> {
    if crate::run::may_refer(column.ty, other.ty) {
        return Ok(());
    }
    let detail = format!(
        "Key columns \"{}\" and \"{}\" are of incompatible types: {} and {}.",
        column.name,
        other.name,
        column.ty.display_name(),
        other.ty.display_name()
    );
    let message = format!("foreign key constraint \"{key}\" cannot be implemented");
    Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).with_detail(detail))
}
