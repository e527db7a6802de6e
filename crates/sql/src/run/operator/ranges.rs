//! Ranges of keys with the values that they have when a path is opened: intervals, sorted and merged.
//!
//! A [`Cut`] is a place between keys: before or behind all keys that begin with some values. An interval lies between two
//! cuts. What several alternatives of a condition find is the union of their intervals, in which overlapping and adjacent
//! ones are one: `(a, b) > (1, 2)` is `a > 1`, or `a = 1` and `b > 2`, and becomes the interval behind `(1, 2)`.
//!
//! # Invariants
//! - The intervals of a part rise and neither overlap nor touch: no row is found twice, and rows come in the order of the
//!   keys.
//! - A value that no key can hold (NULL, a number out of the column's range) finds nothing where it must be equal; as a bound
//!   it is left out where that finds more rows, because the scan's filter looks at them again.

use std::cmp::Ordering;

use heddledb::{Column, Range, Row, Value as Stored, ValueRef};

use crate::catalog::Table;
use crate::error::{Result, SqlError, SqlState};
use crate::plan::decoder::handle;
use crate::plan::expression::Expr;
use crate::plan::node::{Bound, IndexRanges, KeyRange, Several};
use crate::plan::path::{has_key_order, holds_nulls};
use crate::plan::scan::HIDDEN_KEY;
use crate::run::Run;
use crate::run::operator::prefixes::{self, Beginning};
use crate::run::operator::scan::stored_key;
use crate::types::Value;

/// The limit of intervals that one alternative may become; one with more is read as the range around them.
const INTERVALS_MAX: usize = 65_536;
/// The limit of a column's values that are skipped; if there are more, the column is read as a whole.
const SKIPPED_MAX: usize = 1_000;

/// A place between keys: before all keys that begin with these values, or behind them.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    key: Vec<Stored>,
    is_behind: bool,
}

/// The keys between two cuts.
#[derive(Clone, Debug)]
pub(crate) struct Interval {
    from: Cut,
    to: Cut,
}

impl Cut {
    fn compare(&self, other: &Cut) -> Ordering {
        let mine = self.key.iter().map(ValueRef::from);
        compare_values(mine, other.key.iter().map(ValueRef::from)).then_with(|| {
            // One begins with the other: the shorter one lies before or behind all that begin with it.
            match self.key.len().cmp(&other.key.len()) {
                Ordering::Equal => self.is_behind.cmp(&other.is_behind),
                Ordering::Less if self.is_behind => Ordering::Greater,
                Ordering::Greater if other.is_behind => Ordering::Less,
                order => order,
            }
        })
    }

    /// Returns true if a whole key lies behind the cut.
    fn is_before(&self, key: &[ValueRef<'_>]) -> bool {
        match compare_values(self.key.iter().map(ValueRef::from), key.iter().copied()) {
            Ordering::Equal => !self.is_behind,
            order => order.is_lt(),
        }
    }
}

/// Compares two keys in the columns that both have.
fn compare_values<'v>(
    one: impl Iterator<Item = ValueRef<'v>>,
    other: impl Iterator<Item = ValueRef<'v>>,
) -> Ordering {
    let orders = one.zip(other).map(|(one, other)| one.partial_cmp(&other).unwrap_or(Ordering::Equal));
    orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

impl Interval {
    /// All keys that begin with these values.
    fn of(key: Vec<Stored>) -> Interval {
        Interval { from: Cut { key: key.clone(), is_behind: false }, to: Cut { key, is_behind: true } }
    }

    /// The key that the interval consists of, if it has this many columns.
    pub(crate) fn whole_key(self, columns: usize) -> std::result::Result<Vec<Stored>, Interval> {
        let is_one = self.from.key.len() == columns
            && !self.from.is_behind
            && self.to.is_behind
            && self.to.key.len() == columns
            && self.from.key.iter().zip(&self.to.key).all(|(from, to)| from == to);
        if is_one { Ok(self.from.key) } else { Err(self) }
    }

    /// Returns true if all keys are in it.
    pub(crate) fn is_all(&self) -> bool {
        self.from.key.is_empty() && self.to.key.is_empty()
    }

    /// The interval as the engine takes it.
    pub(crate) fn range(&self) -> Range {
        let (from, to) = (&self.from, &self.to);
        let shared = from.key.iter().zip(&to.key).take_while(|(from, to)| from == to).count();
        let mut range = match shared {
            0 => Range::all(),
            shared => Range::prefix(refs(&from.key[..shared])),
        };
        range = match from.is_behind {
            true if !from.key.is_empty() => range.starting_after(refs(&from.key)),
            _ if from.key.len() > shared => range.starting_at(refs(&from.key)),
            _ => range,
        };
        match to.is_behind {
            false => range.to(refs(&to.key)),
            true if to.key.len() > shared => range.to_inclusive(refs(&to.key)),
            true => range,
        }
    }
}

/// Values as the engine takes them.
pub(crate) fn refs(values: &[Stored]) -> Vec<ValueRef<'_>> {
    values.iter().map(ValueRef::from).collect()
}

/// Sorts intervals and merges those that overlap or touch.
fn merged(mut intervals: Vec<Interval>) -> Vec<Interval> {
    intervals.retain(|interval| interval.from.compare(&interval.to).is_lt());
    intervals.sort_by(|one, other| one.from.compare(&other.from));
    let mut merged: Vec<Interval> = Vec::with_capacity(intervals.len());
    for interval in intervals {
        match merged.last_mut() {
            Some(last) if interval.from.compare(&last.to).is_le() => {
                if last.to.compare(&interval.to).is_lt() {
                    last.to = interval.to;
                }
            }
            _ => merged.push(interval),
        }
    }
    merged
}

/// The columns of the primary key or of an index.
pub(crate) fn columns_of(table: &Table, index: Option<usize>) -> Vec<usize> {
    match index {
        None if table.key.is_empty() => vec![HIDDEN_KEY],
        None => table.key.clone(),
        Some(index) => table.indexes[index].columns.iter().map(|column| column.column).collect(),
    }
}

/// The intervals that the ranges of an index are where their expressions see this row.
pub(crate) fn intervals<'e>(
    table: &Table,
    part: &'e IndexRanges,
    run: &mut Run<'e>,
    row: &[Value],
) -> Result<Vec<Interval>> {
    let columns = columns_of(table, part.index);
    let mut found = Vec::with_capacity(part.ranges.len());
    let opening = Opening { table, index: part.index, columns: &columns };
    for range in &part.ranges {
        opening.add(range, run, row, &mut found)?;
    }
    if let [_] = &found[..] {
        found.retain(|interval| interval.from.compare(&interval.to).is_lt());
        return Ok(found);
    }
    Ok(merged(found))
}

/// The values of leading columns; `None` if no row has them.
pub(crate) fn stored_prefix<'e>(
    table: &Table,
    columns: &[usize],
    range: &'e KeyRange,
    run: &mut Run<'e>,
    row: &[Value],
) -> Result<Option<Vec<Stored>>> {
    let mut stored = Vec::with_capacity(range.prefix.len() + 1);
    for (column, value) in columns.iter().zip(&range.prefix) {
        let value = run.evaluate(value, row)?;
        match stored_key(table, *column, &value) {
            Some(value) => stored.push(value),
            None => return Ok(None),
        }
    }
    Ok(Some(stored))
}

/// The opening of ranges of one index.
struct Opening<'t> {
    table: &'t Table,
    index: Option<usize>,
    columns: &'t [usize],
}

impl Opening<'_> {
    fn add<'e>(
        &self,
        range: &'e KeyRange,
        run: &mut Run<'e>,
        row: &[Value],
        into: &mut Vec<Interval>,
    ) -> Result<()> {
        let Some(prefix) = stored_prefix(self.table, self.columns, range, run, row)? else { return Ok(()) };
        let mut keys = vec![prefix];
        for (at, several) in range.more.iter().enumerate() {
            let column = self.columns[range.prefix.len() + at];
            let values = match several {
                Several::Null if holds_nulls(self.table, column) => vec![Stored::Null],
                Several::Null => Vec::new(),
                Several::Value(value) => {
                    stored_key(self.table, column, &run.evaluate(value, row)?).into_iter().collect()
                }
                Several::Elements(array) => self.elements(column, array, run, row)?,
                Several::Each => match self.each_value(&keys, run)? {
                    Some(longer) => {
                        keys = longer;
                        continue;
                    }
                    None => return self.add_all(keys, into),
                },
            };
            // The first list is never left out: conditions that it covers are not looked at again. Nor is any where only whole
            // keys are found.
            let is_readable = self.index.is_some() || has_key_order(self.table);
            if keys.len() > 1 && keys.len() * values.len() > INTERVALS_MAX && is_readable {
                return self.add_all(keys, into);
            }
            let longer = |key: &Vec<Stored>, value: &Stored| {
                let mut longer = Vec::with_capacity(key.len() + 1);
                longer.extend(key.iter().cloned().chain([value.clone()]));
                longer
            };
            keys = keys.iter().flat_map(|key| values.iter().map(move |value| longer(key, value))).collect();
        }
        if range.bounds.is_empty() {
            return self.add_all(keys, into);
        }
        let column = self.columns.get(range.prefix.len() + range.more.len()).copied();
        let Some(bounds) = self.bounds(column, range, run, row)? else { return Ok(()) };
        into.extend(keys.into_iter().map(|key| bounds.within(key)));
        Ok(())
    }

    fn add_all(&self, keys: Vec<Vec<Stored>>, into: &mut Vec<Interval>) -> Result<()> {
        into.extend(keys.into_iter().map(Interval::of));
        Ok(())
    }

    /// The values of an array that keys can have.
    fn elements<'e>(
        &self,
        column: usize,
        array: &'e Expr,
        run: &mut Run<'e>,
        row: &[Value],
    ) -> Result<Vec<Stored>> {
        let Value::Array(values) = run.evaluate(array, row)? else { return Ok(Vec::new()) };
        Ok(values.values.iter().filter_map(|value| stored_key(self.table, column, value)).collect())
    }

    /// The keys with each value of the next column that there is; `None` if there are too many.
    fn each_value(&self, keys: &[Vec<Stored>], run: &mut Run<'_>) -> Result<Option<Vec<Vec<Stored>>>> {
        let mut found = Vec::new();
        let rows = run.rows;
        let name = self.index.map(|index| self.table.indexes[index].name.as_str());
        for key in keys {
            let column = column_handle(self.table, self.columns[key.len()])?;
            let all = Interval::of(key.clone());
            let mut from = all.from.clone();
            loop {
                let rest = Interval { from, to: all.to.clone() };
                let mut scan = rows.scan(&self.table.engine, name, rest.range().limit(1), None)?;
                let mut next = None;
                scan.read(&mut |row| {
                    next = Some(row.get(column)?.to_value());
                    Ok(false)
                })?;
                let Some(value) = next else { break };
                if found.len() >= SKIPPED_MAX {
                    return Ok(None);
                }
                let longer: Vec<Stored> = key.iter().cloned().chain([value]).collect();
                from = Cut { key: longer.clone(), is_behind: true };
                found.push(longer);
            }
        }
        Ok(Some(found))
    }

    /// The bounds of the column behind the keys; `None` if no key is between them.
    fn bounds<'e>(
        &self,
        column: Option<usize>,
        range: &'e KeyRange,
        run: &mut Run<'e>,
        row: &[Value],
    ) -> Result<Option<Bounds>> {
        let Some(column) = column else { return Ok(Some(Bounds::default())) };
        let is_nullable =
            column != HIDDEN_KEY && !self.table.columns[column].not_null && !self.table.key.contains(&column);
        // NULLs are the least of a column's keys.
        let mut bounds = Bounds { lower: is_nullable.then_some((Stored::Null, true)), upper: None };
        for bound in &range.bounds {
            let Some(expr) = bound.expr() else { continue };
            let value = match run.evaluate(expr, row) {
                // A moment that the column's type cannot hold bounds nothing: the filter compares it in its own type.
                Err(error) if matches!(expr, Expr::Cast(_)) && is_out_of_range(&error) => continue,
                value => value?,
            };
            if value.is_null() {
                return Ok(None);
            }
            match bound {
                Bound::Lower(_, inclusive) => {
                    bounds.raise(stored_key(self.table, column, &value).map(|value| (value, !inclusive)));
                }
                Bound::Upper(_, inclusive) => {
                    bounds.lower_to(stored_key(self.table, column, &value).map(|value| (value, *inclusive)));
                }
                Bound::Matches(_, pattern) => {
                    let Value::Text(text) = &value else { continue };
                    match prefixes::of(text, *pattern) {
                        Beginning::Unknown => {}
                        Beginning::Exactly(text) => {
                            bounds.raise(Some((Stored::Text(text.clone()), false)));
                            bounds.lower_to(Some((Stored::Text(text), true)));
                        }
                        Beginning::With(text) => {
                            let end = prefixes::end_of(&text);
                            bounds.raise(Some((Stored::Text(text), false)));
                            bounds.lower_to(end.map(|end| (Stored::Text(end), false)));
                        }
                    }
                }
                Bound::NotNull => {}
            }
        }
        Ok(Some(bounds))
    }
}

fn is_out_of_range(error: &SqlError) -> bool {
    error.state() == SqlState::DATETIME_FIELD_OVERFLOW
}

/// The handle of a column, or of the hidden key.
fn column_handle(table: &Table, column: usize) -> Result<Column> {
    handle(table, if column == HIDDEN_KEY { 0 } else { table.columns[column].engine })
}

/// The least and the greatest values of a column, each with whether the cut is behind it.
#[derive(Clone, Debug, Default)]
struct Bounds {
    lower: Option<(Stored, bool)>,
    upper: Option<(Stored, bool)>,
}

/// Compares two cuts of one column.
fn compare((one, one_behind): &(Stored, bool), (other, other_behind): &(Stored, bool)) -> Ordering {
    let order = ValueRef::from(one).partial_cmp(&ValueRef::from(other)).unwrap_or(Ordering::Equal);
    order.then(one_behind.cmp(other_behind))
}

impl Bounds {
    fn raise(&mut self, lower: Option<(Stored, bool)>) {
        let is_higher =
            |new: &(Stored, bool)| self.lower.as_ref().is_none_or(|old| compare(old, new).is_lt());
        if let Some(new) = lower.filter(is_higher) {
            self.lower = Some(new);
        }
    }

    fn lower_to(&mut self, upper: Option<(Stored, bool)>) {
        let is_lower = |new: &(Stored, bool)| self.upper.as_ref().is_none_or(|old| compare(new, old).is_lt());
        if let Some(new) = upper.filter(is_lower) {
            self.upper = Some(new);
        }
    }

    /// The keys that begin with this one and have a value within the bounds behind it.
    fn within(&self, key: Vec<Stored>) -> Interval {
        let cut = |bound: &(Stored, bool)| Cut {
            key: key.iter().cloned().chain([bound.0.clone()]).collect(),
            is_behind: bound.1,
        };
        let from = self.lower.as_ref().map(cut);
        let to = self.upper.as_ref().map(cut);
        let all = Interval::of(key);
        Interval { from: from.unwrap_or(all.from), to: to.unwrap_or(all.to) }
    }
}

/// The intervals that the earlier parts of a union have read.
pub(crate) struct Union {
    parts: Vec<(Vec<Column>, Vec<Interval>)>,
}

impl Union {
    /// The union of these intervals of the keys of indexes.
    ///
    /// # Errors
    /// The catalog is another one's.
    pub(crate) fn new(table: &Table, parts: Vec<(Option<usize>, Vec<Interval>)>) -> Result<Union> {
        let part = |(index, intervals): (Option<usize>, Vec<Interval>)| {
            let columns = columns_of(table, index).into_iter().map(|column| column_handle(table, column));
            Ok((columns.collect::<Result<Vec<_>>>()?, intervals))
        };
        Ok(Union { parts: parts.into_iter().map(part).collect::<Result<_>>()? })
    }

    /// Returns true if a part before this one has found a row.
    pub(crate) fn is_known(&self, part: usize, row: &Row<'_>) -> Result<bool> {
        for (columns, intervals) in &self.parts[..part] {
            let mut key = smallvec::SmallVec::<[ValueRef<'_>; 4]>::new();
            for column in columns {
                key.push(row.get(*column)?);
            }
            let next = intervals.partition_point(|interval| interval.from.is_before(&key));
            let is_in = next.checked_sub(1).is_some_and(|at| !intervals[at].to.is_before(&key));
            if is_in {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(key: &[i64], is_behind: bool) -> Cut {
        Cut { key: key.iter().map(|value| Stored::Int(*value)).collect(), is_behind }
    }

    fn interval(from: (&[i64], bool), to: (&[i64], bool)) -> Interval {
        Interval { from: cut(from.0, from.1), to: cut(to.0, to.1) }
    }

    fn shown(intervals: &[Interval]) -> String {
        format!("{intervals:?}")
    }

    #[test]
    fn cuts_lie_before_and_behind_all_keys_that_begin_with_their_values() {
        let rising = [
            cut(&[], false),
            cut(&[1], false),
            cut(&[1, 2], false),
            cut(&[1, 2], true),
            cut(&[1, 3], false),
            cut(&[1], true),
            cut(&[2], false),
            cut(&[], true),
        ];
        for (at, one) in rising.iter().enumerate() {
            for (other_at, other) in rising.iter().enumerate() {
                assert_eq!(one.compare(other), at.cmp(&other_at), "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn a_comparison_of_rows_is_one_interval() {
        // a > 1, or a = 1 and b > 2.
        let made = merged(vec![interval((&[1], true), (&[], true)), interval((&[1, 2], true), (&[1], true))]);
        assert_eq!(shown(&made), shown(&[interval((&[1, 2], true), (&[], true))]));
    }

    #[test]
    fn equal_overlapping_and_empty_intervals_are_merged() {
        let made = merged(vec![
            Interval::of(vec![Stored::Int(5)]),
            Interval::of(vec![Stored::Int(3), Stored::Int(1)]),
            Interval::of(vec![Stored::Int(3)]),
            Interval::of(vec![Stored::Int(5)]),
            interval((&[9], false), (&[8], true)),
        ]);
        assert_eq!(
            shown(&made),
            shown(&[Interval::of(vec![Stored::Int(3)]), Interval::of(vec![Stored::Int(5)])])
        );
    }

    #[test]
    fn a_key_is_before_or_behind_a_cut() {
        let key = [ValueRef::Int(1), ValueRef::Int(2)];
        for (place, is_before) in [
            (cut(&[], false), true),
            (cut(&[1], false), true),
            (cut(&[1, 2], false), true),
            (cut(&[1, 2], true), false),
            (cut(&[1], true), false),
            (cut(&[2], false), false),
        ] {
            assert_eq!(place.is_before(&key), is_before, "{place:?}");
        }
    }
}
