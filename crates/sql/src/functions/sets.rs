//! Set-returning functions of numbers, times and arrays. Those of texts and documents are with their subjects.

use std::sync::Arc;

use jiff::tz::TimeZone;

use super::definition::{Definition, FunctionContext, Rows, RowsOf, set};
use super::moments::arithmetic::{add_interval, add_interval_in_zone};
use crate::error::{Result, SqlError, SqlState};
use crate::types::interval::Interval;
use crate::types::numeric::Numeric;
use crate::types::record::{RecordField, RecordValue};
use crate::types::{Type, Value};

/// The table.
pub(super) const SETS: &[Definition] = &[
    set("generate_series(int4, int4) setof int4", |_, v| integers(v, |it| Value::Int4(it as i32))),
    set("generate_series(int4, int4, int4) setof int4", |_, v| integers(v, |it| Value::Int4(it as i32))),
    set("generate_series(int8, int8) setof int8", |_, v| integers(v, Value::Int8)),
    set("generate_series(int8, int8, int8) setof int8", |_, v| integers(v, Value::Int8)),
    set("generate_series(numeric, numeric) setof numeric", |_, v| numbers(v)),
    set("generate_series(numeric, numeric, numeric) setof numeric", |_, v| numbers(v)),
    set("generate_series(timestamp, timestamp, interval) setof timestamp", |_, v| moments(v, None)),
    set("generate_series(timestamptz, timestamptz, interval) setof timestamptz", |c, v| {
        moments(v, Some(c.formats().time_zone.clone()))
    })
    .stable(),
    set("generate_subscripts(anyarray, int4) setof int4", |_, v| subscripts(v, false)),
    set("generate_subscripts(anyarray, int4, bool) setof int4", |_, v| subscripts(v, v[2].bool())),
    set("unnest(anyarray) setof anyelement", unnest),
    // A function of the information schema: drivers list the columns of keys with it.
    set("_pg_expandarray(anyarray) setof record x anyelement; n int4", numbered_elements),
];

/// The step must not be zero (22023).
fn zero_step() -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "step size cannot equal zero")
}

fn integers(values: &[Value], make: fn(i64) -> Value) -> Result<Box<dyn Rows>> {
    let (start, end) = (values[0].any_int(), values[1].any_int());
    let step = values.get(2).map_or(1, Value::any_int);
    if step == 0 {
        return Err(zero_step());
    }
    let mut next = Some(start);
    let rows = std::iter::from_fn(move || {
        let current = next?;
        if step > 0 && current > end || step < 0 && current < end {
            return None;
        }
        next = current.checked_add(step);
        Some(Ok(make(current)))
    });
    Ok(Box::new(RowsOf(rows)))
}

fn numbers(values: &[Value]) -> Result<Box<dyn Rows>> {
    let names = ["start value", "stop value", "step size"];
    for (value, name) in values.iter().zip(names) {
        let number = value.as_numeric();
        if !number.is_finite() {
            let what = if number.is_nan() { "NaN" } else { "infinity" };
            let message = format!("{name} cannot be {what}");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
    }
    let step = values.get(2).map_or(Numeric::ONE, |it| it.as_numeric().clone());
    if step.is_zero() {
        return Err(zero_step());
    }
    let end = values[1].as_numeric().clone();
    // The first row shows as many digits as the later ones.
    let mut next = values[0].as_numeric().clone();
    let rows = std::iter::from_fn(move || {
        let is_over = if step.is_negative() { next < end } else { next > end };
        if is_over {
            return None;
        }
        let current = next.clone();
        match current.add(&step) {
            Ok(sum) => next = sum,
            Err(error) => return Some(Err(error)),
        }
        Some(Ok(Value::Numeric(current)))
    });
    Ok(Box::new(RowsOf(rows)))
}

fn moments(values: &[Value], zone: Option<TimeZone>) -> Result<Box<dyn Rows>> {
    let micros = |value: &Value| match value {
        Value::Timestamp(micros) | Value::Timestamptz(micros) => *micros,
        other => other.timestamp(),
    };
    let (mut next, end, step) = (micros(&values[0]), micros(&values[1]), values[2].interval());
    let sign = step.cmp(&Interval::default());
    if sign.is_eq() {
        return Err(zero_step());
    }
    let rows = std::iter::from_fn(move || {
        if sign.is_gt() && next > end || sign.is_lt() && next < end {
            return None;
        }
        let current = next;
        let moved = match &zone {
            Some(zone) => add_interval_in_zone(current, step, zone),
            None => add_interval(current, step),
        };
        match moved {
            Ok(moved) => next = moved,
            Err(error) => return Some(Err(error)),
        }
        Some(Ok(if zone.is_some() { Value::Timestamptz(current) } else { Value::Timestamp(current) }))
    });
    Ok(Box::new(RowsOf(rows)))
}

fn subscripts(values: &[Value], is_reversed: bool) -> Result<Box<dyn Rows>> {
    let array = values[0].as_array();
    let dimension = values[1]
        .int4()
        .checked_sub(1)
        .and_then(|at| usize::try_from(at).ok())
        .and_then(|at| array.dimensions.get(at))
        .copied();
    let Some(dimension) = dimension else { return Ok(Box::new(RowsOf(std::iter::empty()))) };
    let all = dimension.lower..=dimension.upper();
    let row = |subscript: i32| Ok(Value::Int4(subscript));
    Ok(if is_reversed { Box::new(RowsOf(all.rev().map(row))) } else { Box::new(RowsOf(all.map(row))) })
}

fn unnest(_: &mut FunctionContext<'_>, values: &[Value]) -> Result<Box<dyn Rows>> {
    let array = values[0].as_array().clone();
    let rows = (0..array.values.len()).map(move |at| Ok(array.values[at].clone()));
    Ok(Box::new(RowsOf(rows)))
}

/// The elements of an array, each with its place, counted from 1 whatever the lower bound.
fn numbered_elements(context: &mut FunctionContext<'_>, values: &[Value]) -> Result<Box<dyn Rows>> {
    let array = values[0].as_array().clone();
    let kind = context.argument_type(0).element().unwrap_or(Type::Text);
    let field = |name: &str, kind| RecordField { name: name.into(), kind };
    let fields: Arc<[RecordField]> = Arc::from([field("x", kind), field("n", Type::Int4)]);
    let rows = (0..array.values.len()).map(move |at| {
        let values = Box::new([array.values[at].clone(), Value::Int4(at as i32 + 1)]);
        Ok(Value::Record(Arc::new(RecordValue { fields: fields.clone(), values })))
    });
    Ok(Box::new(RowsOf(rows)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::definition::FunctionKind;
    use crate::functions::resolve::{Called, resolve_function};
    use crate::types::text::{from_text, to_text};
    use crate::types::{Modifier, PlainEnvironment};

    fn rows(name: &str, arguments: &[(Type, &str)]) -> Result<Vec<String>> {
        let kinds: Vec<Type> = arguments.iter().map(|(kind, _)| *kind).collect();
        let Called::Function(resolved) = resolve_function(name, &kinds, false)? else { panic!("a cast") };
        let FunctionKind::Set(run) = resolved.function.kind else { panic!("not a set") };
        let mut environment = PlainEnvironment::new(0);
        let values =
            arguments.iter().map(|(kind, text)| from_text(&environment, *kind, Modifier::NONE, text));
        let values = values.collect::<Result<Vec<Value>>>()?;
        let mut context = FunctionContext {
            environment: &mut environment,
            argument_types: &kinds,
            result_type: resolved.result,
        };
        let mut rows = run(&mut context, &values)?;
        let mut texts = Vec::new();
        while let Some(value) = rows.next()? {
            texts.push(if value.is_null() {
                "NULL".into()
            } else {
                to_text(&PlainEnvironment::new(0), resolved.result, &value)?
            });
        }
        Ok(texts)
    }

    #[test]
    fn series_end_at_their_bounds_and_never_wrap() {
        use Type::{Int4, Int8, Interval, Numeric, Timestamp};
        assert_eq!(rows("generate_series", &[(Int4, "1"), (Int4, "3")]).unwrap(), ["1", "2", "3"]);
        assert_eq!(
            rows("generate_series", &[(Int4, "5"), (Int4, "1"), (Int4, "-2")]).unwrap(),
            ["5", "3", "1"]
        );
        let top = i64::MAX.to_string();
        assert_eq!(rows("generate_series", &[(Int8, &top), (Int8, &top)]).unwrap(), [top.as_str()]);
        assert_eq!(
            rows("generate_series", &[(Numeric, "1"), (Numeric, "2"), (Numeric, "0.5")]).unwrap(),
            ["1", "1.5", "2.0"]
        );
        let days = rows(
            "generate_series",
            &[(Timestamp, "2024-01-31"), (Timestamp, "2024-03-31"), (Interval, "1 month")],
        );
        assert_eq!(days.unwrap(), ["2024-01-31 00:00:00", "2024-02-29 00:00:00", "2024-03-29 00:00:00"]);
        let error = rows("generate_series", &[(Int4, "1"), (Int4, "3"), (Int4, "0")]).unwrap_err();
        assert_eq!(error.state().as_str(), "22023");
    }

    #[test]
    fn arrays_become_rows() {
        let kind = Type::array_of(Type::Int4);
        assert_eq!(rows("unnest", &[(kind, "{{1,NULL},{3,4}}")]).unwrap(), ["1", "NULL", "3", "4"]);
        assert_eq!(
            rows("generate_subscripts", &[(kind, "[2:4]={7,8,9}"), (Type::Int4, "1")]).unwrap(),
            ["2", "3", "4"]
        );
        assert!(rows("generate_subscripts", &[(kind, "{1}"), (Type::Int4, "2")]).unwrap().is_empty());
    }
}
