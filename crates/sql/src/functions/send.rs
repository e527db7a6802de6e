//! The functions by which PostgreSQL sends values in their binary form.

use super::definition::{Definition, FunctionContext, scalar};
use crate::error::Result;
use crate::types::binary::to_binary;
use crate::types::{Type, Value};

/// The functions.
pub(super) const FUNCTIONS: &[Definition] = &[
    scalar("boolsend(bool) bytea", |context, v| send(context, Type::Bool, v)),
    scalar("byteasend(bytea) bytea", |context, v| send(context, Type::Bytea, v)),
    scalar("bpcharsend(bpchar) bytea", |context, v| send(context, Type::Bpchar, v)).stable(),
    scalar("cidr_send(cidr) bytea", |context, v| send(context, Type::Cidr, v)),
    scalar("date_send(date) bytea", |context, v| send(context, Type::Date, v)),
    scalar("float4send(float4) bytea", |context, v| send(context, Type::Float4, v)),
    scalar("float8send(float8) bytea", |context, v| send(context, Type::Float8, v)),
    scalar("inet_send(inet) bytea", |context, v| send(context, Type::Inet, v)),
    scalar("int2send(int2) bytea", |context, v| send(context, Type::Int2, v)),
    scalar("int4send(int4) bytea", |context, v| send(context, Type::Int4, v)),
    scalar("int8send(int8) bytea", |context, v| send(context, Type::Int8, v)),
    scalar("interval_send(interval) bytea", |context, v| send(context, Type::Interval, v)),
    scalar("json_send(json) bytea", |context, v| send(context, Type::Json, v)),
    scalar("jsonb_send(jsonb) bytea", |context, v| send(context, Type::Jsonb, v)),
    scalar("macaddr_send(macaddr) bytea", |context, v| send(context, Type::Macaddr, v)),
    scalar("namesend(name) bytea", |context, v| send(context, Type::Name, v)).stable(),
    scalar("numeric_send(numeric) bytea", |context, v| send(context, Type::Numeric, v)),
    scalar("oidsend(oid) bytea", |context, v| send(context, Type::Oid, v)),
    scalar("textsend(text) bytea", |context, v| send(context, Type::Text, v)).stable(),
    scalar("time_send(time) bytea", |context, v| send(context, Type::Time, v)),
    scalar("timestamp_send(timestamp) bytea", |context, v| send(context, Type::Timestamp, v)),
    scalar("timestamptz_send(timestamptz) bytea", |context, v| send(context, Type::Timestamptz, v)),
    scalar("timetz_send(timetz) bytea", |context, v| send(context, Type::Timetz, v)),
    scalar("uuid_send(uuid) bytea", |context, v| send(context, Type::Uuid, v)),
    scalar("varcharsend(varchar) bytea", |context, v| send(context, Type::Varchar, v)).stable(),
];

/// The binary form of a value of this type.
fn send(context: &mut FunctionContext<'_>, ty: Type, arguments: &[Value]) -> Result<Value> {
    let mut bytes = Vec::new();
    to_binary(&*context.environment, ty, &arguments[0], &mut bytes)?;
    Ok(Value::bytes(bytes))
}
