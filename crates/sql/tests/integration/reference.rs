//! The tables of `docs/sql-reference.md` are those of the code: types, casts, functions, operators and error codes.
//!
//! `HEDDLE_WRITE_DOCS=1 cargo test -p heddle-sql --test integration reference::` writes them again.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use heddle_sql::error::SqlState;
use heddle_sql::functions::{Function, FunctionKind, all_functions, all_operators};
use heddle_sql::types::cast::{CastContext, all_casts};
use heddle_sql::types::{Category, Type};

const OPENING: &str = "# SQL reference

Types, casts, functions, operators and error codes of [HeddleDB's SQL](sql.md). A test writes these tables from the code, and compares them
with it; other tests compare every entry with PostgreSQL 15: results, types and SQLSTATEs over samples of its arguments.
";

fn types() -> String {
    let mut text = "\n## Types\n\nArrays of all of them exist where PostgreSQL has them; enums and domains are made by users.\n\n".to_string();
    text.push_str(
        "| type | name in the catalog | oid | oid of the array | bytes |\n| --- | --- | --- | --- | --- |\n",
    );
    for kind in
        Type::BUILT_IN.iter().filter(|kind| kind.category() != Category::Pseudo && **kind != Type::Unknown)
    {
        let array = kind.array().map_or("none".to_string(), |array| array.oid().to_string());
        let length = if kind.length() > 0 { kind.length().to_string() } else { "variable".to_string() };
        let (long, short) = (kind.sql_name().unwrap(), kind.internal_name().unwrap());
        writeln!(text, "| `{long}` | `{short}` | {} | {array} | {length} |", kind.oid()).unwrap();
    }
    text
}

fn casts() -> String {
    let mut text = "\n## Casts\n\nBeside these, every type is cast to a string type on assignment, and a string type to any type explicitly. Arrays are cast as their elements.\n\n".to_string();
    text.push_str("| from | implicitly to | on assignment to | explicitly to |\n| --- | --- | --- | --- |\n");
    let mut rows: BTreeMap<String, [Vec<String>; 3]> = BTreeMap::new();
    for cast in all_casts() {
        let column = match cast.context {
            CastContext::Implicit => 0,
            CastContext::Assignment => 1,
            CastContext::Explicit => 2,
        };
        rows.entry(cast.from.display_name()).or_default()[column].push(cast.to.display_name());
    }
    for (from, columns) in rows {
        writeln!(text, "| {from} | {} |", columns.map(|names| names.join(", ")).join(" | ")).unwrap();
    }
    text
}

fn signature(function: &Function) -> String {
    let names: Vec<String> = function.arguments.iter().map(|kind| kind.display_name()).collect();
    let variadic = if function.is_variadic { "variadic " } else { "" };
    let list = match names.split_last() {
        Some((last, [])) => format!("{variadic}{last}"),
        Some((last, first)) => format!("{}, {variadic}{last}", first.join(", ")),
        None => String::new(),
    };
    format!("({list}) → {}", function.result.display_name())
}

fn entries(title: &str, functions: &[&Function]) -> String {
    let mut rows: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for function in functions {
        rows.entry(function.name).or_default().push(signature(function));
    }
    let mut text = format!("\n## {title}\n\n| name | arguments → result |\n| --- | --- |\n");
    for (name, signatures) in rows {
        let name = name.replace('|', "\\|");
        writeln!(text, "| `{name}` | {} |", signatures.join("; ")).unwrap();
    }
    text
}

fn states() -> String {
    let mut text = "\n## Error codes\n\n| SQLSTATE | name |\n| --- | --- |\n".to_string();
    for (name, state) in SqlState::ALL {
        writeln!(text, "| {state} | {} |", name.to_lowercase()).unwrap();
    }
    text
}

fn reference() -> String {
    let of_kind = |wanted: fn(&FunctionKind) -> bool| {
        all_functions().iter().filter(|it| wanted(&it.kind)).collect::<Vec<_>>()
    };
    let mut text = OPENING.to_string();
    text.push_str(&types());
    text.push_str(&casts());
    text.push_str(&entries("Operators", &all_operators().iter().collect::<Vec<_>>()));
    text.push_str(&entries("Functions", &of_kind(|kind| matches!(kind, FunctionKind::Scalar(_)))));
    text.push_str(&entries("Set-returning functions", &of_kind(|kind| matches!(kind, FunctionKind::Set(_)))));
    text.push_str(&entries("Aggregates", &of_kind(|kind| matches!(kind, FunctionKind::Aggregate { .. }))));
    text.push_str(&entries("Window functions", &of_kind(|kind| matches!(kind, FunctionKind::Window(_)))));
    text.push_str(&states());
    text
}

#[test]
fn the_reference_is_that_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sql-reference.md");
    let expected = reference();
    if std::env::var_os("HEDDLE_WRITE_DOCS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap();
    let differing = written.lines().zip(expected.lines()).find(|(written, expected)| written != expected);
    assert!(
        written == expected,
        "docs/sql-reference.md is not up to date ({differing:?}): write it again with HEDDLE_WRITE_DOCS=1"
    );
}
