//! The door to loom: every schedule, and the stale values that the memory model allows.
//!
//! A word holds its plain value until the first access of an execution, and from then on the number of the loom object
//! that stands for it. So a word needs no more memory than its value, and can be made of zero bytes.
//!
//! Two limits. The object comes to be at the first access: words that threads share must have been touched before they
//! start (or loom says so). And loom takes sequentially consistent accesses for acquire and release only: here such an
//! access, or any write, that follows a write of that kind by the same thread first passes one counter which all such
//! pairs pass. So of two threads that each write and then look at the other's word, one sees the other's write. It also
//! orders what the threads have done before, which the language does not promise: a fault that this hides is not found.

use std::cell::RefCell;

use loom::sync::atomic::{self, AtomicU64};
use loom::thread::ThreadId;

use crate::atomics::{Ordering, Word};
use crate::execution::Bounds;

pub(crate) use loom::sync;
pub(crate) use loom::thread;

pub(crate) use crate::change::Change;

/// The first bits of a word that holds an object's number.
const MARK: u64 = 0xA70_31C;
const MARK_SHIFT: u32 = 40;
const GENERATION_SHIFT: u32 = 24;
const NUMBER_MASK: u64 = (1 << GENERATION_SHIFT) - 1;
const GENERATION_MASK: u64 = (1 << (MARK_SHIFT - GENERATION_SHIFT)) - 1;

/// The objects of this execution, and the first values of those of the last one: a static outlives an execution, and
/// begins the next one as it began that.
#[derive(Default)]
struct Objects {
    generation: u64,
    present: Vec<(Box<AtomicU64>, u64)>,
    before: Vec<u64>,
    /// The word through which sequentially consistent accesses are ordered.
    order: Option<Box<AtomicU64>>,
    /// The threads whose last such access was a write, and has not passed yet.
    writers: Vec<ThreadId>,
}

thread_local! {
    static OBJECTS: RefCell<Objects> = RefCell::default();
}

/// Runs the model under all schedules within the bounds.
pub(crate) fn check(bounds: Bounds, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(bounds.interruptions);
    builder.max_branches = 100_000;
    builder.check(model);
}

pub(crate) fn begin() {
    OBJECTS.with_borrow_mut(|objects| {
        objects.generation = (objects.generation + 1) & GENERATION_MASK;
        objects.before = objects.present.drain(..).map(|(_, first)| first).collect();
        objects.order = Some(Box::new(AtomicU64::new(0)));
        objects.writers.clear();
    });
}

pub(crate) fn yield_now() {
    loom::thread::yield_now();
}

/// The loom object of a word.
fn object(word: &Word) -> &'static AtomicU64 {
    // SAFETY: the word is borrowed, and no other coroutine runs now.
    let bits = unsafe { *word.bits() };
    assert_ne!(bits, crate::FREED, "a word is used whose memory has been freed");
    OBJECTS.with_borrow_mut(|objects| {
        let (generation, number) =
            (bits >> GENERATION_SHIFT & GENERATION_MASK, (bits & NUMBER_MASK) as usize);
        let marked = bits >> MARK_SHIFT == MARK;
        if !marked || generation != objects.generation {
            let first = if marked { objects.before[number] } else { bits };
            let number = objects.present.len() as u64;
            objects.present.push((Box::new(AtomicU64::new(first)), first));
            // SAFETY: as above.
            unsafe { *word.bits() = MARK << MARK_SHIFT | objects.generation << GENERATION_SHIFT | number };
            return reference(&objects.present[number as usize].0);
        }
        reference(&objects.present[number].0)
    })
}

fn reference(object: &AtomicU64) -> &'static AtomicU64 {
    // SAFETY: boxed objects stay where they are until the next execution begins, and references end with the access.
    unsafe { &*std::ptr::from_ref(object) }
}

/// Before a sequentially consistent access, and before a write: see the module's description.
fn pass() {
    let own = loom::thread::current().id();
    let order = OBJECTS.with_borrow_mut(|objects| {
        let at = objects.writers.iter().position(|writer| *writer == own)?;
        objects.writers.swap_remove(at);
        objects.order.as_deref().map(reference)
    });
    if let Some(order) = order {
        order.fetch_add(1, Ordering::AcqRel);
    }
}

/// After a sequentially consistent write.
fn note_write() {
    OBJECTS.with_borrow_mut(|objects| objects.writers.push(loom::thread::current().id()));
}

pub(crate) fn load(word: &Word, ordering: Ordering) -> u64 {
    let object = object(word);
    if ordering == Ordering::SeqCst {
        pass();
        return object.load(Ordering::Acquire);
    }
    object.load(ordering)
}

pub(crate) fn store(word: &Word, value: u64, ordering: Ordering) {
    let object = object(word);
    pass();
    if ordering == Ordering::SeqCst {
        object.store(value, Ordering::Release);
        note_write();
    } else {
        object.store(value, ordering);
    }
}

pub(crate) fn change(word: &Word, change: Change, success: Ordering, failure: Ordering) -> Result<u64, u64> {
    let object = object(word);
    let failure = if failure == Ordering::SeqCst { Ordering::Acquire } else { failure };
    pass();
    if success != Ordering::SeqCst {
        return apply(object, change, success, failure);
    }
    let changed = apply(object, change, Ordering::AcqRel, failure);
    note_write();
    changed
}

fn apply(object: &AtomicU64, change: Change, success: Ordering, failure: Ordering) -> Result<u64, u64> {
    match change {
        Change::Swap(value) => Ok(object.swap(value, success)),
        Change::Add(value) => Ok(object.fetch_add(value, success)),
        Change::And(value) => Ok(object.fetch_and(value, success)),
        Change::Or(value) => Ok(object.fetch_or(value, success)),
        Change::Max(value) => Ok(object.fetch_max(value, success)),
        Change::Min(value) => Ok(object.fetch_min(value, success)),
        Change::Exchange(expected, new) => object.compare_exchange(expected, new, success, failure),
    }
}

pub(crate) fn fence(ordering: Ordering) {
    atomic::fence(ordering);
}

/// Gives the word its plain value back: it is used by no other thread any more.
pub(crate) fn make_plain(word: &Word) {
    // SAFETY: as in `object`.
    let bits = unsafe { *word.bits() };
    if bits >> MARK_SHIFT == MARK {
        // SAFETY: as above; the caller has the word exclusively.
        unsafe { *word.bits() = object(word).unsync_load() };
    }
}
