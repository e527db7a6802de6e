//! Rows that foreign keys change meet their triggers and checks.

use heddledb::ProtocolKind;

use super::{answer, sql};
use crate::support::oracle::Oracle;

/// Tables whose rows refer to each other, with triggers that keep a journal.
const FAMILY: &str = "
    create table parent (id int primary key);
    create table child (id int primary key, parent int references parent on delete cascade on update cascade,
        check (parent < 10));
    create table ward (id int primary key, parent int references parent on delete set null on update cascade);
    create table grandchild (id int primary key, child int not null references child on delete cascade);
    create table journal (number int generated always as identity, what text);
    create function note() returns trigger language plpgsql as $$
    begin
        insert into journal (what) values (concat_ws(' ', tg_table_name, tg_when, tg_level, tg_op,
            case when tg_level = 'ROW' then (case when tg_op = 'DELETE' then old else new end)::text end));
        if tg_when = 'BEFORE' and tg_op = 'DELETE' and old.id = 4 then
            return null;
        end if;
        return case when tg_op = 'DELETE' then old else new end;
    end $$;
    create trigger b before update or delete on child for each row execute function note();
    create trigger a after update or delete on child for each row execute function note();
    create trigger s before delete on child execute function note();
    create trigger t after delete on child execute function note();
    create trigger w after update of parent on ward for each row execute function note();
    create trigger g after delete on grandchild for each row execute function note();
    create trigger p after delete on parent for each row execute function note();
    insert into parent values (1), (2), (3);
    insert into child values (1, 1), (2, 2), (3, 1), (4, 3);
    insert into ward values (1, 1), (2, 2);
    insert into grandchild values (1, 1), (2, 1), (3, 2);
";

#[test]
fn rows_that_foreign_keys_change_meet_their_triggers_and_checks() {
    let script = [
        "delete from parent where id = 1",
        "select what from journal order by number",
        "update parent set id = 7 where id = 2",
        "update parent set id = 11 where id = 7",
        "delete from parent where id = 7",
        "delete from parent where id = 3",
        "delete from parent where id = 3",
        "select what from journal order by number",
        "select * from child order by id",
        "select * from ward order by id",
        "select * from grandchild order by id",
    ];
    let oracle = Oracle::start();
    let mut theirs = oracle.as_ref().map(Oracle::connect);
    if let Some(theirs) = &mut theirs {
        for statement in statements_of(FAMILY) {
            assert_eq!(theirs.run(&statement).sqlstate, "00000", "{statement}");
        }
    }
    // Without PostgreSQL the protocols are compared with each other.
    let mut expected: Vec<_> = match &mut theirs {
        Some(theirs) => script.iter().map(|statement| theirs.run(statement)).collect(),
        None => Vec::new(),
    };
    for &protocol in ProtocolKind::ALL {
        let mut ours = sql(protocol).connect(Default::default()).expect("a connection");
        ours.query(FAMILY).expect("the schema");
        let found: Vec<_> = script.iter().map(|statement| answer(&mut ours, statement)).collect();
        if expected.is_empty() {
            expected.clone_from(&found);
        }
        for ((statement, found), expected) in script.iter().zip(&found).zip(&expected) {
            assert_eq!(found, expected, "{statement}, {protocol}");
        }
        let error = ours.query("insert into parent values (20); insert into child values (9, 20)");
        assert_eq!(error.expect_err("a check").state().as_str(), "23514", "{protocol}");
    }
}

/// The statements of a script, in which a semicolon ends a line that ends a statement.
fn statements_of(script: &str) -> Vec<String> {
    let mut statements = vec![String::new()];
    let mut quoted = false;
    for line in script.lines().filter(|line| !line.trim().is_empty()) {
        quoted ^= line.matches("$$").count() % 2 == 1;
        let last = statements.last_mut().expect("there is one");
        match line.trim_end().strip_suffix(';') {
            Some(line) if !quoted => {
                last.push_str(line);
                statements.push(String::new());
            }
            _ => {
                last.push_str(line);
                last.push('\n');
            }
        }
    }
    statements.pop();
    statements
}
