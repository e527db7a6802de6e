//! The relations of things outside of the database's objects: roles, databases, tablespaces, settings, sessions.

use super::monitoring::wait_events;
use super::privileges::{acl_of, acl_value};
use super::row::{Output, list, row};
use super::{DATABASE, OWNER, SystemCatalog};
use crate::catalog::role::Role;
use crate::session::sessions::Doing;
use crate::types::{Type, Value};

/// The oids of the database under names other than the session's.
const OTHER_NAMES: u32 = 16_000;
/// The tablespace of everything.
pub(super) const DEFAULT_TABLESPACE: u32 = 1663;
/// PostgreSQL's number of UTF-8.
pub(super) const UTF8: i32 = 6;

fn valid_until(role: &Role) -> Value {
    role.valid_until.map_or(Value::Null, Value::Timestamptz)
}

fn configuration(settings: &[(String, String)]) -> Value {
    if settings.is_empty() {
        return Value::Null;
    }
    list(Type::Text, settings.iter().map(|(name, value)| format!("{name}={value}")))
}

/// `pg_roles`, which shows no password, and `pg_authid`, which only superusers may read.
pub(super) fn roles(system: &SystemCatalog<'_>, out: &mut Output) {
    role_rows(system, out, |_| Value::text("********"));
}

pub(super) fn authorizations(system: &SystemCatalog<'_>, out: &mut Output) {
    role_rows(system, out, |role| role.verifier.as_deref().map_or(Value::Null, Value::text));
}

fn role_rows(system: &SystemCatalog<'_>, out: &mut Output, password: fn(&Role) -> Value) {
    for role in system.objects().roles() {
        row!(
            out,
            oid = role.oid,
            rolname = system.session.role_name(role.oid),
            rolsuper = role.superuser,
            rolinherit = role.inherit,
            rolcreaterole = role.create_role,
            rolcreatedb = role.create_db,
            rolcanlogin = role.login,
            rolreplication = role.replication,
            rolconnlimit = role.connection_limit,
            rolpassword = password(role),
            rolvaliduntil = valid_until(role),
            rolbypassrls = role.bypass_rls,
            rolconfig = configuration(&role.settings),
        );
    }
}

/// `pg_user`, which shows no password, and `pg_shadow`, which only superusers may read.
pub(super) fn users(system: &SystemCatalog<'_>, out: &mut Output) {
    user_rows(system, out, |_| Value::text("********"));
}

pub(super) fn shadow(system: &SystemCatalog<'_>, out: &mut Output) {
    user_rows(system, out, |role| role.verifier.as_deref().map_or(Value::Null, Value::text));
}

fn user_rows(system: &SystemCatalog<'_>, out: &mut Output, password: fn(&Role) -> Value) {
    for role in system.objects().roles().into_iter().filter(|role| role.login) {
        row!(
            out,
            usename = system.session.role_name(role.oid),
            usesysid = role.oid,
            usecreatedb = role.create_db,
            usesuper = role.superuser,
            userepl = role.replication,
            usebypassrls = role.bypass_rls,
            passwd = password(role),
            valuntil = valid_until(role),
            useconfig = configuration(&role.settings),
        );
    }
}

pub(super) fn groups(system: &SystemCatalog<'_>, out: &mut Output) {
    let roles = system.objects().roles();
    for group in roles.iter().filter(|role| !role.login) {
        let is_member = |role: &&&std::sync::Arc<Role>| {
            role.memberships.iter().any(|membership| membership.role == group.oid)
        };
        let members = list(Type::Oid, roles.iter().filter(is_member).map(|role| role.oid));
        row!(out, groname = &group.name, grosysid = group.oid, grolist = members);
    }
}

pub(super) fn memberships(system: &SystemCatalog<'_>, out: &mut Output) {
    for role in system.objects().roles() {
        for membership in &role.memberships {
            row!(
                out,
                roleid = membership.role,
                member = role.oid,
                grantor = membership.grantor,
                admin_option = membership.admin,
            );
        }
    }
}

pub(super) fn role_settings(system: &SystemCatalog<'_>, out: &mut Output) {
    let database = &system.objects().database;
    for (of, settings) in [(0, &database.settings_of_all), (DATABASE, &database.settings)] {
        if !settings.is_empty() {
            row!(out, setdatabase = of, setrole = 0_u32, setconfig = configuration(settings));
        }
    }
    for role in system.objects().roles().into_iter().filter(|role| !role.settings.is_empty()) {
        row!(out, setdatabase = 0_u32, setrole = role.oid, setconfig = configuration(&role.settings));
    }
}

pub(super) fn default_acls(system: &SystemCatalog<'_>, out: &mut Output) {
    for entry in system.objects().default_acls() {
        row!(
            out,
            oid = entry.oid,
            defaclrole = entry.role,
            defaclnamespace = entry.schema.unwrap_or(0),
            defaclobjtype = match entry.kind.letter() {
                's' => 'S',
                letter => letter,
            },
            defaclacl = acl_value(system, &entry.acl),
        );
    }
}

/// The one database, under each of its names.
pub(super) fn databases(system: &SystemCatalog<'_>, out: &mut Output) {
    let own = &system.session.database;
    database(system, out, DATABASE, own);
    let others = system.session.shared().database_names();
    for (number, name) in others.iter().filter(|name| *name != own).enumerate() {
        database(system, out, OTHER_NAMES + number as u32, name);
    }
}

fn database(system: &SystemCatalog<'_>, out: &mut Output, oid: u32, name: &str) {
    row!(
        out,
        oid = oid,
        datname = name,
        datdba = system.objects().database.rights.owner,
        encoding = UTF8,
        datlocprovider = 'c',
        // Programs that dump or maintain all databases do so once.
        datallowconn = oid == DATABASE,
        datconnlimit = -1_i32,
        dattablespace = DEFAULT_TABLESPACE,
        datcollate = system.session.settings.get("lc_collate").unwrap_or_default(),
        datctype = system.session.settings.get("lc_ctype").unwrap_or_default(),
        datacl = acl_of(system, &system.objects().database.rights),
    );
}

pub(super) fn tablespaces(_: &SystemCatalog<'_>, out: &mut Output) {
    for (oid, name) in [(DEFAULT_TABLESPACE, "pg_default"), (1664, "pg_global")] {
        row!(out, oid = oid, spcname = name, spcowner = OWNER);
    }
}

pub(super) fn settings(system: &SystemCatalog<'_>, out: &mut Output) {
    for setting in system.session.settings.described(system.session.all_settings()) {
        let words = setting.words.map(|words| list(Type::Text, words.iter().copied()));
        let is_default = setting.boot_value.as_deref() == Some(setting.value.as_str());
        row!(
            out,
            name = setting.name,
            setting = setting.value,
            unit = setting.unit,
            category = if setting.vartype.is_some() { "Settings" } else { "Customized Options" },
            short_desc = "",
            context = if setting.is_fixed { "internal" } else { "user" },
            vartype = setting.vartype.unwrap_or("string"),
            source = if is_default { "default" } else { "session" },
            min_val = setting.least,
            max_val = setting.most,
            enumvals = words,
            boot_val = setting.boot_value,
            reset_val = setting.reset_value,
            pending_restart = false,
        );
    }
}

pub(super) fn activity(system: &SystemCatalog<'_>, out: &mut Output) {
    let session = system.session;
    let waits = wait_events(system);
    for activity in session.sessions.list() {
        let (query, application) = activity.texts();
        let user = session.oid_of(&activity.user).unwrap_or(OWNER);
        let is_visible = session.sees_activity_of(user);
        let query = if is_visible { query.as_str() } else { "<insufficient privilege>" };
        let lock = waits.iter().find(|(process, _)| *process == activity.process_id());
        let wait = match (lock, activity.doing()) {
            (Some((_, event)), Doing::Running) => Some(("Lock", *event)),
            (_, Doing::Resting(_)) => Some(("Client", "ClientRead")),
            (None, Doing::Running) => None,
        };
        row!(
            out,
            datid = DATABASE,
            datname = &activity.database,
            pid = activity.process_id(),
            usesysid = user,
            usename = &activity.user,
            application_name = &application,
            backend_start = is_visible.then_some(Value::Timestamptz(activity.started)),
            query_start = is_visible.then_some(Value::Timestamptz(activity.statement_start())),
            state_change = is_visible.then_some(Value::Timestamptz(activity.state_change())),
            wait_event_type = wait.filter(|_| is_visible).map(|(kind, _)| kind),
            wait_event = wait.filter(|_| is_visible).map(|(_, event)| event),
            state = is_visible.then(|| activity.doing().name()),
            query = query,
            backend_type = is_visible.then_some("client backend"),
        );
    }
}

/// Advisory locks, rows that sessions' transactions have reserved, and the right to change the schema, each with the
/// sessions that wait for it. Statements outside of blocks lock nothing that could be shown here.
pub(super) fn locks(system: &SystemCatalog<'_>, out: &mut Output) {
    let sessions = system.session.sessions.list();
    let advisory = &system.session.advisory;
    let held = advisory.held().into_iter().map(|held| (held, true));
    let waiting = advisory.waiting().into_iter();
    let waiting = waiting.map(|(connection, lock, _)| ((connection, lock.key, lock.exclusive), false));
    for ((connection, (in_halves, key), is_exclusive), granted) in held.chain(waiting) {
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
            granted = granted,
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
