//! Calls of functions with derived footprints: the same results as without them, under every protocol; locks in order; accesses
//! that are not declared; changes of the schema.

use std::thread;

use crate::support::calls::{answer, connect, database, run};
use heddle_sql::{Connection, Sql};
use heddledb::{Database, Durability, Options, ProtocolKind, ScheduleKind, ScheduleOptions, Statistics};

const BANK: &str = "
    create table account (id int primary key, n int not null, note text);
    create table posting (account int references account, number int, amount int, primary key (account, number));
    create table person (id int primary key, code text unique, account int);
    insert into account select i, 100, '' from generate_series(0, 15) i;
    insert into person select i, 'c' || i, i from generate_series(0, 15) i;
    create function transfer(a int, b int, amount int) returns int language plpgsql as $$
    declare
        rest int;
    begin
        update account set n = n - amount where id = a returning n into rest;
        if rest < 0 then
            raise exception 'account % has too little', a;
        end if;
        update account set n = n + amount where id = b;
        return rest;
    end $$;
    create function pay_in(ids int[], amount int) returns void language plpgsql as $$
    declare
        e int;
    begin
        foreach e in array ids loop
            update account set n = n + amount where id = e;
        end loop;
    end $$;
    create procedure post(a int, k int, x int) language sql as $$
        insert into posting values (a, k, x);
        update account set n = n + x where id = a;
    $$;
    create function of_person(c text, x int) returns text language plpgsql as $$
    declare
        found_id int;
        whose int;
    begin
        select id into found_id from person where code = c;
        if not found then
            return 'nobody';
        end if;
        update person set account = account + 0 where id = found_id returning account into whose;
        return whose + x;
    end $$;
    create function caught(a int, k int) returns text language plpgsql as $$
    begin
        begin
            insert into posting values (a, k, 1);
            update account set note = 'posted' where id = a;
        exception
            when unique_violation then
                update account set note = 'twice' where id = a;
                return 'twice';
            when foreign_key_violation then
                return 'unknown';
        end;
        return 'once';
    end $$;
    create function numbers(a int) returns table (number int, amount int) language sql as $$
        select number, amount from posting where account = a order by 1
    $$;
";

/// Calls, some of which fail.
fn calls() -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(16);
    let mut calls = Vec::new();
    for _ in 0..40 {
        let (a, b, x) = (random.i32(0..18), random.i32(0..16), random.i32(-60..90));
        calls.extend([
            format!("select transfer({a}, {b}, {x})"),
            format!("select pay_in(array[{a}, {b}, {b}], {x})"),
            format!("call post({a}, {b}, {x})"),
            format!("select of_person('c{a}', {x})"),
            format!("select caught({a}, {b})"),
            format!("select * from numbers({a})"),
        ]);
    }
    calls.push("select transfer(null, 3, 1)".to_string());
    calls.push("select pay_in(null, 1)".to_string());
    calls.push("select transfer(1, 1, 5)".to_string());
    calls.push("select transfer(1, 2, (random() * 0)::int)".to_string());
    calls
}

const TABLES: &str =
    "select * from account order by 1; select * from posting order by 1, 2; select * from person order by 1";

#[test]
fn results_are_the_same_with_and_without_footprints_under_every_protocol() {
    let calls = calls();
    let mut expected: Option<Vec<String>> = None;
    for &protocol in ProtocolKind::ALL {
        for derives in [true, false] {
            let sql = Sql::new(&database(protocol)).expect("SQL");
            let mut connection = connect(&sql, derives);
            run(&mut connection, BANK);
            let mut answers: Vec<String> = calls.iter().map(|call| answer(&mut connection, call)).collect();
            answers.extend(TABLES.split(';').map(|query| answer(&mut connection, query)));
            let expected = expected.get_or_insert_with(|| answers.clone());
            for ((call, found), wanted) in calls.iter().zip(&answers).zip(&*expected) {
                assert_eq!(found, wanted, "{protocol}, derived {derives}: {call}");
            }
            assert_eq!(&answers, expected, "{protocol}, derived {derives}");
        }
    }
}

/// The change of the statistics while a statement runs.
fn counted(database: &Database, connection: &mut Connection, statement: &str) -> Statistics {
    let before = database.statistics();
    run(connection, statement);
    database.statistics() - before
}

#[test]
fn a_lookup_that_finds_another_row_by_then_runs_the_call_as_a_closure() {
    for &protocol in ProtocolKind::ALL {
        let database = database(protocol);
        let sql = Sql::new(&database).expect("SQL");
        let mut connection = connect(&sql, true);
        run(&mut connection, BANK);
        run(
            &mut connection,
            "create function moved(p int, c text, to_account int) returns int language plpgsql as $$
             declare a int;
             begin
                 update person set account = to_account where id = p;
                 select account into a from person where code = c;
                 update account set n = n + 1 where id = a;
                 return a;
             end $$",
        );
        let counts = counted(&database, &mut connection, "select moved(3, 'c3', 7)");
        // Where a footprint changes how the call runs: the lookup ahead, the call that fails, and the closure.
        let declared = u64::from(database.uses_footprints());
        assert_eq!((counts.failed, counts.committed), (declared, 1 + declared), "{protocol}");
        assert_eq!(answer(&mut connection, "select n from account where id = 7"), "Some([[Some(\"101\")]])");
    }
}

/// Functions whose keys depend on rows that they read.
const THROUGH: &str = "
    create function through(p int) returns int language plpgsql as $$
    declare
        a int;
    begin
        select account into a from person where id = p;
        update account set n = n + 1 where id = a;
        return a;
    end $$;
    create function moved_through(p int, to_account int) returns int language plpgsql as $$
    declare
        a int;
    begin
        update person set account = to_account where id = p;
        select account into a from person where id = p;
        update account set n = n + 1 where id = a;
        return a;
    end $$;
";

#[test]
fn a_row_that_a_key_depends_on_is_read_ahead() {
    for &protocol in ProtocolKind::ALL {
        let database = database(protocol);
        let sql = Sql::new(&database).expect("SQL");
        let mut connection = connect(&sql, true);
        run(&mut connection, BANK);
        run(&mut connection, THROUGH);
        let declared = u64::from(database.uses_footprints());
        let counts = counted(&database, &mut connection, "select through(3)");
        assert_eq!((counts.failed, counts.committed), (0, 1 + declared), "{protocol}");
        // What is read ahead is another row when the body reads it.
        let counts = counted(&database, &mut connection, "select moved_through(3, 7)");
        assert_eq!((counts.failed, counts.committed), (declared, 1 + declared), "{protocol}");
        let found = answer(&mut connection, "select id, n from account where n > 100 order by id");
        assert_eq!(found, "Some([[Some(\"3\"), Some(\"101\")], [Some(\"7\"), Some(\"101\")]])", "{protocol}");
        assert_eq!(answer(&mut connection, "select through(99)"), "Some([[None]])", "{protocol}");
    }
}

#[test]
fn rows_read_ahead_may_change_before_the_call() {
    const CALLS: i32 = 60;
    for &protocol in ProtocolKind::ALL {
        let sql = Sql::new(&database(protocol)).expect("SQL");
        let mut connection = connect(&sql, true);
        run(&mut connection, BANK);
        run(&mut connection, THROUGH);
        thread::scope(|scope| {
            for number in 0..4 {
                let mut connection = connect(&sql, true);
                scope.spawn(move || {
                    for call in 0..CALLS {
                        run(&mut connection, &format!("select through({})", call % 2));
                        let to = (call + number) % 16;
                        run(
                            &mut connection,
                            &format!("update person set account = {to} where id = {}", call % 2),
                        );
                    }
                });
            }
        });
        let total = answer(&mut connection, "select sum(n) from account");
        assert_eq!(total, format!("Some([[Some(\"{}\")]])", 1_600 + 4 * CALLS), "{protocol}");
    }
}

#[test]
fn a_call_whose_check_reads_what_is_not_derived_runs_as_a_closure() {
    for &protocol in ProtocolKind::ALL {
        let database = database(protocol);
        let sql = Sql::new(&database).expect("SQL");
        let mut connection = connect(&sql, true);
        // The argument of the check's function is not known before the row is.
        run(&mut connection, "
            create table bound (id int primary key, most int);
            insert into bound values (1, 10);
            create function most(i int) returns int language sql stable as 'select most from bound where id = i';
            create table item (id int primary key, n int check (n <= most(1)));
            insert into item values (1, 1), (2, 2);
            create function put(i int, x int) returns int language plpgsql as $$
            declare m int;
            begin
                begin
                    update item set n = x where id = i returning n into m;
                exception when check_violation then
                    return -1;
                end;
                return m;
            end $$;
        ");
        let counts = counted(&database, &mut connection, "select put(1, 7)");
        assert_eq!((counts.failed, counts.committed), (0, 1), "{protocol}: a closure from the beginning");
        assert_eq!(answer(&mut connection, "select put(2, 11)"), "Some([[Some(\"-1\")]])", "{protocol}");
        assert_eq!(
            answer(&mut connection, "select n from item order by id"),
            "Some([[Some(\"7\")], [Some(\"2\")]])",
            "{protocol}"
        );
        run(&mut connection, "set heddle.derive_footprints = off");
        let counts = counted(&database, &mut connection, "select put(1, 8)");
        assert_eq!((counts.failed, counts.committed), (0, 1), "{protocol}");
    }
}

#[test]
fn calls_are_declared_where_a_footprint_changes_how_they_run() {
    use ProtocolKind::{Locking, Optimistic, Partitioned, Phased, Serial};
    let uses = |protocol| database(protocol).uses_footprints();
    assert!(uses(Serial) && uses(Locking) && uses(Partitioned));
    assert!(!uses(Optimistic) && !uses(Phased));
    let schedules = [ScheduleOptions::partition_by("id"), ScheduleKind::Predict.into()];
    for schedule in schedules {
        let options = Options::default().durability(Durability::None).workers(2).schedule(schedule);
        let database = Database::in_memory_with(options).expect("a database in memory");
        assert!(database.uses_footprints());
    }
}

#[test]
fn executors_lock_the_keys_that_calls_declare() {
    let database = database(ProtocolKind::Partitioned);
    let sql = Sql::new(&database).expect("SQL");
    let mut connection = connect(&sql, true);
    run(&mut connection, BANK);
    // Registers the function.
    run(&mut connection, "select pay_in(array[1], 1)");
    let counts = counted(&database, &mut connection, "select pay_in(array[1, 2, 3], 1)");
    assert_eq!((counts.committed, counts.lock_requests_local), (1, 3));
    let counts = counted(&database, &mut connection, "call post(4, 1, 1)");
    assert_eq!(counts.committed, 1);
    assert!(counts.lock_requests_local >= 2, "{}", counts.lock_requests_local);
}

/// Transfers by several threads at once. How the statistics changed.
fn transfers(protocol: ProtocolKind) -> Statistics {
    let database = database(protocol);
    let sql = Sql::new(&database).expect("SQL");
    let mut connection = connect(&sql, true);
    run(&mut connection, BANK);
    run(&mut connection, "update account set n = 1000000");
    run(&mut connection, "select transfer(0, 1, 0)");
    let before = database.statistics();
    thread::scope(|scope| {
        for number in 0..4 {
            let mut connection = connect(&sql, true);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(number);
                for _ in 0..100 {
                    let (a, b) = (random.i32(0..4), random.i32(0..4));
                    run(&mut connection, &format!("select transfer({a}, {b}, 3)"));
                }
            });
        }
    });
    let counts = database.statistics() - before;
    let total = answer(&mut connection, "select sum(n) from account");
    assert_eq!(total, "Some([[Some(\"16000000\")]])", "{protocol}");
    counts
}

#[test]
fn concurrent_calls_keep_the_total_under_every_protocol() {
    for &protocol in ProtocolKind::ALL {
        transfers(protocol);
    }
}

#[test]
fn calls_that_declare_all_keys_never_deadlock_under_locking() {
    assert_eq!(transfers(ProtocolKind::Locking).aborted, 0);
}

#[test]
fn a_footprint_is_derived_again_after_a_change_of_the_schema() {
    for &protocol in ProtocolKind::ALL {
        let sql = Sql::new(&database(protocol)).expect("SQL");
        let (mut connection, mut other) = (connect(&sql, true), connect(&sql, true));
        run(&mut connection, BANK);
        let call = "select transfer(1, 2, 10)";
        assert_eq!(answer(&mut connection, call), "Some([[Some(\"90\")]])", "{protocol}");
        run(&mut other, "alter table account add column more int default 5, drop column note");
        assert_eq!(answer(&mut connection, call), "Some([[Some(\"80\")]])", "{protocol}");
        run(
            &mut other,
            "create or replace function transfer(a int, b int, amount int) returns int language sql as \
            'update account set n = n + amount where id = b returning n'",
        );
        assert_eq!(answer(&mut connection, call), "Some([[Some(\"130\")]])", "{protocol}");
        run(
            &mut other,
            "drop table posting; drop table account; create table account (n int, id int primary key); \
            insert into account values (1, 2)",
        );
        assert_eq!(answer(&mut connection, call), "Some([[Some(\"11\")]])", "{protocol}");
    }
}

#[test]
fn inside_a_block_calls_belong_to_the_blocks_transaction() {
    for &protocol in ProtocolKind::ALL {
        let sql = Sql::new(&database(protocol)).expect("SQL");
        let mut connection = connect(&sql, true);
        run(&mut connection, BANK);
        run(&mut connection, "begin; select transfer(1, 2, 10); select transfer(2, 1, 4); rollback");
        assert_eq!(answer(&mut connection, "select n from account where id = 1"), "Some([[Some(\"100\")]])");
        run(&mut connection, "begin; select transfer(1, 2, 10); commit");
        assert_eq!(answer(&mut connection, "select n from account where id = 1"), "Some([[Some(\"90\")]])");
    }
}
