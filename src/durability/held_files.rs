//! A disk for reading only, on which files stay as they were found: each directory is listed once, and each file is opened
//! once and kept, so that it can be read to its end after it has been removed.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::base::disk::{Disk, File, LockGuard};

/// See the [module](self).
pub(crate) struct HeldFiles {
    disk: Arc<dyn Disk>,
    files: Mutex<BTreeMap<PathBuf, Arc<dyn File>>>,
    lists: Mutex<BTreeMap<PathBuf, Vec<OsString>>>,
}

/// One user's share in a file that is kept.
struct Held(Arc<dyn File>);

impl HeldFiles {
    pub(crate) fn new(disk: Arc<dyn Disk>) -> HeldFiles {
        HeldFiles { disk, files: Mutex::default(), lists: Mutex::default() }
    }
}

fn refused<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

impl Disk for HeldFiles {
    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        refused()
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        let mut lists = self.lists.lock();
        if let Some(names) = lists.get(directory) {
            return Ok(names.clone());
        }
        let names = self.disk.list(directory)?;
        lists.insert(directory.to_path_buf(), names.clone());
        Ok(names)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.disk.exists(path)
    }

    fn open_read(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let mut files = self.files.lock();
        let file = match files.get(path) {
            Some(file) => file.clone(),
            None => {
                let file: Arc<dyn File> = Arc::from(self.disk.open_read(path)?);
                files.insert(path.to_path_buf(), file.clone());
                file
            }
        };
        Ok(Box::new(Held(file)))
    }

    fn open_write(&self, _: &Path) -> io::Result<Box<dyn File>> {
        refused()
    }

    fn create_new(&self, _: &Path) -> io::Result<Box<dyn File>> {
        refused()
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        refused()
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        refused()
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        refused()
    }

    fn try_lock(&self, _: &Path) -> io::Result<Option<Box<dyn LockGuard>>> {
        refused()
    }

    fn try_lock_shared(&self, _: &Path) -> io::Result<Option<Box<dyn LockGuard>>> {
        refused()
    }
}

impl File for Held {
    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        refused()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        refused()
    }

    fn sync_data(&self) -> io::Result<()> {
        refused()
    }

    fn sync_all(&self) -> io::Result<()> {
        refused()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::SimulatedDisk;

    #[test]
    fn what_was_opened_stays_and_what_was_listed_stays_listed() -> io::Result<()> {
        let disk = SimulatedDisk::new();
        disk.create_dir_all(Path::new("a"))?;
        let path = Path::new("a/one");
        disk.put_bytes(path, b"content".to_vec())?;
        let held = HeldFiles::new(Arc::new(disk.clone()));
        assert_eq!(held.list(Path::new("a"))?, ["one"]);
        held.open_read(path)?;
        disk.remove(path)?;
        disk.put_bytes(Path::new("a/two"), Vec::new())?;
        let mut bytes = [0; 7];
        held.open_read(path)?.read_exact_at(&mut bytes, 0)?;
        assert_eq!(&bytes, b"content");
        assert_eq!(held.list(Path::new("a"))?, ["one"]);
        assert!(held.exists(Path::new("a/two"))?);
        let never_opened = held.open_read(Path::new("a/three")).err().map(|error| error.kind());
        assert_eq!(never_opened, Some(io::ErrorKind::NotFound));
        Ok(())
    }

    #[test]
    fn nothing_is_changed_through_it() -> io::Result<()> {
        let disk = SimulatedDisk::new();
        let path = Path::new("one");
        disk.put_bytes(path, b"content".to_vec())?;
        let held = HeldFiles::new(Arc::new(disk.clone()));
        let file = held.open_read(path)?;
        assert!(file.write_at(b"x", 0).is_err() && file.set_len(0).is_err());
        assert!(file.sync_data().is_err() && file.sync_all().is_err());
        assert!(held.open_write(path).is_err() && held.create_new(Path::new("two")).is_err());
        assert!(held.remove(path).is_err() && held.rename(path, Path::new("two")).is_err());
        assert!(held.sync_dir(Path::new("")).is_err() && held.create_dir_all(Path::new("b")).is_err());
        assert!(held.try_lock(path).is_err() && held.try_lock_shared(path).is_err());
        assert_eq!(disk.bytes(path)?, b"content");
        Ok(())
    }
}
