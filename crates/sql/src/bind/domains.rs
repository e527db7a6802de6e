//! Casts to domains: the value of the type beneath, once it meets the domain's constraints.
//!
//! `x::positive` is bound as a CASE over the cast to the type beneath, whose arms find the constraint that fails:
//!
//! ```text
//! CASE x::integer WHEN (VALUE > 0) IS FALSE THEN heddle_domain_violation('positive', 'positive_check', 'public') ELSE VALUE END
//! ```
//!
//! # Invariants
//! - The operand is evaluated once; VALUE is the CASE's operand, in its conditions and in its ELSE.
//! - NOT NULL is first, then the checks of the domains beneath, then its own in the order of their names, as in PostgreSQL.

use crate::bind::binder::Binder;
use crate::bind::scope::{Clause, Entry, VisibleColumn};
use crate::bind::tree::walk::walk;
use crate::bind::tree::{Arm, BoundExpr, RelationId, RelationKind, TruthValue};
use crate::catalog::{Check, Domain};
use crate::error::{Result, SqlError};
use crate::parse::syntax::{At, Expr, ExprKind};
use crate::types::{Modifier, Type, Value};

impl Binder<'_> {
    /// The name that `pg_typeof` returns for a literal without a type, a cast to a domain or a column of one, which
    /// have the type beneath elsewhere. The argument is evaluated, because a cast may fail.
    pub(super) fn stated_type(&self, expr: &Expr, bound: &BoundExpr) -> Option<BoundExpr> {
        let column_of = |id: RelationId, column: usize| {
            let relations = self.scopes.iter().flat_map(|scope| &scope.relations);
            match &relations.into_iter().find(|relation| relation.id == id)?.kind {
                RelationKind::Table(table) => table.columns.get(column)?.domain,
                _ => None,
            }
        };
        let oid = match (&expr.kind, bound) {
            (_, BoundExpr::Constant { ty: Type::Unknown, .. }) => Some(Type::Unknown.oid()),
            (ExprKind::Cast { ty, .. }, _) => self.named_type(ty).ok()?.domain.map(|domain| domain.oid),
            (_, BoundExpr::Column { relation, column, .. }) => column_of(*relation, *column),
            _ => None,
        };
        let said = BoundExpr::constant(Value::Oid(oid?), Type::Regtype);
        let when = BoundExpr::IsNull { operand: Box::new(bound.clone()), negated: false };
        let arms = vec![Arm { when, then: said.clone() }];
        Some(BoundExpr::Case { operand: None, arms, otherwise: Box::new(said), ty: Type::Regtype })
    }

    /// A value that was cast to the type beneath a domain, with the domain's constraints.
    pub fn checked(&mut self, value: BoundExpr, domain: &Domain, at: At) -> Result<BoundExpr> {
        let ty = value.ty();
        let arms = self.rules_of(domain, &BoundExpr::CaseOperand { ty }, ty, at)?;
        Ok(with_arms(value, arms))
    }

    /// The value of a field of a row type, with the constraints of the domain that the field has.
    pub(super) fn checked_field(
        &mut self,
        value: BoundExpr,
        (row, number): (Type, usize),
        at: At,
    ) -> Result<BoundExpr> {
        let columns = row.row_relation().and_then(|oid| self.context.catalog.row_columns(oid));
        let domain = columns.unwrap_or_default().get(number).and_then(|column| column.domain);
        match domain.and_then(|oid| self.context.catalog.domain_by_oid(oid)).cloned() {
            Some(domain) => self.checked(value, &domain, at),
            None => Ok(value),
        }
    }

    /// A value that has become one of a row type, with the constraints of the domains that its fields have.
    pub(super) fn checked_row(&mut self, value: BoundExpr, at: At) -> Result<BoundExpr> {
        let ty = value.ty();
        let mut arms = Vec::new();
        self.rules_of_fields(&BoundExpr::CaseOperand { ty }, ty, &mut arms, at)?;
        Ok(with_arms(value, arms))
    }

    /// Adds the rules of a row's fields, and of the fields of these; `ty`: the type of the whole value.
    fn rules_of_fields(&mut self, row: &BoundExpr, ty: Type, arms: &mut Vec<Arm>, at: At) -> Result<()> {
        let catalog = self.context.catalog;
        let columns = row.ty().row_relation().and_then(|oid| catalog.row_columns(oid));
        for (number, column) in columns.unwrap_or_default().iter().enumerate() {
            let field = BoundExpr::Field { row: Box::new(row.clone()), number, ty: column.ty };
            let Some(domain) = column.domain.and_then(|oid| catalog.domain_by_oid(oid)) else {
                self.rules_of_fields(&field, ty, arms, at)?;
                continue;
            };
            for Arm { when, then } in self.rules_of(domain, &field, ty, at)? {
                // A row that is NULL itself has no fields.
                let is_there =
                    self.distinct_values(row.clone(), BoundExpr::null(Type::Unknown), false, at)?;
                arms.push(Arm { when: BoundExpr::And(vec![is_there, when]), then });
            }
        }
        Ok(())
    }

    /// The rules of a domain over a value, each with the error where it is violated, as a value of `ty`.
    fn rules_of(&mut self, domain: &Domain, value: &BoundExpr, ty: Type, at: At) -> Result<Vec<Arm>> {
        let catalog = self.context.catalog;
        let checks = catalog.domain_checks(domain);
        let mut arms = Vec::with_capacity(checks.len() + 1);
        if catalog.domain_refuses_null(domain) {
            let when = BoundExpr::IsNull { operand: Box::new(value.clone()), negated: false };
            arms.push(Arm { when, then: self.violation(domain, None, ty)? });
        }
        for check in checks {
            let operand = Box::new(self.check_of_value(check, value, at)?);
            let when = BoundExpr::IsTruth { operand, value: TruthValue::False, negated: false };
            arms.push(Arm { when, then: self.violation(domain, Some(&check.name), ty)? });
        }
        Ok(arms)
    }

    /// Columns of a function in FROM that were declared with domains: their values are checked where they are read.
    pub(super) fn check_columns(
        &mut self,
        columns: &mut [VisibleColumn],
        domains: &[Option<u32>],
        at: At,
    ) -> Result<()> {
        let catalog = self.context.catalog;
        for (column, domain) in columns.iter_mut().zip(domains) {
            if let Some(domain) = domain.and_then(|oid| catalog.domain_by_oid(oid)) {
                column.expr = self.checked(column.expr.clone(), domain, at)?;
            }
        }
        Ok(())
    }

    /// A domain's check over the operand of the CASE around, or over a part of it.
    fn check_of_value(&mut self, check: &Check, value: &BoundExpr, at: At) -> Result<BoundExpr> {
        let expr = crate::parse::parse_expression(&check.condition)?;
        let value = VisibleColumn {
            name: "value".to_string(),
            expr: value.clone(),
            modifier: Modifier::NONE,
            source: None,
        };
        let entry = Entry::unnamed(vec![value]);
        let condition = self.detached(|binder| {
            binder.scope().entries.push(entry);
            binder.clause_condition(&expr, Clause::Check)
        })?;
        let mut has_operand = false;
        walk(&condition, &mut |part| has_operand |= matches!(part, BoundExpr::Case { operand: Some(_), .. }));
        if has_operand {
            // VALUE would mean the inner operand there.
            let message = "casts to domains whose checks hold CASE with an operand are not supported";
            return Err(self.unsupported(at, message));
        }
        Ok(condition)
    }

    /// A call that fails, of any type.
    pub(super) fn violation(&mut self, domain: &Domain, check: Option<&str>, ty: Type) -> Result<BoundExpr> {
        let text = |text: &str| BoundExpr::constant(Value::text(text), Type::Text);
        let check = check.map_or(BoundExpr::null(Type::Text), text);
        let args = vec![text(&domain.name), check, text(&domain.schema)];
        match self.call_named("heddle_domain_violation", args, 0)? {
            BoundExpr::Call { function, args, .. } => Ok(BoundExpr::Call { function, args, ty }),
            _ => Err(SqlError::internal("a domain's violation is no call")),
        }
    }
}

/// A value that is checked by these arms of a CASE over it.
fn with_arms(value: BoundExpr, arms: Vec<Arm>) -> BoundExpr {
    if arms.is_empty() {
        return value;
    }
    let ty = value.ty();
    let otherwise = Box::new(BoundExpr::CaseOperand { ty });
    BoundExpr::Case { operand: Some(Box::new(value)), arms, otherwise, ty }
}
