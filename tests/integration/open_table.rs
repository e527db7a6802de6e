//! `Database::open_table`: creates a table or opens it, and refuses another definition with the difference.

use std::sync::Barrier;
use std::thread;

use heddledb::testing::SimulatedDisk;
use heddledb::{
    DataType, Database, Error, Options, PrimaryIndex, Range, Result, TableDefinition, TupleType, fail, key,
    row,
};
use tables::{
    account_definition, counter_definition, in_memory, on_disk, open, order_definition, refused, rows_of,
};

use crate::assert_kind;
use crate::support::tables;

/// The program that README embeds.
fn program(disk: &SimulatedDisk) -> Result<(i64, i64)> {
    let db = Database::open("/bank", on_disk(disk))?;
    let accounts = db.open_table(
        TableDefinition::new("account")
            .column("id", DataType::Int64)
            .column("balance", DataType::Int64)
            .not_null()
            .primary_key(["id"]),
    )?;
    db.run(|tx| {
        if !tx.exists(&accounts, key![7])? {
            tx.insert(&accounts, row![7, 100])?;
            tx.insert(&accounts, row![9, 0])?;
        }
        Ok(())
    })?;
    db.run(|tx| {
        let Some(payer) = tx.get(&accounts, key![7])? else { return Err(fail("no such account")) };
        if payer.int("balance")? < 10 {
            return Err(fail("insufficient funds"));
        }
        tx.add(&accounts, key![7], "balance", -10)?;
        tx.add(&accounts, key![9], "balance", 10)
    })?;
    let balances = db.run(|tx| {
        let balance = |id: i64| tx.get(&accounts, key![id])?.ok_or(Error::Closed)?.int("balance");
        Ok((balance(7)?, balance(9)?))
    })?;
    db.close()?;
    Ok(balances)
}

#[test]
fn the_program_of_the_readme_runs_again_and_again() {
    let disk = SimulatedDisk::new();
    for run in 1..=3 {
        assert_eq!(program(&disk), Ok((100 - 10 * run, 10 * run)));
    }
}

/// Every property that a definition can have.
fn full_definition() -> TableDefinition {
    let of = TupleType::new(vec![DataType::Int64], vec![DataType::Text]).unwrap();
    TableDefinition::new("full")
        .column("day", DataType::Date)
        .column("id", DataType::Int64)
        .column("price", DataType::Decimal { precision: 12, scale: 2 })
        .not_null()
        .default(3)
        .column("owner", DataType::Int64)
        .references("owner")
        .column("kind", DataType::Text)
        .domain("kinds")
        .column("best", DataType::TopK { limit: 3, of })
        .primary_key(["day", "id"])
        .primary_index(PrimaryIndex::Ordered)
        .routing(["id"])
        .index("by_owner", ["owner"])
        .unique_index("by_kind", ["kind", "id"])
}

#[test]
fn what_was_created_opens_with_the_same_definition_after_recovery_too() {
    let definitions = [full_definition(), account_definition(), counter_definition(), order_definition()];
    let disk = SimulatedDisk::new();
    let db = open(&disk);
    for definition in &definitions {
        db.open_table(definition.clone()).unwrap();
        db.open_table(definition.clone()).unwrap();
    }
    db.close().unwrap();
    let db = open(&disk);
    for definition in &definitions {
        let table = db.open_table(definition.clone()).unwrap();
        assert_eq!(table.name(), definition.name());
    }
    assert_eq!(db.tables().len(), definitions.len(), "none was created twice");
}

#[test]
fn another_definition_is_refused_with_every_difference() {
    let base = || {
        TableDefinition::new("item")
            .column("id", DataType::Int64)
            .column("shop", DataType::Int64)
            .column("name", DataType::Text)
            .primary_key(["id", "shop"])
            .index("by_name", ["name"])
    };
    let short = || TableDefinition::new("item").column("id", DataType::Int64).column("shop", DataType::Int64);
    let db = in_memory();
    db.open_table(base()).unwrap();
    let cases: [(TableDefinition, &[&str]); 8] = [
        (base().column("stock", DataType::Int64), &["column 4 is absent, not \"stock\""]),
        (short().primary_key(["id", "shop"]), &["column 3 is \"name\"", "not absent", "index 1"]),
        (base().primary_index(PrimaryIndex::Hash), &["the primary index is both, not hash"]),
        (base().routing(["shop"]), &["the routing is (id), not (shop)"]),
        (base().unique_index("by_shop", ["shop"]), &["index 2 is absent, not unique \"by_shop\" (shop)"]),
        (base().primary_key(["shop", "id"]), &["the primary key is (id, shop), not (shop, id)"]),
        (
            short().column("name", DataType::Text).not_null().default("x").primary_key(["id", "shop"]),
            &["column 3", "not null default", "; index 1 is \"by_name\" (name), not absent"],
        ),
        (
            short()
                .references("shop")
                .column("name", DataType::Bytes)
                .domain("d")
                .primary_key(["id", "shop"]),
            &["column 2", "references \"shop\"", "column 3", "domain \"d\""],
        ),
    ];
    for (definition, words) in cases {
        let error = refused(db.open_table(definition), words);
        assert_eq!(error.sqlstate(), "42P07");
        assert_kind!(error, Error::TableDiffers { .. });
    }
    db.open_table(base()).unwrap();
}

#[test]
fn it_is_refused_inside_a_transaction_under_the_engines_own_names_and_where_it_makes_no_sense() {
    let db = in_memory();
    let error = db.run(|_| db.open_table(counter_definition()).map(drop)).unwrap_err();
    assert_kind!(error, Error::Nested { .. });
    let own = TableDefinition::new("heddle_tables").column("id", DataType::Int64).primary_key(["id"]);
    assert_kind!(db.open_table(own).map(drop).unwrap_err(), Error::InvalidDefinition { .. });
    let no_key = TableDefinition::new("t").column("id", DataType::Int64);
    assert_kind!(db.open_table(no_key).map(drop).unwrap_err(), Error::InvalidDefinition { .. });
    assert!(db.tables().is_empty());
}

#[test]
fn a_read_only_database_opens_its_tables_and_creates_none() {
    let disk = SimulatedDisk::new();
    let db = open(&disk);
    let table = db.open_table(counter_definition()).unwrap();
    db.run(|tx| tx.insert(&table, row![1, 10])).unwrap();
    db.close().unwrap();
    let options: Options = on_disk(&disk).read_only(true);
    let db = Database::open(tables::DATABASE, options).unwrap();
    let table = db.open_table(counter_definition()).unwrap();
    assert_eq!(db.run(|tx| rows_of(tx.scan(&table, Range::all()))).unwrap().len(), 1);
    assert_eq!(db.open_table(account_definition()).map(drop), Err(Error::ReadOnly));
}

#[test]
fn threads_that_open_one_table_at_the_same_time_get_the_same_one() {
    const THREADS: usize = 8;
    let db = in_memory();
    let start = Barrier::new(THREADS);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (db, start) = (&db, &start);
            scope.spawn(move || {
                start.wait();
                let table = db.open_table(counter_definition()).unwrap();
                db.run(|tx| tx.insert(&table, row![thread as i64, 0])).unwrap();
            });
        }
    });
    assert_eq!(db.tables().len(), 1);
    let table = db.table("counter").unwrap();
    assert_eq!(db.run(|tx| rows_of(tx.scan(&table, Range::all()))).unwrap().len(), THREADS);
}
