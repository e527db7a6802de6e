//! A connection: settings, transaction state, prepared statements, portals, cursors, COPY.
//!
//! Each connection owns a session of the engine and an environment, which is the session as functions see it. A
//! statement is parsed, bound and planned against the catalog that is current when the statement begins. It then runs
//! as a transaction of its own, or inside the open transaction of the session; a schema change gives the transaction a
//! private catalog, which its commit makes the shared one.
//!
//! ```text
//! connection          the public face
//! statement           execution by kind of statement
//! run                 bound statements: planned once, run, retried
//! transaction         BEGIN, COMMIT, savepoints
//! pipeline            messages up to a Sync as one transaction
//! chain               bodies that end transactions
//! prepared            prepared statements, portals
//! cursor              DECLARE, FETCH, MOVE, CLOSE
//! parsed, plan_cache  texts and plans kept; plan_choice: custom or generic plans
//! copy, explain       COPY in text, CSV and binary; EXPLAIN
//! analyze, reorganize ANALYZE; REINDEX, CLUSTER
//! deferred            deferred constraints, SET CONSTRAINTS
//! row_rules           rules of rows that closures and procedures write
//! environment         the session as functions see it
//! identity            the session's user and role
//! settings            SET, SHOW, RESET; planner_settings, described_settings; system_settings: ALTER SYSTEM
//! sequences           values given ahead of the stored ones
//! table_lock          LOCK TABLE; advisory: advisory locks
//! exported_snapshots  pg_export_snapshot
//! sessions            all sessions: activity, notifications
//! notifications       LISTEN, NOTIFY
//! result, notices     rows, tags; notices on their way to the client
//! statements          statistics by texts without literals
//! report, slow        statistics and sessions; slow statements
//! latency             histograms of statements' times
//! ```
//!
//! Concurrency: a [`Connection`] belongs to one thread at a time. Connections share the catalog; each statement uses
//! the version that is current when it begins.

mod advisory;
mod analyze;
mod chain;
mod connection;
mod copy;
mod cursor;
mod deferred;
mod described_settings;
mod environment;
mod explain;
mod exported_snapshots;
mod identity;
mod latency;
mod notices;
mod notifications;
mod parsed;
mod pipeline;
mod plan_cache;
mod plan_choice;
mod planner_settings;
mod prepared;
mod reorganize;
pub(crate) mod report;
mod result;
mod row_rules;
mod run;
pub(crate) mod sequences;
pub(crate) mod sessions;
mod settings;
mod slow;
pub(crate) mod split_policies;
mod standby;
mod statement;
pub(crate) mod statements;
mod system_settings;
mod table_lock;
mod transaction;

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use heddledb::{Database, DefinitionChange};
use parking_lot::{Mutex, RwLock};

use crate::bind::{BindContext, Binder};
use crate::catalog::history::{Changed, History};
use crate::catalog::store::Store;
use crate::catalog::uses::{Thing, note};
use crate::catalog::{Catalog, CatalogEnvironment, Routine, Table, Trigger};
use crate::error::Result;
use crate::plan::Known;
use crate::plan::statement::BoundRowRules;
use crate::plan::statistics::{Age, StatisticsCache, TableStatistics};
use crate::run::memory::WorkMemory;
use crate::session::row_rules::RowRules;
use crate::session::sequences::Sequences;
use crate::session::split_policies::SplitPolicies;
use crate::session::statements::StatementStatistics;

pub use connection::{Canceller, ConnectOptions, Connection};
pub(crate) use cursor::Cursor;
pub(crate) use environment::{POSTGRES_EPOCH, SessionEnvironment};
pub use identity::LoginRole;
pub use latency::LatencyReport;
pub use notices::Notices;
pub use prepared::PreparedStatement;
pub use report::{SessionReport, Statistic, StatisticKind};
pub use result::{
    CopyFormat, CopySource, Field, Fields, Notice, ResultSink, Severity, StatementResult, TransactionStatus,
};
pub(crate) use sequences::SHORTAGE;
pub use sessions::{Encryption, Notification, Signals};
pub use settings::client_encodings;
pub(crate) use settings::{
    check_changeable, is_known, is_list, is_of_transaction, own_name, parse_bool, split_names,
    unrecognized_setting,
};
pub use slow::SlowStatement;
pub(crate) use transaction::{BodyPoint, SequenceChange};

/// The state that all connections to a database share.
pub(crate) struct Shared {
    pub database: Database,
    /// The catalog of the last transaction that has changed the schema.
    catalog: RwLock<Arc<Catalog>>,
    /// The catalog's version, for a look without the lock.
    catalog_version: AtomicU64,
    /// The history of schema changes, up to the catalog.
    pub history: Arc<History>,
    /// The last version that was given to a catalog.
    last_version: AtomicU64,
    pub store: Store,
    split_policies: SplitPolicies,
    pub statistics: StatisticsCache,
    pub sequences: Arc<Sequences>,
    pub templates: plan_cache::SharedTemplates,
    pub advisory: Arc<advisory::AdvisoryLocks>,
    pub snapshots: exported_snapshots::ExportedSnapshots,
    pub sessions: Arc<sessions::Sessions>,
    pub memory: Arc<WorkMemory>,
    pub statements: Arc<StatementStatistics>,
    pub slow_statements: slow::SlowStatements,
    connections: AtomicI32,
    /// The names under which clients find the database.
    names: OnceLock<Vec<String>>,
    /// The saved settings that could not be put in force when the database was opened.
    ignored_settings: Vec<String>,
}

impl Shared {
    /// The names under which clients find the database, if it is served.
    pub fn database_names(&self) -> &[String] {
        self.names.get().map_or(&[], Vec::as_slice)
    }

    /// The catalog as it is now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.read().clone()
    }

    /// The version of the catalog as it is now.
    pub fn catalog_version(&self) -> u64 {
        // Acquire pairs with the release in `set_catalog`: a thread that sees a version finds its catalog.
        self.catalog_version.load(Ordering::Acquire)
    }

    /// A version that no catalog has had.
    pub fn new_version(&self) -> u64 {
        // Relaxed: versions need only differ.
        self.last_version.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Replaces the catalog by that of a session which commits. The engine's gate is closed: no transaction commits meanwhile.
    fn set_catalog(&self, mut catalog: Catalog) {
        let moved = |table: &&Arc<Table>| !table.engine.is_current();
        let moved: Vec<Arc<Table>> = catalog.tables().filter(moved).cloned().collect();
        for table in moved {
            // It kept its rows: the commit has made a definition of it with all its indexes.
            let engine = table.engine.fixed();
            catalog.put_table(Arc::new(Table { engine, ..table.as_ref().clone() }));
        }
        self.split_policies.publish(&self.database, &catalog);
        catalog.version = self.new_version();
        let mut current = self.catalog.write();
        *current = Arc::new(catalog);
        // Release pairs with the acquire in `catalog_version`.
        self.catalog_version.store(current.version, Ordering::Release);
    }

    /// Follows changes that were made through the engine's interface, where they leave a table's columns and key as they were:
    /// others show in SQL when the database is opened again.
    pub fn follow_engine(&self) {
        let mut current = self.catalog.write();
        let mut followed = current.as_ref().clone();
        for table in current.tables().filter(|table| !table.engine.is_current()) {
            let engine = table.engine.fixed();
            let (old, new) = (table.engine.definition(), engine.definition());
            if engine.is_current() && old.columns() == new.columns() && old.key() == new.key() {
                followed.put_table(Arc::new(Table { engine, ..table.as_ref().clone() }));
            }
        }
        self.split_policies.publish(&self.database, &followed);
        followed.version = self.new_version();
        *current = Arc::new(followed);
        // Release pairs with the acquire in `catalog_version`.
        self.catalog_version.store(current.version, Ordering::Release);
    }

    /// Keeps oids from being given again that a transaction has given which is rolled back: sessions may remember them.
    pub fn keep_oids_of(&self, catalog: &Catalog) {
        let mut current = self.catalog.write();
        let mut kept = current.as_ref().clone();
        kept.skip_oids_of(catalog);
        *current = Arc::new(kept);
    }
}

/// The change of definitions that a transaction commits.
pub(crate) struct Publication {
    shared: Arc<Shared>,
    /// The new catalog; `None` once it is published.
    catalog: Mutex<Option<Catalog>>,
    changed: Changed,
}

impl Publication {
    /// The publication of a transaction with this private catalog, which holds the lock of schema changes.
    pub fn new(shared: &Arc<Shared>, catalog: Arc<Catalog>) -> Publication {
        let changed = catalog.changed_since(&shared.catalog());
        let mut catalog = Arc::unwrap_or_clone(catalog);
        catalog.is_private = false;
        Publication { shared: shared.clone(), catalog: Mutex::new(Some(catalog)), changed }
    }
}

impl DefinitionChange for Publication {
    fn publish(&self, epoch: u64) -> bool {
        let Some(mut catalog) = self.catalog.lock().take() else { return false };
        if !self.changed.things.is_empty() {
            catalog.position = self.shared.history.append(epoch, self.changed.things.clone());
        }
        self.shared.set_catalog(catalog);
        self.changed.concerns_others
    }
}

/// PostgreSQL's SQL on a database. Cheap to clone; all clones are one.
///
/// ```
/// use heddle_sql::Sql;
/// use heddledb::{Database, Durability, Options};
///
/// let db = Database::in_memory_with(Options::default().durability(Durability::None))?;
/// let mut connection = Sql::new(&db)?.connect(Default::default())?;
/// connection.query("create table account (id int primary key, balance bigint not null)")?;
/// connection.query("insert into account values (1, 100), (2, 50)")?;
/// let results = connection.query("select sum(balance) from account")?;
/// assert_eq!(connection.text_rows(&results[0])?, [[Some("150".to_string())]]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Sql {
    pub(crate) shared: Arc<Shared>,
    rules: Arc<RowRules>,
}

impl Sql {
    /// SQL on a database: definitions are read, and what a crash interrupted of a schema change is finished. Make one
    /// for each database, and clone it.
    ///
    /// As long as it or a connection of it exists, the engine's closures, procedures and sessions can write SQL's
    /// tables with checks, generated columns, domains, foreign keys and triggers, which are evaluated for them.
    ///
    /// # Errors
    /// The engine's; XX001 for damaged definitions.
    pub fn new(database: &Database) -> Result<Sql> {
        let (store, catalog) = Store::open(database)?;
        let ignored_settings = system_settings::restore(database, &catalog);
        let split_policies = SplitPolicies::default();
        split_policies.publish(database, &catalog);
        let shared = Shared {
            database: database.clone(),
            catalog_version: AtomicU64::new(catalog.version),
            history: Arc::default(),
            last_version: AtomicU64::new(catalog.version),
            catalog: RwLock::new(Arc::new(catalog)),
            store,
            split_policies,
            statistics: StatisticsCache::default(),
            sequences: Arc::new(Sequences::open(database)?),
            templates: Default::default(),
            advisory: Arc::default(),
            snapshots: Arc::default(),
            sessions: Arc::default(),
            memory: Arc::default(),
            statements: Arc::default(),
            slow_statements: Default::default(),
            connections: AtomicI32::new(1),
            names: OnceLock::new(),
            ignored_settings,
        };
        let shared = Arc::new(shared);
        standby::follow(&shared)?;
        Ok(Sql { rules: RowRules::register(&shared)?, shared })
    }

    /// The settings that ALTER SYSTEM has saved and that could not be put in force, each with the reason: for a warning.
    pub fn ignored_settings(&self) -> &[String] {
        &self.shared.ignored_settings
    }

    /// A new connection.
    ///
    /// # Errors
    /// The engine's, for example when it is closed.
    pub fn connect(&self, options: ConnectOptions) -> Result<Connection> {
        // Relaxed: numbers need only differ.
        let number = self.shared.connections.fetch_add(1, Ordering::Relaxed);
        Connection::new(self.rules.clone(), options, number)
    }

    /// Limits the memory that the sorts, hash tables and stored rows of all statements may use together, in bytes;
    /// there is no limit at first. Statements beyond it spill to disk or fail with 53200.
    pub fn set_work_memory_limit(&self, bytes: usize) {
        self.shared.memory.set_limit(bytes);
    }

    /// The part of that memory in use now, in bytes: in steps of a megabyte, without the first 256 KiB of each
    /// statement.
    pub fn work_memory_used(&self) -> usize {
        self.shared.memory.used()
    }

    /// Gives the database the names under which clients find it, which `pg_database` lists. Only the first call counts.
    pub fn set_database_names(&self, names: &[&str]) {
        let _ = self.shared.names.set(names.iter().map(|name| (*name).to_owned()).collect());
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.shared.database
    }
}

/// The catalog and the statistics, as the planner asks for them.
pub(crate) struct KnownNow<'s> {
    pub shared: &'s Shared,
    pub catalog: &'s Catalog,
    /// The schemas in which unqualified names are looked up.
    pub path: &'s [String],
    /// True if triggers fire, and rows that refer to written ones are looked for. False for internal statements, which
    /// fill, empty and check tables.
    pub has_consequences: bool,
}

impl Known for KnownNow<'_> {
    fn table(&self, oid: u32) -> Option<Arc<Table>> {
        self.catalog.table_by_oid(oid).cloned()
    }

    fn referencing(&self, oid: u32) -> Vec<Arc<Table>> {
        note(self.catalog.position, Thing::Oid(oid));
        if !self.has_consequences {
            return Vec::new();
        }
        let refers = |table: &&Arc<Table>| table.foreign_keys.iter().any(|key| key.table == oid);
        let mut tables: Vec<Arc<Table>> = self.catalog.tables().filter(refers).cloned().collect();
        // Of several violated foreign keys the oldest is reported.
        tables.sort_unstable_by_key(|table| table.oid);
        tables
    }

    fn triggers(&self, oid: u32) -> Vec<Arc<Trigger>> {
        if self.has_consequences { self.catalog.triggers_of(oid).to_vec() } else { Vec::new() }
    }

    fn routine(&self, oid: u32) -> Option<Arc<Routine>> {
        self.catalog.routine_by_oid(oid).cloned()
    }

    fn row_rules(&self, table: &Arc<Table>) -> Result<BoundRowRules> {
        let context = BindContext { catalog: self.catalog, path: self.path, text: "" };
        let mut environment = CatalogEnvironment::new(self.catalog);
        let mut binder = Binder::new(context, &mut environment, &[]);
        let relation = binder.new_relation();
        let generated = binder.generated(table, relation, None)?;
        let checks = binder.checks(table, relation, None)?;
        Ok(BoundRowRules { relation, generated, checks, defaults: binder.key_defaults(table)? })
    }

    fn statistics(&self, table: &Table) -> Arc<TableStatistics> {
        self.shared.statistics.get(&self.shared.database, table)
    }

    fn age(&self, table: &Table) -> Option<Age> {
        Some(Age::now(&self.shared.database, &table.engine))
    }
}
