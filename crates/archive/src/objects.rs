//! What an archive asks of the storage that it is in.

use crate::error::{ArchiveError, Result};

/// An object, as a list has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

/// Object storage: names with bytes, which never change.
pub trait Objects: Send + Sync {
    /// Creates an object. Returns false if there is one of this name, which is left as it is.
    ///
    /// # Errors
    /// The storage cannot be reached or refuses: the object may be there or not.
    fn create(&self, name: &str, bytes: &[u8]) -> Result<bool>;

    /// The bytes of an object; `None` if there is none of this name.
    ///
    /// # Errors
    /// The storage cannot be reached or refuses.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>>;

    /// All objects in a folder and in those in it, in the order of their names.
    ///
    /// # Errors
    /// The storage cannot be reached or refuses.
    fn list(&self, folder: &str) -> Result<Vec<Listed>>;

    /// The names of the folders in a folder, in order; empty: in the archive.
    ///
    /// # Errors
    /// The storage cannot be reached or refuses.
    fn folders(&self, folder: &str) -> Result<Vec<String>>;

    /// Removes an object; one that is not there is fine.
    ///
    /// # Errors
    /// The storage cannot be reached or refuses.
    fn remove(&self, name: &str) -> Result<()>;
}

/// Creates an object, or finds it there with the same bytes: an earlier attempt may have had an outcome that is not known.
///
/// # Errors
/// [`ArchiveError::Conflict`] if there are other bytes; the storage cannot be reached or refuses.
pub(crate) fn put(objects: &dyn Objects, name: &str, bytes: &[u8]) -> Result<()> {
    if objects.create(name, bytes)? || objects.read(name)?.is_some_and(|found| found == bytes) {
        return Ok(());
    }
    Err(ArchiveError::Conflict { object: name.to_owned() })
}

/// The bytes of an object that must be there, as `detail` says.
pub(crate) fn get(objects: &dyn Objects, name: &str, detail: &str) -> Result<Vec<u8>> {
    objects.read(name)?.ok_or_else(|| ArchiveError::missing(name, detail))
}
