//! Expressions: literals, columns, CASE and the like, arrays, rows, subqueries.

use crate::bind::binder::Binder;
use crate::bind::scope::Clause;
use crate::bind::tree::{Arm, BoundExpr, BoundQuery, MinMax, Subquery, SubqueryKind, TruthValue};
use crate::error::{Result, SqlState};
use crate::parse::syntax::{At, Expr, ExprKind, Name, ObjectName, Query, TypeName};
use crate::types::cast::CastContext;
use crate::types::{Modifier, Type, Value};

impl Binder<'_> {
    /// An expression.
    pub fn expr(&mut self, expr: &Expr) -> Result<BoundExpr> {
        crate::stack::grow(|| self.expr_here(expr))
    }

    pub fn exprs(&mut self, exprs: &[Expr]) -> Result<Vec<BoundExpr>> {
        exprs.iter().map(|expr| self.expr(expr)).collect()
    }

    fn expr_here(&mut self, expr: &Expr) -> Result<BoundExpr> {
        let at = expr.at;
        match &expr.kind {
            ExprKind::Null => Ok(BoundExpr::null(Type::Unknown)),
            ExprKind::Bool(value) => Ok(BoundExpr::constant(Value::Bool(*value), Type::Bool)),
            ExprKind::Integer(digits) => self.integer(digits, at),
            ExprKind::Decimal(digits) => self.literal(Type::Numeric, digits, at),
            ExprKind::Text(text) => Ok(BoundExpr::constant(Value::text(text), Type::Unknown)),
            ExprKind::Bits(bits) => Ok(BoundExpr::constant(Value::text(bits), Type::Bit)),
            ExprKind::Parameter(number) => self.parameter(*number, at),
            ExprKind::Column(parts) => self.column(parts, at),
            ExprKind::Unary { operator, operand } => self.unary(operator, operand, at),
            ExprKind::Binary { operator, left, right } => self.binary(operator, left, right, at),
            ExprKind::And(operands) => Ok(BoundExpr::And(self.conditions(operands, "AND")?)),
            ExprKind::Or(operands) => Ok(BoundExpr::Or(self.conditions(operands, "OR")?)),
            ExprKind::Not(operand) => {
                let condition = self.expr(operand)?;
                Ok(BoundExpr::Not(Box::new(self.condition(condition, "NOT", operand.at)?)))
            }
            ExprKind::IsNull { operand, negated } => {
                let operand = self.expr(operand)?;
                let operand = Box::new(self.known(operand, at)?);
                Ok(BoundExpr::IsNull { operand, negated: *negated })
            }
            ExprKind::IsTruth { operand, value, negated } => self.is_truth(operand, *value, *negated),
            ExprKind::IsDistinct { left, right, negated } => self.is_distinct(left, right, *negated, at),
            ExprKind::Between { operand, low, high, symmetric, negated } => {
                self.between(operand, low, high, *symmetric, *negated, at)
            }
            ExprKind::InList { operand, list, negated } => self.in_list(operand, list, *negated, at),
            ExprKind::InQuery { operand, query, negated } => self.in_query(operand, query, *negated, at),
            ExprKind::Like { kind, operand, pattern, escape, negated } => {
                self.like(*kind, operand, pattern, escape.as_deref(), *negated, at)
            }
            ExprKind::QuantifiedArray { operand, operator, array, all } => {
                self.quantified_array(operand, operator, array, *all, at)
            }
            ExprKind::QuantifiedQuery { operand, operator, query, all } => {
                self.quantified_query(operand, operator, query, *all, at)
            }
            ExprKind::Case { operand, arms, otherwise } => {
                let case =
                    |binder: &mut Self| binder.case(operand.as_deref(), arms, otherwise.as_deref(), at);
                self.without_sets("CASE", case)
            }
            ExprKind::Call(call) => self.call(call, at),
            ExprKind::Cast { operand, ty } => self.cast(operand, ty, at),
            _ => self.other_expr(expr),
        }
    }

    fn other_expr(&mut self, expr: &Expr) -> Result<BoundExpr> {
        let at = expr.at;
        match &expr.kind {
            ExprKind::Coalesce(operands) => {
                let operands = self.without_sets("COALESCE", |binder| binder.exprs(operands))?;
                let (operands, ty) = self.unify(operands, "COALESCE", at)?;
                Ok(BoundExpr::Coalesce { operands, ty })
            }
            ExprKind::NullIf(left, right) => self.null_if(left, right, at),
            ExprKind::Greatest(operands) => self.min_max(MinMax::Greatest, operands, "GREATEST", at),
            ExprKind::Least(operands) => self.min_max(MinMax::Least, operands, "LEAST", at),
            ExprKind::Grouping(args) => self.grouping_call(args, at),
            ExprKind::Array(elements) => self.array(elements, at),
            ExprKind::ArrayQuery(query) => self.array_query(query, at),
            ExprKind::Row(fields) => {
                let mut bound = Vec::with_capacity(fields.len());
                for field in fields {
                    for value in self.spread(field)? {
                        bound.push(self.known(value, field.at)?);
                    }
                }
                Ok(BoundExpr::Row { fields: bound, names: None, is_nullable: false })
            }
            ExprKind::Subscript { .. } | ExprKind::Slice { .. } => self.subscripted(expr),
            ExprKind::Field { operand, name } => self.field(operand, name),
            // `relation.*` where one value is expected is the whole row.
            ExprKind::AllFields(operand) if matches!(operand.kind, ExprKind::Column(_)) => self.expr(operand),
            ExprKind::AllFields(_) => {
                Err(self.error(at, SqlState::SYNTAX_ERROR, "row expansion via \"*\" is not supported here"))
            }
            ExprKind::Exists(query) => {
                let query = self.subquery(query, at)?;
                Ok(BoundExpr::Subquery(Box::new(Subquery { kind: SubqueryKind::Exists, query })))
            }
            ExprKind::Subquery(query) => {
                let query = self.one_column(query, at)?;
                let kind = SubqueryKind::Scalar { ty: query.columns[0].ty };
                Ok(BoundExpr::Subquery(Box::new(Subquery { kind, query })))
            }
            ExprKind::Collate { operand, collation } => self.collate(operand, collation, at),
            ExprKind::Default => {
                Err(self.error(at, SqlState::SYNTAX_ERROR, "DEFAULT is not allowed in this context"))
            }
            ExprKind::CurrentOf(_) => Err(self.unsupported(at, "WHERE CURRENT OF is not supported")),
            _ => Err(self.unsupported(at, "this expression is not supported")),
        }
    }

    /// An expression, or the columns that `relation.*` expands to, as in ROW and VALUES.
    pub fn spread(&mut self, expr: &Expr) -> Result<Vec<BoundExpr>> {
        let ExprKind::AllFields(operand) = &expr.kind else { return Ok(vec![self.expr(expr)?]) };
        match self.expr(operand)? {
            BoundExpr::Row { fields, .. } => Ok(fields),
            row if row.ty().row_relation().is_some() => {
                let columns = self.record_columns(&row).unwrap_or_default().into_iter().enumerate();
                let field = |(number, (_, ty))| BoundExpr::Field { row: Box::new(row.clone()), number, ty };
                Ok(columns.map(field).collect())
            }
            _ => self.expr(expr).map(|value| vec![value]),
        }
    }

    /// A whole number has the smallest of integer, bigint and numeric that holds it.
    fn integer(&mut self, digits: &str, at: At) -> Result<BoundExpr> {
        if let Ok(value) = digits.parse::<i32>() {
            return Ok(BoundExpr::constant(Value::Int4(value), Type::Int4));
        }
        if let Ok(value) = digits.parse::<i64>() {
            return Ok(BoundExpr::constant(Value::Int8(value), Type::Int8));
        }
        self.literal(Type::Numeric, digits, at)
    }

    fn literal(&mut self, ty: Type, text: &str, at: At) -> Result<BoundExpr> {
        let value = self.literal_value(ty, Modifier::NONE, text).map_err(|error| self.at(error, at))?;
        Ok(BoundExpr::constant(value, ty))
    }

    fn parameter(&mut self, number: u32, at: At) -> Result<BoundExpr> {
        if let Some(variable) = self.numbered_variable(number, at)? {
            return Ok(variable);
        }
        let position = number as usize - 1;
        if position >= self.parameters.len() {
            if !self.new_parameters {
                let message = format!("there is no parameter ${number}");
                return Err(self.error(at, SqlState::UNDEFINED_PARAMETER, message));
            }
            self.parameters.resize(position + 1, None);
        }
        let ty = self.parameters[position].unwrap_or(Type::Unknown);
        Ok(BoundExpr::Parameter { number: position, ty })
    }

    fn conditions(&mut self, operands: &[Expr], word: &str) -> Result<Vec<BoundExpr>> {
        let mut conditions = Vec::with_capacity(operands.len());
        for operand in operands {
            let condition = self.expr(operand)?;
            conditions.push(self.condition(condition, word, operand.at)?);
        }
        Ok(conditions)
    }

    fn is_truth(&mut self, operand: &Expr, value: Option<bool>, negated: bool) -> Result<BoundExpr> {
        let condition = self.expr(operand)?;
        let (value, word) = match value {
            Some(true) => (TruthValue::True, "IS TRUE"),
            Some(false) => (TruthValue::False, "IS FALSE"),
            None => (TruthValue::Unknown, "IS UNKNOWN"),
        };
        let operand = Box::new(self.condition(condition, word, operand.at)?);
        Ok(BoundExpr::IsTruth { operand, value, negated })
    }

    fn case(
        &mut self,
        operand: Option<&Expr>,
        arms: &[(Expr, Expr)],
        otherwise: Option<&Expr>,
        at: At,
    ) -> Result<BoundExpr> {
        let operand = match operand {
            Some(operand) => {
                let bound = self.expr(operand)?;
                Some(self.known(bound, operand.at)?)
            }
            None => None,
        };
        let mut bound = Vec::with_capacity(arms.len());
        for (when, then) in arms {
            let condition = self.expr(when)?;
            let when = match &operand {
                Some(operand) => {
                    let stand_in = BoundExpr::CaseOperand { ty: operand.ty() };
                    self.operator("=", stand_in, condition, when.at)?
                }
                None => self.condition(condition, "CASE/WHEN", when.at)?,
            };
            bound.push(Arm { when, then: self.expr(then)? });
        }
        let otherwise = match otherwise {
            Some(otherwise) => self.expr(otherwise)?,
            None => BoundExpr::null(Type::Unknown),
        };
        let (arms, otherwise, ty) = self.unify_arms(bound, otherwise, at)?;
        let operand = operand.map(Box::new);
        Ok(BoundExpr::Case { operand, arms, otherwise: Box::new(otherwise), ty })
    }

    fn null_if(&mut self, left: &Expr, right: &Expr, at: At) -> Result<BoundExpr> {
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        match self.operator("=", left, right, at)? {
            BoundExpr::Operator { operator: equals, mut args, .. } if args.len() == 2 => {
                let right = args.pop().unwrap_or(BoundExpr::null(Type::Text));
                let left = args.pop().unwrap_or(BoundExpr::null(Type::Text));
                let ty = left.ty();
                Ok(BoundExpr::NullIf { operands: Box::new([left, right]), equals, ty })
            }
            _ => Err(self.unsupported(at, "NULLIF of rows is not supported")),
        }
    }

    fn min_max(&mut self, kind: MinMax, operands: &[Expr], what: &str, at: At) -> Result<BoundExpr> {
        let operands = self.exprs(operands)?;
        let (operands, ty) = self.unify(operands, what, at)?;
        Ok(BoundExpr::MinMax { kind, operands, ty })
    }

    fn array(&mut self, elements: &[Expr], at: At) -> Result<BoundExpr> {
        if elements.is_empty() {
            let message = "cannot determine type of empty array";
            let hint = "Explicitly cast to the desired type, for example ARRAY[]::integer[].";
            return Err(self.error(at, SqlState::INDETERMINATE_DATATYPE, message).with_hint(hint));
        }
        let bound = self.exprs(elements)?;
        let (elements, element) = self.unify(bound, "ARRAY", at)?;
        let Some(ty) = element.array() else {
            let message = format!("could not find array type for data type {}", self.type_text(element));
            return Err(self.error(at, SqlState::UNDEFINED_OBJECT, message));
        };
        Ok(BoundExpr::Array { elements, ty })
    }

    fn array_query(&mut self, query: &Query, at: At) -> Result<BoundExpr> {
        let query = self.one_column(query, at)?;
        let element = query.columns[0].ty;
        let Some(ty) = element.array() else {
            let message = format!("could not find array type for data type {}", self.type_text(element));
            return Err(self.error(at, SqlState::UNDEFINED_OBJECT, message));
        };
        Ok(BoundExpr::Subquery(Box::new(Subquery { kind: SubqueryKind::Array { ty }, query })))
    }

    /// A query in an expression.
    pub fn subquery(&mut self, query: &Query, _at: At) -> Result<BoundQuery> {
        self.in_place(Some("a subquery"), |binder| crate::stack::grow(|| binder.query(query)))
    }

    pub fn one_column(&mut self, query: &Query, at: At) -> Result<BoundQuery> {
        let query = self.subquery(query, at)?;
        if query.columns.len() != 1 {
            return Err(self.error(at, SqlState::SYNTAX_ERROR, "subquery must return only one column"));
        }
        Ok(query)
    }

    /// `(row).field`: of a relation's whole row by the column's name.
    fn field(&mut self, operand: &Expr, name: &Name) -> Result<BoundExpr> {
        if let ExprKind::Column(parts) = &operand.kind
            && self.find_column(parts, operand.at)?.is_none()
            && !matches!(self.variable(parts), Ok(Some(_)))
        {
            let mut qualified = parts.clone();
            qualified.push(name.clone());
            return self.column(&qualified, operand.at);
        }
        let row = self.expr(operand)?;
        if let Some(columns) = self.record_columns(&row)
            && let Some(number) = columns.iter().position(|(column, _)| *column == name.text)
        {
            let ty = columns[number].1;
            return Ok(BoundExpr::Field { row: Box::new(row), number, ty });
        }
        let message = match row.ty() {
            Type::Composite(_) => {
                let message =
                    format!("column \"{}\" not found in data type {}", name.text, self.type_text(row.ty()));
                return Err(self.error(name.at, SqlState::UNDEFINED_COLUMN, message));
            }
            Type::Record => format!("could not identify column \"{}\" in record data type", name.text),
            ty => format!(
                "column notation .{} applied to type {}, which is not a composite type",
                name.text,
                self.type_text(ty)
            ),
        };
        Err(self.error(name.at, SqlState::WRONG_OBJECT_TYPE, message))
    }

    fn cast(&mut self, operand: &Expr, ty: &TypeName, at: At) -> Result<BoundExpr> {
        let named = self.named_type(ty)?;
        let value = self.cast_to_base(operand, &named, at)?;
        match &named.domain {
            Some(domain) => self.checked(value, domain, at),
            None => Ok(value),
        }
    }

    fn cast_to_base(&mut self, operand: &Expr, named: &crate::bind::NamedType, at: At) -> Result<BoundExpr> {
        if let ExprKind::Array(elements) = &operand.kind
            && let Some(element) = named.ty.element()
        {
            return self.array_as(elements, element, named.ty, named.modifier);
        }
        let bound = self.expr(operand)?;
        let at = if bound.ty() == Type::Unknown { operand.at } else { at };
        self.coerce(bound, named.ty, named.modifier, CastContext::Explicit, at)
    }

    /// `ARRAY[…]::type[]`: the elements are cast, and there may be none.
    fn array_as(
        &mut self,
        elements: &[Expr],
        element: Type,
        ty: Type,
        modifier: Modifier,
    ) -> Result<BoundExpr> {
        let mut bound = Vec::with_capacity(elements.len());
        for expr in elements {
            bound.push(match &expr.kind {
                ExprKind::Array(inner) => self.array_as(inner, element, ty, modifier)?,
                _ => self.expr(expr)?,
            });
        }
        // One array among the elements makes all of them arrays.
        let is_nested = !element.is_vector() && bound.iter().any(|value| value.ty().is_array());
        let target = if is_nested { ty } else { element };
        let cast = |(value, expr): (BoundExpr, &Expr)| match expr.kind {
            ExprKind::Array(_) => Ok(value),
            _ => self.coerce(value, target, modifier, CastContext::Explicit, expr.at),
        };
        let elements = bound.into_iter().zip(elements).map(cast).collect::<Result<_>>()?;
        Ok(BoundExpr::Array { elements, ty })
    }

    fn collate(&mut self, operand: &Expr, collation: &ObjectName, at: At) -> Result<BoundExpr> {
        self.known_collation(collation)?;
        let operand = self.expr(operand)?;
        let operand = self.known(operand, at)?;
        self.check_collatable(operand.ty(), at)?;
        Ok(operand)
    }

    /// Checks that a column of this type may be declared with the collation.
    pub fn check_collation(&self, collation: &ObjectName, ty: Type) -> Result<()> {
        self.known_collation(collation)?;
        self.check_collatable(ty.element().unwrap_or(ty), collation.at())
    }

    /// Text compares by bytes: only collations with this order are known.
    fn known_collation(&self, collation: &ObjectName) -> Result<()> {
        if matches!(collation.last(), "C" | "POSIX" | "C.UTF-8" | "C.utf8" | "default" | "ucs_basic") {
            return Ok(());
        }
        let message = format!("collation \"{collation}\" for encoding \"UTF8\" does not exist");
        let error = self.error(collation.at(), SqlState::UNDEFINED_OBJECT, message);
        Err(error.with_hint("Text compares by bytes: use \"C\", or no COLLATE."))
    }

    fn check_collatable(&self, ty: Type, at: At) -> Result<()> {
        if matches!(ty, Type::Text | Type::Varchar | Type::Bpchar | Type::Name) {
            return Ok(());
        }
        let message = format!("collations are not supported by type {}", self.type_text(ty));
        Err(self.error(at, SqlState::DATATYPE_MISMATCH, message))
    }

    /// A condition of a clause.
    pub fn clause_condition(&mut self, expr: &Expr, clause: Clause) -> Result<BoundExpr> {
        self.in_clause(clause, |binder| {
            let condition = binder.expr(expr)?;
            let name = if clause == Clause::JoinOn { "JOIN/ON" } else { clause.name() };
            binder.condition(condition, name, expr.at)
        })
    }
}
