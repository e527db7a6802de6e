//! Functions that ask or change the session: sequences, settings, notifications; and those that reach other sessions.
//!
//! Invariants: they are volatile, because each call counts: a plan never holds their results.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::definition::{Definition, FunctionContext, Rows, RowsOf, scalar, set};
use crate::error::{Result, SqlError, SqlState};
use crate::types::record::RecordValue;
use crate::types::{Type, Value};

/// The functions.
pub(super) const FUNCTIONS: &[Definition] = &[
    scalar("nextval(regclass) int8", next_value).volatile(),
    set(
        "heddle_sequence_state(oid) setof record last_value int8; log_cnt int8; is_called bool",
        sequence_state,
    )
    .volatile(),
    // Calls of routines: their statements name these entries, and the executor calls the routine.
    scalar("heddle_call_stable(oid) record", routine).nullable().stable(),
    scalar("heddle_call_volatile(oid) record", routine).nullable().volatile(),
    set("heddle_call_rows(oid) setof record", |_, _| Err(no_direct_call())).nullable().volatile(),
    // The rows of a transition table: the binder names this entry.
    set("heddle_transition_rows(text) setof record", transition_rows).volatile(),
    scalar("txid_current() int8", |c, _| c.environment.transaction_number().map(Value::Int8)).stable(),
    scalar("txid_current_if_assigned() int8", |c, _| {
        Ok(c.environment.known_transaction_number().map_or(Value::Null, Value::Int8))
    })
    .stable(),
    scalar("pg_trigger_depth() int4", |c, _| Ok(Value::Int4(c.environment.trigger_depth()))).stable(),
    scalar("currval(regclass) int8", current_value).volatile(),
    scalar("lastval() int8", last_value).volatile(),
    scalar("setval(regclass, int8) int8", set_value).volatile(),
    scalar("setval(regclass, int8, bool) int8", set_value).volatile(),
    scalar("current_setting(text) text", current_setting).stable(),
    scalar("current_setting(text, bool) text", current_setting).stable(),
    scalar("set_config(text, text, bool) text", set_config).volatile().nullable(),
    scalar("pg_sleep(float8) void", sleep).volatile(),
    scalar("heddle_position() text", |context, _| Ok(Value::text(context.environment.log_position()?)))
        .volatile(),
    scalar("heddle_wait_for(text, interval) void", wait_for_position).volatile(),
    scalar("pg_export_snapshot() text", |context, _| Ok(Value::text(context.environment.export_snapshot()?)))
        .volatile(),
    scalar("pg_notify(text, text) void", notify).volatile().nullable(),
    set("pg_listening_channels() text", listening_channels).volatile(),
    scalar("pg_cancel_backend(int4) bool", |context, arguments| signal(context, arguments, false)).volatile(),
    scalar("pg_terminate_backend(int4) bool", |context, arguments| signal(context, arguments, true))
        .volatile(),
    scalar("pg_terminate_backend(int4, int8) bool", |context, arguments| signal(context, arguments, true))
        .volatile(),
];

fn routine(_: &mut FunctionContext<'_>, _: &[Value]) -> Result<Value> {
    Err(no_direct_call())
}

fn transition_rows(context: &mut FunctionContext<'_>, arguments: &[Value]) -> Result<Box<dyn Rows>> {
    let name = arguments[0].str();
    let rows = context.environment.transition_rows(name).ok_or_else(|| crate::catalog::no_relation(name))?;
    let count = rows.len();
    Ok(Box::new(RowsOf((0..count).map(move |at| Ok(rows[at].clone())))))
}

fn no_direct_call() -> SqlError {
    let message = "functions of users cannot be called by their oids";
    SqlError::unsupported(message).with_hint("Call the function by its name.")
}

/// Interval at which `pg_sleep` checks if its statement was canceled.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

fn sleep(context: &mut FunctionContext<'_>, arguments: &[Value]) -> Result<Value> {
    // Values that are no duration: negative ones and NaN do not sleep, infinity sleeps as long as the statement may
    // run.
    let seconds = arguments[0].float8();
    let duration =
        if seconds > 0.0 { Duration::try_from_secs_f64(seconds).ok() } else { Some(Duration::ZERO) };
    let start = Instant::now();
    loop {
        let left = duration.map_or(LOOK_AGAIN, |duration| duration.saturating_sub(start.elapsed()));
        if left.is_zero() {
            return Ok(Value::Void);
        }
        std::thread::sleep(left.min(LOOK_AGAIN));
        context.environment.check_interrupt()?;
    }
}

/// Interval at which `heddle_wait_for` looks.
const LOOK_FOR_POSITION: Duration = Duration::from_millis(1);

fn wait_for_position(context: &mut FunctionContext<'_>, arguments: &[Value]) -> Result<Value> {
    let position = arguments[0].str();
    let timeout = arguments[1].interval().total_micros().clamp(0, i128::from(u64::MAX)) as u64;
    let start = Instant::now();
    while !context.environment.has_log_position(position)? {
        if start.elapsed() >= Duration::from_micros(timeout) {
            let reached = context.environment.log_position()?;
            let message = format!(
                "position {position} was not reached in time; the last one that is there is {reached}"
            );
            return Err(SqlError::new(SqlState::QUERY_CANCELED, message));
        }
        std::thread::sleep(LOOK_FOR_POSITION);
        context.environment.check_interrupt()?;
    }
    Ok(Value::Void)
}

fn notify(context: &mut FunctionContext<'_>, arguments: &[Value]) -> Result<Value> {
    let text = |at: usize| if arguments[at].is_null() { "" } else { arguments[at].str() };
    context.environment.notify(text(0), text(1))?;
    Ok(Value::Void)
}

fn listening_channels(context: &mut FunctionContext<'_>, _arguments: &[Value]) -> Result<Box<dyn Rows>> {
    let channels = context.environment.listening_channels();
    Ok(Box::new(RowsOf(channels.into_iter().map(|channel| Ok(Value::text(&*channel))))))
}

fn signal(context: &mut FunctionContext<'_>, arguments: &[Value], terminate: bool) -> Result<Value> {
    context.environment.signal_backend(arguments[0].any_int() as i32, terminate).map(Value::Bool)
}

fn next_value(context: &mut FunctionContext<'_>, arguments: &[Value]) -> Result<Value> {
    context.environment.next_value(arguments[0].oid()).map(Value::Int8)
}

fn sequence_state(context: &mut FunctionContext<'_>, arguments: &[Value]) -> Result<Box<dyn Rows>> {
    let (last, is_called) = context.environment.sequence_state(arguments[0].oid())?;
    let kinds = [Type::Int8, Type::Int8, Type::Bool];
    let values = vec![Value::Int8(last), Value::Int8(0), Value::Bool(is_called)];
    let row = Value::Record(Arc::new(RecordValue::anonymous(&kinds, values)));
    Ok(Box::new(RowsOf(std::iter::once(Ok(row)))))
}

fn current_value(context: &mut FunctionContext<'_>, arguments: &[Value]) -> Result<Value> {
    context.environment.current_value(arguments[0].oid()).map(Value::Int8)
}

fn last_value(context: &mut FunctionContext<'_>, _arguments: &[Value]) -> Result<Value> {
    context.environment.last_value().map(Value::Int8)
}

fn set_value(context: &mut FunctionContext<'_>, arguments: &[Value]) -> Result<Value> {
    let is_called = arguments.get(2).is_none_or(Value::bool);
    context.environment.set_value(arguments[0].oid(), arguments[1].int8(), is_called).map(Value::Int8)
}

fn current_setting(context: &mut FunctionContext<'_>, arguments: &[Value]) -> Result<Value> {
    let name = arguments[0].str();
    match context.environment.setting(name) {
        Some(value) => Ok(Value::text(value)),
        None if arguments.get(1).is_some_and(Value::bool) => Ok(Value::Null),
        None => {
            let message = format!("unrecognized configuration parameter \"{name}\"");
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
        }
    }
}

fn set_config(context: &mut FunctionContext<'_>, arguments: &[Value]) -> Result<Value> {
    if arguments[0].is_null() {
        return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "SET requires parameter name"));
    }
    let value = if arguments[1].is_null() { "" } else { arguments[1].str() };
    let is_local = !arguments[2].is_null() && arguments[2].bool();
    context.environment.change_setting(arguments[0].str(), value, is_local).map(Value::text)
}
