//! Tests of triggers after rows that commuting updates change: they see what they name, and a function that changes is read again.

use heddledb::{Options, PhasedOptions, ProtocolKind};

use super::{admin, number, open, rows};

const TABLES: &str = "
    CREATE TABLE page (id int PRIMARY KEY, hits int NOT NULL, title text);
    CREATE TABLE visit (page int, title text, hits int);
    INSERT INTO page VALUES (1, 0, 'start');
    CREATE FUNCTION visited() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN INSERT INTO visit VALUES (NEW.id, OLD.title); RETURN NEW; END';
    CREATE TRIGGER visited AFTER UPDATE ON page FOR EACH ROW EXECUTE FUNCTION visited()";
const HIT: &str = "UPDATE page SET hits = hits + 1 WHERE id = 1";

#[test]
fn a_function_that_is_replaced_is_read_again() {
    let sql = open(Options::default());
    let mut connection = admin(&sql);
    connection.query(TABLES).expect("made");
    connection.query(&format!("PREPARE hit AS {HIT}; EXECUTE hit")).expect("a hit");
    let plan = rows(&mut connection, &format!("EXPLAIN (COSTS OFF) {HIT}"));
    assert_eq!(
        plan[..3].concat(),
        ["Update on page (commutes)", "  Effects: add hits", "  Validated: title"]
    );
    for (body, reason) in [
        (
            "INSERT INTO visit VALUES (NEW.id, OLD.title, NEW.hits)",
            Some("trigger visited reads what it changes"),
        ),
        (
            "INSERT INTO visit VALUES (NEW.id, OLD.title, (row_to_json(NEW)->>'hits')::int)",
            Some("trigger visited sees the row as a whole"),
        ),
        // It reads the table, in which the hit is counted.
        ("INSERT INTO visit SELECT NEW.id, OLD.title, hits FROM page", None),
    ] {
        let quoted = body.replace('\'', "''");
        let function = format!(
            "CREATE OR REPLACE FUNCTION visited() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN {quoted}; RETURN NULL; END'"
        );
        connection.query(&function).expect("replaced");
        connection.query("DELETE FROM visit; EXECUTE hit").expect("a hit");
        let seen = rows(&mut connection, "SELECT visit.title, visit.hits = page.hits FROM visit, page");
        assert_eq!(seen, [["start", "t"]], "{body}");
        let plan = rows(&mut connection, &format!("EXPLAIN (COSTS OFF) {HIT}")).concat();
        match reason {
            Some(reason) => {
                assert_eq!(plan[..2], ["Update on page".to_owned(), format!("  Reads: {reason}")], "{body}");
            }
            None => assert_eq!(plan[0], "Update on page (commutes)", "{body}"),
        }
    }
}

#[test]
fn triggers_fire_for_each_hit_under_every_protocol() {
    const THREADS: i64 = 8;
    const HITS: i64 = 40;
    for &protocol in ProtocolKind::ALL {
        let sql = open(match protocol {
            ProtocolKind::Phased => {
                Options::default().protocol(PhasedOptions::default().phase_milliseconds(1.0))
            }
            other => Options::default().protocol(other),
        });
        let mut connection = admin(&sql);
        connection.query(TABLES).expect("made");
        if protocol == ProtocolKind::Phased {
            connection.query("SELECT heddle_split('page', 1, 'hits', 'add')").expect("a label");
        }
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let sql = &sql;
                scope.spawn(move || {
                    let mut connection = admin(sql);
                    for number in 0..HITS {
                        connection.query(HIT).expect("it commutes");
                        if thread == 0 && number % 10 == 0 {
                            let seen = rows(
                                &mut connection,
                                "SELECT (SELECT hits FROM page) = (SELECT count(*) FROM visit WHERE title = 'start')",
                            );
                            assert_eq!(seen, [["t"]]);
                        }
                    }
                });
            }
        });
        for query in
            ["SELECT hits FROM page", "SELECT count(*) FROM visit WHERE page = 1 AND title = 'start'"]
        {
            assert_eq!(number(&mut connection, query), THREADS * HITS, "{protocol:?}: {query}");
        }
    }
}
