//! Tests that each entry of the tables exists in PostgreSQL, with the same properties.

use heddle_sql::functions::{FunctionKind, Volatility, all_functions, all_operators};
use heddle_sql::types::Type;
use heddle_sql::types::cast::{CastContext, all_casts};

use super::reads_catalog;
use crate::support::oracle::Oracle;

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
        // topk is a type of its own.
        let is_own = function.name.starts_with("topk_");
        if is_own || reads_catalog(function.name) || function.name == "uuid_generate_v4" {
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
    let ours: Vec<_> = ours.filter(|(from, to, _)| ![*from, *to].contains(&Type::TopK)).collect();
    let missing: Vec<_> = theirs.iter().filter(|it| !ours.contains(it)).collect();
    let invented: Vec<_> = ours.iter().filter(|it| !theirs.contains(it)).collect();
    assert!(missing.is_empty() && invented.is_empty(), "missing {missing:?}\ninvented {invented:?}");
}
