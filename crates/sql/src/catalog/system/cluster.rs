//! What is outside of the database's objects: roles, databases, tablespaces, settings, sessions.
//!
//! The database knows one role, the session's, which owns everything.

use super::row::{Output, row};
use super::{DATABASE, OWNER, SystemCatalog};
use crate::types::Value;

/// The tablespace of everything.
const DEFAULT_TABLESPACE: u32 = 1663;
/// PostgreSQL's number of UTF-8.
pub(super) const UTF8: i32 = 6;

pub(super) fn roles(system: &SystemCatalog<'_>, out: &mut Output) {
    let superuser = system.session.settings.is_on("is_superuser");
    row!(
        out,
        oid = OWNER,
        rolname = &system.session.user,
        rolsuper = superuser,
        rolinherit = true,
        rolcreaterole = superuser,
        rolcreatedb = superuser,
        rolcanlogin = true,
        rolreplication = superuser,
        rolconnlimit = -1_i32,
        rolbypassrls = superuser,
    );
}

pub(super) fn users(system: &SystemCatalog<'_>, out: &mut Output) {
    let superuser = system.session.settings.is_on("is_superuser");
    row!(
        out,
        usename = &system.session.user,
        usesysid = OWNER,
        usecreatedb = superuser,
        usesuper = superuser,
        userepl = superuser,
        usebypassrls = superuser,
    );
}

pub(super) fn databases(system: &SystemCatalog<'_>, out: &mut Output) {
    row!(
        out,
        oid = DATABASE,
        datname = &system.session.database,
        datdba = OWNER,
        encoding = UTF8,
        datlocprovider = 'c',
        datallowconn = true,
        datconnlimit = -1_i32,
        dattablespace = DEFAULT_TABLESPACE,
        datcollate = system.session.settings.get("lc_collate").unwrap_or_default(),
        datctype = system.session.settings.get("lc_ctype").unwrap_or_default(),
    );
}

pub(super) fn tablespaces(_: &SystemCatalog<'_>, out: &mut Output) {
    for (oid, name) in [(DEFAULT_TABLESPACE, "pg_default"), (1664, "pg_global")] {
        row!(out, oid = oid, spcname = name, spcowner = OWNER);
    }
}

pub(super) fn settings(system: &SystemCatalog<'_>, out: &mut Output) {
    for (name, value) in system.session.settings.all() {
        let kind = match value.as_str() {
            "on" | "off" => "bool",
            text if text.parse::<i64>().is_ok() => "integer",
            _ => "string",
        };
        let category = if name.contains('.') { "Customized Options" } else { "Settings" };
        row!(
            out,
            name = &name,
            setting = &value,
            category = category,
            short_desc = "",
            context = "user",
            vartype = kind,
            source = "session",
            boot_val = Value::Null,
            reset_val = &value,
            pending_restart = false,
        );
    }
}

pub(super) fn activity(system: &SystemCatalog<'_>, out: &mut Output) {
    let session = system.session;
    let sees_all = session.sees_all();
    for activity in session.sessions.list() {
        let (query, application) = activity.texts();
        // Other users' statements are for superusers, as in PostgreSQL.
        let is_visible = sees_all || activity.user == session.user;
        let query = if is_visible { query.as_str() } else { "<insufficient privilege>" };
        row!(
            out,
            datid = DATABASE,
            datname = &activity.database,
            pid = activity.process_id(),
            usesysid = OWNER,
            usename = &activity.user,
            application_name = &application,
            backend_start = Value::Timestamptz(activity.started),
            query_start = Value::Timestamptz(activity.statement_start()),
            state_change = Value::Timestamptz(activity.state_change()),
            state = is_visible.then(|| activity.doing().name()),
            query = query,
            backend_type = "client backend",
        );
    }
}

/// Advisory locks, rows that sessions' transactions have reserved, and the right to change the schema, each with the
/// sessions that wait for it. Statements outside of blocks lock nothing that could be shown here.
pub(super) fn locks(system: &SystemCatalog<'_>, out: &mut Output) {
    let sessions = system.session.sessions.list();
    for (connection, (in_halves, key), is_exclusive) in system.session.advisory.held() {
        let process = sessions.iter().find(|it| it.number == connection).map(|it| it.process_id());
        row!(
            out,
            locktype = "advisory",
            database = DATABASE,
            classid = (key >> 32) as u32,
            objid = key as u32,
            objsubid = if in_halves { 2_i16 } else { 1_i16 },
            virtualtransaction = format!("{connection}/0"),
            pid = process,
            mode = if is_exclusive { "ExclusiveLock" } else { "ShareLock" },
            granted = true,
            fastpath = false,
        );
    }
    let process =
        |number: u64| sessions.iter().find(|it| it.engine_session == number).map(|it| it.process_id());
    for lock in system.session.shared().database.session_locks() {
        let (kind, relation) = match &lock.row {
            None => ("object", None),
            Some((table, _)) => ("tuple", system.objects().tables().find(|it| it.engine.name() == table)),
        };
        let holder = lock.holder.into_iter().map(|holder| (holder, true));
        for (session, granted) in holder.chain(lock.waiters.iter().map(|waiter| (*waiter, false))) {
            row!(
                out,
                locktype = kind,
                database = DATABASE,
                relation = relation.map(|table| table.oid),
                pid = process(session),
                mode = if lock.row.is_some() { "AccessExclusiveLock" } else { "ShareUpdateExclusiveLock" },
                granted = granted,
                fastpath = false,
            );
        }
    }
}
