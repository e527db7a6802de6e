//! The simulated disk as the engine sees it: `Disk` and `File`.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::faults::{Failure, Fault, Operation};
use super::names::normal;
use super::{Content, Holders, Shared, SimulatedDisk, Survivors};
use crate::base::atomics::{AtomicU64, Ordering};
use crate::base::disk::{Disk, File, LockGuard};

struct SimulatedFile {
    shared: Arc<Shared>,
    number: u64,
    writable: bool,
    /// The number of failed syncs of the file that were reported through this opening, or were before it.
    reported: AtomicU64,
}

struct SimulatedLock {
    shared: Arc<Shared>,
    path: PathBuf,
}

impl LockGuard for SimulatedLock {}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        match state.locks.get_mut(&self.path) {
            Some(Holders::Readers(readers)) if *readers > 1 => *readers -= 1,
            _ => drop(state.locks.remove(&self.path)),
        }
    }
}

impl SimulatedDisk {
    fn open(&self, path: &Path, writable: bool) -> io::Result<Box<dyn File>> {
        let mut state = self.shared.state.lock();
        state.begin(Operation::Open)?;
        let number = state.tree.file(path)?;
        let reported = AtomicU64::new(state.file(number)?.failed_syncs());
        Ok(Box::new(SimulatedFile { shared: self.shared.clone(), number, writable, reported }))
    }

    fn create(&self, path: &Path) -> io::Result<u64> {
        let mut state = self.shared.state.lock();
        state.begin(Operation::Create)?;
        let number = state.next_file;
        state.tree.link(path, number)?;
        state.next_file += 1;
        state.files.insert(number, Content::default());
        Ok(number)
    }

    /// Replaces a lock's holders, unless `next` refuses.
    fn take_lock(
        &self,
        path: &Path,
        next: impl FnOnce(Option<Holders>) -> Option<Holders>,
    ) -> Option<Box<dyn LockGuard>> {
        let path = normal(path);
        let mut state = self.shared.state.lock();
        let holders = next(state.locks.get(&path).copied())?;
        state.locks.insert(path.clone(), holders);
        Some(Box::new(SimulatedLock { shared: self.shared.clone(), path }))
    }
}

impl Disk for SimulatedDisk {
    fn create_dir_all(&self, directory: &Path) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        if state.tree.check_directory(directory).is_ok() {
            return Ok(());
        }
        state.begin(Operation::Create)?;
        state.tree.create_directories(directory)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        let mut state = self.shared.state.lock();
        state.begin(Operation::List)?;
        state.tree.list(directory)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let mut state = self.shared.state.lock();
        state.begin(Operation::List)?;
        Ok(state.tree.exists(path))
    }

    fn open_read(&self, path: &Path) -> io::Result<Box<dyn File>> {
        self.open(path, false)
    }

    fn open_write(&self, path: &Path) -> io::Result<Box<dyn File>> {
        self.open(path, true)
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let number = self.create(path)?;
        Ok(Box::new(SimulatedFile {
            shared: self.shared.clone(),
            number,
            writable: true,
            reported: AtomicU64::new(0),
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        state.begin(Operation::Rename)?;
        state.tree.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        state.begin(Operation::Remove)?;
        state.tree.unlink(path)
    }

    fn sync_dir(&self, directory: &Path) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        state.begin(Operation::SyncDirectory)?;
        if state.plan.lie_about_syncs {
            return state.tree.check_directory(directory);
        }
        state.tree.sync(directory)
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn LockGuard>>> {
        if self.exists(path)? {
            self.open(path, true)?;
        } else {
            self.create(path)?;
        }
        Ok(self.take_lock(path, |holders| holders.is_none().then_some(Holders::Writer)))
    }

    fn try_lock_shared(&self, path: &Path) -> io::Result<Option<Box<dyn LockGuard>>> {
        self.open(path, false)?;
        Ok(self.take_lock(path, |holders| match holders {
            None => Some(Holders::Readers(1)),
            Some(Holders::Readers(readers)) => Some(Holders::Readers(readers + 1)),
            Some(Holders::Writer) => None,
        }))
    }

    #[cfg(test)]
    fn has_bug(&self, bug: crate::base::disk::Bug) -> bool {
        self.shared.state.lock().bug == Some(bug)
    }
}

impl SimulatedFile {
    fn sync(&self) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        while state.plan.hold_syncs {
            state.plan.held_syncs += 1;
            self.shared.holding.notify_all();
            self.shared.holding.wait(&mut state);
            state.plan.held_syncs -= 1;
        }
        match state.begin(Operation::Sync) {
            Ok(()) if state.plan.lie_about_syncs => Ok(()),
            Ok(()) => {
                let content = state.file(self.number)?;
                content.sync();
                // Relaxed: read and written under the disk's lock.
                match self.reported.swap(content.failed_syncs(), Ordering::Relaxed) == content.failed_syncs()
                {
                    true => Ok(()),
                    // A sync through another opening has failed, which may have stranded what was written through this one.
                    false => Err(Fault::InputOutput.error()),
                }
            }
            Err(Failure::PowerGone) => Err(Failure::PowerGone.into()),
            Err(planned) => {
                let mut survivors = Survivors::of_random(&mut state.random);
                let content = state.file(self.number)?;
                content.fail_sync(&mut survivors);
                self.reported.store(content.failed_syncs(), Ordering::Relaxed);
                Err(planned.into())
            }
        }
    }
}

impl File for SimulatedFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        if !self.writable {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let mut state = self.shared.state.lock();
        state.begin(Operation::Write)?;
        let wanted = state.plan.transfer(bytes.len())?;
        let length = state.file(self.number)?.len();
        let room = match state.plan.capacity {
            Some(capacity) => length + capacity.saturating_sub(state.bytes_used()),
            None => u64::MAX,
        };
        let fits = usize::try_from(room.saturating_sub(offset)).unwrap_or(usize::MAX).min(wanted);
        if fits == 0 && wanted > 0 {
            return Err(Fault::StorageFull.error());
        }
        let start = usize::try_from(offset).map_err(|_| Fault::StorageFull.error())?;
        state.file(self.number)?.write(start, &bytes[..fits]);
        Ok(fits)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.shared.state.lock();
        state.begin(Operation::Read)?;
        let wanted = state.plan.transfer(buffer.len())?;
        let live = state.file(self.number)?.live();
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(live.len());
        let count = wanted.min(live.len() - start);
        buffer[..count].copy_from_slice(&live[start..start + count]);
        Ok(count)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.shared.state.lock().file(self.number)?.len())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        state.begin(Operation::Write)?;
        let length = usize::try_from(bytes).map_err(|_| Fault::StorageFull.error())?;
        state.file(self.number)?.set_length(length);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync()
    }
}
