//! WITH: common table expressions, plain and recursive.
//!
//! Source: PostgreSQL 15, `parse_cte.c`.

use crate::bind::binder::{Binder, CteState, VisibleCte};
use crate::bind::tree::{BoundColumn, BoundCte, BoundQuery, CteBody, CteId, QueryBody};
use crate::error::{Result, SqlState};
use crate::parse::syntax::{At, Cte, Query, QueryBodySyntax, SetOperator, Statement, With};
use crate::types::Type;

impl Binder<'_> {
    /// WITH: its expressions become visible one after the other.
    pub fn with(&mut self, with: &With) -> Result<Vec<BoundCte>> {
        let mut bound = Vec::with_capacity(with.ctes.len());
        for (position, cte) in with.ctes.iter().enumerate() {
            if with.ctes[..position].iter().any(|other| other.name.text == cte.name.text) {
                let message = format!("WITH query name \"{}\" specified more than once", cte.name.text);
                return Err(self.error(cte.name.at, SqlState::DUPLICATE_ALIAS, message));
            }
            let cte = self.cte_definition(cte, with.recursive)?;
            let silent = matches!(&cte.body, CteBody::Statement(statement) if statement.columns.is_empty());
            let state = if silent { CteState::Silent } else { CteState::Whole };
            let visible =
                VisibleCte { id: cte.id, name: cte.name.clone(), columns: cte.columns.clone(), state };
            self.scope().ctes.push(visible);
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
                let mut statement = self.data_statement(statement)?;
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
        let mut query = self.query(query)?;
        self.name_columns(&mut query.columns, cte)?;
        let columns = query.columns.clone();
        Ok((CteBody::Query(query), columns))
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
        let bound = self.recursive_parts(cte, left, right, id, *at);
        self.leave();
        let Some((initial, step, columns)) = bound? else { return Ok(None) };
        if !query.order_by.is_empty() || query.limit.is_some() || query.offset.is_some() {
            let message = "ORDER BY, LIMIT and OFFSET in a recursive query are not implemented";
            return Err(self.error(query.at, SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        Ok(Some((CteBody::Recursive { initial, step, all: *all }, columns)))
    }

    fn recursive_parts(
        &mut self,
        cte: &Cte,
        left: &QueryBodySyntax,
        right: &QueryBodySyntax,
        id: CteId,
        at: At,
    ) -> Result<Option<(BoundQuery, BoundQuery, Vec<BoundColumn>)>> {
        let name = cte.name.text.clone();
        self.scope().ctes.push(VisibleCte { id, name, columns: Vec::new(), state: CteState::Initial });
        let mut initial = self.body(left)?;
        self.scope().ctes.pop();
        let known: Vec<Type> = initial
            .columns
            .iter()
            .map(|column| if column.ty == Type::Unknown { Type::Text } else { column.ty })
            .collect();
        self.convert_columns(&mut initial, &known, at)?;
        let mut columns = initial.columns.clone();
        columns.iter_mut().for_each(|column| column.source = None);
        self.name_columns(&mut columns, cte)?;
        let name = cte.name.text.clone();
        let visible = VisibleCte { id, name, columns: columns.clone(), state: CteState::Recursive };
        self.scope().ctes.push(visible);
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
            let overall = self.common(&[column.ty, found.ty], "UNION", at)?;
            if overall != column.ty {
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
