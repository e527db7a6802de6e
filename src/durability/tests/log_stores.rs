//! The conformance suite of log stores: what [`log_store`](crate::durability::log_store) says of them, against a model. Each
//! implementation joins with one line at the end; a store in memory with each defect must be found out.

use super::*;
use crate::durability::log_store::{Append, LogSource, LogStore};
use crate::durability::memory_log::{Defect, MemoryLog};
use crate::storage::redo::RedoPart;

/// Steps of one run.
const STEPS: u32 = 60;
/// Runs of each implementation, each of another seed.
const RUNS: u64 = 60;
/// Runs in which each defect must be found.
const RUNS_OF_DEFECT: u64 = 200;

/// A log that can be opened.
trait Subject {
    /// Opens the log as its next writer: the groups in it, and the writer. `Error::InUse`: an earlier writer keeps later ones out.
    fn open(&self) -> Result<(Vec<Group>, Box<dyn LogStore>)>;
}

impl Subject for MemoryLog {
    fn open(&self) -> Result<(Vec<Group>, Box<dyn LogStore>)> {
        let (mut source, writer) = MemoryLog::open(self);
        let mut groups = Vec::new();
        while let Some(group) = source.next_group()? {
            groups.push(group);
        }
        if !source.positions().is_sorted() {
            groups.clear(); // A model of what a reader does that meets positions which go back: it trusts nothing.
        }
        Ok((groups, Box::new(writer)))
    }
}

impl Subject for SimulatedDisk {
    fn open(&self) -> Result<(Vec<Group>, Box<dyn LogStore>)> {
        let mut opened = super::open(self, &pages(4, 2))?;
        Ok((std::mem::take(&mut opened.groups), Box::new(opened)))
    }
}

/// The disk's store as the engine has it, with the lock of its directory; segments are prepared when they are needed.
impl LogStore for Opened {
    fn in_flight(&self) -> &Arc<crate::durability::groups_in_flight::GroupsInFlight> {
        self.writer.in_flight()
    }

    fn term(&self) -> u64 {
        self.writer.term()
    }

    fn append(
        &mut self,
        epoch: u64,
        payload: &[RedoPart<'_>],
        waits: &mut dyn FnMut(&Error) -> bool,
    ) -> Result<Box<dyn Append>> {
        let bytes = payload.iter().map(|part| part.len()).sum();
        while self.segments.remaining_bytes() < group_bytes_max(bytes) {
            self.segments.prepare_next()?;
        }
        LogStore::append(&mut self.writer, epoch, payload, waits)
    }
}

/// A writer, and its appends that have not ended.
struct Writer {
    store: Box<dyn LogStore>,
    pending: Vec<Box<dyn Append>>,
}

/// What must be in the log, and what may be.
#[derive(Default)]
struct Model {
    /// Every group that was appended to the last writer's store or before, in order.
    appended: Vec<Group>,
    /// Everything through this epoch was said to be durable.
    durable: u64,
    /// What was read when the log was opened last.
    read: Vec<Group>,
}

type Found = std::result::Result<(), String>;

impl Model {
    /// What a new writer has read: what was read before, and a beginning of what was appended since, all that is durable.
    fn opened(&mut self, read: Vec<Group>) -> Found {
        let is_kept = read.starts_with(&self.read);
        let since = &self.appended[..];
        let new = read.get(self.read.len()..).unwrap_or_default();
        let has_durable = read.last().map_or(0, |group| group.epoch) >= self.durable;
        if !(is_kept && since.starts_with(new) && has_durable) {
            let epochs = |groups: &[Group]| groups.iter().map(|group| group.epoch).collect::<Vec<_>>();
            return Err(format!(
                "read {:?}, before that {:?}; appended since {:?}, durable through {}",
                epochs(&read),
                epochs(&self.read),
                epochs(since),
                self.durable
            ));
        }
        (self.read, self.appended) = (read, Vec::new());
        Ok(())
    }
}

/// One run: appends, ends of appends in any order, and take-overs, after which the earlier writer goes on trying.
fn run(subject: &dyn Subject, seed: u64) -> Found {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut model, mut epoch) = (Model::default(), 0);
    let mut writer = take_over(subject, &mut model, None)?;
    for _ in 0..STEPS {
        match random.u8(..10) {
            0 => writer = take_over(subject, &mut model, Some((writer, epoch)))?,
            1..6 if writer.store.in_flight().has_room() => {
                epoch += random.u64(1..4);
                let group = group(epoch, random.usize(..9_000));
                let payload = [RedoPart::Bytes(&group.payload)];
                if let Ok(append) = writer.store.append(epoch, &payload, &mut |_| false) {
                    model.appended.push(group);
                    writer.pending.push(append);
                }
            }
            _ if !writer.pending.is_empty() => {
                let append = writer.pending.remove(random.usize(..writer.pending.len()));
                match append.finish() {
                    Ok(durable) => model.durable = model.durable.max(durable.unwrap_or(0)),
                    // After that it appends nothing more: the log is opened again.
                    Err(_) => {
                        drop(writer);
                        writer = take_over(subject, &mut model, None)?;
                    }
                }
            }
            _ => {}
        }
    }
    drop(writer);
    take_over(subject, &mut model, None).map(drop)
}

/// Opens the log. An earlier writer, which knows this last epoch, either keeps later ones out as long as it lives, or is fenced.
fn take_over(
    subject: &dyn Subject,
    model: &mut Model,
    earlier: Option<(Writer, u64)>,
) -> std::result::Result<Writer, String> {
    let (opened, earlier) = match (subject.open(), earlier) {
        (Err(Error::InUse { .. }), Some(earlier)) => {
            drop(earlier);
            (subject.open(), None)
        }
        other => other,
    };
    let (read, store) = opened.map_err(|error| error.to_string())?;
    model.opened(read)?;
    earlier.map_or(Ok(()), |(writer, epoch)| must_be_fenced(writer, epoch))?;
    Ok(Writer { store, pending: Vec::new() })
}

/// A fenced writer learns of no group that it is durable, whether its append began before or after.
fn must_be_fenced(mut writer: Writer, epoch: u64) -> Found {
    if let Some(durable) = writer.pending.drain(..).find_map(|append| append.finish().ok()) {
        return Err(format!("a fenced writer's append ended, durable through {durable:?}"));
    }
    let late = writer.store.append(epoch + 1, &[RedoPart::Bytes(b"late")], &mut |_| false);
    if late.is_ok() { Err("a fenced writer may append".to_string()) } else { Ok(()) }
}

/// Tests that an implementation, of which a seed makes an empty one, keeps what the seam promises.
macro_rules! log_store_conforms {
    ($name:ident, $new:expr) => {
        #[test]
        fn $name() {
            for seed in 0..RUNS {
                run(&$new(seed), seed).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
            }
        }
    };
}

log_store_conforms!(the_local_disk_conforms, |_| SimulatedDisk::new());
log_store_conforms!(a_log_in_memory_conforms, MemoryLog::new);

#[test]
fn every_defect_of_a_store_is_found() {
    for defect in Defect::ALL {
        let found = (0..RUNS_OF_DEFECT)
            .find_map(|seed| run(&MemoryLog::with_defect(seed, defect), seed).err().map(|what| (seed, what)));
        let (seed, what) = found.unwrap_or_else(|| panic!("{defect:?} was not found"));
        println!("{defect:?}, seed {seed}: {what}");
    }
}
