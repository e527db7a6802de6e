//! One attempt to run a call: what it has read, what it has buffered, and how it reaches records.
//!
//! Bodies read records and buffer writes through an attempt; it never changes a record. How an access is made is the
//! protocol's: a table of functions ([`Access`]), chosen once for each attempt, so that an access costs one
//! predictable indirect call and no look at which protocol is in force.
//!
//! What it keeps true: the thread is pinned for as long as the attempt lasts, so that every record and every block
//! it has met stays alive; and `seen` is the highest stamp met, absent records included.

mod read;
mod scan;
mod write;

use std::cell::{Cell, RefCell};
use std::ops::Bound;

use bumpalo::Bump;
use crossbeam_epoch::Guard;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::base::atomics::Ordering;
use crate::error::{Error, Result};
use crate::protocol::Held;
use crate::protocol::footprint::{Mode, Reference};
use crate::storage::commit::{CommitFailure, Committing, Taken, Taking, commit};
use crate::storage::index::{Lookup, NodeVersion};
use crate::storage::participant::Participant;
use crate::storage::record::Record;
use crate::storage::store::Store;
use crate::storage::table::TableCore;
use crate::storage::word::{ABSENT, BUSY, DEAD, Stamp};
use crate::storage::workspace::Workspace;
use crate::storage::write_set::Mark;

pub(crate) use scan::Span;
pub(crate) use write::show_key;

/// What part of a record is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The row.
    Row,
    /// Only whether it is there: conflicts with inserts and deletes, not with updates.
    Existence,
}

/// What will be done with a key that is claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It is read.
    Read,
    /// It is changed or deleted.
    Write,
    /// It comes in.
    Insert,
}

/// Claims a key: see [`Access::claim`].
pub(crate) type ClaimKey = for<'a> fn(&Attempt<'a>, &'a TableCore, &[u8], Claim) -> Result<()>;
/// Claims a range: see [`Access::range`].
pub(crate) type ClaimRange =
    for<'a> fn(&Attempt<'a>, &'a TableCore, Bound<&[u8]>, Bound<&[u8]>) -> Result<()>;

/// How a protocol makes accesses.
pub(crate) struct Access {
    /// Called before a key is looked up, with what will be done with it; none: nothing is claimed.
    pub(crate) claim: Option<ClaimKey>,
    /// Called before a range of keys is read; none: nothing is claimed.
    pub(crate) range: Option<ClaimRange>,
    /// Reads a record into `copy` (empty where only its existence is asked for), notes what the protocol wants to
    /// know later, and gives back the record's word.
    pub(crate) read: for<'a> fn(&Attempt<'a>, Record<'a>, Part, &mut [u64]) -> Result<u64>,
    /// Notes that a key or a range was looked for where this version was found.
    pub(crate) missed: for<'a> fn(&Attempt<'a>, NodeVersion<'a>) -> Result<()>,
}

/// A record that was read, with the word it had then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadEntry<'a> {
    pub(crate) record: Record<'a>,
    pub(crate) word: u64,
    pub(crate) part: Part,
}

/// What an attempt has read, for protocols that validate.
#[derive(Default)]
pub(crate) struct ReadSet<'a> {
    pub(crate) records: SmallVec<[ReadEntry<'a>; 8]>,
    pub(crate) nodes: SmallVec<[NodeVersion<'a>; 4]>,
    /// What the attempt itself has put into nodes, in order: the version before, and the one after.
    own_inserts: SmallVec<[(u64, NodeVersion<'a>); 4]>,
}

/// What the running action may reach; none: everything (closures).
#[derive(Clone, Copy)]
struct Scope<'a> {
    table: u32,
    key: &'a [u8],
    whole: bool,
    mode: Mode,
}

/// As long as it lives, the body may reach only what its action declares.
pub(crate) struct InScope<'s, 'a> {
    attempt: &'s Attempt<'a>,
}

impl Drop for InScope<'_, '_> {
    fn drop(&mut self) {
        self.attempt.scope.set(None);
    }
}

/// A record that a body names: by table and key, and the record itself where it was found beforehand.
#[derive(Clone, Copy)]
pub(crate) struct Target<'t, 'a> {
    pub(crate) table: &'t TableCore,
    pub(crate) key: &'t [u8],
    pub(crate) hash: u64,
    pub(crate) found: Option<Record<'a>>,
    /// Whether it is the running action's own row, so that only the mode is left to check.
    pub(crate) declared: bool,
}

/// One attempt to run a call.
pub(crate) struct Attempt<'a> {
    store: &'a Store,
    participant: &'a Participant,
    guard: &'a Guard,
    arena: &'a Bump,
    workspace: RefCell<&'a mut Workspace>,
    held: RefCell<&'a mut Held>,
    access: Cell<&'static Access>,
    reads: RefCell<ReadSet<'a>>,
    seen: Cell<Stamp>,
    scope: Cell<Option<Scope<'a>>>,
    /// What is wrong with the body itself, where the call that was wrong tells no error.
    fault: RefCell<Option<Error>>,
    updates_refused: Option<Error>,
}

impl<'a> Attempt<'a> {
    /// A fresh attempt. `updates_refused`: why writes are not taken now, if so.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn new(
        store: &'a Store,
        participant: &'a Participant,
        guard: &'a Guard,
        arena: &'a Bump,
        workspace: &'a mut Workspace,
        held: &'a mut Held,
        updates_refused: Option<Error>,
    ) -> Attempt<'a> {
        workspace.reset();
        Attempt {
            store,
            participant,
            guard,
            arena,
            workspace: RefCell::new(workspace),
            held: RefCell::new(held),
            access: Cell::new(&DIRECT),
            reads: RefCell::default(),
            seen: Cell::new(Stamp::ZERO),
            scope: Cell::new(None),
            fault: RefCell::default(),
            updates_refused,
        }
    }

    /// The store.
    pub(crate) fn store(&self) -> &'a Store {
        self.store
    }

    /// The participant that runs it.
    pub(crate) fn participant(&self) -> &'a Participant {
        self.participant
    }

    /// The pin.
    pub(crate) fn guard(&self) -> &'a Guard {
        self.guard
    }

    /// The memory of the attempt.
    pub(crate) fn arena(&self) -> &'a Bump {
        self.arena
    }

    /// The buffered writes and the rest of the participant's memory.
    pub(crate) fn workspace(&self) -> &RefCell<&'a mut Workspace> {
        &self.workspace
    }

    /// What the thread holds of the protocol's.
    pub(crate) fn held(&self) -> &RefCell<&'a mut Held> {
        &self.held
    }

    /// What was read.
    pub(crate) fn reads(&self) -> &RefCell<ReadSet<'a>> {
        &self.reads
    }

    /// Chooses how accesses are made.
    pub(crate) fn set_access(&self, access: &'static Access) {
        self.access.set(access);
    }

    /// Whether what it reads is noted for a validation.
    pub(crate) fn is_tracked(&self) -> bool {
        std::ptr::eq(self.access.get(), &TRACKED)
    }

    /// The highest stamp met.
    pub(crate) fn seen(&self) -> Stamp {
        self.seen.get()
    }

    /// Whether a record that the attempt writes has left its table: what it was told since may not have shown its own
    /// write. The collector of absent records is excluded by no protocol, so an insert may lose its place to it.
    pub(crate) fn has_lost_a_record(&self) -> bool {
        let workspace = self.workspace.borrow();
        // SAFETY: the call is pinned, so every record that it touched is alive.
        let records = workspace.writes.touched().iter().map(|touched| unsafe { touched.record.as_record() });
        // Acquire pairs with the swap that killed the record; a look-up that missed it came after that.
        let mut words = records.map(|record| record.word().load(Ordering::Acquire));
        words.any(|word| word == DEAD)
    }

    /// Restricts what the body may reach, for as long as the answer lives.
    pub(crate) fn enter_scope<'s>(&'s self, declared: &'s Reference) -> InScope<'s, 'a> {
        // SAFETY: the key is looked at through `scope` only, which is emptied when `InScope` goes, by a panic too;
        // and that borrows the reference.
        let key: &'a [u8] = unsafe { &*std::ptr::from_ref::<[u8]>(&declared.key) };
        let Reference { table, whole, mode, .. } = *declared;
        self.scope.set(Some(Scope { table, key, whole, mode }));
        InScope { attempt: self }
    }

    /// The point reached in the writes.
    pub(crate) fn mark(&self) -> Mark {
        self.workspace.borrow().writes.mark()
    }

    /// Takes back the writes made since. A mark that holds no more fails the attempt.
    pub(crate) fn roll_back(&self, mark: Mark) {
        if !self.workspace.borrow_mut().writes.truncate(mark) {
            let what = "a savepoint".to_string();
            let detail = "the transaction has gone back to a point before it; take a new one".to_string();
            *self.fault.borrow_mut() = Some(Error::InvalidValue { what, detail });
        }
    }

    /// What is wrong with the body, if it was told by no error.
    pub(crate) fn take_fault(&self) -> Option<Error> {
        self.fault.borrow_mut().take()
    }

    /// A table for as long as the attempt lasts, if it is one of this database's.
    ///
    /// # Errors
    /// [`Error::ForeignTable`].
    pub(crate) fn hold(&self, table: &TableCore) -> Result<&'a TableCore> {
        if table.store() != self.store.identity() {
            return Err(Error::ForeignTable { table: table.definition().name().to_string() });
        }
        // SAFETY: the store frees no table before it is dropped itself, and the attempt borrows the store for 'a.
        Ok(unsafe { &*std::ptr::from_ref(table) })
    }

    fn note_seen(&self, word: u64) {
        if word != DEAD {
            self.seen.set(self.seen.get().max(Stamp::of(word)));
        }
    }

    /// Refuses a target that the running action does not declare, or not in this mode.
    fn check_target(&self, target: &Target<'_, '_>, wanted: Mode) -> Result<()> {
        match self.scope.get() {
            Some(scope) if target.declared && (scope.mode == Mode::Write || scope.mode == wanted) => Ok(()),
            _ => self.check_scope(target.table, target.key, true, wanted),
        }
    }

    /// Refuses what the running action does not declare.
    fn check_scope(&self, table: &TableCore, key: &[u8], whole: bool, wanted: Mode) -> Result<()> {
        let Some(scope) = self.scope.get() else { return Ok(()) };
        let allowed = scope.mode == Mode::Write || scope.mode == wanted;
        let covered = if scope.whole { whole && key == scope.key } else { key.starts_with(scope.key) };
        if scope.table == table.id() && covered && allowed {
            return Ok(());
        }
        Err(self.outside(table, scope, wanted))
    }

    #[cold]
    fn outside(&self, table: &TableCore, scope: Scope<'_>, wanted: Mode) -> Error {
        let name = table.definition().name();
        let what = if scope.table != table.id() {
            format!("table {name:?} is outside of what the action declares")
        } else if scope.mode != Mode::Write && scope.mode != wanted {
            format!("the action declares {name:?} as {:?}, and this is a {wanted:?}", scope.mode)
        } else {
            format!("this key of {name:?} is outside of what the action declares")
        };
        Error::OutsideFootprint { what }
    }

    /// Tells the protocol which key will be looked up, and what for.
    #[inline]
    fn claim(&self, table: &'a TableCore, key: &[u8], what: Claim) -> Result<()> {
        match self.access.get().claim {
            None => Ok(()),
            Some(claim) => claim(self, table, key, what),
        }
    }

    /// Closes the gate of the commit sections, so that nothing which the body reads can change, until
    /// [`let_others_in`](Self::let_others_in).
    pub(crate) fn run_alone(&self) {
        let mut held = self.held.borrow_mut();
        if !held.alone {
            let epochs = self.store.epochs();
            epochs.close_gate();
            epochs.wait_for_all(self.store.participants().all().map(Participant::published));
            held.alone = true;
        }
    }

    /// Opens the gate again, if this call has closed it.
    pub(crate) fn let_others_in(&self) {
        let mut held = self.held.borrow_mut();
        if std::mem::take(&mut held.alone) {
            // SAFETY: `alone` says that this thread has closed it.
            unsafe { self.store.epochs().open_gate() };
        }
    }

    /// Commits the buffered writes, as the protocol would have them taken; `validate` says whether what was read still
    /// holds.
    ///
    /// # Errors
    /// See [`CommitFailure`].
    pub(crate) fn commit<T: Taking>(
        &self,
        taking: &T,
        validate: impl FnOnce(&Taken<'_, '_>) -> bool,
    ) -> Result<Stamp, CommitFailure> {
        let call = Committing {
            store: self.store,
            participant: self.participant,
            workspace: &mut self.workspace.borrow_mut(),
            arena: self.arena,
            guard: self.guard,
            seen: self.seen(),
            alone: self.held.borrow().alone,
        };
        commit(taking, call, validate)
    }

    /// The record that a target names, or the version of the miss.
    fn locate(&self, target: &Target<'_, 'a>) -> Result<Lookup<'a>> {
        if let Some(record) = target.found {
            return Ok(Lookup::Found(record));
        }
        let table = self.hold(target.table)?;
        Ok(table.find(target.hash, target.key, self.guard))
    }
}

/// Accesses that note nothing: for who has excluded all rivals.
pub(crate) static DIRECT: Access =
    Access { claim: None, range: None, read: read_directly, missed: note_nothing };
/// Accesses that note everything that was read, for a validation at commit.
pub(crate) static TRACKED: Access =
    Access { claim: None, range: None, read: read_tracked, missed: note_miss };

fn read_directly<'a>(_: &Attempt<'a>, record: Record<'a>, part: Part, copy: &mut [u64]) -> Result<u64> {
    Ok(match part {
        Part::Row => record.read(copy),
        Part::Existence => record.stable_word(&crossbeam_utils::Backoff::new()),
    })
}

fn note_nothing<'a>(_: &Attempt<'a>, _: NodeVersion<'a>) -> Result<()> {
    Ok(())
}

fn read_tracked<'a>(attempt: &Attempt<'a>, record: Record<'a>, part: Part, copy: &mut [u64]) -> Result<u64> {
    let word = read_directly(attempt, record, part, copy)?;
    attempt.reads.borrow_mut().records.push(ReadEntry { record, word, part });
    Ok(word)
}

fn note_miss<'a>(attempt: &Attempt<'a>, version: NodeVersion<'a>) -> Result<()> {
    attempt.reads.borrow_mut().nodes.push(version);
    Ok(())
}

impl<'a> ReadSet<'a> {
    /// Whether everything that was read is as it was. `own` says whether a record is busy by the caller's own doing.
    pub(crate) fn still_holds(&self, own: impl Fn(Record<'a>) -> bool) -> bool {
        self.records.iter().all(|entry| entry.still_holds(&own)) && self.nodes_still_hold()
    }

    /// The first record that is not as it was read, if there is one; who is busy with one may be the caller itself.
    pub(crate) fn first_changed(&self) -> Option<ReadEntry<'a>> {
        self.records.iter().find(|entry| !entry.still_holds(|_| false)).copied()
    }

    /// The attempt itself has put something into this node: what was noted about it before stays true.
    fn note_own_insert(&mut self, before: u64, after: NodeVersion<'a>) {
        self.own_inserts.push((before, after));
    }

    /// Own inserts are followed here, for all nodes at once: looking through the nodes at each insert would take the
    /// square of their number.
    fn nodes_still_hold(&self) -> bool {
        if self.own_inserts.is_empty() {
            return self.nodes.iter().all(NodeVersion::is_current);
        }
        let place = |node: &NodeVersion<'a>, version: u64| (std::ptr::from_ref(node.word()), version);
        let mut followed: HashMap<_, NodeVersion<'a>, FixedState> = HashMap::default();
        // The last first: where one insert led to the next one's beginning, the first leads to the end of both.
        for (before, after) in self.own_inserts.iter().rev() {
            let end = *followed.get(&place(after, after.observed())).unwrap_or(after);
            followed.insert(place(after, *before), end);
        }
        self.nodes.iter().all(|node| followed.get(&place(node, node.observed())).unwrap_or(node).is_current())
    }
}

impl<'a> ReadEntry<'a> {
    #[inline]
    fn still_holds(&self, own: impl Fn(Record<'a>) -> bool) -> bool {
        // SeqCst, as the taking of records is: of two commits of which each has read what the other writes, one sees
        // the other's busy word here. It acquires the last install: the validator goes on from what it sees.
        let word = self.record.word().load(Ordering::SeqCst);
        if word == self.word {
            return true;
        }
        if word & BUSY != 0 && word != DEAD && !own(self.record) {
            return false;
        }
        let (word, noted) = (word & !BUSY, self.word & !BUSY);
        match self.part {
            Part::Row => word == noted,
            // Neither inserted nor deleted in between: a deleted and again inserted record counts as there.
            Part::Existence => {
                word & ABSENT == noted & ABSENT && (word == DEAD & !BUSY) == (noted == DEAD & !BUSY)
            }
        }
    }
}
