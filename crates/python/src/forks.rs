//! Whether this process is a child of the one that made an object, without asking the system at each call.

use std::sync::atomic::{AtomicU32, Ordering};

/// Number of forks between the process that has loaded this module and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
    ) -> libc::c_int;
}

/// Counts the forks from now on. Call it once, when the module is loaded.
pub fn watch() -> std::io::Result<()> {
    // SAFETY: the handler does what a child may do before it starts another program: it changes an atomic.
    match unsafe { pthread_atfork(None, None, Some(count)) } {
        0 => Ok(()),
        error => Err(std::io::Error::from_raw_os_error(error)),
    }
}

unsafe extern "C" fn count() {
    // Relaxed: the child's only thread stores it; those that it starts see it.
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// The process that an object belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Process(u32);

impl Process {
    /// This process.
    pub fn current() -> Process {
        // Relaxed: see `count`.
        Process(FORKS.load(Ordering::Relaxed))
    }

    /// Returns true if this is the process in which the value was made.
    pub fn is_current(self) -> bool {
        self == Process::current()
    }
}
