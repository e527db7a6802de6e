//! Binding: columns get their positions, and every operator's operands are of types that it takes.
//!
//! A quoted constant is a text, unless it is compared with a day, a time or an identifier: then it is read as one.

use super::{Arithmetic, Comparison, Expression};
use crate::types::{DataType, Value};

/// The kind of values that an expression has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Null,
    Bool,
    Int,
    Decimal,
    Float,
    Text,
    Bytes,
    Date,
    Timestamp,
    Uuid,
}

impl Kind {
    fn of(data_type: &DataType) -> Option<Kind> {
        Some(match data_type {
            DataType::Bool => Kind::Bool,
            DataType::Int32 | DataType::Int64 => Kind::Int,
            DataType::Decimal { .. } => Kind::Decimal,
            DataType::Float64 => Kind::Float,
            DataType::Text => Kind::Text,
            DataType::Bytes => Kind::Bytes,
            DataType::Date => Kind::Date,
            DataType::Timestamp => Kind::Timestamp,
            DataType::Uuid => Kind::Uuid,
            DataType::OrderedTuple(_) | DataType::TopK { .. } => return None,
        })
    }

    fn of_value(value: &Value) -> Kind {
        match value {
            Value::Bool(_) => Kind::Bool,
            Value::Int(_) => Kind::Int,
            Value::Decimal(_) => Kind::Decimal,
            Value::Float(_) => Kind::Float,
            Value::Text(_) => Kind::Text,
            Value::Bytes(_) => Kind::Bytes,
            Value::Date(_) => Kind::Date,
            Value::Timestamp(_) => Kind::Timestamp,
            Value::Uuid(_) => Kind::Uuid,
            _ => Kind::Null,
        }
    }

    fn is_number(self) -> bool {
        matches!(self, Kind::Null | Kind::Int | Kind::Decimal | Kind::Float)
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Null => "NULL",
            Kind::Bool => "a condition",
            Kind::Int => "an integer",
            Kind::Decimal => "a decimal",
            Kind::Float => "a float",
            Kind::Text => "a text",
            Kind::Bytes => "bytes",
            Kind::Date => "a date",
            Kind::Timestamp => "a timestamp",
            Kind::Uuid => "a uuid",
        }
    }
}

type Typed = (Box<Expression<usize>>, Kind);
type Pair = (Box<Expression<usize>>, Box<Expression<usize>>);

/// The condition with the positions of its columns.
///
/// # Errors
/// What is wrong with it, and what to do: an unknown column, a type that an operator does not take, no condition.
pub(crate) fn bind(
    expression: &Expression<String>,
    columns: &[(&str, &DataType)],
) -> Result<Expression<usize>, String> {
    let bound = Binder { columns }.condition(expression)?;
    Ok(*bound)
}

struct Binder<'c> {
    columns: &'c [(&'c str, &'c DataType)],
}

impl Binder<'_> {
    fn condition(&self, expression: &Expression<String>) -> Result<Box<Expression<usize>>, String> {
        match self.typed(expression)? {
            (bound, Kind::Bool | Kind::Null) => Ok(bound),
            (_, kind) => Err(format!("{expression} is {}, and must be a condition; compare it", kind.name())),
        }
    }

    fn number(&self, expression: &Expression<String>) -> Result<Typed, String> {
        match self.typed(expression)? {
            (bound, kind) if kind.is_number() => Ok((bound, kind)),
            (_, kind) => Err(format!("{expression} is {}, and must be a number", kind.name())),
        }
    }

    fn text(&self, expression: &Expression<String>) -> Result<Box<Expression<usize>>, String> {
        match self.typed(expression)? {
            (bound, Kind::Text | Kind::Null) => Ok(bound),
            (_, kind) => Err(format!("{expression} is {}, and must be a text", kind.name())),
        }
    }

    /// Two expressions that are compared.
    fn pair(&self, left: &Expression<String>, right: &Expression<String>) -> Result<Pair, String> {
        let (mut one, mut other) = (self.typed(left)?, self.typed(right)?);
        read_constant(&mut one, other.1)?;
        read_constant(&mut other, one.1)?;
        let fits = one.1 == other.1
            || one.1.is_number() && other.1.is_number()
            || one.1 == Kind::Null
            || other.1 == Kind::Null;
        if !fits {
            let (one, other) = (one.1.name(), other.1.name());
            return Err(format!(
                "{left} is {one} and {right} is {other}, which do not compare; compare values of one type"
            ));
        }
        Ok((one.0, other.0))
    }

    fn typed(&self, expression: &Expression<String>) -> Result<Typed, String> {
        let condition = |bound| Ok((Box::new(bound), Kind::Bool));
        match expression {
            Expression::Column(name) => self.column(name),
            Expression::Constant(value) => {
                Ok((Box::new(Expression::Constant(value.clone())), Kind::of_value(value)))
            }
            Expression::Negative(one) => {
                let (one, kind) = self.number(one)?;
                Ok((Box::new(Expression::Negative(one)), kind))
            }
            Expression::Arithmetic(operator, left, right) => self.arithmetic(*operator, left, right),
            Expression::Compare(comparison, left, right) => {
                let (left, right) = self.pair(left, right)?;
                condition(Expression::Compare(*comparison, left, right))
            }
            Expression::And(left, right) => {
                condition(Expression::And(self.condition(left)?, self.condition(right)?))
            }
            Expression::Or(left, right) => {
                condition(Expression::Or(self.condition(left)?, self.condition(right)?))
            }
            Expression::Not(one) => condition(Expression::Not(self.condition(one)?)),
            Expression::IsNull(one) => condition(Expression::IsNull(self.typed(one)?.0)),
            Expression::In(one, among) => {
                let mut bound = Vec::with_capacity(among.len());
                let mut subject = self.typed(one)?.0;
                for other in among {
                    let (left, right) = self.pair(one, other)?;
                    subject = left;
                    bound.push(*right);
                }
                condition(Expression::In(subject, bound))
            }
            Expression::Between(one, low, high) => {
                let ((bound, low), (_, high)) = (self.pair(one, low)?, self.pair(one, high)?);
                condition(Expression::Between(bound, low, high))
            }
            Expression::Like(one, pattern) => {
                condition(Expression::Like(self.text(one)?, self.text(pattern)?))
            }
            Expression::Length(one) => match self.typed(one)? {
                (bound, Kind::Text | Kind::Bytes | Kind::Null) => {
                    Ok((Box::new(Expression::Length(bound)), Kind::Int))
                }
                (_, kind) => Err(format!("{one} is {}, and only texts and bytes have a length", kind.name())),
            },
        }
    }

    fn column(&self, name: &str) -> Result<Typed, String> {
        let Some(position) = self.columns.iter().position(|column| column.0 == name) else {
            let known: Vec<_> = self.columns.iter().map(|column| column.0).collect();
            return Err(format!("there is no column {name:?}; the columns are: {}", known.join(", ")));
        };
        let data_type = self.columns[position].1;
        let kind = Kind::of(data_type);
        let kind = kind.ok_or_else(|| format!("column {name:?} is {data_type}, which no check takes"))?;
        Ok((Box::new(Expression::Column(position)), kind))
    }

    fn arithmetic(
        &self,
        operator: Arithmetic,
        left: &Expression<String>,
        right: &Expression<String>,
    ) -> Result<Typed, String> {
        let ((left, one), (right, other)) = (self.number(left)?, self.number(right)?);
        let kind = if one == Kind::Float || other == Kind::Float {
            Kind::Float
        } else if one == Kind::Decimal || other == Kind::Decimal {
            Kind::Decimal
        } else {
            Kind::Int
        };
        if kind == Kind::Decimal && matches!(operator, Arithmetic::Divide | Arithmetic::Remainder) {
            return Err("decimals are not divided in a check; multiply the other side instead".to_string());
        }
        Ok((Box::new(Expression::Arithmetic(operator, left, right)), kind))
    }
}

/// Reads a quoted constant as what it is compared with.
fn read_constant((expression, kind): &mut Typed, beside: Kind) -> Result<(), String> {
    let Expression::Constant(Value::Text(text)) = &**expression else { return Ok(()) };
    let read = match beside {
        Kind::Date => text.parse().map(Value::Date),
        Kind::Timestamp => text.parse().map(Value::Timestamp),
        Kind::Uuid => text.parse().map(Value::Uuid),
        _ => return Ok(()),
    };
    let value = read.map_err(|error| error.to_string())?;
    (**expression, *kind) = (Expression::Constant(value), beside);
    Ok(())
}

impl Comparison {
    /// Returns true if two values in this order satisfy it.
    pub(super) fn holds(self, ordering: std::cmp::Ordering) -> bool {
        match self {
            Comparison::Equal => ordering.is_eq(),
            Comparison::NotEqual => ordering.is_ne(),
            Comparison::Less => ordering.is_lt(),
            Comparison::LessOrEqual => ordering.is_le(),
            Comparison::Greater => ordering.is_gt(),
            Comparison::GreaterOrEqual => ordering.is_ge(),
        }
    }
}
