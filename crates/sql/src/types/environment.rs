//! The environment of values and functions: the services that they need of their session.
//!
//! The session implements [`Environment`]; this folder and `functions` know nothing else of it.

use std::sync::Arc;

use jiff::tz::TimeZone;

use crate::catalog::system::SystemCatalog;
use crate::error::{Result, SqlError, SqlState};
use crate::routine::trigger::Firing;
use crate::run::Access;
use crate::run::memory::{MEMORY_BYTES_DEFAULT, Memory};
use crate::types::record::Shape;
use crate::types::{Modifier, Type, Value};

/// The labels of an enum in their order, each with the number that values of it have.
pub(crate) type EnumLabels = Arc<[(i32, Arc<str>)]>;

/// The order in which dates are printed and ambiguous ones are read (`DateStyle`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DateOrder {
    /// Day, month, year.
    Dmy,
    /// Month, day, year.
    Mdy,
    /// Year, month, day.
    Ymd,
}

/// The style in which dates are printed (`DateStyle`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DateStyle {
    /// `2020-01-31`
    Iso,
    /// `01/31/2020`
    Sql,
    /// `Fri 31 Jan …`
    Postgres,
    /// `31.01.2020`
    German,
}

/// The style in which intervals are printed (`IntervalStyle`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntervalStyle {
    /// `1 day 02:03:04`
    Postgres,
    /// `@ 1 day 2 hours 3 mins 4 secs`
    PostgresVerbose,
    /// `1 2:03:04`
    SqlStandard,
    /// `P1DT2H3M4S`
    Iso8601,
}

/// The format in which `bytea` is printed (`bytea_output`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteaStyle {
    /// `\x0102`
    Hex,
    /// `\001\002`
    Escape,
}

/// The settings that decide how values are printed and read.
#[derive(Clone, Debug)]
pub struct FormatSettings {
    /// `TimeZone`
    pub time_zone: TimeZone,
    /// `DateStyle`, first part
    pub date_style: DateStyle,
    /// `DateStyle`, second part
    pub date_order: DateOrder,
    /// `IntervalStyle`
    pub interval_style: IntervalStyle,
    /// `bytea_output`
    pub bytea_style: ByteaStyle,
    /// `extra_float_digits`
    pub extra_float_digits: i32,
}

impl Default for FormatSettings {
    fn default() -> FormatSettings {
        FormatSettings {
            time_zone: TimeZone::UTC,
            date_style: DateStyle::Iso,
            date_order: DateOrder::Mdy,
            interval_style: IntervalStyle::Postgres,
            bytea_style: ByteaStyle::Hex,
            extra_float_digits: 1,
        }
    }
}

/// The kind of an object that the catalog is asked to name or to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// A table, index, view or sequence (`regclass`).
    Relation,
    /// A type (`regtype`).
    Type,
    /// A schema (`regnamespace`).
    Schema,
    /// A role (`regrole`).
    Role,
    /// A function by its name (`regproc`).
    Function,
    /// A function by its name and arguments (`regprocedure`).
    FunctionSignature,
    /// An operator (`regoper`).
    Operator,
    /// An operator with its arguments (`regoperator`).
    OperatorSignature,
    /// A collation (`regcollation`).
    Collation,
}

/// An advisory lock: a key, and how it is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdvisoryLock {
    /// The key; whether it was given in two halves.
    pub key: (bool, i64),
    /// True if no other session may hold it, not even shared.
    pub exclusive: bool,
    /// True if it ends with the transaction.
    pub of_transaction: bool,
}

/// A foreign key or a unique constraint whose check may wait until COMMIT.
#[derive(Clone, Copy, Debug)]
pub struct DeferrableKey<'k> {
    /// The oid of the referencing table.
    pub table: u32,
    /// The name of the constraint.
    pub name: &'k str,
    /// True if its check waits for COMMIT unless SET CONSTRAINTS says otherwise.
    pub deferred: bool,
}

/// The side of a foreign key that a statement wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeySide {
    /// A row that refers to another.
    Referencing,
    /// A row that is referred to.
    Referenced,
}

/// A session, as functions see it. Every method has a default that suits expressions without a session.
pub trait Environment {
    /// The settings for printing and reading values.
    fn formats(&self) -> &FormatSettings;

    /// `now()`: when the transaction started, in microseconds since 2000-01-01 UTC.
    fn transaction_start(&self) -> i64;

    /// `statement_timestamp()`
    fn statement_start(&self) -> i64 {
        self.transaction_start()
    }

    /// `clock_timestamp()`
    fn clock(&self) -> i64 {
        self.transaction_start()
    }

    /// `txid_current()`: a number that the transaction has, and no other one.
    ///
    /// # Errors
    /// 55000 without a session.
    fn transaction_number(&mut self) -> Result<i64> {
        Err(no_session("txid_current"))
    }

    /// The transaction's number, if it was asked for before.
    fn known_transaction_number(&self) -> Option<i64> {
        None
    }

    /// `random()`: uniformly distributed 64 bits.
    fn random_bits(&mut self) -> u64;

    /// `setseed()`
    fn set_seed(&mut self, _seed: f64) {}

    /// The labels of an enum, in order; none if there is no such type.
    fn enum_labels(&self, _oid: u32) -> Option<EnumLabels> {
        None
    }

    /// The fields of a composite type; none if there is no such type.
    fn shape(&self, _oid: u32) -> Option<Arc<Shape>> {
        None
    }

    /// The name of a user-defined type.
    fn type_name(&self, _oid: u32) -> Option<String> {
        None
    }

    /// The type with this name, as a cast to `regtype` finds it.
    fn type_by_name(&self, name: &str) -> Option<Type> {
        Type::from_name(name)
    }

    /// The name of an object as its `reg…` type prints it.
    fn object_name(&self, _kind: ObjectKind, _oid: u32) -> Option<String> {
        None
    }

    /// Checks that the role may look an object up by a name with this schema.
    ///
    /// # Errors
    /// 42501.
    fn check_name(&self, _kind: ObjectKind, _name: &str) -> Result<()> {
        Ok(())
    }

    /// Sets the path along which names of objects in literals are looked up, for a stored definition. Returns the
    /// previous path, to be restored.
    fn look_up_along(&mut self, _path: Option<Vec<String>>) -> Option<Vec<String>> {
        None
    }

    /// The object with this name, as its `reg…` type reads it.
    fn object_by_name(&self, _kind: ObjectKind, _name: &str) -> Result<Option<u32>> {
        Ok(None)
    }

    /// The objects as system relations show them; none without a session.
    fn system_catalog(&self) -> Option<SystemCatalog<'_>> {
        None
    }

    /// Defers the check of a foreign key that does not hold for these values now. Returns true if it is deferred.
    fn defer_check(&mut self, _key: DeferrableKey<'_>, _values: &[Value], _side: KeySide) -> bool {
        false
    }

    /// Returns true if the running statement is inside an exception handler, so that errors of writes must not wait for
    /// the commit.
    fn decides_at_once(&self) -> bool {
        false
    }

    /// `nextval`
    fn next_value(&mut self, _sequence: u32) -> Result<i64> {
        Err(no_session("nextval"))
    }

    /// The state of a sequence: its last value, or its first, and whether it was given.
    fn sequence_state(&mut self, _sequence: u32) -> Result<(i64, bool)> {
        Err(no_session("sequences"))
    }

    /// `currval`
    fn current_value(&mut self, _sequence: u32) -> Result<i64> {
        Err(no_session("currval"))
    }

    /// `pg_is_in_recovery`
    fn is_in_recovery(&self) -> bool {
        false
    }

    /// `heddle_position`
    fn log_position(&self) -> Result<String> {
        Err(no_session("heddle_position"))
    }

    /// Returns true if the database has this position of a log.
    fn has_log_position(&self, _position: &str) -> Result<bool> {
        Err(no_session("heddle_wait_for"))
    }

    /// `pg_notify`
    fn notify(&mut self, _channel: &str, _payload: &str) -> Result<()> {
        Err(no_session("pg_notify"))
    }

    /// `pg_listening_channels`
    fn listening_channels(&self) -> Vec<Arc<str>> {
        Vec::new()
    }

    /// `pg_cancel_backend` and, with `terminate`, `pg_terminate_backend`. Returns true if there is such a session.
    fn signal_backend(&mut self, _process_id: i32, _terminate: bool) -> Result<bool> {
        Err(no_session("pg_cancel_backend"))
    }

    /// `pg_advisory_lock` and the like. With `wait`, waits until it is free; otherwise returns true if it was free.
    fn advisory_lock(&mut self, _lock: AdvisoryLock, _wait: bool) -> Result<bool> {
        Err(no_session("pg_advisory_lock"))
    }

    /// `pg_advisory_unlock`. Returns true if the session held the lock.
    fn advisory_unlock(&mut self, _lock: AdvisoryLock) -> Result<bool> {
        Err(no_session("pg_advisory_unlock"))
    }

    /// `pg_advisory_unlock_all`
    fn advisory_unlock_all(&mut self) -> Result<()> {
        Err(no_session("pg_advisory_unlock_all"))
    }

    /// `lastval`
    fn last_value(&mut self) -> Result<i64> {
        Err(no_session("lastval"))
    }

    /// `pg_export_snapshot`: an identifier.
    fn export_snapshot(&mut self) -> Result<String> {
        Err(no_session("pg_export_snapshot"))
    }

    /// `setval`
    fn set_value(&mut self, _sequence: u32, _value: i64, _is_called: bool) -> Result<i64> {
        Err(no_session("setval"))
    }

    /// `current_setting`; none if there is no such setting.
    fn setting(&self, _name: &str) -> Option<String> {
        None
    }

    /// `set_config`
    fn change_setting(&mut self, name: &str, _value: &str, _is_local: bool) -> Result<String> {
        let message = format!("unrecognized configuration parameter \"{name}\"");
        Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
    }

    /// The role whose privileges count.
    fn user(&self) -> &str {
        "heddle"
    }

    /// The session's user.
    fn session_user(&self) -> &str {
        self.user()
    }

    /// The oid of the role whose privileges count; the bootstrap superuser's outside of a session.
    fn role(&self) -> u32 {
        10
    }

    /// Acts with a role's privileges from now on. The role that it acted as before, for [`Environment::act_as`].
    fn act_as_role(&mut self, _role: u32) -> Option<Acting> {
        None
    }

    /// Acts as before [`Environment::act_as_role`].
    fn act_as(&mut self, _before: Option<Acting>) {}

    /// The database's name.
    fn database(&self) -> &str {
        "heddle"
    }

    /// Returns true if this is a name of the database.
    fn is_database(&self, _name: &str) -> bool {
        true
    }

    /// The schemas that names are looked up in; with the implicit ones if so wanted.
    fn schemas(&self, _with_implicit: bool) -> Vec<String> {
        Vec::new()
    }

    /// `pg_backend_pid()`
    fn backend_pid(&self) -> i32 {
        std::process::id() as i32
    }

    /// Calls a user-defined function, within the statement that runs.
    ///
    /// # Errors
    /// The function's.
    fn call_routine(&mut self, _routine: u32, _arguments: &[Value], _access: Access<'_>) -> Result<Value> {
        Err(no_session("functions of users"))
    }

    /// Calls a user-defined function for its rows.
    ///
    /// # Errors
    /// The function's.
    fn routine_rows(
        &mut self,
        _routine: u32,
        _arguments: &[Value],
        _access: Access<'_>,
    ) -> Result<Vec<Value>> {
        Err(no_session("functions of users"))
    }

    /// The columns of the transition table of this name that the running trigger's function sees.
    fn transition_columns(&self, _name: &str) -> Option<Vec<(String, Type, Modifier)>> {
        None
    }

    /// The rows of that table, as records.
    fn transition_rows(&self, _name: &str) -> Option<Arc<Vec<Value>>> {
        None
    }

    /// `pg_trigger_depth()`
    fn trigger_depth(&self) -> i32 {
        0
    }

    /// Fires a trigger, within the statement that runs: returns the row that is to be written; `None` if it is skipped.
    ///
    /// # Errors
    /// The trigger's function's.
    fn fire_trigger(&mut self, _firing: &Firing<'_>, _access: Access<'_>) -> Result<Option<Vec<Value>>> {
        Err(no_session("triggers"))
    }

    /// Keeps a trigger that fires for the end of the transaction, if it is deferred now: true.
    ///
    /// # Errors
    /// 53200: the session's memory has no room for the rows.
    fn defer_trigger(&mut self, _firing: &Firing<'_>) -> Result<bool> {
        Ok(false)
    }

    /// Asked now and then by what runs long.
    ///
    /// # Errors
    /// 57014: the statement is canceled.
    fn check_interrupt(&mut self) -> Result<()> {
        Ok(())
    }

    /// A notice to the client.
    fn notice(&mut self, _message: SqlError) {}

    /// Counts a value that an expression has computed, if it is large.
    ///
    /// # Errors
    /// 53200: the values that sessions hold are larger than they may be together.
    fn note_value(&mut self, _value: &Value) -> Result<()> {
        Ok(())
    }

    /// Makes sure, before it is made, that a value of this many bytes may be.
    ///
    /// # Errors
    /// Like [`Environment::note_value`].
    fn require_value(&mut self, _bytes: usize) -> Result<()> {
        Ok(())
    }

    /// Memory for the rows that an aggregate keeps.
    fn state_memory(&self) -> Memory {
        Memory::new(usize::MAX)
    }

    /// The memory of a statement that begins.
    fn memory(&self) -> Memory {
        Memory::new(MEMORY_BYTES_DEFAULT)
    }
}

fn no_session(function: &str) -> SqlError {
    let message = format!("{function} cannot be called here, because no session is attached");
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
}

/// The role whose privileges count instead of the current role's, and what may not be done meanwhile.
#[derive(Clone, Debug)]
pub struct Acting {
    /// The role's oid.
    pub role: u32,
    /// Its name.
    pub name: Arc<str>,
    /// True if the role is a definer's, or the owner's of a table that a foreign key changes.
    pub is_definer: bool,
    /// True if a definition's code runs for a role that did not write it: a security-restricted operation, as
    /// PostgreSQL calls it.
    pub is_restricted: bool,
}

/// An environment without a session: for constant folding and tests.
#[derive(Clone, Debug)]
pub struct PlainEnvironment {
    /// The settings.
    pub formats: FormatSettings,
    /// The result of `now()`.
    pub now: i64,
    /// The size at which values are refused, in bytes.
    pub value_limit: usize,
    random: u64,
}

impl PlainEnvironment {
    /// An environment with default settings, at this time.
    pub fn new(now: i64) -> PlainEnvironment {
        PlainEnvironment {
            formats: FormatSettings::default(),
            now,
            value_limit: usize::MAX,
            random: 0x9e37_79b9_7f4a_7c15,
        }
    }
}

impl Environment for PlainEnvironment {
    fn formats(&self) -> &FormatSettings {
        &self.formats
    }

    fn transaction_start(&self) -> i64 {
        self.now
    }

    fn random_bits(&mut self) -> u64 {
        // splitmix64
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.random;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn set_seed(&mut self, seed: f64) {
        self.random = seed.to_bits();
    }

    fn note_value(&mut self, value: &Value) -> Result<()> {
        self.require_value(value.heap_size())
    }

    fn require_value(&mut self, bytes: usize) -> Result<()> {
        if bytes < self.value_limit {
            return Ok(());
        }
        Err(SqlError::new(SqlState::OUT_OF_MEMORY, "the value is larger than it may be here"))
    }
}
