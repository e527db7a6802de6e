//! Functions of advisory locks.

use super::definition::{Definition, FunctionContext, scalar};
use crate::error::Result;
use crate::types::Value;
use crate::types::environment::AdvisoryLock;

/// The functions.
pub(super) const FUNCTIONS: &[Definition] = &[
    scalar("pg_advisory_lock(int8) void", |context, args| lock(context, args, true, false, true)).volatile(),
    scalar("pg_advisory_lock(int4, int4) void", |context, args| lock(context, args, true, false, true))
        .volatile(),
    scalar("pg_advisory_lock_shared(int8) void", |context, args| lock(context, args, false, false, true))
        .volatile(),
    scalar("pg_advisory_xact_lock(int8) void", |context, args| lock(context, args, true, true, true))
        .volatile(),
    scalar("pg_advisory_xact_lock(int4, int4) void", |context, args| lock(context, args, true, true, true))
        .volatile(),
    scalar("pg_advisory_xact_lock_shared(int8) void", |context, args| lock(context, args, false, true, true))
        .volatile(),
    scalar("pg_try_advisory_lock(int8) bool", |context, args| lock(context, args, true, false, false))
        .volatile(),
    scalar("pg_try_advisory_lock(int4, int4) bool", |context, args| lock(context, args, true, false, false))
        .volatile(),
    scalar("pg_try_advisory_lock_shared(int8) bool", |context, args| {
        lock(context, args, false, false, false)
    })
    .volatile(),
    scalar("pg_try_advisory_xact_lock(int8) bool", |context, args| lock(context, args, true, true, false))
        .volatile(),
    scalar("pg_try_advisory_xact_lock(int4, int4) bool", |context, args| {
        lock(context, args, true, true, false)
    })
    .volatile(),
    scalar("pg_advisory_unlock(int8) bool", |context, args| unlock(context, args, true)).volatile(),
    scalar("pg_advisory_unlock(int4, int4) bool", |context, args| unlock(context, args, true)).volatile(),
    scalar("pg_advisory_unlock_shared(int8) bool", |context, args| unlock(context, args, false)).volatile(),
    scalar("pg_advisory_unlock_all() void", unlock_all).volatile(),
];

/// The key: one number, or two halves, which never equal one number.
fn key(arguments: &[Value]) -> (bool, i64) {
    match arguments {
        [high, low] => (true, (high.any_int() << 32) | (low.any_int() & 0xffff_ffff)),
        [key, ..] => (false, key.any_int()),
        [] => (false, 0),
    }
}

fn lock(
    context: &mut FunctionContext<'_>,
    arguments: &[Value],
    exclusive: bool,
    of_transaction: bool,
    wait: bool,
) -> Result<Value> {
    let lock = AdvisoryLock { key: key(arguments), exclusive, of_transaction };
    let locked = context.environment.advisory_lock(lock, wait)?;
    Ok(if wait { Value::Void } else { Value::Bool(locked) })
}

fn unlock(context: &mut FunctionContext<'_>, arguments: &[Value], exclusive: bool) -> Result<Value> {
    let lock = AdvisoryLock { key: key(arguments), exclusive, of_transaction: false };
    context.environment.advisory_unlock(lock).map(Value::Bool)
}

fn unlock_all(context: &mut FunctionContext<'_>, _arguments: &[Value]) -> Result<Value> {
    context.environment.advisory_unlock_all()?;
    Ok(Value::Void)
}
