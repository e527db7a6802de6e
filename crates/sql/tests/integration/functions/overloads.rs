//! Tests of the choice among several functions or operators for a call, compared with PostgreSQL.

use heddle_sql::error::SqlError;
use heddle_sql::functions::resolve::{Called, resolve_function, resolve_operator};
use heddle_sql::types::Type;

use super::{Comparison, PRINTED_MAX, compare, error_of, evaluate, name_in_cast};
use crate::support::oracle::Oracle;
use crate::support::samples::{Random, literal};

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
