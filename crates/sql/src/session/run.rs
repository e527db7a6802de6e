//! Queries and statements that write: bound and planned once, cached by their text, run and retried.
//!
//! A statement reaches the engine in one of three ways: in the engine's session if a block is open or rows are
//! reserved; as a call that declares its keys, if these follow from the arguments of the routine that it calls; else as
//! a closure, or on a snapshot if it is a report or the session only reads.
//!
//! Invariants: rows reach the sink only when nothing can take them back: those of a statement that writes, or that
//! runs inside a block, when it has ended; those of a snapshot at once.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::access;
use crate::bind::tree::StatementKind;
use crate::bind::{BindContext, Checks, bind};
use crate::catalog::rights::{RightsKind, SELECT};
use crate::catalog::uses::{self, Kept};
use crate::catalog::{Event, Table, Trigger};
use crate::compile::Procedure;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::Statement;
use crate::plan::{Planned, plan};
use crate::rewrite::{Constants, fold_with};
use crate::routine::footprint::call::{DeclaredCall, declared_call};
use crate::routine::trigger::Firing;
use crate::run::{Access, KeptRows, execute, execute_compiled};
use crate::session::KnownNow;
use crate::session::connection::Connection;
use crate::session::environment::SessionEnvironment;
use crate::session::result::{Field, ResultSink, Tag};
use crate::session::sequences::SHORTAGE;
use crate::types::{Environment, Type, Value};

/// The limit of plans that a connection keeps.
const PLANS_MAX: usize = 512;

/// The limit of times that a statement outside of a block is planned again because of schema changes that commit
/// meanwhile.
pub(super) const PLANNED_AGAIN_MAX: u32 = 10_000;

/// A statement that is ready to run.
pub(crate) struct Plan {
    pub planned: Planned,
    pub fields: Arc<[Field]>,
    pub parameters: Arc<[Type]>,
    /// True if it returns rows.
    pub returns: bool,
    /// A constant of the statement cannot be computed: the plan only describes it, and executing it is the error.
    pub is_provisional: bool,
    kind: &'static str,
    /// The catalog's version that it was bound to, and what of it it depends on.
    pub version: u64,
    pub kept: Kept,
    /// The settings that its binding depends on.
    pub settings: Arc<str>,
}

impl Plan {
    /// The command tag after this many rows.
    pub fn tag(&self, count: u64) -> Tag {
        let mut tag = Tag::default();
        tag.push(self.kind);
        if self.kind == "CALL" {
            return tag;
        }
        tag.push(if self.kind == "INSERT" { " 0 " } else { " " });
        tag.push_number(count);
        tag
    }
}

/// Plans by the statements' texts.
#[derive(Default)]
pub(crate) struct PlanCache {
    plans: HashMap<String, Arc<Plan>>,
}

impl Connection {
    /// Binds and plans a statement, for the current role.
    pub(crate) fn plan(
        &mut self,
        statement: &Statement,
        text: &str,
        parameters: &[Option<Type>],
    ) -> Result<Arc<Plan>> {
        self.plan_with(statement, text, (parameters, &[]), Checks::Privileges, Planning::ToRun)
    }

    /// Plans a statement as [`plan`](Self::plan) does, for one execution with these values of the parameters.
    pub(super) fn plan_for(
        &mut self,
        statement: &Statement,
        text: &str,
        parameters: &[Option<Type>],
        values: &[Value],
    ) -> Result<Arc<Plan>> {
        self.plan_with(statement, text, (parameters, values), Checks::Privileges, Planning::ToRun)
    }

    /// Plans a statement as [`plan`](Self::plan) does, to describe it only: an error in its constants (`1/0`) waits for
    /// its execution.
    pub(super) fn plan_to_describe(
        &mut self,
        statement: &Statement,
        text: &str,
        parameters: &[Option<Type>],
    ) -> Result<Arc<Plan>> {
        self.plan_with(statement, text, (parameters, &[]), Checks::Privileges, Planning::ToDescribe)
    }

    fn plan_with(
        &mut self,
        statement: &Statement,
        text: &str,
        (parameters, values): (&[Option<Type>], &[Value]),
        checks: Checks,
        planning: Planning,
    ) -> Result<Arc<Plan>> {
        let catalog = self.environment.catalog.clone();
        let path = self.environment.path();
        let context = BindContext { catalog: &catalog, path: &path, text };
        let constants =
            if planning == Planning::ToDescribe { Constants::MayFail } else { Constants::Computed };
        let has_consequences = planning != Planning::OfOwn;
        let (made, kept) = uses::record(catalog.position, || {
            let mut bound = bind(context, &mut self.environment, statement, parameters, checks)?;
            let is_provisional = !fold_with(&mut bound, constants, values)?;
            let known = KnownNow { shared: &self.shared, catalog: &catalog, path: &path, has_consequences };
            let planned = plan(&bound, &known)?;
            Ok::<_, SqlError>((bound, planned, is_provisional))
        });
        let (bound, planned, is_provisional) = made?;
        let kind = match &bound.kind {
            StatementKind::Query(_) if matches!(statement, Statement::Call(_)) => "CALL",
            StatementKind::Query(_) => "SELECT",
            StatementKind::Insert(_) => "INSERT",
            StatementKind::Update(_) => "UPDATE",
            StatementKind::Delete(_) => "DELETE",
            StatementKind::Merge(_) => "MERGE",
        };
        let returns = kind == "SELECT" || !bound.columns.is_empty();
        Ok(Arc::new(Plan {
            planned,
            fields: bound.columns.iter().map(Field::of).collect(),
            parameters: bound.parameters.into(),
            returns,
            is_provisional,
            kind,
            version: catalog.version,
            kept,
            settings: self.environment.settings.derived.binding.clone(),
        }))
    }

    /// Returns true if a plan still has its statement's meaning.
    pub(super) fn is_current(&self, plan: &Plan) -> bool {
        let binding = &self.environment.settings.derived.binding;
        let is_same = Arc::ptr_eq(&plan.settings, binding) || plan.settings == *binding;
        let is_over = self.is_over(plan);
        let is_current =
            plan.version == self.environment.catalog.version && is_same && !plan.is_provisional && !is_over;
        if is_current {
            uses::note_kept(&plan.kept);
        }
        is_current
    }

    /// Returns true if a plan was made for tables that have changed too much since.
    pub(super) fn is_over(&self, plan: &Plan) -> bool {
        let shared = &self.shared;
        plan.planned.age.is_over(self.environment.statement_start, &shared.database, &shared.statistics)
    }

    /// The plan of a statement without parameters, cached by its text.
    fn cached_plan(&mut self, statement: &Statement, text: &str) -> Result<Arc<Plan>> {
        if let Some(plan) = self.plans.plans.get(text).cloned()
            && self.is_current(&plan)
        {
            return Ok(plan);
        }
        let plan = self.plan(statement, text, &[])?;
        if is_lasting(text) && text.len() < 16_384 {
            if self.plans.plans.len() >= PLANS_MAX {
                self.plans.plans.clear();
            }
            self.plans.plans.insert(text.to_string(), plan.clone());
        }
        Ok(plan)
    }

    /// Runs a query or a statement that writes.
    pub(super) fn run_data(
        &mut self,
        statement: &Statement,
        text: &str,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        self.with_plan(&mut |connection, is_empty| {
            let plan = connection.cached_plan(statement, text)?;
            connection.run_to_sink(&plan, &[], is_empty, sink)
        })
    }

    /// Runs something by a plan that it makes; again with the next one where a schema change has replaced what the plan is for, as
    /// long as the client has got nothing of it.
    ///
    /// # Errors
    /// Those of what is run.
    pub(crate) fn with_plan<T>(
        &mut self,
        run: &mut dyn FnMut(&mut Self, &mut bool) -> Result<T>,
    ) -> Result<T> {
        let mut attempts = 1;
        loop {
            let mut is_empty = true;
            let done = run(self, &mut is_empty);
            match done {
                Err(error) if error.is_of_stale_plan() && is_empty && attempts < PLANNED_AGAIN_MAX => {
                    attempts += 1;
                    self.environment_check()?;
                    std::thread::yield_now();
                    if attempts == PLANNED_AGAIN_MAX / 10 {
                        // No catalog comes: the engine's own interface has changed the table.
                        self.shared.follow_engine();
                    }
                    self.refresh_catalog();
                }
                done => return done,
            }
        }
    }

    /// Runs a plan, its rows and its tag into a sink.
    pub(super) fn run_to_sink(
        &mut self,
        plan: &Plan,
        parameters: &[Value],
        is_empty: &mut bool,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        let mut described = false;
        let printing = self.environment.printing();
        let count = self.run_plan(plan, parameters, &mut |row| {
            // CALL of a procedure without output arguments has a row, but no columns.
            if !plan.returns {
                return Ok(());
            }
            if !described {
                sink.describe(&plan.fields)?;
                (described, *is_empty) = (true, false);
            }
            sink.row(row, &*printing)
        })?;
        if plan.returns && !described {
            sink.describe(&plan.fields)?;
        }
        self.rows_of_statement += count;
        sink.complete(&plan.tag(count))
    }

    /// Runs a plan: within the open block, or as a transaction of its own. Returns the number of rows that it has
    /// returned or written.
    pub(crate) fn run_plan(
        &mut self,
        plan: &Plan,
        parameters: &[Value],
        each: &mut dyn FnMut(&[Value]) -> Result<()>,
    ) -> Result<u64> {
        if (plan.planned.writes || plan.planned.locks) && self.environment.settings.derived.read_only {
            return Err(self.read_only(if plan.planned.writes { plan.kind } else { "SELECT FOR UPDATE" }));
        }
        if plan.kind == "CALL" && self.transaction.is_idle() {
            return self.call_procedure(plan, parameters, each);
        }
        self.run_attempts(&mut |connection| connection.attempt(plan, parameters, each))
    }

    /// Runs an attempt, again where stored values of a sequence have run out, and finishes what it did beside rows.
    pub(super) fn run_attempts(&mut self, attempt: &mut dyn FnMut(&mut Self) -> Result<u64>) -> Result<u64> {
        self.apply_lock_timeout()?;
        self.begin_attempts();
        self.transaction.has_queried = true;
        self.environment.note_role();
        loop {
            self.environment.shortage = None;
            let done = attempt(self);
            match (done, self.environment.shortage.take()) {
                (Err(error), Some(sequence)) if error.state() == SHORTAGE => {
                    self.environment_check()?;
                    self.environment.refill(sequence)?;
                }
                (done, _) => {
                    if self.transaction.is_idle() && !self.environment.acquired.is_empty() {
                        self.shared.advisory.release_all(self.environment.number, true);
                    }
                    if self.transaction.is_idle() {
                        self.environment.deferred.clear();
                    }
                    let count = done.map_err(|error| self.hide_unreadable(error))?;
                    self.environment.finish_sequences()?;
                    self.export_snapshots()?;
                    if !self.transaction.is_idle() {
                        self.environment.keep_left_cursors();
                    }
                    return Ok(count);
                }
            }
        }
    }

    /// Prepares for the attempts of a statement.
    pub(super) fn begin_attempts(&mut self) {
        let environment = &mut self.environment;
        environment.begin_attempts();
        if environment.routines.uncounted.is_empty() {
            return;
        }
        // Statements of routines were planned without statistics of these tables.
        environment.routines.clear();
        for oid in std::mem::take(&mut environment.routines.uncounted) {
            if let Some(table) = environment.catalog.table_by_oid(oid) {
                self.shared.statistics.get(&self.shared.database, table);
            }
        }
    }

    /// The error of a violated constraint, without values of a table that the current role may not read.
    pub(super) fn hide_unreadable(&self, error: SqlError) -> SqlError {
        let (Some(detail), Some(name)) = (error.detail(), error.table()) else { return error };
        if error.state().class() != "23" {
            return error;
        }
        let environment = &self.environment;
        let schema = error.schema().unwrap_or_default();
        let found = environment.catalog.relation(schema, name);
        let rights = found.and_then(|relation| relation.rights());
        let is_readable = rights.is_some_and(|rights| {
            environment.catalog.may(environment.role_oid(), rights, RightsKind::Table, SELECT)
        });
        if is_readable {
            return error;
        }
        // What is left of `Key (a)=(1) is not present in table "t".`
        let rest = [" is not present in table ", " is still referenced from table "];
        let rest = rest.iter().find_map(|text| detail.rfind(text).map(|at| format!("Key{}", &detail[at..])));
        match rest {
            Some(rest) if error.state() == SqlState::FOREIGN_KEY_VIOLATION => error.with_detail(rest),
            _ => error.without_detail(),
        }
    }

    fn read_only(&self, kind: &str) -> SqlError {
        let message = format!("cannot execute {kind} in a read-only transaction");
        SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message)
    }

    /// Runs a plan once for each row of parameters, all as one transaction, or within the open one. `runs_once`: it only
    /// inserts the row, and never needs another execution. `lines`: the table and the first line, if the rows are lines of a COPY.
    pub(crate) fn run_each(
        &mut self,
        plan: &Plan,
        rows: &mut KeptRows,
        runs_once: bool,
        lines: Option<(&str, u64)>,
    ) -> Result<u64> {
        if self.environment.settings.is_on("transaction_read_only") {
            return Err(self.read_only("COPY FROM"));
        }
        // The engine counts rows when they are committed: all of these at once.
        if self.shared.database.memory_left().is_some_and(|left| rows.stored_bytes() > left) {
            let message = "the rows need more memory than the database may take";
            return Err(SqlError::new(SqlState::OUT_OF_MEMORY, message)
                .with_hint("Raise the limit, or copy fewer rows."));
        }
        self.apply_lock_timeout()?;
        self.begin_attempts();
        loop {
            self.environment.shortage = None;
            let in_session = self.runs_in_session(&plan.planned);
            let environment = &mut self.environment;
            let body = |access: Access<'_>| {
                let (mut count, mut number) = (0, 0);
                environment.begin_attempt();
                environment.check_definitions()?;
                let stored = rows.each(&mut |row| {
                    number += 1;
                    count += match execute_compiled(
                        &plan.planned,
                        access,
                        row,
                        &mut *environment,
                        &mut Vec::new(),
                    )? {
                        Some(stored) => stored,
                        None => execute(&plan.planned, access, row, &mut *environment, &mut |_| Ok(()))?,
                    };
                    Ok(())
                });
                stored.and_then(|()| environment.end_attempt(access)).map(|()| count).map_err(|error| {
                    match lines {
                        Some((table, first)) if number > 0 && !error.is_retryable() => {
                            error.with_context(format!("COPY {table}, line {}", first + number - 1))
                        }
                        _ => error,
                    }
                })
            };
            let done = match (in_session, runs_once) {
                (true, true) => access::load_in(&mut self.transaction.session, body),
                (true, false) => access::run_in(&mut self.transaction.session, body),
                (false, _) => access::run(&self.shared.database, body),
            };
            match (done, self.environment.shortage.take()) {
                (Err(error), Some(sequence)) if error.state() == SHORTAGE => {
                    self.environment_check()?;
                    self.environment.refill(sequence)?;
                }
                (done, _) => {
                    if self.transaction.is_idle() {
                        self.environment.deferred.clear();
                    }
                    let count = done.map_err(|error| self.hide_unreadable(error))?;
                    self.environment.finish_sequences()?;
                    return Ok(count);
                }
            }
        }
    }

    /// Runs an internal statement, and collects its rows.
    pub(crate) fn collect_rows(
        &mut self,
        statement: &Statement,
        text: &str,
        checks: Checks,
        into: &mut Vec<Vec<Value>>,
    ) -> Result<()> {
        let plan = self.plan_with(statement, text, (&[], &[]), checks, Planning::OfOwn)?;
        self.run_plan(&plan, &[], &mut |row| {
            into.push(row.to_vec());
            Ok(())
        })?;
        Ok(())
    }

    /// Fires a trigger of a statement that is none of rows.
    pub(crate) fn fire_statement_trigger(
        &mut self,
        trigger: &Trigger,
        table: &Arc<Table>,
        event: Event,
    ) -> Result<()> {
        self.catalog_to_read();
        let environment = &mut self.environment;
        self.transaction.run_statement(environment, |access, environment| {
            let firing = Firing { trigger, table, event, old: None, new: None, changed: None };
            crate::routine::trigger::fire(environment, &firing, access).map(|_| ())
        })
    }

    pub(super) fn attempt(
        &mut self,
        plan: &Plan,
        parameters: &[Value],
        each: &mut dyn FnMut(&[Value]) -> Result<()>,
    ) -> Result<u64> {
        let planned = &plan.planned;
        let idle = self.transaction.is_idle();
        // On a standby a routine cannot write, whatever it calls.
        let is_standby = self.shared.database.is_standby();
        let is_read_only =
            self.environment.settings.derived.read_only && (planned.only_reads() || is_standby);
        let on_snapshot = idle && (planned.is_report || is_read_only);
        // What a function reads may be much.
        let is_compiled = match &planned.procedure {
            Some(Procedure::Row(_)) => !on_snapshot,
            procedure => procedure.is_some(),
        };
        if is_compiled && let Some(count) = self.run_compiled(plan, parameters, each)? {
            return Ok(count);
        }
        if on_snapshot {
            let environment = &mut self.environment;
            environment.begin_attempt();
            return access::read(&self.shared.database, |access| {
                // The snapshot is open: what the plan means is of its moment.
                environment.check_definitions()?;
                execute(planned, access, parameters, environment, &mut |batch| {
                    batch.rows().try_for_each(&mut *each)
                })
            });
        }
        let way = self.way(planned, parameters);
        let mut kept = KeptRows::new(self.environment.memory());
        let count = self.run_by(way, |access, environment| {
            kept.clear();
            execute(planned, access, parameters, environment, &mut |batch| kept.push_batch(None, batch))
        })?;
        kept.each(each)?;
        Ok(count)
    }

    /// Runs a compiled statement; `None` if the operators are to run instead.
    fn run_compiled(
        &mut self,
        plan: &Plan,
        parameters: &[Value],
        each: &mut dyn FnMut(&[Value]) -> Result<()>,
    ) -> Result<Option<u64>> {
        let way = self.way(&plan.planned, parameters);
        let mut row = std::mem::take(&mut self.row);
        let done = self.run_by(way, |access, environment| {
            row.clear();
            execute_compiled(&plan.planned, access, parameters, environment, &mut row)
        });
        let done = done.and_then(|count| {
            if plan.returns && count.is_some_and(|count| count > 0) {
                each(&row)?;
            }
            Ok(count)
        });
        self.row = row;
        done
    }

    /// Returns true if a statement runs in the engine's session: in a block, and if it reserves rows or may meet
    /// reserved ones.
    fn runs_in_session(&self, planned: &Planned) -> bool {
        !self.transaction.is_idle()
            || planned.locks
            || (planned.writes || planned.calls) && self.shared.database.has_reservations()
    }

    /// The way by which a statement reaches the engine.
    fn way(&mut self, planned: &Planned, parameters: &[Value]) -> Way {
        if self.runs_in_session(planned) {
            return Way::Session;
        }
        let environment = &mut self.environment;
        let declares =
            environment.settings.derived.derive_footprints && self.shared.database.uses_footprints();
        let call = if declares { declared_call(environment, planned, parameters) } else { None };
        call.map_or(Way::Closure, |call| Way::Declared(Box::new(call)))
    }

    /// Runs a body as a transaction, or as a part of the open one.
    fn run_by<T: Send>(
        &mut self,
        way: Way,
        mut body: impl FnMut(Access<'_>, &mut SessionEnvironment) -> Result<T> + Send,
    ) -> Result<T> {
        let environment = &mut self.environment;
        let mut attempt = |access: Access<'_>| {
            environment.begin_attempt();
            environment.check_definitions()?;
            let done = body(access, environment)?;
            environment.end_attempt(access)?;
            Ok(done)
        };
        let database = &self.shared.database;
        match way {
            Way::Session => self.transaction.run_at_one_moment(attempt),
            Way::Closure => access::run(database, attempt),
            Way::Declared(call) => {
                match access::run_declared(database, &call.procedure, call.args, &mut attempt) {
                    // What the arguments tell is not what it accesses: nothing was changed.
                    Err(error) if error.is_outside_footprint() => {
                        let done = access::run(database, attempt)?;
                        self.environment.routines.note_miss(call.routine);
                        Ok(done)
                    }
                    Err(error) if error.is_of_values_met() => access::run_ordinary(database, attempt),
                    done => done,
                }
            }
        }
    }
}

/// The purpose for which a plan is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planning {
    ToRun,
    ToDescribe,
    /// To run an internal statement, without the checks and effects that a client's has beside its rows.
    OfOwn,
}

/// The way by which a statement reaches the engine.
enum Way {
    /// In the engine's session.
    Session,
    /// A call that declares its keys.
    Declared(Box<DeclaredCall>),
    /// A closure.
    Closure,
}

/// Returns true if a statement has the same meaning whenever it is bound, unlike one with `'now'` and its kin.
pub(super) fn is_lasting(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    !["now", "today", "tomorrow", "yesterday"].iter().any(|word| lower.contains(word))
}
