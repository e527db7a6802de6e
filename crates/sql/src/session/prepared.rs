//! Prepared statements and portals: PREPARE, EXECUTE, and the extended protocol.
//!
//! Invariants: a prepared statement is bound again when the schema has changed, and fails with 0A000 if its result would
//! have other columns. A portal's rows are taken once: what a limit left over is kept.

use std::sync::Arc;
use std::time::Instant;

use hashbrown::HashMap;

use crate::bind::{BindContext, Binder};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::parse;
use crate::parse::syntax::{Expr, Fetch, FetchDirection, Name, Statement, TypeName};
use crate::routine::footprint::call::declared_call;
use crate::run::KeptRows;
use crate::session::connection::Connection;
use crate::session::cursor::no_cursor;
use crate::session::result::{Field, Fields, ResultSink};
use crate::session::run::Plan;
use crate::session::statements::PreparedCounters;
use crate::types::cast::CastContext;
use crate::types::{Environment, Modifier, Type, Value};

/// A prepared statement.
pub(crate) struct Prepared {
    /// None: the text was empty.
    pub statement: Option<Statement>,
    pub text: String,
    /// When it was prepared, and by which text, if PREPARE has done it.
    pub prepared_at: i64,
    pub declared_by: Option<String>,
    pub types: Vec<Option<Type>>,
    /// The types of the parameters of a query inside of it, which EXPLAIN and DECLARE CURSOR have.
    pub inner_types: Arc<[Type]>,
    /// The plan; none for statements that are not planned.
    pub plan: parking_lot::Mutex<Option<Arc<Plan>>>,
    /// Where its executions by portals are counted.
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
    /// The types, as planning takes them.
    pub fn known_types(&self) -> Vec<Option<Type>> {
        self.types.iter().copied().map(Some).collect()
    }
}

/// A statement that was prepared without a name ([`Connection::prepared`]): it runs on connections to the same database.
#[derive(Clone)]
pub struct PreparedStatement(Arc<Prepared>);

/// A statement with its parameters.
#[derive(Clone)]
pub(crate) struct Portal {
    prepared: Arc<Prepared>,
    parameters: Arc<[Value]>,
    state: PortalState,
}

impl Portal {
    /// None: its text was empty.
    pub fn statement(&self) -> Option<&Statement> {
        self.prepared.statement.as_ref()
    }
}

/// Portals by their names; the one without a name costs no map entry.
#[derive(Clone, Default)]
pub(crate) struct Portals {
    unnamed: Option<Portal>,
    named: HashMap<String, Portal>,
}

impl Portals {
    pub fn get(&self, name: &str) -> Option<&Portal> {
        if name.is_empty() { self.unnamed.as_ref() } else { self.named.get(name) }
    }

    /// Removes one, with its name.
    pub fn take(&mut self, name: &str) -> Option<(String, Portal)> {
        match name {
            "" => self.unnamed.take().map(|portal| (String::new(), portal)),
            name => self.named.remove_entry(name),
        }
    }

    pub fn put(&mut self, name: String, portal: Portal) {
        if name.is_empty() {
            self.unnamed = Some(portal);
        } else {
            self.named.insert(name, portal);
        }
    }

    pub fn clear(&mut self) {
        self.unnamed = None;
        self.named.clear();
    }
}

#[derive(Clone)]
enum PortalState {
    New,
    /// What a limit left over, and how many rows were given.
    Suspended {
        /// All rows: a copy of the portal reads the same ones.
        rows: Arc<parking_lot::Mutex<KeptRows>>,
        plan: Arc<Plan>,
        given: usize,
    },
    Done,
}

/// `prepared statement "s" does not exist` (26000).
fn no_statement(name: &str) -> SqlError {
    let message = if name.is_empty() {
        "unnamed prepared statement does not exist".to_string()
    } else {
        format!("prepared statement \"{name}\" does not exist")
    };
    SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, message)
}

impl SqlError {
    /// `portal "p" does not exist` (34000).
    pub fn undefined_portal(name: &str) -> SqlError {
        SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("portal \"{name}\" does not exist"))
    }
}

impl Connection {
    /// Prepares a statement. `types`: oids of the parameters' types; zero or none: the statement decides.
    ///
    /// # Errors
    /// Class 42; 42P05 if the name is taken; 42601 for several statements.
    pub fn prepare(&mut self, name: &str, text: &str, types: &[u32]) -> Result<()> {
        let _entered = self.enter_statement();
        let known = |&oid: &u32| Type::from_oid(oid).filter(|&ty| ty != Type::Unknown);
        let types: Vec<Option<Type>> = types.iter().map(known).collect();
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
        let statement = statements.pop().map(|parsed| parsed.statement);
        if let Some(statement) = &statement
            && !statement.ends_block()
        {
            self.check_not_failed()?;
        }
        let inner_types = match statement.as_ref().and_then(Statement::planned_inside) {
            Some(inner) => self.plan(inner, text, &types)?.parameters.clone(),
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
            inner_types,
            plan,
            counters,
        };
        self.current_plan(&prepared)?;
        Ok(prepared)
    }

    /// Prepares a statement that is run by [`run`](Self::run), without a name and without portals.
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
    /// As [`prepare`](Self::prepare); 0A000 for statements other than SELECT, VALUES, INSERT, UPDATE, DELETE and MERGE.
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

    /// Runs a prepared statement with its parameters, in order. Each row is given to `row` when nothing can take it back.
    /// How many rows were returned or written.
    ///
    /// # Errors
    /// The statement's; `row`'s; 08P01 for a wrong number of parameters.
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

    /// For tests and benchmarks, not part of the public interface: the procedure and the arguments by which a call of a function
    /// declares its keys; none: it declares none.
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
        let Some(plan) = self.current_plan(prepared)? else {
            return Err(SqlError::internal("a prepared statement has no plan"));
        };
        if parameters.len() != plan.parameters.len() {
            let expected = plan.parameters.len();
            let message =
                format!("the statement has {expected} parameters, but {} were given", parameters.len());
            return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message));
        }
        self.run_plan(&plan, parameters, row)
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
    fn current_plan(&mut self, prepared: &Prepared) -> Result<Option<Arc<Plan>>> {
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
        let plan = self.plan(statement, &prepared.text, &types)?;
        if let Some(known) = known
            && !same_result(&known.fields, &plan.fields)
        {
            return Err(SqlError::unsupported("cached plan must not change result type"));
        }
        *prepared.plan.lock() = Some(plan.clone());
        Ok(Some(plan))
    }

    fn find_prepared(&self, name: &str) -> Result<Arc<Prepared>> {
        self.environment.prepared.get(name).cloned().ok_or_else(|| no_statement(name))
    }

    /// The types of a prepared statement's parameters, and its result's columns; none if it returns no rows.
    ///
    /// # Errors
    /// 26000; what binding it again says.
    pub fn describe_statement(&mut self, name: &str) -> Result<(Arc<[Type]>, Option<Fields>)> {
        let prepared = self.find_prepared(name).map_err(|error| self.failed(error))?;
        self.refresh_catalog();
        let plan = self.current_plan(&prepared).map_err(|error| self.failed(error))?;
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

    /// Makes a portal of a prepared statement and its parameters.
    ///
    /// # Errors
    /// 26000; 08P01 for a wrong number of parameters; 42P03 if the name is taken.
    pub fn bind(&mut self, portal: &str, statement: &str, parameters: Vec<Value>) -> Result<()> {
        self.bind_portal(portal, statement, parameters).map_err(|error| self.failed(error))
    }

    fn bind_portal(&mut self, portal: &str, statement: &str, parameters: Vec<Value>) -> Result<()> {
        let prepared = self.find_prepared(statement)?;
        if prepared.statement.as_ref().is_some_and(|statement| !statement.ends_block()) {
            self.check_not_failed()?;
        }
        let expected = prepared.parameter_types().len();
        if parameters.len() != expected {
            let message = format!(
                "bind message supplies {} parameters, but prepared statement \"{statement}\" requires {expected}",
                parameters.len()
            );
            return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message));
        }
        if !portal.is_empty() && self.portals.get(portal).is_some() {
            let message = format!("cursor \"{portal}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, message));
        }
        let bound = Portal { prepared, parameters: parameters.into(), state: PortalState::New };
        self.portals.put(portal.to_string(), bound);
        Ok(())
    }

    /// The columns of a portal's or a cursor's rows; none if it returns none.
    ///
    /// # Errors
    /// 34000; what binding again says.
    pub fn describe_portal(&mut self, name: &str) -> Result<Option<Fields>> {
        let Some(portal) = self.portals.get(name) else {
            let cursor =
                self.environment.cursors.get(name).ok_or_else(|| SqlError::undefined_portal(name))?;
            return Ok(Some(cursor.fields()));
        };
        let prepared = portal.prepared.clone();
        let plan = self.current_plan(&prepared).map_err(|error| self.failed(error))?;
        Ok(self.fields_of(&prepared, plan.as_deref()))
    }

    /// Whether there is a portal of this name.
    pub fn has_portal(&self, name: &str) -> bool {
        self.portals.get(name).is_some()
    }

    /// Runs a portal, or goes on with it: at most `max_rows` rows, zero for all.
    ///
    /// # Errors
    /// The statement's.
    pub fn execute(&mut self, name: &str, max_rows: u32, sink: &mut dyn ResultSink) -> Result<()> {
        let _entered = self.enter_statement();
        self.enter_pipeline(name).map_err(|error| self.failed(error))?;
        let Some((name, mut portal)) = self.portals.take(name) else {
            return Err(self.failed(SqlError::undefined_portal(name)));
        };
        let text_bytes = portal.prepared.text.len();
        self.activity.begin(&portal.prepared.text, self.environment.statement_start);
        let started = Instant::now();
        let done =
            crate::stack::for_text(text_bytes, || self.run_taken(&mut portal, max_rows as usize, sink));
        self.count_execution(started, &portal.prepared, done.is_ok());
        if done.is_ok() {
            self.statement_done();
        }
        let ended = self.transaction.is_idle()
            && portal.prepared.statement.as_ref().is_some_and(Statement::ends_block);
        if !ended {
            self.portals.put(name, portal);
        }
        done.map_err(|error| self.failed(error))
    }

    fn count_execution(&mut self, started: Instant, prepared: &Prepared, succeeded: bool) {
        let counters = || self.shared.statements.counters(&self.environment.user, &prepared.text);
        let counters = succeeded.then(|| prepared.counters.get_or_init(counters).clone());
        self.count_statement(started, counters.as_deref());
    }

    fn run_taken(&mut self, portal: &mut Portal, max_rows: usize, sink: &mut dyn ResultSink) -> Result<()> {
        let Some(statement) = &portal.prepared.statement else {
            sink.empty();
            return Ok(());
        };
        if let PortalState::Suspended { rows, plan, given } = &mut portal.state {
            sink.describe(&plan.fields)?;
            let printing = self.environment.printing();
            let mut rows = rows.lock();
            let left = rows.len() - *given;
            let count = if max_rows == 0 { left } else { max_rows.min(left) };
            for number in *given..*given + count {
                sink.row(rows.row(number)?, &*printing)?;
            }
            *given += count;
            self.rows_of_statement += count as u64;
            // A limit that is just reached suspends, as in PostgreSQL: whether there is more is asked with the next call.
            if *given < rows.len() || (max_rows > 0 && count == max_rows) {
                sink.suspended();
                return Ok(());
            }
            drop(rows);
            let tag = plan.tag(*given as u64);
            portal.state = PortalState::Done;
            return sink.complete(&tag);
        }
        if matches!(portal.state, PortalState::Done) && !statement.ends_block() {
            let message = "portal cannot be run again";
            return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
        }
        let Some(plan) = self.current_plan(&portal.prepared.clone())? else {
            let prepared = portal.prepared.clone();
            portal.state = PortalState::Done;
            return match &prepared.statement {
                Some(statement) => {
                    let given = Given { types: &prepared.inner_types, values: &portal.parameters };
                    self.statement_with(statement, &prepared.text, given, sink)
                }
                None => Ok(()),
            };
        };
        self.check_not_failed()?;
        if max_rows == 0 || !plan.returns {
            portal.state = PortalState::Done;
            return self.run_to_sink(&plan, &portal.parameters, &mut true, sink);
        }
        self.keep_rows(portal, plan)?;
        self.run_taken(portal, max_rows, sink)
    }

    /// Runs a portal's plan, and keeps its rows in the portal.
    fn keep_rows(&mut self, portal: &mut Portal, plan: Arc<Plan>) -> Result<()> {
        let mut rows = KeptRows::new(self.environment.memory()).packed();
        self.run_plan(&plan, &portal.parameters, &mut |row| rows.push(row))?;
        let rows = Arc::new(parking_lot::Mutex::new(rows));
        portal.state = PortalState::Suspended { rows, plan, given: 0 };
        Ok(())
    }

    /// FETCH and MOVE of a portal that the extended protocol made: forward only.
    pub(super) fn fetch_from_portal(&mut self, fetch: &Fetch, sink: &mut dyn ResultSink) -> Result<()> {
        let Some((name, mut portal)) = self.portals.take(&fetch.cursor.text) else {
            return Err(no_cursor(&fetch.cursor.text));
        };
        let done = self.fetch_rows(&mut portal, fetch, sink);
        self.portals.put(name, portal);
        done
    }

    fn fetch_rows(&mut self, portal: &mut Portal, fetch: &Fetch, sink: &mut dyn ResultSink) -> Result<()> {
        let FetchDirection::Forward(count @ 1..) = fetch.direction else {
            let message = "cursor can only scan forward";
            let hint = "Declare it with SCROLL option to enable backward scan.";
            return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message).with_hint(hint));
        };
        if matches!(portal.state, PortalState::New) {
            let plan = self.current_plan(&portal.prepared.clone())?.filter(|plan| plan.returns);
            let plan = plan.ok_or_else(|| no_cursor(&fetch.cursor.text))?;
            self.keep_rows(portal, plan)?;
        }
        let what = if fetch.moves { "MOVE" } else { "FETCH" };
        let PortalState::Suspended { rows, plan, given } = &mut portal.state else {
            return sink.complete(&format!("{what} 0"));
        };
        let printing = self.environment.printing();
        let mut rows = rows.lock();
        let count = (rows.len() - *given).min(count.unsigned_abs() as usize);
        if !fetch.moves {
            sink.describe(&plan.fields)?;
            for number in *given..*given + count {
                sink.row(rows.row(number)?, &*printing)?;
            }
        }
        *given += count;
        sink.complete(&format!("{what} {count}"))
    }

    /// The columns of the rows that FETCH returns from a portal; none if there is no such portal.
    pub(super) fn portal_fields(&self, name: &str) -> Option<Vec<Field>> {
        let portal = self.portals.get(name)?;
        let plan = portal.prepared.plan.lock().clone()?;
        plan.returns.then(|| plan.fields.to_vec())
    }

    /// Forgets a prepared statement; nothing happens if there is none.
    pub fn close_statement(&mut self, name: &str) {
        self.environment.prepared.remove(name);
    }

    /// Closes a portal or a cursor; nothing happens if there is none.
    pub fn close_portal(&mut self, name: &str) {
        if self.portals.take(name).is_none() {
            self.environment.cursors.remove(name);
        }
    }

    /// PREPARE, whose own text is `declared_by`.
    pub(super) fn prepare_statement(
        &mut self,
        name: &Name,
        types: &[TypeName],
        (statement, text): (&Statement, &str),
        declared_by: &str,
    ) -> Result<()> {
        let catalog = self.environment.catalog.clone();
        let path = self.environment.path();
        let context = BindContext { catalog: &catalog, path: &path, text };
        let binder = Binder::new(context, &mut self.environment, &[]);
        let mut declared = Vec::with_capacity(types.len());
        for ty in types {
            declared.push(Some(binder.named_type(ty)?.ty));
        }
        let plan = parking_lot::Mutex::new(None);
        let (statement, text) = (Some(statement.clone()), text.to_string());
        let counters = PreparedCounters::new();
        let prepared = Prepared {
            statement,
            text,
            prepared_at: self.environment.statement_start,
            declared_by: Some(self.source.as_deref().unwrap_or(declared_by).to_string()),
            types: declared,
            inner_types: Arc::default(),
            plan,
            counters,
        };
        self.current_plan(&prepared)?;
        self.keep_prepared(&name.text, Arc::new(prepared))
    }

    /// EXECUTE.
    pub(super) fn execute_prepared(
        &mut self,
        name: &Name,
        args: &[Expr],
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        let prepared = self.find_prepared(&name.text)?;
        let Some(plan) = self.current_plan(&prepared)? else {
            let Some(statement) = prepared.statement.clone() else { return sink.complete("EXECUTE") };
            return self.statement(&statement, &prepared.text, sink);
        };
        if args.len() != plan.parameters.len() {
            let message = format!("wrong number of parameters for prepared statement \"{}\"", name.text);
            let detail = format!("Expected {} parameters but got {}.", plan.parameters.len(), args.len());
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).with_detail(detail));
        }
        let mut values = Vec::with_capacity(args.len());
        for (number, (arg, &ty)) in args.iter().zip(plan.parameters.iter()).enumerate() {
            let value = self.constant(arg, ty).map_err(|error| match error.state() {
                SqlState::CANNOT_COERCE => {
                    let message = format!(
                        "parameter ${} cannot be coerced to the expected type {}",
                        number + 1,
                        self.environment.catalog.type_display(ty)
                    );
                    SqlError::new(SqlState::DATATYPE_MISMATCH, message)
                        .with_hint("You will need to rewrite or cast the expression.")
                }
                _ => error,
            })?;
            values.push(value);
        }
        self.run_to_sink(&plan, &values, &mut true, sink)
    }

    /// The value of an expression without columns, as a value of a type.
    pub(super) fn constant(&mut self, expr: &Expr, ty: Type) -> Result<Value> {
        let catalog = self.environment.catalog.clone();
        let path = self.environment.path();
        let context = BindContext { catalog: &catalog, path: &path, text: "" };
        let mut binder = Binder::new(context, &mut self.environment, &[]);
        binder.new_parameters = false;
        binder.foreign_text = true;
        binder.enter();
        let bound = binder.expr(expr)?;
        let bound = binder.coerce(bound, ty, Modifier::NONE, CastContext::Assignment, expr.at)?;
        binder.check_expressions()?;
        self.evaluate(bound)
    }

    /// DEALLOCATE.
    pub(super) fn deallocate(&mut self, name: Option<&Name>) -> Result<&'static str> {
        match name {
            None => {
                self.environment.prepared.clear();
                Ok("DEALLOCATE ALL")
            }
            Some(name) if self.environment.prepared.remove(&name.text) => Ok("DEALLOCATE"),
            Some(name) => Err(no_statement(&name.text)),
        }
    }
}

fn same_result(left: &[Field], right: &[Field]) -> bool {
    left.len() == right.len()
        && left.iter().zip(right).all(|(left, right)| left.ty == right.ty && left.name == right.name)
}

impl Statement {
    /// Whether it is bound and planned.
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
            _ => None,
        }
    }

    /// Whether it is SELECT … INTO, which makes a table.
    pub fn is_select_into(&self) -> bool {
        matches!(self, Statement::Query(query) if crate::ddl::select_into(query).is_some())
    }

    /// Whether it is accepted in a failed block.
    pub fn ends_block(&self) -> bool {
        matches!(self, Statement::Commit { .. } | Statement::Rollback { .. } | Statement::RollbackTo(_))
    }
}
