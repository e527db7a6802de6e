//! Arrays become the text of COPY: the table's columns read it by their own types.
//!
//! # Invariant
//! - What Arrow holds exactly is written exactly; a type without a text that SQL reads is an error that names it.

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_array::types::{
    Date32Type, Date64Type, Decimal128Type, Decimal256Type, DurationMicrosecondType, DurationMillisecondType,
    DurationNanosecondType, DurationSecondType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, IntervalMonthDayNanoType, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use heddle_sql::{SqlError, SqlState};

use super::sql_error;
use crate::to_python::civil;

/// The statement that loads a stream into a table: columns are found by their names.
pub fn copy_statement(table: &str, reader: &RecordBatchStreamReader) -> String {
    let quoted = |name: &String| format!("\"{}\"", name.replace('"', "\"\""));
    let names: Vec<String> = reader.schema().fields().iter().map(|field| quoted(field.name())).collect();
    format!("copy {table} ({}) from stdin", names.join(", "))
}

/// The rows of a stream as COPY's text.
pub struct CopyText {
    reader: RecordBatchStreamReader,
    batch: Option<(RecordBatch, usize)>,
}

/// Bytes that are passed at a time.
const PIECE_BYTES: usize = 1 << 16;

impl CopyText {
    pub fn new(reader: RecordBatchStreamReader) -> CopyText {
        CopyText { reader, batch: None }
    }

    /// Appends the next lines; `false`: there are none.
    pub fn next(&mut self, into: &mut Vec<u8>) -> Result<bool, SqlError> {
        let enough = into.len() + PIECE_BYTES;
        let before = into.len();
        while into.len() < enough {
            let Some((batch, row)) = self.batch.as_mut().filter(|(batch, row)| *row < batch.num_rows())
            else {
                match self.reader.next() {
                    Some(batch) => self.batch = Some((batch.map_err(|error| sql_error(&error))?, 0)),
                    None => break,
                }
                continue;
            };
            let mut field = String::new();
            for (at, column) in batch.columns().iter().enumerate() {
                if at > 0 {
                    into.push(b'\t');
                }
                field.clear();
                if write_value(column, *row, &mut field)? {
                    escape(&field, into);
                } else {
                    into.extend_from_slice(b"\\N");
                }
            }
            into.push(b'\n');
            *row += 1;
        }
        Ok(into.len() > before)
    }
}

fn escape(field: &str, into: &mut Vec<u8>) {
    for &byte in field.as_bytes() {
        match byte {
            b'\\' => into.extend_from_slice(b"\\\\"),
            b'\n' => into.extend_from_slice(b"\\n"),
            b'\r' => into.extend_from_slice(b"\\r"),
            b'\t' => into.extend_from_slice(b"\\t"),
            byte => into.push(byte),
        }
    }
}

macro_rules! plain {
    ($array:expr, $row:expr, $out:expr, $kind:ty) => {
        $out.push_str(&$array.as_primitive::<$kind>().value($row).to_string())
    };
}

/// Writes a value's text; returns false for NULL.
fn write_value(array: &ArrayRef, row: usize, out: &mut String) -> Result<bool, SqlError> {
    if array.is_null(row) {
        return Ok(false);
    }
    match array.data_type() {
        DataType::Null => return Ok(false),
        DataType::Boolean => out.push_str(if array.as_boolean().value(row) { "t" } else { "f" }),
        DataType::Int8 => plain!(array, row, out, Int8Type),
        DataType::Int16 => plain!(array, row, out, Int16Type),
        DataType::Int32 => plain!(array, row, out, Int32Type),
        DataType::Int64 => plain!(array, row, out, Int64Type),
        DataType::UInt8 => plain!(array, row, out, UInt8Type),
        DataType::UInt16 => plain!(array, row, out, UInt16Type),
        DataType::UInt32 => plain!(array, row, out, UInt32Type),
        DataType::UInt64 => plain!(array, row, out, UInt64Type),
        DataType::Float32 => out.push_str(&float(array.as_primitive::<Float32Type>().value(row).to_string())),
        DataType::Float64 => out.push_str(&float(array.as_primitive::<Float64Type>().value(row).to_string())),
        DataType::Decimal128(..) => {
            out.push_str(&array.as_primitive::<Decimal128Type>().value_as_string(row))
        }
        DataType::Decimal256(..) => {
            out.push_str(&array.as_primitive::<Decimal256Type>().value_as_string(row))
        }
        DataType::Utf8 => out.push_str(array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => out.push_str(array.as_string::<i64>().value(row)),
        DataType::Utf8View => out.push_str(array.as_string_view().value(row)),
        DataType::Binary => hex(array.as_binary::<i32>().value(row), out),
        DataType::LargeBinary => hex(array.as_binary::<i64>().value(row), out),
        DataType::BinaryView => hex(array.as_binary_view().value(row), out),
        DataType::FixedSizeBinary(_) => hex(array.as_fixed_size_binary().value(row), out),
        DataType::List(_) => write_list(&array.as_list::<i32>().value(row), out)?,
        DataType::LargeList(_) => write_list(&array.as_list::<i64>().value(row), out)?,
        DataType::FixedSizeList(..) => write_list(&array.as_fixed_size_list().value(row), out)?,
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            return write_value(dictionary.values(), key_at(dictionary.keys(), row), out);
        }
        _ => write_moment(array, row, out)?,
    }
    Ok(true)
}

/// The key of a row in a dictionary.
fn key_at(keys: &dyn Array, row: usize) -> usize {
    macro_rules! key {
        ($kind:ty) => {
            keys.as_primitive::<$kind>().value(row) as usize
        };
    }
    match keys.data_type() {
        DataType::Int8 => key!(Int8Type),
        DataType::Int16 => key!(Int16Type),
        DataType::Int32 => key!(Int32Type),
        DataType::UInt8 => key!(UInt8Type),
        DataType::UInt16 => key!(UInt16Type),
        DataType::UInt32 => key!(UInt32Type),
        DataType::UInt64 => key!(UInt64Type),
        _ => key!(Int64Type),
    }
}

/// Dates, times, and spans of time.
fn write_moment(array: &ArrayRef, row: usize, out: &mut String) -> Result<(), SqlError> {
    macro_rules! number {
        ($kind:ty) => {
            array.as_primitive::<$kind>().value(row) as i64
        };
    }
    let scaled = |value: i64, factor: i64| value.checked_mul(factor).ok_or_else(out_of_range);
    match array.data_type() {
        DataType::Date32 => push_date(number!(Date32Type), out)?,
        DataType::Date64 => push_date(number!(Date64Type).div_euclid(86_400_000), out)?,
        DataType::Time32(TimeUnit::Second) => push_time(number!(Time32SecondType) * 1_000_000, out),
        DataType::Time32(_) => push_time(number!(Time32MillisecondType) * 1000, out),
        DataType::Time64(TimeUnit::Microsecond) => push_time(number!(Time64MicrosecondType), out),
        DataType::Time64(_) => push_time(number!(Time64NanosecondType).div_euclid(1000), out),
        DataType::Timestamp(unit, zone) => {
            let micros = match unit {
                TimeUnit::Second => scaled(number!(TimestampSecondType), 1_000_000)?,
                TimeUnit::Millisecond => scaled(number!(TimestampMillisecondType), 1000)?,
                TimeUnit::Microsecond => number!(TimestampMicrosecondType),
                TimeUnit::Nanosecond => number!(TimestampNanosecondType).div_euclid(1000),
            };
            push_date(micros.div_euclid(86_400_000_000), out)?;
            out.push(' ');
            push_time(micros.rem_euclid(86_400_000_000), out);
            // Arrow's moments with a zone are of UTC, whatever zone they are shown in.
            out.push_str(if zone.is_some() { "+00" } else { "" });
        }
        DataType::Duration(unit) => {
            let micros = match unit {
                TimeUnit::Second => scaled(number!(DurationSecondType), 1_000_000)?,
                TimeUnit::Millisecond => scaled(number!(DurationMillisecondType), 1000)?,
                TimeUnit::Microsecond => number!(DurationMicrosecondType),
                TimeUnit::Nanosecond => number!(DurationNanosecondType).div_euclid(1000),
            };
            out.push_str(&format!("{micros} microseconds"));
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let value = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
            let micros = value.nanoseconds.div_euclid(1000);
            out.push_str(&format!("{} months {} days {micros} microseconds", value.months, value.days));
        }
        other => {
            let error = SqlError::unsupported(format!("columns of Arrow's type {other} cannot be loaded"));
            return Err(error.with_hint("Cast the column before it is loaded."));
        }
    }
    Ok(())
}

/// A float as SQL reads it.
fn float(text: String) -> String {
    match text.as_str() {
        "inf" => "Infinity".to_string(),
        "-inf" => "-Infinity".to_string(),
        _ => text,
    }
}

fn hex(bytes: &[u8], out: &mut String) {
    out.push_str("\\x");
    for byte in bytes {
        out.push_str(&format!("{byte:02x}"));
    }
}

fn write_list(elements: &ArrayRef, out: &mut String) -> Result<(), SqlError> {
    let is_nested = elements.data_type().is_nested();
    out.push('{');
    let mut text = String::new();
    for row in 0..elements.len() {
        if row > 0 {
            out.push(',');
        }
        text.clear();
        if !write_value(elements, row, &mut text)? {
            out.push_str("NULL");
        } else if is_nested {
            out.push_str(&text);
        } else {
            out.push('"');
            out.push_str(&text.replace('\\', "\\\\").replace('"', "\\\""));
            out.push('"');
        }
    }
    out.push('}');
    Ok(())
}

fn out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "a timestamp is out of range")
}

/// A date of a number of days since 1970.
fn push_date(days: i64, out: &mut String) -> Result<(), SqlError> {
    let (year, month, day) = civil(days - 10_957).ok_or_else(out_of_range)?;
    out.push_str(&format!("{year:04}-{month:02}-{day:02}"));
    Ok(())
}

fn push_time(micros: i64, out: &mut String) {
    let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    out.push_str(&format!("{hour:02}:{minute:02}:{second:02}.{micros:06}"));
}
