//! INSERT, UPDATE, DELETE, MERGE, and what they check.

use super::Fixture;
use crate::catalog::KeyAction;

fn fixture() -> Fixture {
    let fixture = Fixture::new().table("t", "id int4!, n int8!, v text", "id", &["+v"]).table(
        "h",
        "a int4, b text",
        "",
        &["a"],
    );
    fixture.run("INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, NULL)");
    fixture
}

const ALL: &str = "SELECT * FROM t ORDER BY id";

#[test]
fn rows_are_updated_by_key_by_condition_and_from_other_tables() {
    let f = fixture();
    assert_eq!(f.line("UPDATE t SET n = n + 1 WHERE id = 1"), "1");
    assert_eq!(f.line("UPDATE t SET n = n * 2, v = CASE WHEN v = 'b' THEN 'b!' END WHERE n > 15"), "2");
    assert_eq!(f.line(ALL), "1 11 a | 2 40 b! | 3 60 NULL");
    f.run("INSERT INTO h VALUES (1, 'x'), (1, 'y'), (3, 'z')");
    assert_eq!(f.line("UPDATE t SET n = 0 FROM h WHERE h.a = t.id"), "2");
    assert_eq!(
        f.line("UPDATE t SET v = h.b FROM h WHERE h.a = t.id AND t.id = 3 RETURNING t.id, v, h.a"),
        "3 z 3"
    );
    assert_eq!(f.line(ALL), "1 0 a | 2 40 b! | 3 0 z");
    assert_eq!(f.line("UPDATE t SET n = n + 1 WHERE id = 99"), "0");
}

#[test]
fn updates_that_read_nothing_are_operations() {
    let f = fixture();
    assert!(f.explain("UPDATE t SET n = n + 5 WHERE id = 1").contains("commutes"));
    assert!(f.explain("UPDATE t SET n = GREATEST(n, 5) WHERE id = 1").contains("commutes"));
    assert!(!f.explain("UPDATE t SET n = n + 5 WHERE id = 1 RETURNING n").contains("commutes"));
    assert!(!f.explain("UPDATE t SET n = n + 5 WHERE n = 1").contains("commutes"));
    assert!(f.explain("UPDATE t SET n = n + id WHERE id = 1").contains("commutes"));
    assert!(!f.explain("UPDATE t SET n = n + n WHERE id = 1").contains("commutes"));
    f.run("UPDATE t SET n = n - 4 WHERE id = 1");
    f.run("UPDATE t SET n = GREATEST(n, 25) WHERE id = 2");
    f.run("UPDATE t SET n = LEAST(n, 7) WHERE id = 3");
    assert_eq!(f.line(ALL), "1 6 a | 2 25 b | 3 7 NULL");
    f.run("UPDATE t SET n = n * 3 WHERE id = 1");
    assert_eq!(f.line("SELECT n FROM t WHERE id = 1"), "18");
    assert_eq!(f.state("UPDATE t SET n = n + 9223372036854775807 WHERE id = 1"), "22003");
    assert_eq!(f.state("UPDATE t SET n = n + NULL WHERE id = 1"), "23502");
}

#[test]
fn keys_move() {
    let f = fixture();
    assert_eq!(f.line("UPDATE t SET id = id + 10"), "3");
    assert_eq!(f.line(ALL), "11 10 a | 12 20 b | 13 30 NULL");
    assert_eq!(f.state("UPDATE t SET id = 11 WHERE id = 12"), "23505");
    assert_eq!(f.line(ALL), "11 10 a | 12 20 b | 13 30 NULL");
}

#[test]
fn unique_and_not_null_constraints_are_enforced() {
    let f = fixture();
    assert_eq!(f.state("INSERT INTO t VALUES (1, 1, 'x')"), "23505");
    assert_eq!(f.state("INSERT INTO t VALUES (9, 1, 'a')"), "23505");
    assert_eq!(f.state("UPDATE t SET v = 'a' WHERE id = 2"), "23505");
    assert_eq!(f.state("INSERT INTO t VALUES (9, NULL, 'x')"), "23502");
    f.run("INSERT INTO t VALUES (9, 1, NULL)");
    let error = f.try_run("INSERT INTO t VALUES (1, 1, 'x')").unwrap_err();
    assert_eq!(error.message(), "duplicate key value violates unique constraint \"t_pkey\"");
    assert_eq!(error.detail(), Some("Key (id)=(1) already exists."));
    assert_eq!(error.constraint(), Some("t_pkey"));
}

#[test]
fn a_statement_does_not_meet_its_own_rows() {
    let f = fixture();
    assert_eq!(f.line("INSERT INTO h SELECT id, v FROM t"), "3");
    assert_eq!(f.line("INSERT INTO h SELECT a, b FROM h"), "3");
    assert_eq!(f.line("SELECT count(*) FROM h"), "6");
    assert_eq!(f.line("UPDATE h SET a = a + 1"), "6");
    assert_eq!(f.line("SELECT a, count(*) FROM h GROUP BY a ORDER BY a"), "2 2 | 3 2 | 4 2");
}

#[test]
fn conflicts_do_nothing_or_update() {
    let f = fixture();
    assert_eq!(f.line("INSERT INTO t VALUES (1, 1, 'q'), (4, 40, 'd') ON CONFLICT DO NOTHING"), "1");
    assert_eq!(f.line("INSERT INTO t VALUES (7, 1, 'd') ON CONFLICT (v) DO NOTHING"), "0");
    assert_eq!(
        f.line("INSERT INTO t VALUES (1, 5, 'z') ON CONFLICT (id) DO UPDATE SET n = t.n + excluded.n, v = excluded.v RETURNING *"),
        "1 15 z"
    );
    assert_eq!(
        f.line("INSERT INTO t VALUES (2, 5, 'z') ON CONFLICT (id) DO UPDATE SET n = 0 WHERE t.n > 1000"),
        "0"
    );
    assert_eq!(
        f.state(
            "INSERT INTO t VALUES (8, 5, NULL), (8, 6, NULL) ON CONFLICT (id) DO UPDATE SET n = excluded.n"
        ),
        "21000"
    );
    let upsert = "INSERT INTO t VALUES (5, 3, NULL) ON CONFLICT (id) DO UPDATE SET n = t.n + excluded.n";
    assert!(f.explain(upsert).contains("commutes"));
    assert_eq!(f.line(upsert), "1");
    assert_eq!(f.line(upsert), "1");
    assert_eq!(f.line("SELECT n FROM t WHERE id = 5"), "6");
}

#[test]
fn rows_are_deleted() {
    let f = fixture();
    assert_eq!(f.line("DELETE FROM t WHERE id = 2 RETURNING v, n"), "b 20");
    f.run("INSERT INTO h VALUES (1, 'x'), (1, 'y')");
    assert_eq!(f.line("DELETE FROM t USING h WHERE h.a = t.id"), "1");
    assert_eq!(f.line("DELETE FROM h"), "2");
    assert_eq!(f.line(ALL), "3 30 NULL");
}

#[test]
fn merge_takes_the_first_arm_that_applies() {
    let f = fixture();
    f.run("INSERT INTO h VALUES (1, 'x'), (2, 'gone'), (8, 'new')");
    let text = "MERGE INTO t USING h ON t.id = h.a \
        WHEN MATCHED AND h.b = 'gone' THEN DELETE \
        WHEN MATCHED THEN UPDATE SET v = h.b, n = t.n + 1 \
        WHEN NOT MATCHED THEN INSERT (id, n, v) VALUES (h.a, 0, h.b)";
    assert_eq!(f.line(text), "3");
    assert_eq!(f.line(ALL), "1 11 x | 3 30 NULL | 8 0 new");
    f.run("INSERT INTO h VALUES (1, 'again')");
    assert_eq!(f.state(text), "21000");
}

#[test]
fn statements_in_with_run_once() {
    let f = fixture();
    assert_eq!(
        f.line(
            "WITH gone AS (DELETE FROM t WHERE id < 3 RETURNING id, v) INSERT INTO h SELECT id, v FROM gone"
        ),
        "2"
    );
    assert_eq!(f.line("SELECT * FROM h ORDER BY a"), "1 a | 2 b");
    assert_eq!(f.line("SELECT count(*) FROM t"), "1");
}

fn family(action: KeyAction) -> Fixture {
    let f = Fixture::new()
        .table("p", "id int4!", "id", &[])
        .table("c", "id int4!, pid int4", "id", &["pid"])
        .foreign_key("c", &[1], "p", action);
    f.run("INSERT INTO p VALUES (1), (2)");
    f.run("INSERT INTO c VALUES (10, 1), (11, 1), (12, NULL)");
    f
}

#[test]
fn foreign_keys_keep_what_they_refer_to() {
    let f = family(KeyAction::NoAction);
    assert_eq!(f.state("INSERT INTO c VALUES (13, 9)"), "23503");
    assert_eq!(f.state("DELETE FROM p WHERE id = 1"), "23503");
    assert_eq!(f.state("UPDATE c SET pid = 7 WHERE id = 10"), "23503");
    assert_eq!(f.line("DELETE FROM p WHERE id = 2"), "1");
    assert_eq!(f.state("UPDATE p SET id = 5 WHERE id = 1"), "23503");
    let error = f.try_run("INSERT INTO c VALUES (13, 9)").unwrap_err();
    assert_eq!(error.detail(), Some("Key (pid)=(9) is not present in table \"p\"."));
}

#[test]
fn foreign_keys_cascade_or_become_null() {
    let f = family(KeyAction::Cascade);
    assert_eq!(f.line("UPDATE p SET id = 5 WHERE id = 1"), "1");
    assert_eq!(f.line("SELECT * FROM c ORDER BY id"), "10 5 | 11 5 | 12 NULL");
    assert_eq!(f.line("DELETE FROM p"), "2");
    assert_eq!(f.line("SELECT * FROM c ORDER BY id"), "12 NULL");
    let f = family(KeyAction::SetNull);
    f.run("DELETE FROM p WHERE id = 1");
    assert_eq!(f.line("SELECT * FROM c ORDER BY id"), "10 NULL | 11 NULL | 12 NULL");
}
