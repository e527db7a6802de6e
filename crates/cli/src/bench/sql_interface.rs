//! Makes a workload's calls as functions in SQL: each caller has a connection of its own and calls prepared statements.
//!
//! # Invariants
//! - One call is one statement, so one transaction of the engine: its own retries and its durability are the connection's.
//! - A function's own error (RAISE, a violated constraint) fails the call as the procedure's does; any other ends the run.

use std::sync::Arc;

use heddle_sql::error::SqlState;
use heddle_sql::types::array::ArrayValue;
use heddle_sql::types::datetime::UNIX_EPOCH_DAYS;
use heddle_sql::types::numeric::Numeric;
use heddle_sql::{ConnectOptions, PreparedStatement, Sql, SqlError, Type, Value};
use heddle_workloads::calls::Call;
use heddle_workloads::functions::{Argument, FunctionCall, integers};
use heddle_workloads::interface::{Connection, Interface as Connects};
use heddle_workloads::{Error, Result};
use heddledb::{Args, Database};

use super::options::Interface;
use super::workloads::Plan;
use crate::failure::Failure;

/// Microseconds from 1970, where the workloads' times begin, to 2000, where those of SQL do.
const UNIX_EPOCH: i64 = UNIX_EPOCH_DAYS as i64 * 86_400_000_000;

/// A workload's functions in a database.
pub struct SqlInterface {
    sql: Sql,
    calls: Arc<[FunctionCall]>,
}

impl SqlInterface {
    /// Refuses a workload without functions, and what SQL does not do.
    pub fn check(plan: &Plan) -> crate::failure::Result {
        if plan.options.interface == Interface::Rust {
            return Ok(());
        }
        let name = plan.workload.name();
        if plan.contender.is_some() || plan.workload.functions().is_none() {
            return Err(Failure::Usage(format!("{name} has no functions in SQL; leave out --interface sql")));
        }
        match plan.options.target_mean_ms {
            Some(_) => Err(Failure::Usage(
                "--target-mean-ms searches with procedures; leave it out, or --interface sql".to_owned(),
            )),
            None => Ok(()),
        }
    }

    /// Creates the functions, if the calls are to go through them.
    pub fn of(plan: &Plan, db: &Database) -> crate::failure::Result<Option<SqlInterface>> {
        if plan.options.interface != Interface::Sql {
            return Ok(None);
        }
        let Some(functions) = plan.workload.functions() else { return Ok(None) };
        let sql = Sql::new(db).map_err(unusable)?;
        connect(&sql)?.query(functions.script).map_err(unusable)?;
        Ok(Some(SqlInterface { sql, calls: functions.calls.into() }))
    }

    /// The interface through which the driver connects.
    pub fn as_interface(&self) -> &dyn Connects {
        self
    }
}

/// Opens a connection.
pub fn connect(sql: &Sql) -> Result<heddle_sql::Connection> {
    sql.connect(ConnectOptions::default()).map_err(unusable)
}

impl Connects for SqlInterface {
    fn connect(&self) -> Result<Box<dyn Connection>> {
        let mut connection = connect(&self.sql)?;
        let prepare = |call: &FunctionCall| connection.prepared(&call.statement()).map_err(unusable);
        let statements = self.calls.iter().map(prepare).collect::<Result<_>>()?;
        Ok(Box::new(Caller { connection, statements, calls: self.calls.clone(), parameters: Vec::new() }))
    }
}

/// Makes an error of the statement that ends the run.
fn unusable(error: SqlError) -> Error {
    Error::Unusable(match error.context() {
        Some(context) => format!("{}: {} ({context})", error.state().as_str(), error.message()),
        None => format!("{}: {}", error.state().as_str(), error.message()),
    })
}

/// One caller's connection.
struct Caller {
    connection: heddle_sql::Connection,
    /// The prepared calls, by the places of procedures.
    statements: Vec<PreparedStatement>,
    calls: Arc<[FunctionCall]>,
    /// Parameters of the last call, kept for their memory.
    parameters: Vec<Value>,
}

impl Connection for Caller {
    fn call(&mut self, call: Call<'_>) -> Result<heddledb::Result<()>> {
        self.parameters.clear();
        for argument in &self.calls[call.procedure].arguments {
            self.parameters.push(value_of(*argument, call.args)?);
        }
        let statement = &self.statements[call.procedure];
        match self.connection.run(statement, &self.parameters, &mut |_| Ok(())) {
            Ok(_) => Ok(Ok(())),
            Err(error) => own_error(error).map(Err),
        }
    }
}

/// An argument as a value of SQL.
fn value_of(argument: Argument, args: &Args) -> Result<Value> {
    Ok(match argument {
        Argument::Integer(place) => Value::Int8(args.int(place)?),
        Argument::Text(place, text) => Value::text(text(args.int(place)?)),
        Argument::Cents(place) => Value::Numeric(Numeric::from_small(args.int(place)?, 2).map_err(unusable)?),
        Argument::Time(place) => Value::Timestamptz(args.int(place)? - UNIX_EPOCH),
        Argument::Integers { first, step, count } => {
            let values = integers(args, first, step, count)?.into_iter().map(Value::Int8).collect();
            Value::array(ArrayValue::list(Type::Int8, values))
        }
        Argument::Null => Value::Null,
    })
}

/// The error of the call itself, such as a violated constraint.
///
/// # Errors
/// Every other one.
fn own_error(error: SqlError) -> Result<heddledb::Error> {
    match (error.state(), error.engine()) {
        (SqlState::CHECK_VIOLATION, Some(violation)) => Ok(violation.clone()),
        (SqlState::UNIQUE_VIOLATION, _) => Ok(heddledb::Error::DuplicateKey {
            table: error.table().unwrap_or_default().to_owned(),
            key: error.detail().unwrap_or_default().to_owned(),
        }),
        (SqlState::RAISE_EXCEPTION, _) => Ok(heddledb::fail(error.message())),
        _ => Err(unusable(error)),
    }
}
