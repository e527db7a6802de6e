//! Tokens to a tree.
//!
//! PostgreSQL's grammar has expressions and conditions apart, and an open parenthesis may begin either. Both are read by
//! one recursion here, and a checker of the grammar's rules refuses a condition where an expression is needed.

use std::sync::Arc;

use super::lexer::{Token, invalid, tokens};
use super::{Arithmetic, Comparison, Condition, DEPTH_MAX, Method, Node, Path, RegexFlags, Start, Step};
use crate::error::{Result, SqlError, SqlState};
use crate::types::numeric::Numeric;

/// Reads a path.
///
/// # Errors
/// 42601 if it is none; 54001 if it nests too deep.
pub fn parse_jsonpath(text: &str) -> Result<Path> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0, filters: 0, subscripts: 0 };
    let is_strict = parser.accept_word("strict");
    if !is_strict {
        parser.accept_word("lax");
    }
    if parser.peek() == &Token::End {
        if is_strict || parser.at > 0 {
            return Err(parser.unexpected());
        }
        let message = format!("invalid input syntax for type jsonpath: \"{text}\"");
        return Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message));
    }
    let root = match parser.alternatives()? {
        Parsed::Value(node) => node,
        Parsed::Condition(condition, _) => value_of(condition),
    };
    match parser.peek() {
        Token::End => Ok(Path { is_strict, root }),
        _ => Err(parser.unexpected()),
    }
}

/// An expression, or a condition and whether it stands in parentheses.
enum Parsed {
    Value(Node),
    Condition(Condition, bool),
}

fn value_of(condition: Condition) -> Node {
    Node { start: Start::Condition(Box::new(condition)), steps: Vec::new() }
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    /// Number of filters and subscripts around the place.
    filters: usize,
    subscripts: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).unwrap_or(&Token::End)
    }

    fn peek_after(&self) -> &Token {
        self.tokens.get(self.at + 1).unwrap_or(&Token::End)
    }

    fn advance(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn is_mark(&self, mark: &str) -> bool {
        matches!(self.peek(), Token::Mark(found) if *found == mark)
    }

    fn accept(&mut self, mark: &str) -> bool {
        let is_here = self.is_mark(mark);
        self.at += usize::from(is_here);
        is_here
    }

    fn expect(&mut self, mark: &str) -> Result<()> {
        if self.accept(mark) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Word(found) if is_keyword(found, word))
    }

    fn accept_word(&mut self, word: &str) -> bool {
        let is_here = self.is_word(word);
        self.at += usize::from(is_here);
        is_here
    }

    fn unexpected(&self) -> SqlError {
        let near = match self.peek() {
            Token::Word(text) | Token::Text(text) | Token::Variable(text) | Token::Number(text, _) => text,
            Token::Mark(mark) => *mark,
            Token::End => "",
        };
        invalid("syntax error", near)
    }

    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded"));
        }
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// Checks the height of a tree that leans to the left.
    fn check_height(&self, height: usize) -> Result<()> {
        if self.depth + height > DEPTH_MAX {
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded"));
        }
        Ok(())
    }

    /// `condition || …`, or an expression.
    fn alternatives(&mut self) -> Result<Parsed> {
        self.nested(|parser| {
            let mut left = parser.conjunction()?;
            let mut height = 0;
            while parser.is_mark("||") {
                height += 1;
                parser.check_height(height)?;
                let first = parser.condition(left)?;
                parser.advance();
                let next = parser.conjunction()?;
                let second = parser.condition(next)?;
                left = Parsed::Condition(Condition::Or(Box::new(first), Box::new(second)), false);
            }
            Ok(left)
        })
    }

    fn conjunction(&mut self) -> Result<Parsed> {
        let mut left = self.comparison()?;
        let mut height = 0;
        while self.is_mark("&&") {
            height += 1;
            self.check_height(height)?;
            let first = self.condition(left)?;
            self.advance();
            let next = self.comparison()?;
            let second = self.condition(next)?;
            left = Parsed::Condition(Condition::And(Box::new(first), Box::new(second)), false);
        }
        Ok(left)
    }

    fn condition(&self, parsed: Parsed) -> Result<Condition> {
        match parsed {
            Parsed::Condition(condition, _) => Ok(condition),
            Parsed::Value(_) => Err(self.unexpected()),
        }
    }

    fn value(&self, parsed: Parsed) -> Result<Node> {
        match parsed {
            Parsed::Value(node) => Ok(node),
            Parsed::Condition(..) => Err(self.unexpected()),
        }
    }

    fn comparison(&mut self) -> Result<Parsed> {
        let left = self.sum()?;
        let condition = match left {
            Parsed::Condition(condition, true) if self.is_word("is") => {
                self.advance();
                if !self.accept_word("unknown") {
                    return Err(self.unexpected());
                }
                Condition::IsUnknown(Box::new(condition))
            }
            Parsed::Condition(..) => return Ok(left),
            Parsed::Value(node) => match self.comparison_of(node)? {
                Ok(condition) => condition,
                Err(node) => return Ok(Parsed::Value(node)),
            },
        };
        Ok(Parsed::Condition(condition, false))
    }

    /// A comparison of an expression; the expression itself, if no operator follows.
    fn comparison_of(&mut self, left: Node) -> Result<Result<Condition, Node>> {
        let operator = match self.peek() {
            Token::Mark("==") => Comparison::Equal,
            Token::Mark("!=" | "<>") => Comparison::NotEqual,
            Token::Mark("<") => Comparison::Less,
            Token::Mark("<=") => Comparison::LessOrEqual,
            Token::Mark(">") => Comparison::Greater,
            Token::Mark(">=") => Comparison::GreaterOrEqual,
            Token::Word(word) if is_keyword(word, "starts") => {
                self.advance();
                if !self.accept_word("with") {
                    return Err(self.unexpected());
                }
                let start = match self.advance() {
                    Token::Text(text) => Start::Text(text.into()),
                    Token::Variable(name) => Start::Variable(name.into()),
                    _ => {
                        self.at -= 1;
                        return Err(self.unexpected());
                    }
                };
                return Ok(Ok(Condition::StartsWith(left, Node { start, steps: Vec::new() })));
            }
            Token::Word(word) if is_keyword(word, "like_regex") => {
                self.advance();
                return self.regex(left).map(Ok);
            }
            _ => return Ok(Err(left)),
        };
        self.advance();
        let right = self.sum()?;
        Ok(Ok(Condition::Compare(operator, left, self.value(right)?)))
    }

    fn regex(&mut self, left: Node) -> Result<Condition> {
        let Token::Text(pattern) = self.advance() else {
            self.at -= 1;
            return Err(self.unexpected());
        };
        let mut flags = RegexFlags::default();
        if self.accept_word("flag") {
            let Token::Text(letters) = self.advance() else {
                self.at -= 1;
                return Err(self.unexpected());
            };
            for letter in letters.chars() {
                match letter {
                    'i' => flags.ignores_case = true,
                    's' => flags.dot_is_all = true,
                    'm' => flags.has_lines = true,
                    'q' => flags.is_literal = true,
                    'x' => {
                        let message = "XQuery \"x\" flag (expanded regular expressions) is not implemented";
                        return Err(SqlError::unsupported(message));
                    }
                    other => {
                        let message = "invalid input syntax for type jsonpath";
                        let detail =
                            format!("Unrecognized flag character \"{other}\" in LIKE_REGEX predicate.");
                        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).with_detail(detail));
                    }
                }
            }
        }
        Ok(Condition::LikeRegex(left, pattern.into(), flags))
    }

    fn sum(&mut self) -> Result<Parsed> {
        self.operators(&[("+", Arithmetic::Add), ("-", Arithmetic::Subtract)], Self::product)
    }

    fn product(&mut self) -> Result<Parsed> {
        let operators =
            [("*", Arithmetic::Multiply), ("/", Arithmetic::Divide), ("%", Arithmetic::Remainder)];
        self.operators(&operators, Self::signed)
    }

    fn operators(
        &mut self,
        operators: &[(&str, Arithmetic)],
        operand: fn(&mut Self) -> Result<Parsed>,
    ) -> Result<Parsed> {
        let mut left = operand(self)?;
        let mut height = 0;
        while let Some(&(_, operator)) = operators.iter().find(|(mark, _)| self.is_mark(mark)) {
            height += 1;
            self.check_height(height)?;
            let first = self.value(left)?;
            self.advance();
            let next = operand(self)?;
            let second = self.value(next)?;
            let start = Start::Arithmetic(operator, Box::new(first), Box::new(second));
            left = Parsed::Value(Node { start, steps: Vec::new() });
        }
        Ok(left)
    }

    fn signed(&mut self) -> Result<Parsed> {
        let is_minus = self.is_mark("-");
        if !is_minus && !self.is_mark("+") {
            return self.primary();
        }
        self.nested(|parser| {
            parser.advance();
            let operand = parser.signed()?;
            let operand = Box::new(parser.value(operand)?);
            // A number has its sign.
            if let (Start::Number(number), true) = (&operand.start, operand.steps.is_empty()) {
                let number = if is_minus { number.negate() } else { number.clone() };
                return Ok(Parsed::Value(Node { start: Start::Number(number), steps: Vec::new() }));
            }
            Ok(Parsed::Value(Node { start: Start::Sign { is_minus, operand }, steps: Vec::new() }))
        })
    }

    fn primary(&mut self) -> Result<Parsed> {
        if self.is_mark("!") {
            self.advance();
            let is_delimited = self.is_mark("(") || self.is_word("exists");
            let operand = if is_delimited { self.delimited()? } else { return Err(self.unexpected()) };
            return Ok(Parsed::Condition(Condition::Not(Box::new(operand)), false));
        }
        if self.is_word("exists") && matches!(self.peek_after(), Token::Mark("(")) {
            return Ok(Parsed::Condition(self.delimited()?, false));
        }
        if self.accept("(") {
            let inner = self.alternatives()?;
            self.expect(")")?;
            return self.after_parentheses(inner);
        }
        let start = self.start()?;
        let mut node = Node { start, steps: Vec::new() };
        self.steps(&mut node)?;
        Ok(Parsed::Value(node))
    }

    /// `(condition)` or `exists (expression)`.
    fn delimited(&mut self) -> Result<Condition> {
        if self.accept_word("exists") {
            self.expect("(")?;
            let inner = self.alternatives()?;
            let inner = self.value(inner)?;
            self.expect(")")?;
            return Ok(Condition::Exists(inner));
        }
        self.expect("(")?;
        let inner = self.alternatives()?;
        let inner = self.condition(inner)?;
        self.expect(")")?;
        Ok(inner)
    }

    fn after_parentheses(&mut self, inner: Parsed) -> Result<Parsed> {
        let has_steps = self.is_mark(".") || self.is_mark("[") || self.is_mark("?");
        match inner {
            Parsed::Condition(condition, _) if !has_steps => Ok(Parsed::Condition(condition, true)),
            Parsed::Value(node) if !has_steps => Ok(Parsed::Value(node)),
            inner => {
                let mut node = match inner {
                    Parsed::Condition(condition, _) => value_of(condition),
                    Parsed::Value(node) => node,
                };
                self.steps(&mut node)?;
                Ok(Parsed::Value(node))
            }
        }
    }

    fn start(&mut self) -> Result<Start> {
        let token = self.advance();
        Ok(match token {
            Token::Text(text) => Start::Text(text.into()),
            Token::Variable(name) => Start::Variable(name.into()),
            Token::Number(text, _) => Start::Number(text.parse::<Numeric>()?.polled()?),
            Token::Mark("$") => Start::Root,
            Token::Mark("@") if self.filters > 0 => Start::Current,
            Token::Mark("@") => {
                let message = "@ is not allowed in root expressions";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            Token::Word(word) if word == "null" => Start::Null,
            Token::Word(word) if word == "true" => Start::Bool(true),
            Token::Word(word) if word == "false" => Start::Bool(false),
            Token::Word(word) if is_keyword(&word, "last") => {
                if self.subscripts == 0 {
                    let message = "LAST is allowed only in array subscripts";
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                }
                Start::Last
            }
            _ => {
                self.at -= 1;
                return Err(self.unexpected());
            }
        })
    }

    fn steps(&mut self, node: &mut Node) -> Result<()> {
        loop {
            let step = if self.accept(".") {
                self.member()?
            } else if self.accept("[") {
                self.subscripts()?
            } else if self.accept("?") {
                self.filters += 1;
                self.expect("(")?;
                let inner = self.alternatives()?;
                let inner = self.condition(inner)?;
                self.expect(")")?;
                self.filters -= 1;
                Step::Filter(inner)
            } else {
                return Ok(());
            };
            node.steps.push(step);
        }
    }

    /// What follows a point: a key, a method, or wild cards.
    fn member(&mut self) -> Result<Step> {
        match self.advance() {
            Token::Mark("*") => Ok(Step::AnyMember),
            Token::Mark("**") => self.anywhere(),
            Token::Text(key) => Ok(Step::Member(key.into())),
            Token::Word(word) if self.is_mark("(") => {
                if is_keyword(&word, "datetime") {
                    self.advance();
                    let template = match self.peek() {
                        Token::Text(template) => Some(Arc::from(template.as_str())),
                        _ => None,
                    };
                    self.at += usize::from(template.is_some());
                    self.expect(")")?;
                    return Ok(Step::Datetime(template));
                }
                let method = Method::ALL.iter().find(|(name, _)| is_keyword(&word, name));
                let &(_, method) = method.ok_or_else(|| self.unexpected())?;
                self.advance();
                self.expect(")")?;
                Ok(Step::Method(method))
            }
            Token::Word(word) => Ok(Step::Member(word.into())),
            _ => {
                self.at -= 1;
                Err(self.unexpected())
            }
        }
    }

    /// The levels of `**`.
    fn anywhere(&mut self) -> Result<Step> {
        if !self.accept("{") {
            return Ok(Step::Anywhere { first: Some(0), last: None });
        }
        let first = self.level()?;
        let last = if self.accept_word("to") { self.level()? } else { first };
        self.expect("}")?;
        Ok(Step::Anywhere { first, last })
    }

    fn level(&mut self) -> Result<Option<u32>> {
        if self.accept_word("last") {
            return Ok(None);
        }
        match self.advance() {
            Token::Number(text, true) => {
                let level = text.parse::<i32>().map_err(|_| {
                    let message = format!("value \"{text}\" is out of range for type integer");
                    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
                })?;
                Ok(Some(level as u32))
            }
            _ => {
                self.at -= 1;
                Err(self.unexpected())
            }
        }
    }

    fn subscripts(&mut self) -> Result<Step> {
        if self.is_mark("*") && matches!(self.peek_after(), Token::Mark("]")) {
            self.at += 2;
            return Ok(Step::AnyElement);
        }
        self.subscripts += 1;
        let mut list = Vec::new();
        loop {
            let from = self.alternatives()?;
            let from = self.value(from)?;
            let to = match self.accept_word("to") {
                true => {
                    let to = self.alternatives()?;
                    Some(self.value(to)?)
                }
                false => None,
            };
            list.push((from, to));
            if !self.accept(",") {
                break;
            }
        }
        self.expect("]")?;
        self.subscripts -= 1;
        Ok(Step::Elements(list))
    }
}

/// Returns true if a word is a keyword, of which all but `null`, `true` and `false` may have capitals.
fn is_keyword(word: &str, keyword: &str) -> bool {
    word.eq_ignore_ascii_case(keyword)
}
