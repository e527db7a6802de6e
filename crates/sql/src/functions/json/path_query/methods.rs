//! The methods of items.

use super::evaluate::{Evaluation, Failure, Found, Item, again};
use crate::error::{Result, SqlState};
use crate::types::jsonb::{Jsonb, Members};
use crate::types::jsonpath::{Method, Step};
use crate::types::numeric::Numeric;
use crate::types::text::parse_float8;

/// Factor by which the ids of `.keyvalue()` tell the objects in variables from those in the document.
const VARIABLE_IDS: i64 = 10_000_000_000;

impl Method {
    /// Returns true if in lax mode it is applied to the elements of an array instead of it.
    pub(super) fn takes_elements(self) -> bool {
        !matches!(self, Method::Size | Method::Type)
    }
}

impl<'d> Evaluation<'d, '_> {
    /// Applies a method and the accessors behind it.
    pub fn method(
        &mut self,
        method: Method,
        rest: &[Step],
        item: Item<'d>,
        found: Found<'_, 'd>,
    ) -> Result<bool, Failure> {
        let result = match method {
            Method::Type => Jsonb::string(type_name(&item)),
            Method::Size => match item.document() {
                Some(Jsonb::Array(values)) => Jsonb::Number(Numeric::from(values.len() as i64)),
                _ if !self.is_strict => Jsonb::Number(Numeric::ONE),
                _ if self.ignores_structure => return Ok(false),
                _ => return self.refused(SqlState::SQL_JSON_ARRAY_NOT_FOUND, method, "an array"),
            },
            Method::Abs | Method::Floor | Method::Ceiling => {
                let Some(number) = item.number() else {
                    return self.refused(SqlState::NON_NUMERIC_SQL_JSON_ITEM, method, "a numeric value");
                };
                Jsonb::Number(match method {
                    Method::Abs => number.abs(),
                    Method::Floor => number.floor()?,
                    _ => number.ceil()?,
                })
            }
            Method::Double => self.double(&item)?,
            Method::KeyValue => return self.key_values(rest, item, found),
        };
        self.steps(rest, Item::of(result), found)
    }

    fn refused<T>(&self, state: SqlState, method: Method, what: &str) -> Result<T, Failure> {
        self.fail(state, || {
            format!("jsonpath item method .{}() can only be applied to {what}", method.name())
        })
    }

    fn double(&self, item: &Item<'d>) -> Result<Jsonb, Failure> {
        match item.document() {
            Some(Jsonb::Number(number)) if number.to_f64().is_finite() => Ok(Jsonb::Number(number.clone())),
            Some(Jsonb::Number(_)) => self.fail(SqlState::NON_NUMERIC_SQL_JSON_ITEM, || {
                "numeric argument of jsonpath item method .double() is out of range for type double precision"
                    .to_string()
            }),
            Some(Jsonb::String(text)) => match parse_float8(text) {
                Ok(value) if value.is_finite() => Ok(Jsonb::Number(Numeric::from_f64(value)?)),
                _ => self.fail(SqlState::NON_NUMERIC_SQL_JSON_ITEM, || {
                    "string argument of jsonpath item method .double() is not a valid representation of a double precision number"
                        .to_string()
                }),
            },
            _ => self.refused(SqlState::NON_NUMERIC_SQL_JSON_ITEM, Method::Double, "a string or numeric value"),
        }
    }

    /// `.keyvalue()`: each member as an object of its key, its value, and a number of the object that it is in.
    fn key_values(
        &mut self,
        rest: &[Step],
        item: Item<'d>,
        mut found: Found<'_, 'd>,
    ) -> Result<bool, Failure> {
        let Some(Jsonb::Object(members)) = item.document() else {
            return self.refused(SqlState::SQL_JSON_OBJECT_NOT_FOUND, Method::KeyValue, "an object");
        };
        let id = Jsonb::Number(Numeric::from(self.id_of(members)));
        let pairs: Vec<_> = members.iter().cloned().collect();
        let mut any = false;
        for (key, value) in pairs {
            let pair =
                vec![("key".into(), Jsonb::String(key)), ("value".into(), value), ("id".into(), id.clone())];
            let object = Jsonb::Object(Members::from_pairs(pair));
            any |= self.steps(rest, Item::of(object), again(&mut found))?;
            if any && found.is_none() {
                break;
            }
        }
        Ok(any)
    }

    /// The number of an object: its place in PostgreSQL's binary form of the document.
    fn id_of(&self, object: &Members) -> i64 {
        if let Some(offset) = offset_of(self.root, object) {
            return offset;
        }
        let mut place = Place { object, found: None };
        self.variables.map(|variables| place.walk_members(variables, 0));
        place.found.map_or(0, |offset| VARIABLE_IDS + offset)
    }
}

fn type_name(item: &Item<'_>) -> &'static str {
    match item {
        Item::Moment(moment) => moment.type_name(),
        Item::Document(document) => match document.as_ref() {
            Jsonb::Null => "null",
            Jsonb::Bool(_) => "boolean",
            Jsonb::Number(_) => "number",
            Jsonb::String(_) => "string",
            Jsonb::Array(_) => "array",
            Jsonb::Object(_) => "object",
        },
    }
}

/// The number of bytes before an object in the binary form of the document that holds it.
fn offset_of(document: &Jsonb, object: &Members) -> Option<i64> {
    let mut place = Place { object, found: None };
    place.walk(document, 0);
    place.found
}

/// A walk over a document as PostgreSQL lays it out: a container is a word with its count, a word for each entry, and
/// the entries, of which numbers and containers begin at a multiple of four bytes.
struct Place<'o> {
    object: &'o Members,
    found: Option<i64>,
}

impl Place<'_> {
    /// The place behind a document that begins at a place.
    fn walk(&mut self, document: &Jsonb, at: i64) -> i64 {
        let aligned = (at + 3) & !3;
        match document {
            Jsonb::Null | Jsonb::Bool(_) => at,
            Jsonb::String(text) => at + text.len() as i64,
            Jsonb::Number(number) => aligned + number_bytes(number),
            Jsonb::Array(values) => {
                let mut end = aligned + 4 + 4 * values.len() as i64;
                for value in values {
                    end = self.walk(value, end);
                }
                end
            }
            Jsonb::Object(members) => self.walk_members(members, aligned),
        }
    }

    fn walk_members(&mut self, members: &Members, at: i64) -> i64 {
        if std::ptr::eq(members, self.object) {
            self.found = Some(at);
        }
        let keys: i64 = members.iter().map(|(key, _)| key.len() as i64).sum();
        let mut end = at + 4 + 8 * members.len() as i64 + keys;
        for (_, value) in members.iter() {
            end = self.walk(value, end);
        }
        end
    }
}

/// The size of a number in binary form: a length, a header, and its digits in base 10,000.
fn number_bytes(number: &Numeric) -> i64 {
    let digits = (number.to_binary().len() as i64 - 8) / 2;
    4 + 2 + 2 * digits
}
