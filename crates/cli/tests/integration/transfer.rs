//! `heddle import` and `heddle export`: tables of the engine and of SQL come back from each format as they were.

use std::path::Path;

use crate::common::{heddle, succeed};
use heddledb::{Database, Options, TableDefinition, row};

const FORMATS: [&str; 3] = ["csv", "json", "parquet"];

/// A table that SQL defines, with its checks and with types that the engine has not.
const ITEMS: &str = "create table item (id int primary key, name varchar(10) not null check (name <> 'x'), price numeric(8,2), \
     loose numeric, at timestamptz, day date, code uuid, data bytea, share float8, sold boolean default false, more jsonb, tags text[]); \
     insert into item values (1, 'pen', 2.5, 1.25, '2026-11-23 10:00+00', '2026-11-23', \
     '67e55044-10b1-426f-9247-bb680e5fe0c8', '\\x00ff', 0.1, true, '{\"a\": [1, null]}', '{a,\"b c\"}'), \
     (2, '', null, 'NaN', 'infinity', '0044-03-15 BC', null, '', '-Infinity', null, 'null', '{}')";

fn path(place: &Path, name: &str) -> String {
    place.join(name).to_str().expect("a path in UTF-8").to_string()
}

fn sql(database: &str, text: &str) -> String {
    succeed(&["sql", database, "--format", "csv", "-c", text])
}

#[test]
fn tables_of_sql_come_back_from_each_format() {
    let place = tempfile::tempdir().expect("a directory");
    let db = path(place.path(), "db");
    sql(&db, ITEMS);
    sql(&db, "create schema shop; create table shop.copy (like item including all)");
    let rows = sql(&db, "select * from item order by id");
    for format in FORMATS {
        let file = path(place.path(), &format!("item.{format}"));
        assert_eq!(succeed(&["export", &db, "item", &file]), "2 rows exported\n");
        let imported = succeed(&["import", &db, "shop.copy", &file]);
        assert!(imported.starts_with("2 rows imported, 0 rejected, in "), "{imported}");
        assert_eq!(sql(&db, "select * from shop.copy order by id"), rows, "{format}");
        sql(&db, "delete from shop.copy");
    }
    let dumped = succeed(&["dump", &db, "item"]);
    assert_eq!(dumped, succeed(&["export", &db, "item"]));
    assert!(dumped.contains("1,pen,2.50,1.25,2026-11-23 10:00:00+00,"), "{dumped}");
    assert!(dumped.contains("\n2,\"\",,NaN,infinity,0044-03-15 BC,,\\x,-Infinity,,null,{}\n"), "{dumped}");
}

#[test]
fn rows_that_sql_refuses_are_reported_and_written_to_a_file() {
    let place = tempfile::tempdir().expect("a directory");
    let (db, file) = (path(place.path(), "db"), path(place.path(), "more.json"));
    sql(&db, ITEMS);
    let rows = "{\"id\":3,\"name\":\"c\"}\n{\"id\":1,\"name\":\"taken\"}\n{\"id\":4,\"name\":\"x\"}\n{\"id\":5,\"nam\":\"e\"}\n{\"id\":6,\"name\":\"f\",\"sold\":true}\n";
    std::fs::write(&file, rows).expect("written");
    let first = heddle(&["import", &db, "item", &file]);
    let reported = String::from_utf8_lossy(&first.stderr).into_owned();
    assert_eq!(first.status.code(), Some(1));
    assert!(reported.contains("line 2: duplicate key") && reported.contains("--keep-going"), "{reported}");
    sql(&db, "delete from item where id > 2");
    let rejected = path(place.path(), "rejected.json");
    let all = heddle(&["import", &db, "item", &file, "--keep-going", "--rejected", &rejected]);
    let reported = String::from_utf8_lossy(&all.stderr).into_owned();
    assert_eq!(all.status.code(), Some(1), "{reported}");
    assert!(String::from_utf8_lossy(&all.stdout).starts_with("2 rows imported, 3 rejected, in "));
    for part in
        ["line 2: duplicate key", "line 3: new row for relation", "line 4: the file has a column \"nam\""]
    {
        assert!(reported.contains(part), "{reported}");
    }
    let kept = std::fs::read_to_string(rejected).expect("it is there");
    assert_eq!(kept.lines().collect::<Vec<_>>(), rows.lines().skip(1).take(3).collect::<Vec<_>>());
    assert_eq!(sql(&db, "select id, sold from item where id > 2 order by id"), "id,sold\n3,f\n6,t\n");
}

/// Nothing stays of an import that a row ends; with batches what was committed before it.
#[test]
fn the_first_rejected_row_ends_an_import_which_is_atomic_unless_batches_are_asked_for() {
    let place = tempfile::tempdir().expect("a directory");
    let (db, file) = (path(place.path(), "db"), path(place.path(), "more.csv"));
    sql(&db, ITEMS);
    let ended = |text: &str, options: &[&str], parts: &[&str]| {
        std::fs::write(&file, text).expect("written");
        let output = heddle(&[&["import", &db, "item", &file][..], options].concat());
        let reported = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(parts.iter().all(|part| reported.contains(part)), "{reported}");
    };
    let count = || sql(&db, "select count(*) from item where id > 2");
    ended("id,name\n1,taken\n3,c\n", &[], &["line 2: duplicate key", "Key (id)=(1)", "nothing is imported"]);
    ended("id,nam\n3,c\n", &[], &["line 1: it has 2 fields", "nothing is imported", "give --header"]);
    ended(
        "id,name\n3,c\nx,d\n4,e\n",
        &[],
        &["line 3, column \"id\": ", "\"x\"", "nothing is imported", "--keep-going"],
    );
    ended("id,name\n5,f\n6,x\n", &[], &["line 3: ", "check", "nothing is imported"]);
    assert_eq!(count(), "count\n0\n");
    let batches = ["--batch-rows=1"];
    ended(
        "id,name\n3,c\nx,d\n4,e\n",
        &batches,
        &["line 3, column \"id\": ", "the row before it is imported"],
    );
    ended("id,name\n5,f\n6,g\n1,taken\n7,h\n", &batches, &["line 4: ", "the 2 rows before it are imported"]);
    assert_eq!(sql(&db, "select id from item where id > 2 order by id"), "id\n3\n5\n6\n");
}

/// Delimiters, headings in another case, and whole tables are guessed.
#[test]
fn files_are_imported_as_they_come() {
    let place = tempfile::tempdir().expect("a directory");
    let (db, file) = (path(place.path(), "db"), path(place.path(), "a.csv"));
    sql(&db, "create table t (id int primary key, name text)");
    for (number, delimiter) in [";", "\t", "|", ","].iter().enumerate() {
        std::fs::write(&file, format!("ID{delimiter}Name\n{number}{delimiter}x\n")).expect("written");
        succeed(&["import", &db, "t", &file]);
    }
    assert_eq!(sql(&db, "select * from t order by id"), "id,name\n0,x\n1,x\n2,x\n3,x\n");
    let rows = "id;price;at;code;sold;note\n1;2.50;2026-11-23 10:00:00;007;true;a\n2;;;008;f;\n";
    std::fs::write(&file, rows).expect("written");
    let imported = succeed(&["import", &db, "made", &file, "--create"]);
    assert!(imported.starts_with("2 rows imported"), "{imported}");
    let types = sql(
        &db,
        "select string_agg(format_type(atttypid, atttypmod), ' ' order by attnum) as types from pg_attribute where attrelid = 'made'::regclass and attnum > 0",
    );
    assert_eq!(types, "types\ninteger numeric timestamp without time zone text boolean text\n");
    assert_eq!(
        sql(&db, "select id, price, code, sold, note is null as none from made order by id"),
        "id,price,code,sold,none\n1,2.50,007,t,f\n2,,008,f,t\n"
    );
    let json = path(place.path(), "a.json");
    std::fs::write(&json, "[{\"a\": 1}, {\"a\": 2, \"b\": \"x\"}]").expect("written");
    succeed(&["import", &db, "objects", &json, "--create"]);
    assert_eq!(sql(&db, "select * from objects order by a"), "a,b\n1,\n2,x\n");
    let again = heddle(&["import", &db, "objects", &json, "--create"]);
    assert_eq!(again.status.code(), Some(1), "it is there already");
}

#[test]
fn an_export_of_no_table_leaves_the_file() {
    let place = tempfile::tempdir().expect("a directory");
    let (db, file) = (path(place.path(), "db"), path(place.path(), "kept.csv"));
    sql(&db, ITEMS);
    std::fs::write(&file, "kept").expect("written");
    assert_eq!(heddle(&["export", &db, "nothing", &file]).status.code(), Some(2));
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "kept");
}

#[test]
fn tables_of_the_engine_come_back_from_each_format() {
    let place = tempfile::tempdir().expect("a directory");
    let directory = path(place.path(), "db");
    let db = Database::open(&directory, Options::default()).expect("it opens");
    let table = |name: &str| {
        let columns = [("id", "int64"), ("day", "date"), ("best", "top_k(2; int64; text)")];
        let definition =
            columns.into_iter().fold(TableDefinition::new(name), |all, (name, of)| all.column_of(name, of));
        db.create_table(definition.primary_key(["id"])).expect("it is made")
    };
    let tables = ["score", "csv", "json", "parquet"].map(table);
    db.run(|tx| {
        tx.insert(&tables[0], row![1, "2026-11-23".parse::<heddledb::Date>()?, heddledb::Value::Null])?;
        tx.insert(&tables[0], row![2, heddledb::Value::Null, heddledb::Value::Null])?;
        for (points, name) in [(3, "Ada"), (7, "Bea, the \"second\"")] {
            tx.top_k_insert(&tables[0], 1, "best", &row![points], &row![name])?;
        }
        Ok(())
    })
    .expect("inserted");
    db.close().expect("closed");
    let rows = succeed(&["dump", &directory, "score"]);
    assert_eq!(
        rows.lines().nth(1),
        Some("1,2026-11-23,\"[[7,\"\"Bea, the \\\"\"second\\\"\"\"\"],[3,\"\"Ada\"\"]]\"")
    );
    for format in FORMATS {
        let file = path(place.path(), &format!("score.{format}"));
        succeed(&["export", &directory, "score", &file]);
        assert!(succeed(&["import", &directory, format, &file]).starts_with("2 rows imported"));
        assert_eq!(succeed(&["dump", &directory, format]), rows, "{format}");
    }
    let csv = path(place.path(), "score.csv");
    let again = heddle(&["import", &directory, "csv", &csv]);
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("line 2: "), "{again:?}");
    let all = heddle(&["import", &directory, "csv", &csv, "--keep-going"]);
    assert!(String::from_utf8_lossy(&all.stdout).starts_with("0 rows imported, 2 rejected"), "{all:?}");
}

#[test]
fn wrong_usage_says_what_to_do() {
    let place = tempfile::tempdir().expect("a directory");
    let db = path(place.path(), "db");
    sql(&db, ITEMS);
    let wrong = |arguments: &[&str], code: i32, part: &str| {
        let output = heddle(arguments);
        let reported = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(code) && reported.contains(part), "{arguments:?}: {output:?}");
    };
    wrong(&["export", &db, "item", "item.xlsx"], 2, "give --format");
    wrong(&["export", &db, "nothing"], 2, "nothing");
    wrong(&["export", &db, "item", "/nowhere/x.csv"], 2, "/nowhere/x.csv");
    wrong(&["export", &db, "item", "/dev/full", "--format", "csv"], 1, "No space left on device");
    wrong(&["import", &db, "nothing", "x.csv"], 2, "nothing");
    wrong(&["import", &db, "item", "/nowhere/x.csv"], 1, "/nowhere/x.csv");
    wrong(&["import", "/nowhere", "item", "x.csv"], 2, "not a directory");
    let junk = path(place.path(), "junk.parquet");
    std::fs::write(&junk, "junk").expect("written");
    wrong(&["import", &db, "item", &junk], 1, "Parquet");
}

/// Dates and times are such in Parquet, where the file can hold them; otherwise they are text.
#[test]
fn dates_and_times_keep_their_types_in_parquet() {
    let place = tempfile::tempdir().expect("a directory");
    let (db, file) = (path(place.path(), "db"), path(place.path(), "a.parquet"));
    sql(
        &db,
        "create table t (id int, day date, at timestamp, zoned timestamptz, far date, exact numeric(20, 3)); \
         insert into t values (1, '2026-11-23', '2026-11-23 10:00:00.25', '2026-11-23 10:00+02', '0044-03-15 BC', 1.5), \
         (2, null, null, null, null, null)",
    );
    succeed(&["export", &db, "t", &file]);
    let made = Database::open(path(place.path(), "plain"), Options::default()).expect("it opens");
    let columns = [
        ("id", "int32"),
        ("day", "date"),
        ("at", "timestamp"),
        ("zoned", "timestamp"),
        ("far", "text"),
        ("exact", "decimal(20, 3)"),
    ];
    let definition =
        columns.into_iter().fold(TableDefinition::new("t"), |all, (name, of)| all.column_of(name, of));
    let table = made.create_table(definition.primary_key(["id"])).expect("it is made");
    heddledb_transfer::Import::new(heddledb_transfer::Format::Parquet)
        .run_file(&made, &table, &file)
        .expect("types fit");
    let row = made.snapshot().expect("one").get(&table, 1).expect("read").expect("it is there");
    let shown = |name: &str| format!("{:?}", row.get(name).expect("a column"));
    assert!(
        shown("day").contains("Date(") && shown("at").contains("Timestamp("),
        "{} {}",
        shown("day"),
        shown("at")
    );
    assert!(
        shown("zoned").contains("08:00:00") && shown("far").contains("BC"),
        "{} {}",
        shown("zoned"),
        shown("far")
    );
    let rows = sql(&db, "select * from t order by id");
    sql(&db, "delete from t");
    succeed(&["import", &db, "t", &file]);
    assert_eq!(sql(&db, "select * from t order by id"), rows);
}
