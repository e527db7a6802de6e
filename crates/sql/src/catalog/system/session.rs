//! The relations of a session's objects and its connection: `pg_prepared_statements`, `pg_cursors`, `pg_stat_ssl`;
//! `pg_timezone_names`.
//!
//! # Invariants
//! - Statements and cursors are those of the session that asks, as in PostgreSQL.

use jiff::Timestamp;

use super::row::{Output, list, row};
use super::{OWNER, SystemCatalog};
use crate::types::interval::Interval;
use crate::types::{Type, Value};

pub(super) fn prepared_statements(system: &SystemCatalog<'_>, out: &mut Output) {
    for (name, prepared) in system.session.prepared.named() {
        row!(
            out,
            name = name,
            statement = prepared.declared_by.as_ref().unwrap_or(&prepared.text),
            prepare_time = Value::Timestamptz(prepared.prepared_at),
            parameter_types = list(Type::Regtype, prepared.parameter_types().iter().map(|ty| ty.oid())),
            from_sql = prepared.declared_by.is_some(),
            generic_plans = 0_i64,
            custom_plans = prepared.choice.custom_plans() as i64,
        );
    }
}

/// The cursors of DECLARE.
pub(super) fn cursors(system: &SystemCatalog<'_>, out: &mut Output) {
    for (name, cursor) in &system.session.cursors {
        row!(
            out,
            name = name,
            statement = &cursor.text,
            is_holdable = cursor.hold,
            is_binary = false,
            is_scrollable = cursor.scroll,
            creation_time = Value::Timestamptz(cursor.declared_at),
        );
    }
}

/// The sessions whose activity the user may see. Client certificates are not shown.
pub(super) fn encryption(system: &SystemCatalog<'_>, out: &mut Output) {
    let session = system.session;
    for activity in session.sessions.list() {
        if !session.sees_activity_of(session.oid_of(&activity.user).unwrap_or(OWNER)) {
            continue;
        }
        let encryption = activity.encryption();
        row!(
            out,
            pid = activity.process_id(),
            ssl = encryption.is_some(),
            version = encryption.map(|it| it.version),
            cipher = encryption.map(|it| &it.cipher),
            bits = encryption.map(|it| it.bits),
        );
    }
}

pub(super) fn time_zones(_: &SystemCatalog<'_>, out: &mut Output) {
    let (zones, now) = (jiff::tz::db(), Timestamp::now());
    for name in zones.available() {
        let Ok(zone) = zones.get(name.as_str()) else { continue };
        let offset = zone.to_offset_info(now);
        let micros = i64::from(offset.offset().seconds()) * 1_000_000;
        row!(
            out,
            name = name.as_str(),
            abbrev = offset.abbreviation(),
            utc_offset = Value::Interval(Interval { months: 0, days: 0, micros }),
            is_dst = offset.dst().is_dst(),
        );
    }
}
