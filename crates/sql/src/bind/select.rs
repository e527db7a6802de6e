//! SELECT: its clauses in the order in which names become known.
//!
//! Source: PostgreSQL 15, `transformSelectStmt` in `analyze.c`, `parse_target.c`.

use crate::bind::binder::Binder;
use crate::bind::same::are_same;
use crate::bind::scope::{Clause, VisibleColumn};
use crate::bind::tree::{BoundColumn, BoundExpr, BoundSelect, BoundSort, BoundTarget, Distinct};
use crate::error::{Result, SqlState};
use crate::parse::syntax::{At, DistinctClause, Expr, ExprKind, Name, OrderItem, Select, SelectItem};
use crate::types::Modifier;

/// A target on its way: with its position, and its properties in the result's description.
#[derive(Clone)]
pub(crate) struct Target {
    pub expr: BoundExpr,
    pub name: String,
    pub at: At,
    pub modifier: Modifier,
    pub source: Option<(u32, usize)>,
}

impl Target {
    fn of_column(column: VisibleColumn, at: At) -> Target {
        Target { expr: column.expr, name: column.name, at, modifier: column.modifier, source: column.source }
    }
}

/// A SELECT with its ORDER BY.
pub(crate) struct SelectParts {
    pub select: BoundSelect,
    pub order_by: Vec<BoundSort>,
    pub columns: Vec<BoundColumn>,
}

impl Binder<'_> {
    /// A SELECT and the ORDER BY after it, in the innermost scope.
    pub fn select(&mut self, select: &Select, order_by: &[OrderItem]) -> Result<SelectParts> {
        let from = self.bind_from(&select.from)?;
        let filter = match &select.filter {
            Some(filter) => Some(self.clause_condition(filter, Clause::Where)?),
            None => None,
        };
        self.named_windows(select)?;
        let mut targets = self.targets(&select.targets, Clause::Targets)?;
        let group_by = self.group_clause(select, &targets)?;
        let having = match &select.having {
            Some(having) => Some(self.clause_condition(having, Clause::Having)?),
            None => None,
        };
        let width = targets.len();
        let sort = self.sort_clause(order_by, &mut targets, width)?;
        let distinct = self.distinct_clause(&select.distinct, &mut targets, width, &sort)?;
        for target in &mut targets {
            // A hidden target of unknown type has nothing that could still decide it.
            if target.expr.ty() == crate::types::Type::Unknown && distinct != Distinct::No {
                target.expr = self.known(target.expr.clone(), target.at)?;
            }
        }
        let grouped = self.finish_grouping(group_by, having, &mut targets)?;
        let scope = self.scope();
        let bound = BoundSelect {
            relations: std::mem::take(&mut scope.relations),
            from,
            filter,
            group_by: grouped.group_by,
            grouping_sets: grouped.sets,
            aggregates: std::mem::take(&mut scope.aggregates),
            having: grouped.having,
            windows: std::mem::take(&mut scope.windows),
            targets: Vec::new(),
            distinct,
            set_returning: scope.set_returning,
        };
        Ok(finish(bound, targets, sort, width))
    }

    fn named_windows(&mut self, select: &Select) -> Result<()> {
        for (name, definition) in &select.windows {
            if self.scope().named_windows.contains_key(&name.text) {
                let message = format!("window \"{}\" is already defined", name.text);
                return Err(self.error(name.at, SqlState::WINDOWING_ERROR, message));
            }
            let whole = self.inherited_window(definition)?;
            self.scope().named_windows.insert(name.text.clone(), whole);
        }
        Ok(())
    }

    /// The targets of a SELECT or of RETURNING.
    pub fn targets(&mut self, items: &[SelectItem], clause: Clause) -> Result<Vec<Target>> {
        let mut targets = Vec::with_capacity(items.len());
        for item in items {
            match item {
                SelectItem::All(at) => {
                    let columns = self.all_columns(*at)?;
                    self.note_star(item, &columns, *at);
                    self.pin_columns(&columns);
                    targets.extend(columns.into_iter().map(|column| Target::of_column(column, *at)));
                }
                SelectItem::AllOf(qualifier)
                    if self.entry(qualifier).is_none() && self.names_row(qualifier) =>
                {
                    let at = qualifier.first().map_or(0, |name| name.at);
                    let row = Expr { kind: ExprKind::Column(qualifier.clone()), at, height: 1 };
                    self.field_targets(&row, at, &mut targets)?;
                }
                SelectItem::AllOf(qualifier) => {
                    let at = qualifier.first().map_or(0, |name| name.at);
                    let columns = self.columns_of(qualifier, at)?;
                    self.note_star(item, &columns, at);
                    self.pin_columns(&columns);
                    targets.extend(columns.into_iter().map(|column| Target::of_column(column, at)));
                }
                SelectItem::Expr { expr: Expr { kind: ExprKind::AllFields(row), at, .. }, alias: None }
                    if !matches!(row.kind, ExprKind::Column(_)) =>
                {
                    self.in_clause(clause, |binder| binder.field_targets(row, *at, &mut targets))?;
                }
                SelectItem::Expr { expr, alias } => {
                    targets.push(self.in_clause(clause, |binder| binder.target(expr, alias.as_ref()))?);
                }
            }
        }
        if targets.len() > 1664 {
            let message = "target lists can have at most 1664 entries";
            return Err(self.error(targets[1664].at, SqlState::TOO_MANY_COLUMNS, message));
        }
        self.note_columns(&targets);
        Ok(targets)
    }

    /// `(row).*`: its fields one by one. The row is computed for each of them, as in PostgreSQL.
    fn field_targets(&mut self, row: &Expr, at: At, targets: &mut Vec<Target>) -> Result<()> {
        let bound = self.expr(row)?;
        let Some(fields) = self.record_columns(&bound) else {
            let message = "row expansion via \"*\" is not supported here";
            return Err(self.error(at, SqlState::SYNTAX_ERROR, message));
        };
        for (text, _) in fields {
            let (operand, name) = (Box::new(row.clone()), Name { text, at });
            let field = Expr { kind: ExprKind::Field { operand, name }, at, height: row.height + 1 };
            targets.push(self.target(&field, None)?);
        }
        Ok(())
    }

    /// Returns true if a column has this name, of which the fields are known.
    fn names_row(&self, parts: &[Name]) -> bool {
        let found = self.find_column(parts, parts.first().map_or(0, |name| name.at));
        found.is_ok_and(|found| found.is_some_and(|it| self.record_columns(&it.column.expr).is_some()))
    }

    /// `*` names columns, too: they may have to be grouped.
    fn note_columns(&mut self, targets: &[Target]) {
        for target in targets {
            if let BoundExpr::Column { relation, column, .. } = target.expr {
                self.scope().column_positions.entry((relation, column)).or_insert(target.at);
            }
        }
    }

    fn target(&mut self, expr: &Expr, alias: Option<&Name>) -> Result<Target> {
        let name = alias.map_or_else(|| column_name(expr), |alias| alias.text.clone());
        if alias.is_none() {
            self.note_item_site(expr, &name);
        }
        if let ExprKind::Column(parts) = &expr.kind
            && let Some(found) = self.find_column(parts, expr.at)?
        {
            let bound = self.column(parts, expr.at)?;
            let (modifier, source) = (found.column.modifier, found.column.source);
            return Ok(Target { expr: bound, name, at: expr.at, modifier, source });
        }
        let bound = self.expr(expr)?;
        let modifier = match &expr.kind {
            // A cast of a column to its type without a modifier removes the column's.
            ExprKind::Cast { ty, .. } if !matches!(bound, BoundExpr::Case { .. }) => {
                self.named_type(ty)?.modifier
            }
            _ => self.modifier_of(&bound),
        };
        Ok(Target { expr: bound, name, at: expr.at, modifier, source: None })
    }

    /// The items of ORDER BY as positions of targets; hidden targets are added.
    fn sort_clause(
        &mut self,
        items: &[OrderItem],
        targets: &mut Vec<Target>,
        width: usize,
    ) -> Result<Vec<BoundSort>> {
        let mut sort: Vec<BoundSort> = Vec::with_capacity(items.len());
        for item in items {
            let target = self.sort_target(&item.expr, targets, width, Clause::OrderBy)?;
            if targets[target].expr.ty() == crate::types::Type::Unknown {
                targets[target].expr = self.known(targets[target].expr.clone(), item.expr.at)?;
            }
            self.check_ordering(targets[target].expr.ty(), item.expr.at)?;
            if !sort.iter().any(|known| known.target == target) {
                sort.push(BoundSort { target, descending: item.descending, nulls_first: item.nulls_first });
            }
        }
        Ok(sort)
    }

    /// The target that an item of ORDER BY or DISTINCT ON means: an output name, an ordinal, or an expression.
    fn sort_target(
        &mut self,
        expr: &Expr,
        targets: &mut Vec<Target>,
        width: usize,
        clause: Clause,
    ) -> Result<usize> {
        if let ExprKind::Column(parts) = &expr.kind
            && let [name] = &parts[..]
            && let Some(target) = self.output_name(name, &targets[..width], clause)?
        {
            return Ok(target);
        }
        if let Some(target) = self.ordinal(expr, width, clause)? {
            return Ok(target);
        }
        let bound = self.in_clause(clause, |binder| binder.expr(expr))?;
        if let Some(target) = targets.iter().position(|target| are_same(&target.expr, &bound)) {
            return Ok(target);
        }
        if let BoundExpr::Column { relation, column, .. } = bound {
            self.scope().column_positions.entry((relation, column)).or_insert(expr.at);
        }
        targets.push(Target {
            expr: bound,
            name: column_name(expr),
            at: expr.at,
            modifier: Modifier::NONE,
            source: None,
        });
        Ok(targets.len() - 1)
    }

    /// The result column of this name; several must be the same expression.
    fn output_name(&self, name: &Name, targets: &[Target], clause: Clause) -> Result<Option<usize>> {
        let mut matching = targets.iter().enumerate().filter(|(_, target)| target.name == name.text);
        let Some((position, first)) = matching.next() else { return Ok(None) };
        if matching.any(|(_, other)| !are_same(&other.expr, &first.expr)) {
            let message = format!("{} \"{}\" is ambiguous", clause.name(), name.text);
            return Err(self.error(name.at, SqlState::AMBIGUOUS_COLUMN, message));
        }
        Ok(Some(position))
    }

    /// The result column of this number, if the expression is one.
    pub fn ordinal(&self, expr: &Expr, width: usize, clause: Clause) -> Result<Option<usize>> {
        match &expr.kind {
            ExprKind::Integer(digits) => match digits.parse::<usize>() {
                Ok(position) if (1..=width).contains(&position) => Ok(Some(position - 1)),
                _ => {
                    let message = format!("{} position {digits} is not in select list", clause.name());
                    Err(self.error(expr.at, SqlState::INVALID_COLUMN_REFERENCE, message))
                }
            },
            ExprKind::Text(_) | ExprKind::Decimal(_) | ExprKind::Bool(_) | ExprKind::Null => {
                let message = format!("non-integer constant in {}", clause.name());
                Err(self.error(expr.at, SqlState::SYNTAX_ERROR, message))
            }
            _ => Ok(None),
        }
    }

    fn distinct_clause(
        &mut self,
        clause: &DistinctClause,
        targets: &mut Vec<Target>,
        width: usize,
        sort: &[BoundSort],
    ) -> Result<Distinct> {
        match clause {
            DistinctClause::No => Ok(Distinct::No),
            DistinctClause::All => {
                for target in &targets[..width] {
                    self.check_equality(target.expr.ty(), target.at)?;
                }
                if let Some(hidden) = sort.iter().find(|item| item.target >= width) {
                    let message = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
                    return Err(self.error(
                        targets[hidden.target].at,
                        SqlState::INVALID_COLUMN_REFERENCE,
                        message,
                    ));
                }
                Ok(Distinct::All)
            }
            DistinctClause::On(exprs) => {
                let mut on = Vec::with_capacity(exprs.len());
                for expr in exprs {
                    let target = self.sort_target(expr, targets, width, Clause::DistinctOn)?;
                    if !on.contains(&target) {
                        on.push(target);
                    }
                }
                let leading = sort.iter().take_while(|item| on.contains(&item.target)).count();
                if leading < on.len() && leading < sort.len() {
                    let message = "SELECT DISTINCT ON expressions must match initial ORDER BY expressions";
                    return Err(self.error(
                        targets[sort[leading].target].at,
                        SqlState::INVALID_COLUMN_REFERENCE,
                        message,
                    ));
                }
                Ok(Distinct::On(on))
            }
        }
    }

    /// The rows' columns and the hidden ones of RETURNING and the like.
    pub fn returning(&mut self, items: &[SelectItem]) -> Result<(Vec<BoundTarget>, Vec<BoundColumn>)> {
        let mut targets = self.targets(items, Clause::Returning)?;
        for target in &mut targets {
            target.expr = self.known(target.expr.clone(), target.at)?;
        }
        let columns = targets.iter().map(column_of).collect();
        let bound = targets.into_iter().map(|target| BoundTarget { expr: target.expr, name: target.name });
        Ok((bound.collect(), columns))
    }
}

fn finish(
    mut select: BoundSelect,
    targets: Vec<Target>,
    order_by: Vec<BoundSort>,
    width: usize,
) -> SelectParts {
    let columns = targets[..width].iter().map(column_of).collect();
    let bound = targets.into_iter().map(|target| BoundTarget { expr: target.expr, name: target.name });
    select.targets = bound.collect();
    SelectParts { select, order_by, columns }
}

fn column_of(target: &Target) -> BoundColumn {
    BoundColumn {
        name: target.name.clone(),
        ty: target.expr.ty(),
        modifier: target.modifier,
        source: target.source,
    }
}

/// The name of a result column without an alias.
///
/// Source: PostgreSQL 15, `FigureColname`.
pub(crate) fn column_name(expr: &Expr) -> String {
    figure(expr).0
}

/// The name, and how well it fits: 2 for a name that the user wrote, 1 for a type's or construct's, 0 for none.
fn figure(expr: &Expr) -> (String, u8) {
    let strong = |name: &str| (name.to_string(), 2);
    match &expr.kind {
        ExprKind::Column(parts) => strong(parts.last().map_or("?column?", |name| &name.text)),
        ExprKind::Field { name, .. } => strong(&name.text),
        ExprKind::Subscript { operand, .. }
        | ExprKind::Slice { operand, .. }
        | ExprKind::Collate { operand, .. } => figure(operand),
        ExprKind::Call(call) => strong(call.name.last()),
        ExprKind::Cast { operand, ty } => match figure(operand) {
            (name, strength) if strength > 1 => (name, strength),
            _ => (ty.name.last().to_string(), 1),
        },
        ExprKind::Case { otherwise, .. } => match otherwise.as_deref().map(figure) {
            Some((name, strength)) if strength > 1 => (name, strength),
            _ => ("case".to_string(), 1),
        },
        ExprKind::Coalesce(_) => strong("coalesce"),
        ExprKind::NullIf(..) => strong("nullif"),
        ExprKind::Greatest(_) => strong("greatest"),
        ExprKind::Least(_) => strong("least"),
        ExprKind::Grouping(_) => strong("grouping"),
        ExprKind::Array(_) | ExprKind::ArrayQuery(_) => strong("array"),
        ExprKind::Row(_) => strong("row"),
        ExprKind::Exists(_) => strong("exists"),
        ExprKind::Subquery(query) => subquery_name(query),
        _ => ("?column?".to_string(), 0),
    }
}

/// A subquery's column gives its name to the expression, also where it has none.
fn subquery_name(query: &crate::parse::syntax::Query) -> (String, u8) {
    (body_name(&query.body), 2)
}

fn body_name(body: &crate::parse::syntax::QueryBodySyntax) -> String {
    use crate::parse::syntax::QueryBodySyntax;
    match body {
        QueryBodySyntax::Select(select) => match select.targets.first() {
            Some(SelectItem::Expr { alias: Some(alias), .. }) => alias.text.clone(),
            Some(SelectItem::Expr { expr, .. }) => column_name(expr),
            _ => "?column?".to_string(),
        },
        QueryBodySyntax::Values(_) => "column1".to_string(),
        QueryBodySyntax::Set { left, .. } => body_name(left),
        QueryBodySyntax::Query(query) => body_name(&query.body),
    }
}
