//! COPY: text and binary, and the rows that it refuses.

use heddle_sql::{Sql, SqlState};
use heddledb::{Database, Durability, Options};

use super::{connect, in_memory, rows};

#[test]
fn copy_goes_in_and_out() {
    let sql = in_memory();
    let mut connection = connect(&sql);
    connection.query("create table t (id int primary key, v text, d date)").expect("a table");
    let text = b"1\ta\\tb\t2020-01-31\n2\t\\N\t\\N\n3\tback\\\\slash\t1999-12-31\n\\.\n";
    let results = connection.copy_from("copy t from stdin", text).expect("three lines");
    assert_eq!(results[0].tag, "COPY 3");
    let results = connection.query("copy t to stdout").expect("three lines");
    assert_eq!(String::from_utf8_lossy(&results[0].data), String::from_utf8_lossy(&text[..text.len() - 3]));
    let csv = b"id,v,d\n4,\"two\nlines, \"\"quoted\"\"\",\n5,\"\",2001-01-01\n";
    connection.copy_from("copy t from stdin (format csv, header)", csv).expect("two lines");
    let results = connection
        .query("copy (select * from t where id > 3 order by id) to stdout csv header")
        .expect("two lines");
    assert_eq!(String::from_utf8_lossy(&results[0].data), String::from_utf8_lossy(csv));
    let error =
        connection.copy_from("copy t from stdin", b"6\tx\t2020-01-01\nbad\ty\t\\N\n").expect_err("no number");
    assert_eq!(error.state(), SqlState::INVALID_TEXT_REPRESENTATION);
    assert_eq!(error.context(), Some("COPY t, line 2, column id: \"bad\""), "{error}");
    let error = connection.copy_from("copy t from stdin", b"6\tx\n").expect_err("a column is missing");
    assert_eq!(error.state(), SqlState::BAD_COPY_FILE_FORMAT);
    assert_eq!(rows(&mut connection, "select count(*) from t"), ["5"]);
}

/// The contexts are those of PostgreSQL 15.
#[test]
fn errors_in_copied_data_name_line_and_column() {
    let sql = in_memory();
    let mut connection = connect(&sql);
    connection.query("create schema s; create table s.t (a int, b text, c date)").expect("a table");
    let long = "9".repeat(120);
    for (copy, data, context) in [
        (
            "copy s.t from stdin",
            "1\tx\t2020-01-01\n2\ty\tnope\n",
            "COPY t, line 2, column c: \"nope\"".to_string(),
        ),
        ("copy s.t from stdin csv", "1,x\n", "COPY t, line 1: \"1,x\"".to_string()),
        ("copy s.t from stdin csv", "1,x,2020-01-01,5\n", "COPY t, line 1: \"1,x,2020-01-01,5\"".to_string()),
        (
            "copy s.t (a) from stdin",
            &format!("{long}\n"),
            format!("COPY t, line 1, column a: \"{}...\"", &long[..100]),
        ),
    ] {
        let error = connection.copy_from(copy, data.as_bytes()).expect_err(data);
        assert_eq!((error.context(), error.detail()), (Some(context.as_str()), None), "{data}");
    }
}

#[test]
fn a_row_of_a_copy_that_violates_a_constraint_is_named_by_its_line() {
    let sql = in_memory();
    let mut connection = connect(&sql);
    connection.query("create table t (id int primary key, n int check (n > 0))").expect("a table");
    let lines: String =
        (1..=30_000).map(|id| format!("{id}\t{}\n", if id == 29_000 { -1 } else { 1 })).collect();
    let in_a_loaded_table = "begin; truncate t; copy t from stdin; commit";
    for copy in ["copy t from stdin", in_a_loaded_table, "begin; copy t from stdin; commit"] {
        let error = connection.copy_from(copy, lines.as_bytes()).expect_err("a check");
        assert_eq!(error.state(), SqlState::CHECK_VIOLATION, "{copy}");
        assert_eq!(error.context(), Some("COPY t, line 29000"), "{copy}");
        connection.query("rollback").expect("a rollback");
        assert_eq!(rows(&mut connection, "select count(*) from t"), ["0"], "{copy}");
    }
    let csv = lines.replace("-1", "1").replace('\t', ",") + "7,1\n";
    let copy = "copy t from stdin (format csv, header)";
    let error = connection.copy_from(copy, format!("id,n\n{csv}").as_bytes()).expect_err("a duplicate");
    assert_eq!(error.state(), SqlState::UNIQUE_VIOLATION);
    assert_eq!(error.context(), Some("COPY t, line 30002"));
}

#[test]
fn copy_in_binary_gives_what_it_takes() {
    let sql = in_memory();
    let mut connection = connect(&sql);
    connection
        .query("create table t (id int primary key, v text, n numeric(6, 2), a int[])")
        .expect("a table");
    connection
        .query(
            "insert into t values (1, 'one', 1.5, '{1,NULL}'), (2, NULL, NULL, NULL), (3, '', -0.25, '{}')",
        )
        .expect("three rows");
    let out = "copy (select * from t order by id) to stdout (format binary)";
    let results = connection.query(out).expect("three rows");
    let data = results[0].data.clone();
    assert_eq!((results[0].tag.as_str(), &data[..11]), ("COPY 3", &b"PGCOPY\n\xff\r\n\0"[..]));
    connection.query("truncate t").expect("emptied");
    let into = "copy t from stdin (format binary)";
    assert_eq!(connection.copy_from(into, &data).expect("three rows")[0].tag, "COPY 3");
    assert_eq!(connection.query(out).expect("three rows")[0].data, data);
    connection.query("truncate t").expect("emptied");
    for end in 0..data.len() - 2 {
        // What ends between two rows is complete even without the end mark, as in PostgreSQL.
        if let Err(error) = connection.copy_from(into, &data[..end]) {
            assert_eq!(error.state(), SqlState::BAD_COPY_FILE_FORMAT, "{end}");
        } else {
            connection.query("truncate t").expect("emptied");
        }
    }
    for at in 0..data.len() {
        let mut damaged = data.clone();
        damaged[at] ^= 0x80;
        // An error, or another value: never a panic.
        if connection.copy_from(into, &damaged).is_ok() {
            connection.query("truncate t").expect("emptied");
        }
    }
}

#[test]
fn a_copy_beyond_the_memory_limit_ends_in_an_error_and_leaves_nothing() {
    let options = Options::default().durability(Durability::None).memory(|memory| memory.limit(4 << 20));
    let sql = Sql::new(&Database::in_memory_with(options).expect("a database in memory")).expect("SQL");
    let mut connection = connect(&sql);
    connection.query("create table t (id int primary key, v text)").expect("a new table");
    let line = |id: usize| format!("{id}\t{}\n", "x".repeat(1_000));
    let data: String = (0..20_000).map(line).collect();
    let error = connection.copy_from("copy t from stdin", data.as_bytes()).expect_err("it does not fit");
    assert_eq!(error.state(), SqlState::OUT_OF_MEMORY);
    assert_eq!(rows(&mut connection, "select count(*) from t"), ["0"]);
    let data: String = (0..100).map(line).collect();
    assert_eq!(
        connection.copy_from("copy t from stdin", data.as_bytes()).expect("it fits")[0].tag,
        "COPY 100"
    );
}

#[test]
fn a_header_is_compared_with_the_columns_where_that_is_asked() {
    let sql = in_memory();
    let mut connection = connect(&sql);
    connection
        .query("create table t (a int primary key, b int, c int generated always as (a * 2) stored)")
        .expect("a table");
    let csv = "copy t from stdin (format csv, header match)";
    connection.copy_from(csv, b"a,b\n1,2\n").expect("the names of all columns that are not generated");
    connection.copy_from("copy t (b, a) from stdin (header match)", b"b\ta\n3\t4\n").expect("these columns");
    let wrong: [(&str, &[u8]); 4] = [
        (csv, b"b,a\n5,6\n"),
        (csv, b"a\n5\n"),
        (csv, b"a,b,c\n5,6,10\n"),
        ("copy t (b, a) from stdin (header match)", b"b\t\\N\n5\t6\n"),
    ];
    for (copy, data) in wrong {
        let error = connection.copy_from(copy, data).expect_err("another header");
        assert_eq!(error.state(), SqlState::BAD_COPY_FILE_FORMAT, "{copy}");
    }
    connection.copy_from("copy t from stdin (format csv, header)", b"x,y\n7,8\n").expect("any header");
    let refused = [
        ("copy t to stdout (format csv, header match)", SqlState::FEATURE_NOT_SUPPORTED),
        ("copy t from stdin (format binary, header)", SqlState::FEATURE_NOT_SUPPORTED),
        ("copy t (a, c) to stdout", SqlState::INVALID_COLUMN_REFERENCE),
        ("copy t (a, c) from stdin", SqlState::INVALID_COLUMN_REFERENCE),
    ];
    for (copy, state) in refused {
        assert_eq!(connection.copy_from(copy, b"").expect_err("refused").state(), state, "{copy}");
    }
    let results = connection.query("copy t to stdout").expect("rows");
    assert_eq!(String::from_utf8_lossy(&results[0].data), "1\t2\n4\t3\n7\t8\n");
}
