//! Snapshots that one transaction exports and others import.

use heddle_sql::SqlState;

use super::{connect, in_memory, rows, state};

#[test]
fn an_exported_snapshot_is_read_by_other_transactions_as_long_as_its_own_is_open() {
    let sql = in_memory();
    let [mut first, mut second, mut writer] = [connect(&sql), connect(&sql), connect(&sql)];
    writer.query("create table t (a int primary key); insert into t values (1)").expect("made");
    first.query("begin isolation level repeatable read, read only").expect("begun");
    let id = rows(&mut first, "select pg_export_snapshot()").remove(0);
    writer.query("insert into t values (2)").expect("written");
    let import = format!("set transaction snapshot '{id}'");
    second.query("begin isolation level repeatable read").expect("begun");
    second.query(&import).expect("it is there");
    assert_eq!(rows(&mut second, "select a from t"), ["1"]);
    assert_eq!(rows(&mut first, "select a from t"), ["1"]);
    assert_eq!(state(&mut second, &import), SqlState::ACTIVE_SQL_TRANSACTION);
    second.query("rollback; begin isolation level repeatable read").expect("begun");
    second.query(&import).expect("it is there");
    first.query("commit").expect("committed");
    assert_eq!(rows(&mut second, "select a from t"), ["1"], "the importer keeps it");
    second.query("rollback; begin isolation level repeatable read").expect("begun");
    assert_eq!(state(&mut second, &import), SqlState::INVALID_PARAMETER_VALUE);
    second.query("rollback; begin isolation level read committed").expect("begun");
    assert_eq!(state(&mut second, &import), SqlState::FEATURE_NOT_SUPPORTED);
    second.query("rollback").expect("rolled back");
}

#[test]
fn a_serializable_importer_needs_an_exporter_of_its_modes() {
    let sql = in_memory();
    let [mut first, mut second] = [connect(&sql), connect(&sql)];
    let mut imported = |exporter: &str, importer: &str| {
        first.query(&format!("begin isolation level {exporter}")).expect("begun");
        let id = rows(&mut first, "select pg_export_snapshot()").remove(0);
        second.query(&format!("begin isolation level {importer}")).expect("begun");
        let done = second.query(&format!("set transaction snapshot '{id}'"));
        let done = done.map(drop).map_err(|error| error.state());
        first.query("rollback").expect("rolled back");
        second.query("rollback").expect("rolled back");
        done
    };
    let refused = Err(SqlState::FEATURE_NOT_SUPPORTED);
    assert_eq!(imported("repeatable read", "serializable"), refused);
    assert_eq!(imported("serializable read only", "serializable read write"), refused);
    assert_eq!(imported("serializable read only", "serializable read only"), Ok(()));
    assert_eq!(imported("serializable", "serializable"), Ok(()));
    assert_eq!(imported("repeatable read read only", "repeatable read"), Ok(()));
    second.query("create table t (a int); begin; select a from t").expect("read");
    assert_eq!(state(&mut second, "set transaction snapshot 'none'"), SqlState::ACTIVE_SQL_TRANSACTION);
}

#[test]
fn snapshots_are_neither_exported_nor_imported_within_savepoints() {
    let sql = in_memory();
    let [mut first, mut second] = [connect(&sql), connect(&sql)];
    first.query("begin isolation level repeatable read").expect("begun");
    let id = rows(&mut first, "select pg_export_snapshot()").remove(0);
    let import = format!("set transaction snapshot '{id}'");
    second.query("begin isolation level repeatable read; savepoint s").expect("begun");
    assert_eq!(state(&mut second, &import), SqlState::ACTIVE_SQL_TRANSACTION);
    second.query("rollback to s; release s").expect("it is there");
    second.query(&import).expect("no savepoint is open");
    first.query("savepoint s").expect("set");
    assert_eq!(state(&mut first, "select pg_export_snapshot()"), SqlState::ACTIVE_SQL_TRANSACTION);
    first.query("rollback to s; release s").expect("it is there");
    first.query("select pg_export_snapshot()").expect("no savepoint is open");
}

#[test]
fn snapshots_are_not_exported_beyond_their_transaction_or_after_a_write() {
    let sql = in_memory();
    let [mut first, mut second] = [connect(&sql), connect(&sql)];
    first.query("create table t (a int primary key)").expect("made");
    let alone = rows(&mut first, "select pg_export_snapshot()").remove(0);
    let import = |id: &str| format!("begin isolation level serializable; set transaction snapshot '{id}'");
    assert_eq!(state(&mut second, &import(&alone)), SqlState::INVALID_PARAMETER_VALUE, "it has ended");
    second.query("rollback").expect("rolled back");
    first.query("begin; insert into t values (1)").expect("written");
    assert_eq!(state(&mut first, "select pg_export_snapshot()"), SqlState::FEATURE_NOT_SUPPORTED);
    first.query("rollback; begin").expect("begun");
    let id = rows(&mut first, "select pg_export_snapshot()").remove(0);
    drop(first);
    assert_eq!(
        state(&mut second, &import(&id)),
        SqlState::INVALID_PARAMETER_VALUE,
        "its connection has ended"
    );
}
