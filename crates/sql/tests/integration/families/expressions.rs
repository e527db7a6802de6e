//! The families under `random/`: chains of operators with signs before everything, aggregates, CASE, NULL in every place.

use super::{Step, chance};
use crate::support::samples::Random;

/// The parts that an expression may contain.
#[derive(Clone, Copy)]
struct Scope<'a> {
    columns: &'a [&'a str],
    /// Names of aggregates' arguments; `None` if there are no aggregates.
    aggregates: Option<&'a [&'a str]>,
    /// True if CASE, COALESCE and NULLIF appear.
    calls: bool,
}

fn signs(random: &mut Random) -> &'static str {
    random.pick(&["", "", "", "", "+ ", "- ", "+ + ", "- - ", "- + ", "+ - "])
}

fn constant(random: &mut Random) -> String {
    random.below(100).to_string()
}

fn atom(random: &mut Random, scope: Scope, depth: usize) -> String {
    let has_columns = !scope.columns.is_empty();
    match random.below(20) {
        0 | 1 if depth > 0 => format!("( {} )", expression(random, scope, depth - 1)),
        2 => {
            let inner = match chance(random, 40) || depth == 0 {
                true => "NULL".to_string(),
                false => expression(random, scope, depth - 1),
            };
            format!("CAST ( {inner} AS {} )", random.pick(&["INTEGER", "INTEGER", "REAL", "DECIMAL"]))
        }
        3..=6 if scope.aggregates.is_some() => aggregate(random, scope, depth),
        7..=9 if scope.calls && depth > 0 => call(random, scope, depth - 1),
        10..=16 if has_columns => random.pick(scope.columns).to_string(),
        _ => constant(random),
    }
}

fn aggregate(random: &mut Random, scope: Scope, depth: usize) -> String {
    if chance(random, 35) {
        return "COUNT ( * )".to_string();
    }
    let name = random.pick(&["COUNT", "SUM", "MIN", "MAX", "AVG"]);
    let quantifier = random.pick(&["", "", "", "DISTINCT ", "ALL "]);
    let columns = scope.aggregates.unwrap_or_default();
    let inner = Scope { columns, aggregates: None, ..scope };
    format!("{name} ( {quantifier}{} )", expression(random, inner, depth.min(1)))
}

fn call(random: &mut Random, scope: Scope, depth: usize) -> String {
    let one = |random: &mut Random| match chance(random, 10) {
        true => "NULL".to_string(),
        false => expression(random, scope, depth),
    };
    match random.below(4) {
        0 => format!("NULLIF ( {}, {} )", one(random), one(random)),
        1 => {
            let parts: Vec<String> = (0..1 + random.below(4)).map(|_| one(random)).collect();
            format!("COALESCE ( {} )", parts.join(", "))
        }
        kind => {
            let is_simple = kind == 2;
            let mut text = if is_simple { format!("CASE {} ", one(random)) } else { "CASE ".to_string() };
            for _ in 0..1 + random.below(3) {
                let when = if is_simple { one(random) } else { predicate(random, scope, depth.min(1)) };
                text.push_str(&format!("WHEN {when} THEN {} ", one(random)));
            }
            if chance(random, 60) {
                text.push_str(&format!("ELSE {} ", one(random)));
            }
            text + "END"
        }
    }
}

fn expression(random: &mut Random, scope: Scope, depth: usize) -> String {
    let mut text = format!("{}{}", signs(random), atom(random, scope, depth));
    for _ in 0..random.pick(&[0, 0, 0, 1, 1, 2, 3]) {
        let operator = random.pick(&["+", "-", "*", "*", "+", "/"]);
        text.push_str(&format!(" {operator} {}{}", signs(random), atom(random, scope, depth)));
    }
    text
}

fn predicate(random: &mut Random, scope: Scope, depth: usize) -> String {
    let operand = |random: &mut Random| match random.below(10) {
        0 | 1 => "NULL".to_string(),
        2 => "( NULL )".to_string(),
        _ => expression(random, scope, depth.min(1)),
    };
    let not = if chance(random, 40) { "NOT " } else { "" };
    if depth > 0 && chance(random, 20) {
        let (one, other) = (predicate(random, scope, depth - 1), predicate(random, scope, depth - 1));
        return format!("{one} {} {other}", random.pick(&["AND", "OR"]));
    }
    if depth > 0 && chance(random, 15) {
        return format!("{not}( {} )", predicate(random, scope, depth - 1));
    }
    let inner = if chance(random, 30) { "NOT " } else { "" };
    match random.below(6) {
        0 => format!("{not}{} {inner}BETWEEN {} AND {}", operand(random), operand(random), operand(random)),
        1 => {
            let first = operand(random);
            let list: Vec<String> = (0..1 + random.below(3)).map(|_| operand(random)).collect();
            format!("{not}{first} {inner}IN ( {} )", list.join(", "))
        }
        2 | 3 => format!("{not}{} IS {inner}NULL", operand(random)),
        _ => {
            let operator = random.pick(&["=", "<>", "<", "<=", ">", ">="]);
            format!("{not}{} {operator} {}", operand(random), operand(random))
        }
    }
}

const COLUMNS: [&str; 3] = ["col0", "col1", "col2"];

fn tables(random: &mut Random) -> Vec<Step> {
    let mut steps = Vec::new();
    for table in ["tab0", "tab1", "tab2"] {
        steps.push(Step::new(format!("CREATE TABLE {table}(col0 INTEGER, col1 INTEGER, col2 INTEGER)")));
        for _ in 0..3 {
            let values: Vec<String> = (0..3).map(|_| constant(random)).collect();
            steps.push(Step::new(format!("INSERT INTO {table} VALUES({})", values.join(","))));
        }
    }
    steps
}

/// A table with its alias, perhaps joined with others; and its alias.
fn from(random: &mut Random) -> String {
    let table = |random: &mut Random| random.pick(&["tab0", "tab1", "tab2"]);
    match random.below(10) {
        0..=2 => table(random).to_string(),
        3..=7 => format!("{} {}cor0", table(random), random.pick(&["AS ", ""])),
        8 => format!("{} cor0 CROSS JOIN {} AS cor1", table(random), table(random)),
        _ => format!("{} AS cor0, {} cor1", table(random), table(random)),
    }
}

fn name(random: &mut Random) -> String {
    match random.below(4) {
        0 | 1 => String::new(),
        2 => format!(" AS {}", random.pick(&COLUMNS)),
        _ => format!(" {}", random.pick(&COLUMNS)),
    }
}

fn targets(random: &mut Random, scope: Scope) -> String {
    let depth = if scope.calls { 2 } else { 1 };
    let one = |random: &mut Random| format!("{}{}", expression(random, scope, depth), name(random));
    let parts: Vec<String> = (0..random.pick(&[1, 1, 1, 2])).map(|_| one(random)).collect();
    format!("{}{}", random.pick(&["", "", "ALL ", "DISTINCT "]), parts.join(", "))
}

fn filter(random: &mut Random, scope: Scope) -> String {
    match chance(random, 45) {
        true => format!(" WHERE {}", predicate(random, scope, 2)),
        false => String::new(),
    }
}

pub fn without_tables(random: &mut Random, count: usize) -> Vec<Step> {
    let mut steps = tables(random);
    while steps.len() < count {
        let aggregates = if chance(random, 60) { Some(&[][..]) } else { None };
        let scope = Scope { columns: &[], aggregates, calls: true };
        steps.push(Step::new(format!("SELECT {}", targets(random, scope))));
    }
    steps
}

pub fn aggregates(random: &mut Random, count: usize) -> Vec<Step> {
    let mut steps = tables(random);
    while steps.len() < count {
        let from = from(random);
        let joins = from.contains("cor1");
        let columns: &[&str] = if joins { &["cor0.col0", "cor1.col1", "cor0.col2"] } else { &COLUMNS };
        let rows = Scope { columns, aggregates: None, calls: false };
        let scope = match chance(random, 50) {
            true => Scope { columns: &[], aggregates: Some(columns), calls: chance(random, 15) },
            false => rows,
        };
        let having = match chance(random, 8) {
            true => format!(
                " HAVING {}",
                predicate(random, Scope { columns: &[], aggregates: Some(columns), calls: false }, 1)
            ),
            false => String::new(),
        };
        let text = format!("SELECT {} FROM {from}{}{having}", targets(random, scope), filter(random, rows));
        steps.push(Step::new(text));
    }
    steps
}

pub fn groups(random: &mut Random, count: usize) -> Vec<Step> {
    let mut steps = tables(random);
    while steps.len() < count {
        let keys: Vec<&str> = (0..1 + random.below(3)).map(|_| random.pick(&COLUMNS)).collect();
        let table = random.pick(&["tab0", "tab1", "tab2", "tab0 AS cor0", "tab1 cor0", "tab2 AS cor0"]);
        let aggregates = if chance(random, 25) { Some(&COLUMNS[..]) } else { None };
        let scope = Scope { columns: &keys, aggregates, calls: false };
        let rows = Scope { columns: &COLUMNS, aggregates: None, calls: false };
        let mut text = format!("SELECT {} FROM {table}", targets(random, scope));
        if chance(random, 20) {
            text.push_str(&filter(random, rows));
        }
        text.push_str(&format!(" GROUP BY {}", keys.join(", ")));
        if chance(random, 40) {
            text.push_str(&format!(" HAVING {}", predicate(random, scope, 1)));
        }
        steps.push(Step::new(text));
    }
    steps
}

pub fn plain(random: &mut Random, count: usize) -> Vec<Step> {
    let mut steps = tables(random);
    while steps.len() < count {
        let from = from(random);
        let columns: &[&str] =
            if from.contains("cor1") { &["cor0.col0", "cor1.col1", "cor0.col2"] } else { &COLUMNS };
        let scope = Scope { columns, aggregates: None, calls: chance(random, 10) };
        let targets = match chance(random, 25) {
            true => random.pick(&["*", "ALL *", "DISTINCT *"]).to_string(),
            false => targets(random, scope),
        };
        steps.push(Step::new(format!("SELECT {targets} FROM {from}{}", filter(random, scope))));
    }
    steps
}

/// A condition on these columns of numbers.
pub fn condition(random: &mut Random, columns: &[&str]) -> String {
    predicate(random, Scope { columns, aggregates: None, calls: true }, 2)
}

/// A query of the family `index/random`: what stands before the table, and what behind it.
pub fn over_indexed(random: &mut Random) -> (String, String) {
    let columns: &[&str] = &["pk", "col0", "col1", "col3", "col4", "col0", "col3"];
    let rows = Scope { columns, aggregates: None, calls: false };
    let scope = match chance(random, 25) {
        true => Scope { columns: &[], aggregates: Some(columns), calls: false },
        false => rows,
    };
    let head = match random.below(10) {
        0..=2 => random.pick(&["*", "ALL *", "DISTINCT *"]).to_string(),
        3 => random.pick(&["col2", "+ col2 AS col5", "col5 col2"]).to_string(),
        _ => targets(random, scope),
    };
    let alias = random.pick(&["", "AS cor0", "cor0"]);
    (format!("SELECT {head} FROM"), format!("{alias}{}", filter(random, rows)))
}
