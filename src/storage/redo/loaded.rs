//! Redo of rows that were loaded into a transaction's private table: encoded before the commit, outside of its section, while other
//! transactions continue. What is longer than a piece lies in a temporary file, so that it takes no memory beside the rows.
//!
//! Invariants: the file has no name, so that it is deleted with the last reference to it or with the process, and is never
//! synced: its content is durable once the log's writer has copied it into a group.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::base::disk::{Disk, File};
use crate::error::failure::{reading, writing};
use crate::error::{Error, Result};
use crate::storage::redo::MAXIMAL_REDO_BYTES;
use crate::types::memory::{Refused, reserve};

/// The number of bytes that are collected before they are written to the file.
const PIECE_BYTES: usize = if cfg!(test) { 2 << 10 } else { 1 << 20 };
/// The name that the file has before it has none. A process that is killed in between leaves an empty file, which the next one removes.
const NAME: &str = "loaded.tmp";

/// The maker of temporary files.
pub(crate) struct TemporaryFiles {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    /// One file at a time has the name.
    making: Mutex<()>,
}

/// A part of a group.
#[derive(Clone, Copy)]
pub(crate) enum RedoPart<'a> {
    Bytes(&'a [u8]),
    Loaded(&'a LoadedRedo),
}

/// See the [module](self).
pub(crate) struct LoadedRedo {
    files: Arc<TemporaryFiles>,
    file: Option<Box<dyn File>>,
    /// The number of bytes in the file; the others follow them.
    in_file: u64,
    rest: Vec<u8>,
}

impl TemporaryFiles {
    /// Makes temporary files in this directory, which belongs to this process.
    pub(crate) fn new(disk: Arc<dyn Disk>, directory: PathBuf) -> TemporaryFiles {
        TemporaryFiles { disk, directory, making: Mutex::new(()) }
    }

    /// Makes a file without a name.
    fn make(&self) -> Result<Box<dyn File>> {
        let path = self.directory.join(NAME);
        let _making = self.making.lock();
        let made = match self.disk.create_new(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                self.disk.remove(&path).and_then(|()| self.disk.create_new(&path))
            }
            made => made,
        };
        let file = made.map_err(writing(&path))?;
        self.disk.remove(&path).map_err(writing(&path))?;
        Ok(file)
    }
}

impl RedoPart<'_> {
    /// The number of its bytes.
    pub(crate) fn len(self) -> u64 {
        match self {
            RedoPart::Bytes(bytes) => bytes.len() as u64,
            RedoPart::Loaded(redo) => redo.len() as u64,
        }
    }

    /// Same as [`LoadedRedo::read`].
    ///
    /// # Errors
    /// Same errors as [`LoadedRedo::read`].
    pub(crate) fn read(self, offset: u64, count: usize, target: &mut Vec<u8>) -> Result<()> {
        match self {
            RedoPart::Bytes(bytes) => {
                target.extend_from_slice(&bytes[offset as usize..offset as usize + count]);
                Ok(())
            }
            RedoPart::Loaded(redo) => redo.read(offset, count, target),
        }
    }
}

impl LoadedRedo {
    /// Empty redo.
    pub(crate) fn new(files: &Arc<TemporaryFiles>) -> LoadedRedo {
        LoadedRedo { files: files.clone(), file: None, in_file: 0, rest: Vec::new() }
    }

    /// The number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.in_file as usize + self.rest.len()
    }

    /// Adds at most this many bytes, which `append` puts behind those of the buffer.
    ///
    /// # Errors
    /// [`Error::TransactionTooLarge`]; the disk is full, or fails; the system refuses the memory.
    pub(crate) fn append(&mut self, bytes_max: usize, append: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        if self.rest.len() + bytes_max > PIECE_BYTES && !self.rest.is_empty() {
            self.write_rest()?;
        }
        reserve(&mut self.rest, bytes_max).map_err(Refused::error)?;
        append(&mut self.rest);
        // The commit would refuse it, too, but the disk may be full by then.
        let (what, bytes, maximum) = ("redo", self.len(), MAXIMAL_REDO_BYTES);
        if bytes > maximum { Err(Error::TransactionTooLarge { what, bytes, maximum }) } else { Ok(()) }
    }

    fn write_rest(&mut self) -> Result<()> {
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(self.files.make()?),
        };
        file.write_all_at(&self.rest, self.in_file).map_err(writing(&self.files.directory))?;
        self.in_file += self.rest.len() as u64;
        self.rest.clear();
        Ok(())
    }

    /// Puts `count` bytes from `offset` on behind those of `target`, which has room for them.
    ///
    /// # Errors
    /// The file cannot be read.
    ///
    /// # Panics
    /// Panics if there are fewer.
    pub(crate) fn read(&self, offset: u64, count: usize, target: &mut Vec<u8>) -> Result<()> {
        let from_file = self.in_file.saturating_sub(offset).min(count as u64) as usize;
        if let Some(file) = self.file.as_ref().filter(|_| from_file > 0) {
            let start = target.len();
            target.resize(start + from_file, 0);
            file.read_exact_at(&mut target[start..], offset).map_err(reading(&self.files.directory))?;
        }
        let start = (offset + from_file as u64).saturating_sub(self.in_file) as usize;
        target.extend_from_slice(&self.rest[start..start + count - from_file]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::disk::RealDisk;

    fn files(directory: &tempfile::TempDir) -> Arc<TemporaryFiles> {
        Arc::new(TemporaryFiles::new(Arc::new(RealDisk), directory.path().to_path_buf()))
    }

    fn collected(changes: &[Vec<u8>], files: &Arc<TemporaryFiles>) -> LoadedRedo {
        let mut redo = LoadedRedo::new(files);
        for change in changes {
            redo.append(change.len() + 7, |out| out.extend_from_slice(change)).expect("there is room");
        }
        redo
    }

    #[test]
    fn what_was_appended_is_read_in_pieces_of_any_length() {
        let directory = tempfile::tempdir().expect("a directory");
        let files = files(&directory);
        for lengths in [vec![], vec![10], vec![PIECE_BYTES * 3, 5], vec![300; 100], vec![PIECE_BYTES; 3]] {
            let changes: Vec<Vec<u8>> =
                lengths.iter().enumerate().map(|(number, &length)| vec![number as u8; length]).collect();
            let redo = collected(&changes, &files);
            let all = changes.concat();
            assert_eq!(redo.len(), all.len());
            assert_eq!(redo.file.is_some(), all.len() > PIECE_BYTES, "{lengths:?}");
            for piece in [1, 7, 299, PIECE_BYTES, all.len().max(1)] {
                let mut read = Vec::new();
                while read.len() < all.len() {
                    let count = piece.min(all.len() - read.len());
                    redo.read(read.len() as u64, count, &mut read).expect("it is there");
                }
                assert_eq!(read, all, "{lengths:?} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn the_file_has_no_name_and_what_a_killed_process_left_is_no_obstacle() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join(NAME);
        std::fs::write(&path, "left").expect("it is written");
        let files = files(&directory);
        let changes = vec![vec![1; PIECE_BYTES]; 3];
        let (first, second) = (collected(&changes, &files), collected(&changes, &files));
        assert_eq!(std::fs::read_dir(directory.path()).expect("the directory").count(), 0);
        let mut read = Vec::new();
        first
            .read(0, first.len(), &mut read)
            .and_then(|()| second.read(0, second.len(), &mut read))
            .expect("both");
        assert_eq!(read.len(), 6 * PIECE_BYTES);
        assert!(read.iter().all(|&byte| byte == 1));
    }

    #[test]
    fn a_directory_that_is_not_there_is_an_error() {
        let directory = tempfile::tempdir().expect("a directory");
        let nowhere = Arc::new(TemporaryFiles::new(Arc::new(RealDisk), directory.path().join("nowhere")));
        let mut redo = LoadedRedo::new(&nowhere);
        let piece = |out: &mut Vec<u8>| out.extend_from_slice(&[1; PIECE_BYTES]);
        redo.append(PIECE_BYTES, piece).expect("it fits into memory");
        redo.append(PIECE_BYTES, piece).expect_err("the file cannot be made");
    }
}
