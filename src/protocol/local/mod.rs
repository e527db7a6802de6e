//! Local locks: what executors own and lock by themselves (DORA, VLDB 2010, sections 4.1 and 4.2).
//!
//! Every table is cut into *datasets* by routing fields, and each dataset belongs to one executor: one thread, which
//! alone decides who may touch it. So a lock there is an entry in a map that no other thread sees: no latch, no lock
//! manager. What is locked is an *identifier*, a key or the beginning of keys ([`claim`]); who meets a rival's lock is
//! parked, and the executor goes on with something else ([`locks`]). [`routing`] says whose an identifier is.
//!
//! Folders that own threads are above this one: here is only what executors decide by. Who is no executor, and has
//! records to lock (a closure at its commit), asks at the [`Desk`].

pub(crate) mod claim;
pub(crate) mod locks;
pub(crate) mod routing;
pub(crate) mod waits;

use smallvec::SmallVec;

use self::claim::Want;
use crate::error::Error;
pub(crate) use crate::lock::OwnerId;

/// Where who is no executor locks what executors own.
pub(crate) trait Desk: Send + Sync {
    /// A new call's birth: the younger of two is the victim of a deadlock.
    fn start_timestamp(&self) -> u64;

    /// Locks all of this at once, and waits until it is granted. The caller holds nothing of the kind already.
    ///
    /// `room`: what the caller has reserved in the log. It is given back while it waits, and taken again when all is
    /// granted: executors may wait for room, and must not do so for somebody who waits for them.
    ///
    /// # Errors
    /// See [`Denied`]; nothing is held then.
    fn lock(&self, wants: Vec<Want>, start_timestamp: u64, room: &mut usize) -> Result<Grant, Denied>;

    /// Gives it up, and what is left of the `room` that was taken with it: kept for later, as portions are, it could be all
    /// the room there is.
    fn release(&self, grant: Grant, room: &mut usize);
}

/// Local locks that are held.
#[derive(Debug)]
pub(crate) struct Grant {
    /// By whom.
    pub(crate) owner: OwnerId,
    /// In whose tables.
    pub(crate) executors: SmallVec<[usize; 4]>,
    /// Whether room in the log was taken once more when all was granted.
    pub(crate) took_room: bool,
}

/// Why nothing was locked.
#[derive(Debug)]
pub(crate) enum Denied {
    /// It was the victim of a deadlock.
    Deadlock,
    /// The database is being closed, or the log takes no more.
    Refused(Error),
}
