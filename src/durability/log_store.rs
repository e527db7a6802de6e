//! The seam between the engine and the place where its log is kept.
//!
//! The log stage appends groups through [`LogStore`], and recovery reads them through [`LogSource`]; neither knows of segments.
//! The local disk is the implementation ([`LogWriter`], [`LogReader`]); tests have another one, in memory.
//!
//! Invariants, which the conformance suite holds each implementation to:
//! - A store has one writer. Once a later one has opened the log, every append of the earlier one fails, those too that were
//!   begun before.
//! - An append ends durable or failed, and in the order in which appends began. What else can happen to it, an answer that
//!   does not arrive for instance, the store resolves inside.
//! - A group that was durable is read again, whole and once, in its order; of those that were not, a beginning may be there.
//! - After a failed append no later one becomes durable.

use std::sync::Arc;

use super::groups_in_flight::{GroupsInFlight, Unsynced};
use super::log_reader::{Group, LogReader, Position};
use super::writer::LogWriter;
use crate::storage::redo::RedoPart;
use crate::{Error, Result};

/// A log that was opened to be written, by its one writer.
pub(crate) trait LogStore: Send {
    /// The appends that have begun and not ended, and how many the store takes at a time.
    fn in_flight(&self) -> &Arc<GroupsInFlight>;

    /// The term of its writer: higher than those of all groups that were there when it was opened.
    fn term(&self) -> u64;

    /// Begins to append a group, whose epoch is higher than those of all groups before. Where the store cannot take it for a
    /// while, `waits` has the error, waits, and returns true if the store is to try again.
    ///
    /// # Errors
    /// The group's fate is unknown until the log is read again, unless nothing was written ([`Error::LogFull`]).
    fn append(
        &mut self,
        epoch: u64,
        payload: &[RedoPart<'_>],
        waits: &mut dyn FnMut(&Error) -> bool,
    ) -> Result<Box<dyn Append>>;
}

/// A group whose append has begun. Any thread may end it.
#[must_use]
pub(crate) trait Append: Send {
    /// Number of operations that make it durable.
    fn flushes(&self) -> u64;

    /// Makes the group durable. The epoch through which everything is durable by that; `None` if a group before it is not
    /// durable yet: then the thread that ends that one learns of both.
    ///
    /// # Errors
    /// Of this group and all later ones it is unknown, until the log is read again, whether they are durable.
    fn finish(self: Box<Self>) -> Result<Option<u64>>;
}

/// The groups of a log, in order.
pub(crate) trait LogSource: Send {
    /// The next group, or `None` at the log's end.
    ///
    /// # Errors
    /// The log cannot be read, or is damaged.
    fn next_group(&mut self) -> Result<Option<Group>>;

    /// The place of the last group that was given.
    fn last_place(&self) -> Position;

    /// The error of a group at this place whose content makes no sense.
    fn blame(&self, place: Position, error: Error) -> Error;

    /// Bytes that were read, and bytes there are.
    fn progress(&self) -> (u64, u64);
}

impl LogStore for LogWriter {
    fn in_flight(&self) -> &Arc<GroupsInFlight> {
        LogWriter::in_flight(self)
    }

    fn term(&self) -> u64 {
        LogWriter::term(self)
    }

    fn append(
        &mut self,
        epoch: u64,
        payload: &[RedoPart<'_>],
        waits: &mut dyn FnMut(&Error) -> bool,
    ) -> Result<Box<dyn Append>> {
        let written = self.write_group(epoch, payload, waits)?;
        Ok(Box::new(written))
    }
}

impl Append for Unsynced {
    fn flushes(&self) -> u64 {
        Unsynced::flushes(self)
    }

    fn finish(self: Box<Self>) -> Result<Option<u64>> {
        self.sync()
    }
}

impl LogSource for LogReader {
    fn next_group(&mut self) -> Result<Option<Group>> {
        LogReader::next_group(self)
    }

    fn last_place(&self) -> Position {
        LogReader::last_place(self)
    }

    fn blame(&self, place: Position, error: Error) -> Error {
        LogReader::blame(self, place, error)
    }

    fn progress(&self) -> (u64, u64) {
        LogReader::progress(self)
    }
}
