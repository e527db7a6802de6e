//! The statements PREPARE, EXECUTE and DEALLOCATE.

use std::sync::Arc;

use super::{Prepared, no_statement};
use crate::bind::{BindContext, Binder};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::parse;
use crate::parse::syntax::{Expr, Name, Statement, TypeName};
use crate::session::connection::Connection;
use crate::session::plan_choice::PlanChoice;
use crate::session::result::ResultSink;
use crate::session::run::Plan;
use crate::session::statements::PreparedCounters;
use crate::types::cast::CastContext;
use crate::types::{Modifier, Type, Value};

impl Connection {
    /// PREPARE, whose own text is `declared_by`.
    pub(in crate::session) fn prepare_statement(
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
        let (mut declared, mut domains) = (Vec::with_capacity(types.len()), Vec::new());
        for ty in types {
            let named = binder.named_type(ty)?;
            declared.push(Some(named.ty));
            domains.push(named.domain.map(|domain| domain.oid));
        }
        // Positions in the statement are those of the whole text.
        let alone = parse(text)?.pop().map(|parsed| parsed.statement);
        let settled = alone.and_then(|alone| self.settled_literals(&alone, text, &declared));
        let (statement, text) = settled.unwrap_or_else(|| (statement.clone(), text.to_string()));
        let plan = parking_lot::Mutex::new(None);
        let statement = Some(statement);
        let counters = PreparedCounters::new();
        let prepared = Prepared {
            statement,
            text,
            prepared_at: self.environment.statement_start,
            declared_by: Some(self.source.as_deref().unwrap_or(declared_by).to_string()),
            types: declared,
            domains,
            inner_types: Arc::default(),
            plan,
            choice: PlanChoice::default(),
            counters,
        };
        self.described_plan(&prepared)?;
        self.keep_prepared(&name.text, Arc::new(prepared))
    }

    /// EXECUTE.
    pub(in crate::session) fn execute_prepared(
        &mut self,
        name: &Name,
        args: &[Expr],
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        let prepared = self.find_prepared(&name.text)?;
        match &prepared.statement {
            None => return sink.complete("EXECUTE"),
            Some(statement) if !statement.is_planned() => {
                return self.statement(statement, &prepared.text, sink);
            }
            Some(_) => {}
        }
        self.with_plan(&mut |connection, is_empty| {
            let Some(plan) = connection.current_plan(&prepared)? else { return Ok(()) };
            let values = connection.execute_values(name, args, (&prepared, &plan))?;
            let plan = connection.plan_for_values(&prepared, plan, &values)?;
            connection.run_to_sink(&plan, &values, is_empty, sink)
        })
    }

    /// The plan of a statement that was prepared, and the parameters that an EXECUTE gives, for EXPLAIN.
    pub(in crate::session) fn executed(
        &mut self,
        name: &Name,
        args: &[Expr],
    ) -> Result<Option<(Arc<Plan>, Vec<Value>)>> {
        let prepared = self.find_prepared(&name.text)?;
        let Some(plan) = self.current_plan(&prepared)? else { return Ok(None) };
        let values = self.execute_values(name, args, (&prepared, &plan))?;
        let plan = self.plan_for_values(&prepared, plan, &values)?;
        Ok(Some((plan, values)))
    }

    /// The parameters that an EXECUTE gives.
    fn execute_values(
        &mut self,
        name: &Name,
        args: &[Expr],
        (prepared, plan): (&Prepared, &Plan),
    ) -> Result<Vec<Value>> {
        if args.len() != plan.parameters.len() {
            let message = format!("wrong number of parameters for prepared statement \"{}\"", name.text);
            let detail = format!("Expected {} parameters but got {}.", plan.parameters.len(), args.len());
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).with_detail(detail));
        }
        let mut values = Vec::with_capacity(args.len());
        for (number, (arg, &ty)) in args.iter().zip(plan.parameters.iter()).enumerate() {
            let domain = prepared.domains.get(number).copied().flatten();
            let value = self.constant(arg, ty, domain).map_err(|error| match error.state() {
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
        Ok(values)
    }

    /// The value of an expression without columns, as a value of a type, or of a domain over it.
    fn constant(&mut self, expr: &Expr, ty: Type, domain: Option<u32>) -> Result<Value> {
        let catalog = self.environment.catalog.clone();
        let path = self.environment.path();
        let context = BindContext { catalog: &catalog, path: &path, text: "" };
        let mut binder = Binder::new(context, &mut self.environment, &[]);
        binder.new_parameters = false;
        binder.foreign_text = true;
        binder.enter();
        let bound = binder.expr(expr)?;
        let mut bound = binder.coerce(bound, ty, Modifier::NONE, CastContext::Assignment, expr.at)?;
        if let Some(domain) = domain.and_then(|oid| catalog.domain_by_oid(oid)) {
            bound = binder.checked(bound, domain, expr.at)?;
        }
        binder.check_expressions()?;
        self.evaluate(bound)
    }

    /// DEALLOCATE.
    pub(in crate::session) fn deallocate(&mut self, name: Option<&Name>) -> Result<&'static str> {
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
