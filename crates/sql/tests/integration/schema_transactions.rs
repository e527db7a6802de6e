//! Schema changes inside transactions: invisible to other connections until COMMIT, undone by ROLLBACK and ROLLBACK TO
//! SAVEPOINT, durable together with rows; under every protocol.

mod definitions;
mod interleavings;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use heddle_sql::{Connection, Sql, SqlError, SqlState};
use heddledb::testing::SimulatedDisk;
use heddledb::{Database, Durability, Options, ProtocolKind, TableChange};

fn in_memory(protocol: ProtocolKind) -> Sql {
    let options = Options::default().durability(Durability::None).protocol(protocol);
    Sql::new(&Database::in_memory_with(options).expect("a database in memory"))
        .expect("SQL on an empty database")
}

fn on_disk(disk: &SimulatedDisk) -> Sql {
    let options = Options::default().disk(Arc::new(disk.clone()));
    Sql::new(&Database::open("/db", options).expect("it opens")).expect("definitions are whole")
}

fn connect(sql: &Sql) -> Connection {
    sql.connect(Default::default()).expect("a connection")
}

fn run(connection: &mut Connection, text: &str) {
    connection.query(text).unwrap_or_else(|error| panic!("{text}: {error}"));
}

/// The rows of a text's last statement, columns between blanks.
fn rows(connection: &mut Connection, text: &str) -> Vec<String> {
    let results = connection.query(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let rows = connection.text_rows(results.last().expect("a result")).expect("values print");
    let shown = |row: Vec<Option<String>>| {
        row.into_iter().map(|value| value.unwrap_or("NULL".to_string())).collect::<Vec<_>>().join(" ")
    };
    rows.into_iter().map(shown).collect()
}

fn state(connection: &mut Connection, text: &str) -> SqlState {
    connection.query(text).expect_err(text).state()
}

/// The relations, types and schemas that a connection sees.
fn objects(connection: &mut Connection) -> Vec<String> {
    rows(
        connection,
        "select relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
             where nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
         union all select typname from pg_type t join pg_namespace n on n.oid = t.typnamespace
             where nspname = 'public' and typtype in ('e', 'd')
         union all select nspname from pg_namespace where nspname = 'side' order by 1",
    )
}

/// Statements that create the state before the migration.
const BEFORE: &str = "
    create table author (id int primary key, name text not null);
    create table book (id serial primary key, title text, price int);
    create table old (a int);
    create table log (id int primary key);
    create view titles as select title from book;
    insert into author select n, 'author ' || n from generate_series(1, 5) n;
    insert into book (title, price) select 'book ' || n, n * 10 from generate_series(1, 10) n;
    insert into old values (1), (2);
    insert into log values (1), (2), (3)";

/// A migration as Django, Alembic and pg_restore make it: everything in one transaction.
const MIGRATION: &[&str] = &[
    "create schema side",
    "create type mood as enum ('sad', 'ok')",
    "create domain positive as int check (value > 0)",
    "create sequence side.numbers start 100",
    "create table side.review (id serial primary key, book int, mood mood default 'ok', stars positive)",
    "insert into side.review (book, stars) values (1, 5), (2, 4), (3, 3)",
    "alter table side.review add column number int default nextval('side.numbers')",
    "alter table side.review add constraint review_book foreign key (book) references book (id)",
    "alter table side.review add constraint review_stars check (stars <= 5)",
    "create index review_by_book on side.review (book)",
    "alter table book add column author int default 1",
    "update book set author = 2 where id > 5",
    "alter table book add constraint book_author foreign key (author) references author (id)",
    "create index book_by_author on book (author)",
    "create unique index book_title on book (title)",
    "alter table author alter column name drop not null",
    "alter table author rename column name to full_name",
    "insert into author values (6, null)",
    "drop view titles",
    "create view titles as select title, full_name from book join author on author.id = book.author",
    "drop table old",
    "truncate log",
    "insert into log values (9)",
    "alter table log rename to journal",
    "comment on table journal is 'what happened'",
];

const OBJECTS_BEFORE: &[&str] =
    &["author", "author_pkey", "book", "book_id_seq", "book_pkey", "log", "log_pkey", "old", "titles"];

fn migrate(connection: &mut Connection) {
    MIGRATION.iter().for_each(|statement| run(connection, statement));
}

/// Checks that everything is as it was before the migration.
fn is_old(connection: &mut Connection) {
    assert_eq!(objects(connection), OBJECTS_BEFORE);
    assert_eq!(rows(connection, "select count(*), sum(price) from book"), ["10 550"]);
    assert_eq!(rows(connection, "select * from old order by a"), ["1", "2"]);
    assert_eq!(rows(connection, "select id from log order by id"), ["1", "2", "3"]);
    assert_eq!(rows(connection, "select count(name) from author"), ["5"]);
}

/// Checks that everything is as the migration has made it.
fn is_new(connection: &mut Connection) {
    assert_eq!(
        rows(connection, "select book, mood, stars, number >= 100 from side.review order by id"),
        ["1 ok 5 true", "2 ok 4 true", "3 ok 3 true"].map(|row| row.replace("true", "t"))
    );
    assert_eq!(
        rows(connection, "select id from book where author = 2 order by id"),
        ["6", "7", "8", "9", "10"]
    );
    assert_eq!(rows(connection, "select id from book where title = 'book 3'"), ["3"]);
    assert_eq!(rows(connection, "select count(*), count(full_name) from author"), ["6 5"]);
    assert_eq!(rows(connection, "select count(*) from titles where full_name = 'author 2'"), ["5"]);
    assert_eq!(
        rows(connection, "select id, obj_description('journal'::regclass) from journal"),
        ["9 what happened"]
    );
    assert_eq!(state(connection, "select 1 from old"), SqlState::UNDEFINED_TABLE);
    assert_eq!(state(connection, "insert into book (title) values ('book 3')"), SqlState::UNIQUE_VIOLATION);
    let refused = "insert into side.review (book, stars) values (99, 1)";
    assert_eq!(state(connection, refused), SqlState::FOREIGN_KEY_VIOLATION);
    let refused = "insert into side.review (book, stars) values (1, 6)";
    assert_eq!(state(connection, refused), SqlState::CHECK_VIOLATION);
}

#[test]
fn a_migration_is_invisible_until_commit_and_whole_after_it() {
    for &protocol in ProtocolKind::ALL {
        let sql = in_memory(protocol);
        let (mut own, mut other) = (connect(&sql), connect(&sql));
        run(&mut own, BEFORE);
        run(&mut own, "begin");
        for statement in MIGRATION {
            run(&mut own, statement);
            assert_eq!(objects(&mut other), OBJECTS_BEFORE, "{protocol}: {statement}");
        }
        is_old(&mut other);
        run(&mut other, "insert into old values (3); delete from old where a = 3");
        assert_eq!(rows(&mut own, "select count(*) from book where author = 2"), ["5"]);
        run(&mut own, "commit");
        is_new(&mut other);
        is_new(&mut own);
    }
}

#[test]
fn a_rollback_leaves_nothing_and_the_migration_can_run_again() {
    for &protocol in ProtocolKind::ALL {
        let sql = in_memory(protocol);
        let (mut own, mut other) = (connect(&sql), connect(&sql));
        run(&mut own, BEFORE);
        for end in ["rollback", "select 1 / 0", "commit"] {
            run(&mut own, "begin");
            migrate(&mut own);
            if end == "select 1 / 0" {
                assert_eq!(state(&mut own, end), SqlState::DIVISION_BY_ZERO);
                run(&mut own, "rollback");
            } else {
                run(&mut own, end);
            }
            for connection in [&mut own, &mut other] {
                if end == "commit" { is_new(connection) } else { is_old(connection) }
            }
        }
    }
}

#[test]
fn a_savepoint_takes_schema_changes_back() {
    for &protocol in ProtocolKind::ALL {
        let sql = in_memory(protocol);
        let mut own = connect(&sql);
        run(&mut own, "create table t (id int primary key, a int); insert into t values (1, 10), (2, 20)");
        run(&mut own, "begin; create table u (id int primary key); insert into u values (1); savepoint s");
        run(
            &mut own,
            "alter table t add column b int default 7; insert into t values (3, 30, 8); drop table u",
        );
        assert_eq!(rows(&mut own, "select * from t order by id"), ["1 10 7", "2 20 7", "3 30 8"]);
        assert_eq!(state(&mut own, "select * from u"), SqlState::UNDEFINED_TABLE);
        run(&mut own, "rollback to savepoint s");
        assert_eq!(rows(&mut own, "select * from t order by id"), ["1 10", "2 20"]);
        run(
            &mut own,
            "insert into u values (2); alter table t rename column a to c; release savepoint s; commit",
        );
        assert_eq!(rows(&mut own, "select id, c from t order by id"), ["1 10", "2 20"]);
        assert_eq!(rows(&mut own, "select id from u order by id"), ["1", "2"]);
    }
}

#[test]
fn the_statements_of_one_text_are_one_transaction() {
    let sql = in_memory(ProtocolKind::default());
    let (mut own, mut other) = (connect(&sql), connect(&sql));
    let text = "create table t (a int); insert into t values (1); create index t_a on t (a); select 1 / 0";
    assert_eq!(state(&mut own, text), SqlState::DIVISION_BY_ZERO);
    assert_eq!(objects(&mut other), [""; 0]);
    run(&mut own, "create table t (a int); insert into t values (1); create index t_a on t (a)");
    assert_eq!(rows(&mut other, "select a from t where a = 1"), ["1"]);
}

#[test]
fn an_index_that_the_commit_fills_is_not_read_before() {
    let sql = in_memory(ProtocolKind::default());
    let mut own = connect(&sql);
    run(
        &mut own,
        "create table t (id int primary key, a int); insert into t select n, n from generate_series(1, 50) n",
    );
    run(&mut own, "begin; create unique index t_a on t (a)");
    assert_eq!(rows(&mut own, "select id from t where a = 7"), ["7"]);
    run(&mut own, "insert into t values (100, 7) on conflict (a) do update set a = 1000");
    assert_eq!(rows(&mut own, "select id from t where a = 1000"), ["7"]);
    run(&mut own, "commit");
    assert_eq!(rows(&mut own, "select id from t where a = 1000"), ["7"]);
    assert_eq!(state(&mut own, "insert into t values (101, 1000)"), SqlState::UNIQUE_VIOLATION);
    run(&mut own, "begin; drop index t_a; insert into t values (101, 1000)");
    assert_eq!(state(&mut own, "create unique index t_a on t (a)"), SqlState::UNIQUE_VIOLATION);
    run(&mut own, "rollback");
    assert_eq!(rows(&mut own, "select count(*) from t where a = 1000"), ["1"]);
}

#[test]
fn schema_changes_of_two_connections_come_one_after_another() {
    let sql = in_memory(ProtocolKind::default());
    let (mut first, mut second) = (connect(&sql), connect(&sql));
    run(&mut first, "begin; create table t (a int)");
    run(&mut second, "set lock_timeout = '10ms'");
    assert_eq!(state(&mut second, "create table u (a int)"), SqlState::LOCK_NOT_AVAILABLE);
    run(&mut second, "set lock_timeout = 0");
    thread::scope(|scope| {
        let waits = scope.spawn(move || state(&mut second, "create table t (a int)"));
        run(&mut first, "commit");
        assert_eq!(waits.join().expect("no panic"), SqlState::DUPLICATE_TABLE);
    });
}

#[test]
fn sequences_of_a_transaction_that_was_rolled_back_start_again() {
    let sql = in_memory(ProtocolKind::default());
    let mut own = connect(&sql);
    run(&mut own, "create sequence kept; select nextval('kept')");
    run(&mut own, "begin; create sequence s; alter sequence kept restart with 50; drop table if exists t");
    assert_eq!(rows(&mut own, "select nextval('s'), nextval('s')"), ["1 2"]);
    run(&mut own, "rollback; create sequence s");
    assert_eq!(rows(&mut own, "select nextval('s'), nextval('kept')"), ["1 2"]);
    run(&mut own, "begin; alter sequence kept restart with 50; commit");
    assert_eq!(rows(&mut own, "select nextval('kept')"), ["50"]);
    run(&mut own, "begin; drop sequence kept; rollback");
    assert_eq!(rows(&mut own, "select nextval('kept')"), ["51"]);
}

#[test]
fn changes_through_the_engine_are_followed() {
    let sql = in_memory(ProtocolKind::default());
    let mut own = connect(&sql);
    run(&mut own, "create table t (id int primary key, a int); insert into t values (1, 10)");
    assert_eq!(rows(&mut own, "select id from t where a = 10"), ["1"]);
    let change = TableChange::new().add_index("t_by_a", ["a"]);
    sql.database().change_table("t", change).expect("an index is added");
    assert_eq!(rows(&mut own, "select id from t where a = 10"), ["1"]);
    run(&mut own, "insert into t values (2, 20)");
    sql.database().drop_table("t").expect("dropped");
    assert_eq!(state(&mut own, "select id from t where a = 10"), SqlState::UNDEFINED_TABLE);
}

#[test]
fn temporary_tables_belong_to_their_transaction_and_their_session() {
    let sql = in_memory(ProtocolKind::default());
    let (mut own, mut other) = (connect(&sql), connect(&sql));
    run(&mut own, "begin; create temporary table t (a int); insert into t values (1); rollback");
    assert_eq!(state(&mut own, "select * from t"), SqlState::UNDEFINED_TABLE);
    run(&mut own, "begin; create temporary table t (a int); insert into t values (2); commit");
    assert_eq!(rows(&mut own, "select a from t"), ["2"]);
    assert_eq!(state(&mut other, "select * from t"), SqlState::UNDEFINED_TABLE);
    drop(own);
    assert_eq!(objects(&mut other), [""; 0]);
}

#[test]
fn views_of_temporary_relations_belong_to_their_session() {
    let disk = SimulatedDisk::new();
    let sql = on_disk(&disk);
    let (mut own, mut other) = (connect(&sql), connect(&sql));
    run(&mut own, "create table kept (a int); create view of_kept as select * from kept");
    run(
        &mut own,
        "create temporary table t (a int); insert into t values (3);
         create view of_t as select * from t; create view of_view as select a + 1 as b from of_t;
         create temporary view said as select 1 as x; create temporary sequence counter",
    );
    assert_eq!(rows(&mut own, "select b, x from of_view, said"), ["4 1"]);
    for name in ["of_t", "of_view", "said"] {
        assert_eq!(state(&mut other, &format!("select * from {name}")), SqlState::UNDEFINED_TABLE, "{name}");
    }
    // A crash leaves none of them, and none stands in the way of another session's.
    let recovered = on_disk(&disk.crash_image(1));
    let mut after = connect(&recovered);
    assert_eq!(objects(&mut after), ["kept", "of_kept"]);
    run(&mut after, "create temporary table t (a int); create view of_t as select a from t");
    assert_eq!(rows(&mut after, "select count(*) from of_t"), ["0"]);
    drop(own);
    assert_eq!(objects(&mut other), ["kept", "of_kept"]);
}

#[test]
fn rows_are_written_while_tables_change() {
    for &protocol in ProtocolKind::ALL {
        let sql = in_memory(protocol);
        let mut own = connect(&sql);
        run(&mut own, "create table t (id bigint primary key, n int default 0); insert into t values (0, 0)");
        let done = AtomicBool::new(false);
        let (inserted, added) = thread::scope(|scope| {
            let inserter = scope.spawn(|| {
                let mut connection = connect(&sql);
                let mut id = 0;
                while !done.load(Ordering::Relaxed) && id < 500 {
                    let text = format!("insert into t (id) values ({})", id + 1);
                    match connection.query(&text) {
                        Ok(_) => id += 1,
                        Err(error) => assert!(is_retryable(&error), "{protocol}: {error}"),
                    }
                }
                id
            });
            let adder = scope.spawn(|| {
                let mut connection = connect(&sql);
                let mut added = 0;
                // A change that copies rows goes on when they are left alone.
                while !done.load(Ordering::Relaxed) && added < 300 {
                    match connection.query("begin; update t set n = n + 1 where id = 0; commit") {
                        Ok(_) => added += 1,
                        Err(error) => {
                            assert!(is_retryable(&error), "{protocol}: {error}");
                            run(&mut connection, "rollback");
                        }
                    }
                }
                added
            });
            for round in 0..4 {
                for text in [
                    format!("create index t_n{round} on t (n, id)"),
                    format!("begin; drop index t_n{round}; create index t_m{round} on t (n); commit"),
                    format!("alter table t add column c{round} int default {round}"),
                    format!("create index t_c{round} on t (c{round}, n)"),
                    format!("alter table t drop column c{round}"),
                ] {
                    while let Err(error) = own.query(&text) {
                        assert!(is_retryable(&error), "{protocol}: {text}: {error}");
                        run(&mut own, "rollback");
                    }
                }
            }
            done.store(true, Ordering::Relaxed);
            (inserter.join().expect("no panic"), adder.join().expect("no panic"))
        });
        let expected = format!("{} {added}", inserted + 1);
        assert_eq!(rows(&mut own, "select count(*), sum(n) from t"), [expected], "{protocol}");
        sql.database().check().expect("consistent");
    }
}

fn is_retryable(error: &SqlError) -> bool {
    error.state() == SqlState::SERIALIZATION_FAILURE || error.state() == SqlState::DEADLOCK_DETECTED
}

#[test]
fn power_loss_at_every_boundary_leaves_all_of_a_migration_or_nothing() {
    let disk = SimulatedDisk::new();
    let sql = on_disk(&disk);
    let mut own = connect(&sql);
    run(&mut own, BEFORE);
    let images = Arc::new(Mutex::new(Vec::new()));
    let kept = images.clone();
    run(&mut own, "begin");
    migrate(&mut own);
    disk.watch(move |moment| kept.lock().expect("no panic").push(moment.image(moment.number())));
    run(&mut own, "commit");
    disk.watch_no_more();
    let mut images = std::mem::take(&mut *images.lock().expect("no panic"));
    images.push(disk.crash_image(1));
    let mut outcomes = [0, 0];
    for image in &images {
        let mut connection = connect(&on_disk(image));
        let migrated = objects(&mut connection).contains(&"journal".to_string());
        outcomes[usize::from(migrated)] += 1;
        if migrated { is_new(&mut connection) } else { is_old(&mut connection) }
    }
    assert!(outcomes.iter().all(|&count| count > 0), "{outcomes:?}");
}

/// Updates one row after the other of `busy` without pause until `done`. How often it has.
fn update_without_pause(sql: &Sql, first: i64, done: &AtomicBool) -> i64 {
    let mut connection = connect(sql);
    let mut updates = 0;
    while !done.load(Ordering::Relaxed) {
        let id = (first + updates) % BUSY_ROWS;
        match connection.query(&format!("update busy set n = n + 1 where id = {id}")) {
            Ok(_) => updates += 1,
            Err(error) => assert!(is_retryable(&error), "{error}"),
        }
    }
    updates
}

const BUSY_ROWS: i64 = 200;

#[test]
fn a_table_that_is_written_without_pause_can_be_copied() {
    for &protocol in ProtocolKind::ALL {
        let sql = in_memory(protocol);
        let mut own = connect(&sql);
        run(&mut own, "create table busy (id int primary key, n int, gone int)");
        run(
            &mut own,
            &format!("insert into busy select id, 0, id from generate_series(0, {BUSY_ROWS} - 1) id"),
        );
        let done = AtomicBool::new(false);
        let updates: i64 = thread::scope(|scope| {
            let (sql, done) = (&sql, &done);
            let updaters: Vec<_> = (0..4)
                .map(|number| scope.spawn(move || update_without_pause(sql, number * 50, done)))
                .collect();
            let changed = [
                "alter table busy add column plain int",
                "alter table busy add column filled int not null default 7 check (filled > 0)",
                "alter table busy drop column gone",
                "alter table busy alter column n type bigint",
            ]
            .map(|text| own.query(text).map(drop).map_err(|error| format!("{protocol}: {text}: {error}")));
            done.store(true, Ordering::Relaxed);
            let updates = updaters.into_iter().map(|updater| updater.join().expect("no panic")).sum();
            changed.into_iter().for_each(|changed| changed.expect("it gets through"));
            updates
        });
        let sums = "select count(*), sum(n), sum(filled), count(plain) from busy";
        let expected = format!("{BUSY_ROWS} {updates} {} 0", 7 * BUSY_ROWS);
        assert_eq!(rows(&mut own, sums), [expected], "{protocol}");
        assert_eq!(state(&mut own, "select gone from busy"), SqlState::UNDEFINED_COLUMN, "{protocol}");
        sql.database().check().expect("consistent");
    }
}

#[test]
fn a_column_with_one_value_for_all_rows_rewrites_none() {
    const ROWS: u64 = 5_000;
    let sql = on_disk(&SimulatedDisk::new());
    let mut own = connect(&sql);
    run(&mut own, "create table t (id int primary key, name text)");
    run(&mut own, &format!("insert into t select n, repeat('x', 100) from generate_series(1, {ROWS}) n"));
    let mut logged = |text: &str| {
        let before = sql.database().statistics().log_bytes;
        run(&mut own, text);
        sql.database().statistics().log_bytes - before
    };
    for added in ["a int", "b int default null", "c int not null default 7", "d text default null"] {
        let bytes = logged(&format!("alter table t add column {added}"));
        assert!(bytes < 4 * ROWS, "{added}: {bytes} bytes of redo");
    }
    let bytes = logged("alter table t add column e float8 default random()");
    assert!(bytes > 8 * ROWS, "a value of each row's own is written: {bytes} bytes of redo");
    assert_eq!(rows(&mut own, "select count(*), count(a), count(b), sum(c) from t"), ["5000 0 0 35000"]);
    let without_value = "alter table t add column f int not null default null";
    assert_eq!(state(&mut own, without_value), SqlState::NOT_NULL_VIOLATION);
}
