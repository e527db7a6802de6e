//! Which statements are recognized as ones that do not read what they change, and that they then do what they would do in the
//! usual way.

use heddle_sql::Connection;
use heddledb::Options;

use super::{admin, open, rows};
use crate::form_table::{FORMS, MISSED};

const TABLE: &str = "
    CREATE TABLE item (
        id int PRIMARY KEY, n int NOT NULL, big bigint NOT NULL, small smallint NOT NULL, opt int,
        price numeric(10,2) NOT NULL, free numeric NOT NULL, ratio float8 NOT NULL, seen timestamptz NOT NULL,
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
    CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
    CREATE TRIGGER before_m BEFORE UPDATE OF m ON watched FOR EACH ROW EXECUTE FUNCTION keep();
    CREATE TRIGGER after_o AFTER UPDATE OF o ON watched FOR EACH ROW EXECUTE FUNCTION keep();
    CREATE TRIGGER inserted AFTER INSERT ON watched FOR EACH ROW EXECUTE FUNCTION keep();
    CREATE TRIGGER at_end AFTER UPDATE ON watched FOR EACH STATEMENT EXECUTE FUNCTION keep();";

/// Makes every update of these tables an ordinary one.
const ORDINARY: &str = "
    CREATE TRIGGER ordinary AFTER UPDATE ON item FOR EACH ROW EXECUTE FUNCTION keep();
    CREATE TRIGGER ordinary AFTER UPDATE ON parent FOR EACH ROW EXECUTE FUNCTION keep();
    CREATE TRIGGER ordinary AFTER UPDATE ON child FOR EACH ROW EXECUTE FUNCTION keep();
    CREATE TRIGGER ordinary AFTER UPDATE ON watched FOR EACH ROW EXECUTE FUNCTION keep();
    CREATE TRIGGER ordinary AFTER UPDATE ON pair FOR EACH ROW EXECUTE FUNCTION keep();
    CREATE TRIGGER ordinary AFTER UPDATE ON computed FOR EACH ROW EXECUTE FUNCTION keep();";

/// Five rows: usual ones, one with NULLs, and the ends of the types.
const ROWS: &str = "
    DELETE FROM item; DELETE FROM child; DELETE FROM parent; DELETE FROM watched; DELETE FROM pair; DELETE FROM computed;
    INSERT INTO item (id, n, big, small, opt, price, free, ratio, seen, day, name, active, version, stock, capacity)
    VALUES (1, 0, 0, 0, 0, 0, 0, 0, '2024-05-05', '2024-05-05', 'a', true, 1, 10, 5),
        (2, 7, -7, 7, NULL, 1.25, 2.5, 1.5, '2020-01-01', NULL, NULL, true, 2, 1, 1),
        (3, 2147483647, 9223372036854775807, 32767, 2147483647, 99999999.99, 1, 2, 'infinity', 'infinity', 'b', false, 1, 2147483647, 0),
        (4, -2147483648, -9223372036854775808, -32768, -5, -99999999.99, 1, 2, '-infinity', '2000-01-01', '', false, 3, 0, 3);
    INSERT INTO parent VALUES (1, 1), (2, 2); INSERT INTO child VALUES (1, 1, 1), (2, 2, NULL);
    INSERT INTO watched VALUES (1, 1, 1, 1), (2, 2, 2, 2); INSERT INTO pair VALUES (1, 'x', 5), (2, 'y', 6);
    INSERT INTO computed VALUES (1, 1, 1), (2, 2, 2);";

/// All rows. When something was written is left out.
const STATE: &str = "
    SELECT array_agg(t.x ORDER BY t.x) FROM (
        SELECT 'i' || ROW(id, n, big, small, opt, price, free, ratio, seen, day, name, active, version, stock, capacity, code,
            tag, twice)::text AS x FROM item
        UNION ALL SELECT 'p' || parent::text FROM parent UNION ALL SELECT 'c' || child::text FROM child
        UNION ALL SELECT 'w' || watched::text FROM watched UNION ALL SELECT 'k' || pair::text FROM pair
        UNION ALL SELECT 'g' || computed::text FROM computed) t";

/// What EXPLAIN says: the effects, and behind `;` what is validated; or `-`.
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

/// What a statement answers, and what is there then.
fn outcome(connection: &mut Connection, statement: &str) -> (String, String) {
    let answer = match connection.query(statement) {
        Ok(results) => {
            let returned = connection.text_rows(results.last().expect("a result"));
            format!("{:?}", returned.ok())
        }
        Err(error) => format!("{:?} {}", error.state(), error.message()),
    };
    (answer, rows(connection, STATE)[0][0].clone())
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
        if !is_expected {
            wrong.push(format!("{text}\n    expected {expected}\n    found    {found}"));
        }
        assert_eq!(recognized(&mut both[1], &arguments(args)), "-", "{text}");
        both.iter_mut().for_each(|connection| drop(connection.query(ROWS).expect("reset")));
        for args in all_arguments(args) {
            let outcomes = both
                .each_mut()
                .map(|connection| outcome(connection, &format!("EXECUTE form{}", arguments(&args))));
            assert_eq!(outcomes[0], outcomes[1], "{text} ({args})");
        }
        both.iter_mut().for_each(|connection| drop(connection.query("DEALLOCATE form").expect("forgotten")));
    }
    assert!(wrong.is_empty(), "{} of {} forms:\n{}", wrong.len(), FORMS.len(), wrong.join("\n"));
}

#[test]
fn most_commuting_forms_are_recognized() {
    let commuting = FORMS.iter().filter(|(expected, ..)| *expected != "-").count();
    let missed = FORMS.iter().filter(|(expected, ..)| *expected == MISSED).count();
    assert!(FORMS.len() >= 120, "{} forms", FORMS.len());
    assert!(10 * (commuting - missed) >= 8 * commuting, "{missed} of {commuting} are missed");
}
