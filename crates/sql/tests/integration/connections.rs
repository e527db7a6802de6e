//! Tests of connections through the public interface: what survives a restart, prepared statements and portals, COPY,
//! transactions of several connections, cancellation.

mod copy;
mod dependents;
mod early_commits;
mod exported_snapshots;
mod kept_settings;
mod temporary_objects;

use heddle_sql::{
    Connection, Environment, ResultSink, Sql, SqlError, SqlState, TransactionStatus, Type, Value,
};
use heddledb::{Database, Durability, Options};

fn in_memory() -> Sql {
    let database = Database::in_memory_with(Options::default().durability(Durability::None))
        .expect("a database in memory");
    Sql::new(&database).expect("SQL on an empty database")
}

fn connect(sql: &Sql) -> Connection {
    sql.connect(Default::default()).expect("a connection")
}

/// The rows of a text's last statement, columns between blanks.
fn rows(connection: &mut Connection, text: &str) -> Vec<String> {
    let results = connection.query(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let result = results.last().expect("a result");
    let rows = connection.text_rows(result).expect("values print");
    let shown = |row: Vec<Option<String>>| {
        row.into_iter().map(|value| value.unwrap_or("NULL".to_string())).collect::<Vec<_>>().join(" ")
    };
    rows.into_iter().map(shown).collect()
}

fn state(connection: &mut Connection, text: &str) -> SqlState {
    connection.query(text).expect_err(text).state()
}

#[test]
fn definitions_and_rows_survive_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("db");
    {
        let database = Database::open(&path, Options::default()).expect("a new database");
        let mut connection = connect(&Sql::new(&database).expect("SQL"));
        connection
            .query(
                "create type mood as enum ('sad', 'ok'); create domain positive as int check (value > 0);
                 create table t (id serial primary key, m mood, n positive default 3, twice int generated always as (n * 2) stored);
                 create index t_m on t (m); create view v as select id, twice from t; create schema s; create sequence s.q start 7;
                 insert into t (m) values ('ok'), ('sad'); select nextval('s.q')",
            )
            .expect("the definitions are right");
        drop(connection);
        database.close().expect("it closes");
    }
    let database = Database::open(&path, Options::default()).expect("the database opens again");
    let mut connection = connect(&Sql::new(&database).expect("SQL"));
    assert_eq!(rows(&mut connection, "select * from v order by id"), ["1 6", "2 6"]);
    assert_eq!(rows(&mut connection, "select m from t order by m"), ["sad", "ok"]);
    let next: i64 =
        rows(&mut connection, "insert into t (m) values ('ok') returning id")[0].parse().expect("a number");
    assert!(next > 2, "a value was given twice: {next}");
    let sequence: i64 = rows(&mut connection, "select nextval('s.q')")[0].parse().expect("a number");
    assert!(sequence > 7, "a value was given twice: {sequence}");
    assert_eq!(state(&mut connection, "insert into t (n) values (-1)"), SqlState::CHECK_VIOLATION);
    assert_eq!(state(&mut connection, "create table t (x int)"), SqlState::DUPLICATE_TABLE);
}

#[test]
fn a_renamed_schema_survives_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("db");
    let open = || Database::open(&path, Options::default()).expect("a database");
    let database = open();
    let mut connection = connect(&Sql::new(&database).expect("SQL"));
    connection
        .query(
            "create schema old; create type old.mood as enum ('sad', 'ok'); create table old.t (id int primary key, m old.mood);
             create function old.one() returns int language sql as 'select 1'; insert into old.t values (7, 'ok');
             set search_path to old; create view v as select * from t; alter schema old rename to new; create schema old",
        )
        .expect("the definitions are right");
    drop(connection);
    database.close().expect("it closes");
    let mut connection = connect(&Sql::new(&open()).expect("SQL"));
    assert_eq!(rows(&mut connection, "select t.id, v.m, new.one() from new.t, new.v"), ["7 ok 1"]);
    assert_eq!(rows(&mut connection, "select 'sad'::new.mood"), ["sad"]);
    assert_eq!(state(&mut connection, "select * from old.t"), SqlState::UNDEFINED_TABLE);
}

#[test]
fn tables_of_the_engine_are_tables_of_sql() {
    use heddledb::{DataType, TableDefinition, row};
    let database = Database::in_memory_with(Options::default().durability(Durability::None))
        .expect("a database in memory");
    let definition =
        TableDefinition::new("account").column("id", DataType::Int64).column("owner", DataType::Text);
    let table = database.create_table(definition.primary_key(["id"])).expect("a new table");
    database.run(|tx| tx.insert(&table, row![7, "ada"])).expect("a row");
    let mut connection = connect(&Sql::new(&database).expect("SQL"));
    assert_eq!(rows(&mut connection, "select owner from account where id = 7"), ["ada"]);
    connection.query("insert into account values (8, 'bob')").expect("another row");
    let found = database.run(|tx| tx.exists(&table, heddledb::key![8])).expect("a look");
    assert!(found);
}

/// Keeps rows as texts, and whether a portal was suspended.
#[derive(Default)]
struct Rows {
    rows: Vec<String>,
    tags: Vec<String>,
    suspended: bool,
}

impl ResultSink for Rows {
    fn row(&mut self, values: &[Value], _environment: &dyn Environment) -> Result<(), SqlError> {
        self.rows.push(format!("{values:?}"));
        Ok(())
    }

    fn complete(&mut self, tag: &str) -> Result<(), SqlError> {
        self.tags.push(tag.to_string());
        Ok(())
    }

    fn empty(&mut self) {
        self.tags.push("empty".to_string());
    }

    fn suspended(&mut self) {
        self.suspended = true;
    }
}

#[test]
fn portals_give_rows_in_portions() {
    let sql = in_memory();
    let mut connection = connect(&sql);
    connection
        .query("create table t (id int primary key); insert into t values (1), (2), (3)")
        .expect("a table");
    connection.query("begin").expect("a block");
    connection.prepare("s", "select id from t where id >= $1 order by id", &[0]).expect("it is right");
    let (types, fields) = connection.describe_statement("s").expect("it is there");
    assert_eq!(*types, [Type::Int4]);
    assert_eq!(fields.expect("columns")[0].name, "id");
    connection.bind("p", "s", vec![Value::Int4(1)]).expect("one parameter");
    let mut sink = Rows::default();
    connection.execute("p", 2, &mut sink).expect("two rows");
    assert!(sink.suspended && sink.rows.len() == 2 && sink.tags.is_empty());
    let mut sink = Rows::default();
    connection.execute("p", 0, &mut sink).expect("the rest");
    assert_eq!((sink.rows.len(), sink.tags), (1, vec!["SELECT 1".to_string()]));
    connection.query("commit").expect("the end");
    assert!(!connection.has_portal("p"), "portals end with their transaction");
    assert_eq!(
        connection.execute("p", 0, &mut Rows::default()).expect_err("it is gone").state().as_str(),
        "34000"
    );
}

#[test]
fn prepared_statements_follow_the_schema() {
    let sql = in_memory();
    let mut connection = connect(&sql);
    connection
        .query("create table t (id int primary key, v text); insert into t values (1, 'a')")
        .expect("a table");
    connection.prepare("named", "select id, v from t", &[]).expect("it is right");
    connection.prepare("all", "select * from t", &[]).expect("it is right");
    connect(&sql).query("alter table t add column w int").expect("another connection may");
    for (statement, changed) in [("named", false), ("all", true)] {
        connection.bind("", statement, Vec::new()).expect("no parameters");
        let done = connection.execute("", 0, &mut Rows::default());
        match done {
            Ok(()) => assert!(!changed, "{statement}"),
            Err(error) => {
                assert!(changed && error.state() == SqlState::FEATURE_NOT_SUPPORTED, "{statement}: {error}")
            }
        }
    }
    assert_eq!(connection.prepare("named", "select 1", &[]).expect_err("taken").state().as_str(), "42P05");
    assert_eq!(connection.bind("", "none", Vec::new()).expect_err("unknown").state().as_str(), "26000");
}

#[test]
fn failed_blocks_wait_for_their_end() {
    let sql = in_memory();
    let mut connection = connect(&sql);
    connection.query("create table t (id int primary key)").expect("a table");
    connection.query("begin; insert into t values (1)").expect("a block");
    assert_eq!(connection.status(), TransactionStatus::InTransaction);
    assert_eq!(state(&mut connection, "select 1 / 0"), SqlState::DIVISION_BY_ZERO);
    assert_eq!(connection.status(), TransactionStatus::Failed);
    assert_eq!(state(&mut connection, "select 1"), SqlState::IN_FAILED_SQL_TRANSACTION);
    let results = connection.query("commit").expect("the end is accepted");
    assert_eq!(results[0].tag, "ROLLBACK");
    assert_eq!(rows(&mut connection, "select count(*) from t"), ["0"]);
}

#[test]
fn several_statements_of_one_text_are_one_transaction() {
    let sql = in_memory();
    let mut connection = connect(&sql);
    connection.query("create table t (id int primary key)").expect("a table");
    assert_eq!(
        state(&mut connection, "insert into t values (1); insert into t values (1)"),
        SqlState::UNIQUE_VIOLATION
    );
    assert_eq!(rows(&mut connection, "select count(*) from t"), ["0"]);
    connection.query("insert into t values (1); insert into t values (2)").expect("both");
    assert_eq!(rows(&mut connection, "select count(*) from t"), ["2"]);
}

#[test]
fn write_skew_is_refused() {
    let sql = in_memory();
    let (mut one, mut two) = (connect(&sql), connect(&sql));
    one.query("create table duty (name text primary key, on_call bool); insert into duty values ('a', true), ('b', true)")
        .expect("a table");
    for (connection, name) in [(&mut one, "a"), (&mut two, "b")] {
        connection.query("begin").expect("a block");
        assert_eq!(rows(connection, "select count(*) from duty where on_call"), ["2"]);
        connection
            .query(&format!("update duty set on_call = false where name = '{name}'"))
            .expect("it is buffered");
    }
    one.query("commit").expect("the first commits");
    assert_eq!(state(&mut two, "commit"), SqlState::SERIALIZATION_FAILURE);
    assert_eq!(rows(&mut two, "select count(*) from duty where on_call"), ["1"]);
}

#[test]
fn a_hot_counter_loses_nothing() {
    let sql = in_memory();
    connect(&sql)
        .query("create table c (id int primary key, n bigint not null); insert into c values (1, 0)")
        .expect("a table");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut connection = connect(&sql);
                for _ in 0..250 {
                    connection.query("update c set n = n + 1 where id = 1").expect("it is retried");
                }
            });
        }
    });
    assert_eq!(rows(&mut connect(&sql), "select n from c"), ["1000"]);
}

#[test]
fn statements_can_be_canceled_and_time_out() {
    let sql = in_memory();
    let mut connection = connect(&sql);
    let endless = "select count(*) from generate_series(1, 100000) a, generate_series(1, 100000) b";
    connection.query("set statement_timeout = '50ms'").expect("a setting");
    assert_eq!(state(&mut connection, endless), SqlState::QUERY_CANCELED);
    connection.query("reset statement_timeout").expect("a setting");
    let canceller = connection.canceller();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The statement may not have begun when it is first canceled: it is canceled until it has ended.
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                canceller.cancel();
                std::thread::yield_now();
            }
        });
        assert_eq!(state(&mut connection, endless), SqlState::QUERY_CANCELED);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(rows(&mut connection, "select 1"), ["1"]);
}

#[test]
fn deep_statements_end_in_errors() {
    let sql = in_memory();
    let mut connection = connect(&sql);
    connection.query("create table t (id int primary key)").expect("a table");
    let deep = 100_000;
    for text in [
        format!("select {}1{}", "(".repeat(deep), ")".repeat(deep)),
        format!("select 1{}", " + 1".repeat(deep)),
        format!("select * from t{}", " cross join t".repeat(deep)),
    ] {
        assert_eq!(state(&mut connection, &text), SqlState::STATEMENT_TOO_COMPLEX);
    }
    let many = format!("select count(*) from t where id in (0{})", ", 1".repeat(100_000));
    assert_eq!(rows(&mut connection, &many), ["0"]);
    let nested = format!("select {}1{}", "(".repeat(100), " + 1)".repeat(100));
    assert_eq!(rows(&mut connection, &nested), ["101"]);
    let chain = format!("select 1{}", " + 1".repeat(600));
    assert_eq!(rows(&mut connection, &chain), ["601"]);
}

#[test]
fn a_transaction_that_waited_for_an_advisory_lock_sees_what_its_holder_committed() {
    for first in ["select 1", "select pg_try_advisory_xact_lock(9)", "select count(*) from pg_class"] {
        let sql = in_memory();
        let [mut one, mut two] = [connect(&sql), connect(&sql)];
        one.query("create table done (n int); select pg_advisory_lock(9)").expect("it is free");
        two.query("begin").expect("a block");
        two.query(first).expect("it reads no table");
        one.query("insert into done values (1); select pg_advisory_unlock(9)").expect("a row");
        assert_eq!(rows(&mut two, "select pg_try_advisory_xact_lock(9)"), ["t"]);
        assert_eq!(rows(&mut two, "select n from done"), ["1"], "after {first}");
        two.query("commit").expect("it has only read");
    }
}

#[test]
fn advisory_locks_are_held_by_sessions_and_transactions() {
    let sql = in_memory();
    let (mut one, mut two) = (connect(&sql), connect(&sql));
    one.query("select pg_advisory_lock(7)").expect("it is free");
    assert_eq!(rows(&mut two, "select pg_try_advisory_lock(7), pg_try_advisory_lock(0, 7)"), ["f t"]);
    two.query("set statement_timeout = '30ms'").expect("a setting");
    assert_eq!(state(&mut two, "select pg_advisory_lock(7)"), SqlState::QUERY_CANCELED);
    two.query("reset statement_timeout").expect("a setting");
    assert_eq!(rows(&mut one, "select pg_advisory_unlock(7), pg_advisory_unlock(7)"), ["t f"]);
    one.query("begin; select pg_advisory_xact_lock(8)").expect("it is free");
    assert_eq!(rows(&mut two, "select pg_try_advisory_lock(8)"), ["f"]);
    one.query("commit").expect("the end");
    assert_eq!(rows(&mut two, "select pg_try_advisory_lock(8)"), ["t"]);
    drop(two);
    assert_eq!(rows(&mut one, "select pg_try_advisory_lock(8)"), ["t"]);
    one.query("select pg_advisory_unlock_all()").expect("it always works");
}

#[test]
fn cursors_move_over_many_rows_in_both_directions() {
    let mut connection = connect(&in_memory());
    connection
        .query("begin; declare c scroll cursor for select n, 'row ' || n from generate_series(1, 5000) n")
        .expect("a cursor");
    for (fetch, expected) in [
        ("fetch 2 from c", &["1 row 1", "2 row 2"][..]),
        ("fetch absolute 4096 from c", &["4096 row 4096"]),
        ("fetch backward 2 from c", &["4095 row 4095", "4094 row 4094"]),
        ("fetch last from c", &["5000 row 5000"]),
        ("fetch next from c", &[]),
        ("fetch prior from c", &["5000 row 5000"]),
        ("fetch relative -1000 from c", &["4000 row 4000"]),
        ("fetch absolute -5000 from c", &["1 row 1"]),
        ("fetch backward all from c", &[]),
        ("fetch forward 1 from c", &["1 row 1"]),
    ] {
        assert_eq!(rows(&mut connection, fetch), expected, "{fetch}");
    }
    assert_eq!(connection.query("move forward all in c").expect("it moves")[0].tag, "MOVE 4999");
    assert_eq!(connection.query("move backward all in c").expect("it moves")[0].tag, "MOVE 5000");
}

#[test]
fn comparisons_of_long_arrays_end_with_the_statement_timeout() {
    let sql = in_memory();
    let mut connection = connect(&sql);
    let arrays = "create table arrays as select array(select generate_series(1, 300000)) as rising, \
                  array(select generate_series(300000, 1, -1)) as falling, \
                  array(select -n from generate_series(1, 300000) n) as negative";
    connection.query(arrays).expect("made");
    connection.query("set statement_timeout = '40ms'").expect("a setting");
    // At least 4 * 10^10 comparisons, which no machine makes before the timeout.
    for (name, text) in [
        ("contains", "select rising @> falling from arrays"),
        ("is contained", "select falling <@ rising from arrays"),
        ("overlaps", "select rising && negative from arrays"),
    ] {
        let error = connection.query(text).expect_err(name);
        assert_eq!(error.state().as_str(), "57014", "{name}");
    }
    connection.query("reset statement_timeout").expect("a setting");
    for (text, expected) in [
        ("select array[1, 2, 3] @> array[3, 1] and not array[1, 2] @> array[1, null]", "t"),
        ("select '{}'::int[] <@ '{1}' and not '{1}'::int[] <@ '{}'", "t"),
        ("select array[1, null] && array[2, null]", "f"),
        ("select array[1, 2] && array[5, 2]", "t"),
    ] {
        let results = connection.query(text).expect(text);
        let rows = connection.text_rows(&results[0]).expect("rows");
        assert_eq!(rows[0][0].as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn a_key_is_kept_for_views_in_schemas_that_the_owner_cannot_use() {
    let sql = in_memory();
    let mut connection = connect(&sql);
    let prepare = "create role holder; create schema hidden; grant create on schema public to holder;
        create table p (id int primary key, name text); alter table p owner to holder;
        grant select on p to public;
        create view hidden.grouped as select id, name from p group by id;
        set role holder";
    connection.query(prepare).expect("made");
    let drop = "alter table p drop constraint p_pkey";
    assert_eq!(state(&mut connection, drop), SqlState::DEPENDENT_OBJECTS_STILL_EXIST);
    connection.query("reset role; drop view hidden.grouped; set role holder").expect("dropped");
    connection.query(drop).expect("nothing needs it");
}

#[test]
fn the_database_has_a_size_under_each_of_its_names() {
    let sql = in_memory();
    sql.set_database_names(&["shop", "postgres"]);
    let mut connection = connect(&sql);
    let sizes = "select count(*) > 1, bool_and(pg_database_size(datname) >= 0) from pg_database";
    assert_eq!(rows(&mut connection, sizes), ["t t"]);
    assert_eq!(rows(&mut connection, "select count(*) from pg_database where datallowconn"), ["1"]);
    assert_eq!(state(&mut connection, "select pg_database_size('other')"), SqlState::INVALID_CATALOG_NAME);
    let spaces = "select pg_tablespace_size(oid) = 0 from pg_tablespace order by spcname";
    assert_eq!(rows(&mut connection, spaces), ["f", "t"]);
}

#[test]
fn settings_and_beginnings_are_named_as_in_postgresql() {
    let mut connection = connect(&in_memory());
    for (text, name) in [("show timezone", "TimeZone"), ("show DATESTYLE", "DateStyle"), ("show jit", "jit")]
    {
        let results = connection.query(text).expect(text);
        assert_eq!(results[0].fields.as_ref().expect("a column")[0].name, name);
        connection.prepare("s", text, &[]).expect(text);
        assert_eq!(connection.describe_statement("s").expect(text).1.expect("a column")[0].name, name);
        connection.query("deallocate s").expect("it is there");
    }
    for tag in ["BEGIN", "START TRANSACTION"] {
        assert_eq!(connection.query(tag).expect(tag)[0].tag, tag);
        connection.query("rollback").expect("a block");
    }
}
