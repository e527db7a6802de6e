//! Functions and operators of arrays.
//!
//! Invariant: elements compare by the order of [`Value`], with NULL equal to NULL only where PostgreSQL says so.

use super::definition::{Definition, FunctionContext, scalar};
use crate::error::{Result, SqlError, SqlState};
use crate::interrupt::step;
use crate::types::array::{
    ArrayValue, DIMENSIONS_MAX, Dimension, check_size, require_elements, subscript_error, too_many_dimensions,
};
use crate::types::{Type, Value};

/// The table of functions.
pub(super) const FUNCTIONS: &[Definition] = &[
    scalar("array_length(anyarray, int4) int4", |_, v| {
        Ok(dimension(v).map_or(Value::Null, |it| Value::Int4(it.length)))
    }),
    scalar("array_lower(anyarray, int4) int4", |_, v| {
        Ok(dimension(v).map_or(Value::Null, |it| Value::Int4(it.lower)))
    }),
    scalar("array_upper(anyarray, int4) int4", |_, v| {
        Ok(dimension(v).map_or(Value::Null, |it| Value::Int4(it.upper())))
    }),
    scalar("array_ndims(anyarray) int4", |_, v| {
        let count = v[0].as_array().dimensions.len() as i32;
        Ok(if count == 0 { Value::Null } else { Value::Int4(count) })
    }),
    scalar("array_dims(anyarray) text", array_dims),
    scalar("cardinality(anyarray) int4", |_, v| Ok(Value::Int4(v[0].as_array().values.len() as i32))),
    scalar("array_append(anycompatiblearray, anycompatible) anycompatiblearray", |c, v| {
        append(c, &v[0], &v[1], false)
    })
    .nullable(),
    scalar("array_prepend(anycompatible, anycompatiblearray) anycompatiblearray", |c, v| {
        append(c, &v[1], &v[0], true)
    })
    .nullable(),
    scalar("array_cat(anycompatiblearray, anycompatiblearray) anycompatiblearray", |_, v| concatenate(v))
        .nullable(),
    scalar("array_position(anycompatiblearray, anycompatible) int4", |_, v| position(v)).nullable(),
    scalar("array_position(anycompatiblearray, anycompatible, int4) int4", |_, v| position(v)).nullable(),
    scalar("array_positions(anycompatiblearray, anycompatible) int4[]", |_, v| positions(v)).nullable(),
    scalar("array_remove(anycompatiblearray, anycompatible) anycompatiblearray", |_, v| remove(v)).nullable(),
    scalar("array_replace(anycompatiblearray, anycompatible, anycompatible) anycompatiblearray", |_, v| {
        replace(v)
    })
    .nullable(),
    scalar("array_fill(anyelement, int4[]) anyarray", fill).nullable(),
    scalar("array_fill(anyelement, int4[], int4[]) anyarray", fill).nullable(),
    scalar("trim_array(anyarray, int4) anyarray", trim_array),
    scalar("num_nulls(variadic any) int4", |_, v| {
        Ok(Value::Int4(v.iter().filter(|it| it.is_null()).count() as i32))
    })
    .nullable(),
    scalar("num_nonnulls(variadic any) int4", |_, v| {
        Ok(Value::Int4(v.iter().filter(|it| !it.is_null()).count() as i32))
    })
    .nullable(),
];

/// The table of operators.
pub(super) const OPERATORS: &[Definition] = &[
    scalar("||(anycompatiblearray, anycompatible) anycompatiblearray", |c, v| append(c, &v[0], &v[1], false))
        .nullable(),
    scalar("||(anycompatible, anycompatiblearray) anycompatiblearray", |c, v| append(c, &v[1], &v[0], true))
        .nullable(),
    scalar("||(anycompatiblearray, anycompatiblearray) anycompatiblearray", |_, v| concatenate(v)).nullable(),
    scalar("@>(anyarray, anyarray) bool", |_, v| contains(v[0].as_array(), v[1].as_array())),
    scalar("<@(anyarray, anyarray) bool", |_, v| contains(v[1].as_array(), v[0].as_array())),
    scalar("&&(anyarray, anyarray) bool", |_, v| overlaps(v[0].as_array(), v[1].as_array())),
];

fn dimension(v: &[Value]) -> Option<Dimension> {
    let at = usize::try_from(v[1].int4()).ok()?.checked_sub(1)?;
    v[0].as_array().dimensions.get(at).copied()
}

fn array_dims(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let array = v[0].as_array();
    if array.dimensions.is_empty() {
        return Ok(Value::Null);
    }
    let bounds = array.dimensions.iter().map(|it| format!("[{}:{}]", it.lower, it.upper()));
    Ok(Value::text(bounds.collect::<String>()))
}

/// A list with one more element at either end; NULL counts as the empty array.
fn append(context: &FunctionContext<'_>, array: &Value, element: &Value, at_start: bool) -> Result<Value> {
    let Value::Array(array) = array else {
        let kind = context.result_type.element().unwrap_or(Type::Text);
        return Ok(Value::array(ArrayValue::list(kind, vec![element.clone()])));
    };
    match array.dimensions.as_slice() {
        [] => Ok(Value::array(ArrayValue::list(array.element, vec![element.clone()]))),
        [only] => {
            check_size(array.values.len() + 1)?;
            let mut values = array.values.clone();
            values.insert(if at_start { 0 } else { values.len() }, element.clone());
            if !at_start && only.upper() == i32::MAX || at_start && only.lower == i32::MIN {
                return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range"));
            }
            Ok(Value::array(ArrayValue::list_from(array.element, only.lower, values)))
        }
        _ => {
            let message = "argument must be empty or one-dimensional array";
            Err(SqlError::new(SqlState::DATA_EXCEPTION, message))
        }
    }
}

fn incompatible(detail: &str) -> SqlError {
    subscript_error("cannot concatenate incompatible arrays").with_detail(detail)
}

/// Arrays one after the other, or one as a further element of the other.
fn concatenate(v: &[Value]) -> Result<Value> {
    let (Value::Array(left), Value::Array(right)) = (&v[0], &v[1]) else {
        return Ok(if v[0].is_null() { v[1].clone() } else { v[0].clone() });
    };
    if left.dimensions.is_empty() {
        return Ok(v[1].clone());
    }
    if right.dimensions.is_empty() {
        return Ok(v[0].clone());
    }
    let (a, b) = (&left.dimensions, &right.dimensions);
    let same = |inner: &[Dimension], other: &[Dimension]| inner == other;
    let detail = "Arrays with differing element dimensions are not compatible for concatenation.";
    let mut dimensions = match a.len() as i64 - b.len() as i64 {
        0 if same(&a[1..], &b[1..]) => {
            let mut dimensions = a.clone();
            dimensions[0].length += b[0].length;
            dimensions
        }
        1 if same(&a[1..], b) => {
            let mut dimensions = a.clone();
            dimensions[0].length += 1;
            dimensions
        }
        -1 if same(a, &b[1..]) => {
            let mut dimensions = b.clone();
            dimensions[0].length += 1;
            dimensions
        }
        -1..=1 => return Err(incompatible(detail)),
        _ => {
            let detail = format!(
                "Arrays of {} and {} dimensions are not compatible for concatenation.",
                a.len(),
                b.len()
            );
            return Err(incompatible(&detail));
        }
    };
    check_size(left.values.len() + right.values.len())?;
    dimensions.truncate(DIMENSIONS_MAX);
    let values = [left.values.as_slice(), right.values.as_slice()].concat();
    Ok(Value::array(ArrayValue { element: left.element, dimensions, values }))
}

fn check_one_dimension(array: &ArrayValue) -> Result<()> {
    if array.dimensions.len() > 1 {
        let message = "searching for elements in multidimensional arrays is not supported";
        return Err(SqlError::unsupported(message));
    }
    Ok(())
}

fn position(v: &[Value]) -> Result<Value> {
    let Value::Array(array) = &v[0] else { return Ok(Value::Null) };
    check_one_dimension(array)?;
    let start = match v.get(2) {
        Some(Value::Null) => {
            let message = "initial position must not be null";
            return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
        }
        Some(start) => i64::from(start.int4()),
        None => i64::MIN,
    };
    let lower = array.dimensions.first().map_or(1, |it| i64::from(it.lower));
    let found = array.values.iter().enumerate().map(|(at, value)| (lower + at as i64, value));
    let found = found.filter(|(at, _)| *at >= start).find(|(_, value)| **value == v[1]);
    Ok(found.map_or(Value::Null, |(at, _)| Value::Int4(at as i32)))
}

fn positions(v: &[Value]) -> Result<Value> {
    let Value::Array(array) = &v[0] else { return Ok(Value::Null) };
    check_one_dimension(array)?;
    let lower = array.dimensions.first().map_or(1, |it| it.lower);
    let found = array.values.iter().enumerate().filter(|(_, value)| **value == v[1]);
    let places = found.map(|(at, _)| Value::Int4(lower + at as i32)).collect();
    Ok(Value::array(ArrayValue::list(Type::Int4, places)))
}

fn remove(v: &[Value]) -> Result<Value> {
    let Value::Array(array) = &v[0] else { return Ok(Value::Null) };
    if array.dimensions.len() > 1 {
        let message = "removing elements from multidimensional arrays is not supported";
        return Err(SqlError::unsupported(message));
    }
    let kept: Vec<Value> = array.values.iter().filter(|value| **value != v[1]).cloned().collect();
    let lower = array.dimensions.first().map_or(1, |it| it.lower);
    Ok(Value::array(ArrayValue::list_from(array.element, lower, kept)))
}

fn replace(v: &[Value]) -> Result<Value> {
    let Value::Array(array) = &v[0] else { return Ok(Value::Null) };
    let new = |value: &Value| if *value == v[1] { v[2].clone() } else { value.clone() };
    let values = array.values.iter().map(new).collect();
    Ok(Value::array(ArrayValue { element: array.element, dimensions: array.dimensions.clone(), values }))
}

fn fill(context: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let null = |message: &str| SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message);
    if v[1].is_null() || v.get(2).is_some_and(Value::is_null) {
        return Err(null("dimension array or low bound array cannot be null"));
    }
    let lengths = v[1].as_array();
    let lowers = v.get(2).map(|lowers| lowers.as_array());
    for bounds in [Some(lengths), lowers].into_iter().flatten() {
        if bounds.dimensions.len() > 1 {
            let detail = "Dimension array must be one dimensional.";
            return Err(subscript_error("wrong number of array subscripts").with_detail(detail));
        }
        if bounds.has_nulls() {
            return Err(null("dimension values cannot be null"));
        }
    }
    if lengths.values.len() > DIMENSIONS_MAX {
        return Err(too_many_dimensions(lengths.values.len()));
    }
    if lowers.is_some_and(|lowers| lowers.values.len() != lengths.values.len()) {
        let detail = "Low bound array has different size than dimensions array.";
        return Err(subscript_error("wrong number of array subscripts").with_detail(detail));
    }
    let mut dimensions = Vec::new();
    let mut total = 1usize;
    for (at, length) in lengths.values.iter().enumerate() {
        let length = length.int4();
        let size = usize::try_from(length).map_err(|_| {
            let message =
                format!("array size exceeds the maximum allowed ({})", crate::types::array::ELEMENTS_MAX);
            SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
        })?;
        total = total.saturating_mul(size);
        check_size(total)?;
        let lower = lowers.map_or(1, |lowers| lowers.values[at].int4());
        if i64::from(lower) + i64::from(length) > i64::from(i32::MAX) {
            let message = format!("array lower bound is too large: {lower}");
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        dimensions.push(Dimension { length, lower });
    }
    let element = context.result_type.element().unwrap_or(Type::Text);
    if dimensions.is_empty() || total == 0 {
        return Ok(Value::array(ArrayValue::empty(element)));
    }
    require_elements(total, context.environment)?;
    Ok(Value::array(ArrayValue { element, dimensions, values: vec![v[0].clone(); total] }))
}

fn trim_array(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let (array, count) = (v[0].as_array(), v[1].int4());
    let length = array.dimensions.first().map_or(0, |it| it.length);
    if count < 0 || count > length {
        let message = format!("number of elements to trim must be between 0 and {length}");
        return Err(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message));
    }
    let Some(first) = array.dimensions.first() else { return Ok(v[0].clone()) };
    let upper = first.upper() - count;
    if count == length {
        return Ok(Value::array(ArrayValue::empty(array.element)));
    }
    Ok(Value::array(array.slice(&[(None, Some(upper))])))
}

/// Calls `look` for each element with whether the other array has it, until it answers false. NULL is in no array.
///
/// # Errors
/// 57014: the statement was canceled, or its time is up.
fn look_up_each(elements: &ArrayValue, other: &ArrayValue, mut look: impl FnMut(bool) -> bool) -> Result<()> {
    for value in &elements.values {
        let mut is_found = false;
        for other in other.values.iter().filter(|_| !value.is_null()) {
            step()?;
            if other == value {
                is_found = true;
                break;
            }
        }
        if !look(is_found) {
            break;
        }
    }
    Ok(())
}

/// Returns true if every element of the right array is one of the left's; NULL is never one.
fn contains(left: &ArrayValue, right: &ArrayValue) -> Result<Value> {
    let mut has_all = true;
    look_up_each(right, left, |found| {
        has_all = found;
        found
    })?;
    Ok(Value::Bool(has_all))
}

/// Returns true if some element of one array is one of the other's.
fn overlaps(left: &ArrayValue, right: &ArrayValue) -> Result<Value> {
    let mut has_one = false;
    look_up_each(left, right, |found| {
        has_one = found;
        !found
    })?;
    Ok(Value::Bool(has_one))
}
