//! `std::thread`, where the checker chooses the thread that runs.
//!
//! No time passes under a checker: a sleep is a turn given away, and a sleep with a limit never times out, so that
//! a wake-up which the limit would make good in the end is found lost.

use std::time::Duration;

/// Of the machine: recovery from a directory, which uses it, is in no model.
pub use std::thread::scope;
pub use std::thread::{available_parallelism, panicking};

pub use crate::checker::thread::{JoinHandle, Thread, ThreadId, current, park, spawn};

/// A thread with a name: the checker's, or one of the machine's in a scope.
#[derive(Debug, Default)]
pub struct Builder {
    name: String,
}

impl Builder {
    pub fn new() -> Builder {
        Builder::default()
    }

    pub fn name(self, name: String) -> Builder {
        Builder { name }
    }

    pub fn spawn<T: Send + 'static>(
        self,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> std::io::Result<JoinHandle<T>> {
        crate::checker::thread::Builder::new().name(self.name).spawn(body)
    }

    pub fn spawn_scoped<'scope, T: Send + 'scope>(
        self,
        scope: &'scope std::thread::Scope<'scope, '_>,
        body: impl FnOnce() -> T + Send + 'scope,
    ) -> std::io::Result<std::thread::ScopedJoinHandle<'scope, T>> {
        std::thread::Builder::new().name(self.name).spawn_scoped(scope, body)
    }
}

/// Lets others run first.
pub fn yield_now() {
    crate::checker::yield_now();
}

/// Lets others run first.
pub fn sleep(_time: Duration) {
    crate::checker::yield_now();
}

/// Sleeps until another thread wakes this thread.
pub fn park_timeout(_time: Duration) {
    park();
}

/// `rustix`: the asymmetric barrier of the system's, which no checker has. So both its sides are fences.
pub use membarrier::{MembarrierCommand, MembarrierQuery, membarrier, membarrier_query};

mod membarrier {
    /// Nothing is offered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct MembarrierQuery(u32);

    impl MembarrierQuery {
        pub const PRIVATE_EXPEDITED: MembarrierQuery = MembarrierQuery(1);
        pub const REGISTER_PRIVATE_EXPEDITED: MembarrierQuery = MembarrierQuery(2);

        pub fn contains(self, other: MembarrierQuery) -> bool {
            self.0 & other.0 == other.0
        }
    }

    impl std::ops::BitOr for MembarrierQuery {
        type Output = MembarrierQuery;

        fn bitor(self, other: MembarrierQuery) -> MembarrierQuery {
            MembarrierQuery(self.0 | other.0)
        }
    }

    /// Commands that are never issued, since none is offered.
    #[derive(Clone, Copy, Debug)]
    pub enum MembarrierCommand {
        RegisterPrivateExpedited,
        PrivateExpedited,
    }

    pub fn membarrier_query() -> MembarrierQuery {
        MembarrierQuery(0)
    }

    pub fn membarrier(_command: MembarrierCommand) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}
