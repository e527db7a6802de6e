//! Another way into the engine than its procedures: connections that make a workload's calls.

use crate::Result;
use crate::calls::Call;

/// Opens connections.
pub trait Interface: Send + Sync {
    /// Opens the connection of one caller, on the caller's own thread.
    ///
    /// # Errors
    /// The functions are not there, or there are too many connections.
    fn connect(&self) -> Result<Box<dyn Connection>>;
}

/// A caller's connection.
pub trait Connection {
    /// Makes a call, and waits until it is durable where the database wants that. The inner error is the call's own.
    ///
    /// # Errors
    /// What ends the run.
    fn call(&mut self, call: Call<'_>) -> Result<heddledb::Result<()>>;
}
