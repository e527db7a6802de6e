//! Roles over the wire: which of them may connect, and what they see of each other.

use crate::support::Running;
use postgres::error::SqlState;
use postgres::{Client, Config, NoTls};

/// A server with a superuser `root`, and what its statements say.
fn start(statements: &str) -> (Running, Client) {
    let running = Running::start();
    running.server.users().expect("a database is served").add("root", "root's", true).expect("a new user");
    let mut root = connect(&running, "root", "root's").expect("the right password");
    root.batch_execute(statements).expect("they are right");
    (running, root)
}

fn config(running: &Running, user: &str, password: &str) -> Config {
    let mut config = Config::new();
    config.host("127.0.0.1").port(running.port()).user(user).password(password).dbname("heddle");
    config
}

fn connect(running: &Running, user: &str, password: &str) -> Result<Client, postgres::Error> {
    config(running, user, password).connect(NoTls)
}

/// The SQLSTATE and the message by which a connection is refused.
fn refusal(running: &Running, user: &str, password: &str) -> (String, String) {
    let error = connect(running, user, password).map(drop).expect_err("it is refused");
    let error = error.as_db_error().expect("the server says why");
    (error.code().code().to_owned(), error.message().to_owned())
}

#[test]
fn a_role_connects_with_its_password_as_long_as_it_is_valid() {
    let (running, mut root) = start(
        "create role app login password 'one';
         create role expired login password 'one' valid until '2001-01-01';
         create role group_role password 'one';
         create role bare login;",
    );
    let mut app = connect(&running, "app", "one").expect("the right password");
    let user: String = app.query_one("select current_user::text", &[]).expect("a row").get(0);
    assert_eq!(user, "app");
    let failed =
        |user: &str| ("28P01".to_owned(), format!("password authentication failed for user \"{user}\""));
    assert_eq!(refusal(&running, "app", "two"), failed("app"));
    assert_eq!(refusal(&running, "expired", "one"), failed("expired"));
    assert_eq!(refusal(&running, "bare", ""), failed("bare"));
    assert_eq!(refusal(&running, "nobody", "one"), failed("nobody"));
    let not_permitted = ("28000".to_owned(), "role \"group_role\" is not permitted to log in".to_owned());
    assert_eq!(refusal(&running, "group_role", "one"), not_permitted);
    app.batch_execute("alter role app password 'two'").expect("one's own password");
    assert_eq!(refusal(&running, "app", "one"), failed("app"));
    drop(connect(&running, "app", "two").expect("the new password"));
    root.batch_execute("drop role app").expect("nothing depends on it");
    assert_eq!(refusal(&running, "app", "two"), failed("app"));
}

#[test]
fn a_connection_limit_and_a_revoked_connect_keep_roles_out() {
    let (running, mut root) = start("create role app login password 'x' connection limit 1;");
    let first = connect(&running, "app", "x").expect("the first");
    let refused = refusal(&running, "app", "x");
    assert_eq!(refused, ("53300".to_owned(), "too many connections for role \"app\"".to_owned()));
    drop(first);
    root.batch_execute("alter role app connection limit -1; revoke connect on database heddle from public")
        .expect("they are right");
    let refused = refusal(&running, "app", "x");
    assert_eq!(refused, ("42501".to_owned(), "permission denied for database".to_owned()));
    root.batch_execute("grant connect on database heddle to app").expect("it is right");
    drop(connect(&running, "app", "x").expect("it may connect again"));
}

#[test]
fn startup_parameters_make_no_superuser_and_take_roles_only_of_members() {
    let (running, _root) =
        start("create role grp; create role app login password 'x' in role grp; create role other;");
    let with = |options: &str| config(&running, "app", "x").options(options).connect(NoTls);
    let mut member = with("-c role=grp").expect("it is a member");
    let user: String = member.query_one("select current_user::text", &[]).expect("a row").get(0);
    assert_eq!(user, "grp");
    for options in ["-c role=other", "-c is_superuser=on", "-c session_authorization=root"] {
        assert!(with(options).is_err(), "{options}");
    }
}

#[test]
fn settings_of_a_role_are_those_of_its_sessions() {
    let (running, _root) = start(
        "create role app login password 'x';
         alter role app set statement_timeout = '5s';
         alter role app set search_path to private, public;",
    );
    let mut app = connect(&running, "app", "x").expect("the right password");
    let show = |app: &mut Client, name: &str| -> String {
        app.query_one(&format!("show {name}"), &[]).expect("a row").get(0)
    };
    assert_eq!(show(&mut app, "statement_timeout"), "5s");
    assert_eq!(show(&mut app, "search_path"), "private, public");
}

#[test]
fn statements_of_others_are_hidden_and_cannot_be_canceled() {
    let (running, mut root) = start("create role app login password 'x';");
    root.batch_execute("select 'a secret'").expect("it runs");
    let pid: i32 = root.query_one("select pg_backend_pid()", &[]).expect("a row").get(0);
    let mut app = connect(&running, "app", "x").expect("the right password");
    let query = "select query from pg_stat_activity where usename = 'root'";
    let seen: String = app.query_one(query, &[]).expect("a row").get(0);
    assert_eq!(seen, "<insufficient privilege>");
    let error = app.execute("select pg_cancel_backend($1)", &[&pid]).expect_err("it is a superuser's");
    assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE));
    root.batch_execute("grant pg_read_all_stats to app").expect("it is right");
    let seen: String = app.query_one(query, &[]).expect("a row").get(0);
    assert!(seen.contains("pg_read_all_stats"), "{seen}");
}

#[test]
fn a_superuser_that_was_added_owns_nothing_and_may_do_everything() {
    let (running, mut root) = start("create table t (a int); insert into t values (1)");
    let owner: String = root
        .query_one("select tableowner::text from pg_tables where tablename = 't'", &[])
        .expect("a row")
        .get(0);
    assert_eq!(owner, "root");
    let names = root.query("select datname::text from pg_database order by 1", &[]).expect("rows");
    let names: Vec<String> = names.iter().map(|row| row.get(0)).collect();
    assert_eq!(names, ["heddle", "postgres"]);
    let users = running.server.users().expect("a database is served");
    assert!(users.remove("root").is_err(), "it owns a table");
    assert!(users.add("heddle", "x", false).is_err(), "the bootstrap superuser is one");
    users.add("heddle", "x", true).expect("it gets its password");
    assert!(users.add("heddle", "y", true).is_err(), "it has one");
    let mut heddle = connect(&running, "heddle", "x").expect("the right password");
    heddle.batch_execute("drop owned by root").expect("it is a superuser");
    users.remove("root").expect("it owns nothing");
}

/// Tests the beginning of a script of pg_dumpall.
#[test]
fn a_superuser_that_creates_the_role_of_its_own_name_stays_one() {
    let running = Running::start();
    let mut trusted = config(&running, "postgres", "").connect(NoTls).expect("there are no users");
    let own = "select rolsuper, rolcanlogin from pg_roles where rolname = current_user";
    trusted.batch_execute("begin; create role postgres").expect("it is a superuser");
    let row = trusted.query_one(own, &[]).expect("one role of this name");
    assert_eq!((row.get(0), row.get(1)), (false, false), "the role is as it was written");
    trusted
        .batch_execute("create table made (a int); drop role postgres; rollback")
        .expect("it still is one");
    let script = "create role postgres; create role other;
         do $$ begin create table made (a int); end $$; reset role; set session authorization default;
         alter role postgres with superuser inherit createrole createdb login replication bypassrls;
         grant other to postgres granted by postgres";
    trusted.batch_execute(script).expect("it is a superuser");
    let row =
        trusted.query_one("select tableowner <> current_user from pg_tables where tablename = 'made'", &[]);
    assert!(row.expect("a table").get::<_, bool>(0), "the session is not the role");
    let mut other =
        config(&running, "postgres", "").dbname("template1").connect(NoTls).expect("a name of the database");
    let row =
        other.query_one("select rolsuper from pg_roles where rolname = current_user", &[]).expect("a row");
    assert!(row.get::<_, bool>(0));
    // The database is known by each of its names, as psql's `\l+` asks.
    other.batch_execute("alter database heddle owner to postgres").expect("a name of the database");
    let sizes = "select bool_and(has_database_privilege(datname, 'connect') and pg_database_size(datname) > 0) from pg_database";
    assert!(other.query_one(sizes, &[]).expect("a row").get::<_, bool>(0));
    let refused = other.batch_execute("alter database shop owner to postgres").expect_err("another name");
    assert_eq!(refused.code(), Some(&SqlState::INVALID_CATALOG_NAME));
}
