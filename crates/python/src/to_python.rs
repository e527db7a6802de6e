//! Values of results as Python's.

use heddle_sql::types::array::{ArrayValue, Dimension};
use heddle_sql::types::interval::Interval;
use heddle_sql::{SqlError, SqlState, Value};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBytes, PyDate, PyDateTime, PyDelta, PyFloat, PyInt, PyList, PyString, PyTime, PyTuple, PyTzInfo,
};

use crate::errors::exception;

const DAY: i64 = 86_400_000_000;
/// 2000-01-01 in days since 0000-03-01.
const EPOCH_DAYS: i64 = 730_425;

/// Python's constructors of types that have none in its C interface.
struct Constructors {
    decimal: Py<PyAny>,
    uuid: Py<PyAny>,
    loads: Py<PyAny>,
    timezone: Py<PyAny>,
    utc: Py<PyAny>,
}

fn constructors(py: Python<'_>) -> PyResult<&Constructors> {
    static KNOWN: PyOnceLock<Constructors> = PyOnceLock::new();
    KNOWN.get_or_try_init(py, || {
        let timezone = py.import("datetime")?.getattr("timezone")?;
        Ok(Constructors {
            decimal: py.import("decimal")?.getattr("Decimal")?.unbind(),
            uuid: py.import("heddledb._adapt")?.getattr("uuid_of")?.unbind(),
            loads: py.import("json")?.getattr("loads")?.unbind(),
            utc: timezone.getattr("utc")?.unbind(),
            timezone: timezone.unbind(),
        })
    })
}

/// A value that `portable` has made.
pub fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null | Value::Void => py.None().into_bound(py),
        Value::Bool(value) => pyo3::types::PyBool::new(py, *value).to_owned().into_any(),
        Value::Int2(value) => PyInt::new(py, *value).into_any(),
        Value::Int4(value) | Value::Enum(value) => PyInt::new(py, *value).into_any(),
        Value::Int8(value) => PyInt::new(py, *value).into_any(),
        Value::Oid(value) => PyInt::new(py, *value).into_any(),
        Value::Float4(value) => {
            // The shortest decimal that is this number: 0.1 stays 0.1.
            let shortest = value.to_string().parse().unwrap_or_else(|_| f64::from(*value));
            PyFloat::new(py, shortest).into_any()
        }
        Value::Float8(value) => PyFloat::new(py, *value).into_any(),
        Value::Numeric(value) => constructors(py)?.decimal.bind(py).call1((value.to_string(),))?,
        Value::Text(text) | Value::Bpchar(text) => PyString::new(py, text).into_any(),
        Value::Bytes(bytes) => PyBytes::new(py, bytes).into_any(),
        Value::Date(days) => date(py, *days)?,
        Value::Time(micros) => time(py, *micros, None)?,
        Value::Timetz(micros, west) => {
            let offset = PyDelta::new(py, 0, -west, 0, true)?;
            let zone = constructors(py)?.timezone.bind(py).call1((offset,))?;
            time(py, *micros, Some(zone.cast::<PyTzInfo>()?))?
        }
        Value::Timestamp(micros) => timestamp(py, *micros, None)?,
        Value::Timestamptz(micros) => {
            let utc = constructors(py)?.utc.bind(py);
            timestamp(py, *micros, Some(utc.cast::<PyTzInfo>()?))?
        }
        Value::Interval(interval) => delta(py, *interval)?,
        Value::Uuid(bytes) => constructors(py)?.uuid.bind(py).call1((PyBytes::new(py, bytes),))?,
        Value::Json(text) => constructors(py)?.loads.bind(py).call1((&**text,))?,
        Value::Jsonb(_) => return Err(exception(py, &SqlError::internal("a jsonb value was not converted"))),
        Value::Array(array) => list(py, array, &array.dimensions, &mut array.values.iter())?,
        Value::Record(record) => {
            let fields = record.values.iter().map(|value| to_python(py, value));
            PyTuple::new(py, fields.collect::<PyResult<Vec<_>>>()?)?.into_any()
        }
    })
}

/// Lists in lists, as many levels as there are dimensions.
fn list<'py>(
    py: Python<'py>,
    array: &ArrayValue,
    dimensions: &[Dimension],
    values: &mut std::slice::Iter<'_, Value>,
) -> PyResult<Bound<'py, PyAny>> {
    let made = PyList::empty(py);
    if let Some((dimension, inner)) = dimensions.split_first() {
        for _ in 0..dimension.length {
            if !inner.is_empty() {
                made.append(list(py, array, inner, values)?)?;
            } else if let Some(value) = values.next() {
                made.append(to_python(py, value)?)?;
            }
        }
    }
    Ok(made.into_any())
}

/// The error of a time that Python's type cannot hold.
fn out_of_range(py: Python<'_>, kind: &str) -> PyErr {
    let message =
        format!("the {kind} is infinite or outside of the years 1 to 9999, which Python cannot hold");
    let error = SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message);
    exception(py, &error.with_hint("Select it as text: column::text."))
}

/// Year, month and day of a number of days since 2000-01-01; `None` outside of Python's years.
pub fn civil(days: i64) -> Option<(i32, u8, u8)> {
    let days = days + EPOCH_DAYS;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    ((1..=9999).contains(&year)).then_some((year as i32, month as u8, day as u8))
}

fn date(py: Python<'_>, days: i32) -> PyResult<Bound<'_, PyAny>> {
    let (year, month, day) = civil(days.into()).ok_or_else(|| out_of_range(py, "date"))?;
    Ok(PyDate::new(py, year, month, day)?.into_any())
}

/// Hour, minute, second and microsecond of a day.
fn clock(micros: i64) -> (u8, u8, u8, u32) {
    let seconds = micros / 1_000_000;
    ((seconds / 3600) as u8, (seconds / 60 % 60) as u8, (seconds % 60) as u8, (micros % 1_000_000) as u32)
}

fn time<'py>(
    py: Python<'py>,
    micros: i64,
    zone: Option<&Bound<'py, PyTzInfo>>,
) -> PyResult<Bound<'py, PyAny>> {
    if micros >= DAY {
        let error = SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "Python has no time 24:00");
        return Err(exception(py, &error.with_hint("Select it as text: column::text.")));
    }
    let (hour, minute, second, micros) = clock(micros);
    Ok(PyTime::new(py, hour, minute, second, micros, zone)?.into_any())
}

fn timestamp<'py>(
    py: Python<'py>,
    micros: i64,
    zone: Option<&Bound<'py, PyTzInfo>>,
) -> PyResult<Bound<'py, PyAny>> {
    let civil = civil(micros.div_euclid(DAY));
    let (year, month, day) = civil.ok_or_else(|| out_of_range(py, "timestamp"))?;
    let (hour, minute, second, micros) = clock(micros.rem_euclid(DAY));
    Ok(PyDateTime::new(py, year, month, day, hour, minute, second, micros, zone)?.into_any())
}

/// A `timedelta`, which has no months: a year counts as 365 days, each month beyond as 30.
fn delta(py: Python<'_>, interval: Interval) -> PyResult<Bound<'_, PyAny>> {
    let months = i64::from(interval.months);
    let days = months / 12 * 365 + months % 12 * 30 + i64::from(interval.days);
    let days = days + interval.micros.div_euclid(DAY);
    let rest = interval.micros.rem_euclid(DAY);
    if days.abs() > 999_999_999 {
        return Err(out_of_range(py, "interval"));
    }
    let (seconds, micros) = ((rest / 1_000_000) as i32, (rest % 1_000_000) as i32);
    Ok(PyDelta::new(py, days as i32, seconds, micros, true)?.into_any())
}
