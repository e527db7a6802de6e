//! The follower's side: loads the data that the database names, replays the log as it arrives, and writes checkpoints
//! on demand.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::message::{FromFollower, ToFollower, VERSION};
use super::replica::Replica;
use crate::base::atomics::{AtomicBool, Ordering};
use crate::base::disk::Disk;
use crate::base::socket::Connection;
use crate::durability::checkpoint::{Crew, NewCheckpoint, Written};
use crate::durability::watch::Watch;
use crate::error::{Error, Result};
use crate::pipeline::checkpoint::write_all;
use crate::pipeline::threads::in_parallel;

/// Time to wait for the next message before other work is done.
const PATIENCE: Duration = Duration::from_millis(50);
/// Interval between its heartbeats.
const BEAT: Duration = Duration::from_millis(if cfg!(test) { 100 } else { 1_000 });

/// Work that a follower has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FollowerReport {
    /// The epoch through which its copy is.
    pub epoch: u64,
    /// Bytes of redo that it has replayed.
    pub redo_bytes: u64,
    /// Checkpoints that it has written; whether they were used the database knows.
    pub checkpoints: u64,
    /// Time that it has worked, without waits.
    pub busy: Duration,
    /// Bytes of memory that the rows of its copy take.
    pub memory_bytes: u64,
}

/// State shared by the follower's two threads.
struct Line {
    talk: Mutex<Talk>,
    socket: PathBuf,
    /// True once the connection is broken: the present work is of no use.
    broken: AtomicBool,
    ended: Mutex<bool>,
    changed: Condvar,
}

struct Talk {
    connection: Connection,
    epoch: u64,
    busy: Duration,
}

impl Line {
    fn lost(&self, error: io::Error) -> Error {
        // Relaxed: sooner or later is enough.
        self.broken.store(true, Ordering::Relaxed);
        let gone = error.kind() == io::ErrorKind::UnexpectedEof;
        let what = if gone { "it has gone".to_string() } else { error.to_string() };
        Error::DatabaseLost { socket: self.socket.display().to_string(), reason: what }
    }

    fn is_broken(&self) -> bool {
        // Relaxed: as above.
        self.broken.load(Ordering::Relaxed)
    }

    fn say(&self, message: &FromFollower) -> Result<()> {
        let mut talk = self.talk.lock();
        talk.connection.put(&message.encode());
        while talk.connection.unsent() > 0 && !self.is_broken() {
            match talk.connection.send() {
                Ok(_) => {}
                // The primary no longer listens; what it sent before, that it is being closed perhaps, is still to be
                // heard.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    self.broken.store(true, Ordering::Relaxed);
                }
                Err(error) => return Err(self.lost(error)),
            }
        }
        Ok(())
    }

    fn hear(&self) -> Result<Option<ToFollower>> {
        let frame = self.talk.lock().connection.receive().map_err(|error| self.lost(error))?;
        frame.map(|frame| ToFollower::decode(&frame)).transpose()
    }

    /// Says now and then that this process is alive, whatever its other thread is at.
    fn beat(&self) {
        let mut ended = self.ended.lock();
        while !*ended {
            self.changed.wait_for(&mut ended, BEAT);
            let talk = self.talk.lock();
            let (epoch, busy) = (talk.epoch, talk.busy.as_nanos() as u64);
            drop(talk);
            if self.say(&FromFollower::Alive { epoch, busy }).is_err() || self.is_broken() {
                return;
            }
        }
    }
}

/// Ends the beating with the work, however that ends: a heart alone is no life.
struct Outcome<'l>(&'l Line);

impl Drop for Outcome<'_> {
    fn drop(&mut self) {
        *self.0.ended.lock() = true;
        self.0.changed.notify_all();
    }
}

/// Follows the database in a directory, which listens at this socket, until that is closed. `reported` receives its
/// work, from time to time, and returns false to end it.
///
/// # Errors
/// No primary listens there, or no longer; the directory is not that database's; its checkpoint or its log is damaged.
pub(crate) fn follow(
    disk: &Arc<dyn Disk>,
    directory: &Path,
    socket: &Path,
    reported: &mut dyn FnMut(&FollowerReport) -> bool,
) -> Result<FollowerReport> {
    let no_database = |error: io::Error| Error::DatabaseLost {
        socket: socket.display().to_string(),
        reason: error.to_string(),
    };
    let connection = Connection::to(socket, PATIENCE).map_err(no_database)?;
    let line = Line {
        talk: Mutex::new(Talk { connection, epoch: 0, busy: Duration::ZERO }),
        socket: socket.to_path_buf(),
        broken: AtomicBool::new(false),
        ended: Mutex::new(false),
        changed: Condvar::new(),
    };
    let mut follower = Follower { line: &line, reported, report: FollowerReport::default() };
    std::thread::scope(|scope| {
        let beating = std::thread::Builder::new().name("heddle-beat".to_string());
        beating.spawn_scoped(scope, || line.beat()).map_err(refused)?;
        let _outcome = Outcome(&line);
        let outcome = follower.live(disk, directory);
        if let Err(failure) = &outcome {
            // The reason why it leaves, if the primary still listens.
            let _ = line.say(&FromFollower::Failed { number: 0, reason: failure.to_string() });
        }
        outcome
    })?;
    Ok(follower.report)
}

/// See the [module](self).
struct Follower<'l, 't> {
    line: &'l Line,
    reported: &'t mut dyn FnMut(&FollowerReport) -> bool,
    report: FollowerReport,
}

impl Follower<'_, '_> {
    fn live(&mut self, disk: &Arc<dyn Disk>, directory: &Path) -> Result<()> {
        self.line.say(&FromFollower::Hello { version: VERSION })?;
        let Some(first) = self.next_message()? else { return Ok(()) };
        let mut replica = match first {
            ToFollower::Begin { uuid, directory: named, checkpoint, start } => self.work(|| {
                let tools: (Crew<'_>, _) = (&in_parallel, &Watch::default());
                Replica::load(disk, directory, (uuid, &named), (checkpoint, start), tools)
            })?,
            ToFollower::End => return Ok(()),
            _ => return Err(out_of_turn()),
        };
        while let Some(message) = self.next_message()? {
            match message {
                ToFollower::Block(block) => {
                    self.report.redo_bytes += self.work(|| replica.take(&block))?;
                    self.report.epoch = replica.epoch();
                    self.line.talk.lock().epoch = replica.epoch();
                }
                ToFollower::Write { number, epoch, directories } => {
                    self.write(&mut replica, number, epoch, &directories)?;
                }
                ToFollower::End => break,
                ToFollower::Begin { .. } => return Err(out_of_turn()),
            }
            self.report.memory_bytes = replica.memory_bytes();
        }
        Ok(())
    }

    /// Runs some work, and counts its time.
    fn work<T>(&mut self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let start = Instant::now();
        let done = work();
        self.report.busy += start.elapsed();
        self.line.talk.lock().busy = self.report.busy;
        done
    }

    /// The next message; `None` if it is to end.
    fn next_message(&mut self) -> Result<Option<ToFollower>> {
        loop {
            if let Some(message) = self.line.hear()? {
                return Ok(Some(message));
            }
            if !(self.reported)(&self.report) {
                return Ok(None);
            }
        }
    }

    /// Writes the parts of a checkpoint. If it fails, it leaves them: the database removes them.
    fn write(
        &mut self,
        replica: &mut Replica,
        number: u32,
        epoch: u64,
        directories: &[String],
    ) -> Result<()> {
        let directories: Vec<PathBuf> = directories.iter().map(PathBuf::from).collect();
        let line = self.line;
        let written: Result<Written> = self.work(|| {
            replica.settle(epoch)?;
            let new = Arc::new(NewCheckpoint::of_number(replica.checkpoints(), number, &directories));
            let copied = write_all(&new, replica.store(), &|| line.is_broken())?;
            new.hand_batch(copied.tables)
        });
        let talk = self.line.talk.lock();
        let (epoch, busy) = (talk.epoch, talk.busy.as_nanos() as u64);
        drop(talk);
        self.line.say(&FromFollower::Alive { epoch, busy })?;
        let answer = match written {
            Ok(written) => {
                self.report.checkpoints += 1;
                FromFollower::Done { number, written }
            }
            // The database has gone, or has said that it is being closed: that is heard next.
            Err(Error::Closed) => return Ok(()),
            Err(error @ (Error::Malformed { .. } | Error::Damaged { .. })) => {
                return Err(error);
            }
            Err(error) => FromFollower::Failed { number, reason: error.to_string() },
        };
        self.line.say(&answer)
    }
}

fn refused(reason: io::Error) -> Error {
    Error::ThreadRefused { thread: "heddle-beat".to_string(), reason: reason.to_string() }
}

fn out_of_turn() -> Error {
    Error::Malformed { what: "message of a database", detail: "it came out of turn".to_string() }
}
