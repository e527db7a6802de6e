//! Rows of Parquet: files of any program, whose columns have one level. A list or a struct in a row rejects it.

use std::fs::File;
use std::io::Read;

use ::parquet::basic::{LogicalType, TimeUnit};
use ::parquet::data_type::Decimal as StoredDecimal;
use ::parquet::file::reader::{ChunkReader, FileReader, SerializedFileReader};
use ::parquet::record::Field as Stored;
use ::parquet::record::reader::RowIter;
use bytes::Bytes;
use heddledb::{Date, Decimal, Timestamp, Uuid, Value};

use crate::csv::{Dialect, write_field};
use crate::error::{Error, Rejected, Result};
use crate::field::Field;
use crate::record::{Record, Records, Target};

/// Rows of a Parquet file.
pub(crate) struct ParquetRecords {
    rows: RowIter<'static>,
    target: Target,
    /// Each column of the file: the table's column, and the meaning of its values if their type does not show
    /// it.
    columns: Vec<(usize, Meaning)>,
    row: u64,
}

/// The meaning of a value beyond its own type.
#[derive(Clone, Copy, PartialEq)]
enum Meaning {
    Itself,
    /// Nanoseconds since 1970.
    Nanoseconds,
    Uuid,
}

impl ParquetRecords {
    /// Reads a file in place.
    pub fn of_file(file: File, target: Target) -> Result<ParquetRecords> {
        ParquetRecords::new(SerializedFileReader::new(file)?, target)
    }

    /// Reads all bytes first: the end of a Parquet file describes its content.
    pub fn of_input(mut input: impl Read, target: Target) -> Result<ParquetRecords> {
        let mut bytes = Vec::new();
        input.read_to_end(&mut bytes)?;
        ParquetRecords::new(SerializedFileReader::new(Bytes::from(bytes))?, target)
    }

    fn new(
        reader: SerializedFileReader<impl ChunkReader + 'static>,
        target: Target,
    ) -> Result<ParquetRecords> {
        let schema = reader.metadata().file_metadata().schema().clone();
        let mut columns = Vec::new();
        for field in schema.get_fields() {
            let meaning = match field.get_basic_info().logical_type_ref() {
                Some(LogicalType::Timestamp(of)) if of.unit == TimeUnit::NANOS => Meaning::Nanoseconds,
                Some(LogicalType::Uuid) => Meaning::Uuid,
                _ => Meaning::Itself,
            };
            columns.push((target.position(field.name())?, meaning));
        }
        let rows = RowIter::from_file_into(Box::new(reader));
        Ok(ParquetRecords { rows, target, columns, row: 0 })
    }
}

impl Records for ParquetRecords {
    fn next_record(&mut self) -> Result<Option<std::result::Result<Record, Rejected>>> {
        let Some(row) = self.rows.next() else { return Ok(None) };
        self.row += 1;
        let row = row.map_err(|error| Error::Malformed { line: self.row, detail: error.to_string() })?;
        let (mut fields, mut text) = (vec![None; self.target.columns.len()], String::new());
        let mut wrong = None;
        for ((name, stored), (position, meaning)) in row.into_columns().into_iter().zip(&self.columns) {
            text.push_str(if text.is_empty() { "" } else { "," });
            match field_of(&stored, *meaning) {
                Ok(field) => {
                    write_field(field.to_text().as_deref(), &Dialect::default(), false, false, &mut text);
                    fields[*position] = Some(field);
                }
                Err(reason) => wrong = Some((name, reason)),
            }
        }
        let line = self.row;
        Ok(Some(match wrong {
            None => Ok(Record { line, text, fields }),
            Some((column, reason)) => Err(Rejected { line, column: Some(column), reason, text }),
        }))
    }
}

/// A value of the file as one of the engine's; otherwise the reason for which it is none.
fn field_of(stored: &Stored, meaning: Meaning) -> std::result::Result<Field, String> {
    let engine = |error: heddledb::Error| error.to_string();
    let microseconds = |time: i64| Timestamp::from_microseconds(time).map(Value::Timestamp).map_err(engine);
    Ok(Field::Value(match stored {
        Stored::Null => return Ok(Field::Null),
        Stored::Bool(value) => Value::Bool(*value),
        Stored::Byte(value) => Value::Int(i64::from(*value)),
        Stored::Short(value) => Value::Int(i64::from(*value)),
        Stored::Int(value) => Value::Int(i64::from(*value)),
        Stored::Long(value) if meaning == Meaning::Nanoseconds => microseconds(value.div_euclid(1_000))?,
        Stored::Long(value) => Value::Int(*value),
        Stored::UByte(value) => Value::Int(i64::from(*value)),
        Stored::UShort(value) => Value::Int(i64::from(*value)),
        Stored::UInt(value) => Value::Int(i64::from(*value)),
        Stored::ULong(value) => return Ok(Field::Text(value.to_string())),
        Stored::Float16(value) => Value::Float(f64::from(*value)),
        Stored::Float(value) => Value::Float(f64::from(*value)),
        Stored::Double(value) => Value::Float(*value),
        Stored::Decimal(value) => Value::Decimal(decimal_of(value)?),
        Stored::Str(text) => return Ok(Field::Text(text.clone())),
        Stored::Bytes(bytes) if meaning == Meaning::Uuid => {
            let bytes = bytes.data().try_into().map_err(|_| "a UUID has 16 bytes".to_string())?;
            Value::Uuid(Uuid::from_bytes(bytes))
        }
        Stored::Bytes(bytes) => Value::Bytes(bytes.data().to_vec()),
        Stored::Date(days) => Value::Date(Date::from_days(*days).map_err(engine)?),
        Stored::TimestampMillis(time) => microseconds(time.saturating_mul(1_000))?,
        Stored::TimestampMicros(time) => microseconds(*time)?,
        Stored::TimeMillis(time) => {
            return Ok(Field::Text(time_of_day(i64::from(*time).saturating_mul(1_000))));
        }
        Stored::TimeMicros(time) => return Ok(Field::Text(time_of_day(*time))),
        Stored::Group(_) | Stored::ListInternal(_) | Stored::MapInternal(_) => {
            return Err("lists, maps and structs are not supported; write them as JSON in a text".to_string());
        }
    }))
}

/// A time of day as text, from microseconds since midnight.
fn time_of_day(microseconds: i64) -> String {
    let (seconds, fraction) = (microseconds.div_euclid(1_000_000), microseconds.rem_euclid(1_000_000));
    let text = format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60);
    if fraction == 0 { text } else { format!("{text}.{fraction:06}").trim_end_matches('0').to_string() }
}

fn decimal_of(stored: &StoredDecimal) -> std::result::Result<Decimal, String> {
    let beyond = || "a decimal has 38 digits at most".to_string();
    let bytes = stored.data();
    let (sign, digits) = match bytes.first() {
        Some(first) if first & 0x80 != 0 => (0xFF, bytes),
        _ => (0, bytes),
    };
    // Longer ones are fine as long as what is cut off says nothing.
    let (cut, kept) = digits.split_at(digits.len().saturating_sub(16));
    if cut.iter().any(|&byte| byte != sign)
        || (!cut.is_empty() && kept.first().map(|byte| byte & 0x80) != Some(sign & 0x80))
    {
        return Err(beyond());
    }
    let mut whole = [sign; 16];
    whole[16 - kept.len()..].copy_from_slice(kept);
    let scale = u8::try_from(stored.scale()).map_err(|_| beyond())?;
    Decimal::new(i128::from_be_bytes(whole), scale).map_err(|error| error.to_string())
}
