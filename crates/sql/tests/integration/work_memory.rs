//! Memory of statements as a whole database counts it: however a statement ends, it gives back what it has leased.

use std::sync::atomic::{AtomicBool, Ordering};

use heddle_sql::{Connection, ResultSink, Sql, SqlError, SqlState};
use heddledb::{Database, Durability, Options};

fn with_rows() -> (Sql, Connection) {
    let database = Database::in_memory_with(Options::default().durability(Durability::None));
    let sql = Sql::new(&database.expect("a database in memory")).expect("SQL on an empty database");
    let mut connection = sql.connect(Default::default()).expect("a connection");
    connection
        .query(
            "create table t (a int primary key, b int, c text); \
             insert into t select g, g % 100, repeat('c', 20) || g from generate_series(1, 30000) g",
        )
        .expect("rows");
    (sql, connection)
}

/// Statements that hold several megabytes at their end, and some that end early.
const LARGE: [&str; 8] = [
    "select * from t order by c, a limit 20000 offset 5",
    "select l.a from t l join t r on l.c = r.c limit 3",
    "select c, count(*), count(distinct a) from t group by c limit 1",
    "select a, sum(a) over (order by c) from t limit 1",
    "select distinct c, a from t limit 29000",
    "select c from t intersect select c from t limit 3",
    "with q as materialized (select * from t) select * from q limit 1",
    "select * from t where a in (select b from t order by c) limit 1",
];

#[track_caller]
fn assert_free(sql: &Sql, after: &str) {
    let statistics = sql.statistics();
    let counter = statistics.iter().find(|it| it.name == "work_memory_bytes").expect("a statistic");
    assert_eq!(counter.value, 0, "after {after}");
}

#[test]
fn a_statement_that_ends_has_given_back_its_memory() {
    let (sql, mut connection) = with_rows();
    for _ in 0..3 {
        for text in LARGE {
            connection.query(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_free(&sql, text);
            let failing = format!("select 1 / (q.* is null)::int from ({text}) q");
            let error = connection.query(&failing).expect_err(&failing);
            assert_eq!(error.state().as_str(), "22012");
            assert_free(&sql, &failing);
        }
        connection.query("set work_mem = '64kB'").expect("a setting");
        let hashes =
            "with recursive q as (select a from t union select -a from q where a > 0) select count(*) from q";
        let error = connection.query(hashes);
        assert_eq!(error.expect_err("it does not fit").state(), SqlState::OUT_OF_MEMORY);
        assert_free(&sql, "53200");
        connection.query("reset work_mem").expect("a setting");
    }
}

#[test]
fn cursors_give_back_their_memory_when_they_are_closed() {
    let (sql, mut connection) = with_rows();
    for end in ["close all", "close c", "rollback", "commit", "savepoint s; rollback to s; close c"] {
        for text in LARGE {
            connection
                .query(&format!("begin; declare c cursor for {text}; fetch 1 from c"))
                .expect("a cursor");
            connection.query(end).unwrap_or_else(|error| panic!("{end}: {error}"));
            if end.contains("close") {
                assert_free(&sql, &format!("{end} of {text}"));
                connection.query("commit").expect("committed");
            }
            assert_free(&sql, &format!("{end} of {text}"));
        }
    }
    connection.query("begin; declare c cursor with hold for select * from t; commit").expect("it is held");
    connection.query("fetch 100 from c; close c").expect("rows");
    assert_free(&sql, "a held cursor");
}

/// Takes the rows of a portal.
struct Count(usize);

impl ResultSink for Count {
    fn row(
        &mut self,
        _values: &[heddle_sql::Value],
        _environment: &dyn heddle_sql::Environment,
    ) -> Result<(), SqlError> {
        self.0 += 1;
        Ok(())
    }
}

#[test]
fn portals_give_back_their_memory_when_they_are_left() {
    let (sql, mut connection) = with_rows();
    for text in LARGE {
        connection.prepare("s", text, &[]).expect("prepared");
        connection.bind("p", "s", Vec::new()).expect("bound");
        let mut count = Count(0);
        connection.execute("p", 1, &mut count).expect("a row");
        assert_eq!(count.0, 1);
        connection.close_portal("p");
        assert_free(&sql, text);
        connection.bind("p", "s", Vec::new()).expect("bound");
        connection.execute("p", 1, &mut count).expect("a row");
        connection.sync().expect("the portal ends with its transaction");
        assert_free(&sql, text);
        connection.close_statement("s");
    }
}

#[test]
fn a_canceled_statement_gives_back_its_memory() {
    let (sql, mut connection) = with_rows();
    let canceller = connection.canceller();
    for text in LARGE {
        // Without an end before it is canceled.
        let endless = format!("select count(*) from ({text}) q, generate_series(1, 1000000000) order by 1");
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // The statement may not have begun when it is first canceled: it is canceled until it has ended.
                while !stop.load(Ordering::Relaxed) {
                    if sql.work_memory_used() > 0 {
                        canceller.cancel();
                    }
                    std::thread::yield_now();
                }
            });
            let ended = connection.query(&endless);
            stop.store(true, Ordering::Relaxed);
            assert_eq!(ended.expect_err(&endless).state(), SqlState::QUERY_CANCELED);
        });
        assert_free(&sql, &endless);
    }
}

#[test]
fn large_values_are_given_back_by_the_next_statement() {
    let (sql, mut connection) = with_rows();
    for _ in 0..3 {
        connection.query("select length(repeat('x', 20000000))").expect("a length");
        connection.query("select repeat('x', 30000000) from t where a < 3").expect("long texts");
        connection.query("select 1").expect("another statement");
        assert_free(&sql, "large values");
    }
}

/// Texts of about two million tokens, in lists, operators, statements, and what a function's body makes.
#[test]
fn a_text_of_very_many_tokens_counts_among_all_statements_memory() {
    let (sql, mut connection) = with_rows();
    sql.set_work_memory_limit(64 << 20);
    let texts = [
        format!("values {}(1)", "(1),".repeat(400_000)),
        format!("select {}1", "- ".repeat(1_000_000)),
        ";".repeat(300_000),
        "select;".repeat(100_000),
        "do $$ begin execute 'select 1 where 1 in (' || repeat('1,', 1000000) || '1)'; end $$".to_string(),
        format!("do $$ begin {} end $$", "perform 1;".repeat(200_000)),
    ];
    for text in &texts {
        let error = connection.query(text).expect_err("it does not fit");
        assert_eq!(error.state(), SqlState::OUT_OF_MEMORY, "{}: {error}", &text[..40]);
        connection.query("select 1").expect("it is small");
        assert_free(&sql, &text[..40]);
        // The body of DO is a string here, which nothing takes apart.
        let expected = if text.starts_with("do") { None } else { Some(SqlState::OUT_OF_MEMORY) };
        let error = connection.prepare("", text, &[]).err().map(|error| error.state());
        assert_eq!(error, expected, "{}", &text[..40]);
        assert_free(&sql, &text[..40]);
    }
    let text = format!("select count(*) from (values {}(1)) v", "(1),".repeat(20_000));
    connection.query(&text).expect("it fits");
    // A loop counts the largest of its texts, not all.
    let looped = "do $$ begin for i in 1 .. 50 loop execute 'select 1 where 1 in (' || repeat('1,', 20000) || '1)'; end loop; end $$";
    connection.query(looped).expect("each of them fits");
    connection.query("select 1").expect("it is small");
    assert_free(&sql, looped);
    // Names that are values.
    for call in ["to_regclass(v)", "to_regtype(v)", "v::regclass", "has_table_privilege(v, 'select')"] {
        let query = format!("select {call} from (select repeat('a.', 2000000) || 'a' as v) n");
        let error = connection.query(&query).expect_err(call);
        assert_eq!(error.state(), SqlState::OUT_OF_MEMORY, "{call}: {}", error.state().as_str());
        connection.query("select 1").expect("it is small");
        assert_free(&sql, call);
    }
}

/// Definitions of many tokens, which a client's text may not have beside the memory that others take.
#[test]
fn definitions_are_read_whatever_memory_is_left() {
    let (sql, mut connection) = with_rows();
    let list = format!("b in ({}0) and 0 < b + 0", "b, ".repeat(6_000));
    connection
        .query(&format!(
            "create table d (a int primary key, b int, constraint c check ({list})); \
             create table u (b int); create view v as select b from u where {list}; \
             insert into d values (1, 1); insert into u values (1)"
        ))
        .expect("definitions");
    sql.set_work_memory_limit(0);
    connection.query(&format!("select {list}")).expect_err("a client's text does not fit");
    let error = connection.query("alter table u drop column b").expect_err("the view reads it");
    assert_eq!(error.state().as_str(), "2BP01");
    assert_eq!(connection.query("select b from v").expect("a view").len(), 1);
    connection.query("alter table d rename column b to e").expect("renamed");
    sql.set_work_memory_limit(64 << 20);
    let error = connection.query("insert into d values (2, -1)").expect_err("the check holds");
    assert_eq!(error.state().as_str(), "23514");
}
