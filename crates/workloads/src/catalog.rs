//! Records in a database which workload created which table.
//!
//! A user's table may have the name of a workload's. So `heddle check` applies a workload's check only to a database that
//! this catalog lists the workload's tables for, or where the user names the workload.
//!
//! Invariants:
//! - A table is listed before the workload creates it, and never if it already existed: a load that was cut short leaves
//!   a listed table that is missing, which a workload's check accepts.
//!
//! Concurrency: one thread loads a workload.

use std::collections::BTreeMap;

use heddledb::{DataType, Database, Table, TableDefinition, key, row};

use crate::workload::Workload;
use crate::{Result, scan};

/// The catalog's own table, whose name no user's table should have.
const TABLE: &str = "bench_workload";
const NAME: &str = "table";
const WORKLOAD: &str = "workload";

/// Creates and fills the tables of a workload, and lists those that it creates.
///
/// # Errors
/// Those of [`Workload::load`]; the database can't be written.
pub fn load(workload: &dyn Workload, db: &Database) -> Result<()> {
    let mut missing = Vec::new();
    for name in workload.tables() {
        if scan::table_if_there(db, name)?.is_none() {
            missing.push(*name);
        }
    }
    if !missing.is_empty() {
        list(db, &missing, workload.name())?;
    }
    workload.load(db)
}

/// The workloads that have created their tables in this database.
///
/// # Errors
/// The catalog can't be read.
pub fn loaded(db: &Database) -> Result<Vec<Box<dyn Workload>>> {
    let Some(table) = scan::table_if_there(db, TABLE)? else { return Ok(Vec::new()) };
    let creators = scan::fold(db, &table, BTreeMap::new, |creators, row| {
        creators.insert(row.text(NAME)?.to_owned(), row.text(WORKLOAD)?.to_owned());
        Ok(())
    })?;
    let mut workloads = crate::all();
    workloads.retain(|workload| {
        let first = workload.tables().first();
        first.and_then(|table| creators.get(*table)).is_some_and(|creator| creator == workload.name())
    });
    Ok(workloads)
}

fn list(db: &Database, tables: &[&str], workload: &str) -> heddledb::Result<()> {
    let catalog = match scan::table_if_there(db, TABLE)? {
        Some(catalog) => catalog,
        None => db.create_table(definition())?,
    };
    db.run(|tx| tables.iter().try_for_each(|table| list_one(tx, &catalog, table, workload)))
}

fn list_one(tx: &heddledb::Tx<'_, '_>, catalog: &Table, table: &str, workload: &str) -> heddledb::Result<()> {
    // A listed table is missing where an earlier load was cut short.
    if tx.exists(catalog, key![table])? { Ok(()) } else { tx.insert(catalog, row![table, workload]) }
}

fn definition() -> TableDefinition {
    TableDefinition::new(TABLE)
        .column(NAME, DataType::Text)
        .column(WORKLOAD, DataType::Text)
        .not_null()
        .primary_key([NAME])
}

#[cfg(test)]
mod tests {
    use heddledb::{Durability, Options};

    use super::*;
    use crate::incr::Increment;
    use crate::like::Like;
    use crate::ycsb::Ycsb;

    fn memory() -> Database {
        Database::in_memory_with(Options::default().durability(Durability::None)).unwrap()
    }

    fn names(db: &Database) -> Vec<&'static str> {
        loaded(db).unwrap().iter().map(|workload| workload.tables()[0]).collect()
    }

    #[test]
    fn a_loaded_workload_is_listed_once() {
        let db = memory();
        assert!(loaded(&db).unwrap().is_empty());
        for keys in [10, 20] {
            load(&Increment { keys, ..Increment::zipf() }, &db).unwrap();
        }
        load(&Ycsb { records: 10, operations: 2, ..Ycsb::read_modify_write() }, &db).unwrap();
        assert_eq!(names(&db), ["incrz", "ycsb_rmw"]);
    }

    #[test]
    fn a_users_table_of_the_same_name_is_not_listed() {
        let db = memory();
        let page = TableDefinition::new("page").column("url", DataType::Text).primary_key(["url"]);
        db.create_table(page).unwrap();
        assert!(load(&Like { pages: 5, users: 5, ..Like::default() }, &db).is_err());
        assert!(names(&db).is_empty(), "the first table is the user's");
    }

    #[test]
    fn a_load_that_was_cut_short_is_listed_and_goes_on() {
        let db = memory();
        list(&db, &["page", "user"], "like").unwrap();
        let like = Like { pages: 5, users: 5, ..Like::default() };
        assert_eq!(loaded(&db).unwrap()[0].check(&db, None), Ok(()));
        load(&like, &db).unwrap();
        assert_eq!((names(&db), like.check(&db, Some(0))), (vec!["page"], Ok(())));
    }
}
