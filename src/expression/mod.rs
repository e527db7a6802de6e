//! The language of checks: comparison, arithmetic, AND, OR, NOT, IS NULL, IN, BETWEEN, LIKE and length over the columns of
//! one row.
//!
//! The catalog stores a check as text, which [`parse`] reads and `Display` writes; a table binds it to the positions of its
//! columns ([`bind`]) and evaluates it ([`evaluate`]) with SQL's three-valued logic. What a check says about single columns
//! becomes their bounds ([`bounds`]).
//!
//! Invariants: what `Display` writes, `parse` reads back as the same expression; a bound expression has the types that its
//! operators take, so that evaluating fails only by its arithmetic; no expression is nested deeper than [`DEPTH_MAX`].

pub(crate) mod bind;
pub(crate) mod bounds;
pub(crate) mod evaluate;
mod like;
pub(crate) mod parse;

use std::fmt;

use crate::types::Value;

/// Deepest nesting of an expression.
pub(crate) const DEPTH_MAX: usize = 100;

/// An expression over the columns of a row, which are named, or bound to their positions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expression<C = String> {
    Column(C),
    Constant(Value),
    Negative(Box<Expression<C>>),
    Arithmetic(Arithmetic, Box<Expression<C>>, Box<Expression<C>>),
    Compare(Comparison, Box<Expression<C>>, Box<Expression<C>>),
    And(Box<Expression<C>>, Box<Expression<C>>),
    Or(Box<Expression<C>>, Box<Expression<C>>),
    Not(Box<Expression<C>>),
    IsNull(Box<Expression<C>>),
    In(Box<Expression<C>>, Vec<Expression<C>>),
    Between(Box<Expression<C>>, Box<Expression<C>>, Box<Expression<C>>),
    Like(Box<Expression<C>>, Box<Expression<C>>),
    Length(Box<Expression<C>>),
}

/// An arithmetic operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Arithmetic {
    fn symbol(self) -> &'static str {
        match self {
            Arithmetic::Add => "+",
            Arithmetic::Subtract => "-",
            Arithmetic::Multiply => "*",
            Arithmetic::Divide => "/",
            Arithmetic::Remainder => "%",
        }
    }
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    fn symbol(self) -> &'static str {
        match self {
            Comparison::Equal => "=",
            Comparison::NotEqual => "<>",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        }
    }

    /// The comparison with its sides exchanged.
    fn flipped(self) -> Comparison {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
            same => same,
        }
    }
}

impl<C> Expression<C> {
    /// Calls `visit` with every column, once for each mention.
    pub(crate) fn columns<'e>(&'e self, visit: &mut impl FnMut(&'e C)) {
        match self {
            Expression::Column(column) => visit(column),
            Expression::Constant(_) => {}
            Expression::Negative(one)
            | Expression::Not(one)
            | Expression::IsNull(one)
            | Expression::Length(one) => one.columns(visit),
            Expression::Arithmetic(_, left, right)
            | Expression::Compare(_, left, right)
            | Expression::And(left, right)
            | Expression::Or(left, right)
            | Expression::Like(left, right) => {
                left.columns(visit);
                right.columns(visit);
            }
            Expression::In(one, among) => {
                one.columns(visit);
                among.iter().for_each(|other| other.columns(visit));
            }
            Expression::Between(one, low, high) => {
                one.columns(visit);
                low.columns(visit);
                high.columns(visit);
            }
        }
    }
}

impl Expression<String> {
    /// Returns true if it names this column.
    pub(crate) fn names(&self, column: &str) -> bool {
        let mut found = false;
        self.columns(&mut |name| found |= name == column);
        found
    }

    /// The expression after a column was renamed.
    pub(crate) fn renamed(&self, from: &str, to: &str) -> Expression<String> {
        let again = |one: &Expression<String>| Box::new(one.renamed(from, to));
        match self {
            Expression::Column(name) if name == from => Expression::Column(to.to_string()),
            Expression::Column(_) | Expression::Constant(_) => self.clone(),
            Expression::Negative(one) => Expression::Negative(again(one)),
            Expression::Not(one) => Expression::Not(again(one)),
            Expression::IsNull(one) => Expression::IsNull(again(one)),
            Expression::Length(one) => Expression::Length(again(one)),
            Expression::Arithmetic(operator, left, right) => {
                Expression::Arithmetic(*operator, again(left), again(right))
            }
            Expression::Compare(comparison, left, right) => {
                Expression::Compare(*comparison, again(left), again(right))
            }
            Expression::And(left, right) => Expression::And(again(left), again(right)),
            Expression::Or(left, right) => Expression::Or(again(left), again(right)),
            Expression::Like(left, right) => Expression::Like(again(left), again(right)),
            Expression::In(one, among) => {
                Expression::In(again(one), among.iter().map(|other| other.renamed(from, to)).collect())
            }
            Expression::Between(one, low, high) => Expression::Between(again(one), again(low), again(high)),
        }
    }

    fn is_atom(&self) -> bool {
        matches!(self, Expression::Column(_) | Expression::Constant(_) | Expression::Length(_))
    }
}

/// An operand: in parentheses, unless it is a single word.
struct Operand<'e>(&'e Expression<String>);

impl fmt::Display for Operand<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_atom() { write!(formatter, "{}", self.0) } else { write!(formatter, "({})", self.0) }
    }
}

impl fmt::Display for Expression<String> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expression::Column(name) => parse::write_name(formatter, name),
            Expression::Constant(value) => parse::write_constant(formatter, value),
            Expression::Negative(one) => write!(formatter, "-{}", Operand(one)),
            Expression::Arithmetic(operator, left, right) => {
                write!(formatter, "{} {} {}", Operand(left), operator.symbol(), Operand(right))
            }
            Expression::Compare(comparison, left, right) => {
                write!(formatter, "{} {} {}", Operand(left), comparison.symbol(), Operand(right))
            }
            Expression::And(left, right) => write!(formatter, "{} AND {}", Operand(left), Operand(right)),
            Expression::Or(left, right) => write!(formatter, "{} OR {}", Operand(left), Operand(right)),
            Expression::Not(one) => write!(formatter, "NOT {}", Operand(one)),
            Expression::IsNull(one) => write!(formatter, "{} IS NULL", Operand(one)),
            Expression::In(one, among) => {
                write!(formatter, "{} IN (", Operand(one))?;
                for (at, other) in among.iter().enumerate() {
                    let comma = if at > 0 { ", " } else { "" };
                    write!(formatter, "{comma}{other}")?;
                }
                formatter.write_str(")")
            }
            Expression::Between(one, low, high) => {
                write!(formatter, "{} BETWEEN {} AND {}", Operand(one), Operand(low), Operand(high))
            }
            Expression::Like(one, pattern) => write!(formatter, "{} LIKE {}", Operand(one), Operand(pattern)),
            Expression::Length(one) => write!(formatter, "length({one})"),
        }
    }
}

#[cfg(test)]
mod tests;
