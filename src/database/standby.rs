//! Standbys: databases that replay another one's log, and take its place.

use std::future::poll_fn;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::log_writing::segment_sizes;
use super::open::OwnTerm;
use super::{Database, Shared};
use crate::durability::log_tail::ReplayedLog;
use crate::durability::position::LogPosition;
use crate::durability::{DatabaseDirectory, identity};
use crate::error::{Error, Result, StandbyError};
use crate::options::{Durability, Options};
use crate::pipeline::nesting;
use crate::pipeline::standby::{ReplayedDefinitions, Replaying, Standby, StandbyStatus};
use crate::session::block_on_until;
use crate::table::Table;

/// The time between two looks at the position of a database that is written to.
const LOOK: Duration = Duration::from_millis(2);

impl Database {
    /// Opens a standby of the database whose log is in a directory (`bank/log`, or `bank` itself), while another process writes it:
    /// loads its newest checkpoint, and from then on replays its log. The standby can be read, by
    /// [snapshots](Self::snapshot) of whole groups of the log; every write fails with [`StandbyError::OnlyRead`].
    /// It changes nothing in the database's directory, and keeps all data in memory.
    ///
    /// A standby may show a commit a moment before the other database acknowledges it. It stops
    /// ([`StandbyStatus::failure`]) where the log cannot be read any more, or was shortened before it was read: then open it
    /// again.
    ///
    /// ```no_run
    /// # use heddledb::{Database, Options, Range};
    /// let standby = Database::standby("bank/log", Options::default())?;
    /// let accounts = standby.table("account")?;
    /// let count = standby.read(|snapshot| Ok(snapshot.scan(&accounts, Range::all())?.count()))?;
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// # Errors
    /// There is no database's log; its checkpoint or its log cannot be read, or is damaged; an option is out of range; the system refuses
    /// a thread ([`Error::ThreadRefused`]).
    pub fn standby(log: impl AsRef<Path>, options: Options) -> Result<Database> {
        nesting::check("opening a database")?;
        Ok(Database { shared: Shared::open_standby(log.as_ref(), options)? })
    }

    /// Returns true if the database is a standby.
    pub fn is_standby(&self) -> bool {
        self.shared.standby().is_some()
    }

    /// Returns the state of replay, if the database is a standby.
    pub fn standby_status(&self) -> Option<StandbyStatus> {
        self.shared.standby().map(|standby| standby.status())
    }

    /// The position in the log of the last group of commits: of everything that was acknowledged before the call, or of a later commit.
    /// On a standby it is the position of the last group that was replayed.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if nothing is logged; [`Error::LogFailed`]; [`Error::Closed`]; [`Error::Nested`] inside a transaction.
    pub fn position(&self) -> Result<LogPosition> {
        nesting::check("asking for the log's position")?;
        self.check_open()?;
        let progress = self.engine().progress();
        if self.shared.own_term().is_some() && !progress.releases_what_is_durable() {
            // What was acknowledged need not have reached the log yet.
            let epoch = self.engine().store().epochs().current();
            block_on_until(poll_fn(|context| progress.poll_durable(epoch, context)), None)
                .unwrap_or(Ok(()))?;
        }
        self.durable_position()
    }

    /// Same as [`position`](Self::position), of what is durable or replayed now: it waits for nothing, and can be asked for in a transaction.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if nothing is logged; [`Error::Closed`].
    #[doc(hidden)]
    pub fn durable_position(&self) -> Result<LogPosition> {
        self.check_open()?;
        if let Some(standby) = self.shared.standby() {
            return Ok(standby.status().position);
        }
        let (term, epoch) = (self.own_term()?, self.engine().progress().last_group());
        Ok(if epoch == 0 { term.behind } else { LogPosition::new(term.number, epoch) })
    }

    /// Waits until the database has this [position](Self::position) of a log: on a standby of the database whose log it is, until the
    /// position is replayed. So what was acknowledged there is read here.
    ///
    /// # Errors
    /// [`StandbyError::PositionNotReached`] after the timeout; [`StandbyError::PositionLost`] if a crash came before the position was durable, as far as the standby has
    /// read the log since; [`StandbyError::Stopped`]; [`Error::Closed`]; [`Error::Nested`] inside a transaction; those of [`position`](Self::position).
    pub fn wait_for_position(&self, position: LogPosition, timeout: Duration) -> Result<()> {
        nesting::check("waiting for a position")?;
        self.check_open()?;
        let begun = Instant::now();
        if let Some(standby) = self.shared.standby()
            && standby.wait_for(position, Some(timeout))?
        {
            return Ok(());
        }
        while !self.has_position(position)? {
            if begun.elapsed() >= timeout {
                let (position, reached) = (position.to_string(), self.position()?.to_string());
                return Err(Error::Standby(StandbyError::PositionNotReached { position, reached }));
            }
            std::thread::sleep(LOOK.min(timeout));
        }
        Ok(())
    }

    /// Returns true if the database has this position now. It waits for nothing, and can be asked in a transaction.
    ///
    /// # Errors
    /// Those of [`wait_for_position`](Self::wait_for_position), but for its timeout.
    #[doc(hidden)]
    pub fn has_position(&self, position: LogPosition) -> Result<bool> {
        if let Some(standby) = self.shared.standby() {
            return standby.has(position);
        }
        let (term, reached) = (self.own_term()?, self.durable_position()?);
        if position.term() >= term.number {
            return Ok(position <= reached);
        }
        if position.epoch() <= term.through {
            return Ok(true);
        }
        Err(Error::Standby(StandbyError::PositionLost { position: position.to_string() }))
    }

    fn own_term(&self) -> Result<OwnTerm> {
        self.shared.own_term().ok_or_else(|| Error::InvalidOption {
            option: "durability",
            given: "none, or read-only".to_string(),
            expected: "async or group, for positions in the log: nothing is logged".to_string(),
        })
    }

    /// Locks the directory of the database that this standby replays, as its owner does, and replays its log to the end. Until what
    /// is returned is dropped, no other process can open that database; the standby is read as before, until it is
    /// [promoted](Self::promote). If it fails, the standby goes on as before.
    ///
    /// # Errors
    /// [`Error::InUse`]: the other process has not ended; [`StandbyError::NoStandby`]; [`StandbyError::Stopped`]; the directory cannot be
    /// written to; [`Error::InvalidOption`]: the standby's options are none of a database that is written to; [`Error::Nested`] inside a
    /// transaction.
    pub fn fence(&self) -> Result<Fenced> {
        nesting::check("promoting a standby")?;
        self.check_open()?;
        let standby = self.own_standby()?;
        let options = self.shared.promoted()?;
        check_promotion(options)?;
        let (disk, log) = (options.disk.clone(), options.log.directory.as_deref());
        // Where the database is no more, none is made.
        identity(&*disk, standby.source())?;
        let directory = DatabaseDirectory::open(disk, standby.source(), &segment_sizes(options), log)?;
        let fenced = Fence { standby: standby.clone() };
        let log = standby.replay_to_end()?;
        Ok(Fenced { log, directory, fence: fenced })
    }

    /// Makes a standby the database that it replays: its log is written behind its end, in a new term, and writes are
    /// accepted. All that was acknowledged is there. Sessions, snapshots and everything else that is open go on. The options of
    /// the database are those that the standby was opened with; the protocol is put in force now.
    ///
    /// ```no_run
    /// # use heddledb::{Database, Options};
    /// # let standby = Database::standby("bank/log", Options::default())?;
    /// let fenced = standby.fence()?;
    /// standby.promote(fenced)?;
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// # Errors
    /// The log or a checkpoint cannot be read or written, or is damaged; [`Error::ThreadRefused`]: then the standby stops
    /// ([`StandbyStatus::failure`]), what it has can be read, and another process can open the database once it is closed.
    /// [`StandbyError::NoStandby`]; [`Error::Closed`]; [`Error::Nested`] inside a transaction.
    pub fn promote(&self, fenced: Fenced) -> Result<()> {
        nesting::check("promoting a standby")?;
        self.check_open()?;
        let standby = self.own_standby()?;
        if !Arc::ptr_eq(standby, &fenced.fence.standby) {
            return Err(Error::Standby(StandbyError::NoStandby));
        }
        let Fenced { log, directory, fence } = fenced;
        let promoted = self.shared.take_over(standby, &log, directory);
        // Before the fence is taken away, so that nothing is replayed any more.
        promoted.inspect_err(|error| standby.fail(error)).inspect(|()| drop(fence))
    }

    fn own_standby(&self) -> Result<&Arc<Standby>> {
        self.shared.standby().ok_or(Error::Standby(StandbyError::NoStandby))
    }

    /// Has definitions that a crate above keeps in a table's rows follow the log, if the database is a standby. `make` reads them as
    /// they are, while no group is replayed; what it returns learns of each change from then on.
    ///
    /// # Errors
    /// Those of `make`.
    #[doc(hidden)]
    pub fn follow_definitions<E>(
        &self,
        table: &Table,
        make: impl FnOnce() -> Result<Arc<dyn ReplayedDefinitions>, E>,
    ) -> Result<(), E> {
        if let Some(standby) = self.shared.standby() {
            let _pause = self.engine().replaying().map(Replaying::pause);
            standby.follow_definitions(table.core().id(), make()?);
        }
        Ok(())
    }
}

/// Refuses options with which a standby cannot be promoted.
fn check_promotion(options: &Options) -> Result<()> {
    let refuse = |option, given: String, expected: &str| {
        Err(Error::InvalidOption { option, given, expected: expected.to_string() })
    };
    if options.durability == Durability::None || options.read_only {
        return refuse(
            "durability",
            "none, or read-only".to_string(),
            "async or group, for a standby that is promoted: it writes the log from then on",
        );
    }
    let kind = options.protocol.kind;
    if !kind.is_changeable() {
        return refuse(
            "protocol",
            kind.to_string(),
            "a protocol that can be put in force while transactions run; or close the standby, and open the database",
        );
    }
    Ok(())
}

/// The database of a standby, locked, and its log, replayed to its end: see [`Database::fence`].
#[must_use]
pub struct Fenced {
    log: ReplayedLog,
    directory: DatabaseDirectory,
    // Last: another process can write the log, when it is replayed again.
    fence: Fence,
}

/// While it lives, the log is known to have no writer.
struct Fence {
    standby: Arc<Standby>,
}

impl Drop for Fence {
    fn drop(&mut self) {
        self.standby.release();
    }
}

impl std::fmt::Debug for Fenced {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Fenced").field("directory", &self.directory.path()).finish_non_exhaustive()
    }
}
