//! Ctrl-C cancels the statement that Python's main thread waits for.
//!
//! Python runs handlers of signals in its main thread only, and only between instructions of its interpreter: while that
//! thread waits in the engine, `SIGINT` is no more than a mark. So the handler of the system, which Python has installed, is
//! wrapped by one that also wakes a thread of this module, which cancels the main thread's statement; the statement ends,
//! and Python's own handler runs, which raises KeyboardInterrupt unless the program has another one.
//!
//! # Invariants
//! - The handler does what handlers may: it stores two atomics, writes to a pipe, and calls the handler that it wraps.
//! - Python's handler is wrapped, never one of the system (`SIG_DFL`, `SIG_IGN`), and again after it was replaced.

use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use heddle_sql::Canceller;
use parking_lot::Mutex;
use pyo3::prelude::*;

/// Interval after which the canceling thread tries again: the statement may not have begun.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// Python's main thread.
static MAIN_THREAD: AtomicU64 = AtomicU64::new(0);
/// The statement that the main thread waits for.
static CURRENT: Mutex<Option<Canceller>> = Mutex::new(None);
/// True if a signal was received that the main thread has not seen.
static IS_PENDING: AtomicBool = AtomicBool::new(false);
/// The end of the pipe that the handler writes to; -1 before there is one.
static PIPE: AtomicI32 = AtomicI32::new(-1);
/// The handler that is wrapped.
static WRAPPED: AtomicUsize = AtomicUsize::new(0);

/// Sets Python's main thread, by `threading.get_ident`.
#[pyfunction]
pub fn set_main_thread(thread: u64) {
    // Relaxed: the thread in question reads it, or one that Python starts afterwards.
    MAIN_THREAD.store(thread, Ordering::Relaxed);
    // A child of a fork has no thread that reads the pipe.
    PIPE.store(-1, Ordering::Relaxed);
}

/// While it lives, `SIGINT` cancels the statement; made by the main thread only.
pub struct Interruptible(());

impl Interruptible {
    /// Lets `SIGINT` cancel this statement, if this is Python's main thread. [`see_signals`] must be called
    /// before it.
    pub fn enter(canceller: &Canceller) -> Option<Interruptible> {
        if !is_main_thread() || !wrap_handler() {
            return None;
        }
        *CURRENT.lock() = Some(canceller.clone());
        // Relaxed: this thread's handler has set it.
        if IS_PENDING.load(Ordering::Relaxed) {
            wake();
        }
        Some(Interruptible(()))
    }
}

impl Drop for Interruptible {
    fn drop(&mut self) {
        *CURRENT.lock() = None;
        // Relaxed: a canceling thread that misses it finds no statement.
        IS_PENDING.store(false, Ordering::Relaxed);
    }
}

fn is_main_thread() -> bool {
    // SAFETY: the function has no preconditions.
    let thread = unsafe { libc::pthread_self() } as u64;
    // Relaxed: see `set_main_thread`.
    thread == MAIN_THREAD.load(Ordering::Relaxed)
}

/// Runs Python's handlers of the signals that were received. Called before a statement.
pub fn see_signals(py: Python<'_>) -> PyResult<()> {
    if is_main_thread() {
        // Relaxed: this thread's handler sets it.
        IS_PENDING.store(false, Ordering::Relaxed);
    }
    py.check_signals()
}

/// Wakes the canceling thread.
fn wake() {
    let byte = 0u8;
    // SAFETY: writing to a descriptor is allowed in handlers; a full pipe wakes its reader as well (it never blocks).
    // Relaxed: the pipe is made before the handler is installed.
    unsafe { libc::write(PIPE.load(Ordering::Relaxed), (&raw const byte).cast(), 1) };
}

/// Makes sure that the handler of `SIGINT` is ours, around Python's. Returns false if the program wants none of Python's.
fn wrap_handler() -> bool {
    let mut current = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the pointer is to memory of the right size, and no action is given.
    let asked = unsafe { libc::sigaction(libc::SIGINT, null_mut(), current.as_mut_ptr()) };
    // SAFETY: all bits zero are a valid value, and the call has written the rest.
    let mut action = unsafe { current.assume_init() };
    let ours = handle as *const () as usize;
    if asked != 0 || matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN) {
        return false;
    }
    // Relaxed: only the main thread stores it while there are threads.
    let has_pipe = PIPE.load(Ordering::Relaxed) >= 0;
    if action.sa_sigaction == ours && has_pipe {
        return true;
    }
    if !has_pipe && !start_canceling() {
        return false;
    }
    if action.sa_sigaction != ours {
        if action.sa_flags & libc::SA_SIGINFO != 0 {
            // Not Python's.
            return false;
        }
        // Release pairs with the acquire in `handle`.
        WRAPPED.store(action.sa_sigaction, Ordering::Release);
        action.sa_sigaction = ours;
        // SAFETY: the action is the one that was there, with a handler that calls that one's.
        unsafe { libc::sigaction(libc::SIGINT, &raw const action, null_mut()) };
    }
    true
}

/// The handler of `SIGINT`.
extern "C" fn handle(signal: libc::c_int) {
    // Relaxed: the canceling thread reads it after it has read from the pipe, or a little later.
    IS_PENDING.store(true, Ordering::Relaxed);
    wake();
    // Acquire pairs with the release in `wrap_handler`.
    let wrapped = WRAPPED.load(Ordering::Acquire);
    if wrapped != 0 {
        // SAFETY: it was installed as a handler that takes the signal's number.
        let wrapped: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(wrapped) };
        wrapped(signal);
    }
}

/// Starts the canceling thread. Returns false if the system refuses it.
fn start_canceling() -> bool {
    let mut ends = [0; 2];
    // SAFETY: the array has room for two descriptors.
    if unsafe { libc::pipe(ends.as_mut_ptr()) } != 0 {
        return false;
    }
    let [read, write] = ends;
    for end in ends {
        // SAFETY: the descriptor is ours. An interpreter that is started must not inherit it.
        unsafe { libc::fcntl(end, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    // SAFETY: as above. The handler must never block.
    unsafe { libc::fcntl(write, libc::F_SETFL, libc::O_NONBLOCK) };
    let thread = std::thread::Builder::new().name("heddle-interrupt".to_string());
    if thread.spawn(move || cancel_at_signals(read)).is_err() {
        return false;
    }
    // Relaxed: the handler is installed after it by this thread.
    PIPE.store(write, Ordering::Relaxed);
    true
}

/// Cancels the main thread's statement at each signal, until that thread has seen it.
fn cancel_at_signals(read: libc::c_int) {
    let mut bytes = [0u8; 64];
    loop {
        // SAFETY: the buffer is as long as it says; the descriptor stays open.
        let count = unsafe { libc::read(read, bytes.as_mut_ptr().cast(), bytes.len()) };
        if count < 0 && std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return;
        }
        // Relaxed: see `handle`.
        while IS_PENDING.load(Ordering::Relaxed) {
            let current = CURRENT.lock().clone();
            let Some(current) = current else { break };
            current.cancel();
            std::thread::sleep(RETRY_INTERVAL);
        }
    }
}
