//! The reports of PostgreSQL's statistics collector: `pg_stat_database`, `pg_stat_all_tables` and their kin,
//! `pg_stat_wal`, and the waits of sessions for each other.
//!
//! # Invariants
//! - What the engine counts is shown: transactions, sessions, rows of tables. What it does not count (rows that
//!   statements have read and written, scans, blocks) is 0, as for a relation that PostgreSQL has counted nothing of.
//! - A relation without indexes has NULL for what is summed over its indexes, as in PostgreSQL.

use super::classes::{IndexOf, indexes_of, tables as all_tables};
use super::row::{Cell, Output, row};
use super::{DATABASE, SystemCatalog, SystemRelation, relations};
use crate::bind::privileges::denied;
use crate::catalog::Table;
use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Definition, FunctionContext, Rows, RowsOf, scalar, set};
use crate::types::array::ArrayValue;
use crate::types::numeric::Numeric;
use crate::types::{Type, Value};

/// The estimate up to which the rows of a table are counted, which takes less than a millisecond.
const COUNTED_ROWS_MAX: u64 = 20_000;

/// The oid of `pg_settings`.
const PG_SETTINGS: u32 = 12_104;

/// The functions.
pub(crate) const MONITORING: &[Definition] = &[
    set(
        "pg_show_all_settings() setof record name text; setting text; unit text; category text; short_desc text; \
         extra_desc text; context text; vartype text; source text; min_val text; max_val text; enumvals text[]; \
         boot_val text; reset_val text; sourcefile text; sourceline int4; pending_restart bool",
        all_settings,
    )
    .stable(),
    scalar("pg_is_wal_replay_paused() bool", not_in_recovery).stable(),
    scalar("pg_blocking_pids(int4) int4[]", blocking).stable(),
    scalar("pg_stat_statements_reset() void", reset_statements).volatile(),
    scalar("pg_stat_statements_reset(oid) void", reset_statements).volatile(),
    scalar("pg_stat_statements_reset(oid, oid) void", reset_statements).volatile(),
    scalar("pg_stat_statements_reset(oid, oid, int8) void", reset_statements).volatile(),
    scalar("pg_stat_get_live_tuples(oid) int8", live_rows).stable(),
    scalar("pg_stat_get_numscans(oid) int8", uncounted).stable(),
    scalar("pg_stat_get_tuples_returned(oid) int8", uncounted).stable(),
    scalar("pg_stat_get_tuples_fetched(oid) int8", uncounted).stable(),
    scalar("pg_stat_get_tuples_inserted(oid) int8", uncounted).stable(),
    scalar("pg_stat_get_tuples_updated(oid) int8", uncounted).stable(),
    scalar("pg_stat_get_tuples_deleted(oid) int8", uncounted).stable(),
    scalar("pg_stat_get_dead_tuples(oid) int8", uncounted).stable(),
];

/// A session that waits for another one.
struct Wait {
    /// The process ID of the session that waits.
    waiter: i32,
    /// The process IDs of the sessions that it waits for.
    blockers: Vec<i32>,
    /// The kind of lock, as in `pg_stat_activity.wait_event`.
    event: &'static str,
}

/// The waits of sessions for locks of others: the holders, and the sessions that have waited for longer.
fn waits(system: &SystemCatalog<'_>) -> Vec<Wait> {
    let sessions = system.session.sessions.list();
    let by_session =
        |number: u64| sessions.iter().find(|it| it.engine_session == number).map(|it| it.process_id());
    let by_connection =
        |number: i32| sessions.iter().find(|it| it.number == number).map(|it| it.process_id());
    let mut waits = Vec::new();
    for lock in system.session.shared().database.session_locks() {
        let event = if lock.row.is_some() { "tuple" } else { "object" };
        let ahead: Vec<i32> =
            lock.holder.iter().chain(&lock.waiters).filter_map(|number| by_session(*number)).collect();
        for waiter in lock.waiters.iter().filter_map(|number| by_session(*number)) {
            let blockers = ahead.iter().copied().take_while(|it| *it != waiter).collect();
            waits.push(Wait { waiter, blockers, event });
        }
    }
    for (connection, _, holders) in system.session.advisory.waiting() {
        let Some(waiter) = by_connection(connection) else { continue };
        let blockers = holders.into_iter().filter_map(by_connection).collect();
        waits.push(Wait { waiter, blockers, event: "advisory" });
    }
    waits
}

/// The `wait_event` of each waiting session in `pg_stat_activity`, by its process ID.
pub(super) fn wait_events(system: &SystemCatalog<'_>) -> Vec<(i32, &'static str)> {
    waits(system).into_iter().map(|wait| (wait.waiter, wait.event)).collect()
}

fn blocking(context: &mut FunctionContext<'_>, values: &[Value]) -> Result<Value> {
    let process = values[0].int4();
    let Some(system) = context.environment.system_catalog() else { return Ok(Value::Null) };
    let waits = waits(&system).into_iter().filter(|wait| wait.waiter == process);
    let mut blockers: Vec<i32> = waits.flat_map(|wait| wait.blockers).collect();
    blockers.sort_unstable();
    blockers.dedup();
    Ok(Value::array(ArrayValue::list(Type::Int4, blockers.into_iter().map(Value::Int4).collect())))
}

/// `pg_stat_statements_reset`: of a role, of the database, of a statement; 0 is any.
///
/// # Errors
/// 42501: only superusers may.
fn reset_statements(context: &mut FunctionContext<'_>, values: &[Value]) -> Result<Value> {
    let Some(system) = context.environment.system_catalog() else { return Ok(Value::Void) };
    if !system.session.is_superuser() {
        return Err(denied("function", "pg_stat_statements_reset"));
    }
    let number = |at: usize| match values.get(at) {
        Some(Value::Oid(oid)) => i64::from(*oid),
        Some(Value::Int8(number)) => *number,
        _ => 0,
    };
    let (role, database, statement) = (number(0), number(1), number(2));
    if database == 0 || database == i64::from(DATABASE) {
        let of_role = |user: &str| role == 0 || system.session.oid_of(user).map(i64::from) == Some(role);
        let statements = &system.session.shared().statements;
        statements.reset(|user, id| of_role(user) && (statement == 0 || statement == id));
    }
    Ok(Value::Void)
}

fn all_settings(context: &mut FunctionContext<'_>, _: &[Value]) -> Result<Box<dyn Rows>> {
    let system = context.environment.system_catalog();
    let rows = system.map_or(Vec::new(), |system| system.rows(PG_SETTINGS));
    Ok(Box::new(RowsOf(rows.into_iter().map(Ok))))
}

/// The error of a server that replays no log of another one.
fn not_in_recovery(_: &mut FunctionContext<'_>, _: &[Value]) -> Result<Value> {
    let error = SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "recovery is not in progress");
    Err(error.with_hint("Recovery control functions can only be executed during recovery."))
}

/// The answer for statistics that are not counted.
fn uncounted(_: &mut FunctionContext<'_>, _: &[Value]) -> Result<Value> {
    Ok(Value::Int8(0))
}

fn live_rows(context: &mut FunctionContext<'_>, values: &[Value]) -> Result<Value> {
    let Value::Oid(oid) = values[0] else { return Ok(Value::Null) };
    let system = context.environment.system_catalog();
    let rows = system.and_then(|system| system.objects().table_by_oid(oid).map(|table| rows_of(table)));
    Ok(Value::Int8(rows.unwrap_or(0)))
}

/// The rows of a table: of a small one their number, of a large one an estimate, mostly within a factor of two.
fn rows_of(table: &Table) -> i64 {
    match table.engine.estimated_rows() {
        Some(estimate) if estimate > COUNTED_ROWS_MAX => estimate as i64,
        _ => table.engine.memory().rows as i64,
    }
}

/// The relations that a view of statistics lists.
#[derive(Clone, Copy, PartialEq)]
enum Listed {
    All,
    System,
    User,
}

impl Listed {
    fn system(self) -> impl Iterator<Item = &'static SystemRelation> {
        relations().iter().filter(move |relation| self != Listed::User && relation.kind == 'r')
    }

    fn user<'c>(self, system: &SystemCatalog<'c>) -> Vec<&'c Table> {
        let tables = if self == Listed::System { Vec::new() } else { all_tables(system.objects()) };
        tables.into_iter().map(AsRef::as_ref).collect()
    }
}

/// The columns that name a relation.
fn named(oid: u32, schema: &str, name: &str) -> Vec<(&'static str, Value)> {
    vec![("relid", oid.value()), ("schemaname", schema.value()), ("relname", name.value())]
}

/// The relations that a view lists, each with its rows and whether it has indexes.
fn each_table(
    system: &SystemCatalog<'_>,
    listed: Listed,
    mut add: impl FnMut(Vec<(&'static str, Value)>, Option<&Table>),
) {
    for relation in listed.system() {
        add(named(relation.oid, relation.schema, relation.name), None);
    }
    for table in listed.user(system) {
        add(named(table.oid, &table.schema, &table.name), Some(table));
    }
}

/// The sum over a relation's indexes: NULL if it has none.
fn over_indexes(table: Option<&Table>) -> Value {
    let has_indexes = table.is_some_and(|table| !indexes_of(table).is_empty());
    if has_indexes { Value::Int8(0) } else { Value::Null }
}

fn table_rows(system: &SystemCatalog<'_>, out: &mut Output, listed: Listed) {
    each_table(system, listed, |mut cells, table| {
        let zeros = [
            "seq_scan",
            "seq_tup_read",
            "n_tup_ins",
            "n_tup_upd",
            "n_tup_del",
            "n_tup_hot_upd",
            "n_dead_tup",
            "n_mod_since_analyze",
            "n_ins_since_vacuum",
            "vacuum_count",
            "autovacuum_count",
            "analyze_count",
            "autoanalyze_count",
        ];
        cells.extend(zeros.map(|name| (name, Value::Int8(0))));
        cells.extend(["idx_scan", "idx_tup_fetch"].map(|name| (name, over_indexes(table))));
        cells.push(("n_live_tup", table.map_or(0, rows_of).value()));
        out.row(cells);
    });
}

pub(super) fn all_table_rows(system: &SystemCatalog<'_>, out: &mut Output) {
    table_rows(system, out, Listed::All);
}

pub(super) fn system_table_rows(system: &SystemCatalog<'_>, out: &mut Output) {
    table_rows(system, out, Listed::System);
}

pub(super) fn user_table_rows(system: &SystemCatalog<'_>, out: &mut Output) {
    table_rows(system, out, Listed::User);
}

/// Nothing is read from a disk in blocks. The columns of TOAST tables are NULL: there are none.
fn table_blocks(system: &SystemCatalog<'_>, out: &mut Output, listed: Listed) {
    each_table(system, listed, |mut cells, table| {
        cells.extend(["heap_blks_read", "heap_blks_hit"].map(|name| (name, Value::Int8(0))));
        cells.extend(["idx_blks_read", "idx_blks_hit"].map(|name| (name, over_indexes(table))));
        out.row(cells);
    });
}

pub(super) fn all_table_blocks(system: &SystemCatalog<'_>, out: &mut Output) {
    table_blocks(system, out, Listed::All);
}

pub(super) fn system_table_blocks(system: &SystemCatalog<'_>, out: &mut Output) {
    table_blocks(system, out, Listed::System);
}

pub(super) fn user_table_blocks(system: &SystemCatalog<'_>, out: &mut Output) {
    table_blocks(system, out, Listed::User);
}

/// The indexes of tables. System relations have none.
pub(super) fn index_rows(system: &SystemCatalog<'_>, out: &mut Output) {
    for table in Listed::User.user(system) {
        for IndexOf { oid, name, .. } in indexes_of(table) {
            row!(
                out,
                relid = table.oid,
                indexrelid = oid,
                schemaname = &table.schema,
                relname = &table.name,
                indexrelname = name,
                idx_scan = 0_i64,
                idx_tup_read = 0_i64,
                idx_tup_fetch = 0_i64,
                idx_blks_read = 0_i64,
                idx_blks_hit = 0_i64,
            );
        }
    }
}

pub(super) fn sequence_blocks(system: &SystemCatalog<'_>, out: &mut Output) {
    for sequence in super::classes::sequences(system.objects()) {
        let mut cells = named(sequence.oid, &sequence.schema, &sequence.name);
        cells.extend(["blks_read", "blks_hit"].map(|name| (name, Value::Int8(0))));
        out.row(cells);
    }
}

/// The objects that databases share, which have no name, and the session's database.
pub(super) fn databases(system: &SystemCatalog<'_>, out: &mut Output) {
    let shared = system.session.shared();
    let statistics = shared.database.statistics();
    let sessions = system.session.sessions.list().len() as i32;
    let own = [statistics.committed, statistics.failed].map(|count| count as i64);
    let name = system.session.database.as_str();
    for (oid, name, sessions, [committed, failed]) in
        [(0, None, 0, [0, 0]), (DATABASE, Some(name), sessions, own)]
    {
        let mut cells = vec![
            ("datid", oid.value()),
            ("datname", name.value()),
            ("numbackends", sessions.value()),
            ("xact_commit", committed.value()),
            ("xact_rollback", failed.value()),
        ];
        let zeros = [
            "blks_read",
            "blks_hit",
            "tup_returned",
            "tup_fetched",
            "tup_inserted",
            "tup_updated",
            "tup_deleted",
            "conflicts",
            "temp_files",
            "temp_bytes",
            "deadlocks",
            "sessions",
            "sessions_abandoned",
            "sessions_fatal",
            "sessions_killed",
        ];
        cells.extend(zeros.map(|name| (name, Value::Int8(0))));
        let times =
            ["blk_read_time", "blk_write_time", "session_time", "active_time", "idle_in_transaction_time"];
        cells.extend(times.map(|name| (name, Value::Float8(0.0))));
        out.row(cells);
    }
}

/// The sessions of clients: none authenticates or encrypts by GSSAPI.
pub(super) fn gssapi(system: &SystemCatalog<'_>, out: &mut Output) {
    for activity in system.session.sessions.list() {
        row!(out, pid = activity.process_id(), gss_authenticated = false, encrypted = false);
    }
}

/// Nothing is archived.
pub(super) fn archiver(_: &SystemCatalog<'_>, out: &mut Output) {
    row!(out, archived_count = 0_i64, failed_count = 0_i64);
}

/// Checkpoints since the database was opened; there are no shared buffers.
pub(super) fn checkpointing(system: &SystemCatalog<'_>, out: &mut Output) {
    let status = system.session.shared().database.checkpoints();
    let zeros = [
        "buffers_checkpoint",
        "buffers_clean",
        "maxwritten_clean",
        "buffers_backend",
        "buffers_backend_fsync",
        "buffers_alloc",
    ];
    let mut cells: Vec<_> = zeros.map(|name| (name, Value::Int8(0))).into();
    cells.push(("checkpoints_req", (status.requested as i64).value()));
    cells.push(("checkpoints_timed", ((status.made - status.requested) as i64).value()));
    cells.push(("checkpoint_write_time", (status.time.as_secs_f64() * 1e3).value()));
    cells.push(("checkpoint_sync_time", 0.0_f64.value()));
    out.row(cells);
}

/// The log since the database was opened.
pub(super) fn log(system: &SystemCatalog<'_>, out: &mut Output) {
    let statistics = system.session.shared().database.statistics();
    row!(
        out,
        wal_records = statistics.log_transactions as i64,
        wal_fpi = 0_i64,
        wal_bytes = Value::Numeric(Numeric::from(statistics.log_bytes as i64)),
        wal_buffers_full = 0_i64,
        wal_write = statistics.log_groups as i64,
        wal_sync = statistics.log_flushes as i64,
        wal_write_time = 0.0_f64,
        wal_sync_time = 0.0_f64,
    );
}

/// Queries that a replay of another server's log has canceled: there is none.
pub(super) fn standby_conflicts(system: &SystemCatalog<'_>, out: &mut Output) {
    let counts = ["confl_tablespace", "confl_lock", "confl_snapshot", "confl_bufferpin", "confl_deadlock"];
    let mut cells: Vec<_> = counts.map(|name| (name, Value::Int8(0))).into();
    cells.extend([("datid", DATABASE.value()), ("datname", system.session.database.as_str().value())]);
    out.row(cells);
}
