//! EXPLAIN, in text and JSON.

use crate::access;
use crate::bind::privileges::denied;
use crate::catalog::rights::{EXECUTE, RightsKind};
use crate::error::{Result, SqlError};
use crate::parse::syntax::{ExplainOptions, Expr, Name, ObjectKind, RoutineName, Statement};
use crate::plan::explain::{Explained, Shown};
use crate::routine::footprint::flow_graph;
use crate::run::{NodeCounts, RunOptions, execute_with};
use crate::session::connection::Connection;
use crate::session::prepared::Given;
use crate::session::result::{Field, ResultSink};
use crate::session::run::Plan;
use crate::types::{Environment, Type, Value};

fn not_explained() -> SqlError {
    SqlError::unsupported("EXPLAIN of this statement is not supported").with_hint(
        "Queries, INSERT, UPDATE, DELETE, MERGE, EXECUTE and DECLARE can be explained, and without ANALYZE \
         CREATE TABLE AS and CREATE MATERIALIZED VIEW.",
    )
}

impl Connection {
    pub(super) fn explain(
        &mut self,
        options: ExplainOptions,
        statement: &Statement,
        text: &str,
        given: Given<'_>,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        if let Statement::Execute { name, args } = statement {
            return self.explain_executed(options, (name, args), sink);
        }
        let query = match statement {
            Statement::Declare(declare) => &declare.query,
            Statement::CreateTableAs(create) if !options.analyze => &Statement::Query(create.query.clone()),
            Statement::CreateView(create) if create.materialized && !options.analyze => {
                &Statement::Query(create.query.clone())
            }
            planned if planned.is_planned() => planned,
            _ => return Err(not_explained()),
        };
        let milliseconds = |start: std::time::Instant| start.elapsed().as_secs_f64() * 1_000.0;
        let (plan, done, times) = self.with_plan(&mut |connection, _| {
            let start = std::time::Instant::now();
            let plan = connection.plan(query, text, &given.known_types());
            let plan = plan.map_err(SqlError::without_position)?;
            let (planning, start) = (milliseconds(start), std::time::Instant::now());
            let done = options.analyze.then(|| connection.run_counted(&plan, given.values)).transpose()?;
            Ok((plan, done, [planning, milliseconds(start)]))
        })?;
        self.show_plan(options, &plan, done, times, sink)
    }

    /// EXPLAIN EXECUTE.
    fn explain_executed(
        &mut self,
        options: ExplainOptions,
        (name, args): (&Name, &[Expr]),
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        let milliseconds = |start: std::time::Instant| start.elapsed().as_secs_f64() * 1_000.0;
        let (plan, done, times) = self.with_plan(&mut |connection, _| {
            let start = std::time::Instant::now();
            let (plan, values) = connection.executed(name, args)?.ok_or_else(not_explained)?;
            let (planning, start) = (milliseconds(start), std::time::Instant::now());
            let done = options.analyze.then(|| connection.run_counted(&plan, &values)).transpose()?;
            Ok((plan, done, [planning, milliseconds(start)]))
        })?;
        self.show_plan(options, &plan, done, times, sink)
    }

    /// Shows a plan, with what its execution has counted if it was executed, and how long planning and execution took.
    fn show_plan(
        &mut self,
        options: ExplainOptions,
        plan: &Plan,
        done: Option<(u64, Vec<NodeCounts>)>,
        [planning, executing]: [f64; 2],
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        let printing = self.environment.printing();
        let (costs, timing) = (options.costs, options.timing);
        let counts = done.as_ref().map(|(_, counts)| counts.as_slice());
        let explained =
            Explained::new(&plan.planned, Shown { costs, timing, counts, environment: &*printing });
        let ty = if options.json { Type::Json } else { Type::Text };
        sink.describe(&[Field::plain("QUERY PLAN", ty)])?;
        if options.json {
            let mut whole = serde_json::Map::new();
            whole.insert("Plan".to_string(), explained.json());
            if let Some((attempts, _)) = done {
                whole.insert("Planning Time".to_string(), planning.into());
                whole.insert("Triggers".to_string(), serde_json::json!([]));
                whole.insert("Attempts".to_string(), attempts.into());
                whole.insert("Execution Time".to_string(), executing.into());
            }
            let text = serde_json::to_string_pretty(&[whole])
                .map_err(|error| SqlError::internal(error.to_string()))?;
            sink.row(&[Value::Json(text.into())], &*printing)?;
        } else {
            let mut lines = explained.lines();
            if let Some((attempts, _)) = done {
                lines.push(format!("Attempts: {attempts}"));
                if timing {
                    lines.push(format!("Planning Time: {planning:.3} ms"));
                    lines.push(format!("Execution Time: {executing:.3} ms"));
                }
            }
            for line in &lines {
                sink.row(&[Value::text(line)], &*printing)?;
            }
        }
        sink.complete("EXPLAIN")
    }

    /// EXPLAIN FUNCTION: the keys that a routine's calls declare.
    pub(super) fn explain_routine(
        &mut self,
        kind: ObjectKind,
        name: &RoutineName,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        let routine = self.routine_named(kind, name)?;
        let environment = &mut self.environment;
        let role = environment.role_oid();
        if !environment.catalog.may(role, &routine.rights, RightsKind::Function, EXECUTE) {
            return Err(denied(routine.kind(), &routine.name));
        }
        let graph = flow_graph(environment, &routine)?;
        let catalog = &environment.catalog;
        let signature = routine.signature(|ty| catalog.type_display(ty));
        let lines = graph.explain(&routine, &signature, catalog.version);
        let printing = self.environment.printing();
        sink.describe(&[Field::plain("FLOW GRAPH", Type::Text)])?;
        for line in &lines {
            sink.row(&[Value::text(line)], &*printing)?;
        }
        sink.complete("EXPLAIN")
    }

    /// Runs a plan for its counts: the number of attempts, and the work of each node.
    fn run_counted(&mut self, plan: &Plan, parameters: &[Value]) -> Result<(u64, Vec<NodeCounts>)> {
        let mut attempts = 0;
        let environment = &mut self.environment;
        let body = |access: crate::run::Access<'_>| {
            attempts += 1;
            environment.check_definitions()?;
            let options = RunOptions { memory: environment.memory(), counts: true };
            execute_with(&plan.planned, access, parameters, &mut *environment, options, &mut |_| Ok(()))
        };
        let (_, counts) = if !self.transaction.is_idle() {
            access::run_in(&mut self.transaction.session, body)?
        } else if plan.planned.writes {
            access::run(&self.shared.database, body)?
        } else {
            access::read(&self.shared.database, body)?
        };
        Ok((attempts, counts))
    }
}
