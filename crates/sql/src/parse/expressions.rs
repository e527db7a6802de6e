//! Operators and their precedence (section 4.1.6), by precedence climbing.
//!
//! An operand is read, and then extended to the right as long as the next operator binds at least as tightly as the
//! caller asks; the operator's own right side is read the same way, with a higher bound. So one function and a table of
//! precedences replace a rule of the grammar for each level.

use crate::error::{Result, SqlState};
use crate::parse::lexer::TokenKind;
use crate::parse::parser::Parser;
use crate::parse::syntax::{At, Expr, ExprKind, LikeKind, OperatorName};

/// Precedences, from loose to tight.
pub(super) mod level {
    pub const OR: u8 = 1;
    pub const AND: u8 = 2;
    pub const NOT: u8 = 3;
    pub const IS: u8 = 4;
    pub const COMPARISON: u8 = 5;
    pub const MATCHING: u8 = 6;
    pub const OTHER: u8 = 7;
    pub const SUM: u8 = 8;
    pub const PRODUCT: u8 = 9;
    pub const POWER: u8 = 10;
    pub const AT: u8 = 11;
    pub const COLLATE: u8 = 12;
    pub const SIGN: u8 = 13;
    pub const CAST: u8 = 14;
}

fn plain(symbol: &str) -> OperatorName {
    OperatorName { schema: None, symbol: symbol.to_string() }
}

/// The precedence of an operator's symbol.
fn level_of(symbol: &str) -> u8 {
    match symbol {
        "<" | ">" | "=" | "<=" | ">=" | "<>" => level::COMPARISON,
        "+" | "-" => level::SUM,
        "*" | "/" | "%" => level::PRODUCT,
        "^" => level::POWER,
        _ => level::OTHER,
    }
}

impl Parser<'_> {
    /// An expression: `a_expr` of PostgreSQL's grammar.
    pub fn expression(&mut self) -> Result<Expr> {
        self.expression_of(false)
    }

    /// An expression without AND, OR, NOT, LIKE, IN, BETWEEN and the like, which may follow it: `b_expr` of
    /// PostgreSQL's grammar, for BETWEEN, POSITION and column defaults.
    pub fn restricted_expression(&mut self) -> Result<Expr> {
        self.expression_of(true)
    }

    fn expression_of(&mut self, is_restricted: bool) -> Result<Expr> {
        let before = std::mem::replace(&mut self.is_restricted, is_restricted);
        let expr = self.expression_above(0);
        self.is_restricted = before;
        expr
    }

    pub fn expressions(&mut self) -> Result<Vec<Expr>> {
        self.list(Self::expression)
    }

    /// An expression whose operators bind at least this tightly.
    pub fn expression_above(&mut self, least: u8) -> Result<Expr> {
        self.nested(|parser| {
            let mut left = parser.prefix()?;
            while let Some(next) = parser.infix(least, &mut left)? {
                left = next;
            }
            Ok(left)
        })
    }

    /// Parses the start of an operand. A prefix operator may follow any other operator, and its operand binds more
    /// tightly than itself.
    fn prefix(&mut self) -> Result<Expr> {
        let at = self.position();
        match self.peek(0) {
            TokenKind::Word(word) if word == "not" && !self.is_restricted && !self.is_matching_word(1) => {
                self.advance();
                let operand = self.expression_above(level::NOT)?;
                let height = operand.height;
                self.above(ExprKind::Not(Box::new(operand)), at, height)
            }
            TokenKind::Operator(symbol @ ("-" | "+")) => {
                let operator = plain(symbol);
                self.advance();
                let operand = self.expression_above(level::SIGN)?;
                self.signed(operator, operand, at)
            }
            TokenKind::Operator("<" | ">" | "=" | "<=" | ">=" | "<>" | "*" | "/" | "%" | "^") => {
                Err(self.unexpected())
            }
            TokenKind::Operator(_) => self.prefix_operator(at),
            TokenKind::Word(word) if word == "operator" && self.is_mark(1, "(") => self.prefix_operator(at),
            _ => self.postfix(),
        }
    }

    fn prefix_operator(&mut self, at: At) -> Result<Expr> {
        let operator = self.operator_name()?;
        let operand = self.expression_above(level::OTHER + 1)?;
        let height = operand.height;
        self.above(ExprKind::Unary { operator, operand: Box::new(operand) }, at, height)
    }

    /// A sign: it becomes part of a number after it.
    fn signed(&mut self, operator: OperatorName, operand: Expr, at: At) -> Result<Expr> {
        let negated = |digits: &String| match digits.strip_prefix('-') {
            Some(positive) => positive.to_string(),
            None => format!("-{digits}"),
        };
        let kind = match &operand.kind {
            ExprKind::Integer(digits) if operator.symbol == "-" => ExprKind::Integer(negated(digits)),
            ExprKind::Decimal(digits) if operator.symbol == "-" => ExprKind::Decimal(negated(digits)),
            _ => {
                let height = operand.height;
                return self.above(ExprKind::Unary { operator, operand: Box::new(operand) }, at, height);
            }
        };
        Ok(Expr { kind, at, height: 1 })
    }

    /// The expression with one more operator after it, unless none follows that binds tightly enough.
    fn infix(&mut self, least: u8, left: &mut Expr) -> Result<Option<Expr>> {
        let at = self.position();
        let level = match self.peek(0) {
            TokenKind::Operator(symbol) => level_of(symbol),
            // After an operator that ends in no operand, as IS NULL does.
            TokenKind::Mark("::") => level::CAST,
            TokenKind::Word(word) if self.is_restricted => match word.as_ref() {
                "is" if self.is_word(1, "distinct") => level::IS,
                "is" if self.is_words(&["is", "not", "distinct"]) => level::IS,
                "operator" if self.is_mark(1, "(") => level::OTHER,
                _ => return Ok(None),
            },
            TokenKind::Word(word) => match word.as_ref() {
                "or" => level::OR,
                "and" => level::AND,
                "is" | "isnull" | "notnull" => level::IS,
                "between" | "in" | "like" | "ilike" => level::MATCHING,
                "similar" if self.is_word(1, "to") => level::MATCHING,
                "not" if self.is_matching_word(1) => level::MATCHING,
                "operator" if self.is_mark(1, "(") => level::OTHER,
                "at" if self.is_word(1, "time") && self.is_word(2, "zone") => level::AT,
                "collate" => level::COLLATE,
                "overlaps" if matches!(left.kind, ExprKind::Row(_)) => level::OTHER,
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        if level < least {
            return Ok(None);
        }
        let taken = std::mem::replace(left, Expr { kind: ExprKind::Null, at, height: 0 });
        let next = match level {
            level::OR => self.connective(taken, at, "or"),
            level::AND => self.connective(taken, at, "and"),
            level::IS => self.is(taken, at),
            level::MATCHING => self.matching(taken, at),
            level::AT => self.at_time_zone(taken, at),
            level::COLLATE => self.collate(taken, at),
            level::CAST => self.cast_suffix(taken, at),
            _ if self.accept("overlaps") => self.overlaps(taken, at),
            _ => self.binary(taken, at, level),
        };
        next.map(Some)
    }

    fn is_matching_word(&self, ahead: usize) -> bool {
        let TokenKind::Word(word) = self.peek(ahead) else { return false };
        matches!(word.as_ref(), "between" | "in" | "like" | "ilike" | "similar")
    }

    /// `a AND b AND c` as one node.
    fn connective(&mut self, left: Expr, at: At, word: &str) -> Result<Expr> {
        let next_level = if word == "or" { level::OR + 1 } else { level::AND + 1 };
        let mut height = left.height;
        let mut operands = vec![left];
        while self.accept(word) {
            let operand = self.expression_above(next_level)?;
            height = height.max(operand.height);
            operands.push(operand);
        }
        let kind = if word == "or" { ExprKind::Or(operands) } else { ExprKind::And(operands) };
        self.above(kind, at, height)
    }

    fn binary(&mut self, left: Expr, at: At, level: u8) -> Result<Expr> {
        let operator = self.operator_name()?;
        if self.is_one_of(&["any", "some", "all"]) && self.is_mark(1, "(") {
            return self.quantified(left, operator, at);
        }
        let right = self.expression_above(level + 1)?;
        if level == level::COMPARISON
            && matches!(self.peek(0), TokenKind::Operator(symbol) if level_of(symbol) == level::COMPARISON)
        {
            return Err(self.unexpected());
        }
        let height = left.height.max(right.height);
        self.above(ExprKind::Binary { operator, left: Box::new(left), right: Box::new(right) }, at, height)
    }

    /// `operand operator ANY (…)`.
    fn quantified(&mut self, left: Expr, operator: OperatorName, at: At) -> Result<Expr> {
        let all = self.is_word(0, "all");
        self.advance();
        self.expect_mark("(")?;
        let operand = Box::new(left);
        let (mark, is_nested) = (self.mark(), self.is_mark(0, "("));
        let mut query = if self.starts_query() { Some(self.query()) } else { None };
        // `ANY ((SELECT …)::int[])` is an array that begins with a query in parentheses.
        if query.is_some() && is_nested && !self.is_mark(0, ")") {
            self.rewind(mark);
            query = None;
        }
        let (kind, height) = if let Some(query) = query {
            let query = Box::new(query?);
            let height = operand.height;
            (ExprKind::QuantifiedQuery { operand, operator, query, all }, height)
        } else {
            let array = Box::new(self.expression()?);
            let height = operand.height.max(array.height);
            (ExprKind::QuantifiedArray { operand, operator, array, all }, height)
        };
        self.expect_mark(")")?;
        self.above(kind, at, height)
    }

    /// `IS …`, ISNULL, NOTNULL.
    fn is(&mut self, left: Expr, at: At) -> Result<Expr> {
        let mut height = left.height;
        let operand = Box::new(left);
        let kind = if self.accept("isnull") {
            ExprKind::IsNull { operand, negated: false }
        } else if self.accept("notnull") {
            ExprKind::IsNull { operand, negated: true }
        } else {
            self.expect("is")?;
            let negated = self.accept("not");
            if let Some(form) = self.normal_form() {
                let call = self.call_of("is_normalized", vec![*operand, form], at);
                let call = self.above(call, at, height)?;
                return if negated {
                    self.above(ExprKind::Not(Box::new(call)), at, height + 1)
                } else {
                    Ok(call)
                };
            }
            if self.accept("null") {
                ExprKind::IsNull { operand, negated }
            } else if self.accept("true") {
                ExprKind::IsTruth { operand, value: Some(true), negated }
            } else if self.accept("false") {
                ExprKind::IsTruth { operand, value: Some(false), negated }
            } else if self.accept("unknown") {
                ExprKind::IsTruth { operand, value: None, negated }
            } else {
                self.expect_words(&["distinct", "from"])?;
                let right = Box::new(self.expression_above(level::IS + 1)?);
                if self.is_one_of(&["is", "isnull", "notnull"]) {
                    return Err(self.unexpected());
                }
                height = height.max(right.height);
                ExprKind::IsDistinct { left: operand, right, negated }
            }
        };
        self.above(kind, at, height)
    }

    /// The form of `IS [NFC] NORMALIZED`, if that is here.
    fn normal_form(&mut self) -> Option<Expr> {
        const FORMS: [&str; 4] = ["nfc", "nfd", "nfkc", "nfkd"];
        let at = self.position();
        let form = match FORMS.iter().find(|form| self.is_words(&[form, "normalized"])) {
            Some(form) => {
                self.advance();
                form.to_uppercase()
            }
            None if self.is_word(0, "normalized") => "NFC".to_string(),
            None => return None,
        };
        self.advance();
        Some(Expr { kind: ExprKind::Text(form), at, height: 1 })
    }

    /// BETWEEN, IN, LIKE and the like.
    fn matching(&mut self, left: Expr, at: At) -> Result<Expr> {
        let negated = self.accept("not");
        let operand = Box::new(left);
        if self.accept("between") {
            return self.between(operand, negated, at);
        }
        if self.accept("in") {
            return self.in_list(operand, negated, at);
        }
        let kind = match () {
            () if self.accept("like") => LikeKind::Like,
            () if self.accept("ilike") => LikeKind::ILike,
            () => {
                self.expect_words(&["similar", "to"])?;
                LikeKind::SimilarTo
            }
        };
        if self.is_one_of(&["any", "some", "all"]) && self.is_mark(1, "(") && kind != LikeKind::SimilarTo {
            let symbol = match (kind, negated) {
                (LikeKind::Like, false) => "~~",
                (LikeKind::Like, true) => "!~~",
                (_, false) => "~~*",
                (_, true) => "!~~*",
            };
            return self.quantified(*operand, plain(symbol), at);
        }
        let pattern = Box::new(self.expression_above(level::MATCHING + 1)?);
        let mut height = operand.height.max(pattern.height);
        let mut escape = None;
        if self.accept("escape") {
            let character = self.expression_above(level::MATCHING + 1)?;
            height = height.max(character.height);
            escape = Some(Box::new(character));
        }
        self.no_matching()?;
        self.above(ExprKind::Like { kind, operand, pattern, escape, negated }, at, height)
    }

    fn between(&mut self, operand: Box<Expr>, negated: bool, at: At) -> Result<Expr> {
        let symmetric = self.accept("symmetric");
        if !symmetric {
            self.accept("asymmetric");
        }
        let low = Box::new(self.restricted_expression()?);
        self.expect("and")?;
        let high = Box::new(self.expression_above(level::MATCHING + 1)?);
        self.no_matching()?;
        let height = operand.height.max(low.height).max(high.height);
        self.above(ExprKind::Between { operand, low, high, symmetric, negated }, at, height)
    }

    /// Rejects a second LIKE, IN or BETWEEN after the last operand of the first: they do not associate.
    fn no_matching(&self) -> Result<()> {
        if self.is_matching_word(0) || (self.is_word(0, "not") && self.is_matching_word(1)) {
            return Err(self.unexpected());
        }
        Ok(())
    }

    fn in_list(&mut self, operand: Box<Expr>, negated: bool, at: At) -> Result<Expr> {
        self.expect_mark("(")?;
        let (mark, is_nested) = (self.mark(), self.is_mark(0, "("));
        let mut query = if self.starts_query() { Some(self.query()) } else { None };
        // `IN ((SELECT …) + 1, 2)` is a list whose first item begins with a query in parentheses.
        if query.is_some() && is_nested && !self.is_mark(0, ")") {
            self.rewind(mark);
            query = None;
        }
        let (kind, height) = if let Some(query) = query {
            let query = Box::new(query?);
            let height = operand.height;
            (ExprKind::InQuery { operand, query, negated }, height)
        } else {
            let list = self.expressions()?;
            let height = list.iter().map(|expr| expr.height).max().unwrap_or(0).max(operand.height);
            (ExprKind::InList { operand, list, negated }, height)
        };
        self.expect_mark(")")?;
        self.above(kind, at, height)
    }

    fn at_time_zone(&mut self, left: Expr, at: At) -> Result<Expr> {
        self.expect_words(&["at", "time", "zone"])?;
        let zone = self.expression_above(level::AT + 1)?;
        let height = left.height.max(zone.height);
        let call = self.call_of("timezone", vec![zone, left], at);
        self.above(call, at, height)
    }

    fn collate(&mut self, left: Expr, at: At) -> Result<Expr> {
        self.expect("collate")?;
        let collation = self.object_name()?;
        let height = left.height;
        self.above(ExprKind::Collate { operand: Box::new(left), collation }, at, height)
    }

    /// `operand::type`
    fn cast_suffix(&mut self, left: Expr, at: At) -> Result<Expr> {
        self.expect_mark("::")?;
        let (ty, height) = (self.type_name()?, left.height);
        self.above(ExprKind::Cast { operand: Box::new(left), ty }, at, height)
    }

    /// `(a, b) OVERLAPS (c, d)`.
    fn overlaps(&mut self, left: Expr, at: At) -> Result<Expr> {
        let right = self.expression_above(level::OTHER + 1)?;
        let height = left.height.max(right.height);
        match (left.kind, right.kind) {
            (ExprKind::Row(mut left), ExprKind::Row(right)) if left.len() == 2 && right.len() == 2 => {
                left.extend(right);
                let call = self.call_of("overlaps", left, at);
                self.above(call, at, height)
            }
            _ => Err(self.error(
                at,
                SqlState::SYNTAX_ERROR,
                "wrong number of parameters on left or right side of OVERLAPS expression",
            )),
        }
    }
}
