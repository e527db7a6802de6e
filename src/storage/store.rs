//! The store: all tables, the global epoch and the worker contexts of one database.
//!
//! It is the state that commits share, and has no threads: the pipeline's threads work on it, recovery fills it, and
//! the unit tests of this folder use it alone. A schema change is published here: the tables in force are replaced
//! behind the closed gate, and the catalog's rows of the same commit say which they are.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crossbeam_epoch::Guard;
use parking_lot::{Mutex, RwLock};

use crate::base::atomics::{AtomicBool, AtomicU64, Ordering};
use crate::diagnostics::access_trace::Trace;
use crate::diagnostics::recent_counts::RecentCounts;
use crate::error::{Error, Result};
use crate::storage::catalog::{self, FIRST_USER_TABLE};
use crate::storage::definition::{AddedColumns, TableDefinition};
use crate::storage::epoch::Epochs;
use crate::storage::foreign_keys::{Resolution, SchemaLinks, TableLinks, TableView};
use crate::storage::identity::IdentityValues;
use crate::storage::redo::TemporaryFiles;
use crate::storage::retired_tables::RetiredTables;
use crate::storage::slab::Slabs;
use crate::storage::split_columns::Splits;
use crate::storage::table::{TableCore, TableId};
use crate::storage::versions::Versions;
use crate::storage::worker_context::{WorkerContext, WorkerContexts};

/// Tells stores of one process apart.
static NEXT_STORE: AtomicU64 = AtomicU64::new(1);

/// All tables of a database, and what their commits share.
pub(crate) struct Store {
    identity: u64,
    slabs: Arc<Slabs>,
    epochs: Epochs,
    worker_contexts: WorkerContexts,
    splits: Splits,
    versions: Versions,
    /// The foreign keys of the schema in force.
    foreign_keys: Resolution,
    /// The source of identity columns' values; `None` if nothing is written.
    identity_values: OnceLock<Arc<dyn IdentityValues>>,
    /// The evaluators of rules of tables that the engine cannot evaluate, as the public face keeps them; `None` if none
    /// was registered.
    evaluators: OnceLock<Arc<dyn Any + Send + Sync>>,
    /// The tables of the schema in force.
    tables: RwLock<BTreeMap<TableId, Arc<TableCore>>>,
    /// The tables that schema changes have superseded or dropped.
    retired: RetiredTables,
    /// The highest number that was given to a table of this process.
    last_table: Mutex<TableId>,
    /// True if commits write redo. It changes once at most, behind the closed gate.
    logged: AtomicBool,
    /// The maker of temporary files, if the store writes a log.
    temporary_files: OnceLock<Arc<TemporaryFiles>>,
    /// The access trace, if accesses are traced.
    trace: Option<Box<Trace>>,
    /// The waits of transactions for rows in the last minute, by the identity of the records of a row's table.
    recent_waits: RecentCounts,
    /// The failures of sessions' transactions because of rows, in the same way.
    recent_failures: RecentCounts,
}

impl Store {
    /// An empty store whose first commits are of this epoch. `logged`: whether commits write redo.
    pub(crate) fn new(epoch: u64, worker_contexts: usize, logged: bool) -> Store {
        // Relaxed: only that it is unique matters.
        let identity = NEXT_STORE.fetch_add(1, Ordering::Relaxed);
        let slabs = Arc::new(Slabs::default());
        let tables = catalog::definitions()
            .into_iter()
            .map(|(id, definition)| (id, Arc::new(TableCore::new(identity, &slabs, id, definition))))
            .collect();
        Store {
            identity,
            slabs,
            epochs: Epochs::new(epoch),
            worker_contexts: WorkerContexts::new(worker_contexts),
            splits: Splits::default(),
            versions: Versions::default(),
            foreign_keys: Resolution::default(),
            identity_values: OnceLock::new(),
            evaluators: OnceLock::new(),
            tables: RwLock::new(tables),
            retired: RetiredTables::default(),
            last_table: Mutex::default(),
            logged: AtomicBool::new(logged),
            temporary_files: OnceLock::new(),
            trace: None,
            recent_waits: RecentCounts::default(),
            recent_failures: RecentCounts::default(),
        }
    }

    /// The number of this store, unique in this process.
    #[inline]
    pub(crate) fn identity(&self) -> u64 {
        self.identity
    }

    /// Sets the epoch of the first commits: once, before there are any.
    pub(crate) fn start_at(&mut self, epoch: u64) {
        self.epochs = Epochs::new(epoch);
    }

    /// Limits the number of transactions of an epoch: set once, while there are none.
    pub(crate) fn limit_epochs(&self, transactions: usize) {
        self.epochs.set_limit(transactions);
    }

    /// Says where temporary files are made: set once, before there are commits that are logged.
    pub(crate) fn set_temporary_files(&self, files: TemporaryFiles) {
        let _ = self.temporary_files.set(Arc::new(files));
    }

    /// Has commits write redo from now on, in this epoch or a later one: until now nothing was logged. `between` runs while no thread is
    /// in a commit section, and is given the first epoch that is logged.
    pub(crate) fn begin_to_log(&self, epoch: u64, between: impl FnOnce(u64)) {
        self.close_commits();
        let first = self.epochs.skip_to(epoch);
        // Relaxed: threads that commit read it inside their commit sections, behind the gate.
        self.logged.store(true, Ordering::Relaxed);
        between(first);
        // SAFETY: closed above.
        unsafe { self.epochs.open_gate() };
    }

    /// The maker of temporary files.
    pub(crate) fn temporary_files(&self) -> Option<&Arc<TemporaryFiles>> {
        self.temporary_files.get()
    }

    /// Starts tracing of accesses: set once, before there are any.
    pub(crate) fn trace_accesses(&mut self) {
        self.trace = Some(Box::new(Trace::new(self.worker_contexts.len())));
    }

    /// The access trace, if there is one, and accesses are noted now.
    #[inline]
    pub(crate) fn trace(&self) -> Option<&Trace> {
        self.trace.as_deref().filter(|trace| trace.is_on())
    }

    /// The trace, whether accesses are noted now or not.
    pub(crate) fn whole_trace(&self) -> Option<&Trace> {
        self.trace.as_deref()
    }

    /// The waits of transactions for rows in the last minute, by the identity of the records of a row's table.
    pub(crate) fn recent_waits(&self) -> &RecentCounts {
        &self.recent_waits
    }

    /// The failures of sessions' transactions because of rows, in the same way.
    pub(crate) fn recent_failures(&self) -> &RecentCounts {
        &self.recent_failures
    }

    /// The source of records' memory.
    pub(crate) fn slabs(&self) -> &Slabs {
        &self.slabs
    }

    /// The global epoch.
    #[inline]
    pub(crate) fn epochs(&self) -> &Epochs {
        &self.epochs
    }

    /// The worker contexts.
    #[inline]
    pub(crate) fn worker_contexts(&self) -> &WorkerContexts {
        &self.worker_contexts
    }

    /// Closes the gate, and waits until no commit section is open.
    pub(super) fn close_commits(&self) {
        self.epochs.close_gate();
        self.epochs.wait_for_all(self.worker_contexts.all().map(WorkerContext::published));
    }

    /// The number of calls that all worker contexts have committed.
    pub(crate) fn committed(&self) -> u64 {
        // Relaxed: a recent sum is enough.
        self.worker_contexts
            .all()
            .map(|worker_context| worker_context.counters.committed.load(Ordering::Relaxed))
            .sum()
    }

    /// The number of rows of a table that all worker contexts have changed.
    pub(crate) fn row_changes(&self, table: TableId) -> u64 {
        self.worker_contexts.all().map(|worker_context| worker_context.row_changes.of(table)).sum()
    }

    /// The columns that are split now.
    pub(crate) fn splits(&self) -> &Splits {
        &self.splits
    }

    /// Versions of records that open snapshots need.
    #[inline]
    pub(crate) fn versions(&self) -> &Versions {
        &self.versions
    }

    /// The foreign keys of the schema in force.
    #[inline]
    pub(crate) fn foreign_keys(&self) -> &Resolution {
        &self.foreign_keys
    }

    /// Says what gives the values of identity columns: once.
    pub(crate) fn set_identity_values(&self, values: Arc<dyn IdentityValues>) {
        let _ = self.identity_values.set(values);
    }

    /// The next value of the sequence of an identity column.
    ///
    /// # Errors
    /// Same errors as [`IdentityValues::next`].
    pub(crate) fn next_identity(&self, sequence: &str) -> Result<i64> {
        let values = self.identity_values.get().ok_or(Error::Closed)?;
        values.clone().next(self, sequence)
    }

    /// Resolves the foreign keys of the schema in force: while no other thread has the store, or behind the closed gate.
    ///
    /// # Errors
    /// One of them cannot be resolved, which no schema change allows: the catalog is damaged.
    pub(crate) fn resolve_foreign_keys(&self, guard: &Guard) -> Result<()> {
        let tables = self.user_tables();
        let has_keys = |table: &Arc<TableCore>| !table.definition().foreign_keys().is_empty();
        if self.foreign_keys.current(guard).is_none() && !tables.iter().any(has_keys) {
            return Ok(());
        }
        let links = SchemaLinks::of(&TableView::all(tables.clone()))?;
        let before = self.foreign_keys.current(guard);
        for table in &tables {
            let before = before.and_then(|links| links.table(table.id()));
            let now = links.table(table.id());
            let has_more = now.is_some_and(|now| now.has_more_than(before));
            table.set_reach(now.map(TableLinks::reach).unwrap_or_default(), has_more);
        }
        self.foreign_keys.replace(links, guard);
        Ok(())
    }

    /// The evaluators of rules of tables that the engine cannot evaluate.
    pub(crate) fn evaluators(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.evaluators.get().map(|evaluators| &**evaluators)
    }

    /// Same as [`evaluators`](Self::evaluators), made by the first call.
    pub(crate) fn kept_for_evaluators(
        &self,
        make: impl FnOnce() -> Arc<dyn Any + Send + Sync>,
    ) -> &(dyn Any + Send + Sync) {
        &**self.evaluators.get_or_init(make)
    }

    /// Returns true if commits write redo.
    #[inline]
    pub(crate) fn is_logged(&self) -> bool {
        // Relaxed: see `begin_to_log`; elsewhere a thread that is late asks again when it commits.
        self.logged.load(Ordering::Relaxed)
    }

    /// The table of this number.
    pub(crate) fn table(&self, id: TableId) -> Option<Arc<TableCore>> {
        self.tables.read().get(&id).cloned()
    }

    /// The table of this number, also if it was dropped or replaced by another one.
    pub(crate) fn table_ever(&self, id: TableId) -> Option<Arc<TableCore>> {
        self.table(id).or_else(|| self.retired.find(id))
    }

    /// The tables that schema changes have superseded or dropped.
    pub(crate) fn retired_tables(&self) -> &RetiredTables {
        &self.retired
    }

    /// A share in a table, or in the inside of a secondary index; and whether keys are inserted into it that others may
    /// insert, too: not where a key ends with the primary key of its row.
    pub(crate) fn shared_table(&self, core: &TableCore) -> Option<(Arc<TableCore>, bool)> {
        let table = self.table(core.id())?;
        if std::ptr::eq(&*table, core) {
            return table.is_current().then_some((table, true));
        }
        let index = table.secondary().iter().find(|index| std::ptr::eq(&*index.table, core))?;
        Some((index.table.clone(), index.definition.unique))
    }

    /// The table of this name.
    ///
    /// # Errors
    /// [`Error::UnknownTable`], with the names that there are.
    pub(crate) fn table_by_name(&self, name: &str) -> Result<Arc<TableCore>> {
        let tables = self.tables.read();
        let found = tables.values().find(|table| table.definition().name() == name);
        found.cloned().ok_or_else(|| {
            let known: Vec<_> = tables
                .range(FIRST_USER_TABLE..)
                .map(|(_, table)| table.definition().name().to_string())
                .collect();
            let known = if known.is_empty() { "there are none yet".to_string() } else { known.join(", ") };
            Error::UnknownTable { table: name.to_string(), known }
        })
    }

    /// All tables that users made, by number.
    pub(crate) fn user_tables(&self) -> Vec<Arc<TableCore>> {
        self.tables.read().range(FIRST_USER_TABLE..).map(|(_, table)| table.clone()).collect()
    }

    /// Bytes of memory that the index nodes of users' tables take, those of dropped ones that are not freed yet, too.
    pub(crate) fn index_bytes(&self) -> u64 {
        let tables = self.user_tables();
        tables.iter().map(|table| table.node_bytes()).sum::<u64>() + self.retired.index_bytes()
    }

    /// All tables, the catalog's own too.
    pub(crate) fn all_tables(&self) -> Vec<Arc<TableCore>> {
        self.tables.read().values().cloned().collect()
    }

    /// A number that no table has had, and that no other table will get. Dropped tables count: their rows in the catalog
    /// stay.
    pub(crate) fn next_table_id(&self) -> TableId {
        let highest = self.tables.read().last_key_value().map_or(0, |(&id, _)| id);
        let retired = self.retired.highest_id();
        let mut last = self.last_table.lock();
        *last = FIRST_USER_TABLE.max(highest.max(retired).max(*last) + 1);
        *last
    }

    /// A table that no transaction can see yet, without records.
    pub(crate) fn make_table(&self, id: TableId, mut definition: TableDefinition) -> Arc<TableCore> {
        definition.added = AddedColumns::default();
        Arc::new(TableCore::new(self.identity, &self.slabs, id, definition))
    }

    /// Enters a table into the schema.
    pub(super) fn put_table(&self, table: Arc<TableCore>) {
        self.tables.write().insert(table.id(), table);
    }

    /// Takes a table out of the schema, in a schema change of this epoch. Its memory is freed when no transaction can see it.
    pub(super) fn retire_table(&self, table: &TableCore, successor: Option<&TableCore>, epoch: u64) {
        if let Some(table) = self.tables.write().remove(&table.id()) {
            self.retired.retire(&table, successor, epoch);
        }
    }

    /// Brings the tables up to date with the catalog, once recovery has replayed it: tables whose definitions have changed
    /// since they were made, and tables that were dropped.
    ///
    /// # Errors
    /// The catalog is damaged.
    pub(crate) fn settle_schema(&self, guard: &Guard) -> Result<()> {
        self.free_dropped(guard)?;
        for table in self.user_tables() {
            if let Some(definition) = self.new_definition_in_catalog(&table, guard)? {
                self.redefine_table(&table, definition);
            }
        }
        self.resolve_foreign_keys(guard)
    }

    /// Takes tables that were dropped out of the schema, and frees their memory at once. No other thread uses the store, and
    /// what the epochs of the drops have changed is replayed.
    ///
    /// # Errors
    /// The catalog is damaged.
    pub(crate) fn free_dropped(&self, guard: &Guard) -> Result<()> {
        for table in self.user_tables().into_iter().filter(|table| table.is_gone()) {
            self.tables.write().remove(&table.id());
            self.retired.free_now(&table);
            let definition = self.definition_in_catalog(table.id(), guard)?;
            if definition.row_version() != table.row_version() {
                // A feed may still ask for what it was at its end.
                let (extended, _) = table.redefined(definition);
                extended.drop_table(1);
                self.retired.keep(Arc::new(extended));
            }
        }
        Ok(())
    }

    /// Adds a table whose catalog rows have been committed.
    pub(crate) fn add_table(&self, id: TableId, definition: TableDefinition) -> Arc<TableCore> {
        let table = Arc::new(TableCore::new(self.identity, &self.slabs, id, definition));
        self.tables.write().insert(id, table.clone());
        table
    }

    /// Makes the tables whose rows in the catalog were written before this epoch; recovery calls it when it has loaded
    /// a checkpoint's copy of the catalog, which has all rows about these tables.
    ///
    /// # Errors
    /// The catalog is damaged.
    pub(crate) fn add_tables_made_before(&self, epoch: u64, guard: &Guard) -> Result<()> {
        let tables = self.catalog_table(catalog::TABLES)?;
        let mut ids = catalog::tables_made_before(epoch, &tables, guard).into_iter();
        ids.try_for_each(|id| self.add_table_of_catalog(id, guard))
    }

    /// Makes the table of this number, unless it is there; recovery calls it when it has
    /// replayed the transaction that wrote its rows.
    ///
    /// # Errors
    /// The catalog is damaged.
    pub(crate) fn add_table_of_catalog(&self, id: TableId, guard: &Guard) -> Result<()> {
        let table = match self.table(id) {
            Some(table) => table,
            None => self.add_table(id, self.definition_in_catalog(id, guard)?),
        };
        if catalog::is_dropped(id, &*self.catalog_table(catalog::TABLES)?, guard)? {
            table.drop_table(1);
        }
        Ok(())
    }

    /// Gives a table the columns that were added to it, of which recovery has replayed the rows in the catalog; it calls this
    /// when it meets a row of this version.
    ///
    /// # Errors
    /// The catalog is damaged, or has no such columns.
    pub(crate) fn extend_table_of_catalog(
        &self,
        table: &Arc<TableCore>,
        version: u64,
        guard: &Guard,
    ) -> Result<Arc<TableCore>> {
        let definition = self.definition_in_catalog(table.id(), guard)?;
        if definition.row_version() < version {
            let detail = format!("a row of schema version {version} of table {}", table.id());
            return Err(Error::Malformed { what: "redo of this database", detail });
        }
        let is_gone = table.is_gone();
        let extended = self.redefine_table(table, definition);
        if is_gone {
            extended.drop_table(1);
        }
        Ok(extended)
    }

    /// Puts another definition of the same records in a table's place, while the log is replayed.
    ///
    /// Only one thread at a time is here, although several replay the log, so that each definition has one successor. A
    /// definition falls short of a change only until the change is scattered (`restore::scatter`), which one thread at a
    /// time does, before a share gets the change. The rows of a checkpoint have the version that its copy of the catalog has. And
    /// once the log is replayed, one thread settles the schema.
    fn redefine_table(&self, table: &Arc<TableCore>, definition: TableDefinition) -> Arc<TableCore> {
        let redefined = Arc::new(table.redefined(definition).0);
        table.supersede(redefined.clone());
        self.put_table(redefined.clone());
        self.retired.keep(table.clone());
        redefined
    }

    /// A table that no transaction can see yet, as the catalog defines it.
    ///
    /// # Errors
    /// The catalog is damaged.
    pub(crate) fn make_table_of_catalog(&self, id: TableId, guard: &Guard) -> Result<Arc<TableCore>> {
        let definition = self.definition_in_catalog(id, guard)?;
        Ok(Arc::new(TableCore::new(self.identity, &self.slabs, id, definition)))
    }

    /// Returns true if the catalog says that a table was dropped.
    ///
    /// # Errors
    /// The catalog is damaged.
    pub(crate) fn is_dropped_in_catalog(&self, id: TableId, guard: &Guard) -> Result<bool> {
        catalog::is_dropped(id, &*self.catalog_table(catalog::TABLES)?, guard)
    }

    /// The table that has replaced another one, as the catalog says; `None` if none has.
    ///
    /// # Errors
    /// The catalog is damaged.
    pub(crate) fn successor_in_catalog(&self, id: TableId, guard: &Guard) -> Result<Option<TableId>> {
        let successors = catalog::successors(&*self.catalog_table(catalog::SUCCESSORS)?, guard);
        Ok(successors.into_iter().find(|(old, ..)| *old == id).map(|(_, new, _)| new))
    }

    /// The definition of a table in the catalog, if it is another one than that in force.
    ///
    /// # Errors
    /// The catalog is damaged.
    pub(crate) fn new_definition_in_catalog(
        &self,
        table: &TableCore,
        guard: &Guard,
    ) -> Result<Option<TableDefinition>> {
        let definition = self.definition_in_catalog(table.id(), guard)?;
        let sequences = (&definition.identity_sequence.0, &table.definition().identity_sequence.0);
        let is_of_version = definition.row_version() == table.row_version();
        let is_new = definition != *table.definition() || sequences.0 != sequences.1 || !is_of_version;
        Ok(is_new.then_some(definition))
    }

    fn definition_in_catalog(&self, id: TableId, guard: &Guard) -> Result<TableDefinition> {
        let [tables, columns, indexes, routing, checks, foreign_keys, identities, evaluators, added] = [
            self.catalog_table(catalog::TABLES)?,
            self.catalog_table(catalog::COLUMNS)?,
            self.catalog_table(catalog::INDEXES)?,
            self.catalog_table(catalog::ROUTING)?,
            self.catalog_table(catalog::CHECKS)?,
            self.catalog_table(catalog::FOREIGN_KEYS)?,
            self.catalog_table(catalog::IDENTITIES)?,
            self.catalog_table(catalog::EVALUATORS)?,
            self.catalog_table(catalog::ADDED_COLUMNS)?,
        ];
        let tables = [
            &*tables,
            &*columns,
            &*indexes,
            &*routing,
            &*checks,
            &*foreign_keys,
            &*identities,
            &*evaluators,
            &*added,
        ];
        catalog::read_definition(id, tables, guard)
    }

    fn catalog_table(&self, id: TableId) -> Result<Arc<TableCore>> {
        self.table(id).ok_or_else(|| Error::Malformed { what: "catalog", detail: "its own tables".into() })
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.slabs.close();
    }
}
