//! SEARCH and CYCLE of recursive queries: both terms get further columns, which the recursive one reads of the row before.
//!
//! `SEARCH DEPTH` adds the rows on the way to a row as an array, `SEARCH BREADTH` the row with its depth before it, CYCLE the
//! array of rows and a mark that is set where a row is among those before it; a marked row has none after it.
//!
//! Source: PostgreSQL 15, `rewriteSearchCycle.c`.

use crate::bind::binder::{Binder, CteState};
use crate::bind::tree::CteId;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{
    Cte, CycleClause, ExprKind, Name, Query, QueryBodySyntax, SearchClause, SelectItem, TableRef,
};
use crate::parse::{parse_expression, parse_query, quote_identifier};

/// The name of a term with its columns.
const TERM: &str = "heddle term";
/// The name under which the recursive term reads the further columns of the row before.
pub(in crate::bind) const BEFORE: &str = "heddle before";

/// The terms of a recursive query with the columns of SEARCH and CYCLE.
pub(in crate::bind) struct Traversed {
    pub initial: QueryBodySyntax,
    pub step: QueryBodySyntax,
    /// The number of columns that were added.
    pub added: usize,
}

impl Binder<'_> {
    /// The terms with further columns; `None` without SEARCH and CYCLE.
    pub(in crate::bind) fn traversed(
        &mut self,
        cte: &Cte,
        initial: &QueryBodySyntax,
        step: &QueryBodySyntax,
        id: CteId,
    ) -> Result<Option<Traversed>> {
        if cte.search.is_none() && cte.cycle.is_none() {
            return Ok(None);
        }
        let select = self.check_terms(cte, initial, step)?;
        // Only the names are of interest.
        let bound = self.within_cte(cte, id, Some(CteState::Initial), |binder| binder.body(initial))?;
        let mut names: Vec<String> = bound.columns.iter().map(|column| column.name.clone()).collect();
        for (name, given) in names.iter_mut().zip(&cte.columns) {
            name.clone_from(&given.text);
        }
        self.check_clauses(cte, &names)?;
        let mut select = select.clone();
        for name in further(cte) {
            let parts = [BEFORE, &name.text].map(|text| Name { text: text.to_string(), at: name.at });
            let expr =
                crate::parse::syntax::Expr { kind: ExprKind::Column(parts.to_vec()), at: name.at, height: 1 };
            select.targets.push(SelectItem::Expr { expr, alias: Some(name.clone()) });
        }
        let step = QueryBodySyntax::Select(Box::new(select));
        let mut of_step = names.clone();
        of_step.extend(further(cte).map(|name| name.text.clone()));
        Ok(Some(Traversed {
            initial: extended(cte, initial.clone(), &names, &names, false)?,
            step: extended(cte, step, &names, &of_step, true)?,
            added: of_step.len() - names.len(),
        }))
    }

    fn check_terms<'s>(
        &self,
        cte: &Cte,
        initial: &QueryBodySyntax,
        step: &'s QueryBodySyntax,
    ) -> Result<&'s crate::parse::syntax::Select> {
        let refused = |side: &str| {
            let message =
                format!("with a SEARCH or CYCLE clause, the {side} side of the UNION must be a SELECT");
            self.error(cte.name.at, SqlState::FEATURE_NOT_SUPPORTED, message)
        };
        if matches!(initial, QueryBodySyntax::Set { .. }) {
            return Err(refused("left"));
        }
        let QueryBodySyntax::Select(select) = step else { return Err(refused("right")) };
        if !select.from.iter().any(|item| names(item, &cte.name.text)) {
            let message = format!(
                "with a SEARCH or CYCLE clause, the recursive reference to WITH query \"{}\" must be at the top level of its right-hand SELECT",
                cte.name.text
            );
            return Err(self.error(cte.name.at, SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        Ok(select)
    }

    fn check_clauses(&self, cte: &Cte, names: &[String]) -> Result<()> {
        let refused = |name: &Name, state, message: String| Err(self.error(name.at, state, message));
        let lists = [
            ("search", cte.search.as_ref().map(|search| &search.columns)),
            ("cycle", cte.cycle.as_ref().map(|cycle| &cycle.columns)),
        ];
        for (kind, columns) in lists {
            let columns = columns.map_or(&[][..], Vec::as_slice);
            for (position, column) in columns.iter().enumerate() {
                let text = &column.text;
                if !names.contains(text) {
                    let message = format!("{kind} column \"{text}\" not in WITH query column list");
                    return refused(column, SqlState::SYNTAX_ERROR, message);
                }
                if columns[..position].iter().any(|other| other.text == *text) {
                    let message = format!("{kind} column \"{text}\" specified more than once");
                    return refused(column, SqlState::DUPLICATE_COLUMN, message);
                }
            }
        }
        let mut kinds = cte.search.iter().map(|_| "search sequence").chain(["cycle mark", "cycle path"]);
        let mut known: Vec<(&str, &Name)> = Vec::new();
        for name in further(cte) {
            let kind = kinds.next().unwrap_or("cycle path");
            if names.contains(&name.text) {
                let message =
                    format!("{kind} column name \"{}\" already used in WITH query column list", name.text);
                return refused(name, SqlState::SYNTAX_ERROR, message);
            }
            if let Some((other, _)) = known.iter().find(|(_, other)| other.text == name.text) {
                let message = format!("{other} column name and {kind} column name are the same");
                return refused(name, SqlState::SYNTAX_ERROR, message);
            }
            known.push((kind, name));
        }
        Ok(())
    }

    /// Refuses SEARCH and CYCLE of an expression that does not name itself.
    pub(in crate::bind) fn check_traversal(&self, cte: &Cte) -> Result<()> {
        let search = cte.search.as_ref().map(|search| search.at);
        match search.or(cte.cycle.as_ref().map(|cycle| cycle.at)) {
            Some(at) => Err(self.error(at, SqlState::SYNTAX_ERROR, "WITH query is not recursive")),
            None => Ok(()),
        }
    }
}

/// The names of the columns that are added, in their order.
fn further(cte: &Cte) -> impl Iterator<Item = &Name> {
    let search = cte.search.iter().map(|search| &search.sequence);
    search.chain(cte.cycle.iter().flat_map(|cycle| [&cycle.mark, &cycle.path]))
}

/// Returns true if an item of FROM reads an expression, itself or in a join.
fn names(item: &TableRef, cte: &str) -> bool {
    match item {
        TableRef::Table { name, .. } => name.parts.len() == 1 && name.last() == cte,
        TableRef::Join { left, right, .. } => names(left, cte) || names(right, cte),
        _ => false,
    }
}

/// A term in a query that adds the columns. `available`: the columns of the term.
fn extended(
    cte: &Cte,
    term: QueryBodySyntax,
    own: &[String],
    available: &[String],
    is_step: bool,
) -> Result<QueryBodySyntax> {
    let mut targets: Vec<String> =
        own.iter().map(|name| format!("{} AS {}", column(name), quote_identifier(name))).collect();
    if let Some(search) = &cte.search {
        let value = sequence(search, is_step);
        targets.push(format!("{value} AS {}", quote_identifier(&search.sequence.text)));
    }
    if let Some(cycle) = &cte.cycle {
        let (row, path) = (row_of(&cycle.columns), column(&cycle.path.text));
        let mark = if is_step {
            format!("CASE WHEN {row} = ANY ({path}) THEN NULL ELSE NULL END")
        } else {
            // Both values decide the column's type.
            "CASE WHEN false THEN NULL ELSE NULL END".into()
        };
        let path = if is_step { format!("{path} || ARRAY[{row}]") } else { format!("ARRAY[{row}]") };
        targets.push(format!("{mark} AS {}", quote_identifier(&cycle.mark.text)));
        targets.push(format!("{path} AS {}", quote_identifier(&cycle.path.text)));
    }
    let names: Vec<_> = available.iter().map(|name| quote_identifier(name)).collect();
    let text = format!(
        "SELECT {} FROM (SELECT) AS {} ({})",
        targets.join(", "),
        quote_identifier(TERM),
        names.join(", ")
    );
    let query = parse_query(&text)?;
    let QueryBodySyntax::Select(mut select) = query.body else {
        return Err(SqlError::internal("a term of a recursion is no SELECT"));
    };
    if let Some(TableRef::Query { query, .. }) = select.from.first_mut() {
        **query = Query::plain(term, cte.name.at);
    }
    if let Some(cycle) = &cte.cycle {
        set_mark(cycle, &mut select.targets);
        if is_step {
            select.filter = Some(is_unmarked(cycle)?);
        }
    }
    Ok(QueryBodySyntax::Select(select))
}

fn column(name: &str) -> String {
    format!("{}.{}", quote_identifier(TERM), quote_identifier(name))
}

/// `ROW(columns)`
fn row_of(columns: &[Name]) -> String {
    let columns: Vec<String> = columns.iter().map(|name| column(&name.text)).collect();
    format!("ROW({})", columns.join(", "))
}

/// The value of the column that SEARCH adds.
fn sequence(search: &SearchClause, is_step: bool) -> String {
    let (row, before) = (row_of(&search.columns), column(&search.sequence.text));
    if !search.is_breadth {
        return if is_step { format!("{before} || ARRAY[{row}]") } else { format!("ARRAY[{row}]") };
    }
    let depth = if is_step { format!("heddle_depth_below({before})") } else { "0::int8".to_string() };
    format!("ROW({depth}, {}", row.strip_prefix("ROW(").unwrap_or(&row))
}

/// Puts the values of the mark into its target.
fn set_mark(cycle: &CycleClause, targets: &mut [SelectItem]) {
    let is_mark = |alias: &Option<Name>| alias.as_ref().is_some_and(|alias| alias.text == cycle.mark.text);
    for item in targets {
        let SelectItem::Expr { expr, alias } = item else { continue };
        if !is_mark(alias) {
            continue;
        }
        match &mut expr.kind {
            ExprKind::Case { arms, otherwise, .. } => {
                arms.iter_mut().for_each(|(_, value)| value.clone_from(&cycle.values.0));
                *otherwise = Some(Box::new(cycle.values.1.clone()));
            }
            _ => expr.clone_from(&cycle.values.1),
        }
    }
}

/// The condition that the row before is not marked.
fn is_unmarked(cycle: &CycleClause) -> Result<crate::parse::syntax::Expr> {
    let mut condition = parse_expression(&format!("{} <> NULL", column(&cycle.mark.text)))?;
    if let ExprKind::Binary { right, .. } = &mut condition.kind {
        **right = cycle.values.0.clone();
    }
    Ok(condition)
}
