//! Tables with rules that only SQL evaluates: the engine refuses to write them, with SQL and without it.

use heddle_sql::{ConnectOptions, Connection, Sql};
use heddledb::{
    Action, Database, Error, Options, ProcedureDefinition, ProtocolKind, Table, TableDefinition, args, key,
    row,
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
fn closures_sessions_and_procedures_cannot_violate_what_only_sql_knows() {
    for &protocol in ProtocolKind::ALL {
        let directory = tempfile::tempdir().expect("a directory");
        let open = || Database::open(directory.path(), Options::default().protocol(protocol).workers(2));
        let db = open().expect("a database");
        let sql = Sql::new(&db).expect("SQL");
        make(&sql);
        for (name, _) in RULED {
            let table = db.table(name).expect("a table");
            assert_eq!(table.definition().needed_evaluator(), Some("SQL"), "{protocol}, {name}");
            if name != "indexed" {
                refuses_every_write(&db, &table);
            }
        }
        let indexed = db.table("indexed").expect("a table");
        refused("indexed", db.run(|tx| tx.delete(&indexed, key![1])));
        db.run(|tx| tx.insert(&db.table("plain")?, row![8, 1])).expect("it has no such rules");
        drop(sql);
        db.close().expect("closed");
        // Without SQL.
        let db = open().expect("a database");
        for (name, _) in RULED.iter().filter(|(name, _)| *name != "indexed") {
            refuses_every_write(&db, &db.table(name).expect("a table"));
        }
        db.run(|tx| tx.insert(&db.table("plain")?, row![9, 1])).expect("it has no such rules");
    }
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
    refused("t", db.run(|tx| tx.insert(&table, row![2, 2])));
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
    refused("p", db.run(|tx| tx.delete(&parents, key![1])));
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
