//! Hot rows under load: in rounds of eight transactions at once, some serial order gives every answer and the final state; and
//! a sale sells exactly what there is.
//!
//! Between two rounds nothing runs, so that all orders of a round can be searched. `HEDDLE_HOT_ROUNDS` asks for more rounds than
//! the usual ones.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;

use heddle_sql::{Connection, Sql, SqlError, StatementResult};
use heddledb::{Options, PhasedOptions, ProtocolKind, SplitOperation, key};

use super::{admin, number, open, rows};

const THREADS: usize = 8;

/// One row that all transactions use.
const TABLES: &str = "
    CREATE TABLE item (id int PRIMARY KEY, stock int NOT NULL, name text);
    CREATE TABLE checked (id int PRIMARY KEY, stock int NOT NULL CHECK (stock >= 0));
    INSERT INTO item VALUES (1, 0, 'x'); INSERT INTO checked VALUES (1, 0);
    CREATE TABLE sale (id bigint PRIMARY KEY);
    CREATE FUNCTION buy(wanted int) RETURNS int LANGUAGE plpgsql AS $$
    BEGIN
        UPDATE item SET stock = stock - wanted WHERE id = 1 AND stock >= wanted;
        IF NOT FOUND THEN RETURN 0; END IF;
        UPDATE item SET stock = stock + 1 WHERE id = 1;
        RETURN 1;
    END $$;";

/// A transaction of a round.
#[derive(Clone, Copy, Debug)]
enum Step {
    Guarded(i64),
    GuardedReturning(i64),
    Unguarded(i64),
    Refill(i64),
    /// Adds, if no more than twenty are there then.
    Capped(i64),
    Upsert(i64),
    Read,
    /// A guarded subtraction and a read.
    Block(i64),
    Function(i64),
    /// Of the table with a check.
    Checked(i64),
    ReadChecked,
}

/// The stocks of both tables.
type State = (i64, i64);

/// The answer of a transaction; `None` if its client has to retry it and it did nothing.
type Answer = Option<Vec<i64>>;

/// The SQLSTATE of a check, among answers.
const VIOLATED: i64 = 23_514;

impl Step {
    fn any(random: &mut u64) -> Step {
        let mut next = |bound: u64| {
            *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (*random >> 33) % bound
        };
        let amount = 1 + next(3) as i64;
        match next(16) {
            0..=3 => Step::Guarded(amount),
            4 => Step::GuardedReturning(amount),
            5 => Step::Unguarded(amount),
            6..=7 => Step::Refill(amount * 2),
            8 => Step::Capped(amount),
            9 => Step::Upsert(amount),
            10 => Step::Read,
            11 => Step::Block(amount),
            12 => Step::Function(amount),
            13 => Step::Checked(-amount),
            14 => Step::Checked(amount),
            _ => Step::ReadChecked,
        }
    }

    /// The step's effect and answer when it runs alone.
    fn applied(self, (stock, checked): State) -> (State, Vec<i64>) {
        let guarded = |amount: i64, then: i64| match stock >= amount {
            true => ((stock - amount + then, checked), true),
            false => ((stock, checked), false),
        };
        match self {
            Step::Guarded(amount) | Step::GuardedReturning(amount) => {
                let (state, is_done) = guarded(amount, 0);
                (state, vec![i64::from(is_done)])
            }
            Step::Unguarded(amount) => ((stock - amount, checked), vec![1]),
            Step::Refill(amount) | Step::Upsert(amount) => ((stock + amount, checked), vec![1]),
            Step::Capped(amount) if stock <= 20 - amount => ((stock + amount, checked), vec![1]),
            Step::Capped(_) => ((stock, checked), vec![0]),
            Step::Read => ((stock, checked), vec![stock]),
            Step::Block(amount) => {
                let (state, is_done) = guarded(amount, 0);
                (state, vec![i64::from(is_done), state.0])
            }
            Step::Function(amount) => {
                let (state, is_done) = guarded(amount, 1);
                (state, vec![i64::from(is_done)])
            }
            Step::Checked(amount) if checked + amount >= 0 => ((stock, checked + amount), vec![1]),
            Step::Checked(_) => ((stock, checked), vec![VIOLATED]),
            Step::ReadChecked => ((stock, checked), vec![checked]),
        }
    }

    fn run(self, connection: &mut Connection) -> Answer {
        let count = |connection: &mut Connection, text: &str| {
            connection.query(text).map(|results| vec![affected(&results[0])])
        };
        let done = match self {
            Step::Guarded(amount) => count(
                connection,
                &format!("UPDATE item SET stock = stock - {amount} WHERE id = 1 AND stock >= {amount}"),
            ),
            Step::GuardedReturning(amount) => count(
                connection,
                &format!(
                    "UPDATE item SET stock = stock - {amount} WHERE id = 1 AND stock >= {amount} RETURNING id, name"
                ),
            ),
            Step::Unguarded(amount) => {
                count(connection, &format!("UPDATE item SET stock = stock - {amount} WHERE id = 1"))
            }
            Step::Refill(amount) => {
                count(connection, &format!("UPDATE item SET stock = stock + {amount} WHERE id = 1"))
            }
            Step::Capped(amount) => count(
                connection,
                &format!("UPDATE item SET stock = stock + {amount} WHERE id = 1 AND stock + {amount} <= 20"),
            ),
            Step::Upsert(amount) => count(
                connection,
                &format!(
                    "INSERT INTO item VALUES (1, {amount}, 'new') ON CONFLICT (id) DO UPDATE SET stock = item.stock + excluded.stock"
                ),
            ),
            Step::Read => read(connection, "SELECT stock FROM item WHERE id = 1"),
            Step::Block(amount) => block(connection, amount),
            Step::Function(amount) => read(connection, &format!("SELECT buy({amount})")),
            Step::Checked(amount) => {
                count(connection, &format!("UPDATE checked SET stock = stock + {amount} WHERE id = 1"))
            }
            Step::ReadChecked => read(connection, "SELECT stock FROM checked WHERE id = 1"),
        };
        match done {
            Ok(answer) => Some(answer),
            Err(error) => {
                drop(connection.query("ROLLBACK"));
                match format!("{:?}", error.state()).as_str() {
                    state if state.contains("23514") => Some(vec![VIOLATED]),
                    state if state.contains("40001") || state.contains("40P01") => None,
                    _ => panic!("{self:?}: {error}"),
                }
            }
        }
    }
}

/// The number of rows that a statement has written.
fn affected(result: &StatementResult) -> i64 {
    result.tag.rsplit(' ').next().and_then(|count| count.parse().ok()).expect("a tag with a count")
}

fn read(connection: &mut Connection, text: &str) -> Result<Vec<i64>, SqlError> {
    let results = connection.query(text)?;
    let rows = connection.text_rows(results.last().expect("a result"))?;
    Ok(rows.iter().map(|row| row[0].as_ref().expect("a number").parse().expect("a number")).collect())
}

fn block(connection: &mut Connection, amount: i64) -> Result<Vec<i64>, SqlError> {
    let guarded = format!("UPDATE item SET stock = stock - {amount} WHERE id = 1 AND stock >= {amount}");
    connection.query("BEGIN")?;
    let count = affected(&connection.query(&guarded)?[0]);
    let stock = read(connection, "SELECT stock FROM item WHERE id = 1")?;
    connection.query("COMMIT")?;
    Ok(vec![count, stock[0]])
}

/// Returns true if the remaining transactions can run in some order from one state to another, with these
/// answers.
fn has_order(steps: &[(Step, Answer)], done: u32, state: State, last: State) -> bool {
    if done.count_ones() as usize == steps.len() {
        return state == last;
    }
    steps.iter().enumerate().filter(|(at, _)| done & 1 << at == 0).any(|(at, (step, answer))| {
        let (after, expected) = step.applied(state);
        *answer == Some(expected) && has_order(steps, done | 1 << at, after, last)
    })
}

fn state(connection: &mut Connection) -> State {
    (
        number(connection, "SELECT stock FROM item WHERE id = 1"),
        number(connection, "SELECT stock FROM checked WHERE id = 1"),
    )
}

fn phased() -> Options {
    Options::default().protocol(PhasedOptions::default().phase_milliseconds(1.0))
}

fn label(sql: &Sql, table: &str) {
    let handle = sql.database().table(table).expect("it is there");
    sql.database().split(&handle, key![1], "stock", SplitOperation::ADD).expect("it can be split");
}

#[test]
fn rounds_in_split_phases_have_a_serial_order() {
    let asked = std::env::var("HEDDLE_HOT_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    let rounds: u64 = asked.unwrap_or(2_000);
    let sql = open(phased());
    let mut reader = admin(&sql);
    reader.query(TABLES).expect("made");
    ["item", "checked"].iter().for_each(|table| label(&sql, table));
    let (begin, end) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
    let answers: Vec<Mutex<Option<(Step, Answer)>>> = (0..THREADS).map(|_| Mutex::default()).collect();
    thread::scope(|scope| {
        for (thread, answer) in answers.iter().enumerate() {
            let (begin, end, sql) = (&begin, &end, &sql);
            scope.spawn(move || {
                let mut connection = admin(sql);
                let mut random = 0x5EED + thread as u64 * 977;
                for _ in 0..rounds {
                    begin.wait();
                    let step = Step::any(&mut random);
                    let done = step.run(&mut connection);
                    *answer.lock().expect("no thread has panicked") = Some((step, done));
                    end.wait();
                }
            });
        }
        let mut before = state(&mut reader);
        for round in 0..rounds {
            begin.wait();
            end.wait();
            let taken = answers.iter().filter_map(|answer| answer.lock().expect("as above").take());
            let steps: Vec<(Step, Answer)> = taken.filter(|(_, answer)| answer.is_some()).collect();
            let after = state(&mut reader);
            if !has_order(&steps, 0, before, after) {
                eprintln!("round {round}: no order of {steps:?} leads from {before:?} to {after:?}");
                std::process::abort();
            }
            before = after;
        }
    });
    let split = number(&mut reader, "SELECT value FROM heddle_stats WHERE name = 'phases_split'");
    assert!(split > 0, "nothing was ever split");
}

#[test]
fn one_by_one_every_protocol_does_what_the_model_does() {
    for &protocol in ProtocolKind::ALL {
        let sql = open(Options::default().protocol(protocol));
        let mut connection = admin(&sql);
        connection.query(TABLES).expect("made");
        let (mut random, mut now) = (17, (0, 0));
        for number in 0..300 {
            let step = Step::any(&mut random);
            let (after, expected) = step.applied(now);
            assert_eq!(
                step.run(&mut connection),
                Some(expected),
                "{protocol:?}: {number}, {step:?} of {now:?}"
            );
            assert_eq!(state(&mut connection), after, "{protocol:?}: {number}, {step:?} of {now:?}");
            now = after;
        }
    }
}

/// Sells from eight connections until nothing is left. How many were sold.
fn sell(sql: &Sql, statement: &str, stock: i64) -> u64 {
    let sold = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut connection = admin(sql);
                let mut refused = 0;
                while refused < 3 {
                    match connection.query(statement) {
                        Ok(results) if affected(&results[0]) == 1 => {
                            sold.fetch_add(1, Ordering::Relaxed);
                            assert_eq!(refused, 0, "nothing is sold after it was sold out");
                        }
                        Ok(_) => refused += 1,
                        Err(error) if format!("{:?}", error.state()).contains("23514") => refused += 1,
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    let left = rows(&mut admin(sql), "SELECT (SELECT stock FROM item), (SELECT stock FROM checked)");
    assert!(left[0].iter().any(|left| left == "0") && !left[0].iter().any(|left| left.starts_with('-')));
    assert!(sold.load(Ordering::Relaxed) as i64 <= stock);
    sold.into_inner()
}

#[test]
fn a_sale_sells_exactly_what_there_is_under_every_protocol() {
    for &protocol in ProtocolKind::ALL {
        let options = match protocol {
            ProtocolKind::Phased => phased(),
            other => Options::default().protocol(other),
        };
        let sql = open(options);
        let mut connection = admin(&sql);
        connection.query(TABLES).expect("made");
        connection.query("UPDATE item SET stock = 400; UPDATE checked SET stock = 400").expect("filled");
        if protocol == ProtocolKind::Phased {
            ["item", "checked"].iter().for_each(|table| label(&sql, table));
        }
        let guarded = "UPDATE item SET stock = stock - 1 WHERE id = 1 AND stock >= 1";
        assert_eq!(sell(&sql, guarded, 400), 400, "{protocol:?}");
        let checked = "UPDATE checked SET stock = stock - 1 WHERE id = 1";
        assert_eq!(sell(&sql, checked, 400), 400, "{protocol:?}");
    }
}

/// The answer of one guarded UPDATE in the open block of a connection.
fn takes(connection: &mut Connection, statement: &str) -> i64 {
    affected(&connection.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"))[0])
}

#[test]
fn blocks_with_guards_do_not_wait_and_prove_them_again_at_commit() {
    for &protocol in ProtocolKind::ALL {
        let sql = open(Options::default().protocol(protocol));
        let (mut first, mut second) = (admin(&sql), admin(&sql));
        first.query(TABLES).expect("made");
        let guarded = "UPDATE item SET stock = stock - 2 WHERE id = 1 AND stock >= 2";
        let checked = "UPDATE checked SET stock = stock - 2 WHERE id = 1";
        for (statement, stock) in [(guarded, 4), (guarded, 3), (checked, 4), (checked, 3)] {
            first
                .query(&format!("UPDATE item SET stock = {stock}; UPDATE checked SET stock = {stock}"))
                .expect("filled");
            for connection in [&mut first, &mut second] {
                connection.query("BEGIN").expect("begun");
                assert_eq!(takes(connection, statement), 1, "{protocol:?}: nobody waits");
            }
            first.query("COMMIT").expect("it is the first");
            let proven = second.query("COMMIT").map(drop);
            if stock == 4 {
                proven.unwrap_or_else(|error| panic!("{protocol:?}: there were enough for both: {error}"));
                continue;
            }
            let error = proven.expect_err("there was enough for one");
            assert_eq!(error.state().as_str(), "40001", "{protocol:?}: {error}");
            drop(second.query("ROLLBACK"));
            second.query("BEGIN").expect("begun");
            match second.query(statement) {
                Ok(results) => assert_eq!((affected(&results[0]), statement), (0, guarded), "{protocol:?}"),
                Err(error) => {
                    assert_eq!((error.state().as_str(), statement), ("23514", checked), "{protocol:?}")
                }
            }
            drop(second.query("ROLLBACK"));
        }
        let left = rows(&mut first, "SELECT (SELECT stock FROM item), (SELECT stock FROM checked)");
        assert_eq!(left, [["3", "1"]], "{protocol:?}: the other one was filled last");
    }
}

#[test]
fn a_block_sees_what_is_left_after_its_own_guarded_updates() {
    let sql = open(Options::default());
    let mut connection = admin(&sql);
    connection.query(TABLES).expect("made");
    connection.query("UPDATE item SET stock = 5; BEGIN").expect("filled");
    let guarded = "UPDATE item SET stock = stock - 2 WHERE id = 1 AND stock >= 2";
    let counts: Vec<i64> = (0..4).map(|_| takes(&mut connection, guarded)).collect();
    assert_eq!(counts, [1, 1, 0, 0]);
    assert_eq!(number(&mut connection, "SELECT stock FROM item"), 1);
    connection.query("COMMIT").expect("committed");
    assert_eq!(number(&mut connection, "SELECT stock FROM item"), 1);
}

#[test]
fn what_is_sold_in_blocks_is_exact() {
    for protocol in [ProtocolKind::Optimistic, ProtocolKind::Phased] {
        let sql = open(if protocol == ProtocolKind::Phased {
            phased()
        } else {
            Options::default().protocol(protocol)
        });
        let mut connection = admin(&sql);
        connection.query(TABLES).expect("made");
        connection.query("UPDATE item SET stock = 200").expect("filled");
        if protocol == ProtocolKind::Phased {
            label(&sql, "item");
        }
        let sold = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let mut connection = admin(&sql);
                    loop {
                        let block =
                            "BEGIN; UPDATE item SET stock = stock - 1 WHERE id = 1 AND stock >= 1; COMMIT";
                        match connection.query(block) {
                            Ok(results) if affected(&results[1]) == 1 => {
                                sold.fetch_add(1, Ordering::Relaxed);
                            }
                            Ok(_) => return,
                            Err(error) => {
                                assert_eq!(error.state().as_str(), "40001", "{error}");
                                drop(connection.query("ROLLBACK"));
                            }
                        }
                    }
                });
            }
        });
        assert_eq!(sold.into_inner(), 200, "{protocol:?}");
        assert_eq!(number(&mut connection, "SELECT stock FROM item"), 0, "{protocol:?}");
    }
}
