//! Ranges of keys: the keys that a scan reads, its direction, and its limit.

use std::ops::{self, Bound};

use crate::error::Result;
use crate::types::IntoKey;
use crate::types::key::{EncodedKey, prefix_end};
use crate::types::{Value, ValueRef};

/// A range of a table's or an index's keys.
///
/// ```
/// use heddledb::{Range, key};
/// let newest_ten_of_customer_7 = Range::prefix(key![7]).reverse().limit(10);
/// let from_3_up_to_but_not_9 = Range::from(key![3]).to(key![9]);
/// let of_customer_7_since_order_20 = Range::prefix(key![7]).starting_at(key![7, 20]);
/// ```
///
/// Methods that accept a range also accept a range of keys in Rust's notation: `1..5`, `..=9`,
/// `(7, 20)..(8, 0)`, `..`; and a key, which means all keys that begin with it.
///
/// ```
/// # use heddledb::{DataType, Database, Durability, Options, Range, TableDefinition, row};
/// # let db = Database::in_memory()?;
/// # let numbers = db.create_table(TableDefinition::new("number").column("n", DataType::Int64).primary_key(["n"]))?;
/// db.run(|tx| {
///     (0..10).try_for_each(|n| tx.insert(&numbers, row![n]))?;
///     assert_eq!(tx.scan(&numbers, 1..5)?.count(), 4);
///     assert_eq!(tx.scan(&numbers, ..=8)?.count(), 9);
///     assert_eq!(tx.scan(&numbers, Range::from(3).limit(2))?.count(), 2);
///     Ok(())
/// })?;
/// # Ok::<(), heddledb::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Range {
    prefix: Vec<Value>,
    /// The values, and whether the range begins behind all keys that begin with them.
    from: Option<(Vec<Value>, bool)>,
    to: Option<(Vec<Value>, bool)>,
    backward: bool,
    limit: Option<usize>,
}

fn owned<'v>(key: impl IntoKey<'v>) -> Vec<Value> {
    key.into_key().as_ref().iter().map(|value| value.to_value()).collect()
}

impl Range {
    /// All keys. A table without an ordered index returns them in no particular order.
    pub fn all() -> Range {
        Range::default()
    }

    /// The keys that begin with these values; a beginning or an end that is also set makes the range smaller,
    /// never larger.
    pub fn prefix<'v>(key: impl IntoKey<'v>) -> Range {
        Range { prefix: owned(key), ..Range::default() }
    }

    /// The keys from this one on, inclusive. A part of a key means the first key that begins with it.
    pub fn from<'v>(key: impl IntoKey<'v>) -> Range {
        Range { from: Some((owned(key), false)), ..Range::default() }
    }

    /// Sets the beginning to this key, as [`from`](Self::from) does.
    #[must_use]
    pub fn starting_at<'v>(mut self, key: impl IntoKey<'v>) -> Range {
        self.from = Some((owned(key), false));
        self
    }

    /// Sets the beginning behind this key. A part of a key means the last key that begins with it.
    #[must_use]
    pub fn starting_after<'v>(mut self, key: impl IntoKey<'v>) -> Range {
        self.from = Some((owned(key), true));
        self
    }

    /// Sets the end before this key.
    #[must_use]
    pub fn to<'v>(mut self, key: impl IntoKey<'v>) -> Range {
        self.to = Some((owned(key), false));
        self
    }

    /// Sets the end to this key, inclusive. A part of a key means the last key that begins with it.
    #[must_use]
    pub fn to_inclusive<'v>(mut self, key: impl IntoKey<'v>) -> Range {
        self.to = Some((owned(key), true));
        self
    }

    /// Reverses the order: from the last key to the first.
    #[must_use]
    pub fn reverse(mut self) -> Range {
        self.backward = true;
        self
    }

    /// Limits the range to at most this many rows.
    #[must_use]
    pub fn limit(mut self, rows: usize) -> Range {
        self.limit = Some(rows);
        self
    }

    pub(crate) fn is_backward(&self) -> bool {
        self.backward
    }

    pub(crate) fn row_limit(&self) -> usize {
        self.limit.unwrap_or(usize::MAX)
    }

    /// The encoded prefix that every key of the range shares, and the bounds.
    pub(crate) fn encode(
        &self,
        encode: impl Fn(&[ValueRef<'_>]) -> Result<EncodedKey>,
    ) -> Result<(EncodedKey, Bound<EncodedKey>, Bound<EncodedKey>)> {
        let encode = |values: &[Value]| {
            let values: Vec<ValueRef<'_>> = values.iter().map(ValueRef::from).collect();
            encode(&values)
        };
        let prefix = encode(&self.prefix)?;
        let lower = match &self.from {
            Some((from, is_behind)) => {
                let from = encode(from)?;
                let from = match is_behind.then(|| prefix_end(&from)) {
                    None => from,
                    Some(Some(behind)) => behind,
                    // No key lies behind it.
                    Some(None) => return Ok((prefix, Bound::Included(from.clone()), Bound::Excluded(from))),
                };
                // A beginning before the prefix does not lead out of it.
                Bound::Included(if from.as_slice() < prefix.as_slice() { prefix.clone() } else { from })
            }
            None if prefix.is_empty() => Bound::Unbounded,
            None => Bound::Included(prefix.clone()),
        };
        let above = |key: &[u8]| prefix_end(key).map_or(Bound::Unbounded, Bound::Excluded);
        let end = match &self.to {
            Some((to, false)) => Bound::Excluded(encode(to)?),
            Some((to, true)) => above(&encode(to)?),
            None => Bound::Unbounded,
        };
        // Nor does an end beyond the prefix: a footprint may be declared by the prefix alone.
        let end_of_prefix = if prefix.is_empty() { Bound::Unbounded } else { above(&prefix) };
        Ok((prefix, lower, lower_of(end, end_of_prefix)))
    }
}

/// Makes a range of each of Rust's.
macro_rules! from_std {
    ($($range:ident: $given:ident => $made:expr;)*) => {$(
        impl<'k, K: IntoKey<'k>> From<ops::$range<K>> for Range {
            fn from($given: ops::$range<K>) -> Range {
                $made
            }
        }
    )*};
}

from_std! {
    Range: range => Range::from(range.start).to(range.end);
    RangeFrom: range => Range::from(range.start);
    RangeTo: range => Range::all().to(range.end);
    RangeToInclusive: range => Range::all().to_inclusive(range.end);
    RangeInclusive: range => {
        let (start, end) = range.into_inner();
        Range::from(start).to_inclusive(end)
    };
}

impl From<ops::RangeFull> for Range {
    fn from(_: ops::RangeFull) -> Range {
        Range::all()
    }
}

/// The keys that begin with this one.
impl<'k, K: IntoKey<'k>> From<K> for Range {
    fn from(key: K) -> Range {
        Range::prefix(key)
    }
}

/// The lower of two upper bounds, neither of which is included.
fn lower_of(left: Bound<EncodedKey>, right: Bound<EncodedKey>) -> Bound<EncodedKey> {
    match (&left, &right) {
        (Bound::Excluded(a), Bound::Excluded(b)) if a.as_slice() <= b.as_slice() => left,
        (_, Bound::Unbounded) => left,
        _ => right,
    }
}
