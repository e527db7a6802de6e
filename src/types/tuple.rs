//! An ordered tuple: one entry of order and payload columns, as a byte string.
//!
//! ```text
//! ┌ order columns, as keys ┬ payload columns, as keys ┬ 4 bytes ────────┐
//! │ nullable               │ nullable                 │ length of order │
//! └────────────────────────┴──────────────────────────┴─────────────────┘
//! ```
//!
//! What it keeps true: the bytes of two tuples of one type compare as (order, payload) does. That is a total order
//! that nothing else enters, so that the greatest of several tuples does not depend on who put them, or when.

use crate::error::{Error, Result};
use crate::types::key::{EncodedKey, decode_component, encode_component};
use crate::types::{DataType, TupleType, Value, ValueRef, check};

/// One entry of order and payload columns: what an ordered put puts, and what a top-K set keeps.
///
/// ```
/// use heddledb::{DataType, OrderedTuple, TupleType, Value, row};
/// let bid = TupleType::new(vec![DataType::Int64], vec![DataType::Text])?;
/// let low = OrderedTuple::new(&bid, &row![10], &row!["Ada"])?;
/// let high = OrderedTuple::new(&bid, &row![12], &row!["Bea"])?;
/// assert!(low < high);
/// assert_eq!(high.row(&bid)?, [Value::from(12), Value::from("Bea")]);
/// # Ok::<(), heddledb::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderedTuple(Vec<u8>);

/// How many bytes at the end tell how long the order part is.
const LENGTH_BYTES: usize = 4;

/// The two parts of an entry. The derived order is that of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry<'a> {
    /// The order columns.
    pub(crate) order: &'a [u8],
    /// The payload columns.
    pub(crate) payload: &'a [u8],
}

impl OrderedTuple {
    /// An entry of these order and payload columns.
    pub fn new(of: &TupleType, order: &[ValueRef<'_>], payload: &[ValueRef<'_>]) -> Result<OrderedTuple> {
        let mut bytes = EncodedKey::new();
        encode_members(&mut bytes, order, of.order(), "order")?;
        let order_bytes = bytes.len();
        encode_members(&mut bytes, payload, of.payload(), "payload")?;
        check::check_length(bytes.len() + LENGTH_BYTES, "an ordered tuple")?;
        // The check leaves no length that 32 bits do not hold.
        bytes.extend_from_slice(&(order_bytes as u32).to_le_bytes());
        Ok(OrderedTuple(bytes.into_vec()))
    }

    /// A tuple that the engine stored.
    pub(crate) fn from_stored(bytes: &[u8]) -> OrderedTuple {
        OrderedTuple(bytes.to_vec())
    }

    /// The columns: those of the order, then those of the payload.
    pub fn row(&self, of: &TupleType) -> Result<Vec<Value>> {
        Entry::parse(&self.0)?.row(of)
    }

    /// The tuple as it is stored.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

fn encode_members(
    bytes: &mut EncodedKey,
    values: &[ValueRef<'_>],
    types: &[DataType],
    part: &str,
) -> Result<()> {
    if values.len() != types.len() {
        return Err(Error::WrongType {
            what: format!("the {part} of an ordered tuple"),
            expected: format!("{} columns", types.len()),
            found: format!("{}", values.len()),
        });
    }
    values
        .iter()
        .zip(types)
        .try_for_each(|(value, data_type)| encode_component(bytes, *value, data_type, true))
}

impl<'a> Entry<'a> {
    /// The parts of a tuple's bytes. Whether they are columns of the right types is not looked at.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Entry<'a>> {
        bytes
            .split_last_chunk::<LENGTH_BYTES>()
            .and_then(|(parts, length)| parts.split_at_checked(u32::from_le_bytes(*length) as usize))
            .map(|(order, payload)| Entry { order, payload })
            .ok_or_else(|| malformed("its order part does not end within it"))
    }

    /// The columns: those of the order, then those of the payload.
    pub(crate) fn row(self, of: &TupleType) -> Result<Vec<Value>> {
        let mut row = Vec::with_capacity(of.order().len() + of.payload().len());
        for (part, types) in [(self.order, of.order()), (self.payload, of.payload())] {
            let mut rest = part;
            for data_type in types {
                row.push(decode_component(&mut rest, data_type, true)?);
            }
            if !rest.is_empty() {
                return Err(malformed("it has bytes behind its columns"));
            }
        }
        Ok(row)
    }
}

/// Refuses bytes that are no tuple of this type.
pub(crate) fn validate(bytes: &[u8], of: &TupleType) -> Result<()> {
    Entry::parse(bytes)?.row(of).map(drop)
}

fn malformed(detail: &str) -> Error {
    Error::Malformed { what: "ordered tuple", detail: detail.to_owned() }
}
