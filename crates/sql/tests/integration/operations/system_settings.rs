//! ALTER SYSTEM: the schedule, and settings that outlive the server's end.

use std::path::Path;

use heddle_sql::Sql;
use heddledb::{Database, Options, ProtocolKind, Range, ScheduleKind, ScheduleOptions, ValueRef, key};

use super::{admin, connect, open, rows};

const BOTH: &str = "SELECT current_setting('heddle.protocol'), current_setting('heddle.schedule')";

/// Opens the database in a directory, and says what is in force.
fn reopen(directory: &Path, options: Options) -> (Sql, [String; 2]) {
    let sql = Sql::new(&Database::open(directory, options).expect("it opens")).expect("definitions");
    let in_force = rows(&mut admin(&sql), BOTH).remove(0);
    (sql, in_force.try_into().expect("two values"))
}

fn close(sql: Sql) {
    let database = sql.database().clone();
    drop(sql);
    database.close().expect("it closes");
}

fn with_key() -> Options {
    Options::default().schedule_unless_saved(ScheduleOptions::from(ScheduleKind::Random).partition_key("id"))
}

#[test]
fn a_superuser_changes_the_schedule() {
    let sql = open(with_key());
    let (mut connection, mut other) = (admin(&sql), connect(&sql, "ada", false));
    for kind in ScheduleKind::ALL.iter().chain(ScheduleKind::ALL.iter().rev()) {
        connection.query(&format!("ALTER SYSTEM SET heddle.schedule = '{kind}'")).expect("it can be changed");
        assert_eq!(rows(&mut other, "SHOW heddle.schedule"), [[kind.name()]]);
        assert_eq!(sql.database().schedule_kind(), *kind);
    }
    let choices = "SELECT count(*) FROM heddle_choices WHERE what = 'schedule'";
    assert_eq!(rows(&mut connection, choices), [["4"]]);
    for (text, state) in [
        ("ALTER SYSTEM SET heddle.schedule = 'magic'", "22023"),
        ("SET heddle.schedule = 'predict'", "55P02"),
    ] {
        assert_eq!(connection.query(text).expect_err(text).state().as_str(), state, "{text}");
    }
    let denied =
        other.query("ALTER SYSTEM SET heddle.schedule = 'predict'").expect_err("ada is no superuser");
    assert_eq!(denied.state().as_str(), "42501");
    let keyless = open(Options::default());
    let refused =
        admin(&keyless).query("ALTER SYSTEM SET heddle.schedule = 'partition'").expect_err("no key");
    assert_eq!(refused.state().as_str(), "22023");
    assert!(refused.to_string().contains("partition key"), "{refused}");
}

#[test]
fn settings_of_the_system_are_in_force_again_when_the_database_is_opened_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let open = |options| reopen(directory.path(), options);
    let (sql, in_force) = open(Options::default());
    assert_eq!(in_force, ["auto", "random"]);
    let mut connection = admin(&sql);
    connection.query("ALTER SYSTEM SET heddle.protocol = 'locking'").expect("it can be changed");
    connection.query("ALTER SYSTEM SET heddle.schedule = 'Predict'").expect("it can be changed");
    drop(connection);
    close(sql);
    let (sql, in_force) = open(Options::default());
    assert_eq!(in_force, ["locking", "predict"]);
    close(sql);
    let (sql, in_force) = open(Options::default().protocol(ProtocolKind::Serial));
    assert_eq!(in_force, ["serial", "predict"], "what is given comes first");
    let mut connection = admin(&sql);
    connection.query("ALTER SYSTEM SET heddle.protocol = 'phased'").expect("it can be changed");
    assert_eq!(connection.take_notices().len(), 1, "it will not come first at the next start");
    assert_eq!(rows(&mut connection, "SHOW heddle.protocol"), [["phased"]]);
    drop(connection);
    close(sql);
    let (sql, in_force) = open(Options::default().protocol_unless_saved(ProtocolKind::Serial));
    assert_eq!(in_force, ["phased", "predict"]);
    let mut connection = admin(&sql);
    connection.query("ALTER SYSTEM RESET heddle.protocol").expect("it can be reset");
    assert_eq!(rows(&mut connection, BOTH), [["serial", "predict"]]);
    drop(connection);
    close(sql);
    let (sql, in_force) = open(Options::default());
    assert_eq!(in_force, ["auto", "predict"]);
    admin(&sql).query("ALTER SYSTEM RESET ALL").expect("they can be reset");
    close(sql);
    assert_eq!(open(Options::default()).1, ["auto", "random"]);
}

#[test]
fn a_saved_setting_that_cannot_be_in_force_is_reported_and_stays() {
    let directory = tempfile::tempdir().expect("a directory");
    let (sql, _) = reopen(directory.path(), with_key());
    let mut connection = admin(&sql);
    connection.query("ALTER SYSTEM SET heddle.schedule = 'partition'").expect("it can be changed");
    connection.query("ALTER SYSTEM SET heddle.protocol = 'serial'").expect("it can be changed");
    drop(connection);
    close(sql);
    let (sql, in_force) = reopen(directory.path(), Options::default());
    assert_eq!(in_force, ["serial", "random"], "one does not keep the other from being in force");
    let ignored = sql.ignored_settings();
    assert_eq!(ignored.len(), 1, "{ignored:?}");
    for word in ["heddle.schedule", "partition key", "ALTER SYSTEM RESET"] {
        assert!(ignored[0].contains(word), "{ignored:?}");
    }
    close(sql);
    let (sql, in_force) = reopen(directory.path(), with_key());
    assert_eq!((in_force, sql.ignored_settings().len()), (["serial", "partition"].map(String::from), 0));
    rename_saved(sql.database(), "heddle.schedule", "heddle.magic");
    close(sql);
    let (sql, in_force) = reopen(directory.path(), with_key());
    assert_eq!(in_force, ["serial", "random"]);
    assert!(sql.ignored_settings()[0].contains("heddle.magic"), "{:?}", sql.ignored_settings());
    admin(&sql).query("ALTER SYSTEM RESET heddle.magic").expect("what is saved can be reset");
    admin(&sql).query("ALTER SYSTEM RESET heddle.magic").expect_err("it is no longer");
    close(sql);
    assert_eq!(reopen(directory.path(), with_key()).0.ignored_settings().len(), 0);
}

/// Gives a saved setting another name, as a version of the system that knows it would have saved it.
fn rename_saved(database: &Database, from: &str, to: &str) {
    let definitions = database.table("sql.object").expect("the definitions");
    let renamed = database.run(|tx| {
        let mut rows = Vec::new();
        for row in tx.scan(&definitions, Range::all())? {
            let row = row?;
            if let ValueRef::Text(text) = row.get("definition")?
                && text.contains(from)
            {
                rows.push((row.int("oid")?, text.replace(from, to)));
            }
        }
        for (oid, text) in &rows {
            tx.update(&definitions, key![*oid], &[("definition", ValueRef::Text(text))])?;
        }
        Ok(rows.len())
    });
    assert_eq!(renamed, Ok(1));
}
