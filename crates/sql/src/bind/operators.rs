//! Operators: overloads, comparisons of rows, BETWEEN, IN, LIKE, ANY and ALL.

use crate::bind::binder::Binder;
use crate::bind::tree::{BoundExpr, Quantifier, Subquery, SubqueryKind};
use crate::error::{Result, SqlState};
use crate::functions::Function;
use crate::functions::resolve::{Resolved, resolve_operator_with, resolve_prefix_operator_with};
use crate::parse::syntax::{At, Expr, ExprKind, LikeKind, OperatorName, Query};
use crate::types::{Type, Value};

impl Binder<'_> {
    pub fn unary(&mut self, operator: &OperatorName, operand: &Expr, at: At) -> Result<BoundExpr> {
        let operand = self.expr(operand)?;
        self.prefix(&operator.symbol, operand, at)
    }

    /// `symbol operand`.
    pub fn prefix(&mut self, symbol: &str, operand: BoundExpr, at: At) -> Result<BoundExpr> {
        let others = self.operators_of_extensions(symbol);
        let resolved = resolve_prefix_operator_with(symbol, operand.ty(), &others)
            .map_err(|error| self.at(error, at))?;
        self.apply(resolved, vec![operand], at)
    }

    pub fn binary(
        &mut self,
        operator: &OperatorName,
        left: &Expr,
        right: &Expr,
        at: At,
    ) -> Result<BoundExpr> {
        if let (ExprKind::Row(left), ExprKind::Row(right)) = (&left.kind, &right.kind)
            && is_comparison(&operator.symbol)
        {
            let (left, right) = (self.exprs(left)?, self.exprs(right)?);
            return self.compare_rows(&operator.symbol, left, right, at);
        }
        let left = match right.kind {
            ExprKind::Subquery(_) => self.row_or_value(left)?,
            _ => self.expr(left)?,
        };
        if let (BoundExpr::Row { fields, .. }, ExprKind::Subquery(query)) = (&left, &right.kind) {
            return self.compare_with_row_query(&operator.symbol, fields.clone(), query, right.at, at);
        }
        let right = self.expr(right)?;
        self.operator(&operator.symbol, left, right, at)
    }

    /// `left symbol right`; rows are compared field by field.
    pub fn operator(&mut self, symbol: &str, left: BoundExpr, right: BoundExpr, at: At) -> Result<BoundExpr> {
        match (left, right) {
            (BoundExpr::Row { fields: left, .. }, BoundExpr::Row { fields: right, .. })
                if is_comparison(symbol) =>
            {
                self.compare_rows(symbol, left, right, at)
            }
            (left, right) => {
                let resolved = self.resolve_binary(symbol, left.ty(), right.ty(), at)?;
                self.apply(resolved, vec![left, right], at)
            }
        }
    }

    fn resolve_binary(&self, symbol: &str, left: Type, right: Type, at: At) -> Result<Resolved> {
        let others = self.operators_of_extensions(symbol);
        resolve_operator_with(symbol, left, right, &others).map_err(|error| self.at(error, at))
    }

    /// The operators of this name that installed extensions have.
    fn operators_of_extensions(&self, symbol: &str) -> Vec<&'static Function> {
        let symbol = if symbol == "!=" { "<>" } else { symbol };
        self.context.catalog.extension_operators().filter(|it| it.name == symbol).collect()
    }

    /// The operator's call with its arguments converted.
    fn apply(&mut self, resolved: Resolved, args: Vec<BoundExpr>, at: At) -> Result<BoundExpr> {
        let mut converted = Vec::with_capacity(args.len());
        for (arg, &ty) in args.into_iter().zip(&resolved.arguments) {
            converted.push(self.implicit(arg, ty, at)?);
        }
        Ok(BoundExpr::Operator { operator: resolved.function, args: converted, ty: resolved.result })
    }

    /// `(a, b) < (c, d)` as `a < c OR (a = c AND b < d)`, and so on.
    fn compare_rows(
        &mut self,
        symbol: &str,
        left: Vec<BoundExpr>,
        right: Vec<BoundExpr>,
        at: At,
    ) -> Result<BoundExpr> {
        if left.len() != right.len() {
            return Err(self.error(
                at,
                SqlState::SYNTAX_ERROR,
                "unequal number of entries in row expressions",
            ));
        }
        if left.is_empty() {
            return Err(self.unsupported(at, "cannot compare rows of zero length"));
        }
        let pairs: Vec<(BoundExpr, BoundExpr)> = left.into_iter().zip(right).collect();
        match symbol {
            "=" | "<>" => {
                let mut parts = Vec::with_capacity(pairs.len());
                for (left, right) in pairs {
                    parts.push(self.operator(symbol, left, right, at)?);
                }
                if parts.len() == 1 {
                    return Ok(parts.remove(0));
                }
                Ok(if symbol == "=" { BoundExpr::And(parts) } else { BoundExpr::Or(parts) })
            }
            _ => {
                let strict = &symbol[..1];
                let mut pairs = pairs.into_iter().rev();
                let Some((left, right)) = pairs.next() else { return Ok(BoundExpr::null(Type::Bool)) };
                let mut rest = self.operator(symbol, left, right, at)?;
                for (left, right) in pairs {
                    let less = self.operator(strict, left.clone(), right.clone(), at)?;
                    let equal = self.operator("=", left, right, at)?;
                    rest = BoundExpr::Or(vec![less, BoundExpr::And(vec![equal, rest])]);
                }
                Ok(rest)
            }
        }
    }

    /// `(a, b) = (SELECT c, d …)`, by the query's fields.
    fn compare_with_row_query(
        &mut self,
        symbol: &str,
        left: Vec<BoundExpr>,
        query: &Query,
        query_at: At,
        at: At,
    ) -> Result<BoundExpr> {
        let query = self.subquery(query, query_at)?;
        if query.columns.len() != left.len() {
            let many = if query.columns.len() > left.len() { "many" } else { "few" };
            let message = format!("subquery has too {many} columns");
            return Err(self.error(at, SqlState::SYNTAX_ERROR, message));
        }
        if !is_comparison(symbol) {
            let message = format!("row comparison operator must yield type boolean, not {symbol}");
            return Err(self.error(at, SqlState::DATATYPE_MISMATCH, message));
        }
        let fields = query.columns.iter().enumerate().map(|(number, column)| {
            let kind = SubqueryKind::ScalarField { number, ty: column.ty };
            BoundExpr::Subquery(Box::new(Subquery { kind, query: query.clone() }))
        });
        let right: Vec<BoundExpr> = fields.collect();
        self.compare_rows(symbol, left, right, at)
    }

    pub fn is_distinct(&mut self, left: &Expr, right: &Expr, negated: bool, at: At) -> Result<BoundExpr> {
        let (left, right) = match (&left.kind, &right.kind) {
            (ExprKind::Row(_), ExprKind::Row(_)) => (self.row_or_value(left)?, self.row_or_value(right)?),
            _ => (self.expr(left)?, self.expr(right)?),
        };
        self.distinct_values(left, right, negated, at)
    }

    /// An operand that is compared. A literal in a row has no type of its own yet: it gets that of the field that it is
    /// compared with.
    fn row_or_value(&mut self, expr: &Expr) -> Result<BoundExpr> {
        match &expr.kind {
            ExprKind::Row(fields) => {
                Ok(BoundExpr::Row { fields: self.exprs(fields)?, names: None, is_nullable: false })
            }
            _ => self.expr(expr),
        }
    }

    pub(super) fn distinct_values(
        &mut self,
        left: BoundExpr,
        right: BoundExpr,
        negated: bool,
        at: At,
    ) -> Result<BoundExpr> {
        if let (BoundExpr::Row { fields: left, .. }, BoundExpr::Row { fields: right, .. }) = (&left, &right) {
            if left.len() != right.len() {
                return Err(self.error(
                    at,
                    SqlState::SYNTAX_ERROR,
                    "unequal number of entries in row expressions",
                ));
            }
            let mut parts = Vec::with_capacity(left.len());
            for (left, right) in left.iter().zip(right) {
                parts.push(self.distinct_values(left.clone(), right.clone(), negated, at)?);
            }
            return Ok(if negated { BoundExpr::And(parts) } else { BoundExpr::Or(parts) });
        }
        if let Some(operand) = distinct_from_null(&left, &right) {
            let operand = Box::new(self.known(operand, at)?);
            return Ok(BoundExpr::IsNull { operand, negated: !negated });
        }
        match self.operator("=", left, right, at)? {
            BoundExpr::Operator { operator: equals, mut args, .. } if args.len() == 2 => {
                let right = args.pop().unwrap_or(BoundExpr::null(Type::Text));
                let left = args.pop().unwrap_or(BoundExpr::null(Type::Text));
                Ok(BoundExpr::IsDistinct { operands: Box::new([left, right]), equals, negated })
            }
            _ => Err(self.unsupported(at, "IS DISTINCT FROM of these operands is not supported")),
        }
    }

    /// `x BETWEEN a AND b` as `x >= a AND x <= b`.
    pub fn between(
        &mut self,
        operand: &Expr,
        low: &Expr,
        high: &Expr,
        symmetric: bool,
        negated: bool,
        at: At,
    ) -> Result<BoundExpr> {
        let operand = self.expr(operand)?;
        let (low, high) = (self.expr(low)?, self.expr(high)?);
        let range = self.in_range(operand.clone(), low.clone(), high.clone(), at)?;
        let range = if symmetric {
            BoundExpr::Or(vec![range, self.in_range(operand, high, low, at)?])
        } else {
            range
        };
        Ok(if negated { BoundExpr::Not(Box::new(range)) } else { range })
    }

    fn in_range(&mut self, operand: BoundExpr, low: BoundExpr, high: BoundExpr, at: At) -> Result<BoundExpr> {
        let above = self.operator(">=", operand.clone(), low, at)?;
        let below = self.operator("<=", operand, high, at)?;
        Ok(BoundExpr::And(vec![above, below]))
    }

    /// `x IN (a, b, …)`.
    pub fn in_list(&mut self, operand: &Expr, list: &[Expr], negated: bool, at: At) -> Result<BoundExpr> {
        let are_rows = list.iter().all(|item| matches!(item.kind, ExprKind::Row(_)));
        let operand_expr = if are_rows { self.row_or_value(operand)? } else { self.expr(operand)? };
        let items = match matches!(operand.kind, ExprKind::Row(_)) {
            true => list.iter().map(|item| self.row_or_value(item)).collect::<Result<_>>()?,
            false => self.exprs(list)?,
        };
        let row = matches!(operand_expr, BoundExpr::Row { .. });
        if !row && let Some(in_list) = self.in_list_of_one_type(&operand_expr, &items, negated, at)? {
            return Ok(in_list);
        }
        let mut parts = Vec::with_capacity(items.len());
        for item in items {
            parts.push(self.operator("=", operand_expr.clone(), item, at)?);
        }
        let any = if parts.len() == 1 { parts.remove(0) } else { BoundExpr::Or(parts) };
        Ok(if negated { BoundExpr::Not(Box::new(any)) } else { any })
    }

    /// An IN whose operand and items have a common type: one node, however long the list.
    fn in_list_of_one_type(
        &mut self,
        operand: &BoundExpr,
        items: &[BoundExpr],
        negated: bool,
        at: At,
    ) -> Result<Option<BoundExpr>> {
        if items.iter().any(|item| matches!(item, BoundExpr::Row { .. })) {
            return Ok(None);
        }
        // PostgreSQL finds a common type for the items without columns, if there are several; the others are compared
        // one by one.
        let has_columns = |item: &BoundExpr| crate::bind::tree::walk::names_columns(item);
        let fixed = items.iter().filter(|item| !has_columns(item)).count();
        if fixed < items.len() && items.iter().any(|item| item.ty() != operand.ty()) {
            return Ok(None);
        }
        let mut types = vec![operand.ty()];
        types.extend(items.iter().map(BoundExpr::ty));
        let Some(ty) = crate::functions::resolve::common_type(&types) else { return Ok(None) };
        let resolved = self.resolve_binary("=", ty, ty, at)?;
        let [left, right] = resolved.arguments[..] else { return Ok(None) };
        let operand = Box::new(self.implicit(operand.clone(), left, at)?);
        let mut list = Vec::with_capacity(items.len());
        for item in items {
            list.push(self.implicit(item.clone(), right, at)?);
        }
        Ok(Some(BoundExpr::InList { operand, list, equals: resolved.function, negated }))
    }

    /// `x IN (SELECT …)`.
    pub fn in_query(&mut self, operand: &Expr, query: &Query, negated: bool, at: At) -> Result<BoundExpr> {
        let operand = self.row_or_value(operand)?;
        let any = self.quantified_over_query(operand, "=", query, Quantifier::Any, at)?;
        Ok(if negated { BoundExpr::Not(Box::new(any)) } else { any })
    }

    pub fn quantified_query(
        &mut self,
        operand: &Expr,
        operator: &OperatorName,
        query: &Query,
        all: bool,
        at: At,
    ) -> Result<BoundExpr> {
        let operand = self.expr(operand)?;
        let quantifier = if all { Quantifier::All } else { Quantifier::Any };
        self.quantified_over_query(operand, &operator.symbol, query, quantifier, at)
    }

    fn quantified_over_query(
        &mut self,
        operand: BoundExpr,
        symbol: &str,
        query: &Query,
        quantifier: Quantifier,
        at: At,
    ) -> Result<BoundExpr> {
        let mut query = self.subquery(query, at)?;
        let left = match operand {
            BoundExpr::Row { fields, .. } => fields,
            operand => vec![operand],
        };
        if left.len() != query.columns.len() {
            let message = if left.len() < query.columns.len() {
                "subquery has too many columns"
            } else {
                "subquery has too few columns"
            };
            return Err(self.error(at, SqlState::SYNTAX_ERROR, message));
        }
        if left.len() > 1 && symbol != "=" && symbol != "<>" {
            return Err(self.unsupported(at, "this comparison of a row with a query is not supported"));
        }
        let (mut bound, mut operators, mut types) = (Vec::new(), Vec::new(), Vec::new());
        for (expr, column) in left.into_iter().zip(&query.columns) {
            let resolved = self.resolve_binary(symbol, expr.ty(), column.ty, at)?;
            if resolved.result != Type::Bool {
                let message = format!(
                    "row comparison operator must yield type boolean, not type {}",
                    self.type_text(resolved.result)
                );
                return Err(self.error(at, SqlState::DATATYPE_MISMATCH, message));
            }
            bound.push(self.implicit(expr, resolved.arguments[0], at)?);
            types.push(resolved.arguments[1]);
            operators.push(resolved.function);
        }
        self.convert_columns(&mut query, &types, at)?;
        let kind = SubqueryKind::Quantified { left: bound, operators, quantifier };
        Ok(BoundExpr::Subquery(Box::new(Subquery { kind, query })))
    }

    /// `x = ANY (array)`.
    pub fn quantified_array(
        &mut self,
        operand: &Expr,
        operator: &OperatorName,
        array: &Expr,
        all: bool,
        at: At,
    ) -> Result<BoundExpr> {
        let operand = self.expr(operand)?;
        let array = self.expr(array)?;
        let element = match array.ty() {
            Type::Unknown => Type::Unknown,
            ty => ty.element().ok_or_else(|| {
                self.error(at, SqlState::WRONG_OBJECT_TYPE, "op ANY/ALL (array) requires array on right side")
            })?,
        };
        let resolved = self.resolve_binary(&operator.symbol, operand.ty(), element, at)?;
        if resolved.result != Type::Bool {
            return Err(self.error(
                at,
                SqlState::WRONG_OBJECT_TYPE,
                "op ANY/ALL (array) requires operator to yield boolean",
            ));
        }
        let [left, right] = resolved.arguments[..] else {
            return Err(self.unsupported(at, "this operator is not supported with ANY"));
        };
        let operand = Box::new(self.implicit(operand, left, at)?);
        let Some(array_type) = right.array() else {
            return Err(self.unsupported(at, "arrays of this type are not supported"));
        };
        let array = Box::new(self.implicit(array, array_type, at)?);
        let quantifier = if all { Quantifier::All } else { Quantifier::Any };
        Ok(BoundExpr::Quantified { operand, array, operator: resolved.function, quantifier })
    }

    pub fn like(
        &mut self,
        kind: LikeKind,
        operand: &Expr,
        pattern: &Expr,
        escape: Option<&Expr>,
        negated: bool,
        at: At,
    ) -> Result<BoundExpr> {
        let operand = self.expr(operand)?;
        let mut pattern = self.expr(pattern)?;
        let escape = escape.map(|escape| self.expr(escape)).transpose()?;
        let symbol = match (kind, negated) {
            (LikeKind::Like, false) => "~~",
            (LikeKind::Like, true) => "!~~",
            (LikeKind::ILike, false) => "~~*",
            (LikeKind::ILike, true) => "!~~*",
            (LikeKind::SimilarTo, false) => "~",
            (LikeKind::SimilarTo, true) => "!~",
        };
        match (kind, escape) {
            (LikeKind::SimilarTo, escape) => {
                let mut args = vec![pattern];
                args.extend(escape);
                pattern = self.call_named("similar_to_escape", args, at)?;
            }
            (_, Some(escape)) => pattern = self.call_named("like_escape", vec![pattern, escape], at)?,
            (_, None) => {}
        }
        self.operator(symbol, operand, pattern, at)
    }

    /// Checks that values of the type can be sorted and grouped.
    pub fn check_ordering(&self, ty: Type, at: At) -> Result<()> {
        if matches!(ty, Type::Json | Type::Jsonpath | Type::TopK) {
            let message = format!("could not identify an ordering operator for type {}", self.type_text(ty));
            let hint = "Use an explicit ordering operator or modify the query.";
            return Err(self.error(at, SqlState::UNDEFINED_FUNCTION, message).with_hint(hint));
        }
        Ok(())
    }

    /// Like [`check_ordering`](Self::check_ordering), for equality: DISTINCT, GROUP BY, UNION.
    pub fn check_equality(&self, ty: Type, at: At) -> Result<()> {
        if matches!(ty, Type::Json | Type::Jsonpath | Type::TopK) {
            let message = format!("could not identify an equality operator for type {}", self.type_text(ty));
            return Err(self.error(at, SqlState::UNDEFINED_FUNCTION, message));
        }
        Ok(())
    }
}

/// The operand of `x IS DISTINCT FROM NULL`, which needs no operator. A row is never NULL by this.
fn distinct_from_null(left: &BoundExpr, right: &BoundExpr) -> Option<BoundExpr> {
    let is_null =
        |expr: &BoundExpr| matches!(expr, BoundExpr::Constant { value: Value::Null, ty: Type::Unknown });
    let operand = match (is_null(left), is_null(right)) {
        (_, true) => left,
        (true, _) => right,
        _ => return None,
    };
    if matches!(operand.ty(), Type::Record | Type::Composite(_)) {
        return None;
    }
    Some(operand.clone())
}

fn is_comparison(symbol: &str) -> bool {
    matches!(symbol, "=" | "<>" | "<" | "<=" | ">" | ">=")
}
