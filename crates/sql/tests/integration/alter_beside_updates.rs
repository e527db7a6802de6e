//! ALTER TABLE … ADD COLUMN beside connections that update the table as pgbench does: no update is lost, and every row has the
//! columns' defaults until it is written.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use heddle_sql::{ConnectOptions, Connection, Sql, SqlState};
use heddledb::{Database, Durability, Options, ProtocolKind};

/// Number of accounts: fewer than columns, so that some are written after each.
const ACCOUNTS: u64 = 6;
const COLUMNS: u64 = 8;
const CLIENTS: u64 = 3;

fn connect(sql: &Sql) -> Connection {
    sql.connect(ConnectOptions::default()).expect("a connection")
}

fn run(connection: &mut Connection, statement: &str) {
    connection.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
}

fn numbers(connection: &mut Connection, query: &str) -> Vec<Vec<i64>> {
    let results = connection.query(query).unwrap_or_else(|error| panic!("{query}: {error}"));
    let rows = connection.text_rows(&results[0]).expect("texts");
    let number = |value: Option<String>| value.expect("not NULL").parse().expect("a number");
    rows.into_iter().map(|row| row.into_iter().map(number).collect()).collect()
}

/// One transaction of pgbench's: an account, its balance, and a row of the history. Whether it has committed.
fn transfer(connection: &mut Connection, (account, delta): (u64, i64), in_block: bool) -> bool {
    let statements = [
        format!("update accounts set balance = balance + {delta} where id = {account}"),
        format!("select balance from accounts where id = {account}"),
        format!("insert into history values ({account}, {delta})"),
    ];
    if !in_block {
        // Several statements in one text are one transaction.
        return is_done(connection, &statements.join("; "));
    }
    let all = ["begin".to_string()].into_iter().chain(statements).chain(["commit".to_string()]);
    let mut all = all.map(|statement| is_done(connection, &statement));
    let is_done_all = all.all(|done| done);
    drop(all);
    if !is_done_all {
        run(connection, "rollback");
    }
    is_done_all
}

/// Returns true if a statement succeeds; the only error that it may have is a conflict.
fn is_done(connection: &mut Connection, statement: &str) -> bool {
    match connection.query(statement) {
        Ok(_) => true,
        Err(error) => {
            let is_conflict =
                [SqlState::SERIALIZATION_FAILURE, SqlState::DEADLOCK_DETECTED].contains(&error.state());
            assert!(is_conflict, "{statement}: {error}");
            false
        }
    }
}

fn alter_beside(protocol: ProtocolKind) {
    let options = Options::default().protocol(protocol).durability(Durability::None).workers(2);
    let db = Database::in_memory_with(options).expect("a database");
    let sql = Sql::new(&db).expect("SQL");
    let mut connection = connect(&sql);
    run(&mut connection, "create table accounts (id bigint primary key, balance bigint not null)");
    run(&mut connection, "create table history (account bigint, delta bigint)");
    run(&mut connection, &format!("insert into accounts select g, 0 from generate_series(1, {ACCOUNTS}) g"));
    let (committed, is_over): ([AtomicU64; CLIENTS as usize], _) =
        (Default::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        for (number, committed) in committed.iter().enumerate() {
            let (mut connection, is_over) = (connect(&sql), &is_over);
            scope.spawn(move || {
                let mut turn = number as u64;
                while !is_over.load(Ordering::Relaxed) {
                    turn += 1;
                    let change = (1 + turn % ACCOUNTS, turn as i64 % 5 - 2);
                    if transfer(&mut connection, change, number > 0) {
                        committed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for column in 0..COLUMNS {
            let before = committed.each_ref().map(|committed| committed.load(Ordering::Relaxed));
            while committed.iter().zip(before).any(|(now, before)| now.load(Ordering::Relaxed) == before) {
                thread::yield_now();
            }
            run(
                &mut connection,
                &format!("alter table accounts add column c{column} int not null default {column}"),
            );
            let account = 1 + column % ACCOUNTS;
            run(&mut connection, &format!("update accounts set c{column} = -1 where id = {account}"));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let balances = numbers(&mut connection, "select id, balance from accounts order by id");
    let sums = "select id, coalesce((select sum(delta) from history where account = id), 0) from accounts order by id";
    assert_eq!(balances, numbers(&mut connection, sums), "{protocol}");
    let total: u64 = committed.iter().map(|committed| committed.load(Ordering::Relaxed)).sum();
    assert_eq!(numbers(&mut connection, "select count(*) from history"), [[total as i64]], "{protocol}");
    for column in 0..COLUMNS {
        for row in numbers(&mut connection, &format!("select id, c{column} from accounts")) {
            let is_written = row[0] as u64 == 1 + column % ACCOUNTS;
            let expected = if is_written { -1 } else { column as i64 };
            assert_eq!(row[1], expected, "{protocol}, column {column} of {}", row[0]);
        }
    }
    db.check().expect("consistent");
}

#[test]
fn columns_are_added_beside_updates_under_every_protocol() {
    ProtocolKind::ALL.iter().for_each(|&protocol| alter_beside(protocol));
}
