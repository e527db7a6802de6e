//! The database's side of a follower: listens for one, sends it the log and the checkpointer's orders.
//!
//! One follower is served at a time; another one that has connected waits until that one is gone. All that the service
//! remembers about it ends with the connection.

use std::io;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::message::{FromFollower, ToFollower, VERSION};
use crate::base::atomics::{AtomicBool, Ordering};
use crate::base::socket::{Connection, Listener};
use crate::durability::BlockReader;
use crate::durability::GroupStart;
use crate::durability::Segments;
use crate::durability::checkpoint::{Checkpoints, Written};
use crate::error::{Error, Result};
use crate::pipeline::engine::Engine;
use crate::pipeline::statistics::Stage;

/// Interval between checks for a follower that has connected.
const LOOK: Duration = Duration::from_millis(50);
/// Interval between checks for something to send or to receive.
const SHORT: Duration = Duration::from_millis(2);
/// A follower that sends nothing for this long is disconnected.
pub(super) const SILENCE: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 20 });
/// Time to wait for a follower when the database is closed.
const FAREWELL: Duration = Duration::from_millis(500);
/// Bound on the bytes that wait in the database to be sent, apart from one block.
const UNSENT_BYTES_MAX: usize = 1 << 20;

/// Status of a follower.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct FollowerStatus {
    /// True if there is one now.
    pub attached: bool,
    /// Number of times that a follower has connected since the database was opened.
    pub came: u64,
    /// The epoch through which it has replayed the log, by its last message.
    pub epoch: u64,
    /// The reason why the last one was released, or could not carry out its order, if that is so.
    pub failure: Option<Error>,
}

/// The connection at which a follower is awaited and served.
pub(crate) struct FollowerConnection {
    /// Until the thread takes it.
    listener: Mutex<Option<Listener>>,
    state: Mutex<State>,
    changed: Condvar,
    stop: AtomicBool,
}

#[derive(Default)]
struct State {
    status: FollowerStatus,
    order: Option<Order>,
    /// Set by a thread whose wait has timed out: the connection is to be cut.
    given_up: Option<Error>,
    /// True while the database is making a checkpoint itself: the files that a follower would load are removed when
    /// that is done.
    is_replacing: bool,
    /// True while a follower waits for that end: it gets the next order, even if the next checkpoint is due at once.
    is_waiting: bool,
}

/// A checkpoint that a follower is to write.
struct Order {
    number: u32,
    directories: Vec<String>,
    /// The epoch that the checkpoint is of, once the order was sent.
    epoch: Option<u64>,
    answer: Option<Result<Written>>,
}

/// The outcome of an order.
pub(crate) enum Ordered {
    /// The follower could not do it, or took too long, or is gone.
    Failed,
    /// Its parts are durable, or so it says.
    Done {
        /// The epoch that they are of.
        epoch: u64,
        written: Written,
    },
}

fn failed(reason: impl ToString) -> Error {
    Error::FollowerFailed { reason: reason.to_string() }
}

impl FollowerConnection {
    pub(crate) fn new(listener: Listener) -> FollowerConnection {
        let (state, changed, stop) = (Mutex::default(), Condvar::new(), AtomicBool::new(false));
        FollowerConnection { listener: Mutex::new(Some(listener)), state, changed, stop }
    }

    /// Status of the follower.
    pub(crate) fn status(&self) -> FollowerStatus {
        self.state.lock().status.clone()
    }

    /// Returns true if there is a follower that can get an order. If not, none is let in until
    /// [`checkpoint_ended`](Self::checkpoint_ended).
    pub(crate) fn has_follower(&self) -> bool {
        let mut state = self.state.lock();
        state.is_replacing = !state.status.attached || state.given_up.is_some();
        !state.is_replacing
    }

    /// The database has made its checkpoint, or it has failed.
    pub(crate) fn checkpoint_ended(&self) {
        let mut state = self.state.lock();
        state.is_replacing = false;
        state.status.attached |= std::mem::take(&mut state.is_waiting);
    }

    /// Orders the parts of a checkpoint from the follower, of what is durable now or a little later, and waits for them
    /// while `goes_on` returns true.
    pub(crate) fn order(&self, number: u32, directories: Vec<String>, goes_on: &dyn Fn() -> bool) -> Ordered {
        let mut state = self.state.lock();
        if !state.status.attached {
            return Ordered::Failed;
        }
        state.order = Some(Order { number, directories, epoch: None, answer: None });
        loop {
            let Some(order) = &mut state.order else { return Ordered::Failed };
            if let (Some(epoch), Some(answer)) = (order.epoch, order.answer.take()) {
                state.order = None;
                return match answer {
                    Ok(written) => Ordered::Done { epoch, written },
                    Err(failure) => {
                        state.status.failure = Some(failure);
                        Ordered::Failed
                    }
                };
            }
            if !goes_on() {
                state.order = None;
                state.given_up = Some(failed("it is too far behind"));
                return Ordered::Failed;
            }
            self.changed.wait_for(&mut state, SHORT);
        }
    }

    /// Gives the follower up: what it has written is not as it should be.
    pub(crate) fn give_up(&self, failure: &Error) {
        let mut state = self.state.lock();
        if state.status.attached {
            state.given_up = Some(failed(failure));
        }
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        // Under the lock, so that no thread misses it between a look and a sleep; else relaxed would do.
        let _state = self.state.lock();
        self.stop.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    fn is_stopped(&self) -> bool {
        // Relaxed: sooner or later is enough; a thread that sleeps looks under the lock.
        self.stop.load(Ordering::Relaxed)
    }

    /// The life of the thread.
    pub(crate) fn run(&self, engine: &Engine, segments: &Segments, checkpoints: &Checkpoints) {
        let Some(listener) = self.listener.lock().take() else { return };
        while !self.is_stopped() {
            // Where the system has no descriptors left there may be some later.
            let Ok(Some(connection)) = listener.accept() else {
                self.sleep(LOOK);
                continue;
            };
            let mut service = Service {
                follower_connection: self,
                engine,
                segments,
                checkpoints,
                connection,
                has_come: false,
                blocks: None,
                heard: Instant::now(),
                busy: 0,
            };
            let ended = service.run();
            let mut state = self.state.lock();
            (state.status.attached, state.is_waiting) = (false, false);
            (state.order, state.given_up) = (None, None);
            if let Err(failure) = ended {
                state.status.failure = Some(failure);
            }
            self.changed.notify_all();
        }
    }

    fn sleep(&self, time: Duration) {
        let mut state = self.state.lock();
        if !self.is_stopped() {
            self.changed.wait_for(&mut state, time);
        }
    }
}

/// One follower, while it is connected.
struct Service<'p> {
    follower_connection: &'p FollowerConnection,
    engine: &'p Engine,
    segments: &'p Segments,
    checkpoints: &'p Checkpoints,
    connection: Connection,
    /// True once it has said that it is a follower.
    has_come: bool,
    /// `None` before it has received where to begin.
    blocks: Option<BlockReader>,
    /// Time of its last message.
    heard: Instant,
    /// Its work time, by its last message.
    busy: u64,
}

fn lost(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
            failed("it has gone")
        }
        _ => failed(error),
    }
}

impl Service<'_> {
    /// Serves it until it is gone, or is released, or the database is closed.
    fn run(&mut self) -> Result<()> {
        while !self.follower_connection.is_stopped() {
            if let Some(failure) = self.follower_connection.state.lock().given_up.take() {
                return Err(failure);
            }
            let received = self.receive()?;
            if self.has_come && self.blocks.is_none() {
                self.begin()?;
            }
            let shipped = self.ship()?;
            let sent = self.connection.send().map_err(lost)?;
            if self.heard.elapsed() > SILENCE {
                return Err(failed("it has said nothing for too long"));
            }
            if !received && !shipped && !sent {
                self.follower_connection.sleep(SHORT);
            }
        }
        self.connection.put(&ToFollower::End.encode());
        let start = Instant::now();
        // It hangs up when it has heard that. A side that hangs up first, with data unread, discards what was sent.
        while start.elapsed() < FAREWELL {
            self.connection.send().map_err(lost)?;
            if self.connection.receive().is_err() {
                break;
            }
            std::thread::sleep(SHORT);
        }
        Ok(())
    }

    /// Handles the messages received; returns true if there were any.
    fn receive(&mut self) -> Result<bool> {
        let mut any = false;
        while let Some(frame) = self.connection.receive().map_err(lost)? {
            (any, self.heard) = (true, Instant::now());
            match FromFollower::decode(&frame).map_err(failed)? {
                FromFollower::Hello { version: VERSION } if !self.has_come => self.has_come = true,
                FromFollower::Hello { version: VERSION } => return Err(failed("it comes twice")),
                FromFollower::Hello { version } => {
                    return Err(failed(format!("it is another program's: it speaks version {version}")));
                }
                FromFollower::Alive { epoch, busy } => {
                    let more = busy.saturating_sub(std::mem::replace(&mut self.busy, busy));
                    self.engine.clocks().add_time(Stage::Follower, Duration::from_nanos(more));
                    self.follower_connection.state.lock().status.epoch = epoch;
                }
                FromFollower::Done { number, written } => self.answer(number, Ok(written)),
                FromFollower::Failed { number: 0, reason } => return Err(failed(reason)),
                FromFollower::Failed { number, reason } => self.answer(number, Err(failed(reason))),
            }
        }
        Ok(any)
    }

    /// Says from which checkpoint on it will get the log, unless the database is just replacing that. From then on it
    /// gets the order for the next one. Should it be too slow for that, it may find the files that it is to load
    /// missing, and connects again.
    fn begin(&mut self) -> Result<()> {
        let mut state = self.follower_connection.state.lock();
        state.is_waiting = state.is_replacing;
        if state.is_replacing {
            return Ok(());
        }
        (state.status.attached, state.status.epoch) = (true, 0);
        state.status.came += 1;
        drop(state);
        let newest = self.checkpoints.newest_first()?.first().copied();
        let manifest = newest.map(|number| self.checkpoints.manifest(number)).transpose()?;
        let (checkpoint, start) =
            manifest.map_or((0, GroupStart::FIRST), |manifest| (manifest.number, manifest.log_start));
        let (uuid, directory) = (self.checkpoints.uuid(), self.checkpoints.database()?);
        self.connection.put(&ToFollower::Begin { uuid, directory, checkpoint, start }.encode());
        self.blocks = Some(self.segments.block_reader(start));
        Ok(())
    }

    fn answer(&self, number: u32, answer: Result<Written>) {
        let mut state = self.follower_connection.state.lock();
        // An answer to what no thread waits for any more is of no use.
        if let Some(order) =
            state.order.as_mut().filter(|order| order.number == number && order.epoch.is_some())
        {
            order.answer = Some(answer);
            self.follower_connection.changed.notify_all();
        }
    }

    /// Sends more of the log, and when all that is durable was sent, an order that waits. Returns true if anything was
    /// sent.
    fn ship(&mut self) -> Result<bool> {
        let Some(blocks) = &mut self.blocks else { return Ok(false) };
        // Before the rest: what was durable when it was asked for must be in it.
        let is_asked =
            self.follower_connection.state.lock().order.as_ref().is_some_and(|order| order.epoch.is_none());
        // In this order: every group up to `durable` has been noted by now, and every group that is noted is durable. So no
        // group is of an epoch between the two.
        let durable = self.engine.progress().durable();
        let last = self.segments.last_epoch();
        let mut any = false;
        while blocks.last_epoch() < last && self.connection.unsent() < UNSENT_BYTES_MAX {
            self.connection.put(&ToFollower::Block(blocks.next_block()?).encode());
            any = true;
        }
        if blocks.last_epoch() < last || !is_asked {
            return Ok(any);
        }
        let mut state = self.follower_connection.state.lock();
        if let Some(order) = state.order.as_mut().filter(|order| order.epoch.is_none()) {
            let (number, epoch, directories) = (order.number, durable.max(last), order.directories.clone());
            order.epoch = Some(epoch);
            self.connection.put(&ToFollower::Write { number, epoch, directories }.encode());
            any = true;
        }
        Ok(any)
    }
}
