//! The class Statement: a text for many executions with other parameters.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::errors::exception;
use crate::rows::{Table, row_of, rows_of};
use crate::session::Session;
use heddle_sql::{SqlError, SqlState};

/// A prepared statement of a connection.
#[pyclass(frozen, module = "heddledb._heddledb")]
pub struct Statement {
    session: Py<Session>,
    text: String,
    opens_block: bool,
}

impl Statement {
    fn run(&self, py: Python<'_>, parameters: &Bound<'_, PyTuple>) -> PyResult<Table> {
        let row: Vec<_> = parameters.iter().collect();
        let tables = self.session.get().run_rows(py, &self.text, &[row], self.opens_block)?;
        Ok(tables.into_iter().next().unwrap_or_default())
    }

    /// Runs it, and returns its rows.
    fn query(&self, py: Python<'_>, parameters: &Bound<'_, PyTuple>) -> PyResult<Table> {
        let table = self.run(py, parameters)?;
        if table.fields.is_none() {
            let error = SqlError::new(SqlState::SYNTAX_ERROR, "the statement returns no rows");
            return Err(exception(py, &error.with_hint("Use execute.")));
        }
        Ok(table)
    }
}

#[pymethods]
impl Statement {
    /// Makes a statement of a session, whose text has `$1`, `$2`, …
    #[new]
    fn new(session: Py<Session>, text: String, opens_block: bool) -> Statement {
        Statement { session, text, opens_block }
    }

    /// The statement's text.
    #[getter]
    fn text(&self) -> &str {
        &self.text
    }

    /// Runs the statement: the number of rows that it returned or wrote; -1 if it has no such number.
    #[pyo3(signature = (*parameters))]
    fn execute(&self, py: Python<'_>, parameters: &Bound<'_, PyTuple>) -> PyResult<i64> {
        let table = self.run(py, parameters)?;
        let last = table.tag.rsplit(' ').next();
        Ok(last.and_then(|number| number.parse().ok()).unwrap_or(-1))
    }

    /// The first row; `None` if there is none.
    #[pyo3(signature = (*parameters))]
    fn fetchone<'py>(
        &self,
        py: Python<'py>,
        parameters: &Bound<'py, PyTuple>,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let table = self.query(py, parameters)?;
        (table.row_count > 0).then(|| row_of(py, &table, 0)).transpose()
    }

    /// All rows.
    #[pyo3(signature = (*parameters))]
    fn fetchall<'py>(
        &self,
        py: Python<'py>,
        parameters: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyList>> {
        let table = self.query(py, parameters)?;
        rows_of(py, &table, 0, table.row_count)
    }
}
