//! No phantoms: what one transaction has read by a path, another one cannot change beside it.
//!
//! One transaction reads by a path, and then writes a row; another one reads that row before, adds what the path would have
//! found, and commits in between. In no serial order can both have missed the other's write, so that one of them fails.

use heddle_sql::{Connection, Sql};
use heddledb::{Database, Durability, Options, ProtocolKind};

use super::super::run;

/// A query that reads a path, its index or indexes, and a row that it would have found.
const CASES: &[(&str, &str, &str)] = &[
    ("select id from t where (a, b) in ((1, 1), (1, 777))", "t_ab", "5000, 0, 1, 777, 'p', 1"),
    ("select id from t where a = 5 or a = 777", "t_ab", "5000, 0, 777, 0, 'p', 1"),
    ("select id from t where a = any('{5,777}')", "t_ab", "5000, 0, 777, 0, 'p', 1"),
    ("select id from t where a = 777 or c = 'zz'", "t_ab, t_c", "5000, 0, 1, 0, 'zz', 1"),
    ("select id from t where a = 777 or c = 'zz'", "t_ab, t_c", "5000, 0, 777, 0, 'p', 1"),
    ("select id from t where (a, b) > (250, 1)", "t_ab", "5000, 0, 300, 0, 'p', 1"),
    ("select id from t where (a, b) > (100, 0) order by a, b limit 3", "t_ab", "5000, 0, 100, 1, 'p', 1"),
    ("select max(a) from t", "t_ab", "5000, 0, 9999, 0, 'p', 1"),
    ("select min(a) from t", "t_ab", "5000, 0, -1, 0, 'p', 1"),
    ("select max(b) from t where a = 20", "t_ab", "5000, 0, 20, 999, 'p', 1"),
    ("select id from t order by a limit 3", "t_ab", "5000, 0, -1, 0, 'p', 1"),
    ("select id from t order by a desc nulls last limit 3", "t_ab", "5000, 0, 9999, 0, 'p', 1"),
    ("select id from t where c like 'x19%'", "t_c", "5000, 0, 1, 0, 'x19y', 1"),
    ("select id from t where c ~ '^x19'", "t_c", "5000, 0, 1, 0, 'x19y', 1"),
    ("select id from t where d is null", "t_d", "5000, 0, 1, 0, 'p', null"),
    // A value of the column that is skipped, and one in a gap between these.
    ("select id from t where b = 777", "t_kb", "5000, 1, 1, 777, 'p', 1"),
    ("select id from t where b = 777", "t_kb", "5000, 99, 1, 777, 'p', 1"),
    ("select id from t where id in (1, 5000, 5001)", "t_pkey", "5000, 0, 1, 0, 'p', 1"),
    ("select max(id) from t", "t_pkey", "5000, 0, 1, 0, 'p', 1"),
    // The order's first column is an index's.
    ("select id from t order by a, id desc limit 3", "t_ab", "5000, 0, -1, 0, 'p', 1"),
    ("select id from t order by a desc nulls last, c limit 3", "t_ab", "5000, 0, 9999, 0, 'p', 1"),
    // Values of other types.
    ("select id from t where at > date '2025-01-01'", "t_at", "5000, 0, 1, 0, 'p', 1, '2025-06-01'"),
    ("select id from t where at = date '2025-01-01'", "t_at", "5000, 0, 1, 0, 'p', 1, '2025-01-01'"),
    // Joins: a partner that is missing, the first rows in an order, and the keys of a subquery.
    (
        "select w.id from w left join t on t.a = w.n + 777 where t.id is null",
        "t_ab",
        "5000, 0, 777, 0, 'p', 1",
    ),
    ("select t.id from t join p on p.id = t.k order by t.a limit 3", "t_ab", "5000, 0, -1, 0, 'p', 1"),
    ("select id from t where a in (select id + 777 from p)", "t_ab", "5000, 0, 778, 0, 'p', 1"),
];

fn connect(sql: &Sql) -> Connection {
    let mut connection = sql.connect(Default::default()).expect("a connection");
    run(&mut connection, "set lock_timeout = '300ms'");
    connection
}

/// Runs a read and a write in one transaction, and between them another one that reads what the first one writes, and adds
/// this row. Whether both have committed.
fn both_commit(sql: &Sql, read: &str, row: &str) -> bool {
    let (mut first, mut second) = (connect(sql), connect(sql));
    run(&mut first, "begin isolation level serializable");
    run(&mut second, "begin isolation level serializable");
    let steps: [(bool, String); 6] = [
        (true, read.to_string()),
        (false, "select n from w where id = 1".to_string()),
        (false, format!("insert into t values ({row})")),
        (false, "commit".to_string()),
        (true, "update w set n = n + 1 where id = 1".to_string()),
        (true, "commit".to_string()),
    ];
    let mut has_failed = [false; 2];
    for (is_first, text) in steps {
        let (connection, failed) = match is_first {
            true => (&mut first, &mut has_failed[0]),
            false => (&mut second, &mut has_failed[1]),
        };
        if !*failed && connection.query(&text).is_err() {
            *failed = true;
            run(connection, "rollback");
        }
    }
    has_failed == [false; 2]
}

#[test]
fn no_path_lets_a_phantom_in_under_any_protocol() {
    for &protocol in ProtocolKind::ALL {
        let options = Options::default().protocol(protocol).durability(Durability::None);
        let sql = Sql::new(&Database::in_memory_with(options).expect("a database")).expect("SQL");
        let mut connection = connect(&sql);
        run(
            &mut connection,
            "create table t (id int primary key, k int not null, a int, b int not null, c text, d int,
                at timestamp default '2024-06-15');
             create index t_at on t (at); create index t_ab on t (a, b); create index t_c on t (c); create index t_d on t (d);
             create index t_kb on t (k, b); create table w (id int primary key, n int);
             create table p (id int primary key); insert into p values (0), (1), (2);
             insert into w values (1, 0);
             insert into t (id, k, a, b, c, d) select n, n % 3, n / 4, n % 50, 'x' || n, n % 400 from generate_series(1, 1000) n; analyze",
        );
        for (read, index, row) in CASES {
            let plan = super::plan(&mut connection, read);
            assert!(plan.contains(&format!("using {index} on t")), "{read}\n{plan}");
            assert!(!both_commit(&sql, read, row), "{protocol:?}: {read}");
            run(&mut connection, "delete from t where id >= 5000");
        }
        // The test can fail: a row that the path does not look at disturbs nothing.
        if protocol == ProtocolKind::Optimistic {
            assert!(both_commit(&sql, "select id from t where a = 5 or a = 7", "5000, 0, 100, 0, 'p', 1"));
        }
    }
}
