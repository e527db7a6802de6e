//! Derived footprints: the flow graphs of the papers' transactions, as EXPLAIN FUNCTION shows them. `HEDDLE_WRITE_DOCS=1` writes
//! the expected ones.

use heddle_sql::{ConnectOptions, Connection, Sql};
use heddle_workloads::Workload;
use heddledb::{Database, Durability, Options, ProtocolKind};

/// The workloads' functions, and those that are explained.
const WORKLOADS: [(&str, &str, &[&str]); 4] = [
    ("debit-credit", include_str!("../../../workloads/sql/debit-credit.sql"), &["debit_credit", "tpc_b"]),
    (
        "smallbank",
        include_str!("../../../workloads/sql/smallbank.sql"),
        &["amalgamate", "balance", "deposit_checking", "transact_savings", "write_check"],
    ),
    (
        "tatp",
        include_str!("../../../workloads/sql/tatp.sql"),
        &[
            "get_subscriber_data",
            "get_new_destination",
            "get_access_data",
            "update_subscriber_data",
            "update_location",
            "insert_call_forwarding",
            "delete_call_forwarding",
        ],
    ),
    (
        "tpcc",
        include_str!("../../../workloads/sql/tpcc.sql"),
        &["new_order", "payment", "order_status", "delivery", "stock_level"],
    ),
];

fn in_memory() -> Database {
    Database::in_memory_with(Options::default().durability(Durability::None)).expect("a database in memory")
}

fn connect(database: &Database) -> Connection {
    let options = ConnectOptions { user: "postgres".into(), is_superuser: true, database: "postgres".into() };
    Sql::new(database).expect("SQL").connect(options).expect("a connection")
}

fn explained(connection: &mut Connection, statement: &str) -> String {
    let results = connection.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    let rows = results.last().map(|result| connection.text_rows(result).expect("texts")).unwrap_or_default();
    rows.into_iter().flatten().map(|text| text.unwrap_or_default() + "\n").collect()
}

/// A small database of a workload, with its functions.
fn loaded(name: &str, database: &Database) -> Connection {
    let workload: Box<dyn Workload> = match name {
        "debit-credit" => {
            use heddle_workloads::debit_credit::DebitCredit;
            Box::new(DebitCredit { branches: 2, accounts_per_branch: 20, ..DebitCredit::default() })
        }
        "smallbank" => {
            use heddle_workloads::smallbank::SmallBank;
            Box::new(SmallBank { accounts: 20, hot: 0, ..SmallBank::default() })
        }
        "tatp" => {
            use heddle_workloads::tatp::Tatp;
            Box::new(Tatp { subscribers: 20, ..Tatp::default() })
        }
        _ => {
            use heddle_workloads::tpcc::Tpcc;
            Box::new(Tpcc { items: 40, customers: 20, home: false, ..Tpcc::default() })
        }
    };
    workload.load(database).expect("rows");
    let mut connection = connect(database);
    let functions = WORKLOADS.iter().find(|(known, ..)| *known == name).map_or("", |(_, text, _)| text);
    connection.query(functions).expect("functions");
    connection
}

/// The lines without the catalog's generation, which depends on what was created before.
fn without_generation(text: &str) -> String {
    let line = |line: &str| match line.split_once(", for generation ") {
        Some((before, _)) => format!("{before}\n"),
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

#[test]
fn flow_graphs_of_the_papers_transactions_are_as_expected() {
    let mut found = String::new();
    for (name, _, functions) in WORKLOADS {
        let database = in_memory();
        let mut connection = loaded(name, &database);
        for function in functions {
            let text = explained(&mut connection, &format!("explain function {function}"));
            found.push_str(&without_generation(&text));
            found.push('\n');
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/integration/footprints.txt");
    if std::env::var_os("HEDDLE_WRITE_DOCS").is_some() {
        std::fs::write(path, &found).expect("the expected file");
    }
    let expected = std::fs::read_to_string(path).expect("the expected file");
    assert_eq!(found, expected, "run with HEDDLE_WRITE_DOCS=1 if this is meant to be");
}

fn run(connection: &mut Connection, statements: &str) {
    if let Err(error) = connection.query(statements) {
        panic!("{statements}: {error}");
    }
}

const SCHEMA: &str = "
    create table parent (id int primary key, n int not null);
    create table child (id int, part int, parent int references parent, n int, primary key (id, part));
    create table unnamed (n int);
    create table watched (id int primary key, n int);
    create function watch() returns trigger language plpgsql as $$ begin new.id := new.id + 1; return new; end $$;
    create trigger watch before update on watched for each row execute function watch();
";

/// The output of EXPLAIN for a function with this body.
fn of_body(connection: &mut Connection, arguments: &str, body: &str) -> String {
    run(
        connection,
        &format!(
            "drop function if exists f; create function f({arguments}) returns void language plpgsql as $$ {body} $$"
        ),
    );
    without_generation(&explained(connection, "explain function f"))
}

#[test]
fn what_cannot_be_derived_is_shown_with_its_reason() {
    let mut connection = connect(&in_memory());
    run(&mut connection, SCHEMA);
    let cases = [
        ("execute 'delete from parent';", "EXECUTE makes its statement when it runs"),
        ("insert into unnamed values (a);", "table unnamed has no primary key"),
        ("update watched set n = 1 where id = a;", "trigger watch may change the key column id"),
        ("update parent set n = n + 1;", "no part of the key of parent is given"),
        ("update parent set n = 1 where n = a;", "no part of the key of parent is given"),
        ("delete from parent where id = a;", "rows of child may refer to what is changed"),
        ("update parent set id = 1 where id = a;", "rows of child may refer to what is changed"),
        ("update parent set n = 1 where id = (select max(part) from child);", "it has a subquery"),
        ("update parent set n = 1 where id = (random() * 10)::int;", "no part of the key of parent is given"),
        ("perform endless(a);", "line 1: in endless(), line 1: endless() leads to itself"),
        ("perform hidden(a);", "line 1: in hidden(), line 1: no part of the key of parent is given"),
        ("update parent set n = 1 where id = (select max(n) from parent); ", "it has a subquery"),
        (
            "insert into parent select n, n from child where id = a;",
            "the key of parent depends on a column of another row",
        ),
        (
            "declare b int; begin update parent set n = n where id = a returning n into b; update parent set n = 0 where id = b; end;",
            "the key of parent depends on the result of line 1",
        ),
        (
            "declare b int; begin b := (select n from parent where id = a); update parent set n = 0 where id = b; end;",
            "the key of parent depends on the result of line 1",
        ),
        (
            "declare r record; begin for r in select n from parent where id = a loop update parent set n = 0 where id = r.n; end loop; end;",
            "the key of parent depends on the rows of line 1",
        ),
        (
            "declare b int := a; begin while b < 9 loop update parent set n = 0 where id = b; b := b + 1; end loop; end;",
            "the key of parent depends on a loop",
        ),
        (
            "declare b int := a; begin b := b + random()::int; update parent set n = 0 where id = b; end;",
            "the key of parent depends on random(), which is not immutable",
        ),
        (
            "declare c cursor for select n from parent; begin open c; close c; end;",
            "cursors are not looked into",
        ),
        (
            "declare b int := 1; begin begin b := a; exception when others then null; end; \
          update parent set n = 0 where id = b; end;",
            "the key of parent depends on a block with EXCEPTION",
        ),
    ];
    run(
        &mut connection,
        "create function endless(a int) returns int language plpgsql as $$ begin return endless(a - 1); end $$;
        create function hidden(a int) returns bigint language sql as $$ select sum(n) from parent $$",
    );
    for (statements, reason) in cases {
        let text = of_body(&mut connection, "a int", &format!("begin {statements} end"));
        assert!(text.contains(reason), "{statements}\n{text}");
        assert!(text.contains("Footprint: not derived, so it runs as a closure"), "{statements}\n{text}");
    }
}

#[test]
fn keys_follow_assignments_branches_loops_and_constraints() {
    let mut connection = connect(&in_memory());
    run(&mut connection, SCHEMA);
    let cases: [(&str, &str, &[&str]); 7] = [
        (
            "a int, b int",
            "declare c int; begin select n into c from parent where id = a; update parent set n = b where id = c; end",
            &["line 1: read parent (id = a), read ahead", "Phase 2", "line 1: write parent (id = c)"],
        ),
        (
            "a int, b int",
            "declare c int := a + 1; begin c := c * 2; update parent set n = n + 1 where id = c; end",
            &["line 1: commute parent (id = c), changing n"],
        ),
        (
            "a int, b int",
            "begin if a > b then update parent set n = 1 where id = a; else perform 1 from parent where id = b; end if; end",
            &["line 1: write parent (id = a)", "line 1: read parent (id = b)"],
        ),
        (
            "a int[], b int",
            "declare e int; begin foreach e in array a loop insert into child values (e, b, b, 0); end loop; end",
            &["write child (id = e, part = b), repeated", "read parent (id = b), repeated, for foreign key"],
        ),
        (
            "a int[], b int",
            "begin perform sum(n) from parent where id = any(a); end",
            &["read parent (id = each of a), repeated"],
        ),
        (
            "a int, b int",
            "declare r record; begin select * into r from parent where id = a; \
             perform 1 from child where id = b and part = r.n; end",
            &["Phase 2", "read child (id = b); the rest of the key: the result of line 1"],
        ),
        (
            "a int, b int",
            "declare r parent; begin for i in a..b loop select * into r from parent where id = i for update; end loop; end",
            &["write parent (id = i), repeated"],
        ),
    ];
    for (arguments, body, lines) in cases {
        let text = of_body(&mut connection, arguments, body);
        assert!(text.contains("Footprint: derived"), "{body}\n{text}");
        for line in lines {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}

#[test]
fn a_footprint_names_the_catalogs_generation_and_follows_the_schema() {
    let mut connection = connect(&in_memory());
    run(&mut connection, SCHEMA);
    run(
        &mut connection,
        "create procedure p(a int) language sql as $$ update parent set n = n + a where id = a $$",
    );
    let before = explained(&mut connection, "explain procedure p(int)");
    assert!(before.contains("Procedure p(integer)\nFootprint: derived, for generation "), "{before}");
    assert!(before.contains("line 1: commute parent (id = a), changing n"), "{before}");
    run(&mut connection, "alter table parent add check (n <> 7)");
    let after = explained(&mut connection, "explain routine p");
    assert!(after.contains("line 1: write parent (id = a)"), "{after}");
    assert_ne!(before.lines().nth(1), after.lines().nth(1));
    let missing = connection.query("explain function p").expect_err("it is a procedure");
    assert_eq!(missing.state().as_str(), "42809", "{missing}");
    run(&mut connection, "alter table parent drop column n cascade");
    let broken = explained(&mut connection, "explain procedure p");
    assert!(broken.contains("column \"n\""), "{broken}");
}

#[test]
fn calls_of_one_warehouse_use_one_executor() {
    let options =
        Options::default().durability(Durability::None).workers(4).protocol(ProtocolKind::Partitioned);
    let database = Database::in_memory_with(options).expect("a database in memory");
    let mut connection = loaded("tpcc", &database);
    let order = |w: i32, d: i32| {
        format!(
            "select new_order({w}, {d}, 3, array[1, 2, 3, 3], array[{w}, {w}, {w}, {w}], array[1, 2, 3, 4], now())"
        )
    };
    let payment = |w: i32, sequence: i32, customer: &str| {
        format!("select payment({w}, 2, {w}, 2, {customer}, 7.5, '2026-11-23 00:00:00+00', 77, {sequence})")
    };
    // Plans and registers the functions.
    run(&mut connection, &format!("select length({}::text)", "now()"));
    run(&mut connection, &payment(1, 0, "1, null"));
    for number in 1..40 {
        let (w, d) = (1 + number % 2, 1 + number % 10);
        for call in [order(w, d).replace("now()", "'2026-11-23 00:00:00+00'"), payment(w, number, "4, null")]
        {
            let before = database.statistics();
            run(&mut connection, &call);
            let counts = database.statistics() - before;
            assert_eq!((counts.failed, counts.execute_batches.1), (0, 1), "{call}");
        }
    }
}
