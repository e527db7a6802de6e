//! The source of identity columns' values for inserts: sequences, which are above the storage.

use std::sync::Arc;

use crate::error::Result;
use crate::storage::store::Store;

/// A source of values for identity columns.
pub(crate) trait IdentityValues: Send + Sync {
    /// The next value of the sequence of this name.
    ///
    /// # Errors
    /// [`Error::Conflict`](crate::error::Error::Conflict): the values are being reserved, and the body is retried; the sequence is
    /// exhausted.
    fn next(self: Arc<Self>, store: &Store, name: &str) -> Result<i64>;
}
