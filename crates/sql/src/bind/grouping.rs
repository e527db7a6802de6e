//! GROUP BY: grouping expressions and sets, and the check that everything above them is grouped or aggregated.
//!
//! Source: PostgreSQL 15, `parse_agg.c` (`parseCheckAggregates`, `expand_grouping_sets`).

use hashbrown::HashSet;

use crate::bind::binder::Binder;
use crate::bind::hypothetical::CountsBySet;
use crate::bind::same::are_same;
use crate::bind::scope::Clause;
use crate::bind::select::Target;
use crate::bind::tree::walk::{children_mut, walk, walk_query};
use crate::bind::tree::{BoundExpr, FrameBound, RelationId, RelationKind};
use crate::error::{Result, SqlError, SqlState};
use crate::interrupt;
use crate::parse::syntax::{At, Expr, ExprKind, GroupItem, Select};

/// More grouping sets than this are refused, as in PostgreSQL.
const GROUPING_SETS_MAX: usize = 4096;

/// GROUP BY as it was bound: `None` without one.
pub(crate) type GroupClause = Option<(GroupExprs, Vec<Vec<usize>>)>;

/// The expressions of GROUP BY, and for each the target that it is, if it is one: two targets of one expression are
/// grouped by apart.
#[derive(Default)]
pub(crate) struct GroupExprs {
    exprs: Vec<BoundExpr>,
    targets: Vec<Option<usize>>,
}

/// A query's grouping when everything above is expressed in it.
pub(crate) struct Grouped {
    pub group_by: Vec<BoundExpr>,
    pub sets: Option<Vec<Vec<usize>>>,
    pub having: Option<BoundExpr>,
}

impl Binder<'_> {
    /// GROUP BY: the expressions, and the sets of them.
    pub fn group_clause(&mut self, select: &Select, targets: &[Target]) -> Result<GroupClause> {
        if select.group_by.is_empty() {
            return Ok(None);
        }
        let mut exprs = GroupExprs::default();
        let mut sets: Vec<Vec<usize>> = vec![Vec::new()];
        for item in &select.group_by {
            let item_sets = self.group_item(item, targets, &mut exprs)?;
            if sets.len() * item_sets.len() > GROUPING_SETS_MAX {
                let message = format!("too many grouping sets present (maximum {GROUPING_SETS_MAX})");
                return Err(self.error(select.at, SqlState::STATEMENT_TOO_COMPLEX, message));
            }
            let pairs = sets.iter().flat_map(|left| item_sets.iter().map(move |right| (left, right)));
            sets = pairs
                .map(|(left, right)| interrupt::check().map(|()| union(left, right)))
                .collect::<Result<_>>()?;
        }
        if select.group_distinct {
            let mut known = HashSet::new();
            for set in &mut sets {
                set.sort_unstable();
                set.dedup();
            }
            sets.retain(|set| known.insert(set.clone()));
        }
        Ok(Some((exprs, sets)))
    }

    /// The sets that one item expands to.
    fn group_item(
        &mut self,
        item: &GroupItem,
        targets: &[Target],
        exprs: &mut GroupExprs,
    ) -> Result<Vec<Vec<usize>>> {
        interrupt::check()?;
        match item {
            GroupItem::Expr(expr) => Ok(vec![self.group_set(std::slice::from_ref(expr), targets, exprs)?]),
            GroupItem::Set(items) => Ok(vec![self.group_set(items, targets, exprs)?]),
            GroupItem::Rollup(items) => {
                if items.len() >= GROUPING_SETS_MAX {
                    let message = format!("too many grouping sets present (maximum {GROUPING_SETS_MAX})");
                    return Err(self.error(0, SqlState::STATEMENT_TOO_COMPLEX, message));
                }
                let parts = self.group_parts(items, targets, exprs)?;
                let prefixes = (0..=parts.len()).rev();
                prefixes.map(|length| interrupt::check().map(|()| parts[..length].concat())).collect()
            }
            GroupItem::Cube(items) => {
                let parts = self.group_parts(items, targets, exprs)?;
                if parts.len() > 12 {
                    let message = "CUBE is limited to 12 elements";
                    return Err(self.error(0, SqlState::TOO_MANY_COLUMNS, message));
                }
                let chosen = |mask: usize| -> Vec<usize> {
                    let bit = |position: usize| 1 << (parts.len() - 1 - position);
                    let taken = parts.iter().enumerate().filter(|(position, _)| mask & bit(*position) != 0);
                    taken.flat_map(|(_, part)| part.iter().copied()).collect()
                };
                Ok((0..1_usize << parts.len()).rev().map(chosen).collect())
            }
            GroupItem::Sets(items) => {
                let mut sets = Vec::new();
                for item in items {
                    sets.extend(self.group_item(item, targets, exprs)?);
                }
                Ok(sets)
            }
        }
    }

    fn group_set(
        &mut self,
        items: &[Expr],
        targets: &[Target],
        exprs: &mut GroupExprs,
    ) -> Result<Vec<usize>> {
        items.iter().map(|expr| self.group_expr(expr, targets, exprs)).collect()
    }

    /// The elements of ROLLUP and CUBE: one set each.
    fn group_parts(
        &mut self,
        items: &[GroupItem],
        targets: &[Target],
        exprs: &mut GroupExprs,
    ) -> Result<Vec<Vec<usize>>> {
        let mut parts = Vec::with_capacity(items.len());
        for item in items {
            parts.push(self.group_item(item, targets, exprs)?.concat());
        }
        Ok(parts)
    }

    /// One expression of GROUP BY: a column, a result column's name or number, anything else.
    fn group_expr(&mut self, expr: &Expr, targets: &[Target], exprs: &mut GroupExprs) -> Result<usize> {
        interrupt::check()?;
        let (bound, target) = self.group_value(expr, targets)?;
        let bound = self.known(bound, expr.at)?;
        self.check_equality(bound.ty(), expr.at)?;
        let target = target.or_else(|| targets.iter().position(|target| are_same(&target.expr, &bound)));
        let mut known = exprs.exprs.iter().zip(&exprs.targets);
        let same =
            known.position(|(known, of)| *of == target && (target.is_some() || are_same(known, &bound)));
        if let Some(position) = same {
            return Ok(position);
        }
        exprs.exprs.push(bound);
        exprs.targets.push(target);
        Ok(exprs.exprs.len() - 1)
    }

    /// Binds an item of GROUP BY; also returns the target that it names, if it names one.
    fn group_value(&mut self, expr: &Expr, targets: &[Target]) -> Result<(BoundExpr, Option<usize>)> {
        let position = match &expr.kind {
            ExprKind::Column(parts) if parts.len() == 1 => {
                let level = self.scopes.len() - 1;
                let found = self.find_column(parts, expr.at)?;
                match found.filter(|found| found.level == level) {
                    Some(_) => None,
                    None => {
                        let is_named = |target: &Target| target.name == parts[0].text;
                        let first = targets.iter().position(is_named);
                        if let Some(first) = first
                            && targets[first..]
                                .iter()
                                .any(|other| is_named(other) && !are_same(&other.expr, &targets[first].expr))
                        {
                            let message = format!("GROUP BY \"{}\" is ambiguous", parts[0].text);
                            return Err(self.error(expr.at, SqlState::AMBIGUOUS_COLUMN, message));
                        }
                        first
                    }
                }
            }
            _ => self.ordinal(expr, targets.len(), Clause::GroupBy)?,
        };
        let Some(target) = position.map(|position| &targets[position]) else {
            return Ok((self.in_clause(Clause::GroupBy, |binder| binder.expr(expr))?, None));
        };
        let is_grouped =
            |part: &BoundExpr| matches!(part, BoundExpr::Aggregate { .. } | BoundExpr::Grouping(_));
        let mut windows = Vec::new();
        crate::bind::tree::walk::walk(&target.expr, &mut |part| {
            if let BoundExpr::Window { number, .. } = part {
                windows.push(*number);
            }
        });
        let is_of_groups = contains(&target.expr, &is_grouped)
            || windows.into_iter().any(|number| self.windows_aggregate(number, &is_grouped));
        if is_of_groups {
            let message = "aggregate functions are not allowed in GROUP BY";
            return Err(self.error(target.at, SqlState::GROUPING_ERROR, message));
        }
        if contains(&target.expr, &|part| matches!(part, BoundExpr::Window { .. })) {
            let message = "window functions are not allowed in GROUP BY";
            return Err(self.error(target.at, SqlState::WINDOWING_ERROR, message));
        }
        Ok((target.expr.clone(), position))
    }

    /// Returns true if a window function has an argument that only groups have.
    fn windows_aggregate(&mut self, number: usize, is_grouped: &dyn Fn(&BoundExpr) -> bool) -> bool {
        let Some(window) = self.scope().windows.get(number) else { return false };
        let keys = window.order_by.iter().map(|key| &key.expr);
        window
            .args
            .iter()
            .chain(&window.filter)
            .chain(&window.partition_by)
            .chain(keys)
            .any(|part| contains(part, is_grouped))
    }

    /// GROUPING(…): its arguments are looked up when the grouping is known.
    pub fn grouping_call(&mut self, args: &[Expr], at: At) -> Result<BoundExpr> {
        if args.len() > 31 {
            let message = "GROUPING must have fewer than 32 arguments";
            return Err(self.error(at, SqlState::TOO_MANY_ARGUMENTS, message));
        }
        if !self.scope().clause.allows_aggregates() {
            let message = format!("grouping operations are not allowed in {}", self.scope().clause.name());
            return Err(self.error(at, SqlState::GROUPING_ERROR, message));
        }
        let outer = std::mem::replace(&mut self.scope().in_aggregate, true);
        let bound = self.exprs(args);
        self.scope().in_aggregate = outer;
        let groupings = &mut self.scope().groupings;
        groupings.push((bound?, at));
        Ok(BoundExpr::Grouping(vec![groupings.len() - 1]))
    }

    /// Rewrites targets, HAVING and windows to grouped expressions, if the query groups at all.
    pub fn finish_grouping(
        &mut self,
        clause: GroupClause,
        having: Option<BoundExpr>,
        targets: &mut [Target],
    ) -> Result<Grouped> {
        let scope = self.scope();
        if clause.is_none() && having.is_none() && scope.aggregates.is_empty() && scope.groupings.is_empty() {
            return Ok(Grouped { group_by: Vec::new(), sets: None, having: None });
        }
        let (exprs, sets) = clause.unwrap_or_else(|| (GroupExprs::default(), vec![Vec::new()]));
        let GroupExprs { exprs: group_by, targets: grouped_targets } = exprs;
        let counts = self.counts_by_set(&group_by, &sets)?;
        let mut grouping = Grouping { group_by, sets, inside: HashSet::new(), counts };
        let mut having = having;
        for (position, target) in targets.iter_mut().enumerate() {
            if let Some(number) = grouped_targets.iter().position(|of| *of == Some(position)) {
                target.expr = BoundExpr::Group { number, ty: target.expr.ty() };
                continue;
            }
            self.raise(&mut target.expr, &mut grouping, target.at)?;
        }
        if let Some(having) = &mut having {
            self.raise(having, &mut grouping, 0)?;
        }
        let mut windows = std::mem::take(&mut self.scope().windows);
        for window in &mut windows {
            let keys = window.order_by.iter_mut().map(|key| &mut key.expr);
            let parts =
                window.args.iter_mut().chain(&mut window.filter).chain(&mut window.partition_by).chain(keys);
            for expr in parts {
                self.raise(expr, &mut grouping, 0)?;
            }
            for bound in [&mut window.frame.start, &mut window.frame.end] {
                if let FrameBound::Preceding(offset) | FrameBound::Following(offset) = bound {
                    self.raise(offset, &mut grouping, 0)?;
                }
            }
        }
        self.scope().windows = windows;
        for (mut direct, at) in std::mem::take(&mut self.scope().direct_arguments) {
            self.raise(&mut direct, &mut grouping, at).map_err(of_direct_argument)?;
        }
        for direct in std::mem::take(&mut self.scope().outer_direct_arguments) {
            walk(&direct, &mut |part| grouping.note_inside(part));
        }
        for (relation, column, at) in std::mem::take(&mut self.scope().outer_columns) {
            if grouping.inside.contains(&(relation, column)) {
                self.check_outer(relation, column, &mut grouping, at)?;
            }
        }
        Ok(Grouped { group_by: grouping.group_by, sets: Some(grouping.sets), having })
    }

    /// Replaces grouped expressions by their places in the grouping.
    fn raise(&mut self, expr: &mut BoundExpr, grouping: &mut Grouping, at: At) -> Result<()> {
        if let Some(number) = grouping.position(expr) {
            *expr = BoundExpr::Group { number, ty: expr.ty() };
            return Ok(());
        }
        match expr {
            BoundExpr::Aggregate { query, number, .. } => {
                if *query == self.scope().id
                    && let Some(count) = self.count_of_set(*number, &grouping.counts)?
                {
                    *expr = count;
                }
                return Ok(());
            }
            BoundExpr::Grouping(call) => {
                let (args, at) = self.scope().groupings[call[0]].clone();
                let mut numbers = Vec::with_capacity(args.len());
                for arg in &args {
                    numbers.push(grouping.position(arg).ok_or_else(|| {
                        let message = "arguments to GROUPING must be grouping expressions of the associated query level";
                        self.error(at, SqlState::GROUPING_ERROR, message)
                    })?);
                }
                *expr = BoundExpr::Grouping(numbers);
                return Ok(());
            }
            BoundExpr::Column { relation, column, .. } if self.scope().owned.contains(relation) => {
                let (relation, column) = (*relation, *column);
                if !self.depends_on_key(relation, grouping) {
                    return Err(self.ungrouped(relation, column, at));
                }
                let number = grouping.add(expr.clone());
                *expr = BoundExpr::Group { number, ty: expr.ty() };
                return Ok(());
            }
            BoundExpr::Subquery(subquery) => {
                walk_query(&subquery.query, &mut |part| grouping.note_inside(part));
            }
            _ => {}
        }
        let mut failure = None;
        children_mut(expr, &mut |child| {
            if failure.is_none() {
                failure = crate::stack::grow(|| self.raise(child, grouping, at)).err();
            }
        });
        failure.map_or(Ok(()), Err)
    }

    /// A column that a subquery names must be grouped, like one of the query's own.
    fn check_outer(
        &mut self,
        relation: RelationId,
        column: usize,
        grouping: &mut Grouping,
        at: At,
    ) -> Result<()> {
        let named = grouping.group_by.iter().any(|expr| {
            matches!(expr, BoundExpr::Column { relation: r, column: c, .. } if (*r, *c) == (relation, column))
        });
        if named || !self.scope().owned.contains(&relation) {
            return Ok(());
        }
        if self.depends_on_key(relation, grouping) {
            let ty = self
                .scope()
                .relations
                .iter()
                .find(|it| it.id == relation)
                .and_then(|it| it.columns.get(column))
                .map(|it| it.ty);
            if let Some(ty) = ty {
                grouping.add(BoundExpr::Column { relation, column, ty });
            }
            return Ok(());
        }
        let name = self.column_text(relation, column);
        let message = format!("subquery uses ungrouped column \"{name}\" from outer query");
        Err(self.error(at, SqlState::GROUPING_ERROR, message))
    }

    /// Returns true if a table's whole primary key is grouped, so that its other columns have one value in each group.
    fn depends_on_key(&mut self, relation: RelationId, grouping: &Grouping) -> bool {
        let found = self.scope().relations.iter().find(|it| it.id == relation);
        let Some(RelationKind::Table(table)) = found.map(|it| &it.kind) else { return false };
        let grouped = |set: &Vec<usize>, key: usize| {
            set.iter().any(|&number| {
                matches!(&grouping.group_by[number], BoundExpr::Column { relation: r, column, .. } if *r == relation && *column == key)
            })
        };
        !table.key.is_empty()
            && grouping.sets.iter().all(|set| table.key.iter().all(|&key| grouped(set, key)))
    }

    fn ungrouped(&mut self, relation: RelationId, column: usize, at: At) -> SqlError {
        let name = self.column_text(relation, column);
        let at = self.scope().column_positions.get(&(relation, column)).copied().unwrap_or(at);
        let message = format!(
            "column \"{name}\" must appear in the GROUP BY clause or be used in an aggregate function"
        );
        self.error(at, SqlState::GROUPING_ERROR, message)
    }

    /// `relation.column` as messages show it.
    pub fn column_text(&mut self, relation: RelationId, column: usize) -> String {
        let found = self.scope().relations.iter().find(|it| it.id == relation);
        let name =
            found.and_then(|it| it.columns.get(column).map(|column| format!("{}.{}", it.name, column.name)));
        name.unwrap_or_else(|| "?".to_string())
    }
}

struct Grouping {
    group_by: Vec<BoundExpr>,
    sets: Vec<Vec<usize>>,
    /// The columns that subqueries name which are not grouped themselves.
    inside: HashSet<(RelationId, usize)>,
    /// The counts of hypothetical-set aggregates that depend on the grouping set.
    counts: Vec<CountsBySet>,
}

impl Grouping {
    fn position(&self, expr: &BoundExpr) -> Option<usize> {
        self.group_by.iter().position(|known| are_same(known, expr))
    }

    /// Notes a column that a subquery names.
    fn note_inside(&mut self, part: &BoundExpr) {
        if let BoundExpr::Column { relation, column, .. } = part {
            self.inside.insert((*relation, *column));
        }
    }

    /// Adds an expression that each group has one value of.
    fn add(&mut self, expr: BoundExpr) -> usize {
        let number = self.group_by.len();
        self.group_by.push(expr);
        self.sets.iter_mut().for_each(|set| set.push(number));
        number
    }
}

fn union(left: &[usize], right: &[usize]) -> Vec<usize> {
    let mut set = Vec::with_capacity(left.len() + right.len());
    for &number in left.iter().chain(right) {
        if !set.contains(&number) {
            set.push(number);
        }
    }
    set
}

/// Returns true if a part of an expression, not inside a subquery, satisfies the predicate.
pub(crate) fn contains(expr: &BoundExpr, is_such: &dyn Fn(&BoundExpr) -> bool) -> bool {
    let mut found = is_such(expr);
    crate::bind::tree::walk::children(expr, &mut |child| found = found || contains(child, is_such));
    found
}

fn of_direct_argument(error: SqlError) -> SqlError {
    error.with_detail("Direct arguments of an ordered-set aggregate must use only grouped columns.")
}
