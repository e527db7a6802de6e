//! Something outside of the engine that does a workload's calls, to compare with.

use heddledb::Args;

use crate::Result;
use crate::workload::Generator;

/// Does the calls of a workload without a database.
pub trait Contender: Send + Sync {
    /// Its name, which is printed in place of a protocol's.
    fn name(&self) -> &'static str;

    /// The calls of one caller: the same ones as for the engine. They have no procedures.
    fn generator(&self, seed: u64, caller: usize) -> Box<dyn Generator>;

    /// Does calls in order.
    ///
    /// # Errors
    /// Arguments that the generator does not make.
    fn run(&self, calls: &[(usize, Args)]) -> heddledb::Result<()>;

    /// Checks what the calls have left behind. The error text says what is wrong.
    fn check(&self, marks: u64) -> Result<(), String>;
}
