//! A SQL error becomes an exception: `heddledb._errors.from_engine` chooses the class of PEP 249 by the SQLSTATE.

use heddle_sql::SqlError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The exception of an error.
pub fn exception(py: Python<'_>, error: &SqlError) -> PyErr {
    match make(py, error) {
        Ok(made) => PyErr::from_value(made),
        Err(failure) => failure,
    }
}

fn make<'py>(py: Python<'py>, error: &SqlError) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("message", error.message())?;
    fields.set_item("sqlstate", error.state().as_str())?;
    fields.set_item("detail", error.detail())?;
    fields.set_item("hint", error.hint())?;
    fields.set_item("position", error.position())?;
    fields.set_item("context", error.context())?;
    fields.set_item("schema_name", error.schema())?;
    fields.set_item("table_name", error.table())?;
    fields.set_item("column_name", error.column())?;
    fields.set_item("constraint_name", error.constraint())?;
    py.import("heddledb._errors")?.getattr("from_engine")?.call((), Some(&fields))
}
