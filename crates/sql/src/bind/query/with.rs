//! WITH: common table expressions, plain and recursive.
//!
//! Source: PostgreSQL 15, `parse_cte.c`.

use crate::bind::binder::{Binder, CteState, VisibleCte};
use crate::bind::query::traversal::Traversed;
use crate::bind::tree::{BoundColumn, BoundCte, BoundQuery, CteBody, CteId, QueryBody};
use crate::error::{Result, SqlState};
use crate::parse::syntax::{At, Cte, Query, QueryBodySyntax, SetOperator, Statement, With};
use crate::types::Type;

impl Binder<'_> {
    /// WITH: its expressions become visible one after the other.
    pub fn with(&mut self, with: &With) -> Result<Vec<BoundCte>> {
        for (position, cte) in with.ctes.iter().enumerate() {
            if with.ctes[..position].iter().any(|other| other.name.text == cte.name.text) {
                let message = format!("WITH query name \"{}\" specified more than once", cte.name.text);
                return Err(self.error(cte.name.at, SqlState::DUPLICATE_ALIAS, message));
            }
        }
        let ordered = if with.recursive { in_order(&with.ctes) } else { with.ctes.iter().collect() };
        let mut bound = Vec::with_capacity(ordered.len());
        for (position, cte) in ordered.iter().enumerate() {
            let hidden = if with.recursive { self.show_later(&ordered[position + 1..]) } else { 0 };
            let defined = self.cte_definition(cte, with.recursive);
            self.hide_later(hidden);
            let cte = defined?;
            let silent = matches!(&cte.body, CteBody::Statement(statement) if statement.columns.is_empty());
            let state = if silent { CteState::Silent } else { CteState::Whole };
            self.show_cte(cte.id, &cte.name, cte.columns.clone(), state);
            bound.push(cte);
        }
        Ok(bound)
    }

    fn cte_definition(&mut self, cte: &Cte, recursive: bool) -> Result<BoundCte> {
        let id = self.new_cte();
        let (body, columns) = match cte.statement.as_ref() {
            Statement::Query(query) => {
                let outer = self.defining.replace(id);
                let bound = self.cte_query(cte, query, (id, recursive));
                self.defining = outer;
                bound?
            }
            statement => {
                if self.scopes.len() > 1 {
                    let message =
                        "WITH clause containing a data-modifying statement must be at the top level";
                    return Err(self.error(cte.name.at, SqlState::FEATURE_NOT_SUPPORTED, message));
                }
                let form = recursive.then_some(CteState::Writing);
                let mut statement =
                    self.within_cte(cte, id, form, |binder| binder.data_statement(statement))?;
                self.name_columns(&mut statement.columns, cte)?;
                let columns = statement.columns.clone();
                (CteBody::Statement(Box::new(statement)), columns)
            }
        };
        let (name, materialized) = (cte.name.text.clone(), cte.materialized);
        Ok(BoundCte { id, name, columns, body, materialized, references: 0 })
    }

    fn cte_query(
        &mut self,
        cte: &Cte,
        query: &Query,
        (id, recursive): (CteId, bool),
    ) -> Result<(CteBody, Vec<BoundColumn>)> {
        let found = if recursive { self.recursive_cte(cte, query, id)? } else { None };
        if let Some(found) = found {
            return Ok(found);
        }
        self.check_traversal(cte)?;
        let form = recursive.then_some(CteState::Formless);
        let mut query = self.within_cte(cte, id, form, |binder| binder.query(query))?;
        self.name_columns(&mut query.columns, cte)?;
        let columns = query.columns.clone();
        Ok((CteBody::Query(query), columns))
    }

    /// Makes the names of later expressions known, which an earlier one may not use: how many.
    fn show_later(&mut self, later: &[&Cte]) -> usize {
        for cte in later {
            let id = self.new_cte();
            self.show_cte(id, &cte.name.text, Vec::new(), CteState::Later);
        }
        later.len()
    }

    fn hide_later(&mut self, count: usize) {
        let ctes = &mut self.scope().ctes;
        ctes.truncate(ctes.len() - count);
    }

    /// Makes a common table expression visible.
    fn show_cte(&mut self, id: CteId, name: &str, columns: Vec<BoundColumn>, state: CteState) {
        let places = self.places.len();
        let visible = VisibleCte { id, name: name.to_string(), columns, state, hidden: 0, places };
        self.scope().ctes.push(visible);
    }

    /// Binds the definition of an expression in which its own name may not be used, if it is recursive.
    pub(in crate::bind) fn within_cte<T>(
        &mut self,
        cte: &Cte,
        id: CteId,
        form: Option<CteState>,
        bind: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let Some(form) = form else { return bind(self) };
        self.show_cte(id, &cte.name.text, Vec::new(), form);
        let bound = bind(self);
        self.scope().ctes.pop();
        bound
    }

    /// Binds something into which a recursive reference may not reach.
    pub(in crate::bind) fn in_place<T>(
        &mut self,
        place: Option<&'static str>,
        bind: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        self.places.extend(place);
        let bound = bind(self);
        if place.is_some() {
            self.places.pop();
        }
        bound
    }

    /// Refuses a reference that a recursive query may not make to itself.
    pub(in crate::bind) fn check_recursion(&self, cte: &VisibleCte, at: At) -> Result<()> {
        let name = &cte.name;
        let within =
            |place: &str| format!("recursive reference to query \"{name}\" must not appear within {place}");
        let message = match (cte.state, self.places.get(cte.places)) {
            (CteState::Initial, _) => within("its non-recursive term"),
            (CteState::Recursive, Some(place)) => within(place),
            (CteState::Formless, _) => format!(
                "recursive query \"{name}\" does not have the form non-recursive-term UNION [ALL] recursive-term"
            ),
            (CteState::Writing, _) => {
                format!("recursive query \"{name}\" must not contain data-modifying statements")
            }
            (CteState::Later, _) => {
                let message = "mutual recursion between WITH items is not implemented";
                return Err(self.unsupported(at, message));
            }
            _ => return Ok(()),
        };
        Err(self.error(at, SqlState::INVALID_RECURSION, message))
    }

    fn name_columns(&self, columns: &mut [BoundColumn], cte: &Cte) -> Result<()> {
        if cte.columns.len() > columns.len() {
            let message = format!(
                "WITH query \"{}\" has {} columns available but {} columns specified",
                cte.name.text,
                columns.len(),
                cte.columns.len()
            );
            return Err(self.error(cte.name.at, SqlState::INVALID_COLUMN_REFERENCE, message));
        }
        for (column, name) in columns.iter_mut().zip(&cte.columns) {
            column.name = name.text.clone();
        }
        Ok(())
    }

    /// `initial UNION [ALL] step`, if the step names the expression itself.
    fn recursive_cte(
        &mut self,
        cte: &Cte,
        query: &Query,
        id: CteId,
    ) -> Result<Option<(CteBody, Vec<BoundColumn>)>> {
        let QueryBodySyntax::Set { operator: SetOperator::Union, all, left, right, at } = &query.body else {
            return Ok(None);
        };
        if query.with.is_some() {
            return Ok(None);
        }
        self.enter();
        let bound = match self.traversed(cte, left, right, id) {
            Ok(Some(traversed)) => {
                let Traversed { initial, step, added } = &traversed;
                self.recursive_parts(cte, (initial, step, *added), id, *at)
            }
            Ok(None) => self.recursive_parts(cte, (left, right, 0), id, *at),
            Err(error) => Err(error),
        };
        self.leave();
        let Some((initial, step, columns)) = bound? else { return Ok(None) };
        let clause = match () {
            () if !query.order_by.is_empty() => "ORDER BY",
            () if query.offset.is_some() => "OFFSET",
            () if query.limit.is_some() => "LIMIT",
            () if !query.locks.is_empty() => "FOR UPDATE/SHARE",
            () => return Ok(Some((CteBody::Recursive { initial, step, all: *all }, columns))),
        };
        let message = format!("{clause} in a recursive query is not implemented");
        Err(self.error(query.at, SqlState::FEATURE_NOT_SUPPORTED, message))
    }

    fn recursive_parts(
        &mut self,
        cte: &Cte,
        (left, right, hidden): (&QueryBodySyntax, &QueryBodySyntax, usize),
        id: CteId,
        at: At,
    ) -> Result<Option<(BoundQuery, BoundQuery, Vec<BoundColumn>)>> {
        let mut initial = self.within_cte(cte, id, Some(CteState::Initial), |binder| binder.body(left))?;
        let unknown: Vec<bool> = initial.columns.iter().map(|column| column.ty == Type::Unknown).collect();
        let known: Vec<Type> = initial
            .columns
            .iter()
            .map(|column| if column.ty == Type::Unknown { Type::Text } else { column.ty })
            .collect();
        self.convert_columns(&mut initial, &known, at)?;
        let mut columns = initial.columns.clone();
        columns.iter_mut().for_each(|column| column.source = None);
        self.name_columns(&mut columns, cte)?;
        self.show_cte(id, &cte.name.text, columns.clone(), CteState::Recursive);
        self.scope().ctes.iter_mut().filter(|it| it.id == id).for_each(|it| it.hidden = hidden);
        let mut step = self.body(right)?;
        match self.cte_references.get(&id).copied().unwrap_or(0) {
            0 => return Ok(None),
            1 => {}
            _ => {
                let message = format!(
                    "recursive reference to query \"{}\" must not appear more than once",
                    cte.name.text
                );
                return Err(self.error(at, SqlState::INVALID_RECURSION, message));
            }
        }
        if let QueryBody::Select(select) = &step.body
            && !select.aggregates.is_empty()
        {
            let message = "aggregate functions are not allowed in a recursive query's recursive term";
            return Err(self.error(at, SqlState::INVALID_RECURSION, message));
        }
        if step.columns.len() != columns.len() {
            let message = "each UNION query must have the same number of columns";
            return Err(self.error(at, SqlState::SYNTAX_ERROR, message));
        }
        for (position, (column, found)) in columns.iter().zip(&step.columns).enumerate() {
            let own = if unknown[position] { Type::Unknown } else { column.ty };
            let overall = match (own, found.ty) {
                (Type::Unknown, Type::Unknown) => Type::Text,
                (own, other) => self.common(&[own, other], "UNION", at)?,
            };
            let is_narrower = overall == found.ty && !column.modifier.is_none();
            if overall != column.ty || is_narrower && column.modifier != found.modifier {
                let message = format!(
                    "recursive query \"{}\" column {} has type {} in non-recursive term but type {} overall",
                    cte.name.text,
                    position + 1,
                    self.type_text(column.ty),
                    self.type_text(overall)
                );
                let hint = "Cast the output of the non-recursive term to the correct type.";
                return Err(self.error(at, SqlState::DATATYPE_MISMATCH, message).with_hint(hint));
            }
        }
        self.convert_columns(&mut step, &known, at)?;
        Ok(Some((initial, step, columns)))
    }
}

/// The expressions of a WITH RECURSIVE so that each follows those that it names, as far as none needs itself by
/// another.
fn in_order(ctes: &[Cte]) -> Vec<&Cte> {
    let mut waiting: Vec<&Cte> = ctes.iter().collect();
    let mut ordered = Vec::with_capacity(ctes.len());
    while !waiting.is_empty() {
        let needs = |cte: &Cte, other: &Cte| cte.name != other.name && cte.words.contains(&other.name.text);
        let is_ready = |cte: &&Cte| !waiting.iter().any(|other| needs(cte, other));
        let next = waiting.iter().position(is_ready).unwrap_or(0);
        ordered.push(waiting.remove(next));
    }
    ordered
}
