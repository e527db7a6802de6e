//! The types that a column can have, and their text form, in which the catalog stores them.
//!
//! Invariants: a type that was parsed, or that passed [`DataType::validate`], is within all bounds, and
//! parsing what `Display` printed gives the same type back.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::types::Decimal;

/// The type of a column.
///
/// ```
/// use heddledb::DataType;
/// let price: DataType = "decimal(10,2)".parse()?;
/// assert_eq!(price, DataType::Decimal { precision: 10, scale: 2 });
/// assert_eq!(price.to_string(), "decimal(10,2)");
/// # Ok::<(), heddledb::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DataType {
    /// True or false.
    Bool,
    /// An integer of 32 bits.
    Int32,
    /// An integer of 64 bits.
    Int64,
    /// A floating point number of 64 bits; -0 equals 0, and NaN equals itself and is above every number.
    Float64,
    /// An exact number with `precision` decimal digits, `scale` of them behind the point.
    Decimal {
        /// The number of all digits: 1 to 38.
        precision: u8,
        /// The number of digits behind the point: at most `precision`.
        scale: u8,
    },
    /// UTF-8 text without the character zero, compared by its bytes.
    Text,
    /// A byte string.
    Bytes,
    /// A day of the calendar.
    Date,
    /// A microsecond in time.
    Timestamp,
    /// A universally unique identifier.
    Uuid,
    /// One entry of order and payload columns: an ordered put keeps the greatest.
    OrderedTuple(TupleType),
    /// The greatest entries, at most one for each order.
    TopK {
        /// The number of entries that are kept.
        limit: u32,
        /// The columns of an entry.
        of: TupleType,
    },
}

/// The columns of an entry of an ordered tuple or of a top-K set: columns that order it, and columns that it
/// carries. The payload decides between entries of equal order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TupleType {
    order: Vec<DataType>,
    payload: Vec<DataType>,
}

/// The largest number of entries that a top-K column may ask for.
const TOP_K_LIMIT_MAX: u32 = 1 << 20;

impl TupleType {
    /// An entry type: at least one order column, and scalar types only.
    pub fn new(order: Vec<DataType>, payload: Vec<DataType>) -> Result<TupleType> {
        let tuple_type = TupleType { order, payload };
        tuple_type.validate()?;
        Ok(tuple_type)
    }

    /// The types of the columns that order the entry.
    pub fn order(&self) -> &[DataType] {
        &self.order
    }

    /// The types of the columns that the entry carries.
    pub fn payload(&self) -> &[DataType] {
        &self.payload
    }

    fn validate(&self) -> Result<()> {
        if self.order.is_empty() {
            return Err(invalid(self, "it has no order column; give it one at least"));
        }
        for member in self.order.iter().chain(&self.payload) {
            if !member.is_scalar() {
                return Err(invalid(self, "a member is itself a tuple; use scalar types"));
            }
            member.validate()?;
        }
        Ok(())
    }
}

impl DataType {
    /// Returns true if a value of this type is scalar, so that it may be in a key or in a tuple.
    pub fn is_scalar(&self) -> bool {
        !matches!(self, DataType::OrderedTuple(_) | DataType::TopK { .. })
    }

    /// Refuses a type whose numbers are out of bounds.
    pub fn validate(&self) -> Result<()> {
        match self {
            DataType::Decimal { precision, .. } if !(1..=Decimal::PRECISION_MAX).contains(precision) => {
                Err(invalid(self, "its precision is not within 1 to 38"))
            }
            DataType::Decimal { precision, scale } if scale > precision => {
                Err(invalid(self, "its scale is greater than its precision"))
            }
            DataType::TopK { limit, .. } if !(1..=TOP_K_LIMIT_MAX).contains(limit) => {
                Err(invalid(self, &format!("its limit is not within 1 to {TOP_K_LIMIT_MAX}")))
            }
            DataType::OrderedTuple(of) | DataType::TopK { of, .. } => of.validate(),
            _ => Ok(()),
        }
    }
}

fn invalid(text: &dyn fmt::Display, detail: &str) -> Error {
    Error::InvalidType { text: text.to_string(), detail: detail.to_owned() }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataType::Bool => f.write_str("bool"),
            DataType::Int32 => f.write_str("int32"),
            DataType::Int64 => f.write_str("int64"),
            DataType::Float64 => f.write_str("float64"),
            DataType::Decimal { precision, scale } => write!(f, "decimal({precision},{scale})"),
            DataType::Text => f.write_str("text"),
            DataType::Bytes => f.write_str("bytes"),
            DataType::Date => f.write_str("date"),
            DataType::Timestamp => f.write_str("timestamp"),
            DataType::Uuid => f.write_str("uuid"),
            DataType::OrderedTuple(of) => write!(f, "ordered_tuple({of})"),
            DataType::TopK { limit, of } => write!(f, "top_k({limit}; {of})"),
        }
    }
}

impl fmt::Display for TupleType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_members(f, &self.order)?;
        if !self.payload.is_empty() {
            f.write_str("; ")?;
            write_members(f, &self.payload)?;
        }
        Ok(())
    }
}

fn write_members(f: &mut fmt::Formatter<'_>, members: &[DataType]) -> fmt::Result {
    for (position, member) in members.iter().enumerate() {
        if position > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{member}")?;
    }
    Ok(())
}

impl FromStr for DataType {
    type Err = Error;

    fn from_str(text: &str) -> Result<DataType> {
        let trimmed = text.trim();
        let data_type = match trimmed.split_once('(') {
            None => parse_plain(trimmed),
            Some((name, rest)) => {
                rest.strip_suffix(')').and_then(|arguments| parse_with_arguments(name.trim_end(), arguments))
            }
        };
        let data_type = data_type.ok_or_else(|| {
            let detail = "write for instance int64, decimal(10,2), text, ordered_tuple(int64; text) or \
                          top_k(100; int64; text)";
            invalid(&text, detail)
        })?;
        data_type.validate()?;
        Ok(data_type)
    }
}

fn parse_plain(name: &str) -> Option<DataType> {
    Some(match name {
        "bool" => DataType::Bool,
        "int32" => DataType::Int32,
        "int64" => DataType::Int64,
        "float64" => DataType::Float64,
        "text" => DataType::Text,
        "bytes" => DataType::Bytes,
        "date" => DataType::Date,
        "timestamp" => DataType::Timestamp,
        "uuid" => DataType::Uuid,
        _ => return None,
    })
}

fn parse_with_arguments(name: &str, arguments: &str) -> Option<DataType> {
    match name {
        "decimal" => {
            let (precision, scale) = arguments.split_once(',')?;
            Some(DataType::Decimal { precision: parse_number(precision)?, scale: parse_number(scale)? })
        }
        "ordered_tuple" => Some(DataType::OrderedTuple(parse_tuple(arguments)?)),
        "top_k" => {
            let (limit, of) = arguments.split_once(';')?;
            Some(DataType::TopK { limit: parse_number(limit)?, of: parse_tuple(of)? })
        }
        _ => None,
    }
}

/// Digits only: `FromStr` of the integers would also take a plus sign.
fn parse_number<N: FromStr>(text: &str) -> Option<N> {
    let digits = text.trim();
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

fn parse_tuple(text: &str) -> Option<TupleType> {
    let (order, payload) = match text.split_once(';') {
        None => (parse_members(text)?, Vec::new()),
        Some((order, payload)) => (parse_members(order)?, parse_members(payload)?),
    };
    Some(TupleType { order, payload })
}

/// Members are scalar, so that the only commas that do not separate them are those of decimals.
fn parse_members(text: &str) -> Option<Vec<DataType>> {
    let mut members = Vec::new();
    let mut rest = text;
    loop {
        let end = rest.find(',').map_or(rest.len(), |comma| match rest.find('(') {
            Some(open) if open < comma => {
                let close = rest[open..].find(')').map_or(rest.len(), |offset| open + offset);
                rest[close..].find(',').map_or(rest.len(), |offset| close + offset)
            }
            _ => comma,
        });
        let member = rest[..end].trim();
        members.push(match member.split_once('(') {
            None => parse_plain(member)?,
            Some((name, arguments)) if name.trim_end() == "decimal" => {
                parse_with_arguments("decimal", arguments.strip_suffix(')')?)?
            }
            Some(_) => return None,
        });
        match rest.get(end + 1..) {
            Some(following) => rest = following,
            None => return Some(members),
        }
    }
}

#[cfg(test)]
mod tests;
