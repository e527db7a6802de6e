//! Tests of the rows that an import refuses, of its messages, and of the rows that stay in the table.

use std::io::Read;

use heddledb::{DataType, Database, ForeignKey, Range, Table, TableDefinition, Value, row};
use heddledb_transfer::csv::Dialect;
use heddledb_transfer::{Error, Format, Header, Import, ImportReport, Rejected, Result};

fn items() -> (Database, Table) {
    let db = Database::in_memory().expect("it opens");
    let definition = TableDefinition::new("item")
        .column("id", DataType::Int32)
        .column("name", DataType::Text)
        .not_null()
        .column("price", DataType::Decimal { precision: 6, scale: 2 })
        .default("1.50".parse::<heddledb::Decimal>().expect("a decimal"))
        .primary_key(["id"])
        .unique_index("by_name", ["name"])
        .check("affordable", "price < 1000");
    let table = db.create_table(definition).expect("it is made");
    (db, table)
}

fn rows(db: &Database, table: &Table) -> Vec<Vec<Value>> {
    let rows = db.snapshot().expect("a snapshot").scan(table, Range::all()).expect("a scan");
    rows.map(|row| row.expect("a row").to_values()).collect()
}

fn ids(db: &Database, table: &Table) -> Vec<i64> {
    rows(db, table).iter().map(|row| i64::try_from(&row[0]).expect("a number")).collect()
}

/// An import that goes on, and the rows that it rejected.
fn collected(
    db: &Database,
    table: &Table,
    format: Format,
    text: &str,
) -> (Result<ImportReport>, Vec<Rejected>) {
    let mut rejected = Vec::new();
    let report = Import::new(format).collect_rejected(100, |row| rejected.push(row.clone())).run(
        db,
        table,
        text.as_bytes(),
    );
    (report, rejected)
}

#[test]
fn rejected_rows_name_their_line_and_column_and_the_others_are_imported() {
    let (db, table) = items();
    let text = "id,name,price\n1,pen,2.50\nx,ink,1\n3,,1\n4,\"a\nb\",1\n5,pen,1\n6,six,1.005\n7,seven,1e3\n8,eight\n9,nine,1e2\n";
    let (report, rejected) = collected(&db, &table, Format::Csv, text);
    let report = report.expect("it goes on");
    assert_eq!((report.rows, report.rejected, report.at_once), (3, 6, false));
    assert_eq!(ids(&db, &table), [1, 4, 9]);
    let reported: Vec<String> = rejected.iter().map(Rejected::to_string).collect();
    let expected = [
        ("line 3, column \"id\": ", "is no int32"),
        ("line 4: ", "item.name must have a value"),
        ("line 7: ", "by_name"),
        ("line 8: ", "would lose digits"),
        ("line 9: ", "affordable"),
        ("line 10: ", "it has 2 fields, but 3 columns are wanted"),
    ];
    assert_eq!(reported.len(), expected.len(), "{reported:#?}");
    for (reported, (begin, part)) in reported.iter().zip(expected) {
        assert!(reported.starts_with(begin) && reported.contains(part), "{reported}");
    }
    assert_eq!((rejected[0].text.as_str(), rejected[5].text.as_str()), ("x,ink,1", "8,eight"));
}

#[test]
fn an_empty_table_gets_all_rows_or_none_and_another_one_those_before_the_error() {
    for (wrong, part) in [("x,ink,1", "line 3, column \"id\""), ("1,ink,1", "line 3"), ("2,ink", "line 3")] {
        let (db, table) = items();
        let text = format!("id,name,price\n1,pen,2.50\n{wrong}\n4,four,4\n");
        let error = Import::new(Format::Csv).run(&db, &table, text.as_bytes()).expect_err("it is refused");
        assert!(matches!(error, Error::Rejected { imported: 0, .. }), "{error}");
        assert!(error.to_string().contains(part), "{error}");
        assert_eq!(rows(&db, &table), Vec::<Vec<Value>>::new());
        db.run(|tx| tx.insert(&table, row![100, "there", 1])).expect("it is inserted");
        let error = Import::new(Format::Csv).run(&db, &table, text.as_bytes()).expect_err("it is refused");
        assert!(matches!(error, Error::Rejected { imported: 1, .. }), "{error}");
        assert!(error.to_string().contains(part), "{error}");
        assert_eq!(ids(&db, &table), [1, 100]);
    }
}

#[test]
fn only_so_many_rejected_rows_are_collected() {
    let (db, table) = items();
    let mut count = 0;
    let outcome = Import::new(Format::Csv).collect_rejected(2, |_| count += 1).run(
        &db,
        &table,
        "id,name\nx,1\ny,2\n1,one\nz,3\n2,two\n".as_bytes(),
    );
    assert!(matches!(outcome, Err(Error::TooManyRejected { most: 2, imported: 1, .. })), "{outcome:?}");
    assert_eq!((count, ids(&db, &table)), (3, vec![1]));
}

#[test]
fn json_is_read_as_lines_and_as_a_list_and_missing_keys_are_defaults() {
    let price = |row: &[Value]| row[2].to_string();
    let texts = [
        "{\"id\":1,\"name\":\"pen\"}\n\n{\"price\":2.5,\"name\":\"ink\",\"id\":2}\n{\"id\":3,\"name\":\"\",\"price\":null}",
        "\u{feff}[{\"id\":1,\"name\":\"pen\"},\n {\"price\":\"2.50\",\"name\":\"ink\",\"id\":2},{\"id\":3,\"name\":\"\",\"price\":null}]\n",
        "{\n  \"id\": 1,\n  \"name\": \"pen\"\n}\n{\"id\":2,\"name\":\"ink\",\"price\":2.50} {\"id\":3,\"name\":\"\",\"price\":null}",
    ];
    for text in texts {
        let (db, table) = items();
        let report = Import::new(Format::Json).run(&db, &table, text.as_bytes()).expect("it is read");
        assert!(report.rows == 3 && report.at_once);
        let rows = rows(&db, &table);
        assert_eq!(rows.iter().map(|row| price(row)).collect::<Vec<_>>(), ["1.50", "2.50", ""]);
        assert_eq!(rows[2][1], Value::from(""));
    }
}

#[test]
fn what_is_wrong_in_json_costs_its_row_and_what_does_not_end_ends_the_import() {
    let (db, table) = items();
    let text = "hello\n{\"id\":1,\"name\":\"a\"}\n{\"id\":2,\"nam\":\"b\"}\n{\"id\":3 \"name\":\"c\"}\n{\"id\":[4],\"name\":\"d\"}\n{\"id\":5.0,\"name\":\"e\"}\n7\n";
    let (report, rejected) = collected(&db, &table, Format::Json, text);
    assert_eq!(report.expect("it goes on").rows, 2);
    assert_eq!(ids(&db, &table), [1, 5]);
    let lines: Vec<u64> = rejected.iter().map(|rejected| rejected.line).collect();
    assert_eq!(lines, [1, 3, 4, 5, 7]);
    assert!(rejected[1].reason.contains("\"nam\"") && rejected[1].reason.contains("id, name, price"));
    for (text, part) in [
        ("{\"id\":8,", "line 1: the object does not end"),
        ("[{\"id\":9,\"name\":\"x\"}", "the list does not end"),
    ] {
        let (report, _) = collected(&db, &table, Format::Json, text);
        let error = report.expect_err("it ends").to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn headings_are_found_demanded_or_left_out() {
    let import = |header, text: &str| {
        let (db, table) = items();
        let outcome = Import::new(Format::Csv).header(header).run(&db, &table, text.as_bytes());
        outcome.map(|_| rows(&db, &table).into_iter().map(|row| row[1].to_string()).collect::<Vec<_>>())
    };
    let said = |outcome: Result<Vec<String>>| outcome.map_err(|error| error.to_string());
    assert_eq!(said(import(Header::Auto, "\u{feff}name,id\r\npen,1\r\n")), Ok(vec!["pen".to_string()]));
    assert_eq!(
        said(import(Header::Auto, "1,pen,2\n\n2,ink,3")),
        Ok(vec!["pen".to_string(), "ink".to_string()])
    );
    assert_eq!(said(import(Header::No, "1,id,2\n")), Ok(vec!["id".to_string()]));
    let unknown = said(import(Header::Yes, "id,nam\n1,pen\n")).expect_err("there is none");
    assert!(unknown.contains("\"nam\"") && unknown.contains("id, name, price"), "{unknown}");
    let twice = said(import(Header::Yes, "id,id\n1,2\n")).expect_err("it is there twice");
    assert!(twice.contains("line 1") && twice.contains("twice"), "{twice}");
}

#[test]
fn dialects_tell_null_from_a_text() {
    let (db, table) = items();
    let dialect = Dialect { delimiter: ';', null: "NULL".to_string(), ..Dialect::default() };
    let text = "id;name;price\n1;\"NULL\";NULL\n2;;3\n";
    let report =
        Import::new(Format::Csv).dialect(dialect).run(&db, &table, text.as_bytes()).expect("it is read");
    assert_eq!(report.rows, 2);
    let texts: Vec<Vec<String>> =
        rows(&db, &table).iter().map(|row| row.iter().map(Value::to_string).collect()).collect();
    assert_eq!(texts, [["1", "NULL", ""], ["2", "", "3.00"]]);
    for (text, part) in
        [("1,\"pen,1\n2,x,1\n", "line 1: its quotes do not end"), ("1,p\n\n", "it has 2 fields")]
    {
        let outcome = Import::new(Format::Csv).run(&db, &table, text.as_bytes()).expect_err("it is refused");
        assert!(outcome.to_string().contains(part), "{outcome}");
    }
    let outcome = Import::new(Format::Csv).run(&db, &table, &b"3,p\xFFn,1\n"[..]).expect_err("it is no text");
    assert!(outcome.to_string().contains("line 1: it is not UTF-8"), "{outcome}");
}

#[test]
fn a_table_with_a_foreign_key_is_imported_in_batches() {
    let db = Database::in_memory().expect("it opens");
    let parent = TableDefinition::new("parent").column("id", DataType::Int64).primary_key(["id"]);
    let parent = db.create_table(parent).expect("it is made");
    db.run(|tx| tx.insert(&parent, row![1])).expect("it is inserted");
    let child = TableDefinition::new("child")
        .column("id", DataType::Int64)
        .column("parent", DataType::Int64)
        .primary_key(["id"])
        .foreign_key(ForeignKey::new("of_parent", ["parent"], "parent"));
    let child = db.create_table(child).expect("it is made");
    let (report, rejected) = collected(&db, &child, Format::Csv, "1,1\n2,2\n3,1\n");
    assert_eq!((report.expect("it goes on").rows, rejected.len()), (2, 1));
    assert!(rejected[0].line == 2 && rejected[0].reason.contains("of_parent"), "{}", rejected[0]);
    let report = Import::new(Format::Csv).run(&db, &child, "4,1\n".as_bytes()).expect("it is read");
    assert!(report.rows == 1 && !report.at_once);
}

/// Inserts a row into a table as soon as it is read from.
struct Rival<'t> {
    db: &'t Database,
    table: &'t Table,
    text: &'t [u8],
    outcome: &'t mut Option<heddledb::Result<()>>,
}

impl Read for Rival<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.outcome.is_none() {
            let (db, table) = (self.db, self.table);
            // On a thread of its own: here a transaction is under way.
            let inserted = std::thread::scope(|scope| {
                scope.spawn(|| db.run(|tx| tx.insert(table, row![100, "rival", 1]))).join().expect("no panic")
            });
            *self.outcome = Some(inserted);
        }
        self.text.read(buffer)
    }
}

#[test]
fn rows_that_another_transaction_inserts_meanwhile_are_not_lost() {
    let (db, table) = items();
    let mut outcome = None;
    let rival = Rival { db: &db, table: &table, text: b"id,name\n1,one\n2,two\n", outcome: &mut outcome };
    let imported = Import::new(Format::Csv).run(&db, &table, rival);
    assert_eq!(outcome, Some(Ok(())));
    assert!(matches!(imported, Err(Error::Interrupted)), "{imported:?}");
    assert_eq!(ids(&db, &table), [100]);
    let again = Import::new(Format::Csv).run(&db, &table, "id,name\n1,one\n2,two\n".as_bytes());
    assert!(again.is_ok_and(|report| report.rows == 2 && !report.at_once));
    assert_eq!(ids(&db, &table), [1, 2, 100]);
}

#[test]
fn an_export_is_of_one_moment_while_writers_go_on() {
    let (db, table) = items();
    let twin = TableDefinition::new("twin").column("id", DataType::Int32).column("n", DataType::Int64);
    let twin = db.create_table(twin.primary_key(["id"])).expect("it is made");
    db.run(|tx| {
        (0..100).try_for_each(|id| tx.insert(&twin, row![id, 0]))?;
        tx.insert(&table, row![0, "counter", 0])
    })
    .expect("inserted");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Each transaction moves one from one row to another: the sum is always 0.
            for round in 0..1_000_000_i64 {
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                let moved = db.run(|tx| {
                    tx.add(&twin, round % 100, "n", 1)?;
                    tx.add(&twin, (round * 7 + 1) % 100, "n", -1)
                });
                moved.expect("it commits");
            }
        });
        for _ in 0..50 {
            let mut file = Vec::new();
            let report = heddledb_transfer::Export::new(Format::Csv)
                .header(false)
                .run(&db, &twin, &mut file)
                .expect("written");
            assert_eq!(report.rows, 100);
            let text = String::from_utf8(file).expect("text");
            let sum: i64 = text
                .lines()
                .map(|line| line.split_once(',').expect("two fields").1.parse::<i64>().expect("a number"))
                .sum();
            assert_eq!(sum, 0);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}
