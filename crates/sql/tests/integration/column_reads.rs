//! Blocks that read columns of rows of which others change other columns: they commit; if a column that a statement used has changed, they
//! fail with 40001.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use heddle_sql::{Connection, Sql, SqlState};
use heddledb::{Database, Durability, Options, ProtocolKind};

fn sql(protocol: ProtocolKind) -> Sql {
    let options = Options::default().protocol(protocol).durability(Durability::None);
    Sql::new(&Database::in_memory_with(options).expect("a database in memory"))
        .expect("SQL on an empty database")
}

fn connect(sql: &Sql) -> Connection {
    sql.connect(Default::default()).expect("a connection")
}

#[track_caller]
fn run(connection: &mut Connection, text: &str) {
    connection.query(text).unwrap_or_else(|error| panic!("{text}: {error}"));
}

/// The rows of a text's last statement, columns between blanks.
#[track_caller]
fn rows(connection: &mut Connection, text: &str) -> Vec<String> {
    let results = connection.query(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let rows = connection.text_rows(results.last().expect("a result")).expect("values print");
    let shown = |row: Vec<Option<String>>| {
        row.into_iter().map(|value| value.unwrap_or("NULL".to_string())).collect::<Vec<_>>().join(" ")
    };
    rows.into_iter().map(shown).collect()
}

/// Warehouses, districts and orders as TPC-C has them.
const SALES: &str = "
    create table warehouse (w_id int primary key, w_name text, w_tax numeric(4, 4), w_ytd numeric(12, 2));
    create table district (d_w_id int, d_id int, d_name text, d_tax numeric(4, 4), d_ytd numeric(12, 2),
        d_next_o_id int, primary key (d_w_id, d_id));
    create table customer (c_w_id int, c_id int, c_last text, c_balance numeric(12, 2), primary key (c_w_id, c_id));
    create table orders (o_w_id int, o_d_id int, o_id int, o_c_id int, primary key (o_w_id, o_d_id, o_id));
    insert into warehouse values (1, 'first', 0.1, 300), (2, 'second', 0.2, 300);
    insert into district select w, d, 'd' || d, 0.05, 30, 3001 from generate_series(1, 2) w, generate_series(1, 3) d;
    insert into customer select w, c, 'c' || c, 10 from generate_series(1, 2) w, generate_series(1, 5) c";

/// Statements of a new order, as go-tpc sends them, for district 1 of warehouse 1.
const NEW_ORDER: [&str; 4] = [
    "select c_last, w_tax from customer, warehouse where w_id = 1 and c_w_id = w_id and c_id = 3",
    "select d_next_o_id, d_tax from district where d_id = 1 and d_w_id = 1 for update",
    "update district set d_next_o_id = 3001 + 1 where d_id = 1 and d_w_id = 1",
    "insert into orders values (1, 1, 3001, 3)",
];

/// A payment in the same district.
const PAYMENT: [&str; 5] = [
    "update district set d_ytd = d_ytd + 5 where d_w_id = 1 and d_id = 1",
    "select d_name from district where d_w_id = 1 and d_id = 1",
    "update warehouse set w_ytd = w_ytd + 5 where w_id = 1",
    "select w_name from warehouse where w_id = 1",
    "update customer set c_balance = c_balance - 5 where c_w_id = 1 and c_id = 2",
];

#[test]
fn a_new_order_commits_beside_payments_wherever_they_come_between_its_statements() {
    for &protocol in ProtocolKind::ALL {
        for at in 0..=NEW_ORDER.len() {
            let sql = sql(protocol);
            let (mut order, mut payment) = (connect(&sql), connect(&sql));
            run(&mut order, SALES);
            run(&mut order, "begin");
            NEW_ORDER[..at].iter().for_each(|text| run(&mut order, text));
            run(&mut payment, "begin");
            PAYMENT.iter().for_each(|text| run(&mut payment, text));
            run(&mut payment, "commit");
            NEW_ORDER[at..].iter().for_each(|text| run(&mut order, text));
            order.query("commit").unwrap_or_else(|error| panic!("{protocol}, {at}: {error}"));
            let sums = "select w_ytd, d_ytd, d_next_o_id from warehouse, district where w_id = 1 and d_w_id = 1 and d_id = 1";
            assert_eq!(rows(&mut order, sums), ["305.00 35.00 3002"], "{protocol}, {at}: columns are merged");
        }
    }
}

/// Two payments are open at once, and neither waits: both only add to the warehouse and read columns that nothing changes.
#[test]
fn payments_in_one_warehouse_do_not_wait_for_each_other() {
    for &protocol in ProtocolKind::ALL {
        let sql = sql(protocol);
        let (mut first, mut second) = (connect(&sql), connect(&sql));
        run(&mut first, SALES);
        run(&mut first, "set lock_timeout = '2s'; begin");
        run(&mut second, "set lock_timeout = '2s'; begin");
        PAYMENT[..4].iter().for_each(|text| run(&mut first, text));
        PAYMENT[..4].iter().for_each(|text| run(&mut second, text));
        run(&mut first, "commit");
        second.query("commit").unwrap_or_else(|error| panic!("{protocol}: {error}"));
        assert_eq!(rows(&mut first, "select w_ytd from warehouse where w_id = 1"), ["310.00"]);
    }
}

/// Each read uses column `b` of row 1 in another place of a statement. `a` it does not use.
const USES: [&str; 12] = [
    "select b from t where id = 1",
    "select id from t where id = 1 and b = 0",
    "select count(*) from t where b < 100",
    "select b + 1 from t where id in (1, 2)",
    "select max(b) from t",
    "select u.id from u join t on t.b = u.id - 1 and t.id = 1",
    "select id from u where exists (select from t where t.id = u.id and b = 0)",
    "select (select b from t where id = u.id) from u where id = 1",
    "update t set c = b where id = 1",
    "update u set n = b from t where t.id = 1 and u.id = 1",
    "insert into u select 100, b from t where id = 1",
    "select id from t where id = 1 and b = 0 for update",
];

#[test]
fn a_column_that_a_statement_uses_anywhere_counts_and_others_do_not() {
    for &protocol in ProtocolKind::ALL {
        let mut compared = 0;
        for text in USES {
            for (change, is_conflict) in [("a = 7", false), ("b = 7", true)] {
                let sql = sql(protocol);
                let (mut block, mut other) = (connect(&sql), connect(&sql));
                run(
                    &mut block,
                    "create table t (id int primary key, a int not null, b int not null, c int);
                    create table u (id int primary key, n int);
                    insert into t values (1, 0, 0, 0), (2, 0, 0, 0); insert into u values (1, 0), (2, 0)",
                );
                // What is read is there now, not in a snapshot.
                run(&mut block, "begin; update u set n = 5 where id = 2");
                run(&mut block, text);
                let changed =
                    other.query(&format!("set lock_timeout = '50ms'; update t set {change} where id = 1"));
                if changed.is_err() {
                    // The block has reserved the row.
                    continue;
                }
                let ended = block.query("commit");
                let shown = format!("{protocol}: {text} beside {change}: {ended:?}");
                assert_eq!(ended.is_err(), is_conflict, "{shown}");
                if let Err(error) = ended {
                    assert_eq!(error.state(), SqlState::SERIALIZATION_FAILURE, "{shown}");
                }
                compared += 1;
            }
        }
        // Where the block has reserved row 1, the other statement fails instead.
        assert!(compared >= 2 * USES.len() - 4, "{protocol}: {compared}");
    }
}

/// Rules that a statement does not name use columns, too.
#[test]
fn columns_of_checks_policies_triggers_and_whole_rows_count() {
    let setup = "
        create table t (id int primary key, a int not null, b int not null, c int, check (c < b + 100));
        create table seen (b int);
        create function note() returns trigger language plpgsql as
            $$ begin insert into seen values (old.b); return new; end $$;
        insert into t values (1, 0, 0, 0), (2, 0, 0, 0)";
    let cases = [
        ("", "update t set c = 50 where id = 1", "b = 7", true),
        (
            "create trigger noted before update on t for each row execute function note()",
            "update t set c = 50 where id = 1",
            "b = 7",
            true,
        ),
        ("", "select t from t where id = 1", "b = 7", true),
        ("", "select row_to_json(t) from t where id = 1", "a = 7", true),
        ("", "select * from t where id = 1", "a = 7", true),
        ("create view v as select id, b from t", "select id from v where b = 0", "b = 7", true),
        ("create view v as select id, b from t", "select b from v where id = 1", "a = 7", false),
        ("", "update t set c = 50 where id = 1 returning b", "b = 7", true),
        ("", "delete from t where id = 1 and b = 0", "b = 7", true),
    ];
    for protocol in [ProtocolKind::Optimistic, ProtocolKind::Phased, ProtocolKind::Serial] {
        for (more, text, change, is_conflict) in cases {
            let sql = sql(protocol);
            let (mut block, mut other) = (connect(&sql), connect(&sql));
            run(&mut block, setup);
            run(&mut block, more);
            run(&mut block, "begin; insert into seen values (1)");
            run(&mut block, text);
            let changed =
                other.query(&format!("set lock_timeout = '50ms'; update t set {change} where id = 1"));
            if changed.is_err() {
                continue;
            }
            let ended = block.query("commit");
            assert_eq!(ended.is_err(), is_conflict, "{protocol}: {text} beside {change}: {ended:?}");
        }
    }
}

/// Of two doctors whose shifts are columns of one row one stays: each block reads the one column and writes the other, and a constraint
/// between them would be violated by write skew only.
#[test]
fn no_skew_between_columns_of_one_row_beside_additions_to_a_third() {
    const ROUNDS: usize = 150;
    for &protocol in ProtocolKind::ALL {
        let sql = sql(protocol);
        let mut connection = connect(&sql);
        run(&mut connection, "create table ward (id int primary key, ada bool not null, bea bool not null, calls int not null);
            insert into ward values (1, true, true, 0)");
        let (left, failed, calls) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for (leaves, stays) in [("ada", "bea"), ("bea", "ada"), ("ada", "bea"), ("bea", "ada")] {
                let (mut doctor, left, failed) = (connect(&sql), &left, &failed);
                scope.spawn(move || {
                    for _ in 0..ROUNDS {
                        let block = |doctor: &mut Connection| {
                            doctor.query("begin")?;
                            let read = doctor.query(&format!("select {stays} from ward where id = 1"))?;
                            let stays = doctor.text_rows(read.last().expect("a result"))?;
                            let back = stays[0][0].as_deref() != Some("t");
                            doctor.query(&format!("update ward set {leaves} = {back} where id = 1; commit"))
                        };
                        match block(&mut doctor) {
                            Ok(_) => left.fetch_add(1, Ordering::Relaxed),
                            Err(error) => {
                                assert_eq!(error.state(), SqlState::SERIALIZATION_FAILURE, "{error}");
                                run(&mut doctor, "rollback");
                                failed.fetch_add(1, Ordering::Relaxed)
                            }
                        };
                    }
                });
            }
            let (mut caller, calls) = (connect(&sql), &calls);
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    run(&mut caller, "update ward set calls = calls + 1 where id = 1");
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            });
            let mut watcher = connect(&sql);
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    let alone = rows(&mut watcher, "select count(*) from ward where not ada and not bea");
                    assert_eq!(alone, ["0"], "{protocol}: no doctor is there");
                }
            });
        });
        assert_eq!(rows(&mut connection, "select calls, ada or bea from ward"), [format!("{ROUNDS} t")]);
        assert!(left.into_inner() > 50, "{protocol}: {} failed", failed.into_inner());
    }
}

/// Blocks append to one column of a shared row what they have read of another one, beside additions: each value is there once, and what a
/// block has read is a beginning of what was appended.
#[test]
fn lists_in_columns_of_a_shared_row_grow_without_a_lost_or_stale_append() {
    const ROUNDS: usize = 60;
    for &protocol in ProtocolKind::ALL {
        let sql = sql(protocol);
        let mut connection = connect(&sql);
        run(
            &mut connection,
            "create table l (id int primary key, x text not null, y text not null, n int not null);
            insert into l values (1, '', '', 0)",
        );
        let mut reads: Vec<(String, String)> = Vec::new();
        let mut appended = [Vec::new(), Vec::new()];
        thread::scope(|scope| {
            let workers: Vec<_> = (0..4)
                .map(|worker| {
                    let mut client = connect(&sql);
                    scope.spawn(move || {
                        let (mut reads, mut own) = (Vec::new(), [Vec::new(), Vec::new()]);
                        for round in 0..ROUNDS {
                            let place = (worker + round) % 2;
                            let column = ["x", "y"][place];
                            let value = format!("{worker}.{round}");
                            let block = |client: &mut Connection| {
                                client.query("begin; update l set n = n + 1 where id = 1")?;
                                let read = client.query(&format!("select {column} from l where id = 1"))?;
                                let list = client.text_rows(read.last().expect("a result"))?[0][0].clone();
                                let list = list.expect("it is not null");
                                let text =
                                    format!("update l set {column} = '{list},{value}' where id = 1; commit");
                                client.query(&text).map(|_| list)
                            };
                            match block(&mut client) {
                                Ok(list) => {
                                    reads.push((column.to_string(), list));
                                    own[place].push(value);
                                }
                                Err(error) => {
                                    assert!(error.state().as_str().starts_with("40"), "{error}");
                                    run(&mut client, "rollback");
                                }
                            }
                        }
                        (reads, own)
                    })
                })
                .collect();
            for worker in workers {
                let (read, own) = worker.join().expect("no worker panics");
                reads.extend(read);
                appended.iter_mut().zip(own).for_each(|(all, own)| all.extend(own));
            }
        });
        let last = rows(&mut connection, "select n, x, y from l");
        let last: Vec<&str> = last[0].split(' ').collect();
        assert_eq!(last[0], reads.len().to_string(), "{protocol}: additions of the blocks that committed");
        assert!(reads.len() > ROUNDS, "{protocol}: {} of {} committed", reads.len(), 4 * ROUNDS);
        for (column, list) in [("x", last[1]), ("y", last[2])] {
            let mut values: Vec<&str> = list.split(',').skip(1).collect();
            let read = reads.iter().filter(|(of, _)| of == column);
            assert!(read.clone().all(|(_, read)| list.starts_with(read.as_str())), "{protocol}: {column}");
            values.sort_unstable();
            let mut own: Vec<&str> =
                appended[usize::from(column == "y")].iter().map(String::as_str).collect();
            own.sort_unstable();
            assert_eq!(values, own, "{protocol}: {column}");
        }
    }
}
