//! `heddle sql`: statements from the command line, files and standard input; formats, commands, errors, exit codes.

mod terminal;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::skips;

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
        " id | name | first \n----+------+-------\n  1 | tea  | t\n  2 | NULL | f\n(2 rows)\n"
    );
    assert_eq!(
        in_format("json"),
        "[\n  {\"id\":1,\"name\":\"tea\",\"first\":true},\n  {\"id\":2,\"name\":null,\"first\":false}\n]\n"
    );
    assert_eq!(
        in_format("markdown"),
        "| id | name | first |\n| ---: | --- | --- |\n| 1 | tea | t |\n| 2 | NULL | f |\n"
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
    assert_eq!(text(&copied.stdout), "COPY 3\nDELETE 3\nCOPY 3\n", "{}", text(&copied.stderr));
    let csv = place.path().join("more.csv");
    std::fs::write(&csv, "id,name\n10,ten\n1,taken\nx,no number\n11,\"ele,ven\"\n").unwrap();
    let imported = heddle(&db, &["-c", &format!(".import --csv {} item", csv.display())], "");
    assert_eq!((text(&imported.stdout), imported.status.code()), ("2 rows imported, 2 rejected\n", Some(1)));
    let reported = text(&imported.stderr);
    assert!(
        reported.contains("line 3: duplicate key")
            && reported.contains("line 4, column \"id\": invalid input syntax"),
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
    let expected = "  x  \n-----\n a;b\n(1 row)\nhello\n-[ RECORD 1 ]\ny | 1\n";
    assert_eq!(text(&output.stdout), expected, "{}", text(&output.stderr));
    assert_eq!(heddle(&db, &["-f", "/nowhere/at/all.sql"], "").status.code(), Some(2));
}

/// The output of a script, which must end well.
fn printed(db: &Path, script: &str) -> String {
    let output = heddle(db, &["--format", "unaligned"], &format!("\\pset tuples_only on\n{script}"));
    assert!(output.status.success(), "{script}: {}", text(&output.stderr));
    text(&output.stdout).to_owned()
}

/// Tests that the same script in psql against PostgreSQL prints the same.
#[test]
fn commands_within_statements_do_what_psql_does() {
    let place = tempfile::tempdir().unwrap();
    let db = place.path().join("db");
    let file = place.path().join("out.txt");
    let script = format!(
        "select 1 as a, 'it''s' as b, null as c \\gset x_
\\echo :x_a :'x_b' :{{?x_c}} :\"x_b\"
select :x_a + 1, :'x_b' \\g
\\set n 5 0
select :n, x::int from (values (':n')) as t (y), (select '7' as x) as u; \\echo behind
select 'select ' || g || ' as v' from generate_series(1, 3) as g \\gexec
select 'into a file' \\g {0}
\\o {0}.two
select 'two';
\\qecho three
\\o
\\if :x_a
\\echo yes
\\elif true
\\echo not this
\\else
select broken;
\\endif
\\if no
\\i /nowhere
\\else
\\echo :ROW_COUNT :SQLSTATE :ERROR
\\endif
select 1; select 2 \\p \\r
select 4 \\; select 5;
\\echo -n a \\\\ select 6;
select 'x' as k \\gx
",
        file.display()
    );
    let expected = "1 'it''s' FALSE \"it's\"\n2|it's\n50|7\nbehind\n1\n2\n3\nyes\n1 00000 false\n1\nselect 2\n4\n5\na6\nk|x\n";
    assert_eq!(printed(&db, &script), expected);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "into a file\n");
    assert_eq!(std::fs::read_to_string(format!("{}.two", file.display())).unwrap(), "two\nthree\n");
}

#[test]
fn errors_leave_their_state_in_variables_and_stop_a_script_only_if_asked() {
    let place = tempfile::tempdir().unwrap();
    let db = place.path().join("db");
    let script = "\\set ON_ERROR_STOP off\nselect nope;\n\\echo :SQLSTATE :ERROR :LAST_ERROR_MESSAGE\n\\set ON_ERROR_STOP\nselect nope;\n\\echo never\n";
    let output = heddle(&db, &[], script);
    assert_eq!(text(&output.stdout), "42703 true column \"nope\" does not exist\n");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn scripts_call_others_beside_them() {
    let place = tempfile::tempdir().unwrap();
    let (db, inner) = (place.path().join("db"), place.path().join("inner"));
    std::fs::create_dir(&inner).unwrap();
    std::fs::write(place.path().join("outer.sql"), "select 'outer';\n\\ir inner/first.sql\n").unwrap();
    std::fs::write(inner.join("first.sql"), "select 'first';\n\\ir second.sql\nselect 'first again'")
        .unwrap();
    std::fs::write(inner.join("second.sql"), "select 'second' -- without a semicolon").unwrap();
    let script = format!("\\i {}/outer.sql\nselect 'end';", place.path().display());
    assert_eq!(printed(&db, &script), "outer\nfirst\nsecond\nfirst again\nend\n");
}

#[test]
fn copy_takes_queries_programs_and_options() {
    let place = tempfile::tempdir().unwrap();
    let (db, file) = (place.path().join("db"), place.path().join("a b.csv"));
    let script = format!(
        "create table t (a int, b text);
\\copy t (a, b) from program 'printf \"1;x\\n2;y z\\n\"' with (format csv, delimiter ';')
\\copy (select b, a from t where a > 1) to '{0}' csv header
\\copy t to stdout csv
\\copy t from '{0}' with (format csv, header)
",
        file.display()
    );
    let output = heddle(&db, &[], &script);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "b,a\ny z,2\n");
    assert_eq!(text(&output.stdout), "CREATE TABLE\nCOPY 2\nCOPY 1\n1,x\n2,y z\n");
    // The columns stand in another order there: the error says where.
    let reported = text(&output.stderr);
    assert!(reported.contains("invalid input syntax for type integer: \"y z\""), "{reported}");
    assert!(reported.contains("CONTEXT:  COPY t, line 2, column a: \"y z\""), "{reported}");
}

#[test]
fn lists_show_what_is_in_the_database() {
    let place = tempfile::tempdir().unwrap();
    let db = place.path().join("db");
    heddle(
        &db,
        &[],
        "create table item (id int primary key, name text); comment on table item is 'things';
         create table part (id int references item);
         create function twice(n int) returns int language sql as 'select 2 * n';
         create function note() returns trigger language plpgsql as 'begin return new; end';
         create trigger noted before insert on item for each row execute function note();
         create role ada login; create role team; grant team to ada;
         create type mood as enum ('sad', 'ok'); create domain price as numeric(8, 2) check (value > 0);
         create view cheap as select id from item; create index by_name on item (name);",
    );
    let shown = |command: &str| {
        let output = heddle(&db, &["-c", command], "");
        assert!(output.status.success(), "{command}: {}", text(&output.stderr));
        text(&output.stdout).to_owned()
    };
    for (command, parts) in [
        ("\\dt", &["List of relations", "public | item | table | "][..]),
        ("\\dt it*", &["item"]),
        ("\\dv", &["cheap"]),
        ("\\di", &["by_name", "item_pkey"]),
        ("\\dt+", &["things"]),
        ("\\df", &["public | twice | integer          | n integer", "note", "trigger"]),
        ("\\df+ twice", &["select 2 * n", "volatile"]),
        ("\\du", &["List of roles", "ada", "{team}", "Cannot login", "Superuser"]),
        ("\\dT", &["mood", "enum", "price"]),
        ("\\dD", &["price", "numeric(8,2)"]),
        ("\\dn", &["public"]),
        ("\\dp item", &["item", "table"]),
        ("\\l", &["UTF8"]),
        ("\\dx", &["Name"]),
        (
            "\\d item",
            &[
                "Table \"public.item\"",
                "Indexes:",
                "Triggers:",
                "noted BEFORE INSERT",
                "Referenced by:",
                "\"part\"",
            ],
        ),
        ("\\d+ item", &["Comments:", "relation: things", "Size, with indexes:"]),
        ("\\d", &["item", "part", "cheap"]),
        ("\\sf twice", &["FUNCTION public.twice(n integer)", "select 2 * n"]),
        ("\\sv cheap", &["item"]),
        ("\\conninfo", &["database", "as user", "db"]),
    ] {
        let output = shown(command);
        parts.iter().for_each(|part| assert!(output.contains(part), "{command}: {part}: {output}"));
    }
    assert!(!shown("\\dt it*").contains("part"));
    assert_eq!(heddle(&db, &["-c", "\\nonsense"], "").status.code(), Some(1));
    assert_eq!(heddle(&db, &["-c", "\\d nothing"], "").status.code(), Some(1));
}

#[test]
fn results_look_as_they_are_set_to() {
    let place = tempfile::tempdir().unwrap();
    let db = place.path().join("db");
    let shown = |settings: &str| {
        let output = heddle(&db, &[], &format!("{settings}\nselect 1 as n, null as x;"));
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).to_owned()
    };
    assert_eq!(shown(""), " n |  x   \n---+------\n 1 | NULL\n(1 row)\n");
    assert_eq!(shown("\\pset null ''"), " n | x \n---+---\n 1 |\n(1 row)\n");
    assert_eq!(
        shown("\\pset border 2\n\\pset footer off"),
        "+---+------+\n| n |  x   |\n+---+------+\n| 1 | NULL |\n+---+------+\n"
    );
    assert_eq!(shown("\\a\n\\t\n\\f ';'"), "1;NULL\n");
    assert_eq!(shown("\\x on\n\\pset null -"), "-[ RECORD 1 ]\nn | 1\nx | -\n");
    assert_eq!(shown("\\pset format csv\n\\C unseen"), "n,x\n1,\n");
    assert!(shown("\\pset").contains("null                     'NULL'"));
}
