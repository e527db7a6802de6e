//! The real disk, on the standard library.
//!
//! Files are readable by their owner only. Locks are the operating system's (`flock`): they go with the process.

use std::ffi::OsString;
use std::fs::{self, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::{Disk, File, LockGuard};

const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

/// The machine's own file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

struct RealFile(fs::File);

/// Opens what is there only if it is a regular file: opening a FIFO would block until another process opens it.
fn open_regular(path: &Path, options: &OpenOptions) -> io::Result<fs::File> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
        }
        Ok(_) => options.open(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => options.open(path),
        Err(error) => Err(error),
    }
}

/// The lock lives in the open file: closing it unlocks.
struct RealLock {
    _file: fs::File,
}

impl LockGuard for RealLock {}

impl Disk for RealDisk {
    fn create_dir_all(&self, directory: &Path) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(directory)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        let mut names =
            fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        fs::exists(path)
    }

    fn open_read(&self, path: &Path) -> io::Result<Box<dyn File>> {
        Ok(Box::new(RealFile(open_regular(path, OpenOptions::new().read(true))?)))
    }

    fn open_write(&self, path: &Path) -> io::Result<Box<dyn File>> {
        Ok(Box::new(RealFile(open_regular(path, OpenOptions::new().read(true).write(true))?)))
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(FILE_MODE).open(path)?;
        Ok(Box::new(RealFile(file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn resolve(&self, directory: &Path) -> io::Result<PathBuf> {
        fs::canonicalize(directory)
    }

    fn sync_dir(&self, directory: &Path) -> io::Result<()> {
        fs::File::open(directory)?.sync_all()
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn LockGuard>>> {
        // Opened for writing, so that a database that cannot be written is refused when it is opened.
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(FILE_MODE);
        let file = open_regular(path, &options)?;
        guard_of(file.try_lock(), file)
    }

    fn try_lock_shared(&self, path: &Path) -> io::Result<Option<Box<dyn LockGuard>>> {
        let file = open_regular(path, OpenOptions::new().read(true))?;
        guard_of(file.try_lock_shared(), file)
    }
}

fn guard_of(
    outcome: std::result::Result<(), TryLockError>,
    file: fs::File,
) -> io::Result<Option<Box<dyn LockGuard>>> {
    match outcome {
        Ok(()) => Ok(Some(Box::new(RealLock { _file: file }))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

impl File for RealFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_keeps_what_is_written_at_offsets() -> io::Result<()> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("file");
        let file = RealDisk.create_new(&path)?;
        file.write_all_at(b"world", 6)?;
        file.write_all_at(b"hello ", 0)?;
        file.sync_data()?;
        let mut bytes = [0; 11];
        RealDisk.open_read(&path)?.read_exact_at(&mut bytes, 0)?;
        assert_eq!(&bytes, b"hello world");
        assert_eq!(file.len()?, 11);
        let beyond = file.read_exact_at(&mut bytes, 1).map_err(|error| error.kind());
        assert_eq!(beyond, Err(io::ErrorKind::UnexpectedEof));
        file.set_len(0)?;
        assert!(file.is_empty()?);
        file.sync_all()
    }

    #[test]
    fn names_are_listed_renamed_and_removed() -> io::Result<()> {
        let directory = tempfile::tempdir()?;
        let inner = directory.path().join("a/b");
        RealDisk.create_dir_all(&inner)?;
        RealDisk.create_dir_all(&inner)?;
        RealDisk.create_new(&inner.join("y"))?;
        RealDisk.create_new(&inner.join("x"))?;
        assert_eq!(RealDisk.list(&inner)?, ["x", "y"]);
        RealDisk.rename(&inner.join("x"), &inner.join("y"))?;
        assert_eq!(RealDisk.list(&inner)?, ["y"]);
        let taken = RealDisk.create_new(&inner.join("y")).err().map(|error| error.kind());
        assert_eq!(taken, Some(io::ErrorKind::AlreadyExists));
        RealDisk.remove(&inner.join("y"))?;
        assert!(!RealDisk.exists(&inner.join("y"))?);
        assert!(RealDisk.open_write(&inner.join("y")).is_err());
        RealDisk.sync_dir(&inner)
    }

    #[test]
    fn a_directory_has_one_path_whatever_it_was_called() -> io::Result<()> {
        let directory = tempfile::tempdir()?;
        let inner = directory.path().join("inner");
        RealDisk.create_dir_all(&inner)?;
        std::os::unix::fs::symlink(&inner, directory.path().join("link"))?;
        let path = RealDisk.resolve(&inner)?;
        assert!(path.is_absolute());
        for other in ["link", "inner/../inner", "./link/."] {
            assert_eq!(RealDisk.resolve(&directory.path().join(other))?, path);
        }
        assert!(RealDisk.resolve(&directory.path().join("missing")).is_err());
        Ok(())
    }

    #[test]
    fn files_are_private_to_their_owner() -> io::Result<()> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("file");
        RealDisk.create_new(&path)?;
        assert_eq!(fs::metadata(&path)?.permissions().mode() & 0o777, FILE_MODE);
        Ok(())
    }

    #[test]
    fn what_is_no_regular_file_is_refused_and_not_waited_for() -> io::Result<()> {
        let directory = tempfile::tempdir()?;
        let fifo = directory.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status()?;
        assert!(made.success());
        let (disk, invalid) = (RealDisk, Some(io::ErrorKind::InvalidInput));
        for path in [fifo.as_path(), directory.path()] {
            assert_eq!(disk.open_read(path).err().map(|error| error.kind()), invalid);
            assert_eq!(disk.open_write(path).err().map(|error| error.kind()), invalid);
            assert_eq!(disk.try_lock(path).err().map(|error| error.kind()), invalid);
            assert_eq!(disk.try_lock_shared(path).err().map(|error| error.kind()), invalid);
        }
        Ok(())
    }

    #[test]
    fn a_lock_is_held_once_and_freed_by_its_guard() -> io::Result<()> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("LOCK");
        let guard = RealDisk.try_lock(&path)?;
        assert!(guard.is_some());
        assert!(RealDisk.try_lock(&path)?.is_none());
        assert!(RealDisk.try_lock_shared(&path)?.is_none());
        drop(guard);
        assert!(RealDisk.try_lock(&path)?.is_some());
        Ok(())
    }

    #[test]
    fn readers_share_a_lock_and_exclude_a_writer() -> io::Result<()> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("LOCK");
        let missing = RealDisk.try_lock_shared(&path).err().map(|error| error.kind());
        assert_eq!(missing, Some(io::ErrorKind::NotFound), "a shared lock creates no file");
        fs::write(&path, "")?;
        let readers = (RealDisk.try_lock_shared(&path)?, RealDisk.try_lock_shared(&path)?);
        assert!(readers.0.is_some() && readers.1.is_some());
        assert!(RealDisk.try_lock(&path)?.is_none());
        drop(readers);
        assert!(RealDisk.try_lock(&path)?.is_some());
        Ok(())
    }
}
