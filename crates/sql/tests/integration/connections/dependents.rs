//! What DROP says of the objects that depend on the dropped ones.

use super::{connect, in_memory};

const OBJECTS: &str =
    "create domain d1 as int check (value > 0); create domain d2 as d1; create domain d3 as d2;
     create table par (id int primary key); create table dt (a d3, n int, p int references par);
     create function f(x int) returns int language sql immutable as 'select x';
     alter table dt add column m int default f(1), add check (f(n) > 0);
     create view v as select id from par; create view w as select f(id) as x from v";

/// The detail of a refused DROP.
fn detail(text: &str) -> String {
    let mut connection = connect(&in_memory());
    connection.query(OBJECTS).expect("the definitions are right");
    let error = connection.query(text).expect_err("objects depend on it");
    assert_eq!(error.state().as_str(), "2BP01", "{text}");
    assert_eq!(error.hint(), Some("Use DROP ... CASCADE to drop the dependent objects too."));
    error.detail().unwrap_or_default().to_string()
}

/// The message and the detail of a DROP … CASCADE's notice.
fn notice(text: &str) -> (String, String) {
    let mut connection = connect(&in_memory());
    connection.query(OBJECTS).expect("the definitions are right");
    connection.take_notices();
    connection.query(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut notices = connection.take_notices();
    assert_eq!(notices.len(), 1, "{text}: {notices:?}");
    let notice = notices.remove(0);
    (notice.message, notice.detail.unwrap_or_default())
}

#[test]
fn a_refused_drop_names_all_of_them() {
    assert_eq!(
        detail("drop domain d1"),
        "type d2 depends on type d1\ntype d3 depends on type d2\ncolumn a of table dt depends on type d3"
    );
    assert_eq!(
        detail("drop table par"),
        "constraint dt_p_fkey on table dt depends on table par\nview v depends on table par\nview w depends on view v"
    );
    assert_eq!(
        detail("drop function f"),
        "view w depends on function f(integer)\nconstraint dt_n_check on table dt depends on function f(integer)\n\
         default value for column m of table dt depends on function f(integer)"
    );
}

#[test]
fn cascade_names_what_it_drops() {
    let (message, detail) = notice("drop domain d2 cascade");
    assert_eq!(message, "drop cascades to 2 other objects");
    assert_eq!(detail, "drop cascades to type d3\ndrop cascades to column a of table dt");
    assert_eq!(notice("drop view v cascade"), ("drop cascades to view w".to_string(), String::new()));
    let (message, detail) = notice("drop function f cascade");
    assert_eq!(message, "drop cascades to 3 other objects");
    assert!(detail.contains("drop cascades to constraint dt_n_check on table dt"), "{detail}");
}
