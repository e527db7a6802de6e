//! CH-benCHmark: the queries of TPC-H over TPC-C's tables, and the three tables that they need besides.
//!
//! The content of the tables is computed from their keys alone, so that every load of them is the same. A
//! supplier's nation and a customer's are found by a character's code, as the benchmark has it: therefore
//! there are 62 nations, one for each letter and digit that a state begins with.
//!
//! Source: R. Cole et al., "The Mixed Workload CH-benCHmark", DBTest 2011.

use heddledb::{DataType, Database, Decimal, Table, TableDefinition, Tx, key, row};

use crate::{Result, scan};

const REGION: &str = "region";
const NATION: &str = "nation";
const SUPPLIER: &str = "supplier";

/// Suppliers, numbered from 0: a stock's is found by `(s_w_id * s_i_id) % 10000`.
const SUPPLIERS: i64 = 10_000;

/// Records per loading transaction.
const BATCH: i64 = 1_000;

/// Regions with their nations.
const REGIONS: [(&str, &[&str]); 5] = [
    (
        "Europe",
        &[
            "Austria",
            "Belgium",
            "Denmark",
            "Finland",
            "France",
            "Germany",
            "Greece",
            "Ireland",
            "Italy",
            "Netherlands",
            "Poland",
            "Portugal",
            "Spain",
            "Sweden",
        ],
    ),
    (
        "Asia",
        &[
            "Bhutan",
            "Cambodia",
            "China",
            "India",
            "Japan",
            "Laos",
            "Malaysia",
            "Mongolia",
            "Nepal",
            "Philippines",
            "Thailand",
            "Vietnam",
        ],
    ),
    (
        "America",
        &[
            "Argentina",
            "Bolivia",
            "Brazil",
            "Canada",
            "Chile",
            "Colombia",
            "Cuba",
            "Ecuador",
            "Mexico",
            "Peru",
            "United States",
            "Uruguay",
        ],
    ),
    (
        "Africa",
        &[
            "Algeria", "Angola", "Botswana", "Egypt", "Ethiopia", "Ghana", "Kenya", "Mali", "Morocco",
            "Namibia", "Senegal", "Tunisia",
        ],
    ),
    (
        "Oceania",
        &[
            "Australia",
            "Fiji",
            "Kiribati",
            "Nauru",
            "New Zealand",
            "Palau",
            "Papua New Guinea",
            "Samoa",
            "Solomon Islands",
            "Tonga",
            "Tuvalu",
            "Vanuatu",
        ],
    ),
];

/// First letters of states: the codes are the nations' keys. Most customers are in Europe and Asia, for which
/// the queries ask.
const INITIALS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789abcdefghijklmnopqrstuvwxyz";

/// The tables that the queries read, the largest last.
pub const TABLES: [&str; 11] = [
    "region",
    "nation",
    "supplier",
    "warehouse",
    "district",
    "customer",
    "new_order",
    "orders",
    "item",
    "stock",
    "order_line",
];

/// One of the 22 queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// Its number, from 1.
    pub number: usize,
    /// Its subject, in a line.
    pub title: &'static str,
    /// Its text, without a semicolon.
    pub text: &'static str,
}

/// The queries in order: the text behind each line `-- query N: title` of the file.
pub fn queries() -> Vec<Query> {
    let file = include_str!("../../sql/ch-benchmark.sql");
    let query = |part: &'static str| {
        let (heading, text) = part.split_once('\n')?;
        let (number, title) = heading.split_once(": ")?;
        Some(Query { number: number.parse().ok()?, title, text: text.trim().trim_end_matches(';') })
    };
    file.split("-- query ").skip(1).filter_map(query).collect()
}

/// Makes and fills the tables that are missing.
///
/// # Errors
/// The database can't be written, or has other tables of these names.
pub fn load(db: &Database) -> Result<()> {
    for definition in [region(), nation(), supplier()] {
        if scan::table_if_there(db, definition.name())?.is_none() {
            db.create_table(definition)?;
        }
    }
    // A load that was cut short is continued: suppliers are inserted last.
    let (regions, nations) = (db.table(REGION)?, db.table(NATION)?);
    db.run(|tx| load_nations(tx, &regions, &nations))?;
    let suppliers = db.table(SUPPLIER)?;
    for first in (0..SUPPLIERS).step_by(BATCH as usize) {
        db.run(|tx| {
            (first..first + BATCH).try_for_each(|number| {
                if tx.exists(&suppliers, key![number])? {
                    Ok(())
                } else {
                    insert_supplier(tx, &suppliers, number)
                }
            })
        })?;
    }
    Ok(())
}

fn region() -> TableDefinition {
    texts(TableDefinition::new(REGION).column("r_regionkey", DataType::Int64), &["r_name", "r_comment"])
        .primary_key(["r_regionkey"])
}

fn nation() -> TableDefinition {
    let named = texts(TableDefinition::new(NATION).column("n_nationkey", DataType::Int64), &["n_name"]);
    let placed = named.column("n_regionkey", DataType::Int64).references(REGION).not_null();
    texts(placed, &["n_comment"]).primary_key(["n_nationkey"])
}

fn supplier() -> TableDefinition {
    let keyed = TableDefinition::new(SUPPLIER).column("su_suppkey", DataType::Int64);
    let named = texts(keyed, &["su_name", "su_address"]);
    let placed = named.column("su_nationkey", DataType::Int64).references(NATION).not_null();
    let balance = DataType::Decimal { precision: 12, scale: 2 };
    let with_balance = texts(placed, &["su_phone"]).column("su_acctbal", balance).not_null();
    texts(with_balance, &["su_comment"]).primary_key(["su_suppkey"])
}

/// Adds texts that are never NULL.
fn texts(definition: TableDefinition, names: &[&str]) -> TableDefinition {
    names.iter().fold(definition, |definition, name| definition.column(*name, DataType::Text).not_null())
}

fn load_nations(tx: &Tx<'_, '_>, regions: &Table, nations: &Table) -> heddledb::Result<()> {
    let mut initials = INITIALS.iter();
    for ((region, nations_there), number) in REGIONS.iter().zip(0_i64..) {
        if !tx.exists(regions, key![number])? {
            tx.insert(regions, row![number, *region, "a part of the world"])?;
        }
        for (nation, initial) in nations_there.iter().zip(initials.by_ref()) {
            if !tx.exists(nations, key![i64::from(*initial)])? {
                tx.insert(nations, row![i64::from(*initial), *nation, number, "a country"])?;
            }
        }
    }
    Ok(())
}

fn insert_supplier(tx: &Tx<'_, '_>, suppliers: &Table, number: i64) -> heddledb::Result<()> {
    let nation = INITIALS[(number % INITIALS.len() as i64) as usize];
    // Every fiftieth has been complained about.
    let comment = if number % 50 == 7 { "customers had bad luck" } else { "delivers in time" };
    tx.insert(
        suppliers,
        row![
            number,
            format!("Supplier {number:05}").as_str(),
            format!("{number} Harbor Street").as_str(),
            i64::from(nation),
            format!("{}-555-{number:04}", 10 + number % 62).as_str(),
            Decimal::new(i128::from(number * 37 % 1_000_000), 2)?,
            comment,
        ],
    )
}

#[cfg(test)]
mod tests {
    use heddledb::{Durability, Options};

    use super::*;

    #[test]
    fn there_are_22_queries_in_order() {
        let queries = queries();
        let numbers: Vec<usize> = queries.iter().map(|query| query.number).collect();
        assert_eq!(numbers, (1..=22).collect::<Vec<_>>());
        for query in queries {
            assert!(query.text.starts_with("select") || query.text.starts_with("with"), "{query:?}");
            assert!(!query.text.contains(';') && !query.title.is_empty(), "{query:?}");
        }
    }

    #[test]
    fn every_initial_has_a_nation_and_every_nation_suppliers() {
        let nations: usize = REGIONS.iter().map(|(_, nations)| nations.len()).sum();
        assert_eq!(nations, INITIALS.len());
        let db = Database::in_memory_with(Options::default().durability(Durability::None)).unwrap();
        // Loading again changes nothing.
        for _ in 0..2 {
            load(&db).unwrap();
            let count = |name: &str| scan::count(&db, &db.table(name).unwrap()).unwrap();
            assert_eq!((count(REGION), count(NATION), count(SUPPLIER)), (5, 62, 10_000));
        }
    }

    #[test]
    fn a_load_that_was_cut_short_goes_on() {
        let db = Database::in_memory_with(Options::default().durability(Durability::None)).unwrap();
        load(&db).unwrap();
        let (nations, suppliers) = (db.table(NATION).unwrap(), db.table(SUPPLIER).unwrap());
        db.run(|tx| {
            tx.delete(&nations, key![i64::from(b'z')])?;
            tx.delete(&suppliers, key![9_999])
        })
        .unwrap();
        load(&db).unwrap();
        let there = db.run(|tx| Ok((tx.exists(&nations, key![122])?, tx.exists(&suppliers, key![9_999])?)));
        assert_eq!(there.unwrap(), (true, true));
    }
}
