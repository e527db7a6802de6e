//! Arrow: results as streams of record batches, and streams as rows of tables.
//!
//! ```text
//! mod       streams go in and out of Python as capsules of the C data interface
//! columns   values become arrays                    stream   a query's batches, made by a thread of their own
//! load      arrays become the text of COPY
//! ```
//!
//! The table in `docs/python.md` names the Arrow type of each SQL type.

mod columns;
mod load;
mod stream;

use std::sync::Arc;

use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use heddle_sql::{SqlError, SqlState};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::rows::Table;
pub use load::{CopyText, copy_statement};
pub use stream::start;

use columns::{Columns, schema_of};

/// Rows of a cursor's result in one batch.
const BATCH_ROWS: usize = 65_536;

/// A stream as a capsule, which a consumer takes it out of.
pub fn to_capsule<'py>(
    py: Python<'py>,
    reader: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), c"arrow_array_stream")
}

/// Takes the stream out of an object that has `__arrow_c_stream__`.
pub fn from_object(object: &Bound<'_, PyAny>) -> PyResult<RecordBatchStreamReader> {
    let Ok(export) = object.getattr("__arrow_c_stream__") else {
        return Err(PyTypeError::new_err("the rows to load are an object with __arrow_c_stream__"));
    };
    let capsule = export.call0()?.cast_into::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(c"arrow_array_stream"))?;
    // SAFETY: a capsule of this name holds a valid stream; it is moved out, and marked as released, under the GIL.
    let reader = unsafe { RecordBatchStreamReader::from_raw(pointer.as_ptr().cast()) };
    reader.map_err(|error| PyValueError::new_err(error.to_string()))
}

/// The rows that a cursor has left, in batches.
pub struct TableReader {
    table: Arc<Table>,
    schema: SchemaRef,
    next: usize,
}

impl TableReader {
    /// A reader of the rows from this one on.
    pub fn new(table: Arc<Table>, next: usize) -> TableReader {
        let schema = schema_of(table.fields.as_deref().unwrap_or_default());
        TableReader { table, schema, next }
    }
}

impl Iterator for TableReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let count = BATCH_ROWS.min(self.table.row_count - self.next);
        if count == 0 {
            return None;
        }
        let fields = self.table.fields.as_deref().unwrap_or_default();
        let mut columns = Columns::new(fields, self.schema.clone());
        let rows = self.next..self.next + count;
        self.next += count;
        for row in rows {
            let values = &self.table.values[row * fields.len()..(row + 1) * fields.len()];
            if let Err(error) = columns.push(values) {
                return Some(Err(arrow_error(&error)));
            }
        }
        Some(columns.finish())
    }
}

impl RecordBatchReader for TableReader {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// An error on its way through Arrow, which knows texts only.
fn arrow_error(error: &SqlError) -> ArrowError {
    ArrowError::ExternalError(error.to_string().into())
}

/// An error that Arrow reports.
fn sql_error(error: &ArrowError) -> SqlError {
    SqlError::new(SqlState::DATA_EXCEPTION, error.to_string())
}
