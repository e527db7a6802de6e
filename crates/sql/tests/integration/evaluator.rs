//! Tables with rules that only SQL evaluates: with SQL every transaction of the engine's keeps them, and without it the engine
//! refuses to write such a table.

use heddle_sql::{ConnectOptions, Connection, Sql};
use std::sync::atomic::{AtomicBool, Ordering};

use heddledb::{
    Action, Database, Error, Options, ProcedureDefinition, ProtocolKind, Range, Table, TableDefinition, Tx,
    args, key, row,
};

/// Tables with one kind of rule each, and one without any.
const RULED: [(&str, &str); 6] = [
    ("checked", "create table checked (id bigint primary key, n bigint check (n % 2 = 0))"),
    (
        "generated",
        "create table generated (id bigint primary key, n bigint generated always as (id * 2) stored)",
    ),
    ("parent", "create table parent (id bigint primary key, n bigint)"),
    ("child", "create table child (id bigint primary key, n bigint references parent)"),
    ("triggered", "create table triggered (id bigint primary key, n bigint)"),
    ("indexed", "create table indexed (id bigint primary key, n bigint)"),
];

const LATER: [&str; 4] = [
    "create table plain (id bigint primary key, n bigint)",
    "create function odd() returns trigger language plpgsql as 'begin new.n := 7; return new; end'",
    "create trigger t before insert on triggered for each row execute function odd()",
    "create index on indexed ((n + 1))",
];

fn connect(sql: &Sql) -> Connection {
    sql.connect(ConnectOptions::default()).expect("a connection")
}

fn run(connection: &mut Connection, statements: &[&str]) {
    for statement in statements {
        connection.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

fn make(sql: &Sql) {
    let mut connection = connect(sql);
    run(&mut connection, &RULED.map(|(_, statement)| statement));
    run(&mut connection, &LATER);
}

fn refused<T: std::fmt::Debug>(what: &str, result: heddledb::Result<T>) {
    match result {
        Err(error @ Error::NeedsEvaluator { .. }) => {
            let text = error.to_string();
            assert!(text.contains("SQL") && text.contains(what), "{text}");
            assert_eq!(error.sqlstate(), "55000");
        }
        other => panic!("{what}: {other:?}"),
    }
}

/// Every way to write a row of a table is refused, and reads are not.
fn refuses_every_write(db: &Database, table: &Table) {
    let name = table.name().to_string();
    refused(&name, db.run(|tx| tx.insert(table, row![50, 1])));
    refused(&name, db.run(|tx| tx.update(table, key![1], &[("n", 1.into())])));
    refused(&name, db.run(|tx| tx.add(table, key![1], "n", 1)));
    refused(&name, db.run(|tx| tx.delete(table, key![1])));
    let mut session = db.session().expect("a session");
    session.begin().expect("begun");
    refused(&name, session.run(|tx| tx.insert(table, row![51, 1])));
    session.commit().expect("nothing was written");
    let add =
        Action::commute(table).key(|args, key| key.push(args.int(0)?)).body(|action| action.add("n", 1));
    let set = Action::write(table)
        .key(|args, key| key.push(args.int(0)?))
        .body(|action| action.update(&[("n", 1.into())]));
    let delete = Action::write(table)
        .key(|args, key| key.push(args.int(0)?))
        .body(|action| action.delete().map(|_| ()));
    for (number, action) in [add, set, delete].into_iter().enumerate() {
        let definition = ProcedureDefinition::new(format!("{name} {number}"))
            .parameter("id", heddledb::DataType::Int64)
            .phase([action]);
        let procedure = db.register(definition).expect("a procedure");
        refused(&name, db.call(&procedure, args![1]));
    }
    db.run(|tx| tx.get(table, key![1]).map(|_| ())).expect("it can be read");
}

#[test]
fn without_sql_nothing_writes_tables_with_rules() {
    for &protocol in ProtocolKind::ALL {
        let directory = tempfile::tempdir().expect("a directory");
        let open = || Database::open(directory.path(), Options::default().protocol(protocol).workers(2));
        let db = open().expect("a database");
        let sql = Sql::new(&db).expect("SQL");
        make(&sql);
        for (name, _) in RULED {
            let table = db.table(name).expect("a table");
            assert_eq!(table.definition().needed_evaluator(), Some("SQL"), "{protocol}, {name}");
        }
        let checked = db.table("checked").expect("a table");
        db.run(|tx| tx.insert(&checked, row![1, 2])).expect("SQL evaluates its rules");
        let connection = connect(&sql);
        drop(sql);
        db.run(|tx| tx.insert(&checked, row![2, 2])).expect("a connection is enough");
        drop(connection);
        refuses_every_write(&db, &checked);
        db.close().expect("closed");
        let db = open().expect("a database");
        for (name, _) in RULED.iter().filter(|(name, _)| *name != "indexed") {
            refuses_every_write(&db, &db.table(name).expect("a table"));
        }
        let indexed = db.table("indexed").expect("a table");
        refused("indexed", db.run(|tx| tx.delete(&indexed, key![1])));
        db.run(|tx| tx.insert(&db.table("plain")?, row![9, 1])).expect("it has no such rules");
        let rows = db.run(|tx| Ok(tx.scan(&db.table("checked")?, Range::all())?.count()));
        assert_eq!(rows, Ok(2), "{protocol}");
    }
}

/// The interface through which a program writes a row of a table `(id bigint primary key, n bigint, …)`.
#[derive(Clone, Copy, Debug)]
enum Through {
    Closure,
    Session,
    Procedure,
}

/// One write of such a row, by its key.
#[derive(Clone, Copy, Debug)]
enum Write {
    Insert(i64, i64),
    Set(i64, i64),
    Add(i64, i64),
    Delete(i64),
}

fn write(db: &Database, table: &Table, through: Through, write: Write) -> heddledb::Result<()> {
    let insert =
        |tx: &Tx<'_, '_>, id: i64, n: i64| tx.insert_columns(table, &[("id", id.into()), ("n", n.into())]);
    let body = |tx: &Tx<'_, '_>| match write {
        Write::Insert(id, n) => insert(tx, id, n),
        Write::Set(id, n) => tx.update(table, key![id], &[("n", n.into())]),
        Write::Add(id, n) => tx.add(table, key![id], "n", n),
        Write::Delete(id) => tx.delete(table, key![id]).map(|_| ()),
    };
    match through {
        Through::Closure => db.run(body),
        Through::Session => {
            let mut session = db.session()?;
            session.begin()?;
            session.run(body)?;
            session.commit()
        }
        Through::Procedure => {
            let (Write::Insert(id, n) | Write::Set(id, n) | Write::Add(id, n)) = write else {
                return call(db, table, write, args![0, 0]);
            };
            call(db, table, write, args![id, n])
        }
    }
}

/// Calls a procedure that makes the write in an action on the row.
fn call(db: &Database, table: &Table, write: Write, args: heddledb::Args) -> heddledb::Result<()> {
    let args = match write {
        Write::Delete(id) => args![id, 0],
        _ => args,
    };
    let inner = table.clone();
    let action = Action::write(table).key(|args, key| key.push(args.int(0)?)).body(move |action| {
        let (id, n) = (action.args().int(0)?, action.args().int(1)?);
        match write {
            Write::Insert(..) => action.tx().insert_columns(&inner, &[("id", id.into()), ("n", n.into())]),
            Write::Set(..) => action.update(&[("n", n.into())]),
            Write::Add(..) => action.add("n", n),
            Write::Delete(_) => action.delete().map(|_| ()),
        }
    });
    let definition = ProcedureDefinition::new("write")
        .parameter("id", heddledb::DataType::Int64)
        .parameter("n", heddledb::DataType::Int64)
        .phase([action]);
    let procedure = db.register_anonymous(definition)?;
    db.call(&procedure, args).map(|_| ())
}

const RULES_OF_ONE_ROW: [&str; 4] = [
    "create domain small as bigint check (value < 100)",
    "create table item (
        id bigint primary key, n bigint not null constraint even check (n % 2 = 0),
        twice bigint generated always as (n * 2) stored, few small generated always as (n) stored)",
    "create unique index item_half on item ((n / 2))",
    "create index item_large on item (id) where n > 10",
];

/// The rows of `item` as SQL finds them by its indexes.
fn items(connection: &mut Connection) -> Vec<Vec<Option<String>>> {
    let results = connection.query("select id, n, twice, few from item order by id").expect("rows");
    let rows = connection.text_rows(&results[0]).expect("texts");
    for row in &rows {
        let half = format!("select id from item where n / 2 = {} / 2", row[1].as_deref().unwrap_or("0"));
        let found = connection.query(&half).expect("rows");
        assert_eq!(connection.text_rows(&found[0]).expect("texts"), [[row[0].clone()]]);
    }
    rows
}

#[test]
fn rules_of_one_row_hold_whatever_writes_it() {
    for &protocol in ProtocolKind::ALL {
        let options = Options::default().protocol(protocol).durability(heddledb::Durability::None).workers(2);
        let db = Database::in_memory_with(options).expect("a database");
        let sql = Sql::new(&db).expect("SQL");
        let mut connection = connect(&sql);
        run(&mut connection, &RULES_OF_ONE_ROW);
        let item = db.table("item").expect("a table");
        for through in [Through::Closure, Through::Session, Through::Procedure] {
            let context = format!("{protocol}, {through:?}");
            let made =
                |one| write(&db, &item, through, one).unwrap_or_else(|error| panic!("{context}: {error}"));
            let failed = |one| write(&db, &item, through, one).expect_err(&context);
            made(Write::Insert(1, 4));
            made(Write::Insert(2, 20));
            made(Write::Set(1, 8));
            made(Write::Add(2, 2));
            let text = |value: &str| Some(value.to_string());
            let expected = [["1", "8", "16", "8"], ["2", "22", "44", "22"]].map(|row| row.map(text).to_vec());
            assert_eq!(items(&mut connection), expected, "{context}");
            for wrong in [Write::Insert(3, 5), Write::Set(1, 7), Write::Add(2, 1)] {
                match failed(wrong) {
                    error @ Error::CheckViolation { .. } => {
                        let text = error.to_string();
                        assert!(text.contains("even") && text.contains("item"), "{context}: {text}");
                        assert_eq!(error.sqlstate(), "23514");
                    }
                    other => panic!("{context}, {wrong:?}: {other:?}"),
                }
            }
            for wrong in [Write::Insert(3, 100), Write::Set(1, 200), Write::Add(2, 80)] {
                assert_eq!(failed(wrong).sqlstate(), "23514", "{context}, {wrong:?}");
            }
            for wrong in [Write::Insert(1, 30), Write::Insert(3, 8), Write::Set(1, 22), Write::Add(1, 14)] {
                assert!(matches!(failed(wrong), Error::DuplicateKey { .. }), "{context}, {wrong:?}");
            }
            for missing in [Write::Set(9, 2), Write::Add(9, 2)] {
                assert!(matches!(failed(missing), Error::MissingKey { .. }), "{context}, {missing:?}");
            }
            assert_eq!(items(&mut connection), expected, "{context}");
            made(Write::Delete(1));
            made(Write::Delete(1));
            made(Write::Delete(2));
            assert!(items(&mut connection).is_empty(), "{context}");
        }
        db.check().expect("sound");
    }
}

#[test]
fn what_stands_in_computed_columns_counts_for_nothing() {
    let db = Database::in_memory().expect("a database");
    let sql = Sql::new(&db).expect("SQL");
    run(
        &mut connect(&sql),
        &["create table g (id bigint primary key, n int, m int generated always as (n + 1) stored)"],
    );
    let table = db.table("g").expect("a table");
    db.run(|tx| tx.insert(&table, row![1, 10, 99])).expect("inserted");
    db.run(|tx| tx.update(&table, 1, &[("m", 5.into())])).expect("nothing to change");
    let m = || db.run(|tx| tx.get(&table, 1)?.map(|row| row.int("m")).transpose());
    assert_eq!(m(), Ok(Some(11)));
    db.run(|tx| tx.update(&table, 1, &[("n", 20.into()), ("m", 99.into())])).expect("updated");
    assert_eq!(m(), Ok(Some(21)));
    assert!(matches!(db.run(|tx| tx.insert(&table, row![2, 1])), Err(Error::WrongRow { .. })));
    assert!(matches!(db.run(|tx| tx.insert(&table, row![2, "x", 1])), Err(Error::WrongType { .. })));
}

#[test]
fn foreign_keys_and_triggers_are_followed_by_closures_and_sessions() {
    for &protocol in ProtocolKind::ALL {
        let options = Options::default().protocol(protocol).durability(heddledb::Durability::None).workers(2);
        let db = Database::in_memory_with(options).expect("a database");
        let sql = Sql::new(&db).expect("SQL");
        let mut connection = connect(&sql);
        run(
            &mut connection,
            &[
                "create table parent (id bigint primary key, n bigint)",
                "create table child (id bigint primary key, n bigint references parent on delete cascade)",
                "create table log (id bigint, was bigint, op text, primary key (id, op))",
                "create function note() returns trigger language plpgsql as $$ begin
                    if tg_op = 'DELETE' then insert into log values (old.id, old.n, tg_op); return old; end if;
                    if new.n = 13 then raise exception 'unlucky' using errcode = 'XY123'; end if;
                    if new.n = 0 then return null; end if;
                    insert into log values (new.id, new.n, tg_op); return new; end $$",
                "create trigger noting before insert or update or delete on parent for each row execute function note()",
            ],
        );
        let (parent, child) = (db.table("parent").expect("a table"), db.table("child").expect("a table"));
        for (base, through) in [(0, Through::Closure), (10, Through::Session)] {
            let context = format!("{protocol}, {through:?}");
            let made = |table, one| {
                write(&db, table, through, one).unwrap_or_else(|error| panic!("{context}: {error}"))
            };
            made(&parent, Write::Insert(base + 1, 5));
            made(&parent, Write::Set(base + 1, 6));
            made(&parent, Write::Insert(base + 2, 0));
            made(&child, Write::Insert(base + 1, base + 1));
            let error = write(&db, &child, through, Write::Insert(base + 2, 99)).expect_err(&context);
            assert_eq!(error.sqlstate(), "23503", "{context}");
            assert!(error.to_string().contains("child_n_fkey"), "{context}: {error}");
            let error = write(&db, &parent, through, Write::Insert(base + 3, 13)).expect_err(&context);
            assert!(error.to_string().contains("unlucky"), "{context}: {error}");
            made(&parent, Write::Delete(base + 1));
        }
        let rows = |connection: &mut Connection, text: &str| {
            let results = connection.query(text).expect("rows");
            connection
                .text_rows(&results[0])
                .expect("texts")
                .into_iter()
                .flatten()
                .flatten()
                .collect::<Vec<_>>()
        };
        assert_eq!(rows(&mut connection, "select count(*) from parent"), ["0"], "{protocol}");
        assert_eq!(rows(&mut connection, "select count(*) from child"), ["0"], "{protocol}");
        let logged = rows(&mut connection, "select id || op || was from log order by id, op");
        assert_eq!(
            logged,
            ["1DELETE6", "1INSERT5", "1UPDATE6", "11DELETE6", "11INSERT5", "11UPDATE6"],
            "{protocol}"
        );
        // A procedure declares its rows; what rules lead to beyond them it does not.
        let error =
            write(&db, &parent, Through::Procedure, Write::Insert(30, 5)).expect_err("it writes the log");
        assert!(
            matches!(&error, Error::OutsideFootprint { what } if what.contains("parent")),
            "{protocol}: {error}"
        );
        assert_eq!(rows(&mut connection, "select count(*) from log"), ["6"], "{protocol}");
    }
}

#[test]
fn what_a_transaction_cannot_take_back_is_refused_in_rules() {
    let db = Database::in_memory().expect("a database");
    let sql = Sql::new(&db).expect("SQL");
    let mut connection = connect(&sql);
    run(
        &mut connection,
        &[
            "create sequence numbers",
            "create table t (id bigint primary key, what text)",
            "create table keyless (n int check (n > 0))",
            "create function act() returns trigger language plpgsql as $$ begin execute new.what; return new; end $$",
            "create trigger acting before insert on t for each row execute function act()",
        ],
    );
    let table = db.table("t").expect("a table");
    for what in [
        "select nextval('numbers')",
        "select setval('numbers', 5)",
        "select pg_notify('c', 'x')",
        "select pg_advisory_xact_lock(1)",
        "select set_config('work_mem', '1MB', false)",
    ] {
        let error = db.run(|tx| tx.insert(&table, row![1, what])).expect_err(what);
        assert_eq!(error.sqlstate(), "0A000", "{what}: {error}");
        run(
            &mut connection,
            &["begin", &format!("insert into t values (1, '{}')", what.replace('\'', "''")), "rollback"],
        );
    }
    db.run(|tx| tx.insert(&table, row![1, "select 1"])).expect("inserted");
    let keyless = db.table("keyless").expect("a table");
    refused("keyless", db.run(|tx| tx.insert(&keyless, row![1, 1])));
}

#[test]
fn closures_go_on_while_their_table_is_altered() {
    let options = Options::default().durability(heddledb::Durability::None).workers(2);
    let db = Database::in_memory_with(options).expect("a database");
    let sql = Sql::new(&db).expect("SQL");
    let mut connection = connect(&sql);
    run(
        &mut connection,
        &[
            "create table t (id bigint primary key, n bigint check (n >= 0), m bigint generated always as (-n) stored)",
            "insert into t values (1, 0)",
        ],
    );
    let (table, is_over) = (db.table("t").expect("a table"), AtomicBool::new(false));
    let added: u64 = std::thread::scope(|scope| {
        let adders = [(); 2].map(|()| {
            scope.spawn(|| {
                let mut added = 0;
                while !is_over.load(Ordering::Relaxed) || added == 0 {
                    db.run(|tx| tx.add(&table, key![1], "n", 1)).expect("added");
                    added += 1;
                }
                added
            })
        });
        for number in 0..10 {
            run(&mut connection, &[&format!("alter table t add column c{number} int default {number}")]);
        }
        is_over.store(true, Ordering::Relaxed);
        adders.into_iter().map(|adder| adder.join().expect("joined")).sum()
    });
    let results = connection.query("select n, m, c9 from t").expect("rows");
    let expected = [added.to_string(), format!("-{added}"), "9".to_string()].map(Some);
    assert_eq!(connection.text_rows(&results[0]).expect("texts"), [expected]);
}

#[test]
fn sql_writes_its_tables_as_before() {
    for &protocol in ProtocolKind::ALL {
        let options = Options::default().protocol(protocol).durability(heddledb::Durability::None).workers(2);
        let db = Database::in_memory_with(options).expect("a database");
        let sql = Sql::new(&db).expect("SQL");
        make(&sql);
        let mut connection = connect(&sql);
        run(
            &mut connection,
            &[
                "insert into checked values (1, 2), (2, 4)",
                "update checked set n = n + 2 where id = 1",
                "insert into generated values (3)",
                "insert into parent values (1, 1), (2, 2)",
                "begin; insert into child values (1, 1); update child set n = 2; delete from parent where id = 1; commit",
                "insert into triggered values (1, 1)",
                "insert into indexed values (1, 1)",
                "update indexed set n = 5",
                "alter table checked add column more int default 3",
                "truncate triggered",
                "insert into triggered values (2, 1)",
            ],
        );
        assert!(connection.query("insert into checked values (3, 3)").is_err(), "{protocol}");
        assert!(connection.query("insert into child values (3, 3)").is_err(), "{protocol}");
        let rows = db.read(|snapshot| {
            let n = |name: &str, id: i64| {
                snapshot.get(&db.table(name)?, id)?.map(|row| row.row().int("n")).transpose()
            };
            Ok([n("checked", 1)?, n("generated", 3)?, n("child", 1)?, n("triggered", 2)?, n("indexed", 1)?])
        });
        assert_eq!(rows, Ok([4, 6, 2, 7, 5].map(Some)), "{protocol}");
    }
}

#[test]
fn a_rule_that_comes_later_marks_the_table_and_a_rollback_does_not() {
    let db = Database::in_memory().expect("a database");
    let sql = Sql::new(&db).expect("SQL");
    let mut connection = connect(&sql);
    run(
        &mut connection,
        &["create table t (id bigint primary key, n bigint)", "insert into t values (1, 1)"],
    );
    let table = db.table("t").expect("a table");
    run(&mut connection, &["begin", "alter table t add check (n % 2 = 1)", "rollback"]);
    db.run(|tx| tx.insert(&table, row![2, 2])).expect("it has no rule");
    run(&mut connection, &["delete from t where id = 2", "alter table t add check (n % 2 = 1)"]);
    assert!(matches!(db.run(|tx| tx.insert(&table, row![2, 2])), Err(Error::CheckViolation { .. })));
    run(&mut connection, &["insert into t values (3, 3)", "update t set n = n + 2"]);
    assert!(connection.query("update t set n = n + 1").is_err());
    // A table of a block that was filled before a foreign key refers to it.
    run(
        &mut connection,
        &[
            "begin",
            "create table p (id bigint primary key)",
            "insert into p select generate_series(1, 100)",
            "create table c (id bigint primary key, p bigint references p)",
            "insert into c select g, g from generate_series(1, 100) g",
            "commit",
        ],
    );
    let parents = db.table("p").expect("a table");
    let error = db.run(|tx| tx.delete(&parents, key![1])).expect_err("rows refer to it");
    assert_eq!(error.sqlstate(), "23503");
    assert!(connection.query("delete from p where id = 1").is_err());
    run(&mut connection, &["delete from c where id = 1", "delete from p where id = 1"]);
}

#[test]
fn a_program_can_be_an_evaluator_of_its_own() {
    for &protocol in ProtocolKind::ALL {
        let options = Options::default().protocol(protocol).durability(heddledb::Durability::None).workers(2);
        let db = Database::in_memory_with(options).expect("a database");
        let definition = TableDefinition::new("own")
            .column("id", heddledb::DataType::Int64)
            .column("n", heddledb::DataType::Int64)
            .primary_key(["id"])
            .evaluator("the ledger");
        let own = db.create_table(definition.clone()).expect("a table");
        assert!(matches!(db.run(|tx| tx.insert(&own, row![1, 1])), Err(Error::NeedsEvaluator { .. })));
        let written = db.run(|tx| {
            tx.set_evaluated();
            tx.insert(&own, row![1, 1])?;
            tx.add(&own, key![1], "n", 4)
        });
        assert_eq!(written, Ok(()), "{protocol}");
        db.change_table("own", heddledb::TableChange::new().add_column("m", heddledb::DataType::Int64, 0))
            .expect("rebuilt");
        assert!(matches!(db.run(|tx| tx.add(&own, key![1], "n", 1)), Err(Error::NeedsEvaluator { .. })));
        db.change_table("own", heddledb::TableChange::new().evaluator(None)).expect("unmarked");
        db.run(|tx| tx.add(&own, key![1], "n", 1)).expect("it has no rules now");
        let n = db.run(|tx| tx.get(&own, key![1])?.map(|row| row.int("n")).transpose());
        assert_eq!(n, Ok(Some(6)), "{protocol}");
    }
}
