//! Arrays with an element or a slice replaced, as `UPDATE … SET a[1] = 5` has them.
//!
//! Source: PostgreSQL 15, `array_set_element` and `array_set_slice` in `arrayfuncs.c`.

use super::definition::{Definition, FunctionContext, scalar};
use crate::error::{Result, SqlError, SqlState};
use crate::types::array::{
    ArrayValue, DIMENSIONS_MAX, Dimension, check_size, require_elements, subscript_error,
};
use crate::types::{Environment, Type, Value};

/// The table; the binder alone calls these.
pub(super) const FUNCTIONS: &[Definition] = &[
    scalar("heddle_set_element(anyarray, anyelement, int4[]) anyarray", set_element).nullable(),
    scalar("heddle_set_slice(anyarray, anyarray, int4[], int4[]) anyarray", set_slice).nullable(),
];

/// An array; NULL counts as the empty one.
fn array_or_empty(context: &FunctionContext<'_>, value: &Value) -> ArrayValue {
    match value {
        Value::Array(array) => array.as_ref().clone(),
        _ => ArrayValue::empty(context.result_type.element().unwrap_or(Type::Text)),
    }
}

/// The subscripts of an assignment. The binder always gives them; a call by name may give NULL.
pub(super) fn subscripts<'v>(value: &'v Value, what: &str) -> Result<&'v [Value]> {
    match value {
        Value::Array(subscripts) => Ok(&subscripts.values),
        _ => Err(no_subscript(what)),
    }
}

/// A subscript of an assignment is NULL (22004).
pub(super) fn no_subscript(what: &str) -> SqlError {
    let message = format!("{what} subscript in assignment must not be null");
    SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message)
}

fn set_element(context: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let index = |value: &Value| match value {
        Value::Int4(index) => Ok(*index),
        _ => Err(no_subscript("array")),
    };
    let indexes: Vec<i32> = subscripts(&v[2], "array")?.iter().map(index).collect::<Result<_>>()?;
    array_or_empty(context, &v[0]).with_element(&indexes, v[1].clone(), context.environment).map(Value::array)
}

fn set_slice(context: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let array = array_or_empty(context, &v[0]);
    let Value::Array(source) = &v[1] else { return Ok(Value::array(array)) };
    let bounds = |value: &Value| -> Result<Vec<Option<i32>>> {
        let bound = |value: &Value| if let Value::Int4(bound) = value { Some(*bound) } else { None };
        Ok(subscripts(value, "array")?.iter().map(bound).collect())
    };
    with_slice(&array, (&bounds(&v[2])?, &bounds(&v[3])?), source, context.environment).map(Value::array)
}

fn too_small() -> SqlError {
    subscript_error("source array too small")
}

/// The array with a slice replaced; a bound that is left out is the array's own.
fn with_slice(
    array: &ArrayValue,
    (lowers, uppers): (&[Option<i32>], &[Option<i32>]),
    source: &ArrayValue,
    environment: &mut dyn Environment,
) -> Result<ArrayValue> {
    let ranges = ranges(array, lowers, uppers)?;
    let lengths = ranges.iter().map(|range| i64::from(range.upper()) - i64::from(range.lower) + 1);
    let count = usize::try_from(lengths.product::<i64>()).unwrap_or(usize::MAX);
    check_size(count)?;
    if source.values.len() < count {
        return Err(too_small());
    }
    let given = &source.values[..count];
    match array.dimensions.as_slice() {
        [] => Ok(ArrayValue::with_dimensions(array.element, ranges, given.to_vec())),
        [own] => with_list_slice(array, *own, ranges[0], given, environment),
        own => {
            let mut changed = array.clone();
            let mut at: Vec<i32> = ranges.iter().map(|range| range.lower).collect();
            for value in given {
                let offset = at.iter().zip(own).fold(0, |offset, (at, dimension)| {
                    offset * dimension.length as usize + (at - dimension.lower) as usize
                });
                changed.values[offset] = value.clone();
                // The last subscript moves fastest.
                for (at, range) in at.iter_mut().zip(&ranges).rev() {
                    *at += 1;
                    if *at <= range.upper() {
                        break;
                    }
                    *at = range.lower;
                }
            }
            Ok(changed)
        }
    }
}

/// The slice's bounds in all dimensions of the array; of those that it has, if it is empty.
fn ranges(array: &ArrayValue, lowers: &[Option<i32>], uppers: &[Option<i32>]) -> Result<Vec<Dimension>> {
    let own = &array.dimensions;
    if lowers.len() > DIMENSIONS_MAX || !own.is_empty() && own.len() < lowers.len() {
        return Err(subscript_error("wrong number of array subscripts"));
    }
    let count = if own.is_empty() { lowers.len() } else { own.len() };
    (0..count)
        .map(|at| {
            let dimension = own.get(at).copied();
            let bound = |given: Option<&Option<i32>>, own: Option<i32>| {
                given.copied().flatten().or(own).ok_or_else(|| {
                    subscript_error("array slice subscript must provide both boundaries").with_detail(
                        "When assigning to a slice of an empty array value, slice boundaries must be fully specified.",
                    )
                })
            };
            let lower = bound(lowers.get(at), dimension.map(|it| it.lower))?;
            let upper = bound(uppers.get(at), dimension.map(Dimension::upper))?;
            if upper < lower {
                return Err(subscript_error("upper bound cannot be less than lower bound"));
            }
            let is_outside = dimension.is_some_and(|it| lower < it.lower || upper > it.upper());
            if own.len() > 1 && is_outside {
                return Err(subscript_error("array subscript out of range"));
            }
            let length = upper.checked_sub(lower).and_then(|length| length.checked_add(1));
            Ok(Dimension { length: length.ok_or_else(too_small)?, lower })
        })
        .collect()
}

/// A list grows up to the end of the slice, with NULLs between.
fn with_list_slice(
    array: &ArrayValue,
    own: Dimension,
    range: Dimension,
    given: &[Value],
    environment: &mut dyn Environment,
) -> Result<ArrayValue> {
    let lower = i64::from(own.lower.min(range.lower));
    let upper = i64::from(own.upper().max(range.upper()));
    let length = usize::try_from(upper - lower + 1).unwrap_or(usize::MAX);
    require_elements(length, environment)?;
    let mut values = vec![Value::Null; length];
    let mut put = |from: i32, part: &[Value]| {
        let from = (i64::from(from) - lower) as usize;
        values[from..from + part.len()].clone_from_slice(part);
    };
    put(own.lower, &array.values);
    put(range.lower, given);
    Ok(ArrayValue::list_from(array.element, lower as i32, values))
}
