//! Procedures: transactions that are defined once, and called by name and arguments.
//!
//! A procedure is phases of actions; an action is its work on one table (DORA, section 4.1.2: identifier,
//! mode, body). Therefore the rows that a call touches are known from its arguments before it runs. Bodies of
//! one phase do not see each other's values; a later phase sees those of the phases before (the rendezvous
//! point). A body can access only the rows that its action declares.

mod context;
mod definition;
mod domain;
mod long_values;
pub(crate) mod one_body;
mod parts;
mod predicate;
mod references;
mod repeat;
mod run;
mod with;

use std::fmt;
use std::sync::{Arc, Weak};

use crate::pipeline::call::Routine;

pub use context::{ActionContext, KeyBuilder, Values};
pub use definition::{Action, ProcedureDefinition};
pub use long_values::LongValues;
pub use predicate::Predicate;
pub(crate) use references::Naming;
pub use repeat::EachAction;
pub(crate) use run::Registered;
pub use with::ActionWith;

/// A handle of a registered procedure: cheap to clone, valid as long as its database is open. The procedure
/// is registered under its name until its last handle is dropped.
#[derive(Clone)]
pub struct Procedure {
    registered: Arc<Registered>,
    /// Shared by all handles, and by nothing else: calls under way keep what they run, not its name.
    handles: Arc<()>,
}

/// A handle that keeps nothing.
pub(crate) struct WeakProcedure {
    registered: Weak<Registered>,
    handles: Weak<()>,
}

impl WeakProcedure {
    /// Returns true if there is a handle.
    pub(crate) fn is_alive(&self) -> bool {
        self.handles.strong_count() > 0
    }

    /// A handle, if there is one still.
    pub(crate) fn upgrade(&self) -> Option<Procedure> {
        // In this order: while a handle is there, so is what it is of.
        let handles = self.handles.upgrade()?;
        Some(Procedure { registered: self.registered.upgrade()?, handles })
    }
}

impl Procedure {
    pub(crate) fn new(registered: Registered) -> Procedure {
        Procedure { registered: Arc::new(registered), handles: Arc::default() }
    }

    pub(crate) fn downgrade(&self) -> WeakProcedure {
        WeakProcedure { registered: Arc::downgrade(&self.registered), handles: Arc::downgrade(&self.handles) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.registered.name()
    }

    /// Returns true if it only reads.
    pub fn is_read_only(&self) -> bool {
        self.registered.is_read_only()
    }

    pub(crate) fn routine(&self) -> Arc<dyn Routine> {
        self.registered.clone()
    }

    pub(crate) fn shared(&self) -> &Arc<Registered> {
        &self.registered
    }

    #[inline]
    pub(crate) fn registered(&self) -> &Registered {
        &self.registered
    }

    pub(crate) fn store(&self) -> u64 {
        self.registered.store()
    }
}

impl fmt::Debug for Procedure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Procedure").field(&self.name()).finish()
    }
}
