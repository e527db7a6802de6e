//! Tests of the statements that are recognized as ones that do not read the rows that they change: their
//! results are those of the usual way, and of PostgreSQL.

use heddle_sql::Connection;
use heddledb::Options;

use super::{admin, open, rows};
use crate::operations::form_table::{FORMS, MISSED};
use crate::support::oracle::{Oracle, Session};

const TABLE: &str = "
    CREATE TABLE item (
        id int PRIMARY KEY, n int NOT NULL, big bigint NOT NULL, small smallint NOT NULL, opt int,
        price numeric(10,2) NOT NULL, wide numeric(30,2), round numeric(5,-2) NOT NULL DEFAULT 0, free numeric NOT NULL, ratio float8 NOT NULL, seen timestamptz NOT NULL,
        day date, name text, active boolean NOT NULL DEFAULT true, updated_at timestamptz, version int NOT NULL,
        stock int NOT NULL CHECK (stock >= 0), capacity int NOT NULL, code int UNIQUE, tag int, twice int,
        CHECK (capacity > 0 OR name <> ''), CHECK (name <> 'bad'));
    CREATE INDEX ON item (tag);
    CREATE INDEX ON item ((twice * 2));
    CREATE TABLE parent (id int PRIMARY KEY, n int NOT NULL);
    CREATE TABLE child (id int PRIMARY KEY, n int NOT NULL, parent_id int REFERENCES parent);
    CREATE TABLE watched (id int PRIMARY KEY, n int NOT NULL, m int NOT NULL, o int NOT NULL);
    CREATE TABLE pair (a int, b text, n bigint NOT NULL, PRIMARY KEY (a, b));
    CREATE TABLE computed (id int PRIMARY KEY, n int NOT NULL, m int NOT NULL, d int GENERATED ALWAYS AS (n * 2) STORED);
    CREATE TABLE heap (n int NOT NULL);
    CREATE TABLE noted (id int PRIMARY KEY, n int NOT NULL, m int NOT NULL, whole int NOT NULL, label text);
    CREATE TABLE note (id int, before text, after text);
    CREATE TABLE ranged (id int PRIMARY KEY, n int CHECK (n >= 0 AND n <= 9 AND name <> 'bad'), name text);
    CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
    CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS 'DECLARE row record; BEGIN row := NEW; RETURN row; END';
    CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN INSERT INTO note VALUES (NEW.id, OLD.label, new.\"label\"); RETURN NULL; END';
    CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN INSERT INTO note VALUES (old.id, NEW.m, tg_op); RETURN NEW; END';
    CREATE FUNCTION count_it() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN INSERT INTO note VALUES (0, tg_name, tg_level); RETURN NULL; END';
    CREATE TRIGGER before_m BEFORE UPDATE OF m ON watched FOR EACH ROW EXECUTE FUNCTION keep();
    CREATE TRIGGER after_o AFTER UPDATE OF o ON watched FOR EACH ROW EXECUTE FUNCTION see();
    CREATE TRIGGER note AFTER UPDATE OF n ON noted FOR EACH ROW EXECUTE FUNCTION note();
    CREATE TRIGGER changed AFTER UPDATE OF n ON noted FOR EACH ROW WHEN (OLD.label IS DISTINCT FROM NEW.label)
        EXECUTE FUNCTION note();
    CREATE TRIGGER counted AFTER UPDATE OF n ON noted FOR EACH STATEMENT EXECUTE FUNCTION count_it();
    CREATE TRIGGER tell AFTER UPDATE OF m ON noted FOR EACH ROW EXECUTE FUNCTION tell();
    CREATE TRIGGER whole AFTER UPDATE OF whole ON noted FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*)
        EXECUTE FUNCTION keep();
    CREATE TRIGGER inserted AFTER INSERT ON watched FOR EACH ROW EXECUTE FUNCTION keep();
    CREATE TRIGGER at_end AFTER UPDATE ON watched FOR EACH STATEMENT EXECUTE FUNCTION keep();";

/// Makes every update of these tables an ordinary one.
const ORDINARY: &str = "
    CREATE TRIGGER ordinary AFTER UPDATE ON item FOR EACH ROW EXECUTE FUNCTION see();
    CREATE TRIGGER ordinary AFTER UPDATE ON parent FOR EACH ROW EXECUTE FUNCTION see();
    CREATE TRIGGER ordinary AFTER UPDATE ON child FOR EACH ROW EXECUTE FUNCTION see();
    CREATE TRIGGER ordinary AFTER UPDATE ON watched FOR EACH ROW EXECUTE FUNCTION see();
    CREATE TRIGGER ordinary AFTER UPDATE ON pair FOR EACH ROW EXECUTE FUNCTION see();
    CREATE TRIGGER ordinary AFTER UPDATE ON computed FOR EACH ROW EXECUTE FUNCTION see();
    CREATE TRIGGER ordinary AFTER UPDATE ON noted FOR EACH ROW EXECUTE FUNCTION see();
    CREATE TRIGGER ordinary AFTER UPDATE ON ranged FOR EACH ROW EXECUTE FUNCTION see();";

/// Five rows: usual ones, one with NULLs, and the ends of the types.
const ROWS: &str = "
    DELETE FROM item; DELETE FROM child; DELETE FROM parent; DELETE FROM watched; DELETE FROM pair; DELETE FROM computed;
    DELETE FROM noted; DELETE FROM note; DELETE FROM ranged;
    INSERT INTO item (id, n, big, small, opt, price, wide, free, ratio, seen, day, name, active, version, stock, capacity)
    VALUES (1, 0, 0, 0, 0, 0, 0, 0, 0, '2024-05-05', '2024-05-05', 'a', true, 1, 10, 5),
        (2, 7, -7, 7, NULL, 1.25, NULL, 2.5, 1.5, '2020-01-01', NULL, NULL, true, 2, 1, 1),
        (3, 2147483647, 9223372036854775807, 32767, 2147483647, 99999999.99, 9999999999999999999999999999.99, 1, 2, 'infinity', 'infinity', 'b', false, 1, 2147483647, 0),
        (4, -2147483648, -9223372036854775808, -32768, -5, -99999999.99, -9999999999999999999999999999.99, 1, 2, '-infinity', '2000-01-01', '', false, 3, 0, 3);
    INSERT INTO parent VALUES (1, 1), (2, 2); INSERT INTO child VALUES (1, 1, 1), (2, 2, NULL);
    INSERT INTO watched VALUES (1, 1, 1, 1), (2, 2, 2, 2); INSERT INTO pair VALUES (1, 'x', 5), (2, 'y', 6);
    INSERT INTO computed VALUES (1, 1, 1), (2, 2, 2);
    INSERT INTO noted VALUES (1, 1, 1, 1, 'a'), (2, 2, 2, 2, NULL); INSERT INTO ranged VALUES (1, 5, 'x'), (2, NULL, NULL), (3, 9, 'y'); UPDATE item SET code = 5 WHERE id = 1;";

/// All rows. When something was written is left out.
const STATE: &str = "
    SELECT array_agg(t.x ORDER BY t.x) FROM (
        SELECT 'i' || ROW(id, n, big, small, opt, price, wide, round, free, ratio, seen, day, name, active, version, stock, capacity, code,
            tag, twice)::text AS x FROM item
        UNION ALL SELECT 'p' || parent::text FROM parent UNION ALL SELECT 'c' || child::text FROM child
        UNION ALL SELECT 'w' || watched::text FROM watched UNION ALL SELECT 'k' || pair::text FROM pair
        UNION ALL SELECT 'g' || computed::text FROM computed UNION ALL SELECT 'o' || noted::text FROM noted
        UNION ALL SELECT 't' || note::text FROM note UNION ALL SELECT 'r' || ranged::text FROM ranged) t";

/// The output of EXPLAIN: the effects, and behind `;` the validated reads; or `-`.
fn recognized(connection: &mut Connection, args: &str) -> String {
    let plan = rows(connection, &format!("EXPLAIN EXECUTE form{args}"));
    let line = |name: &str| {
        let mut lines = plan.iter().map(|line| line[0].trim());
        lines.find_map(|line| line.strip_prefix(name).map(str::to_owned))
    };
    match (line("Effects: "), line("Validated: ")) {
        (Some(effects), Some(reads)) => format!("{effects}; {reads}"),
        (Some(effects), None) => effects,
        (None, _) => "-".to_owned(),
    }
}

/// Returns true if EXPLAIN says why the form reads what it changes.
fn has_reason(connection: &mut Connection, args: &str) -> bool {
    let plan = rows(connection, &format!("EXPLAIN EXECUTE form{args}"));
    plan.iter().any(|line| line[0].trim().starts_with("Reads: "))
}

/// The answer of a statement, and the state after it.
#[derive(Debug, PartialEq)]
struct Outcome {
    sqlstate: String,
    rows: Vec<Vec<Option<String>>>,
    state: Vec<Vec<Option<String>>>,
}

fn outcome(connection: &mut Connection, statement: &str) -> (Outcome, String) {
    let (sqlstate, rows, message) = match connection.query(statement) {
        Ok(results) => {
            let rows = connection.text_rows(results.last().expect("a result")).unwrap_or_default();
            ("00000".to_owned(), rows, String::new())
        }
        Err(error) => (format!("{:?}", error.state()), Vec::new(), error.message().to_owned()),
    };
    let results = connection.query(STATE).expect("the tables are there");
    let state = connection.text_rows(&results[0]).expect("rows");
    (Outcome { sqlstate, rows, state }, message)
}

fn outcome_there(oracle: &mut Session, statement: &str) -> Outcome {
    let answer = oracle.run(statement);
    Outcome { sqlstate: answer.sqlstate, rows: answer.rows, state: oracle.run(STATE).rows }
}

/// The arguments as they are, and the same, NULL and large ones for each row; the last argument is the key of most forms.
fn all_arguments(args: &str) -> Vec<String> {
    let others: Vec<&str> = args.split(", ").collect();
    let others = &others[..others.len() - 1];
    let mut all = vec![args.to_owned()];
    for id in ["1", "2", "3", "4", "5"].iter().filter(|_| !args.is_empty()) {
        all.push([others, &[id]].concat().join(", "));
        for other in ["NULL", "2147483647"].iter().filter(|_| !others.is_empty()) {
            all.push([&vec![*other; others.len()][..], &[id]].concat().join(", "));
        }
    }
    all
}

#[test]
fn forms_are_recognized_and_do_what_ordinary_updates_do() {
    let (sql, ordinary) = (open(Options::default()), open(Options::default()));
    let mut both = [admin(&sql), admin(&ordinary)];
    both.iter_mut().for_each(|connection| drop(connection.query(TABLE).expect("made")));
    both[1].query(ORDINARY).expect("made");
    let oracle = Oracle::start();
    let mut there = oracle.as_ref().map(Oracle::connect);
    there.iter_mut().for_each(|oracle| assert_eq!(oracle.run(TABLE).sqlstate, "00000"));
    let mut wrong = Vec::new();
    for &(expected, text, args) in FORMS {
        for connection in &mut both {
            connection
                .query(&format!("PREPARE form AS {text}"))
                .unwrap_or_else(|error| panic!("{text}: {error}"));
        }
        let arguments = |args: &str| if args.is_empty() { String::new() } else { format!("({args})") };
        let found = recognized(&mut both[0], &arguments(args));
        let is_expected = found == expected || expected == MISSED && found == "-";
        // A MERGE of several rows has none, and neither has what does no operation on its own column.
        let names_itself = !text.starts_with("merge") && !text.contains("SET n = excluded.n WHERE");
        if found == "-" && names_itself && !has_reason(&mut both[0], &arguments(args)) {
            wrong.push(format!("{text}\n    has no reason"));
        }
        if !is_expected {
            wrong.push(format!("{text}\n    expected {expected}\n    found    {found}"));
        }
        assert_eq!(recognized(&mut both[1], &arguments(args)), "-", "{text}");
        both.iter_mut().for_each(|connection| drop(connection.query(ROWS).expect("reset")));
        if let Some(oracle) = &mut there {
            oracle.run(ROWS);
            assert_eq!(
                oracle.run(&format!("PREPARE form AS {}", text.trim_end_matches(';'))).sqlstate,
                "00000",
                "{text}"
            );
        }
        for args in all_arguments(args) {
            let outcomes = both
                .each_mut()
                .map(|connection| outcome(connection, &format!("EXECUTE form{}", arguments(&args))));
            assert_eq!(outcomes[0], outcomes[1], "{text} ({args})");
            if let Some(oracle) = &mut there {
                let expected = outcome_there(oracle, &format!("EXECUTE form{}", arguments(&args)));
                assert_eq!(outcomes[0].0, expected, "{text} ({args})");
            }
        }
        both.iter_mut().for_each(|connection| drop(connection.query("DEALLOCATE form").expect("forgotten")));
        there.iter_mut().for_each(|oracle| drop(oracle.run("DEALLOCATE form")));
    }
    assert!(wrong.is_empty(), "{} of {} forms:\n{}", wrong.len(), FORMS.len(), wrong.join("\n"));
}

#[test]
fn at_least_nine_of_ten_commuting_forms_are_recognized() {
    let commuting = FORMS.iter().filter(|(expected, ..)| *expected != "-").count();
    let missed = FORMS.iter().filter(|(expected, ..)| *expected == MISSED).count();
    assert!(FORMS.len() >= 120, "{} forms", FORMS.len());
    assert!(10 * (commuting - missed) >= 9 * commuting, "{missed} of {commuting} are missed");
}

/// The row that the guide's examples change.
const ONE_ITEM: &str = "INSERT INTO item VALUES (1, 10, 0, 9, 0, 0, 0, now(), 'x', true, now(), 1, 0)";

/// The parts of `docs/hot-rows.md` in fences of this language, in order.
fn fenced<'t>(text: &'t str, language: &str) -> Vec<&'t str> {
    let opening = format!("```{language}\n");
    text.split(&opening).skip(1).map(|rest| rest.split("```").next().unwrap_or_default().trim_end()).collect()
}

/// The rows of the table under a heading, as cells without backquotes.
fn table_under<'t>(text: &'t str, heading: &str) -> Vec<Vec<&'t str>> {
    let section = text.split(&format!("\n## {heading}\n")).nth(1).expect("the heading is there");
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| ")).skip(2);
    rows.map(|row| row.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

#[test]
fn the_guide_to_hot_rows_says_what_is_so() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/hot-rows.md");
    let text = std::fs::read_to_string(path).expect("docs/hot-rows.md is there");
    let sql = open(Options::default());
    let mut connection = admin(&sql);
    let (statements, plans) = (fenced(&text, "sql"), fenced(&text, "text"));
    connection.query(statements[0]).expect("the table");
    assert_eq!(statements.len(), plans.len() + 1);
    for (statement, plan) in statements[1..].iter().zip(&plans) {
        let shown = rows(&mut connection, statement).concat();
        let shown: Vec<&str> = shown.iter().map(String::as_str).take(plan.lines().count()).collect();
        assert_eq!(shown, plan.lines().collect::<Vec<_>>(), "{statement}");
    }
    let mut found = |statement: &str| {
        let statement = statement.trim_matches('`');
        connection
            .query(&format!("PREPARE form AS {statement}"))
            .unwrap_or_else(|error| panic!("{statement}: {error}"));
        let found = recognized(&mut connection, "");
        connection.query("DELETE FROM item").expect("empty");
        connection.query(ONE_ITEM).expect("a row");
        connection
            .query(&format!("{statement}; DEALLOCATE form"))
            .unwrap_or_else(|error| panic!("{statement}: {error}"));
        found
    };
    let advice = table_under(&text, "From symptom to statement");
    assert!(advice.len() > 5);
    for row in advice {
        assert_ne!(found(row[2]), "-", "{}", row[2]);
    }
    let forms = table_under(&text, "All forms");
    assert!(forms.len() > 20);
    for row in forms {
        let expected = if row[1].starts_with('`') { row[1].trim_matches('`') } else { "-" };
        assert_eq!(found(row[0]), expected, "{}", row[0]);
    }
    let boards = table_under(&text, "Leaderboards");
    assert!(boards.len() > 4);
    let steering = table_under(&text, "See and steer it");
    assert!(steering.len() > 8);
    for row in boards.into_iter().chain(steering) {
        let statement = row[1].trim_matches('`');
        connection.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}
