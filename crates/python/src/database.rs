//! The class Database: a handle of an open database.

use std::path::PathBuf;

use heddledb::{Durability, Options};
use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::exception;
use crate::opened::Handle;
use crate::session::Session;

/// A database that this process has open.
#[pyclass(frozen, module = "heddledb._heddledb")]
pub struct Database {
    /// `None` after `close`.
    handle: Mutex<Option<Handle>>,
}

#[pymethods]
impl Database {
    /// Opens the database in a directory, or one in memory.
    #[new]
    #[pyo3(signature = (path, durability=None))]
    fn new(py: Python<'_>, path: Option<PathBuf>, durability: Option<&str>) -> PyResult<Database> {
        let options = Options::default();
        let options = match durability {
            None => options,
            Some("group") => options.durability(Durability::Group),
            Some("async") => options.durability(Durability::Async),
            Some("none") => options.durability(Durability::None),
            Some(other) => {
                let message = format!("durability is \"group\", \"async\" or \"none\", not {other:?}");
                return Err(PyValueError::new_err(message));
            }
        };
        let handle = py.detach(|| match &path {
            Some(path) => Handle::open(path, options),
            None => Handle::in_memory(),
        });
        let handle = handle.map_err(|error| exception(py, &error))?;
        Ok(Database { handle: Mutex::new(Some(handle)) })
    }

    /// A new session; `None` if this handle was closed.
    #[pyo3(signature = (user=None))]
    fn session(&self, py: Python<'_>, user: Option<String>) -> PyResult<Option<Session>> {
        let made = py.detach(|| {
            let handle = self.handle.lock().clone();
            handle.map(|handle| Session::open(handle, user)).transpose()
        });
        made.map_err(|error| exception(py, &error))
    }

    /// The directory; `None` for a database in memory, and after `close`.
    #[getter]
    fn path(&self, py: Python<'_>) -> Option<PathBuf> {
        py.detach(|| self.handle.lock().as_ref()?.path().map(PathBuf::from))
    }

    /// Checks constraints and indexes in a snapshot: the numbers of rows and of index entries that were looked at.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        let checked = py.detach(|| {
            let handle = self.handle.lock().clone();
            let Some(handle) = handle else { return Ok(()) };
            handle.sql()?.database().check()?;
            Ok(())
        });
        checked.map_err(|error| exception(py, &error))
    }

    /// Closes this handle: the last handle or session closes the database.
    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            let handle = self.handle.lock().take();
            drop(handle);
        });
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.get_mut().take() {
            drop_without_gil(handle);
        }
    }
}

/// Drops what may wait for the engine.
pub fn drop_without_gil<T: Send>(value: T) {
    Python::attach(|py| py.detach(|| drop(value)));
}
