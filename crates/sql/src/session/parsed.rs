//! Statements that were parsed without a name, by their texts: clients that do not name them send the same texts again.
//!
//! # Invariants
//! - A statement is reused only if it was parsed with the same types of parameters, and its plan is current: its next use
//!   gives what parsing it again would.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::session::connection::Connection;
use crate::session::prepared::Prepared;
use crate::session::run::is_lasting;
use crate::types::Type;

/// The limit of statements that a connection keeps.
const STATEMENTS_MAX: usize = 256;
/// The longest text that is kept.
const TEXT_BYTES_MAX: usize = 16_384;

/// The statements of a connection that were parsed without a name.
#[derive(Default)]
pub(crate) struct Parsed {
    statements: HashMap<String, Arc<Prepared>>,
}

impl Connection {
    /// A statement of this text that was parsed before.
    pub(super) fn parsed_before(&self, text: &str, types: &[Option<Type>]) -> Option<Arc<Prepared>> {
        self.check_not_failed().ok()?;
        let known = self.parsed.statements.get(text)?;
        let plan = known.plan.lock().clone()?;
        (known.types == types && self.is_current(&plan)).then(|| known.clone())
    }

    pub(super) fn keep_parsed(&mut self, prepared: &Arc<Prepared>) {
        let text = &prepared.text;
        if prepared.plan.lock().is_none() || text.len() > TEXT_BYTES_MAX || !is_lasting(text) {
            return;
        }
        if self.parsed.statements.len() >= STATEMENTS_MAX {
            self.parsed.statements.clear();
        }
        self.parsed.statements.insert(text.clone(), prepared.clone());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use heddledb::{Database, Durability, Options};

    use crate::session::prepared::Prepared;
    use crate::{Connection, Sql, SqlState, Type};

    fn connection() -> Connection {
        let database = Database::in_memory_with(Options::default().durability(Durability::None));
        let sql = Sql::new(&database.expect("a database")).expect("SQL on a database");
        let mut connection = sql.connect(Default::default()).expect("a connection");
        connection.query("create table t (a int primary key, b text)").expect("the definition is right");
        connection
    }

    fn parse(connection: &mut Connection, text: &str, types: &[u32]) -> Arc<Prepared> {
        connection.prepare("", text, types).unwrap_or_else(|error| panic!("{text}: {error}"));
        connection.environment.prepared.get("").expect("it was prepared").clone()
    }

    #[test]
    fn a_text_is_planned_once() {
        let mut connection = connection();
        let text = "select b from t where a = $1";
        let first = parse(&mut connection, text, &[]);
        parse(&mut connection, "select 1", &[]);
        assert!(Arc::ptr_eq(&first, &parse(&mut connection, text, &[])));
        let typed = parse(&mut connection, text, &[Type::Int8.oid()]);
        assert!(!Arc::ptr_eq(&first, &typed));
        assert_eq!(connection.parameter_types("").expect("it is there")[..], [Type::Int8]);
    }

    #[test]
    fn after_a_schema_change_it_is_planned_again() {
        let mut connection = connection();
        let text = "select * from t";
        let first = parse(&mut connection, text, &[]);
        connection.query("alter table t add column c int").expect("it is added");
        assert!(!Arc::ptr_eq(&first, &parse(&mut connection, text, &[])));
        let (_, fields) = connection.describe_statement("").expect("its result may be another one");
        assert_eq!(fields.expect("columns").len(), 3);
        connection.query("create temporary table t (x int)").expect("it hides the other one");
        parse(&mut connection, text, &[]);
        let (_, fields) = connection.describe_statement("").expect("another table");
        assert_eq!(fields.expect("columns").len(), 1);
    }

    #[test]
    fn settings_failed_blocks_and_special_values_are_minded() {
        let mut connection = connection();
        let first = parse(&mut connection, "select b from t", &[]);
        connection
            .query("create schema s; create table s.t (b int); set search_path to s")
            .expect("it is set");
        assert!(!Arc::ptr_eq(&first, &parse(&mut connection, "select b from t", &[])));
        let now = "select 'now'::timestamptz";
        let before = parse(&mut connection, now, &[]);
        assert!(!Arc::ptr_eq(&before, &parse(&mut connection, now, &[])));
        connection.query("begin").expect("a block");
        connection.query("select 1 / 0").expect_err("it fails");
        let error = connection.prepare("", "select b from t", &[]).expect_err("the block has failed");
        assert_eq!(error.state(), SqlState::IN_FAILED_SQL_TRANSACTION);
    }
}
