//! `heddle sql`: statements from the command line, files and standard input; formats, commands, errors, exit codes.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn heddle(directory: &Path, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_heddle"))
        .arg("sql")
        .arg(directory)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

const TABLE: &str = "create table item (id int primary key, name text, price numeric(8,2));
    insert into item values (1, 'tea', 2.50), (2, NULL, 10), (3, 'a|b', 0.1);";

#[test]
fn written_rows_survive_a_restart() {
    let place = tempfile::tempdir().unwrap();
    let db = place.path().join("db");
    let written = heddle(&db, &[], TABLE);
    assert_eq!((text(&written.stdout), written.status.code()), ("CREATE TABLE\nINSERT 0 3\n", Some(0)));
    let read = heddle(&db, &["-c", "select id, price from item order by id", "--format", "csv"], "");
    assert_eq!(text(&read.stdout), "id,price\n1,2.50\n2,10.00\n3,0.10\n");
}

#[test]
fn results_come_in_every_format() {
    let place = tempfile::tempdir().unwrap();
    let db = place.path().join("db");
    heddle(&db, &[], TABLE);
    let query = "select id, name, id = 1 as first from item where id < 3 order by id";
    let in_format = |format: &str| {
        let output = heddle(&db, &["-c", query, "--format", format], "");
        text(&output.stdout).to_string()
    };
    assert_eq!(
        in_format("table"),
        " id | name | first \n----+------+-------\n  1 | tea  | t\n  2 |      | f\n(2 rows)\n"
    );
    assert_eq!(
        in_format("json"),
        "[\n  {\"id\":1,\"name\":\"tea\",\"first\":true},\n  {\"id\":2,\"name\":null,\"first\":false}\n]\n"
    );
    assert_eq!(
        in_format("markdown"),
        "| id | name | first |\n| ---: | --- | --- |\n| 1 | tea | t |\n| 2 |  | f |\n"
    );
}

#[test]
fn the_first_error_ends_it_with_exit_1_unless_it_keeps_going() {
    let place = tempfile::tempdir().unwrap();
    let db = place.path().join("db");
    let script = "select 1;\nselect nope;\nselect 2;";
    let stopped = heddle(&db, &["--format", "csv"], script);
    assert_eq!((text(&stopped.stdout), stopped.status.code()), ("?column?\n1\n", Some(1)));
    let reported = text(&stopped.stderr);
    assert!(reported.contains("ERROR:  column \"nope\" does not exist\nLINE 1: select nope;"), "{reported}");
    assert!(reported.contains("SQLSTATE:  42703"), "{reported}");
    let went_on = heddle(&db, &["--format", "csv", "--keep-going"], script);
    assert_eq!((text(&went_on.stdout), went_on.status.code()), ("?column?\n1\n?column?\n2\n", Some(1)));
    assert_eq!(heddle(&db, &["--format", "nonsense"], "").status.code(), Some(2));
}

#[test]
fn commands_describe_copy_and_import() {
    let place = tempfile::tempdir().unwrap();
    let db = place.path().join("db");
    heddle(&db, &[], TABLE);
    let described = heddle(&db, &["-c", "\\d item", "-c", "\\dt"], "");
    let reported = text(&described.stdout);
    assert!(
        reported.contains("price  | numeric(8,2)") && reported.contains("\"item_pkey\" PRIMARY KEY (id)"),
        "{reported}"
    );
    assert_eq!(heddle(&db, &["-c", "\\d nothing"], "").status.code(), Some(1));
    let file = place.path().join("item.txt");
    let copy = format!(
        "\\copy item to {}\ndelete from item;\n\\copy item from {}\n",
        file.display(),
        file.display()
    );
    let copied = heddle(&db, &[], &copy);
    assert_eq!(text(&copied.stdout), "DELETE 3\nCOPY 3\n", "{}", text(&copied.stderr));
    let csv = place.path().join("more.csv");
    std::fs::write(&csv, "id,name\n10,ten\n1,taken\nx,no number\n11,\"ele,ven\"\n").unwrap();
    let imported = heddle(&db, &["-c", &format!(".import --csv {} item", csv.display())], "");
    assert_eq!((text(&imported.stdout), imported.status.code()), ("2 rows imported, 2 rejected\n", Some(1)));
    let reported = text(&imported.stderr);
    assert!(
        reported.contains("line 3: duplicate key") && reported.contains("line 4: invalid input syntax"),
        "{reported}"
    );
    let names = heddle(&db, &["-c", "select name from item where id > 9 order by id", "--format", "csv"], "");
    assert_eq!(text(&names.stdout), "name\nten\n\"ele,ven\"\n");
}

#[test]
fn files_are_read_with_comments_quotes_and_commands() {
    let place = tempfile::tempdir().unwrap();
    let (db, file) = (place.path().join("db"), place.path().join("script.sql"));
    std::fs::write(&file, "-- a; comment\nselect 'a;b' as x; /* ; */\n\\echo hello\n\\x\nselect 1 as y")
        .unwrap();
    let output = heddle(&db, &["-f", file.to_str().unwrap()], "");
    let expected = "  x  \n-----\n a;b\n(1 row)\nhello\n-[ RECORD 1 ]-\ny | 1\n";
    assert_eq!(text(&output.stdout), expected, "{}", text(&output.stderr));
    assert_eq!(heddle(&db, &["-f", "/nowhere/at/all.sql"], "").status.code(), Some(2));
}
