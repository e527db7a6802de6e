//! Prepared statements and portals: PREPARE, EXECUTE, and the extended protocol.
//!
//! Invariants: a prepared statement is bound again when the schema has changed, and fails with 0A000 if its result
//! would have other columns. A portal's rows are read once: those that a limit left over are kept.

mod commands;
mod portals;

use std::sync::Arc;
use std::time::Instant;

use crate::bind::{BindContext, fixed_literals, literals_of};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::Statement;
use crate::parse::{parse, with_literals};
use crate::routine::footprint::call::declared_call;
use crate::session::connection::Connection;
use crate::session::plan_choice::PlanChoice;
use crate::session::result::{Field, Fields};
use crate::session::run::Plan;
use crate::session::statements::PreparedCounters;
use crate::types::{Type, Value};

pub(crate) use portals::{Portal, Portals};

/// A prepared statement.
pub(crate) struct Prepared {
    /// The statement; `None` if the text was empty.
    pub statement: Option<Statement>,
    pub text: String,
    /// The time at which it was prepared, and the text of the PREPARE that prepared it, if one did.
    pub prepared_at: i64,
    pub declared_by: Option<String>,
    pub types: Vec<Option<Type>>,
    /// The domains among the types that PREPARE gave.
    pub domains: Vec<Option<u32>>,
    /// The types of the parameters of a query inside of it, which EXPLAIN and DECLARE CURSOR have.
    pub inner_types: Arc<[Type]>,
    /// The plan; `None` for statements that are not planned.
    pub plan: parking_lot::Mutex<Option<Arc<Plan>>>,
    /// The choice between custom and generic plans for executions.
    pub choice: PlanChoice,
    /// The counters of its executions by portals.
    pub counters: PreparedCounters,
}

impl Prepared {
    /// The types of its parameters.
    pub fn parameter_types(&self) -> Arc<[Type]> {
        self.plan.lock().as_ref().map_or_else(|| self.inner_types.clone(), |plan| plan.parameters.clone())
    }
}

/// The parameters of a statement that has a query inside: their types and values.
#[derive(Clone, Copy, Default)]
pub(crate) struct Given<'p> {
    pub types: &'p [Type],
    pub values: &'p [Value],
}

impl Given<'_> {
    /// The types in the form that planning takes.
    pub fn known_types(&self) -> Vec<Option<Type>> {
        self.types.iter().copied().map(Some).collect()
    }
}

/// A statement that was prepared without a name ([`Connection::prepared`]): it can be executed on connections
/// to the same database.
#[derive(Clone)]
pub struct PreparedStatement(Arc<Prepared>);

/// `prepared statement "s" does not exist` (26000).
fn no_statement(name: &str) -> SqlError {
    let message = if name.is_empty() {
        "unnamed prepared statement does not exist".to_string()
    } else {
        format!("prepared statement \"{name}\" does not exist")
    };
    SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, message)
}

impl Connection {
    /// Prepares a statement. `types`: oids of the parameters' types; the statement decides those that are
    /// zero or missing.
    ///
    /// # Errors
    /// Class 42; 42P05 if the name is taken; 42601 for several statements.
    pub fn prepare(&mut self, name: &str, text: &str, types: &[u32]) -> Result<()> {
        self.begin_message()?;
        let _entered = self.enter_statement();
        let known = |&oid: &u32| Type::from_oid(oid).filter(|&ty| ty != Type::Unknown);
        let types: Vec<Option<Type>> = types.iter().map(known).collect();
        if name.is_empty() {
            self.environment.prepared.remove("");
        }
        if name.is_empty()
            && let Some(prepared) = self.parsed_before(text, &types)
        {
            self.environment.prepared.insert(name, prepared);
            return Ok(());
        }
        let prepared = crate::stack::for_text(text.len(), || self.prepare_text(text, types));
        let prepared = Arc::new(prepared.map_err(|error| self.failed(error))?);
        if name.is_empty() {
            self.keep_parsed(&prepared);
        }
        self.keep_prepared(name, prepared).map_err(|error| self.failed(error))
    }

    fn prepare_text(&mut self, text: &str, types: Vec<Option<Type>>) -> Result<Prepared> {
        let mut statements = parse(text)?;
        if statements.len() > 1 {
            let message = "cannot insert multiple commands into a prepared statement";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let mut statement = statements.pop().map(|parsed| parsed.statement);
        if let Some(statement) = &statement
            && !statement.ends_block()
        {
            self.check_not_failed()?;
        }
        let mut text = text.to_string();
        if let Some(settled) = statement.as_ref().and_then(|it| self.settled_literals(it, &text, &types)) {
            (statement, text) = (Some(settled.0), settled.1);
        }
        let text = text.as_str();
        let inner_types = match statement.as_ref().and_then(Statement::planned_inside) {
            Some(inner) => self.plan_to_describe(inner, text, &types)?.parameters.clone(),
            None => Arc::default(),
        };
        let plan = parking_lot::Mutex::new(None);
        let counters = PreparedCounters::new();
        let prepared = Prepared {
            statement,
            text: text.to_string(),
            prepared_at: self.environment.statement_start,
            declared_by: None,
            types,
            domains: Vec::new(),
            inner_types,
            plan,
            choice: PlanChoice::default(),
            counters,
        };
        self.described_plan(&prepared)?;
        Ok(prepared)
    }

    /// A statement, and its text, in which dates, times and intervals are written so that they mean what they mean now,
    /// whatever is set later; `None` if they are written so.
    fn settled_literals(
        &mut self,
        statement: &Statement,
        text: &str,
        types: &[Option<Type>],
    ) -> Option<(Statement, String)> {
        if !statement.is_planned() || !text.contains('\'') {
            return None;
        }
        let catalog = self.environment.catalog.clone();
        let path = self.environment.path();
        let context = BindContext { catalog: &catalog, path: &path, text };
        let literals = literals_of(context, &mut self.environment, statement, types).ok()?;
        let fixed = fixed_literals(text, &literals);
        if fixed.is_empty() {
            return None;
        }
        let text = with_literals(text, &fixed);
        let statement = parse(&text).ok()?.pop()?.statement;
        Some((statement, text))
    }

    /// Prepares a statement that is executed by [`run`](Self::run), without a name and without portals.
    ///
    /// ```
    /// # use heddle_sql::{Sql, Value};
    /// # use heddledb::{Database, Durability, Options};
    /// # let db = Database::in_memory_with(Options::default().durability(Durability::None))?;
    /// # let mut connection = Sql::new(&db)?.connect(Default::default())?;
    /// connection.query("create table account (id bigint primary key, balance bigint not null)")?;
    /// connection.query("insert into account values (1, 100)")?;
    /// let balance = connection.prepared("select balance from account where id = $1")?;
    /// let mut found = None;
    /// connection.run(&balance, &[Value::Int8(1)], &mut |row| Ok(found = row.first().cloned()))?;
    /// assert_eq!(found, Some(Value::Int8(100)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Same errors as [`prepare`](Self::prepare); 0A000 for statements other than SELECT,
    /// VALUES, INSERT, UPDATE, DELETE and MERGE.
    pub fn prepared(&mut self, text: &str) -> Result<PreparedStatement> {
        let _entered = self.enter_statement();
        let prepared = crate::stack::for_text(text.len(), || self.prepare_text(text, Vec::new()));
        let prepared = prepared.map_err(|error| self.failed(error))?;
        if prepared.plan.lock().is_none() {
            let message =
                "only SELECT, VALUES, INSERT, UPDATE, DELETE and MERGE can be prepared without a name";
            return Err(self.failed(SqlError::unsupported(message)));
        }
        Ok(PreparedStatement(Arc::new(prepared)))
    }

    /// Executes a prepared statement with its parameters, in order. Each row is passed to `row` once it is final.
    /// Returns the number of rows returned or written.
    ///
    /// # Errors
    /// The errors of the statement and of `row`; 08P01 for a wrong number of parameters.
    pub fn run(
        &mut self,
        statement: &PreparedStatement,
        parameters: &[Value],
        row: &mut dyn FnMut(&[Value]) -> Result<()>,
    ) -> Result<u64> {
        let _entered = self.enter_statement();
        let prepared = &*statement.0;
        let done = crate::stack::for_text(prepared.text.len(), || self.run_now(prepared, parameters, row));
        if done.is_ok() {
            self.statement_done();
        }
        done.map_err(|error| self.failed(error))
    }

    /// For tests and benchmarks, not part of the public interface: the procedure and the arguments by which a call of a
    /// function declares its keys; `None` if it declares none.
    #[doc(hidden)]
    pub fn declared(
        &mut self,
        statement: &PreparedStatement,
        parameters: &[Value],
    ) -> Result<Option<(heddledb::Procedure, heddledb::Args)>> {
        let Some(plan) = self.current_plan(&statement.0)? else { return Ok(None) };
        let call = declared_call(&mut self.environment, &plan.planned, parameters);
        Ok(call.map(|call| (call.procedure, call.args)))
    }

    fn run_now(
        &mut self,
        prepared: &Prepared,
        parameters: &[Value],
        row: &mut dyn FnMut(&[Value]) -> Result<()>,
    ) -> Result<u64> {
        self.check_not_failed()?;
        self.with_plan(&mut |connection, is_empty| {
            let Some(plan) = connection.current_plan(prepared)? else {
                return Err(SqlError::internal("a prepared statement has no plan"));
            };
            let plan = connection.plan_for_values(prepared, plan, parameters)?;
            if parameters.len() != plan.parameters.len() {
                let expected = plan.parameters.len();
                let message =
                    format!("the statement has {expected} parameters, but {} were given", parameters.len());
                return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message));
            }
            connection.run_plan(&plan, parameters, &mut |values| {
                *is_empty = false;
                row(values)
            })
        })
    }

    fn keep_prepared(&mut self, name: &str, prepared: Arc<Prepared>) -> Result<()> {
        if !name.is_empty() && self.environment.prepared.get(name).is_some() {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_PREPARED_STATEMENT, message));
        }
        self.environment.prepared.insert(name, prepared);
        Ok(())
    }

    /// The plan of a prepared statement by the catalog as it is now; none if it needs none.
    pub(super) fn current_plan(&mut self, prepared: &Prepared) -> Result<Option<Arc<Plan>>> {
        self.plan_of(prepared, false)
    }

    /// The plan by which a prepared statement runs with these parameters, where `plan` is the one for any.
    pub(super) fn plan_for_values(
        &mut self,
        prepared: &Prepared,
        plan: Arc<Plan>,
        values: &[Value],
    ) -> Result<Arc<Plan>> {
        match &prepared.statement {
            Some(statement) => self.chosen_plan(plan, &prepared.choice, (statement, &prepared.text), values),
            None => Ok(plan),
        }
    }

    /// The plan of a prepared statement that only describes it, by the catalog as it is now; `None` if it needs none.
    fn described_plan(&mut self, prepared: &Prepared) -> Result<Option<Arc<Plan>>> {
        self.plan_of(prepared, true)
    }

    fn plan_of(&mut self, prepared: &Prepared, only_describes: bool) -> Result<Option<Arc<Plan>>> {
        let Some(statement) = prepared.statement.as_ref().filter(|statement| statement.is_planned()) else {
            return Ok(None);
        };
        let known = prepared.plan.lock().clone();
        if let Some(plan) = &known
            && self.is_current(plan)
        {
            return Ok(known);
        }
        let types: Vec<Option<Type>> = match &known {
            Some(plan) => plan.parameters.iter().copied().map(Some).collect(),
            None => prepared.types.clone(),
        };
        let plan = match only_describes {
            true => self.plan_to_describe(statement, &prepared.text, &types)?,
            false => self.plan(statement, &prepared.text, &types)?,
        };
        if let Some(known) = known
            && !same_result(&known.fields, &plan.fields)
        {
            let error = SqlError::unsupported("cached plan must not change result type");
            return Err(error.with_routine("RevalidateCachedQuery"));
        }
        *prepared.plan.lock() = Some(plan.clone());
        Ok(Some(plan))
    }

    fn find_prepared(&self, name: &str) -> Result<Arc<Prepared>> {
        self.environment.prepared.get(name).cloned().ok_or_else(|| no_statement(name))
    }

    /// The types of a prepared statement's parameters, and its result's columns; `None` if it returns no
    /// rows.
    ///
    /// # Errors
    /// 26000; the errors of binding it again.
    pub fn describe_statement(&mut self, name: &str) -> Result<(Arc<[Type]>, Option<Fields>)> {
        self.begin_message()?;
        let prepared = self.find_prepared(name).map_err(|error| self.failed(error))?;
        self.refresh_catalog();
        let plan = self.described_plan(&prepared).map_err(|error| self.failed(error))?;
        Ok((prepared.parameter_types(), self.fields_of(&prepared, plan.as_deref())))
    }

    fn fields_of(&self, prepared: &Prepared, plan: Option<&Plan>) -> Option<Fields> {
        match (plan, &prepared.statement) {
            (Some(plan), _) => plan.returns.then(|| plan.fields.clone()),
            (None, Some(statement)) => self.utility_fields(statement).map(Arc::from),
            (None, None) => None,
        }
    }

    /// The types of a prepared statement's parameters.
    ///
    /// # Errors
    /// 26000.
    pub fn parameter_types(&self, name: &str) -> Result<Arc<[Type]>> {
        Ok(self.find_prepared(name)?.parameter_types())
    }

    fn count_execution(&mut self, started: Instant, prepared: &Prepared, succeeded: bool) {
        let counters = || self.shared.statements.counters(&self.environment.user, &prepared.text);
        let counters = succeeded.then(|| prepared.counters.get_or_init(counters).clone());
        self.count_statement(started, counters.as_deref());
    }

    /// Discards a prepared statement; nothing happens if there is none.
    pub fn close_statement(&mut self, name: &str) {
        self.environment.prepared.remove(name);
    }
}

fn same_result(left: &[Field], right: &[Field]) -> bool {
    left.len() == right.len()
        && left.iter().zip(right).all(|(left, right)| left.ty == right.ty && left.name == right.name)
}

impl Statement {
    /// Returns true if the statement is bound and planned.
    pub fn is_planned(&self) -> bool {
        matches!(
            self,
            Statement::Query(_)
                | Statement::Insert(_)
                | Statement::Update(_)
                | Statement::Delete(_)
                | Statement::Merge(_)
                | Statement::Call(_)
        )
    }

    /// The query inside of EXPLAIN and DECLARE CURSOR, which may have parameters.
    pub fn planned_inside(&self) -> Option<&Statement> {
        match self {
            Statement::Declare(declare) => Some(&declare.query),
            Statement::Explain { statement, .. } if statement.is_planned() => Some(statement),
            Statement::Explain { statement, .. } => match &**statement {
                Statement::Declare(declare) => Some(&declare.query),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns true if the statement is SELECT … INTO, which creates a table.
    pub fn is_select_into(&self) -> bool {
        matches!(self, Statement::Query(query) if crate::ddl::select_into(query).is_some())
    }

    /// Returns true if the statement is accepted in a failed block.
    pub fn ends_block(&self) -> bool {
        matches!(self, Statement::Commit { .. } | Statement::Rollback { .. } | Statement::RollbackTo(_))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use heddledb::{Database, Durability, Options};

    use super::PreparedStatement;
    use crate::session::Sql;
    use crate::session::connection::Connection;
    use crate::session::run::Plan;
    use crate::types::Value;

    fn plan(connection: &mut Connection, statement: &PreparedStatement) -> Arc<Plan> {
        // As long after the last comparison of the tables' sizes as it takes for the next one.
        connection.environment.statement_start += 1_000_000;
        connection.current_plan(&statement.0).unwrap().unwrap()
    }

    #[test]
    fn a_plan_is_made_again_when_a_table_has_grown_or_shrunk_by_a_factor() {
        let database = Database::in_memory_with(Options::default().durability(Durability::None)).unwrap();
        let mut connection = Sql::new(&database).unwrap().connect(Default::default()).unwrap();
        connection
            .query("create table t (a int primary key, b int); create table u (a int primary key, b int)")
            .unwrap();
        let joined =
            connection.prepared("select count(*) from t join u on t.b = u.b where t.a > $1").unwrap();
        let by_key = connection.prepared("select b from t where a = $1").unwrap();
        let (empty, point) = (plan(&mut connection, &joined), plan(&mut connection, &by_key));
        assert!(Arc::ptr_eq(&empty, &plan(&mut connection, &joined)), "nothing has changed");
        for table in ["t", "u"] {
            connection
                .query(&format!("insert into {table} select n, n from generate_series(1, 30000) n"))
                .unwrap();
        }
        let large = plan(&mut connection, &joined);
        assert!(!Arc::ptr_eq(&empty, &large), "the tables have grown");
        assert!(Arc::ptr_eq(&large, &plan(&mut connection, &joined)), "it is made again once");
        assert!(
            Arc::ptr_eq(&point, &plan(&mut connection, &by_key)),
            "a key names its row whatever the size"
        );
    }

    #[test]
    fn a_plan_is_made_again_when_an_execution_was_far_from_it_and_statistics_are_old() {
        let database = Database::in_memory_with(Options::default().durability(Durability::None)).unwrap();
        let mut connection = Sql::new(&database).unwrap().connect(Default::default()).unwrap();
        connection
            .query(
                "create table t (a int primary key, b int); create index on t (b);
                 insert into t select n, n from generate_series(1, 20000) n; analyze t",
            )
            .unwrap();
        let by_value = connection.prepared("select count(*) from t where b = $1").unwrap();
        let first = plan(&mut connection, &by_value);
        let execute = |connection: &mut Connection, value: i32| {
            // The plan is looked at before, so that the execution counts.
            connection.run(&by_value, &[Value::Int4(value)], &mut |_| Ok(())).unwrap();
        };
        execute(&mut connection, 7);
        assert!(Arc::ptr_eq(&first, &plan(&mut connection, &by_value)), "one row was expected and found");
        connection.query("update t set b = 7 where a between 100 and 4000").unwrap();
        execute(&mut connection, 8);
        assert!(Arc::ptr_eq(&first, &plan(&mut connection, &by_value)), "still as expected");
        execute(&mut connection, 7);
        let second = plan(&mut connection, &by_value);
        assert!(!Arc::ptr_eq(&first, &second), "3,900 rows instead of one");
        execute(&mut connection, 7);
        assert!(Arc::ptr_eq(&second, &plan(&mut connection, &by_value)), "statistics are new");
    }

    #[test]
    fn a_plan_is_made_again_when_as_many_rows_have_changed_as_there_are() {
        let database = Database::in_memory_with(Options::default().durability(Durability::None)).unwrap();
        let mut connection = Sql::new(&database).unwrap().connect(Default::default()).unwrap();
        connection
            .query(
                "create table t (a int primary key, b int);
                 insert into t select n, n from generate_series(1, 5000) n; analyze t",
            )
            .unwrap();
        let by_value = connection.prepared("select count(*) from t where b = $1").unwrap();
        let first = plan(&mut connection, &by_value);
        connection.query("update t set b = 7 where a < 500").unwrap();
        assert!(Arc::ptr_eq(&first, &plan(&mut connection, &by_value)), "a tenth");
        for _ in 0..3 {
            connection.query("update t set b = b + 1").unwrap();
        }
        assert!(!Arc::ptr_eq(&first, &plan(&mut connection, &by_value)), "each row, three times");
    }
}
