//! Definitions that a crate above the engine keeps beside the tables (views, functions, types, privileges), as far as
//! transactions depend on them: how a commit publishes them, and how another one validates what it was based on.
//!
//! The engine knows neither what they are nor which of them a transaction used. A commit that changes them publishes them
//! behind the closed gate, together with its changes of tables, and begins a generation of the schema if transactions that
//! are under way may depend on what has changed. So an attempt of a transaction is of one generation, and a body that finds
//! its definitions current at any moment of the attempt commits with current ones: one comparison, which each commit makes
//! anyway. A session's transaction runs over many generations. It collects [`Dependency`] objects, and its commit asks them
//! in a separate attempt, before it enters its section.
//!
//! # Invariants
//! - No commit section is open while definitions are published.
//! - A session's transaction that has written commits only if all its dependencies hold at its commit.

/// A change of definitions, which takes effect with the commit of the session's transaction to which it is
/// passed ([`Session::commit_publishing`](crate::Session::commit_publishing)).
pub trait DefinitionChange: Send + Sync {
    /// Makes the change visible, as of a commit of this epoch. Returns true if transactions that are under way may depend on
    /// what has changed, so that they have to be retried.
    ///
    /// No transaction commits while it runs: it must be short, must not fail, and must neither use the database nor wait
    /// for a thread that does.
    fn publish(&self, epoch: u64) -> bool;
}

/// A definition that the meaning of a session's statements depended on ([`Tx::depend_on`](crate::Tx::depend_on)).
pub trait Dependency: Send + Sync {
    /// Returns true if it is as it was when it was used. It is asked outside of all commit sections.
    fn holds(&self) -> bool;
}
