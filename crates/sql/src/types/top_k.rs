//! Top-K sets: the values of columns of type `topk(k)`, which keep the k greatest entries of a score, a key and a payload.
//!
//! A value is the bytes of the engine's set, so that a column keeps it as it is and an insertion is the engine's operation. As text it
//! is JSON, from the greatest entry down: `[[4200, "ada"], [3100.5, "bea", "level 7"]]`.
//!
//! # Invariants
//! - Entries are ordered by score, then by key. Of two entries with one score and one key the one with the greater payload stays; NULL is
//!   the least. So a set depends on what was inserted, never on the sequence.
//! - A score has at most 29 digits before the point and 9 behind it.

use heddledb::{DataType, Decimal, OrderedTuple, TopK, TupleType, Value as Stored, ValueRef};

use crate::error::{Result, SqlError, SqlState};
use crate::types::jsonb::Jsonb;
use crate::types::numeric::Numeric;
use crate::types::text::{jsonb_text, parse_jsonb};
use crate::types::{Modifier, Value};

/// The greatest number of entries that a column can keep; one without a modifier keeps as many.
pub(crate) const ENTRIES_MAX: u32 = 1 << 20;

/// The digits of a score, and how many of them are behind the point.
const SCORE_DIGITS: (u8, u8) = (38, 9);

/// The engine's columns of an entry: score and key, which order it, and the payload.
fn entry_type() -> Result<TupleType> {
    let (precision, scale) = SCORE_DIGITS;
    Ok(TupleType::new(vec![DataType::Decimal { precision, scale }, DataType::Text], vec![DataType::Text])?)
}

/// The type of the engine's column.
pub(crate) fn engine_type(modifier: Modifier) -> DataType {
    // The members are right, so it is never bytes.
    entry_type().map_or(DataType::Bytes, |of| DataType::TopK { limit: limit_of(modifier), of })
}

/// The modifier of a column that a program has made, if its entries are those of `topk`.
pub(crate) fn modifier_of(data_type: &DataType) -> Option<Modifier> {
    let DataType::TopK { limit, .. } = data_type else { return None };
    let modifier = Modifier(i32::try_from(*limit).ok()?);
    (engine_type(modifier) == *data_type).then_some(modifier)
}

/// The number of entries that a column with this modifier keeps.
fn limit_of(modifier: Modifier) -> u32 {
    u32::try_from(modifier.0).unwrap_or(ENTRIES_MAX)
}

/// An entry as a value of SQL has it.
pub(crate) struct Entry {
    pub(crate) score: Numeric,
    pub(crate) key: String,
    pub(crate) payload: Option<String>,
}

impl Entry {
    fn tuple(&self, of: &TupleType) -> Result<OrderedTuple> {
        let (precision, scale) = SCORE_DIGITS;
        let score = self.score.with_modifier(Modifier::numeric(precision.into(), scale.into()))?;
        let score: Decimal = score.to_string().parse().map_err(|_| no_score(&score))?;
        let payload = self.payload.as_deref().map_or(ValueRef::Null, ValueRef::Text);
        Ok(OrderedTuple::new(of, &[ValueRef::Decimal(score), ValueRef::Text(&self.key)], &[payload])?)
    }
}

/// The entries of a set, from the greatest down.
///
/// # Errors
/// XX001: the bytes are no set.
pub(crate) fn entries(set: &[u8]) -> Result<Vec<Entry>> {
    let damaged = || SqlError::new(SqlState::DATA_CORRUPTED, "a value of type topk is no set of entries");
    let Stored::TopK(set) = ValueRef::TopK(set).to_value() else { return Err(damaged()) };
    let entry = |row: Vec<Stored>| match <[Stored; 3]>::try_from(row) {
        Ok([Stored::Decimal(score), Stored::Text(key), payload]) => {
            let payload = match payload {
                Stored::Text(payload) => Some(payload),
                _ => None,
            };
            Ok(Entry { score: number(score)?, key, payload })
        }
        _ => Err(damaged()),
    };
    set.rows(&entry_type()?)?.into_iter().map(entry).collect()
}

fn no_score(number: &Numeric) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{number} is no score of an entry of a topk"))
}

fn number(score: Decimal) -> Result<Numeric> {
    Numeric::from_wide(score.unscaled(), i32::from(score.scale()))?.trim_scale()
}

/// The set of the greatest of these entries.
///
/// # Errors
/// 22003: a score has too many digits.
pub(crate) fn set_of(limit: u32, entries: &[Entry]) -> Result<Value> {
    let of = entry_type()?;
    let tuples = entries.iter().map(|entry| entry.tuple(&of)).collect::<Result<Vec<_>>>()?;
    Ok(Value::bytes(TopK::of(limit, &tuples)?.as_bytes()))
}

/// The set of the entries of both.
pub(crate) fn merged(one: &[u8], other: &[u8]) -> Result<Value> {
    let mut all = entries(one)?;
    all.extend(entries(other)?);
    set_of(ENTRIES_MAX, &all)
}

/// A set without the entries that a column with this modifier does not keep.
pub(crate) fn limited(set: Value, modifier: Modifier) -> Result<Value> {
    let all = entries(set.as_bytes())?;
    let limit = limit_of(modifier);
    if all.len() <= limit as usize { Ok(set) } else { set_of(limit, &all) }
}

/// A set as JSON: an array of arrays of score, key and, if there is one, payload.
pub(crate) fn document(set: &[u8]) -> Result<Jsonb> {
    let entry = |entry: Entry| {
        let parts = [Jsonb::Number(entry.score), Jsonb::String(entry.key.into())];
        Jsonb::Array(parts.into_iter().chain(entry.payload.map(|it| Jsonb::String(it.into()))).collect())
    };
    Ok(Jsonb::Array(entries(set)?.into_iter().map(entry).collect()))
}

/// The set that a document describes.
///
/// # Errors
/// 22P02: it is no array of entries.
pub(crate) fn of_document(document: &Jsonb) -> Result<Value> {
    let Jsonb::Array(parts) = document else { return Err(no_set()) };
    let entry = |part: &Jsonb| {
        let Jsonb::Array(part) = part else { return Err(no_set()) };
        match &part[..] {
            [Jsonb::Number(score), Jsonb::String(key), rest @ ..] => {
                let payload = match rest {
                    [] | [Jsonb::Null] => None,
                    [Jsonb::String(payload)] => Some(payload.to_string()),
                    _ => return Err(no_set()),
                };
                Ok(Entry { score: score.clone(), key: key.to_string(), payload })
            }
            _ => Err(no_set()),
        }
    };
    set_of(ENTRIES_MAX, &parts.iter().map(entry).collect::<Result<Vec<_>>>()?)
}

fn no_set() -> SqlError {
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input for type topk")
        .with_detail("A set is an array of entries: [[score, \"key\"], [score, \"key\", \"payload\"]].")
}

/// A set as text.
pub(crate) fn text_of(set: &[u8]) -> Result<String> {
    jsonb_text(&document(set)?)
}

/// The set that a text describes.
///
/// # Errors
/// 22P02.
pub(crate) fn from_text(text: &str) -> Result<Value> {
    of_document(&parse_jsonb(text)?)
}
