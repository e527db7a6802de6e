//! Loading very many rows into tables that a session's transaction has made.

use std::sync::Arc;

use super::{Session, SessionState};
use crate::error::Result;
use crate::protocol::attempt::SessionAccess;
use crate::storage::commit::loaded::encode;
use crate::storage::redo::LoadedRedo;
use crate::storage::store::Store;
use crate::storage::table::TableCore;
use crate::transaction::Tx;

impl Session {
    /// Same as [`run`](Self::run), for a body that inserts very many rows. They are inserted at once into a table that
    /// the transaction has created, emptied or rebuilt, while [`run`](Self::run) keeps rows until the commit, which
    /// takes several times their memory. A table with a foreign key is written as by `run`.
    ///
    /// If it fails, the transaction is marked for abort, unless no row was loaded. A body that would have to be retried fails
    /// with [`Error::Conflict`](crate::Error::Conflict) once it has loaded rows; a change of the protocol waits for its end instead. While the transaction has savepoints it is the same as `run`.
    ///
    /// ```
    /// # use heddledb::{DataType, Database, TableDefinition, row};
    /// # let db = Database::in_memory()?;
    /// let mut session = db.session()?;
    /// session.begin()?;
    /// let city = TableDefinition::new("city").column("id", DataType::Int64).primary_key(["id"]);
    /// let cities = session.create_table(city)?;
    /// session.load(|tx| (0..100_000).try_for_each(|id| tx.insert(&cities, row![id])))?;
    /// session.commit()?;
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// # Errors
    /// Same errors as [`run`](Self::run).
    pub fn load<T>(&mut self, body: impl FnMut(&Tx<'_, '_>) -> Result<T>) -> Result<T> {
        if self.state() != SessionState::Open || !self.savepoints.is_empty() {
            return self.run(body);
        }
        let (result, has_loaded) = self.load_rows(body)?;
        match result {
            Err(error) if has_loaded => Err(self.abort(error)),
            result => result,
        }
    }

    /// Same as [`load`](Self::load), for a table that is dropped if this fails. Also returns true if rows were loaded.
    pub(super) fn load_rows<T>(
        &mut self,
        body: impl FnMut(&Tx<'_, '_>) -> Result<T>,
    ) -> Result<(Result<T>, bool)> {
        // What it reads is what there is now: an access that turns out to write would be retried.
        self.is_current = true;
        self.access()?.loading = Some(Box::default());
        let result = self.run(body);
        let loading = self.access.as_mut().and_then(|access| access.loading.take());
        Ok((result, loading.is_none_or(|loading| loading.has_loaded)))
    }
}

/// The redo of the rows that a transaction has loaded, for its commit: as long as its tables are its own, no other
/// thread changes them, so that it holds nothing meanwhile. `None` if there are none, or nothing is logged.
///
/// # Errors
/// The disk is full, or fails; the system refuses the memory.
pub(super) fn encode_loaded(access: &SessionAccess, store: &Store) -> Result<Option<Arc<LoadedRedo>>> {
    let tables = access.schema.tables().iter().filter_map(|table| table.now.as_ref());
    let mut loaded = tables.map(|now| &*now.core).filter(|core| core.is_loaded()).peekable();
    let Some(files) = store.temporary_files().filter(|_| loaded.peek().is_some()) else { return Ok(None) };
    let buffer = &access.buffer;
    let is_written = |table: &TableCore, key: &[u8]| {
        buffer.table_number(table).is_some_and(|number| buffer.writes_to(number, key).is_some())
    };
    encode(loaded, files, is_written).map(|redo| Some(Arc::new(redo)))
}
