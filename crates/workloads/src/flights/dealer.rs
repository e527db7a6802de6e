//! Distributes rows to the callers while the file is read.
//!
//! One thread reads and parses; a row is sent to the caller that its key names, so that of two rows with one
//! key the first in the file is the first to be called, as in the plain pass. Queues are bounded: reading
//! waits for slow callers.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

use heddledb::Procedure;

use super::UNPARSABLE;
use super::input::Rows;
use super::procedure::arguments;
use super::row::FlightRow;
use crate::calls::Calls;
use crate::workload::Generator;
use crate::{Error, Result};

/// Rows sent as one batch.
const BATCH: usize = 64;

/// Batches that wait for a caller.
const WAITING: usize = 32;

/// A row, or `None` for one that doesn't parse.
type Item = Option<FlightRow>;

/// A batch of rows from the reading thread for a caller.
type Batch = Result<Vec<Item>>;

/// The callers' ends of the queues.
pub(super) struct Dealer {
    queues: Mutex<Vec<Option<Receiver<Batch>>>>,
}

impl Dealer {
    /// Starts to read for this many callers.
    pub fn start(rows: Rows, callers: usize) -> Result<Self> {
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..callers.max(1)).map(|_| sync_channel::<Batch>(WAITING)).unzip();
        std::thread::Builder::new()
            .name("flights reader".to_owned())
            .spawn(move || deal(rows, senders))
            .map_err(|reason| Error::stream("starting the reading thread", reason))?;
        Ok(Self { queues: Mutex::new(receivers.into_iter().map(Some).collect()) })
    }

    /// The rows of one caller. Each caller may ask once.
    pub fn generator(&self, caller: usize, procedure: Procedure) -> Result<Box<dyn Generator>> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = queues.get_mut(caller).and_then(Option::take).ok_or_else(|| {
            Error::Unusable(format!(
                "caller {caller} has no rows to deal: an input is read once, by the callers bound"
            ))
        })?;
        Ok(Box::new(Dealt { queue, batch: Vec::new().into_iter(), procedure }))
    }
}

/// Reads to the end of the input, or until no caller is left.
fn deal(mut rows: Rows, senders: Vec<SyncSender<Batch>>) {
    let mut batches: Vec<Vec<Item>> = senders.iter().map(|_| Vec::with_capacity(BATCH)).collect();
    // A fixed hash, so that the same file is dealt in the same way in every run.
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    loop {
        let row = match rows.next_line() {
            Ok(Some(line)) => line.row,
            Ok(None) => break,
            Err(error) => {
                // A caller that has gone has its own error to report.
                let _ = senders[0].send(Err(error));
                return;
            }
        };
        let caller =
            row.as_ref().map_or(0, |row| (hasher.hash_one(&row.key) % senders.len() as u64) as usize);
        batches[caller].push(row);
        if batches[caller].len() == BATCH {
            let batch = std::mem::replace(&mut batches[caller], Vec::with_capacity(BATCH));
            if senders[caller].send(Ok(batch)).is_err() {
                return;
            }
        }
    }
    for (sender, batch) in senders.into_iter().zip(batches) {
        // As above: a thread that has ended needs no rows.
        let _ = sender.send(Ok(batch));
    }
}

/// The calls of one caller.
struct Dealt {
    queue: Receiver<Batch>,
    batch: std::vec::IntoIter<Item>,
    procedure: Procedure,
}

impl Generator for Dealt {
    fn procedures(&self) -> &[Procedure] {
        std::slice::from_ref(&self.procedure)
    }

    fn fill(&mut self, calls: &mut Calls, at_most: usize) -> Result<bool> {
        while calls.len() < at_most {
            match self.batch.next() {
                Some(Some(row)) => calls.add_made(0, 1, arguments(row)),
                Some(None) => calls.refuse(0, UNPARSABLE),
                None => match self.queue.recv() {
                    Ok(batch) => self.batch = batch?.into_iter(),
                    Err(_) => return Ok(false),
                },
            }
        }
        Ok(true)
    }
}
