//! Rows into Parquet: they are kept until they make a row group, and written column by column.
//!
//! Every column is written as it is, without compression or our own statistics; a decimal takes 4, 8 or 16
//! bytes, by its precision.

use std::io::Write;
use std::sync::Arc;

use ::parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical};
use ::parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType as Stored, DoubleType, FixedLenByteArray,
    FixedLenByteArrayType, Int32Type, Int64Type,
};
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use ::parquet::schema::types::{Type, TypePtr};
use heddledb::{DataType, Value};

use crate::error::Result;
use crate::field::json_of;
use crate::writer::{Column, Writer};

/// A row group ends at this many rows, or bytes of long values, whichever is reached first.
const GROUP_ROWS: usize = 64 * 1024;
const GROUP_BYTES: usize = 64 << 20;

/// Writes rows into a Parquet file.
pub(crate) struct ParquetWriter<W: Write + Send> {
    /// The file; `None` once it is finished.
    file: Option<SerializedFileWriter<W>>,
    columns: Vec<Column>,
    /// The values of the row group, by column.
    group: Vec<Vec<Value>>,
    bytes: usize,
}

impl<W: Write + Send> ParquetWriter<W> {
    pub fn new(output: W, columns: &[Column]) -> Result<ParquetWriter<W>> {
        let fields = columns.iter().map(field).collect::<Result<Vec<TypePtr>>>()?;
        let schema = Type::group_type_builder("table").with_fields(fields).build()?;
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let file = SerializedFileWriter::new(output, Arc::new(schema), Arc::new(properties))?;
        let group = columns.iter().map(|_| Vec::new()).collect();
        Ok(ParquetWriter { file: Some(file), columns: columns.to_vec(), group, bytes: 0 })
    }

    fn write_group(&mut self) -> Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        if self.group.first().is_none_or(Vec::is_empty) {
            return Ok(());
        }
        let mut group = file.next_row_group()?;
        let mut columns = self.columns.iter().zip(&mut self.group);
        while let Some(mut writer) = group.next_column()? {
            if let Some((column, values)) = columns.next() {
                write_column(&mut writer, column, values)?;
                values.clear();
            }
            writer.close()?;
        }
        group.close()?;
        self.bytes = 0;
        Ok(())
    }
}

impl<W: Write + Send> Writer for ParquetWriter<W> {
    fn row(&mut self, values: &[Value]) -> Result<()> {
        for (column, value) in self.group.iter_mut().zip(values) {
            self.bytes += match value {
                Value::Text(text) => text.len(),
                Value::Bytes(bytes) => bytes.len(),
                _ => 0,
            };
            column.push(value.clone());
        }
        let rows = self.group.first().map_or(0, Vec::len);
        if rows >= GROUP_ROWS || self.bytes >= GROUP_BYTES { self.write_group() } else { Ok(()) }
    }

    fn finish(&mut self) -> Result<()> {
        self.write_group()?;
        if let Some(file) = self.file.take() {
            file.into_inner()?.flush()?;
        }
        Ok(())
    }
}

fn field(column: &Column) -> Result<TypePtr> {
    let (physical, logical, length) = match &column.data_type {
        DataType::Bool => (Physical::BOOLEAN, None, 0),
        DataType::Int32 => (Physical::INT32, None, 0),
        DataType::Int64 => (Physical::INT64, None, 0),
        DataType::Float64 => (Physical::DOUBLE, None, 0),
        DataType::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String), 0),
        DataType::Bytes => (Physical::BYTE_ARRAY, None, 0),
        DataType::Date => (Physical::INT32, Some(LogicalType::Date), 0),
        DataType::Timestamp => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MICROS)), 0),
        DataType::Uuid => (Physical::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Uuid), 16),
        DataType::OrderedTuple(_) | DataType::TopK { .. } => {
            (Physical::BYTE_ARRAY, Some(LogicalType::Json), 0)
        }
        DataType::Decimal { precision, scale } => {
            let logical = LogicalType::decimal(i32::from(*scale), i32::from(*precision));
            let (physical, length) = match precision {
                ..=9 => (Physical::INT32, 0),
                10..=18 => (Physical::INT64, 0),
                _ => (Physical::FIXED_LEN_BYTE_ARRAY, 16),
            };
            (physical, Some(logical), length)
        }
    };
    let repetition = if column.not_null { Repetition::REQUIRED } else { Repetition::OPTIONAL };
    let mut builder = Type::primitive_type_builder(&column.name, physical)
        .with_repetition(repetition)
        .with_logical_type(logical)
        .with_length(length);
    if let DataType::Decimal { precision, scale } = column.data_type {
        builder = builder.with_precision(i32::from(precision)).with_scale(i32::from(scale));
    }
    Ok(Arc::new(builder.build()?))
}

fn write_column(writer: &mut SerializedColumnWriter<'_>, column: &Column, values: &[Value]) -> Result<()> {
    match &column.data_type {
        DataType::Bool => write::<BoolType>(writer, column, values, |value| match value {
            Value::Bool(value) => Some(*value),
            _ => None,
        }),
        DataType::Int32 | DataType::Date | DataType::Decimal { precision: ..=9, .. } => {
            // What a column holds is within its bounds.
            write::<Int32Type>(writer, column, values, |value| number_of(value).map(|number| number as i32))
        }
        DataType::Int64 | DataType::Timestamp | DataType::Decimal { precision: 10..=18, .. } => {
            write::<Int64Type>(writer, column, values, |value| number_of(value).map(|number| number as i64))
        }
        DataType::Float64 => write::<DoubleType>(writer, column, values, |value| match value {
            Value::Float(value) => Some(*value),
            _ => None,
        }),
        DataType::Uuid | DataType::Decimal { .. } => {
            write::<FixedLenByteArrayType>(writer, column, values, |value| {
                let bytes = match value {
                    Value::Uuid(uuid) => uuid.bytes(),
                    other => number_of(other)?.to_be_bytes(),
                };
                Some(FixedLenByteArray::from(bytes.to_vec()))
            })
        }
        DataType::Text | DataType::Bytes => {
            write::<ByteArrayType>(writer, column, values, |value| match value {
                Value::Text(text) => Some(ByteArray::from(text.as_str())),
                Value::Bytes(bytes) => Some(ByteArray::from(bytes.clone())),
                _ => None,
            })
        }
        data_type @ (DataType::OrderedTuple(_) | DataType::TopK { .. }) => {
            let texts = values.iter().map(|value| {
                let mut text = String::new();
                json_of(value, data_type, &mut text)?;
                Ok(if value.is_null() { Value::Null } else { Value::Text(text) })
            });
            let texts = texts.collect::<heddledb::Result<Vec<Value>>>()?;
            let column = Column { data_type: DataType::Text, ..column.clone() };
            write_column(writer, &column, &texts)
        }
    }
}

/// A value that is a number to Parquet.
fn number_of(value: &Value) -> Option<i128> {
    match value {
        Value::Int(int) => Some(i128::from(*int)),
        Value::Decimal(decimal) => Some(decimal.unscaled()),
        Value::Date(date) => Some(i128::from(date.days())),
        Value::Timestamp(timestamp) => Some(i128::from(timestamp.microseconds())),
        _ => None,
    }
}

fn write<T: Stored>(
    writer: &mut SerializedColumnWriter<'_>,
    column: &Column,
    values: &[Value],
    stored: impl Fn(&Value) -> Option<T::T>,
) -> Result<()> {
    let stored_values: Vec<Option<T::T>> = values.iter().map(stored).collect();
    let levels: Vec<i16> = stored_values.iter().map(|value| i16::from(value.is_some())).collect();
    let present: Vec<T::T> = stored_values.into_iter().flatten().collect();
    let levels = (!column.not_null).then_some(levels.as_slice());
    writer.typed::<T>().write_batch(&present, levels, None)?;
    Ok(())
}
