//! Results: collected without the GIL, and converted row by row when they are fetched.

use std::sync::Arc;

use heddle_sql::types::array::ArrayValue;
use heddle_sql::types::record::RecordValue;
use heddle_sql::types::text::to_text;
use heddle_sql::{CopyFormat, CopySource, Environment, Field, Fields, ResultSink, SqlError, Type, Value};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyList, PyTuple};

use crate::arrow::{TableReader, to_capsule};
use crate::to_python::to_python;

/// Rows in one piece: values row by row.
#[derive(Default)]
pub struct Table {
    /// `None` if the statement returns no rows.
    pub fields: Option<Fields>,
    pub values: Vec<Value>,
    pub row_count: usize,
    pub tag: String,
    /// The output of COPY … TO STDOUT.
    pub data: Vec<u8>,
}

/// A sink that keeps all results of a text.
#[derive(Default)]
pub struct Collector<'d> {
    pub tables: Vec<Table>,
    current: Table,
    /// The data of COPY … FROM STDIN: appends a piece, and returns false behind the last one.
    input: Option<&'d mut dyn FnMut(&mut Vec<u8>) -> Result<bool, SqlError>>,
}

impl<'d> Collector<'d> {
    /// A collector with the data of a COPY … FROM STDIN.
    pub fn with_input(input: &'d mut dyn FnMut(&mut Vec<u8>) -> Result<bool, SqlError>) -> Collector<'d> {
        Collector { input: Some(input), ..Collector::default() }
    }
}

impl ResultSink for Collector<'_> {
    fn describe(&mut self, fields: &[Field]) -> Result<(), SqlError> {
        self.current.fields = Some(fields.into());
        Ok(())
    }

    fn row(&mut self, values: &[Value], environment: &dyn Environment) -> Result<(), SqlError> {
        let fields = self.current.fields.as_deref().unwrap_or_default();
        for (at, value) in values.iter().enumerate() {
            let kind = fields.get(at).map_or(Type::Text, |field| field.ty);
            self.current.values.push(portable(environment, kind, value)?);
        }
        self.current.row_count += 1;
        Ok(())
    }

    fn complete(&mut self, tag: &str) -> Result<(), SqlError> {
        self.current.tag = tag.to_string();
        self.tables.push(std::mem::take(&mut self.current));
        Ok(())
    }

    fn empty(&mut self) {
        self.tables.push(Table::default());
    }

    fn copy_in(&mut self, _format: CopyFormat, _columns: usize) -> Result<&mut dyn CopySource, SqlError> {
        if self.input.is_none() {
            return Err(SqlError::unsupported("COPY FROM STDIN needs data")
                .with_hint("Use Connection.copy_from(text, data)."));
        }
        Ok(self)
    }

    fn copy_out(&mut self, _format: CopyFormat, _columns: usize) -> Result<(), SqlError> {
        Ok(())
    }

    fn copy_data(&mut self, data: &[u8]) -> Result<(), SqlError> {
        self.current.data.extend_from_slice(data);
        Ok(())
    }
}

impl CopySource for Collector<'_> {
    fn next(&mut self, into: &mut Vec<u8>) -> Result<bool, SqlError> {
        self.input.as_mut().map_or(Ok(false), |input| input(into))
    }
}

/// A value that can be converted without its session: labels for enums, texts for what Python has no type for.
pub fn portable(environment: &dyn Environment, kind: Type, value: &Value) -> Result<Value, SqlError> {
    Ok(match (kind, value) {
        (_, Value::Null | Value::Void) => Value::Null,
        (Type::Jsonb, _) => Value::Json(Arc::from(to_text(environment, kind, value)?)),
        (_, Value::Array(array)) if !is_plain(array.element) => {
            let element = |value| portable(environment, array.element, value);
            let values = array.values.iter().map(element).collect::<Result<_, _>>()?;
            Value::array(ArrayValue::with_dimensions(array.element, array.dimensions.clone(), values))
        }
        (Type::Array(_), Value::Array(_)) => value.clone(),
        (_, Value::Record(record)) => {
            let fields = record.values.iter().zip(record.fields.iter());
            let field = |(value, field): (&Value, &heddle_sql::types::record::RecordField)| {
                portable(environment, field.kind, value)
            };
            let values = fields.map(field).collect::<Result<_, _>>()?;
            Value::Record(Arc::new(RecordValue { fields: record.fields.clone(), values }))
        }
        (kind, value) if is_plain(kind) => value.clone(),
        _ => Value::text(to_text(environment, kind, value)?),
    })
}

/// Returns true if the type of a value suffices to convert it to Python.
fn is_plain(kind: Type) -> bool {
    matches!(
        kind,
        Type::Bool
            | Type::Bytea
            | Type::Int2
            | Type::Int4
            | Type::Int8
            | Type::Float4
            | Type::Float8
            | Type::Numeric
            | Type::Text
            | Type::Varchar
            | Type::Bpchar
            | Type::Name
            | Type::Date
            | Type::Time
            | Type::Timetz
            | Type::Timestamp
            | Type::Timestamptz
            | Type::Interval
            | Type::Uuid
            | Type::Json
            | Type::Oid
    )
}

/// The result of one statement.
#[pyclass(frozen, module = "heddledb._heddledb")]
pub struct Rows {
    table: Arc<Table>,
    /// The next row.
    position: Mutex<usize>,
}

impl Rows {
    pub fn new(table: Table) -> Rows {
        Rows { table: Arc::new(table), position: Mutex::new(0) }
    }

    /// Takes at most `count` rows: returns the position of the first, and their number.
    fn take(&self, count: usize) -> (usize, usize) {
        let mut position = self.position.lock();
        let start = *position;
        let count = count.min(self.table.row_count - start);
        *position = start + count;
        (start, count)
    }
}

/// A row of a table.
pub fn row_of<'py>(py: Python<'py>, table: &Table, number: usize) -> PyResult<Bound<'py, PyTuple>> {
    let width = table.fields.as_ref().map_or(0, |fields| fields.len());
    let values = &table.values[number * width..(number + 1) * width];
    let values = values.iter().map(|value| to_python(py, value)).collect::<PyResult<Vec<_>>>()?;
    PyTuple::new(py, values)
}

/// Rows of a table: `count` ones from `start`.
pub fn rows_of<'py>(
    py: Python<'py>,
    table: &Table,
    start: usize,
    count: usize,
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for number in start..start + count {
        list.append(row_of(py, table, number)?)?;
    }
    Ok(list)
}

#[pymethods]
impl Rows {
    /// Name, oid and modifier of each column; `None` if the statement returns no rows.
    #[getter]
    fn columns(&self) -> Option<Vec<(&str, u32, i32)>> {
        let fields = self.table.fields.as_ref()?;
        Some(fields.iter().map(|field| (field.name.as_str(), field.ty.oid(), field.modifier)).collect())
    }

    /// The command tag, such as `INSERT 0 1`.
    #[getter]
    fn tag(&self) -> &str {
        &self.table.tag
    }

    /// The number of rows.
    fn __len__(&self) -> usize {
        self.table.row_count
    }

    /// The output of COPY … TO STDOUT.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.table.data)
    }

    /// The next row; `None` behind the last one.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let (start, count) = self.take(1);
        if count == 0 { Ok(None) } else { row_of(py, &self.table, start).map(Some) }
    }

    /// The rows that are left, as a stream of Arrow's.
    fn arrow<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let (start, _) = self.take(usize::MAX);
        to_capsule(py, Box::new(TableReader::new(self.table.clone(), start)))
    }

    /// Up to `count` rows.
    fn fetch<'py>(&self, py: Python<'py>, count: usize) -> PyResult<Bound<'py, PyList>> {
        let (start, count) = self.take(count);
        rows_of(py, &self.table, start, count)
    }
}
