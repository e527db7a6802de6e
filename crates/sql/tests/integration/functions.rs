//! Every entry of the function, operator and cast tables against PostgreSQL 15: results, types and SQLSTATEs over
//! generated arguments, and whether each entry exists there with the same result type, strictness and volatility.

mod entries;
mod overloads;

use crate::support::oracle::{Evaluated, Oracle, Session};
use crate::support::samples::{Random, literal, samples};
use heddle_sql::error::SqlError;
use heddle_sql::functions::resolve::{
    Called, Resolved, resolve_function, resolve_operator, resolve_prefix_operator,
};
use heddle_sql::functions::{Function, FunctionContext, FunctionKind, all_functions, all_operators};
use heddle_sql::types::cast::{Cast, CastContext};
use heddle_sql::types::text::{from_text, to_text};
use heddle_sql::types::{Modifier, PlainEnvironment, Type, Value};

/// Calls of each entry that are compared.
const CALLS_PER_ENTRY: usize = 60;
/// Most differences that are printed.
const PRINTED_MAX: usize = 60;

/// Functions whose results have no reason to be equal.
const UNCOMPARED: &[&str] = &[
    "current_timestamp",
    "current_date",
    "current_time",
    "localtime",
    "localtimestamp",
    // Encodings other than UTF-8 and Latin 1 are refused.
    "convert_from",
    "convert_to",
    "random",
    "setseed",
    "now",
    "transaction_timestamp",
    "statement_timestamp",
    "clock_timestamp",
    "timeofday",
    "gen_random_uuid",
    "uuid_generate_v4",
    "version",
    "current_schema",
    "current_schemas",
    "current_database",
    "current_user",
    "session_user",
    "pg_backend_pid",
    "current_setting",
    "set_config",
    "nextval",
    "currval",
    "lastval",
    "setval",
    "pg_sleep",
    "getdatabaseencoding",
    "pg_postmaster_start_time",
    "txid_current",
    "pg_get_userbyid",
    "inet_server_addr",
    "inet_client_addr",
    "inet_server_port",
    "inet_client_port",
    "pg_is_in_recovery",
    "pg_conf_load_time",
    "pg_current_xact_id",
];

/// Returns true if a function reads the catalog, which is empty here: those are compared by statements.
fn reads_catalog(name: &str) -> bool {
    let prefixes = [
        "pg_",
        "_pg_",
        "has_",
        "to_reg",
        "obj_",
        "col_",
        "shobj_",
        "inet_",
        "txid_",
        "format_type",
        "heddle_",
        // The binder gives them their columns.
        "json_to_record",
        "jsonb_to_record",
        "json_populate_",
        "jsonb_populate_",
        "current_",
        "session_",
        "acldefault",
    ];
    name != "pg_typeof" && prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// 2024-06-15 12:00:00 UTC.
const NOW: i64 = 771_768_000_000_000;

/// One comparison: how the statement says it, and what this crate answers.
struct Comparison {
    expression: String,
    ours: Evaluated,
}

fn error_of(error: &SqlError) -> Evaluated {
    Evaluated::Error(error.state().as_str().to_string())
}

/// Concrete types for declared ones.
fn concrete(declared: &[Type], element: Type) -> Vec<Type> {
    let decide = |kind: &Type| match kind {
        Type::AnyElement | Type::AnyNonArray | Type::AnyCompatible | Type::AnyCompatibleNonArray => element,
        Type::AnyArray | Type::AnyCompatibleArray => Type::array_of(element),
        Type::Any => element,
        other => *other,
    };
    declared.iter().map(decide).collect()
}

fn call(resolved: &Resolved, arguments: &[(Type, &str)]) -> Result<Option<String>, SqlError> {
    let mut environment = PlainEnvironment::new(NOW);
    let mut values = Vec::new();
    for ((kind, text), wanted) in arguments.iter().zip(&resolved.arguments) {
        let value = from_text(&environment, *kind, Modifier::NONE, text)?;
        let cast = Cast::find(*kind, *wanted, Modifier::NONE, CastContext::Implicit).expect("coercible");
        values.push(cast.apply(&mut environment, &value)?);
    }
    let mut types = resolved.arguments.clone();
    if let Some(from) = resolved.packs_from {
        let element = types[from];
        let rest = values.split_off(from);
        values.push(Value::array(heddle_sql::types::array::ArrayValue::list(element, rest)));
        types.truncate(from);
        types.push(Type::array_of(element));
    }
    let FunctionKind::Scalar(run) = resolved.function.kind else { panic!("not a scalar function") };
    let mut context = FunctionContext {
        environment: &mut environment,
        argument_types: &types,
        result_type: resolved.result,
    };
    let result = run(&mut context, &values)?;
    if result.is_null() {
        return Ok(None);
    }
    to_text(&environment, resolved.result, &result).map(Some)
}

fn evaluate(resolved: &Resolved, arguments: &[(Type, &str)]) -> Evaluated {
    match call(resolved, arguments) {
        Ok(text) => Evaluated::Value(resolved.result.display_name(), text),
        Err(error) => error_of(&error),
    }
}

/// Arguments that suit a function better than any text does.
fn pool(function: &str, at: usize, kind: Type) -> Vec<&'static str> {
    match (function, at, kind) {
        ("extract" | "date_part" | "date_trunc", 0, _) => vec![
            "year",
            "month",
            "day",
            "hour",
            "minute",
            "second",
            "milliseconds",
            "microseconds",
            "epoch",
            "julian",
            "week",
            "quarter",
            "decade",
            "century",
            "millennium",
            "isoyear",
            "isodow",
            "dow",
            "doy",
            "timezone",
            "timezone_hour",
            "nonsense",
            "DAYS",
        ],
        ("timezone", 0, Type::Text) | ("date_trunc", 2, _) | ("make_timestamptz", 6, _) => {
            vec!["Europe/Berlin", "UTC", "america/new_york", "EST", "+05:30", "Nowhere/Land"]
        }
        // PostgreSQL 15 overflows silently for bounds far apart.
        ("width_bucket", _, Type::Float8) => vec!["1.5", "0", "-2.25", "100", "10", "0.5", "NaN", "Infinity"],
        // PostgreSQL 15 wraps around where these are too large; here that is 22008.
        ("make_interval", _, Type::Int4) => vec!["0", "1", "-2", "12", "100"],
        ("make_interval", _, _) => vec!["0", "1.5", "-2.25", "100"],
        ("to_date" | "to_timestamp" | "to_number", _, Type::Text) => vec![],
        ("to_char", 0, Type::Float4 | Type::Float8) => {
            vec!["1.5", "0", "-2.25", "3e10", "100", "0.5", "-1", "12.345"]
        }
        // What the smallest number of characters drops has changed between minor releases of PostgreSQL 15.
        ("right", 1, _) => samples(kind).into_iter().filter(|it| *it != "-2147483648").collect(),
        _ => samples(kind),
    }
}

/// Templates for `to_char`, by what is formatted.
fn templates(function: &Function) -> Vec<&'static str> {
    let is_moment = matches!(function.arguments[0], Type::Timestamp | Type::Timestamptz | Type::Interval);
    if is_moment {
        return vec![
            "YYYY-MM-DD HH24:MI:SS",
            "FMMonth DDth, YYYY",
            "Day Dy D ID",
            "HH12:MI AM",
            "hh:mi p.m.",
            "MS US FF3",
            "Q WW IW W CC J",
            "Y,YYY YYY YY Y BC",
            "DDD IDDD IYYY",
            "RM rm FMRM",
            "SSSS",
            "MON Mon mon MONTH month",
            "\"quoted YYYY\" YYYY",
            "TZH:TZM OF",
            "FMDD FMMM FMHH24",
            "HH24:MI:SS.US",
            "DAY",
            "TZ tz",
        ];
    }
    vec![
        "999",
        "9999.99",
        "0000.00",
        "FM999.009",
        "S999",
        "999S",
        "MI999",
        "999MI",
        "999PR",
        "9,999,999",
        "FM9,999",
        "0.9",
        "9.9",
        "99V99",
        "999th",
        "RN",
        "FMrn",
        "SG99",
        "PL99",
        "9.99EEEE",
        "L999",
        "FM0999.90",
        "\"x\"99",
    ]
}

/// Calls of one entry over samples of its arguments.
fn comparisons(
    random: &mut Random,
    function: &'static Function,
    render: impl Fn(&[String]) -> String,
    resolve: impl Fn(&[Type]) -> Option<Resolved>,
) -> Vec<Comparison> {
    let is_polymorphic = function.arguments.iter().any(|it| it.is_polymorphic() || *it == Type::Any);
    let elements: &[Type] =
        if is_polymorphic { &[Type::Int4, Type::Text, Type::Numeric] } else { &[Type::Text] };
    let mut found = Vec::new();
    for &element in elements {
        let kinds = concrete(&function.arguments, element);
        let pools: Vec<Vec<&str>> = kinds
            .iter()
            .enumerate()
            .map(|(at, &kind)| {
                if function.name == "to_char" && at == 1 {
                    templates(function)
                } else {
                    pool(function.name, at, kind)
                }
            })
            .collect();
        if pools.iter().any(Vec::is_empty) {
            continue;
        }
        let Some(resolved) = resolve(&kinds) else {
            panic!("{} is not found by its own types", function.signature)
        };
        let all: usize = pools.iter().map(Vec::len).product();
        for at in 0..all.min(CALLS_PER_ENTRY) {
            let mut rest = at;
            let texts: Vec<&str> = pools
                .iter()
                .map(|pool| {
                    let index =
                        if all <= CALLS_PER_ENTRY { rest % pool.len() } else { random.below(pool.len()) };
                    rest /= pool.len();
                    pool[index]
                })
                .collect();
            let arguments: Vec<(Type, &str)> = kinds.iter().copied().zip(texts).collect();
            let written: Vec<String> = arguments
                .iter()
                .map(|(kind, text)| format!("{}::{}", literal(text), kind.sql_name().unwrap()))
                .map(|text| text.replace("::character", "::bpchar").replace("::bpchar varying", "::varchar"))
                .collect();
            found.push(Comparison { expression: render(&written), ours: evaluate(&resolved, &arguments) });
        }
    }
    found
}

/// Returns true if two answers agree; floats may differ in their last digits if a transcendental function
/// computed them.
fn agree(ours: &Evaluated, theirs: &Evaluated) -> bool {
    match (ours, theirs) {
        (Evaluated::Value(kind, Some(text)), Evaluated::Value(other_kind, Some(other)))
            if kind == other_kind && kind == "double precision" =>
        {
            match (text.parse::<f64>(), other.parse::<f64>()) {
                (Ok(left), Ok(right)) => text == other || (left - right).abs() <= left.abs() * 1e-14,
                _ => text == other,
            }
        }
        (ours, theirs) => ours == theirs,
    }
}

fn compare(session: &mut Session, comparisons: &[Comparison]) {
    let expressions: Vec<String> = comparisons.iter().map(|it| it.expression.clone()).collect();
    let answers = session.evaluate(&expressions);
    assert_eq!(answers.len(), comparisons.len());
    let differing: Vec<_> =
        comparisons.iter().zip(&answers).filter(|(it, theirs)| !agree(&it.ours, theirs)).collect();
    println!("{} of {} expressions differ", differing.len(), comparisons.len());
    let most: usize =
        std::env::var("HEDDLE_PRINTED").ok().and_then(|it| it.parse().ok()).unwrap_or(PRINTED_MAX);
    for (it, theirs) in differing.iter().take(most) {
        println!("{}\n    ours   {:?}\n    theirs {theirs:?}", it.expression, it.ours);
    }
    assert!(differing.is_empty(), "{} expressions differ from PostgreSQL", differing.len());
}

fn only(name: &str) -> bool {
    std::env::var("HEDDLE_ONLY").map_or(true, |wanted| wanted.split(',').any(|it| it == name))
}

#[test]
fn functions_agree_with_postgresql() {
    let Some(oracle) = Oracle::start() else { return };
    let mut session = oracle.connect();
    let mut random = Random(1);
    let mut all = Vec::new();
    for function in all_functions() {
        let is_encoded = function.name == "length" && function.arguments.len() == 2;
        let is_compared = !is_encoded
            && matches!(function.kind, FunctionKind::Scalar(_))
            && !UNCOMPARED.contains(&function.name);
        if reads_catalog(function.name) {
            continue;
        }
        let depends_on_now = function.name == "age" && function.arguments.len() == 1
            || function.signature == "timezone(text, timetz) timetz";
        if !is_compared || depends_on_now || !only(function.name) {
            continue;
        }
        let render = |arguments: &[String]| format!("\"{}\"({})", function.name, arguments.join(", "));
        let resolve = |kinds: &[Type]| match resolve_function(function.name, kinds, function.is_variadic) {
            Ok(Called::Function(resolved)) => Some(resolved),
            _ => None,
        };
        if function.is_variadic {
            let render = |arguments: &[String]| {
                let (last, first) = arguments.split_last().unwrap();
                let first: String = first.iter().map(|it| format!("{it}, ")).collect();
                format!("\"{}\"({first}VARIADIC {last})", function.name)
            };
            if function.arguments.last() != Some(&Type::Any) {
                all.extend(comparisons(&mut random, function, render, resolve));
                continue;
            }
            let resolve = |kinds: &[Type]| match resolve_function(function.name, kinds, false) {
                Ok(Called::Function(resolved)) => Some(resolved),
                _ => None,
            };
            let render = |arguments: &[String]| format!("\"{}\"({})", function.name, arguments.join(", "));
            all.extend(comparisons(&mut random, function, render, resolve));
            continue;
        }
        all.extend(comparisons(&mut random, function, render, resolve));
    }
    compare(&mut session, &all);
}

#[test]
fn operators_agree_with_postgresql() {
    let Some(oracle) = Oracle::start() else { return };
    let mut session = oracle.connect();
    let mut random = Random(2);
    let mut all = Vec::new();
    for operator in all_operators() {
        if !only(operator.name) {
            continue;
        }
        let render = |arguments: &[String]| match arguments {
            [operand] => format!("({} {operand})", operator.name),
            operands => format!("({})", operands.join(&format!(" {} ", operator.name))),
        };
        let resolve = |kinds: &[Type]| match kinds {
            [operand] => resolve_prefix_operator(operator.name, *operand).ok(),
            [left, right] => resolve_operator(operator.name, *left, *right).ok(),
            _ => None,
        };
        all.extend(comparisons(&mut random, operator, render, resolve));
    }
    compare(&mut session, &all);
}

#[test]
fn casts_agree_with_postgresql() {
    let Some(oracle) = Oracle::start() else { return };
    let mut session = oracle.connect();
    let kinds: Vec<Type> = Type::BUILT_IN.iter().copied().filter(|&kind| !samples(kind).is_empty()).collect();
    let arrays = [Type::Int4, Type::Text, Type::Float8, Type::Numeric].map(Type::array_of);
    let kinds: Vec<Type> = kinds.into_iter().filter(|&it| it != Type::Unknown).chain(arrays).collect();
    let mut all = Vec::new();
    for &from in &kinds {
        for &to in &kinds {
            for text in samples(from) {
                let (from_name, to_name) = (name_in_cast(from), name_in_cast(to));
                let expression = format!("CAST({}::{from_name} AS {to_name})", literal(text));
                all.push(Comparison { expression, ours: cast(from, to, text) });
            }
        }
    }
    compare(&mut session, &all);
}

fn name_in_cast(kind: Type) -> String {
    if kind == Type::Bpchar { "bpchar".to_string() } else { kind.sql_name().unwrap() }
}

fn cast(from: Type, to: Type, text: &str) -> Evaluated {
    let mut environment = PlainEnvironment::new(NOW);
    let Some(cast) = Cast::find(from, to, Modifier::NONE, CastContext::Explicit) else {
        return Evaluated::Error("42846".to_string());
    };
    let result = from_text(&environment, from, Modifier::NONE, text)
        .and_then(|value| cast.apply(&mut environment, &value))
        .and_then(
            |value| if value.is_null() { Ok(None) } else { to_text(&environment, to, &value).map(Some) },
        );
    match result {
        Ok(text) => Evaluated::Value(to.display_name(), text),
        Err(error) => error_of(&error),
    }
}
