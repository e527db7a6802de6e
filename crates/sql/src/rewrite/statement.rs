//! Constant folding of whole statements, and the order of their conditions.
//!
//! The rules are PostgreSQL's (`canonicalize_qual`, `order_qual_clauses`): see [`fold`](super::fold).
//!
//! # Invariants
//! - A condition that keeps rows is true of the same rows before and after; that it is false instead of NULL may change.

use std::collections::HashSet;

use crate::bind::tree::walk::{children, children_mut, walk};
use crate::bind::tree::{
    BoundCte, BoundExpr, BoundFrom, BoundInsert, BoundQuery, BoundRelation, BoundSelect, BoundStatement,
    CteBody, Distinct, FrameBound, FunctionCall, QueryBody, RelationId, RelationKind, StatementKind,
};
use crate::error::Result;
use crate::rewrite::fold::{boolean, flatten, is_volatile, truth};
use crate::types::Value;

/// The treatment of errors in a statement's constants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Constants {
    /// It is the statement's.
    #[default]
    Computed,
    /// The expression stays, and has the error where it is evaluated.
    MayFail,
}

/// Folds every expression of a statement. Returns true if all constants could be computed.
///
/// # Errors
/// The errors of evaluating its constants, unless they may fail.
pub(crate) fn fold_statement(statement: &mut BoundStatement, constants: Constants) -> Result<bool> {
    fold_with(statement, constants, &[])
}

/// Like [`fold_statement`], for a statement whose parameters have these values: they become constants.
///
/// # Errors
/// Same errors as [`fold_statement`].
pub(crate) fn fold_with(
    statement: &mut BoundStatement,
    constants: Constants,
    parameters: &[Value],
) -> Result<bool> {
    let mut folding = Folding { constants, parameters, ..Folding::default() };
    folding.statement(statement)?;
    Ok(!folding.has_failed)
}

/// A statement whose constants are being folded.
#[derive(Default)]
pub(super) struct Folding<'p> {
    /// The aggregates that were met, by the queries that they belong to.
    pub(super) met: HashSet<(RelationId, usize)>,
    pub(super) constants: Constants,
    /// The values of the statement's parameters, where it is planned for these.
    pub(super) parameters: &'p [Value],
    /// A constant could not be computed.
    pub(super) has_failed: bool,
}

impl Folding<'_> {
    fn statement(&mut self, statement: &mut BoundStatement) -> Result<()> {
        match &mut statement.kind {
            StatementKind::Query(query) => self.fold_query(query),
            StatementKind::Insert(insert) => self.fold_insert(insert),
            StatementKind::Update(update) => {
                self.fold_ctes(&mut update.ctes)?;
                self.fold_source(&mut update.relations, &mut update.from)?;
                update.sets.iter_mut().try_for_each(|(_, value)| self.fold(value))?;
                self.fold_filter(&mut update.filter)
            }
            StatementKind::Delete(delete) => {
                self.fold_ctes(&mut delete.ctes)?;
                self.fold_source(&mut delete.relations, &mut delete.from)?;
                self.fold_filter(&mut delete.filter)
            }
            StatementKind::Merge(merge) => {
                self.fold_ctes(&mut merge.ctes)?;
                self.fold_source(&mut merge.relations, std::slice::from_mut(&mut merge.source))
            }
        }
    }

    fn fold_insert(&mut self, insert: &mut BoundInsert) -> Result<()> {
        self.fold_ctes(&mut insert.ctes)?;
        insert.query.iter_mut().try_for_each(|part| self.fold_query(part))?;
        insert.values.iter_mut().try_for_each(|part| self.fold(part))
    }

    pub(super) fn fold_query(&mut self, query: &mut BoundQuery) -> Result<()> {
        crate::stack::grow(|| {
            self.fold_ctes(&mut query.ctes)?;
            match &mut query.body {
                QueryBody::Select(select) => self.fold_select(select, query.id)?,
                QueryBody::Set { left, right, .. } => {
                    self.fold_query(left)?;
                    self.fold_query(right)?;
                }
                QueryBody::Values(rows) => rows.iter_mut().flatten().try_for_each(|part| self.fold(part))?,
            }
            query.limit.iter_mut().chain(&mut query.offset).try_for_each(|part| self.fold(part))
        })
    }

    fn fold_ctes(&mut self, ctes: &mut [BoundCte]) -> Result<()> {
        ctes.iter_mut().try_for_each(|cte| match &mut cte.body {
            CteBody::Query(query) => self.fold_query(query),
            CteBody::Recursive { initial, step, .. } => {
                self.fold_query(initial)?;
                self.fold_query(step)
            }
            CteBody::Statement(statement) => self.statement(statement),
        })
    }

    fn fold_select(&mut self, select: &mut BoundSelect, id: RelationId) -> Result<()> {
        self.fold_source(&mut select.relations, &mut select.from)?;
        select.targets.iter_mut().try_for_each(|target| self.fold(&mut target.expr))?;
        select.group_by.iter_mut().try_for_each(|part| self.fold(part))?;
        self.fold_filter(&mut select.having)?;
        move_having(select);
        self.fold_filter(&mut select.filter)?;
        self.fold_windows(select)?;
        for (number, aggregate) in select.aggregates.iter_mut().enumerate() {
            if self.met.contains(&(id, number)) {
                aggregate.args.iter_mut().try_for_each(|part| self.fold(part))?;
                aggregate.order_by.iter_mut().try_for_each(|key| self.fold(&mut key.expr))?;
                self.fold_filter(&mut aggregate.filter)?;
            }
        }
        let named = named_aggregates(select);
        for (number, aggregate) in select.aggregates.iter_mut().enumerate() {
            if !named.contains(&number) {
                // The expression that named it was folded away: its arguments do not matter.
                aggregate.args.iter_mut().for_each(|arg| *arg = BoundExpr::null(arg.ty()));
            }
        }
        Ok(())
    }

    fn fold_windows(&mut self, select: &mut BoundSelect) -> Result<()> {
        for window in &mut select.windows {
            window.args.iter_mut().chain(&mut window.partition_by).try_for_each(|part| self.fold(part))?;
            window.order_by.iter_mut().try_for_each(|key| self.fold(&mut key.expr))?;
            self.fold_filter(&mut window.filter)?;
            for bound in [&mut window.frame.start, &mut window.frame.end] {
                if let FrameBound::Preceding(offset) | FrameBound::Following(offset) = bound {
                    self.fold(offset)?;
                }
            }
        }
        Ok(())
    }

    fn fold_source(&mut self, relations: &mut [BoundRelation], from: &mut [BoundFrom]) -> Result<()> {
        for relation in relations {
            for indexed in &mut relation.indexed {
                self.fold(&mut indexed.expr)?;
                if indexed.is_predicate {
                    simplify_condition(&mut indexed.expr);
                }
            }
            match &mut relation.kind {
                RelationKind::Table(_) | RelationKind::Cte(_) => {}
                RelationKind::Query(query) => self.fold_query(query)?,
                RelationKind::Function { calls, .. } => calls.iter_mut().try_for_each(|call| match call {
                    FunctionCall::Set { args, .. } => args.iter_mut().try_for_each(|part| self.fold(part)),
                    FunctionCall::Scalar(expr) => self.fold(expr),
                })?,
            }
        }
        from.iter_mut().try_for_each(|part| self.fold_from(part))
    }

    fn fold_from(&mut self, from: &mut BoundFrom) -> Result<()> {
        let BoundFrom::Join { left, right, on, .. } = from else { return Ok(()) };
        crate::stack::grow(|| {
            self.fold_from(left)?;
            self.fold_from(right)?;
            match on {
                Some(on) => {
                    self.fold(on)?;
                    simplify_condition(on);
                    Ok(())
                }
                None => Ok(()),
            }
        })
    }

    /// Folds a condition that keeps the rows for which it is true; one that is always true is removed.
    fn fold_filter(&mut self, filter: &mut Option<BoundExpr>) -> Result<()> {
        let Some(condition) = filter else { return Ok(()) };
        self.fold(condition)?;
        simplify_condition(condition);
        if let BoundExpr::And(parts) = condition {
            // The cheap ones first, as PostgreSQL does it: they may spare the others.
            parts.sort_by_cached_key(cost);
        }
        if truth(condition) == Some(Some(true)) {
            *filter = None;
        }
        Ok(())
    }
}

/// The aggregates that targets, HAVING and window calls name; those that subqueries name count whosever they are.
fn named_aggregates(select: &BoundSelect) -> HashSet<usize> {
    let mut named = HashSet::new();
    if select.aggregates.is_empty() {
        return named;
    }
    let mut note = |part: &BoundExpr| {
        if let BoundExpr::Aggregate { number, .. } = part {
            named.insert(*number);
        }
    };
    select.targets.iter().for_each(|target| walk(&target.expr, &mut note));
    select.having.iter().for_each(|having| walk(having, &mut note));
    for window in &select.windows {
        let parts = window.args.iter().chain(&window.filter).chain(&window.partition_by);
        parts.for_each(|expr| walk(expr, &mut note));
        window.order_by.iter().for_each(|key| walk(&key.expr, &mut note));
    }
    named
}

/// Drops the targets of a query under EXISTS, and its order: only the existence of rows matters, and columns that
/// nothing else names are then not read (PostgreSQL's `simplify_EXISTS_query`).
pub(super) fn drop_targets(query: &mut BoundQuery) {
    let QueryBody::Select(select) = &mut query.body else { return };
    let is_plain = query.limit.is_none()
        && query.offset.is_none()
        && query.locks.is_empty()
        && select.grouping_sets.is_none()
        && select.having.is_none()
        && select.windows.is_empty()
        && !select.set_returning;
    if is_plain {
        select.targets.clear();
        select.distinct = Distinct::No;
        query.order_by.clear();
        query.columns.clear();
    }
}

/// Puts conditions of HAVING that name no aggregate into WHERE: they spare rows, and a false one all of them.
fn move_having(select: &mut BoundSelect) {
    let has_groups = match select.grouping_sets.as_deref() {
        // Without groups there is a row even if no row was read: the condition stays, too.
        Some([set]) if set.is_empty() => false,
        Some([set]) if set.len() == select.group_by.len() => true,
        _ => return,
    };
    let Some(having) = select.having.take() else { return };
    let parts = match having {
        BoundExpr::And(parts) => parts,
        part => vec![part],
    };
    let (mut moved, mut kept) = (Vec::new(), Vec::new());
    for part in parts {
        let mut below = part.clone();
        name_groups(&mut below, &select.group_by);
        if stays(&part) || stays(&below) {
            kept.push(part);
            continue;
        }
        moved.push(below);
        if !has_groups {
            kept.push(part);
        }
    }
    if !moved.is_empty() {
        moved.splice(0..0, select.filter.take());
        select.filter = Some(if moved.len() > 1 { BoundExpr::And(moved) } else { moved.remove(0) });
    }
    select.having = match kept.len() {
        0 => None,
        1 => Some(kept.remove(0)),
        _ => Some(BoundExpr::And(kept)),
    };
}

/// Returns true if a condition of HAVING must see whole groups.
fn stays(part: &BoundExpr) -> bool {
    let mut stays = is_volatile(part);
    walk(part, &mut |part| {
        stays |=
            matches!(part, BoundExpr::Aggregate { .. } | BoundExpr::Grouping(_) | BoundExpr::Subquery(_));
    });
    stays
}

/// Replaces groups by their grouping expressions.
fn name_groups(expr: &mut BoundExpr, groups: &[BoundExpr]) {
    if let BoundExpr::Group { number, .. } = expr {
        if let Some(group) = groups.get(*number) {
            *expr = group.clone();
        }
        return;
    }
    children_mut(expr, &mut |child| name_groups(child, groups));
}

/// Number of functions and operators that evaluating an expression may call; a subquery counts for many.
fn cost(expr: &BoundExpr) -> usize {
    let mut sum = match expr {
        BoundExpr::Call { .. } | BoundExpr::Operator { .. } | BoundExpr::NullIf { .. } => 2,
        BoundExpr::IsDistinct { .. } | BoundExpr::MinMax { .. } => 2,
        BoundExpr::Cast { .. } => 2,
        // Half of a list is compared on average.
        BoundExpr::InList { list, .. } => list.len(),
        BoundExpr::Quantified { .. } => 10,
        BoundExpr::Subquery(_) => 1000,
        _ => 0,
    };
    crate::stack::grow(|| children(expr, &mut |child| sum += cost(child)));
    sum
}

/// In a condition NULL has the effect of false.
fn simplify_condition(condition: &mut BoundExpr) {
    let (parts, is_or) = match condition {
        BoundExpr::And(parts) => (parts, false),
        BoundExpr::Or(parts) => (parts, true),
        other => {
            if truth(other) == Some(None) {
                *other = boolean(false);
            }
            return;
        }
    };
    parts.iter_mut().for_each(simplify_condition);
    flatten(parts, is_or);
    if parts.iter().any(|part| truth(part) == Some(Some(is_or))) {
        *condition = boolean(is_or);
        return;
    }
    parts.retain(|part| truth(part).is_none());
    match parts.len() {
        0 => *condition = boolean(!is_or),
        1 => *condition = parts.remove(0),
        _ => {}
    }
}
