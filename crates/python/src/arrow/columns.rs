//! Values become arrays of Arrow, by the types of their columns.
//!
//! # Invariants
//! - A column's Arrow type depends on its SQL type and modifier only, never on its values: all batches of a stream agree.
//! - No value is changed to fit: what its Arrow type cannot hold is an error that names the column.

use std::sync::Arc;

use arrow_array::builder::{
    ArrayBuilder, BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, Float32Builder,
    Float64Builder, Int16Builder, Int32Builder, Int64Builder, IntervalMonthDayNanoBuilder, StringBuilder,
    Time64MicrosecondBuilder, TimestampMicrosecondBuilder, UInt32Builder,
};
use arrow_array::types::IntervalMonthDayNano;
use arrow_array::{ArrayRef, ListArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::{NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field as ArrowField, IntervalUnit, Schema, SchemaRef, TimeUnit};
use heddle_sql::types::PlainEnvironment;
use heddle_sql::types::numeric::Numeric;
use heddle_sql::types::text::to_text;
use heddle_sql::{Field, SqlError, SqlState, Type, Value};

/// Days and microseconds from 1970-01-01 to 2000-01-01.
const EPOCH_DAYS: i32 = 10_957;
const EPOCH_MICROS: i64 = EPOCH_DAYS as i64 * 86_400_000_000;

/// The most digits of a decimal of 128 bits.
const DECIMAL_DIGITS_MAX: i32 = 38;

/// The schema of a result.
pub fn schema_of(fields: &[Field]) -> SchemaRef {
    let field = |field: &Field| ArrowField::new(&field.name, data_type(field.ty, field.modifier), true);
    Arc::new(Schema::new(fields.iter().map(field).collect::<Vec<_>>()))
}

/// The Arrow type of a SQL type.
fn data_type(kind: Type, modifier: i32) -> DataType {
    match kind {
        Type::Bool => DataType::Boolean,
        Type::Int2 => DataType::Int16,
        Type::Int4 => DataType::Int32,
        Type::Int8 => DataType::Int64,
        Type::Oid => DataType::UInt32,
        Type::Float4 => DataType::Float32,
        Type::Float8 => DataType::Float64,
        Type::Numeric => match precision(modifier) {
            Some((digits, scale)) => DataType::Decimal128(digits, scale),
            None => DataType::Utf8,
        },
        Type::Bytea => DataType::Binary,
        Type::Date => DataType::Date32,
        Type::Time => DataType::Time64(TimeUnit::Microsecond),
        Type::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        Type::Timestamptz => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        Type::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
        Type::Array(element) => {
            DataType::List(Arc::new(ArrowField::new("item", data_type(element.get(), modifier), true)))
        }
        _ => DataType::Utf8,
    }
}

/// Digits and scale of a numeric's modifier, if a decimal of 128 bits holds all of its values.
fn precision(modifier: i32) -> Option<(u8, i8)> {
    let packed = modifier.checked_sub(4).filter(|packed| *packed >= 0)?;
    let (digits, scale) = (packed >> 16, packed & 0x7ff);
    let fits = (1..=DECIMAL_DIGITS_MAX).contains(&digits) && scale <= digits;
    fits.then_some((digits as u8, scale as i8))
}

/// The columns of a batch that is being made.
pub struct Columns {
    schema: SchemaRef,
    columns: Vec<Column>,
    rows: usize,
}

impl Columns {
    pub fn new(fields: &[Field], schema: SchemaRef) -> Columns {
        let columns = fields.iter().map(|field| Column::new(field.ty, field.modifier)).collect();
        Columns { schema, columns, rows: 0 }
    }

    /// The number of rows that were pushed.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Adds a row of values that `portable` has made.
    pub fn push(&mut self, values: &[Value]) -> Result<(), SqlError> {
        for (at, (column, value)) in self.columns.iter_mut().zip(values).enumerate() {
            column.push(value).map_err(|error| error.with_column(self.schema.field(at).name()))?;
        }
        self.rows += 1;
        Ok(())
    }

    /// The batch; the columns are empty again.
    pub fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        let arrays: Vec<ArrayRef> = self.columns.iter_mut().map(Column::finish).collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(std::mem::take(&mut self.rows)));
        RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)
    }
}

/// A column of a batch that is being made.
enum Column {
    Bool(BooleanBuilder),
    Int2(Int16Builder),
    Int4(Int32Builder),
    Int8(Int64Builder),
    Oid(UInt32Builder),
    Float4(Float32Builder),
    Float8(Float64Builder),
    /// Decimals with their scale.
    Decimal(Decimal128Builder, i32),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
    Date(Date32Builder),
    Time(Time64MicrosecondBuilder),
    Timestamp(TimestampMicrosecondBuilder),
    Interval(IntervalMonthDayNanoBuilder),
    List(Box<List>),
}

/// A column of lists.
struct List {
    elements: Column,
    element_type: DataType,
    ends: Vec<i32>,
    count: i32,
    validity: NullBufferBuilder,
}

impl Column {
    fn new(kind: Type, modifier: i32) -> Column {
        match data_type(kind, modifier) {
            DataType::Boolean => Column::Bool(BooleanBuilder::new()),
            DataType::Int16 => Column::Int2(Int16Builder::new()),
            DataType::Int32 => Column::Int4(Int32Builder::new()),
            DataType::Int64 => Column::Int8(Int64Builder::new()),
            DataType::UInt32 => Column::Oid(UInt32Builder::new()),
            DataType::Float32 => Column::Float4(Float32Builder::new()),
            DataType::Float64 => Column::Float8(Float64Builder::new()),
            decimal @ DataType::Decimal128(_, scale) => {
                Column::Decimal(Decimal128Builder::new().with_data_type(decimal), scale.into())
            }
            DataType::Binary => Column::Bytes(BinaryBuilder::new()),
            DataType::Date32 => Column::Date(Date32Builder::new()),
            DataType::Time64(_) => Column::Time(Time64MicrosecondBuilder::new()),
            timestamp @ DataType::Timestamp(..) => {
                Column::Timestamp(TimestampMicrosecondBuilder::new().with_data_type(timestamp))
            }
            DataType::Interval(_) => Column::Interval(IntervalMonthDayNanoBuilder::new()),
            DataType::List(item) => Column::List(Box::new(List {
                elements: Column::new(kind.element().unwrap_or(Type::Text), modifier),
                element_type: item.data_type().clone(),
                ends: vec![0],
                count: 0,
                validity: NullBufferBuilder::new(0),
            })),
            _ => Column::Text(StringBuilder::new()),
        }
    }

    fn push(&mut self, value: &Value) -> Result<(), SqlError> {
        match (self, value) {
            (Column::List(list), value) => return list.push(value),
            (column, Value::Null | Value::Void) => column.push_null(),
            (Column::Bool(column), Value::Bool(value)) => column.append_value(*value),
            (Column::Int2(column), Value::Int2(value)) => column.append_value(*value),
            (Column::Int4(column), Value::Int4(value)) => column.append_value(*value),
            (Column::Int8(column), Value::Int8(value)) => column.append_value(*value),
            (Column::Oid(column), Value::Oid(value)) => column.append_value(*value),
            (Column::Float4(column), Value::Float4(value)) => column.append_value(*value),
            (Column::Float8(column), Value::Float8(value)) => column.append_value(*value),
            (Column::Decimal(column, scale), Value::Numeric(value)) => {
                column.append_value(decimal(value, *scale)?)
            }
            (Column::Text(column), Value::Text(text) | Value::Bpchar(text) | Value::Json(text)) => {
                column.append_value(text)
            }
            (Column::Text(column), Value::Numeric(value)) => column.append_value(value.to_string()),
            (Column::Text(column), Value::Uuid(bytes)) => {
                column.append_value(heddle_sql::types::text::uuid_text(bytes))
            }
            (Column::Text(column), Value::Timetz(..)) => {
                column.append_value(to_text(&PlainEnvironment::new(0), Type::Timetz, value)?);
            }
            (Column::Bytes(column), Value::Bytes(bytes)) => column.append_value(bytes),
            (Column::Date(column), Value::Date(days)) => column.append_value(date(*days)?),
            (Column::Time(column), Value::Time(micros)) => column.append_value(time(*micros)?),
            (Column::Timestamp(column), Value::Timestamp(micros) | Value::Timestamptz(micros)) => {
                column.append_value(timestamp(*micros)?)
            }
            (Column::Interval(column), Value::Interval(value)) => {
                let nanos = value.micros.checked_mul(1000).ok_or_else(|| cannot_hold("the interval"))?;
                column.append_value(IntervalMonthDayNano::new(value.months, value.days, nanos));
            }
            (_, other) => return Err(SqlError::internal(format!("no place in its column for {other:?}"))),
        }
        Ok(())
    }

    fn push_null(&mut self) {
        match self {
            Column::Bool(column) => column.append_null(),
            Column::Int2(column) => column.append_null(),
            Column::Int4(column) => column.append_null(),
            Column::Int8(column) => column.append_null(),
            Column::Oid(column) => column.append_null(),
            Column::Float4(column) => column.append_null(),
            Column::Float8(column) => column.append_null(),
            Column::Decimal(column, _) => column.append_null(),
            Column::Text(column) => column.append_null(),
            Column::Bytes(column) => column.append_null(),
            Column::Date(column) => column.append_null(),
            Column::Time(column) => column.append_null(),
            Column::Timestamp(column) => column.append_null(),
            Column::Interval(column) => column.append_null(),
            Column::List(list) => list.end(false),
        }
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let builder: &mut dyn ArrayBuilder = match self {
            Column::Bool(column) => column,
            Column::Int2(column) => column,
            Column::Int4(column) => column,
            Column::Int8(column) => column,
            Column::Oid(column) => column,
            Column::Float4(column) => column,
            Column::Float8(column) => column,
            Column::Decimal(column, _) => column,
            Column::Text(column) => column,
            Column::Bytes(column) => column,
            Column::Date(column) => column,
            Column::Time(column) => column,
            Column::Timestamp(column) => column,
            Column::Interval(column) => column,
            Column::List(list) => return list.finish(),
        };
        Ok(builder.finish())
    }
}

impl List {
    fn push(&mut self, value: &Value) -> Result<(), SqlError> {
        let Value::Array(array) = value else {
            self.end(false);
            return Ok(());
        };
        if array.dimensions.len() > 1 {
            return Err(cannot_hold("an array of several dimensions"));
        }
        for element in &array.values {
            self.elements.push(element)?;
        }
        let count = i32::try_from(array.values.len()).ok().and_then(|count| self.count.checked_add(count));
        self.count = count.ok_or_else(|| cannot_hold("so many elements of arrays in one batch"))?;
        self.end(true);
        Ok(())
    }

    /// Ends a list.
    fn end(&mut self, is_valid: bool) {
        self.ends.push(self.count);
        self.validity.append(is_valid);
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let ends = std::mem::replace(&mut self.ends, vec![0]);
        self.count = 0;
        let item = Arc::new(ArrowField::new("item", self.element_type.clone(), true));
        let offsets = OffsetBuffer::new(ScalarBuffer::from(ends));
        let list = ListArray::try_new(item, offsets, self.elements.finish()?, self.validity.finish())?;
        Ok(Arc::new(list))
    }
}

fn cannot_hold(what: &str) -> SqlError {
    let error = SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{what} has no form in Arrow"));
    error.with_hint("Cast the column in the query, for example to text.")
}

/// The coefficient of a number at a scale.
fn decimal(value: &Numeric, scale: i32) -> Result<i128, SqlError> {
    if let Numeric::Small { coefficient, scale: own } = value
        && let Ok(missing) = u32::try_from(scale - i32::from(*own))
        && let Some(scaled) =
            10i128.checked_pow(missing).and_then(|power| power.checked_mul((*coefficient).into()))
    {
        return Ok(scaled);
    }
    if !value.is_finite() {
        return Err(cannot_hold("NaN of a numeric"));
    }
    // All digits, with as many behind the point as the type has.
    let text = value.round(scale)?.to_string();
    let digits: String = text.chars().filter(|letter| *letter != '.').collect();
    digits.parse().map_err(|_| cannot_hold("the number"))
}

fn date(days: i32) -> Result<i32, SqlError> {
    let is_finite = days != i32::MAX && days != i32::MIN;
    let shifted = days.checked_add(EPOCH_DAYS).filter(|_| is_finite);
    shifted.ok_or_else(|| cannot_hold("an infinite date"))
}

fn time(micros: i64) -> Result<i64, SqlError> {
    if micros < 86_400_000_000 { Ok(micros) } else { Err(cannot_hold("the time 24:00")) }
}

fn timestamp(micros: i64) -> Result<i64, SqlError> {
    let is_finite = micros != i64::MAX && micros != i64::MIN;
    let shifted = micros.checked_add(EPOCH_MICROS).filter(|_| is_finite);
    shifted.ok_or_else(|| cannot_hold("an infinite timestamp"))
}
