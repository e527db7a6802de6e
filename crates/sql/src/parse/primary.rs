//! Operands: literals, columns, parentheses, CASE, ARRAY, ROW, casts, subscripts, fields.

use crate::error::{Result, SqlState};
use crate::parse::lexer::TokenKind;
use crate::parse::parser::Parser;
use crate::parse::syntax::{At, Expr, ExprKind, Name, ObjectName, TypeName};

impl Parser<'_> {
    /// A primary expression with its `::type`, `[index]` and `.field`.
    pub fn postfix(&mut self) -> Result<Expr> {
        let is_primary = self.is_mark(0, "(") || matches!(self.peek(0), TokenKind::Parameter(_));
        let mut expr = self.primary()?;
        // As in PostgreSQL's grammar, parts of anything but columns and parameters are allowed in parentheses only.
        if !is_primary && !matches!(expr.kind, ExprKind::Column(_)) && self.is_mark(0, "[") {
            return Err(self.unexpected());
        }
        let mut brackets = None;
        loop {
            let at = self.position();
            let first = brackets.take().unwrap_or(at);
            let height = expr.height;
            if self.accept_mark("::") {
                let ty = self.type_name()?;
                expr = self.above(ExprKind::Cast { operand: Box::new(expr), ty }, at, height)?;
            } else if self.is_mark(0, "[") {
                // The position of a chain of brackets is that of its first one: an expression in parentheses ends it.
                brackets = Some(first);
                expr = self.subscript(expr, first)?;
            } else if self.is_mark(0, ".") {
                self.advance();
                let operand = Box::new(expr);
                let kind = if self.accept_operator("*") {
                    ExprKind::AllFields(operand)
                } else {
                    ExprKind::Field { operand, name: self.label()? }
                };
                expr = self.above(kind, at, height)?;
            } else {
                return Ok(expr);
            }
        }
    }

    pub(super) fn subscript(&mut self, operand: Expr, at: At) -> Result<Expr> {
        self.expect_mark("[")?;
        let mut height = operand.height;
        let operand = Box::new(operand);
        let mut limit = |parser: &mut Self| -> Result<Option<Box<Expr>>> {
            if parser.is_mark(0, ":") || parser.is_mark(0, "]") {
                return Ok(None);
            }
            let expr = parser.expression()?;
            height = height.max(expr.height);
            Ok(Some(Box::new(expr)))
        };
        let lower = limit(self)?;
        let kind = if self.accept_mark(":") {
            ExprKind::Slice { operand, lower, upper: limit(self)? }
        } else {
            let index = lower.ok_or_else(|| self.unexpected())?;
            ExprKind::Subscript { operand, index }
        };
        self.expect_mark("]")?;
        self.above(kind, at, height)
    }

    fn primary(&mut self) -> Result<Expr> {
        let at = self.position();
        let literal = |kind| Expr { kind, at, height: 1 };
        let expr = match self.peek(0) {
            TokenKind::Integer(digits) => literal(ExprKind::Integer((*digits).to_string())),
            TokenKind::Decimal(digits) => literal(ExprKind::Decimal((*digits).to_string())),
            TokenKind::Text(text) => literal(ExprKind::Text(text.to_string())),
            TokenKind::National(text) => {
                let operand = Box::new(literal(ExprKind::Text(text.to_string())));
                let name = ObjectName { parts: vec![Name { text: "bpchar".to_string(), at }] };
                let ty = TypeName {
                    name,
                    modifiers: Vec::new(),
                    interval_fields: None,
                    dimensions: 0,
                    set_of: false,
                    at,
                };
                Expr { kind: ExprKind::Cast { operand, ty }, at, height: 2 }
            }
            TokenKind::Bits(bits) => literal(ExprKind::Bits(bits.clone())),
            TokenKind::Parameter(number) => {
                let number = *number;
                if number == 0 || number > 65_535 {
                    let message = format!("there is no parameter ${number}");
                    return Err(self.error(at, SqlState::UNDEFINED_PARAMETER, message));
                }
                self.parameters = self.parameters.max(number);
                literal(ExprKind::Parameter(number))
            }
            TokenKind::Mark("(") => return self.parenthesis(at),
            TokenKind::Word(_) | TokenKind::Quoted(_) => return self.word_expression(at),
            _ => return Err(self.unexpected()),
        };
        self.advance();
        Ok(expr)
    }

    /// `(expression)`, `(a, b)`, `(SELECT …)`.
    fn parenthesis(&mut self, at: At) -> Result<Expr> {
        if self.starts_query_in_parentheses() {
            self.expect_mark("(")?;
            let query = self.query()?;
            self.expect_mark(")")?;
            return Ok(Expr { kind: ExprKind::Subquery(Box::new(query)), at, height: 1 });
        }
        self.expect_mark("(")?;
        let mut exprs = self.expressions()?;
        self.expect_mark(")")?;
        if exprs.len() == 1 {
            return exprs.pop().ok_or_else(|| self.unexpected());
        }
        let height = exprs.iter().map(|expr| expr.height).max().unwrap_or(0);
        self.above(ExprKind::Row(exprs), at, height)
    }

    fn word_expression(&mut self, at: At) -> Result<Expr> {
        let TokenKind::Word(word) = self.peek(0) else {
            let literal = if self.may_be_typed_literal() { self.typed_literal(at)? } else { None };
            return literal.map_or_else(|| self.column_or_call(at), Ok);
        };
        let call_follows = self.is_mark(1, "(");
        let simple = match word.as_ref() {
            "null" => ExprKind::Null,
            "true" => ExprKind::Bool(true),
            "false" => ExprKind::Bool(false),
            "default" => ExprKind::Default,
            "case" => return self.case(at),
            "cast" => return self.cast(at),
            "array" if self.is_mark(1, "[") => return self.array(at),
            "array" if call_follows => return self.array_query(at),
            "row" if call_follows => return self.row(at),
            "exists" if call_follows => return self.exists(at),
            "current" if self.is_word(1, "of") => {
                self.advance();
                self.advance();
                return Ok(Expr { kind: ExprKind::CurrentOf(self.name()?), at, height: 1 });
            }
            "interval" if self.interval_follows() => return self.interval_literal(at),
            _ => {
                if let Some(kind) = self.special_function()? {
                    return Ok(kind);
                }
                if self.may_be_typed_literal()
                    && let Some(literal) = self.typed_literal(at)?
                {
                    return Ok(literal);
                }
                return self.column_or_call(at);
            }
        };
        self.advance();
        Ok(Expr { kind: simple, at, height: 1 })
    }

    fn case(&mut self, at: At) -> Result<Expr> {
        self.expect("case")?;
        let mut height = 0;
        let mut part = |parser: &mut Self| -> Result<Expr> {
            let expr = parser.expression()?;
            height = height.max(expr.height);
            Ok(expr)
        };
        let operand = if self.is_word(0, "when") { None } else { Some(Box::new(part(self)?)) };
        let mut arms = Vec::new();
        while self.accept("when") {
            let when = part(self)?;
            self.expect("then")?;
            arms.push((when, part(self)?));
        }
        if arms.is_empty() {
            return Err(self.unexpected());
        }
        let otherwise = if self.accept("else") { Some(Box::new(part(self)?)) } else { None };
        self.expect("end")?;
        self.above(ExprKind::Case { operand, arms, otherwise }, at, height)
    }

    fn cast(&mut self, at: At) -> Result<Expr> {
        self.expect("cast")?;
        self.expect_mark("(")?;
        let operand = Box::new(self.expression()?);
        self.expect("as")?;
        let ty = self.type_name()?;
        self.expect_mark(")")?;
        let height = operand.height;
        self.above(ExprKind::Cast { operand, ty }, at, height)
    }

    /// `ARRAY[…]`, and `[…]` inside one.
    fn array(&mut self, at: At) -> Result<Expr> {
        self.accept("array");
        self.nested(|parser| {
            parser.expect_mark("[")?;
            let mut elements = Vec::new();
            if !parser.is_mark(0, "]") {
                elements = parser.list(|parser| {
                    let at = parser.position();
                    if parser.is_mark(0, "[") { parser.array(at) } else { parser.expression() }
                })?;
            }
            parser.expect_mark("]")?;
            let height = elements.iter().map(|expr| expr.height).max().unwrap_or(0);
            parser.above(ExprKind::Array(elements), at, height)
        })
    }

    fn array_query(&mut self, at: At) -> Result<Expr> {
        self.expect("array")?;
        let query = self.query_in_parentheses()?;
        Ok(Expr { kind: ExprKind::ArrayQuery(Box::new(query)), at, height: 1 })
    }

    fn row(&mut self, at: At) -> Result<Expr> {
        self.expect("row")?;
        self.expect_mark("(")?;
        let fields = if self.is_mark(0, ")") { Vec::new() } else { self.expressions()? };
        self.expect_mark(")")?;
        let height = fields.iter().map(|expr| expr.height).max().unwrap_or(0);
        self.above(ExprKind::Row(fields), at, height)
    }

    fn exists(&mut self, at: At) -> Result<Expr> {
        self.expect("exists")?;
        let query = self.query_in_parentheses()?;
        Ok(Expr { kind: ExprKind::Exists(Box::new(query)), at, height: 1 })
    }

    /// Returns true if a type followed by a string may be here.
    fn may_be_typed_literal(&self) -> bool {
        matches!(self.peek(1), TokenKind::Text(_))
            || (self.is_mark(1, ".") && matches!(self.peek(3), TokenKind::Text(_)))
            || (self.is_mark(1, "(") && matches!(self.peek(4), TokenKind::Text(_)))
            || self.is_one_of(&[
                "double",
                "time",
                "timestamp",
                "numeric",
                "decimal",
                "character",
                "char",
                "varchar",
                "bit",
            ])
    }

    /// `type 'text'`: `date '2020-01-01'`, `schema.mood 'ok'`, `double precision '1'`, `numeric(10,2) '1.5'`.
    fn typed_literal(&mut self, at: At) -> Result<Option<Expr>> {
        let mark = self.mark();
        if let Ok(ty) = self.type_name()
            && ty.dimensions == 0
            && let TokenKind::Text(text) = self.peek(0)
        {
            let operand = Expr { kind: ExprKind::Text(text.to_string()), at: self.position(), height: 1 };
            self.advance();
            return Ok(Some(Expr { kind: ExprKind::Cast { operand: Box::new(operand), ty }, at, height: 2 }));
        }
        self.rewind(mark);
        Ok(None)
    }

    /// Returns true if INTERVAL begins a literal: `interval '…'` or `interval(3) '…'`.
    fn interval_follows(&self) -> bool {
        matches!(self.peek(1), TokenKind::Text(_))
            || (self.is_mark(1, "(") && matches!(self.peek(4), TokenKind::Text(_)))
    }

    fn interval_literal(&mut self, at: At) -> Result<Expr> {
        let mut ty = self.interval_type_start()?;
        let operand = Expr { at: self.position(), kind: ExprKind::Text(self.string()?), height: 1 };
        if ty.modifiers.is_empty() {
            self.interval_fields(&mut ty)?;
        }
        Ok(Expr { kind: ExprKind::Cast { operand: Box::new(operand), ty }, at, height: 2 })
    }

    fn column_or_call(&mut self, at: At) -> Result<Expr> {
        let mark = self.mark();
        if let Some(call) = self.function_call()? {
            let height = call.height();
            return self.above(ExprKind::Call(Box::new(call)), at, height);
        }
        self.rewind(mark);
        let mut parts: Vec<Name> = vec![self.name()?];
        while self.is_mark(0, ".") && !self.is_operator(1, "*") {
            self.advance();
            parts.push(self.label()?);
        }
        if parts.len() > 4 {
            return Err(self.error(
                at,
                SqlState::SYNTAX_ERROR,
                "improper qualified name (too many dotted names)",
            ));
        }
        Ok(Expr { kind: ExprKind::Column(parts), at, height: 1 })
    }
}
