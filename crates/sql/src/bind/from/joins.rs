//! Joins in FROM: ON, USING, NATURAL, and the names that a join shows.
//!
//! Source: PostgreSQL 15, `transformFromClauseItem` in `parse_clause.c`.

use super::{Item, position_of};
use crate::bind::binder::Binder;
use crate::bind::scope::{Clause, Entry, VisibleColumn};
use crate::bind::tree::{BoundExpr, BoundFrom, JoinKind};
use crate::error::{Result, SqlState};
use crate::parse::syntax::{Alias, At, Expr, JoinCondition, JoinType, Name, TableRef};
use crate::types::Modifier;

impl Binder<'_> {
    pub(super) fn join_item(
        &mut self,
        left: &TableRef,
        right: &TableRef,
        kind: JoinType,
        condition: &JoinCondition,
        alias: Option<&Alias>,
        at: At,
    ) -> Result<Item> {
        let outer = |is_nullable: bool| is_nullable.then_some("an outer join");
        let nulls_left = outer(matches!(kind, JoinType::Right | JoinType::Full));
        let nulls_right = outer(matches!(kind, JoinType::Left | JoinType::Full));
        let left = self.in_place(nulls_left, |binder| binder.bind_item(left))?;
        // LATERAL on the right may name items to the left.
        let before = self.scope().entries.len();
        self.scope().entries.extend(left.entries.iter().cloned());
        let right_item = self.in_place(nulls_right, |binder| binder.bind_item(right));
        self.scope().entries.truncate(before);
        let right_item = right_item?;
        self.check_names_across(&left, &right_item, right)?;
        let kind = match kind {
            JoinType::Cross => JoinKind::Cross,
            JoinType::Inner => JoinKind::Inner,
            JoinType::Left => JoinKind::Left,
            JoinType::Right => JoinKind::Right,
            JoinType::Full => JoinKind::Full,
        };
        let (mut left, mut right_item) = (left, right_item);
        if matches!(kind, JoinKind::Right | JoinKind::Full) {
            left.entries.iter_mut().for_each(|entry| entry.is_nullable = true);
        }
        if matches!(kind, JoinKind::Left | JoinKind::Full) {
            right_item.entries.iter_mut().for_each(|entry| entry.is_nullable = true);
        }
        let (on, entries) = match condition {
            JoinCondition::None => (None, [left.entries, right_item.entries].concat()),
            JoinCondition::On(condition) => {
                let entries = [left.entries, right_item.entries].concat();
                (Some(self.join_on(condition, &entries)?), entries)
            }
            JoinCondition::Using(names, joined) => {
                self.join_using(left.entries, right_item.entries, names, joined.as_ref(), kind, at)?
            }
            JoinCondition::Natural(end) => {
                let names = common_names(&left.entries, &right_item.entries, at);
                self.note_natural_join(at, *end, &names);
                self.join_using(left.entries, right_item.entries, &names, None, kind, at)?
            }
        };
        let from = BoundFrom::Join { kind, left: Box::new(left.from), right: Box::new(right_item.from), on };
        let entries = match alias {
            Some(alias) => vec![self.aliased_join(entries, alias)?],
            None => entries,
        };
        Ok(Item { from, entries })
    }

    fn check_names_across(&self, left: &Item, right: &Item, item: &TableRef) -> Result<()> {
        for entry in right.entries.iter().filter(|entry| entry.name.is_some()) {
            if left.entries.iter().any(|other| other.name == entry.name && other.schema == entry.schema) {
                let name = entry.name.as_deref().unwrap_or_default();
                let message = format!("table name \"{name}\" specified more than once");
                return Err(self.error(position_of(item), SqlState::DUPLICATE_ALIAS, message));
            }
        }
        Ok(())
    }

    /// ON names only the two sides, and the queries around.
    fn join_on(&mut self, condition: &Expr, entries: &[Entry]) -> Result<BoundExpr> {
        let outer = std::mem::replace(&mut self.scope().entries, entries.to_vec());
        let on = self.clause_condition(condition, Clause::JoinOn);
        self.scope().entries = outer;
        on
    }

    /// USING and NATURAL: the joined columns are first, once.
    fn join_using(
        &mut self,
        mut left: Vec<Entry>,
        mut right: Vec<Entry>,
        names: &[Name],
        joined: Option<&Name>,
        kind: JoinKind,
        at: At,
    ) -> Result<(Option<BoundExpr>, Vec<Entry>)> {
        let (mut conditions, mut merged) = (Vec::new(), Vec::new());
        for (position, name) in names.iter().enumerate() {
            if names[..position].iter().any(|other| other.text == name.text) {
                let message = format!("column name \"{}\" appears more than once in USING clause", name.text);
                return Err(self.error(name.at, SqlState::DUPLICATE_COLUMN, message));
            }
            let left_column = self.using_column(&left, name, "left")?;
            let right_column = self.using_column(&right, name, "right")?;
            self.pin_columns(&[left_column.clone(), right_column.clone()]);
            let (left_expr, right_expr) = (left_column.expr.clone(), right_column.expr.clone());
            conditions.push(self.operator("=", left_expr.clone(), right_expr.clone(), at)?);
            let (pair, ty) = self.unify(vec![left_expr, right_expr], "JOIN/USING", at)?;
            let expr = match (kind, &pair[..]) {
                (JoinKind::Right, [_, right]) => right.clone(),
                (JoinKind::Full, _) => BoundExpr::Coalesce { operands: pair, ty },
                (_, [left, ..]) => left.clone(),
                _ => BoundExpr::null(ty),
            };
            let same = left_column.modifier == right_column.modifier;
            let modifier = if same { left_column.modifier } else { Modifier::NONE };
            let source = if kind == JoinKind::Right { right_column.source } else { left_column.source };
            merged.push(VisibleColumn { name: name.text.clone(), expr, modifier, source });
        }
        let is_merged = |column: &VisibleColumn| names.iter().any(|name| name.text == column.name);
        let visible = left.iter().chain(&right).filter(|entry| entry.unqualified);
        let rest =
            visible.flat_map(|entry| entry.columns.iter()).filter(|column| !is_merged(column)).cloned();
        let columns: Vec<VisibleColumn> = merged.iter().cloned().chain(rest).collect();
        let on = match conditions.len() {
            0 => None,
            1 => conditions.pop(),
            _ => Some(BoundExpr::And(conditions)),
        };
        for entry in left.iter_mut().chain(&mut right) {
            entry.unqualified = false;
        }
        let mut entries = [left, right].concat();
        entries.push(Entry::unnamed(columns));
        if let Some(joined) = joined {
            let name = Some(joined.text.clone());
            entries.push(Entry {
                name,
                schema: None,
                columns: merged,
                unqualified: false,
                relation: None,
                is_nullable: false,
            });
        }
        Ok((on, entries))
    }

    fn using_column(&self, entries: &[Entry], name: &Name, side: &str) -> Result<VisibleColumn> {
        let visible = entries.iter().filter(|entry| entry.unqualified).flat_map(|entry| &entry.columns);
        let mut matching = visible.filter(|column| column.name == name.text);
        match (matching.next(), matching.next()) {
            (Some(column), None) => Ok(column.clone()),
            (Some(_), Some(_)) => {
                let message =
                    format!("common column name \"{}\" appears more than once in {side} table", name.text);
                Err(self.error(name.at, SqlState::AMBIGUOUS_COLUMN, message))
            }
            (None, _) => {
                let message = format!(
                    "column \"{}\" specified in USING clause does not exist in {side} table",
                    name.text
                );
                Err(self.error(name.at, SqlState::UNDEFINED_COLUMN, message))
            }
        }
    }

    /// `(a JOIN b …) AS j`: only `j` may be named from then on.
    fn aliased_join(&mut self, entries: Vec<Entry>, alias: &Alias) -> Result<Entry> {
        let visible = entries.into_iter().filter(|entry| entry.unqualified);
        let mut columns: Vec<VisibleColumn> = visible.flat_map(|entry| entry.columns).collect();
        if alias.columns.len() > columns.len() {
            let message = format!(
                "join expression \"{}\" has {} columns available but {} columns specified",
                alias.name.text,
                columns.len(),
                alias.columns.len()
            );
            return Err(self.error(alias.name.at, SqlState::INVALID_COLUMN_REFERENCE, message));
        }
        for (column, name) in columns.iter_mut().zip(&alias.columns) {
            column.name = name.text.clone();
        }
        Ok(Entry {
            name: Some(alias.name.text.clone()),
            schema: None,
            columns,
            unqualified: true,
            relation: None,
            is_nullable: false,
        })
    }
}

/// The names that columns of both sides have, in the left side's order.
fn common_names(left: &[Entry], right: &[Entry], at: At) -> Vec<Name> {
    let columns = |entries: &'_ [Entry]| -> Vec<String> {
        let visible = entries.iter().filter(|entry| entry.unqualified);
        visible.flat_map(|entry| entry.columns.iter().map(|column| column.name.clone())).collect()
    };
    let right = columns(right);
    let mut names: Vec<Name> = Vec::new();
    for text in columns(left) {
        if right.contains(&text) && !names.iter().any(|name| name.text == text) {
            names.push(Name { text, at });
        }
    }
    names
}
