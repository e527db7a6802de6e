//! Backups, and checks of a database's files.

use std::path::Path;

use crate::check::CheckReport;
use crate::database::Database;
use crate::durability::backup::{FilesReport, back_up, verify};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::pipeline::nesting;

impl Database {
    /// Copies the database to another directory, new or empty, while all other work continues. The copy
    /// contains everything that is durable now, and possibly some of the commits that follow. It is a
    /// database like any other, with this one's identity.
    ///
    /// ```no_run
    /// # let db = heddledb::Database::open("bank", heddledb::Options::default())?;
    /// let report = db.backup("bank-on-monday")?;
    /// println!("{} files, {} bytes, through epoch {}", report.files, report.bytes, report.epoch);
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// # Errors
    /// The directory is not empty ([`Error::NotEmpty`]) or cannot be written; a file of the database is damaged;
    /// [`Error::Nested`] inside a transaction; [`Error::InvalidOption`] for a database without files.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<FilesReport> {
        nesting::check("a backup")?;
        self.shared.check_open()?;
        let (disk, from) = self.shared.files()?;
        back_up(&disk, &from, to.as_ref(), &mut |_, _| ())
    }

    /// Copies a database that another process, or none, has open. `progress` receives the bytes copied, and
    /// the bytes in all. Of the options only the disk is used.
    ///
    /// # Errors
    /// Same errors as [`backup`](Self::backup); there is no database.
    pub fn backup_directory(
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        options: &Options,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<FilesReport> {
        nesting::check("a backup")?;
        back_up(&options.disk, from.as_ref(), to.as_ref(), progress)
    }

    /// Creates a database from a backup, in another directory, new or empty. The backup is checked first, as
    /// [`check`](Self::check) does, so it is held in memory once; no database is created from one that is not
    /// sound.
    ///
    /// The restored database has the identity of the one that was backed up: the two must not put checkpoints into the same
    /// [`CheckpointOptions::directory`](crate::CheckpointOptions::directory).
    ///
    /// # Errors
    /// The backup is damaged, inconsistent or in use; the directory is not empty or cannot be written.
    pub fn restore(
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        options: Options,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(CheckReport, FilesReport)> {
        let disk = options.disk.clone();
        let backup = Database::open(from.as_ref(), options.read_only(true))?;
        let checked = backup.check()?;
        // It stays open, and so locked, until it is copied.
        let copied = back_up(&disk, from.as_ref(), to.as_ref(), progress)?;
        backup.close()?;
        Ok((checked, copied))
    }

    /// Reads every file that the database needs, and verifies every checksum: the newest checkpoint, and the log behind
    /// it to its end. `progress` receives the bytes read, and the bytes in all. All other work continues meanwhile.
    ///
    /// # Errors
    /// The first thing that is wrong, with file and offset; [`Error::Nested`] inside a transaction;
    /// [`Error::InvalidOption`] for a database without files.
    pub fn check_files(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<FilesReport> {
        nesting::check("a check of files")?;
        self.shared.check_open()?;
        let (disk, path) = self.shared.files()?;
        verify(&disk, &path, progress)
    }
}

/// The error for a database without files to copy or to check.
pub(super) fn no_files() -> Error {
    Error::InvalidOption {
        option: "durability",
        given: "none, in memory".to_string(),
        expected: "a directory: this database has no files".to_string(),
    }
}
