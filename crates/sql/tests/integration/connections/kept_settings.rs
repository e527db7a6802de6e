//! Settings with which sessions begin: ALTER ROLE ALL, ALTER DATABASE and ALTER ROLE … SET.

use heddle_sql::{ConnectOptions, Connection, Sql, SqlState};
use heddledb::{Database, Options};

use super::{in_memory, rows, state};

fn connect(sql: &Sql, user: &str) -> Connection {
    let options =
        ConnectOptions { user: user.into(), is_superuser: user == "postgres", database: "shop".into() };
    sql.connect(options).expect("a connection")
}

/// The setting `work_mem` with which a session of this user begins.
fn begun(sql: &Sql, user: &str) -> String {
    rows(&mut connect(sql, user), "show work_mem").remove(0)
}

#[test]
fn a_role_comes_before_the_database_and_that_before_all_roles() {
    let sql = in_memory();
    let mut own = connect(&sql, "postgres");
    own.query("create role ada login; create role bob login").expect("roles");
    let default = begun(&sql, "ada");
    for (statement, ada, bob) in [
        ("alter role all set work_mem = '1MB'", "1MB", "1MB"),
        ("alter database shop set work_mem to '2MB'", "2MB", "2MB"),
        ("alter role ada set work_mem = '3MB'", "3MB", "2MB"),
        ("alter database shop reset work_mem", "3MB", "1MB"),
        ("alter role all in database shop set work_mem = '5MB'", "3MB", "5MB"),
        ("alter role ada reset all", "5MB", "5MB"),
        ("alter database shop reset all", "1MB", "1MB"),
        ("alter role all set work_mem to default", default.as_str(), default.as_str()),
    ] {
        own.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
        assert_eq!((begun(&sql, "ada").as_str(), begun(&sql, "bob").as_str()), (ada, bob), "{statement}");
    }
}

#[test]
fn they_are_shown_and_only_those_set_them_who_may() {
    let sql = in_memory();
    let mut own = connect(&sql, "postgres");
    own.query("create role ada login; alter role all set work_mem = '1MB'; alter database shop set datestyle = 'sql, dmy'")
        .expect("settings");
    let shown = rows(
        &mut own,
        "select setdatabase = 0, setrole, setconfig from pg_db_role_setting order by setdatabase, setrole",
    );
    assert_eq!(shown, ["t 0 {work_mem=1MB}", "f 0 {\"datestyle=sql, dmy\"}"]);
    let mut ada = connect(&sql, "ada");
    assert_eq!(state(&mut ada, "alter role all set work_mem = '9MB'"), SqlState::INSUFFICIENT_PRIVILEGE);
    assert_eq!(state(&mut ada, "alter database shop set work_mem = '9MB'"), SqlState::INSUFFICIENT_PRIVILEGE);
    assert_eq!(state(&mut own, "alter database other set work_mem = '9MB'"), SqlState::INVALID_CATALOG_NAME);
    assert_eq!(state(&mut own, "alter role all set nosuch = '9MB'"), SqlState::UNDEFINED_OBJECT);
}

#[test]
fn they_survive_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("db");
    {
        let database = Database::open(&path, Options::default()).expect("a new database");
        let sql = Sql::new(&database).expect("SQL");
        let mut own = connect(&sql, "postgres");
        own.query("create role ada login; alter role all set work_mem = '1MB'").expect("settings");
        drop(own);
        drop(sql);
        database.close().expect("it closes");
    }
    let database = Database::open(&path, Options::default()).expect("the database opens again");
    assert_eq!(begun(&Sql::new(&database).expect("SQL"), "ada"), "1MB");
}
