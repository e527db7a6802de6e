//! Casts: a table of the existing ones, the contexts in which they apply, and their implementation.
//!
//! ```text
//! numbers   integers, floats, numeric, boolean, oids       strings     text types, lengths
//! moments   dates, times and intervals                     documents   json and jsonb
//! networks  inet and cidr
//! ```
//!
//! Invariants: the table is PostgreSQL's `pg_cast` for the types that exist here, with the same contexts. Beside it there
//! are the casts through text: from any type to a string type on assignment, from a string type to any type explicitly.

mod documents;
mod moments;
mod networks;
mod numbers;
mod strings;

use crate::error::{Result, SqlError, SqlState};
use crate::types::array::ArrayValue;
use crate::types::text::{from_text, shape_of, to_text};
use crate::types::{Category, Environment, Modifier, Type, Value, bits};

pub use strings::apply_modifier;

/// The place of a cast; each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CastContext {
    /// Inside an expression.
    Implicit,
    /// In the assignment of a value to a column.
    Assignment,
    /// `CAST(… AS …)` and `::`.
    Explicit,
}

/// The code of a cast.
pub type CastFunction = fn(&mut dyn Environment, &Value) -> Result<Value>;

/// A line of the cast table.
pub struct CastEntry {
    /// The type that it converts from.
    pub from: Type,
    /// The type that it makes.
    pub to: Type,
    /// The first context in which it happens.
    pub context: CastContext,
    run: CastFunction,
    is_relabel: bool,
}

const fn entry(from: Type, to: Type, context: CastContext, run: CastFunction) -> CastEntry {
    CastEntry { from, to, context, run, is_relabel: false }
}

/// A cast that changes nothing but the type (`binary` in `pg_cast`).
const fn relabel(from: Type, to: Type, context: CastContext, run: CastFunction) -> CastEntry {
    CastEntry { from, to, context, run, is_relabel: true }
}

/// The tables of casts.
const TABLES: &[&[CastEntry]] =
    &[numbers::CASTS, numbers::OBJECTS, strings::CASTS, moments::CASTS, documents::CASTS, networks::CASTS];

/// Every line of the cast tables.
pub fn all_casts() -> impl Iterator<Item = &'static CastEntry> {
    TABLES.iter().flat_map(|table| table.iter())
}

/// The implementation of a cast.
#[derive(Clone, Copy)]
pub enum CastMethod {
    /// Nothing is to be done.
    Same,
    /// Cast by a function.
    Function(CastFunction),
    /// Through text.
    Text,
    /// Element by element.
    Elements(CastFunction),
    /// Element by element, through text.
    ElementTexts,
    /// Field by field, to a composite type.
    Row,
    /// Rows in an array, field by field.
    ElementRows,
}

fn table_entry(from: Type, to: Type) -> Option<&'static CastEntry> {
    all_casts().find(|it| it.from == from && it.to == to)
}

/// Returns true if a cast changes nothing but the type.
pub fn is_relabel(from: Type, to: Type) -> bool {
    from == to || table_entry(from, to).is_some_and(|it| it.is_relabel)
}

/// The method that converts values of a type to another, if there is one in this context.
pub fn find_cast(from: Type, to: Type, context: CastContext) -> Option<CastMethod> {
    if from == to {
        return Some(CastMethod::Same);
    }
    if from == Type::Unknown {
        return Some(CastMethod::Text);
    }
    if let Some(found) = table_entry(from, to) {
        return (found.context <= context).then_some(CastMethod::Function(found.run));
    }
    match (from, to) {
        // The fields are checked when the row is known.
        (Type::Record, Type::Composite(_)) => return Some(CastMethod::Row),
        (Type::Composite(_), Type::Record) => return Some(CastMethod::Same),
        (Type::Composite(_), Type::Composite(_)) => return None,
        _ => {}
    }
    if matches!(from, Type::Int2Vector | Type::OidVector) && from.element().and_then(Type::array) == Some(to)
    {
        return Some(CastMethod::Elements(|_, element| Ok(element.clone())));
    }
    if let (Type::Array(from_element), Type::Array(to_element)) = (from, to) {
        return match find_cast(from_element.get(), to_element.get(), context)? {
            CastMethod::Function(run) => Some(CastMethod::Elements(run)),
            CastMethod::Text => Some(CastMethod::ElementTexts),
            CastMethod::Row => Some(CastMethod::ElementRows),
            CastMethod::Same => Some(CastMethod::Elements(|_, element| Ok(element.clone()))),
            _ => None,
        };
    }
    let needed = if to.category() == Category::String {
        CastContext::Assignment
    } else if from.category() == Category::String {
        CastContext::Explicit
    } else {
        return None;
    };
    let has_text = |kind: Type| {
        kind.category() != Category::Pseudo || matches!(kind, Type::Record | Type::Cstring | Type::Void)
    };
    (needed <= context && has_text(from) && has_text(to)).then_some(CastMethod::Text)
}

/// Returns true if an argument of a type may be given where another is declared (`can_coerce_type`).
pub fn can_coerce(from: Type, to: Type, context: CastContext) -> bool {
    if from == to || to == Type::Any || from == Type::Unknown {
        return true;
    }
    match to {
        // The agreement of polymorphic arguments is checked for all of them together.
        Type::AnyArray | Type::AnyCompatibleArray => from.is_array(),
        Type::AnyNonArray | Type::AnyCompatibleNonArray => !from.is_array(),
        Type::AnyEnum => from.category() == Category::Enum,
        _ if to.is_polymorphic() => true,
        _ => find_cast(from, to, context).is_some(),
    }
}

/// A cast that was found, ready to be applied to values.
#[derive(Clone, Copy)]
pub struct Cast {
    /// The type of the values.
    pub from: Type,
    /// The type of the results.
    pub to: Type,
    /// The modifier of the results.
    pub modifier: Modifier,
    /// True if it was explicit: then texts that are too long are cut.
    pub is_explicit: bool,
    method: CastMethod,
}

impl std::fmt::Debug for Cast {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:?} -> {:?} {:?}", self.from, self.to, self.modifier)
    }
}

impl Cast {
    /// The cast between two types in a context, if there is one.
    pub fn find(from: Type, to: Type, modifier: Modifier, context: CastContext) -> Option<Cast> {
        let method = find_cast(from, to, context)?;
        Some(Cast { from, to, modifier, is_explicit: context == CastContext::Explicit, method })
    }

    /// Returns true if applying it changes nothing at all.
    pub fn is_identity(&self) -> bool {
        matches!(self.method, CastMethod::Same) && self.modifier.is_none()
    }

    /// Casts a value; NULL stays NULL.
    pub fn apply(&self, environment: &mut dyn Environment, value: &Value) -> Result<Value> {
        if value.is_null() {
            return Ok(Value::Null);
        }
        let result = match self.method {
            CastMethod::Same => value.clone(),
            CastMethod::Function(_) if self.to == Type::Bit && self.from.category() == Category::Numeric => {
                return Ok(bits::of_number(value.any_int(), self.modifier));
            }
            CastMethod::Function(run) => run(environment, value)?,
            CastMethod::Text => through_text(environment, self.from, self.to, self.modifier, value)?,
            CastMethod::Row => as_row(environment, self.to, value)?,
            CastMethod::ElementRows => {
                let to = self.to.element().unwrap_or(Type::Record);
                map_elements(value, self.to, |element| as_row(environment, to, element))?
            }
            CastMethod::Elements(run) => map_elements(value, self.to, |element| run(environment, element))?,
            CastMethod::ElementTexts => {
                let (from, to) = (self.from.element(), self.to.element());
                let (from, to) = (from.unwrap_or(Type::Text), to.unwrap_or(Type::Text));
                map_elements(value, self.to, |element| {
                    through_text(environment, from, to, self.modifier, element)
                })?
            }
        };
        if self.modifier.is_none() {
            return Ok(result);
        }
        apply_modifier(self.to, self.modifier, result, self.is_explicit)
    }
}

/// A row as one of a composite type.
fn as_row(environment: &mut dyn Environment, to: Type, value: &Value) -> Result<Value> {
    let shape = shape_of(environment, to.oid())?;
    shape.conform(environment, value.as_record())
}

fn map_elements(value: &Value, to: Type, mut cast: impl FnMut(&Value) -> Result<Value>) -> Result<Value> {
    let array = value.as_array();
    let element = |value: &Value| if value.is_null() { Ok(Value::Null) } else { cast(value) };
    let values = array.values.iter().map(element).collect::<Result<Vec<Value>>>()?;
    let element = to.element().unwrap_or(Type::Text);
    Ok(Value::array(ArrayValue { element, dimensions: array.dimensions.clone(), values }))
}

fn through_text(
    environment: &mut dyn Environment,
    from: Type,
    to: Type,
    modifier: Modifier,
    value: &Value,
) -> Result<Value> {
    let text = to_text(environment, from, value)?;
    from_text(environment, to, modifier, &text)
}

/// `cannot cast type integer to date` (42846).
pub fn no_cast(from: Type, to: Type) -> SqlError {
    let message = format!("cannot cast type {} to {}", from.display_name(), to.display_name());
    SqlError::new(SqlState::CANNOT_COERCE, message)
}
