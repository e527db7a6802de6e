//! The extension module `heddledb._heddledb`: the engine as the Python package sees it.
//!
//! ```text
//! opened      databases that this process has open: shared by path, closed after a fork
//! database    the class Database                     session     the class Session: one connection
//! commits     commits that the coroutines of an event loop wait for
//! statement   the class Statement: a text for many executions
//! forks       whether this process is a child of the one that made an object
//! interrupt   Ctrl-C cancels the main thread's statement
//! rows        results, collected without the GIL     errors      a SqlError becomes a class of PEP 249
//! to_python   values of results                      to_sql      values of parameters
//! arrow       results and tables as streams of Arrow's, and back
//! ```
//!
//! Everything that can be Python is Python: placeholders, transactions, retries and asyncio are in the
//! package `heddledb`.
//!
//! # Invariants
//! - No lock of this crate and no wait of the engine is held with the GIL: whatever may block is inside of `Python::detach`.
//!   The engine's threads never ask for the GIL.
//! - A thread that holds a session's lock does not ask for the GIL.

mod arrow;
mod commits;
mod database;
mod errors;
mod forks;
mod interrupt;
mod opened;
mod rows;
mod session;
mod statement;
mod to_python;
mod to_sql;

use pyo3::prelude::*;

/// The module's contents.
#[pymodule]
fn _heddledb(module: &Bound<'_, PyModule>) -> PyResult<()> {
    forks::watch()?;
    module.add_class::<database::Database>()?;
    module.add_class::<session::Session>()?;
    module.add_class::<statement::Statement>()?;
    module.add_class::<rows::Rows>()?;
    module.add_class::<commits::Commits>()?;
    module.add_function(wrap_pyfunction!(interrupt::set_main_thread, module)?)?;
    module.add_function(wrap_pyfunction!(opened::before_fork, module)?)?;
    module.add_function(wrap_pyfunction!(opened::after_fork_in_parent, module)?)?;
    module.add_function(wrap_pyfunction!(opened::after_fork_in_child, module)?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
