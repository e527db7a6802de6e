//! Functions that belong to no other subject: types of values, identifiers, enums, and the standard's names for the
//! current time.
//!
//! Invariant: `current_timestamp` and the like are words of the grammar in PostgreSQL; here the binder calls them by these
//! names.

use std::hash::{Hash, Hasher};

use super::definition::{Definition, FunctionContext, scalar};
use crate::error::{Result, SqlError, SqlState};
use crate::types::array::ArrayValue;
use crate::types::cast::{Cast, CastContext, apply_modifier};
use crate::types::{Modifier, Type, Value};

/// The table.
pub(super) const FUNCTIONS: &[Definition] = &[
    scalar("pg_typeof(any) regtype", |c, _| Ok(Value::Oid(c.argument_type(0).oid()))).nullable().stable(),
    scalar("gen_random_uuid() uuid", random_uuid).volatile(),
    scalar("uuid_in(cstring) uuid", |c, v| {
        crate::types::text::from_text(c.environment, Type::Uuid, Modifier::NONE, v[0].str())
    }),
    scalar("uuid_generate_v4() uuid", random_uuid).volatile(),
    scalar("heddle_is_sampled(float4) bool", |c, v| {
        let share = sampled_share(&v[0])?;
        Ok(Value::Bool(fraction(c.environment.random_bits()) < share))
    })
    .nullable()
    .volatile(),
    scalar("heddle_is_sampled(float4, float8, record) bool", |_, v| sampled_by_row(v)).nullable(),
    scalar("heddle_depth_below(record) int8", |_, v| match v[0].as_record().values.first() {
        Some(Value::Int8(depth)) => Ok(Value::Int8(depth + 1)),
        _ => Err(SqlError::new(SqlState::DATATYPE_MISMATCH, "a row of a search begins with its depth")),
    }),
    // The binder always names the domain; a user's call may not.
    scalar("heddle_view_violation(text) boolean", |_, v| {
        let message = format!("new row violates check option for view \"{}\"", v[0].str());
        Err(SqlError::new(SqlState::WITH_CHECK_OPTION_VIOLATION, message))
    }),
    scalar("heddle_domain_violation(text, text, text) text", |_, v| match v[0].is_null() {
        true => Ok(Value::Null),
        false => Err(domain_violation(v[0].str(), (!v[1].is_null()).then(|| v[1].str()), v[2].str())),
    })
    .nullable()
    .stable(),
    scalar("enum_first(anyenum) anyenum", |c, _| labels(c).map(|it| Value::Enum(it[0]))).nullable().stable(),
    scalar("enum_last(anyenum) anyenum", |c, _| labels(c).map(|it| Value::Enum(it[it.len() - 1])))
        .nullable()
        .stable(),
    scalar("enum_range(anyenum) anyarray", |c, _| enum_range(c, &Value::Null, &Value::Null))
        .nullable()
        .stable(),
    scalar("enum_range(anyenum, anyenum) anyarray", |c, v| enum_range(c, &v[0], &v[1])).nullable().stable(),
];

/// The current time, by the standard's names.
pub(super) const CURRENT: &[Definition] = &[
    scalar("current_timestamp() timestamptz", |c, v| current(c, Type::Timestamptz, v)).stable(),
    scalar("current_timestamp(int4) timestamptz", |c, v| current(c, Type::Timestamptz, v)).stable(),
    scalar("current_date() date", |c, v| current(c, Type::Date, v)).stable(),
    scalar("current_time() timetz", |c, v| current(c, Type::Timetz, v)).stable(),
    scalar("current_time(int4) timetz", |c, v| current(c, Type::Timetz, v)).stable(),
    scalar("localtimestamp() timestamp", |c, v| current(c, Type::Timestamp, v)).stable(),
    scalar("localtimestamp(int4) timestamp", |c, v| current(c, Type::Timestamp, v)).stable(),
    scalar("localtime() time", |c, v| current(c, Type::Time, v)).stable(),
    scalar("localtime(int4) time", |c, v| current(c, Type::Time, v)).stable(),
];

/// The most digits of a second.
const PRECISION_MAX: i32 = 6;

/// The transaction's start as a value of a type; the argument is the number of digits of a second.
fn current(context: &mut FunctionContext<'_>, kind: Type, v: &[Value]) -> Result<Value> {
    let now = Value::Timestamptz(context.environment.transaction_start());
    let cast = Cast::find(Type::Timestamptz, kind, Modifier::NONE, CastContext::Explicit);
    let value = match cast {
        Some(cast) => cast.apply(context.environment, &now)?,
        None => now,
    };
    match v.first().map(Value::int4) {
        None => Ok(value),
        Some(digits) if digits < 0 => {
            let message = format!("{}({digits}) precision must not be negative", kind.display_name());
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
        Some(digits) => apply_modifier(kind, Modifier::precision(digits.min(PRECISION_MAX)), value, true),
    }
}

/// A random UUID of version 4.
fn random_uuid(context: &mut FunctionContext<'_>, _: &[Value]) -> Result<Value> {
    let high = context.environment.random_bits().to_be_bytes();
    let low = context.environment.random_bits().to_be_bytes();
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&high);
    bytes[8..].copy_from_slice(&low);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(Value::Uuid(bytes))
}

/// The numbers of the labels of the argument's enum, at least one.
fn labels(context: &FunctionContext<'_>) -> Result<Vec<i32>> {
    let Type::Enum(oid) = context.argument_type(0) else {
        return Err(SqlError::unsupported("could not determine actual enum type"));
    };
    let labels = context.environment.enum_labels(oid);
    let numbers: Vec<i32> = labels.iter().flat_map(|it| it.iter()).map(|(number, _)| *number).collect();
    if numbers.is_empty() {
        let name = context.environment.type_name(oid).unwrap_or_else(|| oid.to_string());
        let message = format!("enum {name} contains no values");
        return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
    }
    Ok(numbers)
}

fn enum_range(context: &mut FunctionContext<'_>, from: &Value, to: &Value) -> Result<Value> {
    let bound = |value: &Value, open: i32| if value.is_null() { open } else { value.enum_order() };
    let range = bound(from, i32::MIN)..=bound(to, i32::MAX);
    let values = labels(context)?.into_iter().filter(|it| range.contains(it)).map(Value::Enum).collect();
    Ok(Value::array(ArrayValue::list(context.argument_type(0), values)))
}

/// The error of a value that violates a domain: its check, or its NOT NULL.
fn domain_violation(domain: &str, check: Option<&str>, schema: &str) -> SqlError {
    let error = match check {
        None => SqlError::new(
            SqlState::NOT_NULL_VIOLATION,
            format!("domain {} does not allow null values", crate::parse::quote_identifier(domain)),
        ),
        Some(check) => SqlError::new(
            SqlState::CHECK_VIOLATION,
            format!(
                "value for domain {} violates check constraint \"{check}\"",
                crate::parse::quote_identifier(domain)
            ),
        )
        .with_constraint(check),
    };
    error.with_domain(schema, domain)
}

/// The share of rows that TABLESAMPLE takes.
fn sampled_share(percentage: &Value) -> Result<f64> {
    let invalid = |message: &str| Err(SqlError::new(SqlState::INVALID_TABLESAMPLE_ARGUMENT, message));
    match percentage {
        Value::Null => invalid("TABLESAMPLE parameter cannot be null"),
        given if (0.0..=100.0).contains(&given.float4()) => Ok(f64::from(given.float4()) / 100.0),
        _ => invalid("sample percentage must be between 0 and 100"),
    }
}

/// TABLESAMPLE … REPEATABLE: the row itself decides, so that a sample of the same rows is the same.
fn sampled_by_row(v: &[Value]) -> Result<Value> {
    let share = sampled_share(&v[0])?;
    if v[1].is_null() {
        let message = "TABLESAMPLE REPEATABLE parameter cannot be null";
        return Err(SqlError::new(SqlState::INVALID_TABLESAMPLE_REPEAT, message));
    }
    let mut hasher = SampleHasher(v[1].float8().to_bits() ^ 0xcbf2_9ce4_8422_2325);
    v[2].hash(&mut hasher);
    // The finalizer of splitmix64.
    let mut mixed = hasher.0;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    Ok(Value::Bool(fraction(mixed) < share))
}

/// The first 53 bits as a number from 0 to 1.
fn fraction(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// FNV-1a: the same hash in every process.
struct SampleHasher(u64);

impl Hasher for SampleHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::registry::functions_named;
    use crate::types::PlainEnvironment;
    use crate::types::text::to_text;

    fn call(name: &str, argument_types: &[Type], arguments: &[Value]) -> Result<String> {
        // 2024-02-29 12:34:56.789012 UTC
        let mut environment = PlainEnvironment::new(762_525_296_789_012);
        let function = functions_named(name).find(|it| it.arguments.len() == arguments.len()).unwrap();
        let run = function.scalar().unwrap();
        let mut context =
            FunctionContext { environment: &mut environment, argument_types, result_type: function.result };
        let value = run(&mut context, arguments)?;
        to_text(&environment, function.result, &value)
    }

    #[test]
    fn a_call_without_a_domain_violates_none() {
        let found = |arguments: &[Value]| call("heddle_domain_violation", &[Type::Text; 3], arguments);
        assert_eq!(
            found(&[Value::text("d"), Value::Null, Value::text("s")]).unwrap_err().state(),
            SqlState::NOT_NULL_VIOLATION
        );
        assert_eq!(
            found(&[Value::text("d"), Value::text("c"), Value::text("s")]).unwrap_err().state(),
            SqlState::CHECK_VIOLATION
        );
        for check in [Value::Null, Value::text("c")] {
            assert_eq!(found(&[Value::Null, check, Value::Null]).unwrap(), "");
        }
    }

    #[test]
    fn the_current_time_has_five_names() {
        assert_eq!(call("current_timestamp", &[], &[]).unwrap(), "2024-02-29 12:34:56.789012+00");
        assert_eq!(call("current_date", &[], &[]).unwrap(), "2024-02-29");
        assert_eq!(call("current_time", &[], &[]).unwrap(), "12:34:56.789012+00");
        assert_eq!(call("localtime", &[], &[]).unwrap(), "12:34:56.789012");
        assert_eq!(
            call("localtimestamp", &[Type::Int4], &[Value::Int4(2)]).unwrap(),
            "2024-02-29 12:34:56.79"
        );
        assert!(call("localtimestamp", &[Type::Int4], &[Value::Int4(-1)]).is_err());
    }

    #[test]
    fn random_identifiers_are_of_version_4_and_differ() {
        let mut environment = PlainEnvironment::new(0);
        let mut context =
            FunctionContext { environment: &mut environment, argument_types: &[], result_type: Type::Uuid };
        let (first, second) =
            (random_uuid(&mut context, &[]).unwrap(), random_uuid(&mut context, &[]).unwrap());
        assert_ne!(first, second);
        assert_eq!((first.uuid()[6] >> 4, first.uuid()[8] >> 6), (4, 2));
    }

    #[test]
    fn types_of_values_are_reported() {
        assert_eq!(call("pg_typeof", &[Type::array_of(Type::Int4)], &[Value::Null]).unwrap(), "integer[]");
    }
}
