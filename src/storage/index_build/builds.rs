//! The index builds of one schema change, which end with it, whatever its outcome.

use std::sync::Arc;

use super::IndexBuild;
use crate::error::Result;
use crate::storage::store::Store;
use crate::storage::table::TableCore;

/// Builds that end with this, whatever becomes of them.
pub(crate) struct Builds<'s> {
    store: &'s Store,
    builds: Vec<Arc<IndexBuild>>,
}

impl<'s> Builds<'s> {
    /// No builds yet.
    pub(crate) fn new(store: &'s Store) -> Builds<'s> {
        Builds { store, builds: Vec::new() }
    }

    /// Builds these indexes of a table's next definition, unless there are none. `own_writes`: see [`IndexBuild::begin`].
    ///
    /// # Errors
    /// Same errors as [`IndexBuild::catch_up`].
    pub(crate) fn add(
        &mut self,
        table: &Arc<TableCore>,
        positions: Vec<usize>,
        own_writes: usize,
    ) -> Result<Option<Arc<IndexBuild>>> {
        if positions.is_empty() {
            return Ok(None);
        }
        let build = IndexBuild::begin(self.store, table.clone(), positions, own_writes);
        self.builds.push(build.clone());
        build.fill(self.store)?;
        Ok(Some(build))
    }

    /// Processes the notes that have gathered.
    ///
    /// # Errors
    /// Same errors as [`IndexBuild::catch_up`].
    pub(crate) fn catch_up(&self) -> Result<()> {
        self.builds.iter().try_for_each(|build| build.catch_up(self.store))
    }

    /// Returns true if the last commit was refused because one of them has too many notes: after it has caught up, the
    /// commit can be tried again.
    pub(crate) fn take_behind(&self) -> bool {
        self.builds.iter().fold(false, |behind, build| behind | build.take_behind())
    }
}

impl Drop for Builds<'_> {
    fn drop(&mut self) {
        for build in &self.builds {
            self.store.versions().unwatch(build);
            self.store.slabs().give_back(&mut build.state.lock().cutter);
        }
    }
}
