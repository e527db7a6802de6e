//! Every plain and ordered-set aggregate against PostgreSQL 15, over random rows with NULLs among them.

use crate::support::oracle::{Evaluated, Oracle};
use crate::support::samples::{Random, literal, samples};
use heddle_sql::functions::resolve::{Called, Resolved, resolve_function};
use heddle_sql::functions::{AggregateKind, Function, FunctionContext, FunctionKind, all_functions};
use heddle_sql::types::text::{from_text, to_text};
use heddle_sql::types::{Modifier, PlainEnvironment, Type, Value};

/// Sets of rows for each aggregate.
const ROUNDS: usize = 40;
/// Most rows of a set.
const ROWS_MAX: usize = 6;

type Row = Vec<Option<&'static str>>;

fn concrete(declared: &[Type], element: Type) -> Vec<Type> {
    let decide = |kind: &Type| match kind {
        Type::AnyElement | Type::AnyNonArray | Type::Any => element,
        Type::AnyArray => Type::array_of(element),
        other => *other,
    };
    declared.iter().map(decide).collect()
}

fn run(resolved: &Resolved, kinds: &[Type], direct: usize, rows: &[Row]) -> Evaluated {
    let mut environment = PlainEnvironment::new(0);
    let FunctionKind::Aggregate { start, .. } = resolved.function.kind else { panic!("not an aggregate") };
    let read = |kind: Type, text: &Option<&str>| {
        text.map_or(Value::Null, |text| {
            from_text(&PlainEnvironment::new(0), kind, Modifier::NONE, text).unwrap()
        })
    };
    let mut values: Vec<Vec<Value>> = rows
        .iter()
        .map(|row| row.iter().zip(kinds).map(|(text, kind)| read(*kind, text)).collect())
        .collect();
    let direct_values: Vec<Value> = values.first().map_or(Vec::new(), |row| row[..direct].to_vec());
    if direct > 0 || resolved.function.name == "mode" {
        values.sort_by(|left, right| left.last().cmp(&right.last()));
    }
    let mut context = FunctionContext {
        environment: &mut environment,
        argument_types: kinds,
        result_type: resolved.result,
    };
    let mut state = start(&context);
    let mut result = Ok(());
    for row in &values {
        let is_skipped = resolved.function.is_strict && row.iter().any(Value::is_null);
        if !is_skipped && result.is_ok() {
            result = state.accumulate(&mut context, row);
        }
    }
    match result.and_then(|()| state.finish(&mut context, &direct_values)) {
        Ok(value) if value.is_null() => Evaluated::Value(resolved.result.display_name(), None),
        Ok(value) => match to_text(&PlainEnvironment::new(0), resolved.result, &value) {
            Ok(text) => Evaluated::Value(resolved.result.display_name(), Some(text)),
            Err(error) => Evaluated::Error(error.state().as_str().to_string()),
        },
        Err(error) => Evaluated::Error(error.state().as_str().to_string()),
    }
}

fn expression(function: &Function, kinds: &[Type], direct: usize, rows: &[Row]) -> String {
    let names: Vec<String> = (0..kinds.len()).map(|at| format!("a{at}")).collect();
    let typed = |text: &Option<&str>, kind: Type| {
        let value = text.map_or("NULL".to_string(), literal);
        let name = if kind == Type::Bpchar { "bpchar".to_string() } else { kind.sql_name().unwrap() };
        format!("{value}::{name}")
    };
    let row = |row: &Row| {
        row.iter().zip(kinds).map(|(text, kind)| typed(text, *kind)).collect::<Vec<_>>().join(", ")
    };
    if kinds.is_empty() {
        return format!("(SELECT count(*) FROM generate_series(1, {}))", rows.len());
    }
    let source = match rows {
        [] => format!("(SELECT {} WHERE false)", row(&vec![None; kinds.len()])),
        rows => format!(
            "(VALUES {})",
            rows.iter().map(|it| format!("({})", row(it))).collect::<Vec<_>>().join(", ")
        ),
    };
    let is_ordered =
        matches!(function.kind, FunctionKind::Aggregate { kind: AggregateKind::OrderedSet { .. }, .. });
    let call = if is_ordered {
        let fraction = rows.first().map_or("NULL::float8".to_string(), |row| typed(&row[0], kinds[0]));
        let direct = if direct == 0 { String::new() } else { fraction };
        format!("{}({direct}) WITHIN GROUP (ORDER BY {})", function.name, names[kinds.len() - 1])
    } else {
        format!("{}({})", function.name, names.join(", "))
    };
    format!("(SELECT {call} FROM {source} v({}))", names.join(", "))
}

#[test]
fn aggregates_agree_with_postgresql() {
    let Some(oracle) = Oracle::start() else { return };
    let mut session = oracle.connect();
    let mut random = Random(3);
    let (mut expressions, mut ours) = (Vec::new(), Vec::new());
    for function in all_functions().iter().filter(|it| it.is_aggregate()) {
        let FunctionKind::Aggregate { kind, .. } = function.kind else { continue };
        let direct = match kind {
            AggregateKind::OrderedSet { direct } => direct,
            _ => 0,
        };
        for element in [Type::Int4, Type::Text] {
            let kinds = concrete(&function.arguments, element);
            if kinds == function.arguments && element == Type::Text {
                continue;
            }
            let mut pools: Vec<Vec<&'static str>> = kinds.iter().map(|kind| samples(*kind)).collect();
            if pools.iter().any(Vec::is_empty) {
                continue;
            }
            for pool in pools.iter_mut().take(direct) {
                *pool = if kinds[0] == Type::Float8 {
                    vec!["0.5", "0", "1", "0.3", "2"]
                } else {
                    vec!["{0.25,0.5,1}"]
                };
            }
            let Ok(Called::Function(resolved)) = resolve_function(function.name, &kinds, false) else {
                panic!("{} is not found by its own types", function.signature)
            };
            for _ in 0..ROUNDS {
                let mut rows: Vec<Row> = Vec::new();
                for _ in 0..random.below(ROWS_MAX + 1) {
                    let pick = |pool: &Vec<&'static str>| (random.below(6) > 0).then(|| random.pick(pool));
                    rows.push(pools.iter().map(pick).collect());
                }
                if let Some(first) = rows.first().cloned() {
                    rows.iter_mut().for_each(|row| row[..direct].clone_from_slice(&first[..direct]));
                } else if direct > 0 {
                    continue;
                }
                expressions.push(expression(function, &kinds, direct, &rows));
                ours.push(run(&resolved, &kinds, direct, &rows));
            }
        }
    }
    let answers = session.evaluate(&expressions);
    let mut differing = 0;
    for ((expression, ours), theirs) in expressions.iter().zip(&ours).zip(&answers) {
        if ours != theirs {
            differing += 1;
            if differing < 40 {
                println!("{expression}\n    ours   {ours:?}\n    theirs {theirs:?}");
            }
        }
    }
    println!("{differing} of {} differ", expressions.len());
    assert_eq!(differing, 0, "aggregates differ from PostgreSQL");
}
