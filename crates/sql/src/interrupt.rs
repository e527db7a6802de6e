//! Interruption of statements by a cancel request, a terminated session, or a timeout. A function that can run long in
//! one call polls [`check`] or [`step`] without an argument, wherever it is (PostgreSQL's `CHECK_FOR_INTERRUPTS`). In
//! the same way the parser counts, wherever it is, the memory of a statement's texts ([`count_text`]).
//!
//! # Invariants
//! - A thread polls for the statement that it is running: [`enter`] sets it, until the guard that it returns is
//!   dropped. Outside of a statement every poll succeeds.
//! - The memory counted for texts is released when the thread has left the statement.
//!
//! # Concurrency
//! Any thread may cancel; those that run the statement poll. Relaxed throughout: the flag and the deadline carry no data, and a
//! statement may end a little earlier or later.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use crate::error::{Result, SqlError, SqlState};
use crate::run::memory::{Memory, SessionMemory};

/// Number of calls of [`step`] of which one polls.
const STEPS_PER_CHECK: u32 = 1024;
/// Number of bytes processed between two polls, where [`pieces`] and [`blocks`] divide them.
const PIECE_BYTES: usize = 256 << 10;
/// No deadline.
const NEVER: u64 = u64::MAX;

/// The instant from which deadlines are counted.
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

thread_local! {
    static CURRENT: RefCell<Option<Arc<Interrupt>>> = const { RefCell::new(None) };
    static STEPS: Cell<u32> = const { Cell::new(0) };
    /// Memory of the statement's texts.
    static TEXTS: RefCell<Option<Memory>> = const { RefCell::new(None) };
}

/// The requests to end a session's statement: a cancel, a deadline, a lost client.
#[derive(Debug)]
pub(crate) struct Interrupt {
    is_canceled: AtomicBool,
    /// Microseconds since [`ORIGIN`].
    deadline: AtomicU64,
    /// True if the statement ends when its client has left.
    ends_without_client: AtomicBool,
    /// The memory of the session, if it is a session's.
    memory: Option<Arc<SessionMemory>>,
}

impl Interrupt {
    pub(crate) fn new() -> Arc<Interrupt> {
        Interrupt::of_session(None)
    }

    /// The interrupt of the statements of a session, whose texts count among its memory.
    pub(crate) fn of_session(memory: Option<Arc<SessionMemory>>) -> Arc<Interrupt> {
        Arc::new(Interrupt {
            is_canceled: AtomicBool::new(false),
            deadline: AtomicU64::new(NEVER),
            ends_without_client: AtomicBool::new(false),
            memory,
        })
    }

    /// Begins a request of the client: a cancel that came before it, and found nothing to cancel, is forgotten.
    pub(crate) fn begin_request(&self) {
        self.is_canceled.store(false, Ordering::Relaxed);
    }

    /// Begins a statement, which may run for this long. A cancel that came between two statements of one request ends it.
    pub(crate) fn begin(&self, timeout: Option<Duration>) {
        let deadline = timeout.map_or(NEVER, |timeout| (ORIGIN.elapsed() + timeout).as_micros() as u64);
        self.deadline.store(deadline, Ordering::Relaxed);
    }

    /// Says whether statements from here on end when their client has left.
    pub(crate) fn set_ends_without_client(&self, ends: bool) {
        self.ends_without_client.store(ends, Ordering::Relaxed);
    }

    /// Returns true if the statement ends when its client has left.
    pub(crate) fn ends_without_client(&self) -> bool {
        self.ends_without_client.load(Ordering::Relaxed)
    }

    /// The statement is to end.
    pub(crate) fn cancel(&self) {
        self.is_canceled.store(true, Ordering::Relaxed);
    }

    /// Returns true if the statement has run for longer than it may.
    pub(crate) fn is_late(&self) -> bool {
        let deadline = self.deadline.load(Ordering::Relaxed);
        deadline != NEVER && ORIGIN.elapsed().as_micros() as u64 >= deadline
    }

    /// # Errors
    /// 57014: the statement was canceled, or its time is up.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_canceled.load(Ordering::Relaxed) {
            let message = "canceling statement due to user request";
            return Err(SqlError::new(SqlState::QUERY_CANCELED, message));
        }
        if self.is_late() { Err(SqlError::statement_timeout()) } else { Ok(()) }
    }
}

/// The statement that this thread polls for: the one before returns when the guard is dropped.
#[must_use]
pub(crate) struct Entered(Option<Arc<Interrupt>>);

impl Drop for Entered {
    fn drop(&mut self) {
        let outer = self.0.take();
        if outer.is_none() {
            TEXTS.take();
        }
        CURRENT.set(outer);
    }
}

/// This thread runs the statement.
pub(crate) fn enter(interrupt: Option<Arc<Interrupt>>) -> Entered {
    Entered(CURRENT.replace(interrupt))
}

/// The statement that this thread runs, for a thread that continues it.
pub(crate) fn current() -> Option<Arc<Interrupt>> {
    CURRENT.with_borrow(Clone::clone)
}

/// # Errors
/// 57014: the statement that this thread runs was canceled, or its time is up.
pub(crate) fn check() -> Result<()> {
    CURRENT.with_borrow(|current| current.as_ref().map_or(Ok(()), |interrupt| interrupt.check()))
}

/// Like [`check`], for each element of a long loop: few of the calls do more than count.
///
/// # Errors
/// Same errors as [`check`].
#[inline]
pub(crate) fn step() -> Result<()> {
    let steps = STEPS.get().wrapping_add(1);
    STEPS.set(steps);
    if steps.is_multiple_of(STEPS_PER_CHECK) { check() } else { Ok(()) }
}

/// Counts this much memory of a text until the statement that this thread runs has ended. A statement that parses
/// several texts one after another, as a loop with EXECUTE does, counts the largest one.
///
/// # Errors
/// 53200: the memory of all statements would exceed its limit.
pub(crate) fn count_text(bytes: usize) -> Result<()> {
    TEXTS.with_borrow_mut(|texts| {
        if texts.is_none() {
            let session = CURRENT.with_borrow(|current| current.as_ref().and_then(|it| it.memory.clone()));
            let Some(session) = session else { return Ok(()) };
            *texts = Some(Memory::of_session(usize::MAX, session));
        }
        let Some(memory) = texts else { return Ok(()) };
        memory.charge(bytes.saturating_sub(memory.used())).map_err(|_| {
            let message = "the statement's text needs more memory than the statements may take together";
            SqlError::new(SqlState::OUT_OF_MEMORY, message)
                .with_hint("send it in several statements, or raise the server's total_work_mem_bytes")
        })
    })
}

/// A text in pieces, with a poll before each.
pub(crate) fn pieces(text: &str) -> impl Iterator<Item = Result<&str>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES));
        rest = after;
        Some(check().map(|()| piece))
    })
}

/// Bytes in blocks, with a poll before each.
pub(crate) fn blocks(bytes: &[u8]) -> impl Iterator<Item = Result<&[u8]>> {
    bytes.chunks(PIECE_BYTES).map(|block| check().map(|()| block))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_polls_for_the_statement_that_it_runs_and_for_no_other() {
        let (outer, inner) = (Interrupt::new(), Interrupt::new());
        inner.cancel();
        assert!(check().is_ok());
        let entered = enter(Some(outer.clone()));
        {
            let _entered = enter(Some(inner));
            assert_eq!(check().map_err(|error| error.state()), Err(SqlState::QUERY_CANCELED));
        }
        assert!(check().is_ok());
        outer.begin(Some(Duration::ZERO));
        assert!(check().is_err() && outer.is_late());
        outer.begin(None);
        assert!(check().is_ok() && !outer.is_late());
        drop(entered);
        assert!(current().is_none());
    }

    #[test]
    fn a_cancel_between_two_statements_of_a_request_ends_the_next_one() {
        let interrupt = Interrupt::new();
        interrupt.begin_request();
        interrupt.begin(None);
        interrupt.cancel();
        interrupt.begin(None);
        assert_eq!(interrupt.check().map_err(|error| error.state()), Err(SqlState::QUERY_CANCELED));
        interrupt.begin_request();
        assert!(interrupt.check().is_ok(), "what came before a request is forgotten");
    }

    #[test]
    fn pieces_are_the_whole_text_and_end_between_characters() {
        let text = "aß漢".repeat(PIECE_BYTES / 4);
        let joined: Result<String> = pieces(&text).collect();
        assert_eq!(joined.expect("no statement is interrupted"), text);
        assert!(pieces(&text).count() > 1);
        assert_eq!(pieces("").count(), 0);
        let canceled = Interrupt::new();
        canceled.cancel();
        let _entered = enter(Some(canceled));
        assert!(pieces(&text).next().is_some_and(|piece| piece.is_err()));
        assert!(blocks(text.as_bytes()).next().is_some_and(|block| block.is_err()));
        assert!((0..STEPS_PER_CHECK).any(|_| step().is_err()));
    }
}
