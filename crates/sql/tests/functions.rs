//! Every entry of the function, operator and cast tables against PostgreSQL 15: results, types and SQLSTATEs over
//! generated arguments, and whether each entry exists there with the same result type, strictness and volatility.

mod support;

use heddle_sql::error::SqlError;
use heddle_sql::functions::resolve::{
    Called, Resolved, resolve_function, resolve_operator, resolve_prefix_operator,
};
use heddle_sql::functions::{
    Function, FunctionContext, FunctionKind, Volatility, all_functions, all_operators,
};
use heddle_sql::types::cast::{Cast, CastContext, all_casts};
use heddle_sql::types::text::{from_text, to_text};
use heddle_sql::types::{Modifier, PlainEnvironment, Type, Value};
use support::oracle::{Evaluated, Oracle, Session};
use support::samples::{Random, literal, samples};

/// How many calls of each entry are compared.
const CALLS_PER_ENTRY: usize = 60;
/// How many differences are printed.
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

/// Whether a function reads the catalog, which is empty here: those are compared by statements.
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

/// Whether two answers agree; floats may differ in their last digits where a transcendental function made them.
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

fn type_oids(kinds: &[Type]) -> String {
    kinds.iter().map(|kind| kind.oid().to_string()).collect::<Vec<_>>().join(" ")
}

#[test]
fn entries_are_those_of_pg_proc_and_pg_operator() {
    let Some(oracle) = Oracle::start() else { return };
    let mut session = oracle.connect();
    let answer = session.run(
        "SELECT proname, proargtypes::text, prorettype::text, proisstrict::text, provolatile::text, prokind::text, proretset::text
         FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace
         UNION ALL SELECT oprname, trim(CASE WHEN oprleft = 0 THEN '' ELSE oprleft::text || ' ' END || oprright::text),
                oprresult::text, proisstrict::text, provolatile::text, 'o', 'false'
         FROM pg_operator JOIN pg_proc ON pg_proc.oid = oprcode",
    );
    let mut wrong = Vec::new();
    let entries =
        all_functions().iter().map(|it| (it, false)).chain(all_operators().iter().map(|it| (it, true)));
    for (function, is_operator) in entries {
        let arguments = type_oids(&function.arguments);
        let found = answer.rows.iter().find(|row| {
            let is_same_kind = (row[5].as_deref() == Some("o")) == is_operator;
            is_same_kind
                && row[0].as_deref() == Some(function.name)
                && row[1].as_deref() == Some(arguments.as_str())
        });
        let is_word = ["current_timestamp", "current_date", "current_time", "localtime", "localtimestamp"];
        if is_word.contains(&function.name) {
            continue;
        }
        // uuid_generate_v4 is of PostgreSQL's extension uuid-ossp.
        if reads_catalog(function.name) || function.name == "uuid_generate_v4" {
            continue;
        }
        let Some(row) = found else {
            wrong.push(format!("{}: not in PostgreSQL", function.signature));
            continue;
        };
        let volatility = match function.volatility {
            Volatility::Immutable => "i",
            Volatility::Stable => "s",
            Volatility::Volatile => "v",
        };
        let facts = [&row[2], &row[3], &row[4], &row[5]].map(|it| it.as_deref().unwrap_or_default());
        let kind = match function.kind {
            FunctionKind::Aggregate { .. } => "a",
            FunctionKind::Window(_) => "w",
            _ => "f",
        };
        let kind = if is_operator { "o" } else { kind };
        let result = function.result.oid().to_string();
        let strict = if kind == "a" || kind == "w" {
            facts[1]
        } else if function.is_strict {
            "true"
        } else {
            "false"
        };
        if facts != [result.as_str(), strict, volatility, kind] {
            wrong.push(format!("{}: {facts:?} in PostgreSQL", function.signature));
        }
    }
    for line in &wrong {
        println!("{line}");
    }
    assert!(wrong.is_empty(), "{} entries differ from pg_proc or pg_operator", wrong.len());
}

#[test]
fn casts_are_those_of_pg_cast() {
    let Some(oracle) = Oracle::start() else { return };
    let mut session = oracle.connect();
    let answer = session.run("SELECT castsource::int, casttarget::int, castcontext::text FROM pg_cast");
    let number = |text: &Option<String>| text.as_deref().and_then(|it| it.parse::<u32>().ok()).unwrap_or(0);
    let mut theirs = Vec::new();
    for row in &answer.rows {
        let (from, to) = (Type::from_oid(number(&row[0])), Type::from_oid(number(&row[1])));
        let (Some(from), Some(to)) = (from, to) else { continue };
        if from != to {
            theirs.push((from, to, row[2].clone().unwrap_or_default()));
        }
    }
    let ours = all_casts().map(|it| {
        let context = match it.context {
            CastContext::Implicit => "i",
            CastContext::Assignment => "a",
            CastContext::Explicit => "e",
        };
        (it.from, it.to, context.to_string())
    });
    let ours: Vec<_> = ours.collect();
    let missing: Vec<_> = theirs.iter().filter(|it| !ours.contains(it)).collect();
    let invented: Vec<_> = ours.iter().filter(|it| !theirs.contains(it)).collect();
    assert!(missing.is_empty() && invented.is_empty(), "missing {missing:?}\ninvented {invented:?}");
}

/// Calls whose arguments belong together: functions of texts only.
const CALLS: &[(&str, &[&str])] = &[
    ("to_date", &["2024-02-29", "YYYY-MM-DD"]),
    ("to_date", &["29 Feb 2024", "DD Mon YYYY"]),
    ("to_date", &["20240229", "YYYYMMDD"]),
    ("to_date", &["2024 060", "YYYY DDD"]),
    ("to_date", &["2024-W09-4", "IYYY-\"W\"IW-ID"]),
    ("to_date", &["24-02-29", "YY-MM-DD"]),
    ("to_date", &["99-12-31", "YY-MM-DD"]),
    ("to_date", &["2023-02-29", "YYYY-MM-DD"]),
    ("to_date", &["2024-13-01", "YYYY-MM-DD"]),
    ("to_date", &["February 3, 2024", "FMMonth DD, YYYY"]),
    ("to_date", &["2460370", "J"]),
    ("to_date", &["44-03-15 BC", "YYYY-MM-DD BC"]),
    ("to_date", &["abc", "YYYY"]),
    ("to_date", &["IV 2024", "RM YYYY"]),
    ("to_timestamp", &["2024-02-29 13:14:15", "YYYY-MM-DD HH24:MI:SS"]),
    ("to_timestamp", &["2024-02-29 01:14:15 PM", "YYYY-MM-DD HH12:MI:SS AM"]),
    ("to_timestamp", &["2024-02-29 13:14:15.678", "YYYY-MM-DD HH24:MI:SS.MS"]),
    ("to_timestamp", &["2024-02-29 13:14:15.678901", "YYYY-MM-DD HH24:MI:SS.US"]),
    ("to_timestamp", &["2024-02-29 25:00", "YYYY-MM-DD HH24:MI"]),
    ("to_timestamp", &["2024-02-29 13:00", "YYYY-MM-DD HH12:MI"]),
    ("to_timestamp", &["2024-02-29 13:14 +02", "YYYY-MM-DD HH24:MI TZH"]),
    ("to_timestamp", &["05 Dec 2000", "DD Mon YYYY"]),
    ("to_number", &["12,454.8-", "99G999D9S"]),
    ("to_number", &["-34,338,492.654,878", "99G999G999D999G999"]),
    ("to_number", &["1234", "9999"]),
    ("to_number", &["12.5", "99.9"]),
    ("to_number", &["<123>", "999PR"]),
    ("regexp_replace", &["foobarbaz", "b..", "X"]),
    ("regexp_replace", &["foobarbaz", "b(..)", "[\\1]", "g"]),
    ("regexp_replace", &["Hello", "l", "L", "gi"]),
    ("regexp_replace", &["abc", "", "-", "g"]),
    ("regexp_replace", &["abc", "x*", "-", "g"]),
    ("regexp_match", &["foobarbequebaz", "(bar)(beque)"]),
    ("regexp_match", &["foobarbequebaz", "barbeque"]),
    ("regexp_match", &["abc", "(a)(x)?"]),
    ("regexp_match", &["abc", "("]),
    ("regexp_match", &["abc", "b", "g"]),
    ("regexp_split_to_array", &["the quick  brown", "\\s+"]),
    ("regexp_split_to_array", &["hello", "\\s*"]),
    ("regexp_split_to_array", &["hello", ""]),
    ("regexp_split_to_array", &[",a,,b,", ","]),
    ("regexp_count", &["abcabc", "b."]),
    ("regexp_count", &["aaa", "a*"]),
    ("regexp_like", &["Hello", "^h", "i"]),
    ("regexp_instr", &["abcabc", "ca"]),
    ("regexp_substr", &["abc123def", "[0-9]+"]),
    ("substring", &["foobar", "o(.)b"]),
    ("substring", &["foobar", "o.b"]),
    ("substring", &["abcdefg", "a#\"(b_d)#\"%", "#"]),
    ("similar_to_escape", &["(b|c)%", "\\"]),
    ("format", &["%s and %I and %L", "a", "b c", "d'e"]),
    ("format", &["%2$s %1$-5s|", "x", "y"]),
    ("format", &["%", "x"]),
    ("encode", &["abc", "base64"]),
    ("decode", &["YWJj", "base64"]),
    ("decode", &["zz", "hex"]),
    ("translate", &["12345", "143", "ax"]),
    ("split_part", &["a,b,c", ",", "2"]),
    ("unistr", &["d\\0061t\\+000061"]),
    ("quote_literal", &["O'Reilly\\x"]),
    ("quote_ident", &["select"]),
    ("string_to_array", &["xx~~yy~~zz", "~~", "yy"]),
    ("jsonb_set", &["{\"a\": {\"b\": 1}}", "{a,b}", "2", "true"]),
    ("jsonb_set", &["[0,1]", "{-1}", "9", "true"]),
    ("jsonb_insert", &["{\"a\": [0,1]}", "{a,1}", "\"x\"", "false"]),
];

#[test]
fn calls_with_fitting_arguments_agree_with_postgresql() {
    let Some(oracle) = Oracle::start() else { return };
    let mut session = oracle.connect();
    let mut all = Vec::new();
    for (name, texts) in CALLS {
        // Only unknown literals: their types come from the choice of the overload.
        let unknown = vec![Type::Unknown; texts.len()];
        let written: Vec<String> = texts.iter().map(|text| literal(text)).collect();
        let expression = format!("\"{name}\"({})", written.join(", "));
        let ours = match resolve_function(name, &unknown, false) {
            Ok(Called::Function(resolved)) => {
                let arguments: Vec<(Type, &str)> = texts.iter().map(|text| (Type::Unknown, *text)).collect();
                evaluate(&resolved, &arguments)
            }
            Ok(Called::Cast(kind)) => panic!("{name} became a cast to {kind:?}"),
            Err(error) => error_of(&error),
        };
        all.push(Comparison { expression, ours });
    }
    compare(&mut session, &all);
}

/// Operators and functions of which random calls are resolved. Those with overloads for types that are not there are
/// left out: with literals of unknown type they are ambiguous in PostgreSQL.
const SYMBOLS: &[&str] = &["+", "-", "*", "/", "%", "=", "<", "||", "~~", "~", "&", "^", "->", "<<", "?"];
const NAMES: &[&str] = &[
    "abs",
    "round",
    "length",
    "substr",
    "substring",
    "lower",
    "date_part",
    "date_trunc",
    "to_char",
    "mod",
    "power",
    "ltrim",
    "overlay",
    "array_append",
    "array_cat",
    "array_position",
    "generate_series",
    "concat",
    "greatest_of",
    "sqrt",
    "md5",
    "isfinite",
    "left",
    "timezone",
    "justify_days",
    "array_length",
    "sign",
    "to_json",
];

/// The types of their arguments.
fn argument_kinds() -> Vec<Type> {
    let mut kinds = vec![
        Type::Unknown,
        Type::Int2,
        Type::Int4,
        Type::Int8,
        Type::Numeric,
        Type::Float4,
        Type::Float8,
        Type::Text,
        Type::Varchar,
        Type::Bpchar,
        Type::Name,
        Type::Bool,
        Type::Date,
        Type::Timestamp,
        Type::Timestamptz,
        Type::Time,
        Type::Interval,
        Type::Bytea,
        Type::Jsonb,
        Type::Uuid,
        Type::Inet,
        Type::Cidr,
        Type::Macaddr,
        Type::Oid,
    ];
    kinds.extend([Type::Int4, Type::Text].map(Type::array_of));
    kinds
}

/// A call with NULLs of random types, and the type of its result.
fn random_call(random: &mut Random, kinds: &[Type]) -> (String, Result<Type, SqlError>) {
    let written = |kind: Type| match kind {
        Type::Unknown => "NULL".to_string(),
        kind => format!("NULL::{}", name_in_cast(kind)),
    };
    let (left, right) = (random.pick(kinds), random.pick(kinds));
    if random.below(2) == 0 {
        let symbol = random.pick(SYMBOLS);
        let result = resolve_operator(symbol, left, right).map(|it| it.result);
        return (format!("({} {symbol} {})", written(left), written(right)), result);
    }
    let name = random.pick(NAMES);
    let arguments = if random.below(2) == 0 { vec![left] } else { vec![left, right] };
    let list: Vec<String> = arguments.iter().map(|kind| written(*kind)).collect();
    let result = resolve_function(name, &arguments, false).map(|it| match it {
        Called::Function(resolved) => resolved.result,
        Called::Cast(kind) => kind,
    });
    (format!("{name}({})", list.join(", ")), result)
}

/// The entry that is chosen shows in the result's type, a failure in the SQLSTATE.
#[test]
fn overloads_are_chosen_as_in_postgresql() {
    let Some(oracle) = Oracle::start() else { return };
    let mut session = oracle.connect();
    let mut random = Random(5);
    let kinds = argument_kinds();
    let mut differing = Vec::new();
    for _ in 0..4000 {
        let (expression, ours) = random_call(&mut random, &kinds);
        // A literal of unknown type is a text here; PostgreSQL refuses it where any type may stand (42804).
        if expression == "to_json(NULL)" {
            continue;
        }
        let theirs = session.describe(&format!("SELECT {expression} AS x"));
        let theirs = theirs.map(|columns| columns[0].1.clone());
        let ours = match ours {
            Ok(kind) => Ok(kind.display_name()),
            Err(error) => Err(error.state().as_str().to_string()),
        };
        if ours != theirs {
            differing.push(format!("{expression}: ours {ours:?}, theirs {theirs:?}"));
        }
    }
    for line in differing.iter().take(PRINTED_MAX) {
        println!("{line}");
    }
    assert!(differing.is_empty(), "{} choices differ", differing.len());
}
