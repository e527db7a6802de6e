//! An ordered tuple: one entry of order and payload columns, as a byte string.
//!
//! ```text
//! ┌ order columns, as keys ┬ payload columns, as keys ┬ 4 bytes ────────┐
//! │ nullable               │ nullable                 │ length of order │
//! └────────────────────────┴──────────────────────────┴─────────────────┘
//! ```
//!
//! Invariants: the bytes of two tuples of one type compare as (order, payload) does. That is a total order
//! that nothing else enters, so that the greatest of several tuples depends neither on the threads that put them nor on time.

use crate::error::{Error, Result};
use crate::types::key::{EncodedKey, decode_component, encode_component};
use crate::types::{DataType, TupleType, Value, ValueRef, assignment};

/// One entry of order and payload columns: the operand of an ordered put, and an entry of a top-K set.
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

/// Number of bytes at the end that hold the length of the order part.
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
        assignment::check_length(bytes.len() + LENGTH_BYTES, "an ordered tuple")?;
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
    /// Parses the two parts of a tuple's bytes, without a check that they are columns of the right types.
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

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    use crate::row;
    use crate::types::strategies::{ordered_tuple, row_of, tuple_type};

    fn bid() -> TupleType {
        TupleType::new(vec![DataType::Int64, DataType::Text], vec![DataType::Text]).unwrap()
    }

    fn tuple(amount: i64, name: &str, payload: Option<&str>) -> OrderedTuple {
        OrderedTuple::new(&bid(), &row![amount, name], &row![payload]).unwrap()
    }

    #[test]
    fn tuples_compare_by_order_and_then_by_payload() {
        let ascending = [
            tuple(-1, "z", Some("z")),
            tuple(1, "", None),
            tuple(1, "", Some("")),
            tuple(1, "a", None),
            tuple(1, "ab", None),
            tuple(1, "ab", Some("a")),
            tuple(1, "b", None),
            tuple(2, "", None),
        ];
        assert!(ascending.is_sorted_by(|left, right| left < right));
        let entries = ascending.each_ref().map(|tuple| Entry::parse(tuple.as_bytes()).unwrap());
        assert!(entries.is_sorted_by(|left, right| left < right));
    }

    #[test]
    fn a_tuple_has_as_many_columns_as_its_type() {
        for (order, payload) in
            [(&row![1][..], &row!["p"][..]), (&row![1, "a"], &row![]), (&row![1, "a"], &row!["p", "q"])]
        {
            let error = OrderedTuple::new(&bid(), order, payload).unwrap_err();
            assert!(matches!(error, Error::WrongType { .. }), "{error}");
        }
        assert!(OrderedTuple::new(&bid(), &row!["a", 1], &row!["p"]).is_err());
    }

    #[test]
    fn a_tuple_that_is_too_long_is_refused() {
        let long = "a".repeat(assignment::VALUE_BYTES_MAX);
        assert!(matches!(
            OrderedTuple::new(&bid(), &row![1, &long], &row!["p"]),
            Err(Error::InvalidValue { .. })
        ));
    }

    #[test]
    fn damaged_tuples_are_refused() {
        let whole = tuple(1, "a", Some("p"));
        for cut in 0..whole.as_bytes().len() {
            let rest = &whole.as_bytes()[..cut];
            assert!(validate(rest, &bid()).is_err(), "{rest:?}");
        }
        let mut too_long = vec![0];
        too_long.extend_from_slice(whole.as_bytes());
        assert!(validate(&too_long, &bid()).is_err());
        let too_many = OrderedTuple::from_stored(&[1, 1, 2, 0, 0, 0]);
        let bools = TupleType::new(vec![DataType::Bool], vec![]).unwrap();
        assert_eq!(too_many.row(&bools).unwrap(), [Value::from(true)]);
        assert!(OrderedTuple::from_stored(&[1, 1, 0, 3, 0, 0, 0]).row(&bools).is_err());
    }

    proptest! {
        #[test]
        fn the_row_of_a_tuple_is_what_it_was_made_of(
            (of, values) in tuple_type().prop_flat_map(|of| {
                let members: Vec<_> = of.order().iter().chain(of.payload()).cloned().collect();
                (Just(of), row_of(members))
            })
        ) {
            let refs: Vec<ValueRef<'_>> = values.iter().map(Value::as_value_ref).collect();
            let (order, payload) = refs.split_at(of.order().len());
            let tuple = OrderedTuple::new(&of, order, payload).unwrap();
            prop_assert_eq!(tuple.row(&of).unwrap(), values);
            prop_assert!(validate(tuple.as_bytes(), &of).is_ok());
            prop_assert_eq!(OrderedTuple::from_stored(tuple.as_bytes()), tuple);
        }

        #[test]
        fn bytes_compare_as_entries_and_as_rows(
            (of, left, right) in tuple_type().prop_flat_map(|of| {
                (Just(of.clone()), ordered_tuple(of.clone()), ordered_tuple(of))
            })
        ) {
            let entries = (Entry::parse(left.as_bytes()).unwrap(), Entry::parse(right.as_bytes()).unwrap());
            prop_assert_eq!(left.cmp(&right), entries.0.cmp(&entries.1));
            let (left_row, right_row) = (left.row(&of).unwrap(), right.row(&of).unwrap());
            let columns = left_row.iter().zip(&right_row);
            let by_columns = columns
                .map(|(left, right)| left.as_value_ref().partial_cmp(&right.as_value_ref()).unwrap())
                .find(|ordering| ordering.is_ne());
            prop_assert_eq!(left.cmp(&right), by_columns.unwrap_or(std::cmp::Ordering::Equal));
        }

        #[test]
        fn any_bytes_are_a_tuple_or_an_error(
            of in tuple_type(),
            parts in prop::collection::vec(any::<u8>(), 0..40),
            order_bytes in 0_u32..48,
        ) {
            let mut bytes = parts;
            bytes.extend_from_slice(&order_bytes.to_le_bytes());
            let tuple = OrderedTuple::from_stored(&bytes);
            prop_assert_eq!(tuple.row(&of).is_ok(), validate(&bytes, &of).is_ok());
        }
    }
}
