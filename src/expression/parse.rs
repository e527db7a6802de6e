//! Reading an expression from text, and writing names and constants so that they are read back.
//!
//! ```text
//! or         = and { OR and }                      sum     = product { (+ | -) product }
//! and        = not { AND not }                     product = factor { (* | / | %) factor }
//! not        = NOT not | predicate                 factor  = - factor | constant | name | length(or) | (or)
//! predicate  = sum [ = <> != < <= > >= sum | IS [NOT] NULL | [NOT] IN (or, …) | [NOT] BETWEEN sum AND sum
//!                  | [NOT] LIKE sum ]
//! ```
//!
//! Key words are in any case; names are as the columns are called, in double quotes where they are no words.

use std::fmt;

use super::{Arithmetic, Comparison, DEPTH_MAX, Expression};
use crate::types::{Decimal, Value};

/// The longest text of an expression, in bytes.
const TEXT_MAX: usize = 10_000;

const KEYWORDS: [&str; 11] =
    ["AND", "OR", "NOT", "IS", "NULL", "IN", "BETWEEN", "LIKE", "LENGTH", "TRUE", "FALSE"];

/// Reads an expression.
///
/// # Errors
/// What is wrong, and where.
pub(crate) fn parse(text: &str) -> Result<Expression, String> {
    if text.len() > TEXT_MAX {
        return Err(format!("it has {} bytes, and may have {TEXT_MAX}; split it", text.len()));
    }
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens: &tokens, at: 0, depth: 0 };
    let expression = parser.or()?;
    match parser.peek() {
        None => Ok(expression),
        Some(_) => Err(parser.unexpected("the end, AND or OR")),
    }
}

/// Writes a column's name.
pub(super) fn write_name(formatter: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    let is_word = name.starts_with(is_word_start)
        && name.chars().all(is_word_part)
        && !KEYWORDS.contains(&name.to_ascii_uppercase().as_str());
    if is_word { formatter.write_str(name) } else { write!(formatter, "\"{}\"", name.replace('"', "\"\"")) }
}

/// Writes a constant.
pub(super) fn write_constant(formatter: &mut fmt::Formatter<'_>, value: &Value) -> fmt::Result {
    match value {
        Value::Null => formatter.write_str("NULL"),
        Value::Bool(true) => formatter.write_str("TRUE"),
        Value::Bool(false) => formatter.write_str("FALSE"),
        Value::Int(int) => write!(formatter, "{int}"),
        Value::Decimal(decimal) => write!(formatter, "{decimal}"),
        other => write!(formatter, "'{}'", other.to_string().replace('\'', "''")),
    }
}

fn is_word_start(character: char) -> bool {
    character.is_alphabetic() || character == '_'
}

fn is_word_part(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    /// A word that is not quoted: a key word or a name.
    Word(String),
    /// A name in double quotes.
    Name(String),
    Constant(Value),
    Symbol(&'static str),
}

impl fmt::Display for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Word(word) | Token::Name(word) => write!(formatter, "{word:?}"),
            Token::Constant(value) => write_constant(formatter, value),
            Token::Symbol(symbol) => write!(formatter, "{symbol:?}"),
        }
    }
}

/// Longer ones first.
const SYMBOLS: [&str; 16] =
    ["<=", ">=", "<>", "!=", "<", ">", "=", "+", "-", "*", "/", "%", "(", ")", ",", "."];

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if is_word_start(first) {
            let length = rest.find(|character| !is_word_part(character)).unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..length].to_string()));
            length
        } else if first.is_ascii_digit() || first == '.' {
            let is_part = |character: char| character.is_ascii_digit() || character == '.';
            let length = rest.find(|character| !is_part(character)).unwrap_or(rest.len());
            tokens.push(Token::Constant(number(&rest[..length])?));
            length
        } else if first == '\'' || first == '"' {
            let (quoted, length) = quoted(rest, first)?;
            let is_text = first == '\'';
            tokens.push(if is_text { Token::Constant(Value::Text(quoted)) } else { Token::Name(quoted) });
            length
        } else if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            tokens.push(Token::Symbol(symbol));
            symbol.len()
        } else {
            return Err(format!("{first:?} has no meaning in a check"));
        };
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

fn number(text: &str) -> Result<Value, String> {
    if let Ok(int) = text.parse() {
        return Ok(Value::Int(int));
    }
    text.parse::<Decimal>().map(Value::Decimal).map_err(|error| error.to_string())
}

/// The text between quotes, which are doubled inside; and its length with them.
fn quoted(text: &str, quote: char) -> Result<(String, usize), String> {
    let mut inner = String::new();
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((at, character)) = characters.next() {
        if character != quote {
            inner.push(character);
        } else if characters.next_if(|(_, next)| *next == quote).is_some() {
            inner.push(quote);
        } else {
            return Ok((inner, at + quote.len_utf8()));
        }
    }
    Err(format!("a {quote} has no end; close it"))
}

struct Parser<'t> {
    tokens: &'t [Token],
    at: usize,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Option<&'t Token> {
        self.tokens.get(self.at)
    }

    fn unexpected(&self, wanted: &str) -> String {
        match self.peek() {
            Some(token) => format!("{token} stands where {wanted} should be"),
            None => format!("it ends where {wanted} should be"),
        }
    }

    /// Consumes the next token if it is this key word; returns true if it was.
    fn word(&mut self, keyword: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Word(word)) if word.eq_ignore_ascii_case(keyword));
        self.at += usize::from(found);
        found
    }

    fn symbol(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Symbol(other)) if *other == symbol);
        self.at += usize::from(found);
        found
    }

    fn require_word(&mut self, keyword: &str) -> Result<(), String> {
        if self.word(keyword) { Ok(()) } else { Err(self.unexpected(keyword)) }
    }

    fn require_symbol(&mut self, symbol: &str) -> Result<(), String> {
        if self.symbol(symbol) { Ok(()) } else { Err(self.unexpected(&format!("{symbol:?}"))) }
    }

    /// Parses one level deeper.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<T, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("it is nested deeper than {DEPTH_MAX} levels; split it"));
        }
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// Operands joined by an operator; each one makes the tree a level deeper.
    fn chain(
        &mut self,
        operand: fn(&mut Self) -> Result<Expression, String>,
        operator: impl Fn(&mut Self) -> Option<Join>,
    ) -> Result<Expression, String> {
        let mut left = operand(self)?;
        let depth = self.depth;
        while let Some(join) = operator(self) {
            self.depth += 1;
            let right = self.nested(operand)?;
            left = join(Box::new(left), Box::new(right));
        }
        self.depth = depth;
        Ok(left)
    }

    fn or(&mut self) -> Result<Expression, String> {
        self.chain(Self::and, |parser| parser.word("OR").then_some(Expression::Or as Join))
    }

    fn and(&mut self) -> Result<Expression, String> {
        self.chain(Self::not, |parser| parser.word("AND").then_some(Expression::And as Join))
    }

    fn not(&mut self) -> Result<Expression, String> {
        if self.word("NOT") {
            return Ok(Expression::Not(Box::new(self.nested(Self::not)?)));
        }
        self.predicate()
    }

    fn predicate(&mut self) -> Result<Expression, String> {
        let left = self.sum()?;
        if let Some(comparison) = self.comparison() {
            return Ok(Expression::Compare(comparison, Box::new(left), Box::new(self.sum()?)));
        }
        if self.word("IS") {
            let negated = self.word("NOT");
            self.require_word("NULL")?;
            return Ok(negate(negated, Expression::IsNull(Box::new(left))));
        }
        let negated = self.word("NOT");
        if self.word("IN") {
            return Ok(negate(negated, Expression::In(Box::new(left), self.list()?)));
        }
        if self.word("BETWEEN") {
            let low = self.sum()?;
            self.require_word("AND")?;
            let between = Expression::Between(Box::new(left), Box::new(low), Box::new(self.sum()?));
            return Ok(negate(negated, between));
        }
        if self.word("LIKE") {
            return Ok(negate(negated, Expression::Like(Box::new(left), Box::new(self.sum()?))));
        }
        if negated { Err(self.unexpected("IN, BETWEEN or LIKE")) } else { Ok(left) }
    }

    fn comparison(&mut self) -> Option<Comparison> {
        let comparison = match self.peek()? {
            Token::Symbol("=") => Comparison::Equal,
            Token::Symbol("<>" | "!=") => Comparison::NotEqual,
            Token::Symbol("<") => Comparison::Less,
            Token::Symbol("<=") => Comparison::LessOrEqual,
            Token::Symbol(">") => Comparison::Greater,
            Token::Symbol(">=") => Comparison::GreaterOrEqual,
            _ => return None,
        };
        self.at += 1;
        Some(comparison)
    }

    fn list(&mut self) -> Result<Vec<Expression>, String> {
        self.require_symbol("(")?;
        let mut among = vec![self.nested(Self::or)?];
        while self.symbol(",") {
            among.push(self.nested(Self::or)?);
        }
        self.require_symbol(")")?;
        Ok(among)
    }

    fn sum(&mut self) -> Result<Expression, String> {
        self.chain(Self::product, |parser| {
            if parser.symbol("+") {
                Some(|left, right| Expression::Arithmetic(Arithmetic::Add, left, right))
            } else if parser.symbol("-") {
                Some(|left, right| Expression::Arithmetic(Arithmetic::Subtract, left, right))
            } else {
                None
            }
        })
    }

    fn product(&mut self) -> Result<Expression, String> {
        self.chain(Self::factor, |parser| {
            if parser.symbol("*") {
                Some(|left, right| Expression::Arithmetic(Arithmetic::Multiply, left, right))
            } else if parser.symbol("/") {
                Some(|left, right| Expression::Arithmetic(Arithmetic::Divide, left, right))
            } else if parser.symbol("%") {
                Some(|left, right| Expression::Arithmetic(Arithmetic::Remainder, left, right))
            } else {
                None
            }
        })
    }

    fn factor(&mut self) -> Result<Expression, String> {
        if self.symbol("-") {
            return Ok(Expression::Negative(Box::new(self.nested(Self::factor)?)));
        }
        if self.symbol("(") {
            let inner = self.nested(Self::or)?;
            self.require_symbol(")")?;
            return Ok(inner);
        }
        if self.word("LENGTH") {
            self.require_symbol("(")?;
            let inner = self.nested(Self::or)?;
            self.require_symbol(")")?;
            return Ok(Expression::Length(Box::new(inner)));
        }
        for (keyword, value) in
            [("NULL", Value::Null), ("TRUE", Value::Bool(true)), ("FALSE", Value::Bool(false))]
        {
            if self.word(keyword) {
                return Ok(Expression::Constant(value));
            }
        }
        let expression = match self.peek() {
            Some(Token::Constant(value)) => Expression::Constant(value.clone()),
            Some(Token::Name(name)) => Expression::Column(name.clone()),
            Some(Token::Word(name)) if !KEYWORDS.contains(&name.to_ascii_uppercase().as_str()) => {
                Expression::Column(name.clone())
            }
            _ => return Err(self.unexpected("a column or a constant")),
        };
        self.at += 1;
        Ok(expression)
    }
}

type Join = fn(Box<Expression>, Box<Expression>) -> Expression;

fn negate(negated: bool, expression: Expression) -> Expression {
    if negated { Expression::Not(Box::new(expression)) } else { expression }
}
