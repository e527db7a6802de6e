//! The things that a statement's meaning depends on: those looked up in the catalog while it was bound, planned,
//! compiled and run.
//!
//! Each look-up of a [`Catalog`](super::Catalog) notes what it was asked for, found or not, so nothing can be used that is not
//! noted: a name in one schema, or an oid. A plan keeps what was noted while it was made ([`record`]), because it is
//! used without further look-ups. In an open transaction everything that is noted, and what the plans that it uses have
//! kept, is collected in its [`Uses`], each thing with the position in the history of definitions at which it was
//! looked up.
//!
//! # Invariants
//! - What a plan or a compiled body was made of is noted again whenever it is used ([`note_kept`]).
//! - Look-ups cost nothing but a look at a flag where neither a plan is made nor a transaction is open.
//!
//! # Concurrency
//! A thread notes for the plan that it is making, else for the transaction that it runs a statement of ([`enter`]). The
//! lock of a [`Uses`] is contended by none but the commit, which asks it on the same thread.

use std::cell::{Cell, RefCell};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::{HashMap, HashSet};
use heddledb::Dependency;
use parking_lot::Mutex;

use crate::catalog::history::History;
use crate::run::order::{Hashing, hashing};

/// A thing that a look-up is for.
#[derive(Clone, Copy, Hash)]
pub(crate) enum Thing<'n> {
    /// Any object; its triggers and those that refer to it belong to it.
    Oid(u32),
    Relation(&'n str, &'n str),
    Type(&'n str, &'n str),
    Routine(&'n str, &'n str),
    Schema(&'n str),
    Role(&'n str),
    Database,
    /// A role, or PUBLIC, to which a privilege is granted that a statement needed.
    Grantee(u32),
}

impl Thing<'_> {
    /// The thing's number. Two things with one number cost a retry, at worst.
    pub(crate) fn number(self) -> u64 {
        hashing().hash_one(self)
    }
}

thread_local! {
    /// True if anything is to be noted on this thread.
    static IS_NOTING: Cell<bool> = const { Cell::new(false) };
    /// The things that the plans being made depend on, the innermost plan last.
    static PLANS: RefCell<Vec<HashSet<u64, Hashing>>> = const { RefCell::new(Vec::new()) };
    /// The open transaction of which this thread runs a statement.
    static TRANSACTION: RefCell<Option<Arc<Uses>>> = const { RefCell::new(None) };
}

/// Notes a look-up in the catalog of this position.
#[inline]
pub(crate) fn note(position: u64, thing: Thing<'_>) {
    if IS_NOTING.get() {
        note_number(position, thing.number());
    }
}

/// Returns true if this thread notes look-ups for a plan or a transaction.
pub(crate) fn is_noting() -> bool {
    IS_NOTING.get()
}

#[cold]
fn note_number(position: u64, number: u64) {
    let is_of_plan =
        PLANS.with_borrow_mut(|plans| plans.last_mut().map(|plan| plan.insert(number)).is_some());
    if !is_of_plan {
        TRANSACTION.with_borrow(|uses| {
            if let Some(uses) = uses {
                uses.noted.lock().insert(position, number);
            }
        });
    }
}

/// The things that a plan, or a compiled body, depends on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    /// A number that no other one has.
    id: u64,
    position: u64,
    numbers: Arc<[u64]>,
}

/// Makes a plan, and keeps what was looked up for that in the catalog of this position.
pub(crate) fn record<T>(position: u64, make: impl FnOnce() -> T) -> (T, Kept) {
    static LAST: AtomicU64 = AtomicU64::new(1);
    /// Ends the record also where a panic ends the planning.
    struct Ended;
    impl Drop for Ended {
        fn drop(&mut self) {
            PLANS.with_borrow_mut(Vec::pop);
            look_whether_noting();
        }
    }
    PLANS.with_borrow_mut(|plans| plans.push(HashSet::with_hasher(hashing())));
    IS_NOTING.set(true);
    let ended = Ended;
    let made = make();
    let numbers = PLANS.with_borrow_mut(|plans| plans.last_mut().map(std::mem::take).unwrap_or_default());
    drop(ended);
    // Relaxed: the numbers need only differ.
    let id = LAST.fetch_add(1, Ordering::Relaxed);
    let kept = Kept { id, position, numbers: numbers.into_iter().collect() };
    note_kept(&kept);
    (made, kept)
}

/// Notes what a plan depends on that is about to be used.
#[inline]
pub(crate) fn note_kept(kept: &Kept) {
    if IS_NOTING.get() {
        note_all(kept);
    }
}

fn note_all(kept: &Kept) {
    let is_of_plan = PLANS.with_borrow_mut(|plans| match plans.last_mut() {
        Some(plan) => {
            plan.extend(kept.numbers.iter().copied());
            true
        }
        None => false,
    });
    if !is_of_plan {
        TRANSACTION.with_borrow(|uses| {
            if let Some(uses) = uses {
                uses.noted.lock().insert_all(kept);
            }
        });
    }
}

fn look_whether_noting() {
    let is_noting =
        PLANS.with_borrow(|plans| !plans.is_empty()) || TRANSACTION.with_borrow(|uses| uses.is_some());
    IS_NOTING.set(is_noting);
}

/// A guard: while it lives, this thread notes for a transaction; after that for the previous one.
pub(crate) struct Noting(Option<Arc<Uses>>);

/// Makes this thread note for an open transaction, or for none, until the guard is dropped.
pub(crate) fn enter(uses: Option<Arc<Uses>>) -> Noting {
    let before = TRANSACTION.replace(uses);
    look_whether_noting();
    Noting(before)
}

impl Drop for Noting {
    fn drop(&mut self) {
        TRANSACTION.set(self.0.take());
        look_whether_noting();
    }
}

/// A transaction begins, or ends, in the middle of what the thread is running.
pub(crate) fn set_transaction(uses: Option<Arc<Uses>>) {
    TRANSACTION.set(uses);
    look_whether_noting();
}

/// The things that the statements of a transaction depended on so far.
pub(crate) struct Uses {
    history: Arc<History>,
    noted: Mutex<Noted>,
}

#[derive(Default)]
struct Noted {
    /// The things, each with the first position at which it was looked up.
    things: HashMap<u64, u64, Hashing>,
    /// The plans whose things are noted.
    plans: HashSet<u64>,
    /// The least of the positions, if there is any.
    first: Option<u64>,
}

/// The limit of plans that are remembered: a transaction may run any number of statements that are planned each for
/// itself.
const PLANS_MAX: usize = 4_096;

impl Noted {
    fn insert(&mut self, position: u64, number: u64) {
        let known = self.things.entry(number).or_insert(position);
        *known = position.min(*known);
        self.first = Some(self.first.map_or(position, |first| first.min(position)));
    }

    fn insert_all(&mut self, kept: &Kept) {
        if self.plans.len() >= PLANS_MAX {
            self.plans.clear();
        }
        if self.plans.insert(kept.id) {
            kept.numbers.iter().for_each(|number| self.insert(kept.position, *number));
        }
    }
}

impl Uses {
    pub(crate) fn new(history: Arc<History>) -> Uses {
        Uses { history, noted: Mutex::default() }
    }

    /// Forgets everything: a transaction has ended.
    pub(crate) fn clear(&self) {
        let noted = &mut *self.noted.lock();
        if noted.first.take().is_some() {
            noted.things.clear();
            noted.plans.clear();
        }
    }

    /// Returns true if everything had the same meaning, when it was looked up, as at the end of this epoch.
    pub(crate) fn are_as_of(&self, epoch: u64) -> bool {
        let noted = self.noted.lock();
        let Some(first) = noted.first else { return true };
        self.history.are_as_of(epoch, first, |thing| noted.things.get(&thing).copied())
    }
}

impl Dependency for Uses {
    fn holds(&self) -> bool {
        let noted = self.noted.lock();
        let Some(first) = noted.first else { return true };
        self.history.are_unchanged(first, |thing| noted.things.get(&thing).copied())
    }
}
