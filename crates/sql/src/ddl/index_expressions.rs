//! The hidden columns of partial indexes and of indexes on expressions.
//!
//! An expression that an index orders by is stored in a hidden column of the table, which every write computes as it
//! does generated columns. A predicate is stored as a column that is true where it holds, and NULL elsewhere: the
//! first column of its index. An index entry with a NULL equals no other, so that a unique index constrains the rows
//! for which the predicate holds, and no others.
//!
//! Invariants: a hidden column belongs to one index, and is dropped with it.

use std::sync::Arc;

use heddledb::TableChange;

use crate::bind::routines::is_immutable;
use crate::bind::tree::BoundExpr;
use crate::bind::tree::walk::walk;
use crate::bind::{Checks, Clause, predicate_value};
use crate::catalog::store::Object;
use crate::catalog::{Catalog, Column, ColumnOrigin, Index, Table};
use crate::ddl::alter_table::{insert_column, qualified};
use crate::ddl::create_table::{check_key_column, check_order, hidden_name};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::quote_identifier;
use crate::parse::syntax::{Expr, ExprKind, TextExpr};
use crate::session::Connection;
use crate::types::{Modifier, Type};

/// A key that an index orders by.
pub(super) struct Key {
    pub source: KeySource,
    pub descending: bool,
    pub nulls_at_other_end: bool,
    pub class: Option<String>,
}

#[derive(PartialEq)]
pub(super) enum KeySource {
    Column(usize),
    /// `name`: its part of the name of the index.
    Expression {
        text: String,
        name: String,
        ty: Type,
    },
    Predicate(String),
}

/// The part of an index's name for an expression.
pub(super) fn key_name(expr: &Expr) -> String {
    match &expr.kind {
        ExprKind::Call(call) => call.name.last().to_string(),
        ExprKind::Cast { operand, .. } => key_name(operand),
        ExprKind::Field { name, .. } => name.text.clone(),
        ExprKind::Column(parts) => parts.last().map_or(String::new(), |part| part.text.clone()),
        _ => "expr".to_string(),
    }
}

/// [`key_name`] of a text of the catalog's.
pub(crate) fn text_key_name(text: &str) -> String {
    crate::parse::parse_expression(text).map_or_else(|_| "expr".to_string(), |expr| key_name(&expr))
}

/// The parts of an index's name for its keys; a repeated name gets a number.
pub(super) fn key_names(keys: &[Key], table: &Table) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for key in keys {
        let base = match &key.source {
            KeySource::Column(column) => &table.columns[*column].name,
            KeySource::Expression { name, .. } => name,
            KeySource::Predicate(_) => continue,
        };
        let taken = |name: &String| names.contains(name);
        let numbered = (1..).map(|number: u32| format!("{base}{number}"));
        let name = std::iter::once(base.clone()).chain(numbered).find(|name| !taken(name));
        names.extend(name);
    }
    names
}

/// Returns true if an index stores an expression or a predicate that names a column.
pub(super) fn indexes_expression_on(table: &Table, index: &Index, column: &str) -> bool {
    let texts = table.hidden_columns(index).into_iter().filter_map(|hidden| table.columns[hidden].indexed());
    texts.into_iter().any(|text| crate::parse::names_column(text, column))
}

impl Connection {
    /// Binds an index's expression or predicate, and gives its type and its text as the catalog keeps it.
    ///
    /// # Errors
    /// 42P17 for a function that is not immutable, 0A000 for a subquery, and what binding reports.
    pub(super) fn bind_index_part(
        &mut self,
        table: &Arc<Table>,
        part: &TextExpr,
        clause: Clause,
        text: &str,
    ) -> Result<(Type, String)> {
        let bound = self.with_binder(text, |binder| {
            let target = binder.new_relation();
            let bound = binder.row_expression(table, target, &part.text, clause)?;
            match (clause, bound.ty()) {
                (Clause::IndexPredicate, Type::Bool | Type::Unknown) => Ok(bound),
                (Clause::IndexPredicate, ty) => {
                    let ty = ty.display_name();
                    let message = format!("argument of WHERE must be type boolean, not type {ty}");
                    Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message))
                }
                (_, Type::Unknown) => binder.assigned(bound, Type::Text, Modifier::NONE, "", 0),
                _ => Ok(bound),
            }
        })?;
        check_stable(&self.current_catalog(), &bound, clause)?;
        Ok((bound.ty(), self.row_text(table, &part.text, clause)?))
    }

    /// Adds the hidden columns that an index needs to a table. Returns the new table, and the positions of the index's
    /// keys.
    pub(super) fn place_keys(
        &mut self,
        table: &Arc<Table>,
        index: u32,
        (keys, is_unique): (&[Key], bool),
    ) -> Result<(Arc<Table>, Vec<usize>)> {
        for (number, key) in keys.iter().enumerate() {
            let (ty, value, origin) = match &key.source {
                KeySource::Column(_) => continue,
                KeySource::Expression { text, ty, .. } => {
                    (*ty, format!("({text})"), ColumnOrigin::IndexKey(text.clone()))
                }
                KeySource::Predicate(text) => {
                    (Type::Bool, predicate_value(text), ColumnOrigin::IndexPredicate(text.clone()))
                }
            };
            let column = Column {
                name: hidden_name(index, number),
                ty,
                modifier: Modifier::NONE,
                not_null: false,
                origin,
                domain: None,
                engine: 0,
                comment: None,
                acl: None,
                collation: None,
                settings: Default::default(),
            };
            check_order(ty)?;
            if is_unique {
                check_key_column(&column, "unique index")?;
            }
            self.add_hidden_column(table.oid, column, &value)?;
        }
        let table = self.current(table.oid)?;
        let mut positions = Vec::with_capacity(keys.len());
        for (number, key) in keys.iter().enumerate() {
            let name = hidden_name(index, number);
            let hidden = || table.columns.iter().position(|column| column.name == name);
            positions.extend(match key.source {
                KeySource::Column(column) => Some(column),
                _ => hidden(),
            });
        }
        Ok((table, positions))
    }

    /// Adds a hidden column, and gives the rows their values.
    pub(super) fn add_hidden_column(&mut self, table: u32, column: Column, value: &str) -> Result<()> {
        let table = self.current(table)?;
        let name = column.name.clone();
        let position = table.visible().len();
        let engine_position = table.engine.definition().columns().len();
        let data_type = crate::storage::engine_type(column.ty, column.modifier);
        let change = TableChange::new().add_column(name.as_str(), data_type, heddledb::Value::Null);
        let engine = self.change_engine(&table, change, &name)?;
        // While its values are computed, the column is one that statements can name.
        let mut bare = Table { engine, ..table.as_ref().clone() };
        let plain = Column { origin: ColumnOrigin::Nothing, engine: engine_position, ..column.clone() };
        insert_column(&mut bare, plain);
        let bare = Arc::new(bare);
        let mut catalog = self.catalog_to_change();
        catalog.put_table(bare.clone());
        self.publish(&[Object::table(&bare)], catalog)?;
        let text = format!("update {} set {} = {value}", qualified(&bare), quote_identifier(&name));
        self.restricted(bare.rights.owner, |connection| connection.run_own(&text, Checks::Nothing))?;
        let current = self.current(table.oid)?;
        self.redefine(&current, |table| table.columns[position].origin = column.origin)
    }

    /// Drops the indexes whose expressions or predicates name a column, as PostgreSQL does before it drops the column.
    pub(super) fn without_indexes_on(&mut self, table: &Arc<Table>, column: &str) -> Result<Arc<Table>> {
        for index in table.indexes.iter().filter(|index| indexes_expression_on(table, index, column)) {
            self.drop_index(table.oid, index.oid, false)?;
        }
        self.current(table.oid)
    }
}

/// Refuses what gives another value tomorrow.
fn check_stable(catalog: &Catalog, expr: &BoundExpr, clause: Clause) -> Result<()> {
    let name = if clause == Clause::IndexPredicate { "index predicate" } else { "index expression" };
    let mut wrong = None;
    walk(expr, &mut |part| match part {
        part if !is_immutable(catalog, part) => {
            let message = format!("functions in {name} must be marked IMMUTABLE");
            wrong = Some(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message));
        }
        BoundExpr::Subquery(_) => {
            wrong = Some(SqlError::unsupported(format!("cannot use subquery in {name}")));
        }
        _ => {}
    });
    wrong.map_or(Ok(()), Err)
}
