//! A session as functions see it: settings, the time, sequences, names of objects, notices, cancellation.

mod functions;
mod printing;

use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};

use hashbrown::HashMap;

use crate::catalog::Catalog;
use crate::catalog::role::READ_ALL_STATS;
use crate::catalog::system;
use crate::error::{Result, SqlError, SqlState};
use crate::interrupt::Interrupt;
use crate::parse::quote_identifier;
use crate::routine::Routines;
use crate::routine::trigger::Transition;
use crate::run::large_values::LargeValues;
use crate::run::memory::{Memory, SessionMemory};
use crate::session::Shared;
use crate::session::advisory::AdvisoryLocks;
use crate::session::connection::{Canceller, ConnectOptions};
use crate::session::cursor::Cursor;
use crate::session::deferred::Deferred;
use crate::session::exported_snapshots::Exports;
use crate::session::identity::settings_of;
use crate::session::notices::Notices;
use crate::session::notifications::Pending;
use crate::session::pipeline::PreparedStatements;
use crate::session::result::{Notice, Severity};
use crate::session::sequences::{Sequences, Standing, sequence_of};
use crate::session::sessions::{Activity, Sessions, Ticket};
use crate::session::settings::Settings;
use crate::types::environment::{Acting, AdvisoryLock, ObjectKind};
use crate::types::{Environment, Type};

pub(crate) use printing::Printing;

/// Microseconds from 1970-01-01 to 2000-01-01.
pub(crate) const POSTGRES_EPOCH: i64 = 946_684_800_000_000;

/// The time now, in microseconds since 2000-01-01 UTC.
pub(crate) fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    since.as_micros() as i64 - POSTGRES_EPOCH
}

/// The parts of a session that functions reach.
pub(crate) struct SessionEnvironment {
    pub settings: Settings,
    /// True until the session has learned that the database is no standby, or no longer one.
    pub is_on_standby: bool,
    pub catalog: Arc<Catalog>,
    pub shared: Arc<Shared>,
    pub routines: Routines,
    pub sequences: Arc<Sequences>,
    pub advisory: Arc<AdvisoryLocks>,
    /// The number of the connection, by which it holds advisory locks.
    pub number: i32,
    /// Advisory locks that the present attempt of the statement has acquired: another attempt begins without them.
    pub acquired: Vec<AdvisoryLock>,
    /// The user that connected.
    pub user: String,
    /// True if that user is no role of the database, and acts as its bootstrap superuser.
    pub is_bootstrap: bool,
    /// The current role, and the versions of the catalog and of the settings in which it was found.
    pub known_role: Cell<((u64, u64), u32)>,
    /// The owner of the function with SECURITY DEFINER that is running, or of the table that a foreign key changes.
    pub acting_as: Option<Acting>,
    /// The transition tables of the trigger whose function runs.
    pub transitions: Vec<Transition>,
    /// The nesting depth of trigger functions.
    pub trigger_depth: i32,
    pub database: String,
    pub process_id: i32,
    pub sessions: Arc<Sessions>,
    /// The session's entry in `pg_stat_activity`.
    pub activity: Arc<Activity>,
    /// The effects that take place when the transaction commits.
    pub pending: Pending,
    /// The schema of the session's temporary tables.
    pub temporary: String,
    /// The path of the catalog's definition whose literals are being read.
    pub stored_path: Option<Vec<String>>,
    /// True once a temporary table was created that a commit empties or drops.
    pub has_brief_tables: bool,
    pub transaction_start: i64,
    pub statement_start: i64,
    /// The transaction's number, once a function has asked for it.
    pub transaction_number: Option<i64>,
    pub notices: Arc<Notices>,
    /// The place of the statement's notifications, while it commits.
    pub ticket: Option<Ticket>,
    /// The memory of data that the session gathers until its transaction ends: notifications, and custom settings.
    pub gathered: Memory,
    /// The level of the settings outside of the statement: an attempt begins there.
    pub settings_level: u32,
    /// The interrupt of the statement in progress.
    pub interrupt: Arc<Interrupt>,
    /// The values that `nextval` has given in this statement, and how many of them its present attempt was given again.
    pub given: Vec<(u32, i64)>,
    pub replayed: usize,
    /// The sequence whose stored values ran out in this statement.
    pub shortage: Option<u32>,
    /// `setval` calls of this statement: they are carried out when it has ended.
    pub set_values: Vec<(u32, i64, bool)>,
    /// The snapshots that the transaction exports.
    pub exports: Exports,
    /// The state of the sequences that the transaction has restarted: only it sees them before its commit.
    pub restarted: HashMap<u32, Standing>,
    /// The values that `currval` answers.
    pub current_values: HashMap<u32, i64>,
    pub last_sequence: Option<u32>,
    /// The foreign keys that are still to be checked.
    pub deferred: Deferred,
    pub random: Random,
    /// True if the session evaluates the rules of rows that engine transactions write.
    pub evaluates_rules: bool,
    /// The state that printing needs, with the version of the settings from which it was made.
    pub printing: Option<(u64, Arc<Printing>)>,
    pub memory: Arc<SessionMemory>,
    /// Statements that were prepared, and cursors, by name.
    pub prepared: PreparedStatements,
    pub cursors: HashMap<String, Cursor>,
    /// Cursors that functions of this attempt of the statement have left open.
    pub left_cursors: Vec<(String, Cursor)>,
    /// The number of portals to which functions have given a generated name.
    unnamed_portals: u64,
    /// Large values that the session holds.
    pub large_values: LargeValues,
}

/// Random numbers of a session: splitmix64, seeded by the time, or by `setseed`.
#[derive(Clone, Debug)]
pub(crate) struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}

/// A number for a transaction: they grow, also from one run of the process to the next, as long as fewer than a million a second
/// are asked for.
pub(super) fn next_transaction_number() -> i64 {
    static NEXT: LazyLock<AtomicI64> = LazyLock::new(|| AtomicI64::new(now()));
    // Relaxed: the numbers need only differ.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl SessionEnvironment {
    /// The environment of a new session of this user, with the engine's session and its canceler.
    pub fn new(
        shared: Arc<Shared>,
        options: ConnectOptions,
        number: i32,
        session: (u64, heddledb::Canceler),
    ) -> Result<SessionEnvironment> {
        let memory = Arc::new(SessionMemory(shared.memory.clone()));
        let interrupt = Interrupt::of_session(Some(memory.clone()));
        let catalog = shared.catalog();
        let role = catalog.role(&options.user).cloned();
        let mut settings = settings_of(&catalog.database, role.as_deref(), &options.user)?;
        let is_on_standby = shared.database.is_standby();
        if is_on_standby {
            settings.set_fixed("in_hot_standby", "on")?;
        }
        let start = now();
        let canceller = Canceller::new(interrupt.clone(), session);
        let activity = Arc::new(Activity::new(number, &options.user, &options.database, start, canceller));
        Ok(SessionEnvironment {
            settings,
            is_on_standby,
            catalog,
            routines: Default::default(),
            sequences: shared.sequences.clone(),
            advisory: shared.advisory.clone(),
            number,
            acquired: Vec::new(),
            user: options.user,
            is_bootstrap: role.is_none(),
            known_role: Cell::new(((u64::MAX, u64::MAX), 0)),
            acting_as: None,
            transitions: Vec::new(),
            trigger_depth: 0,
            database: options.database,
            process_id: number,
            sessions: shared.sessions.clone(),
            activity,
            pending: Pending::default(),
            ticket: None,
            gathered: Memory::of_session(usize::MAX, memory.clone()),
            temporary: format!("{}{number}", crate::catalog::store::TEMPORARY),
            stored_path: None,
            has_brief_tables: false,
            transaction_start: start,
            statement_start: start,
            transaction_number: None,
            notices: Notices::new(memory.clone()),
            settings_level: 1,
            interrupt,
            given: Vec::new(),
            replayed: 0,
            prepared: PreparedStatements::default(),
            cursors: HashMap::new(),
            left_cursors: Vec::new(),
            unnamed_portals: 0,
            shortage: None,
            set_values: Vec::new(),
            exports: Exports::default(),
            restarted: HashMap::new(),
            current_values: HashMap::new(),
            last_sequence: None,
            deferred: Deferred::default(),
            printing: None,
            large_values: LargeValues::new(Memory::of_session(usize::MAX, memory.clone())),
            memory,
            random: Random((start as u64).wrapping_mul(0x2545_f491_4f6c_dd1d) ^ (number as u64) << 32),
            evaluates_rules: false,
            shared,
        })
    }

    /// Refuses effects that an engine transaction cannot undo or provide.
    fn refuse_in_rules(&self, what: &str) -> Result<()> {
        if !self.evaluates_rules {
            return Ok(());
        }
        let message = format!("{what} is not possible in rules of rows that are written without SQL");
        Err(SqlError::unsupported(message).with_hint("Write the row by a statement of SQL."))
    }

    /// The state that all connections share.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Returns true if the user may see keys of rows and other users' statements, as superusers may.
    pub fn sees_all(&self) -> bool {
        self.catalog.has_privileges_of(self.role_oid(), READ_ALL_STATS)
    }

    /// Returns true if the user may see the activity of this user's sessions: superusers, members of
    /// `pg_read_all_stats`, and roles that have the user's privileges may.
    pub fn sees_activity_of(&self, user: u32) -> bool {
        self.sees_all() || self.catalog.has_privileges_of(self.role_oid(), user)
    }

    /// The schemas in which names are looked up: temporary objects first, unless `pg_temp` has a place of its own.
    pub fn path(&self) -> Vec<String> {
        if let Some(path) = &self.stored_path {
            return path.clone();
        }
        let mut path = self.named_path();
        if !path.contains(&self.temporary) {
            path.insert(0, self.temporary.clone());
        }
        path
    }

    /// The schema in which objects are created: the first of the path that exists.
    pub fn creation_schema(&self) -> Result<String> {
        let path = self.named_path();
        let is_there = |schema: &String| {
            *schema == self.temporary || system::is_schema(schema) || self.catalog.schema(schema).is_some()
        };
        path.into_iter().find(is_there).ok_or_else(|| {
            SqlError::new(SqlState::INVALID_SCHEMA_NAME, "no schema has been selected to create in")
        })
    }

    /// Releases the memory of large values that nothing holds any more.
    pub fn forget_large_values(&mut self) {
        if self.large_values.is_empty() {
            return;
        }
        self.large_values.sweep();
        if self.large_values.is_empty() {
            self.large_values = LargeValues::new(self.state_memory());
        }
    }

    /// Checks at the beginning of an attempt that the statement was planned for the catalog as it is now. A schema change that
    /// commits later in the attempt has the engine retry it.
    ///
    /// # Errors
    /// The statement is to be planned again ([`SqlError::is_of_stale_plan`]).
    pub fn check_definitions(&self) -> Result<()> {
        if self.catalog.version != self.shared.catalog_version() && !self.catalog.is_private {
            return Err(SqlError::stale_plan());
        }
        Ok(())
    }

    /// Begins an attempt of a statement: the values that `nextval` gave are given again, and locks of the attempt
    /// before are released.
    pub fn begin_attempt(&mut self) {
        self.replayed = 0;
        self.set_values.clear();
        self.notices.begin_attempt();
        self.left_cursors.clear();
        if self.settings.level() > self.settings_level {
            self.settings.end_level(self.settings_level + 1, false);
        }
        self.pending.begin_attempt();
        self.deferred.begin_attempt();
        self.ticket = None;
        self.exports.wanted.clear();
        for lock in std::mem::take(&mut self.acquired) {
            self.advisory.release(self.number, lock);
        }
    }

    /// Prepares for the attempts of a statement.
    pub fn begin_attempts(&mut self) {
        self.given.clear();
        self.acquired.clear();
        self.notices.begin_attempts();
        self.settings_level = self.settings.level();
    }

    /// Stores more values of a sequence that has run out in an attempt, which is then retried.
    pub fn refill(&mut self, sequence: u32) -> Result<()> {
        let sequence = sequence_of(&self.catalog, sequence)?;
        self.set_values.clear();
        self.shared.sequences.refill(&self.shared.database, &sequence)
    }

    /// The value that `setval` in this statement has set a sequence to; the end of the statement stores it.
    fn value_set(&self, sequence: u32) -> Option<(i64, bool)> {
        let set = self.set_values.iter().rfind(|(oid, ..)| *oid == sequence)?;
        Some((set.1, set.2))
    }

    /// Carries out the `setval` calls of a statement that has succeeded.
    pub fn finish_sequences(&mut self) -> Result<()> {
        for (oid, value, is_called) in std::mem::take(&mut self.set_values) {
            if let Some(standing) = self.restarted.get_mut(&oid) {
                *standing = (value, is_called);
                continue;
            }
            let sequence = sequence_of(&self.catalog, oid)?;
            self.shared.sequences.set(&self.shared.database, &sequence, value, is_called)?;
        }
        if let Some(last) = self.last_sequence.filter(|_| !self.given.is_empty()) {
            self.shared.sequences.settle(last);
        }
        Ok(())
    }

    /// A name for a cursor whose function has given it none.
    pub fn unnamed_portal(&mut self) -> String {
        self.unnamed_portals += 1;
        format!("<unnamed portal {}>", self.unnamed_portals)
    }

    /// The statement has ended: the cursors that its functions have left open are the session's, up to the end of the transaction.
    pub fn keep_left_cursors(&mut self) {
        self.cursors.extend(self.left_cursors.drain(..));
    }

    /// The state that printing a value needs.
    pub fn printing(&mut self) -> Arc<Printing> {
        let version = self.settings.derived.version;
        if let Some((of, printing)) = &self.printing
            && *of == version
            && Arc::ptr_eq(&printing.catalog, &self.catalog)
        {
            return printing.clone();
        }
        let (formats, catalog) = (self.settings.formats.clone(), self.catalog.clone());
        let printing =
            Arc::new(Printing { formats, catalog, path: self.path(), bootstrap: self.bootstrap_name() });
        self.printing = Some((version, printing.clone()));
        printing
    }

    pub fn add_notice(&mut self, severity: Severity, state: SqlState, message: impl Into<String>) {
        // Few of these arise in one statement, and those of a client without memory are not worth its error.
        let _ =
            self.push_notice(Notice { severity, state, message: message.into(), detail: None, hint: None });
    }

    /// Adds a notice for the client, if it wants notices of this severity.
    ///
    /// # Errors
    /// 53200: the notices need more memory than there is.
    pub fn push_notice(&mut self, notice: Notice) -> Result<()> {
        let least = self.settings.get("client_min_messages").unwrap_or("notice");
        if notice.severity.reaches(least) { self.notices.push(notice, self.statement_start) } else { Ok(()) }
    }
}

fn object_name(
    catalog: &Catalog,
    path: &[String],
    bootstrap: &str,
    kind: ObjectKind,
    oid: u32,
) -> Option<String> {
    if let Some(name) = system::name_of(catalog, path, bootstrap, kind, oid) {
        return Some(name);
    }
    match kind {
        ObjectKind::Relation => {
            let (schema, name) = catalog.relation_name(oid)?;
            let visible = catalog.find_oid(None, name, path) == Some(oid);
            let name = quote_identifier(name);
            Some(if visible { name } else { format!("{}.{name}", quote_identifier(schema)) })
        }
        ObjectKind::Type => Type::from_oid(oid).map(|ty| catalog.type_display(ty)),
        ObjectKind::Schema => {
            catalog.schemas().find(|schema| schema.oid == oid).map(|schema| quote_identifier(&schema.name))
        }
        _ => None,
    }
}
