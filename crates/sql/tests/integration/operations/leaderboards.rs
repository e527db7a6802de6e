//! Tests of top-K sets: their values, the statements that insert into them, and split phases.

use heddle_sql::{Connection, Sql};
use heddledb::{DataType, Database, Durability, Options, PhasedOptions, TableDefinition};

use super::{admin, number, open, rows};

fn run(connection: &mut Connection, text: &str) {
    connection.query(text).unwrap_or_else(|error| panic!("{text}: {error}"));
}

fn state_of(connection: &mut Connection, text: &str) -> String {
    connection.query(text).map(drop).expect_err(text).state().as_str().to_owned()
}

const BOARD: &str =
    "CREATE TABLE board (id int PRIMARY KEY, best topk(3), many topk NOT NULL DEFAULT '[]', name text)";

#[test]
fn sets_keep_their_greatest_entries_and_are_text_json_and_rows() {
    let sql = open(Options::default());
    let mut connection = admin(&sql);
    run(&mut connection, BOARD);
    run(
        &mut connection,
        r#"INSERT INTO board (id, best) VALUES (1, '[[10,"a"],[30.50,"b"],[20,"c","p"],[5,"d"]]'), (2, NULL)"#,
    );
    let kept = r#"[[30.5, "b"], [20, "c", "p"], [10, "a"]]"#;
    assert_eq!(rows(&mut connection, "SELECT best, many FROM board ORDER BY id"), [[kept, "[]"], ["", "[]"]]);
    assert_eq!(
        rows(
            &mut connection,
            "SELECT e.score, e.key, e.payload FROM board, topk_entries(best) e WHERE e.score > 15"
        ),
        [["30.5", "b", ""], ["20", "c", "p"]]
    );
    for (expression, expected) in [
        ("best::jsonb -> 1", r#"[20, "c", "p"]"#),
        ("best::text", kept),
        (r#"'[[1, "x", null]]'::jsonb::topk"#, r#"[[1, "x"]]"#),
        (r#"'[[1,"x"],[2,"x"],[3,"y"]]'::topk(2)"#, r#"[[3, "y"], [2, "x"]]"#),
        // Of one score and key the greatest payload stays, and none is the least.
        (
            r#"topk_merge('[[1,"x","b"],[1,"y"]]', '[[1,"x","a"],[1.0,"y","c"]]')"#,
            r#"[[1, "y", "c"], [1, "x", "b"]]"#,
        ),
        ("topk_insert(best, 7, 'e')", r#"[[30.5, "b"], [20, "c", "p"], [10, "a"], [7, "e"]]"#),
        ("topk_insert(NULL, -0.000000001, 'e', 'p')", r#"[[-0.000000001, "e", "p"]]"#),
        ("topk_insert(best, NULL, 'e') IS NOT NULL", "t"),
        ("topk_insert(NULL, 1, NULL) IS NULL", "t"),
        ("pg_typeof(best)", "topk"),
        ("ARRAY[best, NULL]", r#"{"[[30.5, \"b\"], [20, \"c\", \"p\"], [10, \"a\"]]",NULL}"#),
        ("(SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attname = 'best')", "topk(3)"),
        (
            "(SELECT typname || ' ' || typarray::regtype::text FROM pg_type WHERE oid = 'topk'::regtype)",
            "topk topk[]",
        ),
    ] {
        let found = rows(&mut connection, &format!("SELECT {expression} FROM board WHERE id = 1"));
        assert_eq!(found, [[expected]], "{expression}");
    }
    for (text, state) in [
        ("SELECT '[1]'::topk", "22P02"),
        ("SELECT '{}'::topk", "22P02"),
        ("SELECT 'x'::topk", "22P02"),
        (r#"SELECT '[["a", 1]]'::topk"#, "22P02"),
        ("SELECT topk_insert(NULL, 1e30, 'a')", "22003"),
        ("SELECT topk_insert(NULL, 'NaN', 'a')", "22003"),
        ("CREATE TABLE t (a topk(0))", "22023"),
        ("CREATE TABLE t (a topk(1048577))", "22023"),
        ("SELECT best FROM board ORDER BY best", "42883"),
        ("SELECT DISTINCT best FROM board", "42883"),
        ("CREATE INDEX ON board (best)", "42704"),
    ] {
        assert_eq!(state_of(&mut connection, text), state, "{text}");
    }
}

#[test]
fn sets_are_copied_and_columns_are_altered() {
    let sql = open(Options::default());
    let mut connection = admin(&sql);
    run(&mut connection, BOARD);
    let lines = b"1\t[[10, \"a\"], [5, \"b\\\\\\\\c\"]]\t[]\t\\N\n2\t\\N\t[]\t\\N\n";
    connection.copy_from("COPY board FROM STDIN", lines).expect("two lines");
    let results = connection.query("COPY board TO STDOUT").expect("two lines");
    assert_eq!(String::from_utf8_lossy(&results[0].data), String::from_utf8_lossy(lines));
    run(&mut connection, "ALTER TABLE board ALTER best TYPE topk(1)");
    assert_eq!(rows(&mut connection, "SELECT best FROM board WHERE id = 1"), [[r#"[[10, "a"]]"#]]);
}

#[test]
fn sets_of_tables_of_programs_are_sets_of_sql_if_their_entries_are() {
    let db =
        Database::in_memory_with(Options::default().durability(Durability::None)).expect("options are right");
    let score = "top_k(2; decimal(38,9), text; text)".parse::<DataType>().expect("a type");
    let made = TableDefinition::new("made").column("id", DataType::Int64).column("best", score);
    db.create_table(made.primary_key(["id"])).expect("it is new");
    let mut connection = admin(&Sql::new(&db).expect("the catalog can be made"));
    run(&mut connection, r#"INSERT INTO made VALUES (1, '[[1,"a"],[2,"b"],[3,"c"]]')"#);
    assert_eq!(rows(&mut connection, "SELECT best FROM made"), [[r#"[[3, "c"], [2, "b"]]"#]]);
    run(&mut connection, "UPDATE made SET best = topk_insert(best, 4, 'd') WHERE id = 1");
    assert_eq!(rows(&mut connection, "SELECT best FROM made"), [[r#"[[4, "d"], [3, "c"]]"#]]);
}

/// What EXPLAIN says a statement does without reading; or `-`.
fn effects(connection: &mut Connection, text: &str) -> String {
    let plan = rows(connection, &format!("EXPLAIN {text}"));
    plan.iter()
        .find_map(|line| line[0].trim().strip_prefix("Effects: ").map(str::to_owned))
        .unwrap_or("-".into())
}

#[test]
fn insertions_are_recognized_and_do_what_ordinary_updates_do() {
    let (sql, ordinary) = (open(Options::default()), open(Options::default()));
    let mut both = [admin(&sql), admin(&ordinary)];
    both.iter_mut().for_each(|connection| run(connection, BOARD));
    run(
        &mut both[1],
        "CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS 'DECLARE r record; BEGIN r := NEW; RETURN NULL; END';
         CREATE TRIGGER ordinary AFTER UPDATE ON board FOR EACH ROW EXECUTE FUNCTION see()",
    );
    let insert = "top-k-insert best";
    for (expected, text) in [
        (insert, "UPDATE board SET best = topk_insert(best, 15, 'e') WHERE id = 1"),
        (insert, "UPDATE board SET best = topk_insert(best, 1.5, 'e', 'p') WHERE id = 1"),
        (insert, "UPDATE board SET best = topk_insert(best, 15, 'e') WHERE id = 2"),
        (insert, "UPDATE board SET best = topk_insert(best, NULL, 'e') WHERE id = 2"),
        (insert, "UPDATE board SET best = topk_insert(topk_insert(best, 15, 'e'), 16, 'f') WHERE id = 1"),
        (
            insert,
            r#"UPDATE board SET best = topk_merge(best, '[[1,"x"],[2,"x"],[3,"x"],[40,"x"]]') WHERE id = 1"#,
        ),
        (insert, r#"UPDATE board SET best = topk_merge('[[4,"x"]]', best) WHERE id = 3"#),
        (insert, "UPDATE board SET best = topk_insert(best, 1e30, 'e') WHERE id = 1"),
        (insert, "UPDATE board SET best = topk_insert(best, 1e30, 'e') WHERE id = 3"),
        (
            "top-k-insert many, set name",
            "UPDATE board SET many = topk_insert(many, 1, 'e'), name = 'x' WHERE id = 1",
        ),
        (insert, "UPDATE board SET best = topk_insert(best, id * 100, name) WHERE id = 1"),
        (
            insert,
            r#"INSERT INTO board VALUES (1, '[[35,"g"]]') ON CONFLICT (id) DO UPDATE SET best = topk_merge(board.best, excluded.best)"#,
        ),
        (
            insert,
            r#"INSERT INTO board VALUES (5, '[[35,"g"]]') ON CONFLICT (id) DO UPDATE SET best = topk_merge(board.best, excluded.best)"#,
        ),
        (
            insert,
            "INSERT INTO board AS b VALUES (2) ON CONFLICT (id) DO UPDATE SET best = topk_insert(b.best, 3, 'k')",
        ),
        ("-", "UPDATE board SET best = topk_insert(best, 15, 'e') WHERE id = 1 RETURNING best"),
        ("-", "UPDATE board SET best = topk_insert(many, 15, 'e'), many = best WHERE id = 1"),
        ("-", "UPDATE board SET best = topk_merge(best, best) WHERE id = 1"),
        ("-", "UPDATE board SET best = topk_insert(best, 1, best::text) WHERE id = 1"),
    ] {
        assert_eq!(effects(&mut both[0], text), expected, "{text}");
        assert_eq!(effects(&mut both[1], text), "-", "{text}");
        let mut outcomes = both.iter_mut().map(|connection| {
            run(
                connection,
                r#"DELETE FROM board; INSERT INTO board VALUES (1, '[[10,"a"],[20,"b"],[30,"c"]]', '[]', 'n'), (2, NULL, '[]', NULL)"#,
            );
            let state = connection.query(text).map(drop).map_err(|error| error.state());
            (state.err(), rows(connection, "SELECT * FROM board ORDER BY id"))
        });
        let (here, there) = (outcomes.next(), outcomes.next());
        assert_eq!(here, there, "{text}");
    }
}

/// Numbers that look like any, the same in each run.
fn next(random: &mut u64) -> u64 {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *random >> 33
}

#[test]
fn in_split_phases_a_set_keeps_the_greatest_of_all() {
    const THREADS: u64 = 8;
    let sql: Sql = open(Options::default().protocol(PhasedOptions::default().phase_milliseconds(1.0)));
    let mut connection = admin(&sql);
    run(
        &mut connection,
        "CREATE TABLE board (id int PRIMARY KEY, best topk(5)); INSERT INTO board VALUES (1, NULL)",
    );
    run(&mut connection, "SELECT heddle_split('board', 1, 'best', 'top-k-insert')");
    let entered = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let sql = &sql;
                scope.spawn(move || {
                    let (mut connection, mut random, mut entered) = (admin(sql), thread, Vec::new());
                    for number in 0..120 {
                        let (score, key) = (next(&mut random) % 1_000 + number, format!("k{}", next(&mut random) % 50));
                        let statement = match next(&mut random) % 3 {
                            0 => format!("UPDATE board SET best = topk_insert(best, {score}, '{key}') WHERE id = 1"),
                            1 => format!(
                                r#"INSERT INTO board VALUES (1, '[[{score},"{key}"]]') ON CONFLICT (id) DO UPDATE SET best = topk_merge(board.best, excluded.best)"#
                            ),
                            _ => format!(
                                r#"UPDATE board SET best = topk_merge(best, '[[{score},"{key}"],[1,"x"]]') WHERE id = 1"#
                            ),
                        };
                        run(&mut connection, &statement);
                        entered.push((score, key));
                        if number % 30 == 0 {
                            // No entry of another thread replaces a greater one.
                            let least = number_or_zero(&mut connection);
                            let mut own: Vec<u64> = entered.iter().map(|(score, _)| *score).collect();
                            own.sort_unstable_by(|left, right| right.cmp(left));
                            own.dedup();
                            assert!(own.get(4).is_none_or(|fifth| least >= *fifth), "{least} of {own:?}");
                        }
                    }
                    entered
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
    });
    let mut expected = entered;
    expected.sort_unstable_by(|left, right| right.cmp(left));
    expected.dedup();
    expected.truncate(5);
    let found = rows(&mut connection, "SELECT e.score, e.key FROM board, topk_entries(best) e");
    let expected: Vec<Vec<String>> =
        expected.into_iter().map(|(score, key)| vec![score.to_string(), key]).collect();
    assert_eq!(found, expected);
    let phases =
        "SELECT phases FROM heddle_split_columns WHERE column_name = 'best' AND operation = 'top-k-insert'";
    assert!(number(&mut connection, phases) > 0, "nothing was ever split");
}

/// The fifth score; zero while there are fewer.
fn number_or_zero(connection: &mut Connection) -> u64 {
    let query = "SELECT coalesce((SELECT e.score FROM board, topk_entries(best) e OFFSET 4), 0)";
    number(connection, query).try_into().expect("scores are positive")
}

#[test]
fn sets_are_there_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = || Database::open(folder.path().join("db"), Options::default()).expect("it opens");
    for insertion in [
        r#"INSERT INTO board VALUES (1, '[[1,"a"]]')"#,
        "UPDATE board SET best = topk_insert(best, 2, 'b') WHERE id = 1",
    ] {
        let sql = Sql::new(&open()).expect("a catalog");
        let mut connection = admin(&sql);
        run(&mut connection, &BOARD.replace("TABLE", "TABLE IF NOT EXISTS"));
        run(&mut connection, insertion);
    }
    let mut connection = admin(&Sql::new(&open()).expect("a catalog"));
    assert_eq!(rows(&mut connection, "SELECT best FROM board"), [[r#"[[2, "b"], [1, "a"]]"#]]);
}
