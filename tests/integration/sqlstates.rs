//! A user's mistake is never reported as a fault of the engine's: its SQLSTATE is of the class that a client expects.

use heddledb::{
    Action, DataType, Database, Durability, Error, Options, ProcedureDefinition, Range, Table, TableChange,
    TableDefinition, args, key, row,
};

fn counters() -> TableDefinition {
    TableDefinition::new("counter")
        .column("id", DataType::Int64)
        .column("n", DataType::Int64)
        .not_null()
        .primary_key(["id"])
        .check("not_negative", "n >= 0")
}

fn opened() -> (Database, Table) {
    let db = Database::in_memory_with(Options::default().durability(Durability::None)).expect("options");
    let table = db.create_table(counters()).expect("a table");
    db.run(|tx| tx.insert(&table, row![1, 5])).expect("a row");
    (db, table)
}

#[track_caller]
fn fails<T>(result: Result<T, Error>, code: &str, words: &str) {
    let Err(error) = result else { panic!("it should fail with {code}") };
    assert_eq!(error.sqlstate(), code, "{error}");
    assert!(error.to_string().contains(words), "{words:?} is not in: {error}");
}

#[test]
fn mistakes_in_definitions() {
    let (db, _) = opened();
    fails(db.create_table(TableDefinition::new("t").column("a", DataType::Int64)), "42P16", "no primary key");
    fails(
        db.create_table(TableDefinition::new("heddle_t").column("a", DataType::Int64).primary_key(["a"])),
        "42P16",
        "engine's own",
    );
    fails(db.create_table(counters()), "42P07", "exists already");
    fails("decimal(99,2)".parse::<DataType>(), "42704", "decimal");
    fails(db.change_table("counter", TableChange::new().drop_constraint("other")), "42704", "not_negative");
    fails(db.change_table("other", TableChange::new()), "42P01", "counter");
    let logged = Options::default().durability(Durability::Group);
    fails(Database::in_memory_with(logged).map(drop), "22023", "because a database in memory has no files");
}

#[test]
fn mistakes_in_accesses() {
    let (db, table) = opened();
    fails(db.run(|tx| tx.insert(&table, row![1])), "42601", "2 columns");
    fails(db.run(|tx| tx.get(&table, key![1, 2]).map(drop)), "42601", "(id)");
    fails(db.run(|tx| tx.insert(&table, row![2, -1])), "23514", "not_negative");
    fails(db.run(|tx| tx.insert(&table, row![1, 1])), "23505", "already");
    fails(db.run(|tx| tx.update(&table, key![1], &[("m", 1.into())])), "42703", "\"m\"");
    fails(db.run(|_| db.run(|_| Ok(()))), "25001", "inside a transaction");
    fails(db.run(|tx| tx.scan(&table, Range::prefix(key!["x"])).map(drop)), "42804", "int64");
    fails(db.run::<()>(|_| panic!("a body's own fault")), "38000", "a body's own fault");
    let gone = db.run(|tx| {
        let start = tx.savepoint();
        tx.add(&table, key![1], "n", 1)?;
        let void = tx.savepoint();
        tx.rollback_to(&start);
        tx.add(&table, key![1], "n", 1)?;
        tx.rollback_to(&void);
        Ok(())
    });
    fails(gone, "3B001", "savepoint does not exist");
}

#[test]
fn mistakes_in_procedures() {
    let (db, table) = opened();
    let later =
        ProcedureDefinition::new("later").parameter("id", DataType::Int64).phase([Action::read(&table)
            .key(|args, key| key.push(args.int(0)?))
            .body(|action| action.values().int(3).map(drop))]);
    let later = db.register(later).expect("registered");
    fails(db.call(&later, args![1]), "55000", "value 3 was set by no earlier phase");
    fails(db.call(&later, args![]), "42883", "takes 1 arguments");
    fails(db.register(ProcedureDefinition::new("")), "42P13", "");
}
