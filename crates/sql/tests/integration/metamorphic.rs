//! Queries that must agree with each other, on tables with the same rows and different indexes.
//!
//! Ternary logic partitioning (Rigger and Su, "Finding Bugs in Database Systems via Query Partitioning", 2020): the rows of a
//! query are those for which a condition is true, false, and NULL together. NoREC (the same, "Detecting Optimization Bugs in
//! Database Engines via Non-Optimizing Reference Engine Construction", 2020): a condition in WHERE keeps as many rows as it
//! is true for when it is a column of the result. No other system is asked, so both look at what generated tests cannot
//! compare. Subqueries are compared with the same subqueries behind `OFFSET 0`, which keeps them from being joined or computed
//! for all rows at once, and with PostgreSQL. `HEDDLE_STATEMENTS` says how many conditions, `HEDDLE_SEED` repeats a run.

use crate::families::conditions::{Domain, Spelling};
use crate::families::{chance, expressions, index, subqueries};
use crate::support::oracle::Oracle;
use crate::support::samples::Random;
use heddle_sql::{Connection, Sql};
use heddledb::{Database, Durability, Options};

/// The tables that a query reads, the columns that conditions name, and some of the result.
struct Source {
    from: String,
    condition: String,
    targets: &'static str,
    number: &'static str,
}

fn source(random: &mut Random, domain: &Domain) -> Source {
    let table = random.pick(&index::TABLES);
    if chance(random, 50) {
        let depth = random.below(4);
        let condition = match chance(random, 60) {
            true => domain.condition(random, depth).text(table, Spelling::Plain, random),
            false => expressions::condition(random, &["pk", "col0", "col1", "col3", "col4"]),
        };
        return Source { from: table.to_string(), condition, targets: "pk, col0, col4", number: "col3" };
    }
    let other = random.pick(&index::TABLES);
    let kind = random.pick(&["join", "left join", "right join", "full join"]);
    let (left, right) = (random.pick(&["col0", "col3", "pk"]), random.pick(&["col0", "col3", "pk"]));
    let from = format!("{table} a {kind} {other} b on a.{left} = b.{right}");
    let columns = ["a.pk", "a.col0", "a.col1", "b.col3", "b.col4", "b.pk"];
    let condition = match random.below(3) {
        0 => {
            format!("a.{left} = {} or b.{right} {} a.col3", random.below(50), random.pick(&["<", ">=", "="]))
        }
        1 => format!(
            "{} is null and not ({})",
            random.pick(&columns),
            expressions::condition(random, &columns)
        ),
        _ => expressions::condition(random, &columns),
    };
    Source { from, condition, targets: "a.pk, b.pk, a.col1", number: "b.col0" }
}

/// The rows as texts; none if the query fails.
fn rows(connection: &mut Connection, text: &str) -> Option<Vec<Vec<Option<String>>>> {
    let results = connection.query(text).ok()?;
    let mut rows = connection.text_rows(results.last()?).unwrap();
    rows.sort();
    Some(rows)
}

/// The queries whose rows must be the same, by what is checked.
fn pairs(source: &Source) -> Vec<(String, String)> {
    let Source { from, condition, targets, number } = source;
    let parts = [condition.clone(), format!("not ({condition})"), format!("({condition}) is null")];
    let part = |targets: &str, end: &str| {
        parts.iter().map(|part| format!("select {targets} from {from} where {part}{end}")).collect::<Vec<_>>()
    };
    let whole = |targets: &str| format!("select {targets} from {from}");
    let aggregates = format!("count(*) as n, sum({number}) as s, min({number}) as l, max({number}) as h");
    vec![
        (whole(targets), part(targets, "").join(" union all ")),
        (whole(&format!("distinct {targets}")), part(targets, "").join(" union ")),
        (
            whole(&aggregates),
            format!(
                "select sum(n)::bigint, sum(s)::bigint, min(l), max(h) from ({}) as parts",
                part(&aggregates, "").join(" union all ")
            ),
        ),
        (
            format!("{} group by {number}", whole(&format!("{number}, count(*)"))),
            format!(
                "select x, sum(n)::bigint from ({}) as parts group by x",
                part(&format!("{number} as x, count(*) as n"), &format!(" group by {number}"))
                    .join(" union all ")
            ),
        ),
        (
            format!("select count(*) from {from} where {condition}"),
            format!(
                "select count(*) filter (where holds) from (select ({condition}) as holds from {from} offset 0) as all_rows"
            ),
        ),
    ]
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn queries_agree_with_what_they_are_made_of() {
    let (seed, count) = (number("HEDDLE_SEED", 1), number("HEDDLE_STATEMENTS", 150));
    let (mut random, mut compared, mut failed) = (Random(seed), 0, 0);
    let mut differences = Vec::new();
    for _ in 0..count.div_ceil(500) {
        let database = Database::in_memory_with(Options::default().durability(Durability::None)).unwrap();
        let mut connection = Sql::new(&database).unwrap().connect(Default::default()).unwrap();
        let (steps, domain) = index::tables(&mut random, "PRIMARY KEY");
        for step in steps {
            // An index that is unique by chance may refuse rows: the tables differ then, which does not matter here.
            let _ = connection.query(&step.text);
        }
        for _ in 0..count.min(500) {
            for (one, other) in pairs(&source(&mut random, &domain)) {
                // A division by zero may be reached in one and not in the other.
                let (Some(left), Some(right)) = (rows(&mut connection, &one), rows(&mut connection, &other))
                else {
                    failed += 1;
                    continue;
                };
                compared += 1;
                if left != right {
                    let short = |rows: &Vec<_>| {
                        format!("{} {rows:?}", rows.len()).chars().take(300).collect::<String>()
                    };
                    differences.push(format!("{one}\n  {}\n{other}\n  {}", short(&left), short(&right)));
                }
            }
        }
    }
    println!("seed {seed}: {compared} compared, {failed} failed");
    assert!(failed * 3 < compared, "too many queries fail to compare much");
    differences.truncate(5);
    assert!(differences.is_empty(), "seed {seed}:\n{}", differences.join("\n\n"));
}

/// The rows in any order, or the SQLSTATE.
fn answer(connection: &mut Connection, text: &str) -> Result<Vec<Vec<Option<String>>>, String> {
    let answer = connection.query(text).and_then(|results| connection.text_rows(&results[0]));
    answer.map_or_else(|error| Err(error.state().as_str().to_string()), |rows| Ok(sorted(rows)))
}

/// Sorts the rows; of 1.5 and 1.50 either may represent both.
fn sorted(mut rows: Vec<Vec<Option<String>>>) -> Vec<Vec<Option<String>>> {
    for text in rows.iter_mut().flatten().flatten().filter(|text| text.contains('.')) {
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
    rows.sort();
    rows
}

#[test]
fn subqueries_agree_with_themselves_row_by_row_and_with_postgresql() {
    let (seed, count) = (number("HEDDLE_SEED", 1), number("HEDDLE_STATEMENTS", 150));
    let oracle = Oracle::start();
    let mut session = oracle.as_ref().map(Oracle::connect);
    let database = Database::in_memory_with(Options::default().durability(Durability::None)).unwrap();
    let mut connection = Sql::new(&database).unwrap().connect(Default::default()).unwrap();
    let mut random = Random(seed);
    for text in subqueries::tables(&mut random) {
        connection.query(&text).unwrap();
        if let Some(session) = &mut session {
            assert_eq!(session.run(&text).sqlstate, "00000", "{text}");
        }
    }
    let (mut differences, mut failed, mut hashed) = (Vec::new(), 0, 0);
    for _ in 0..count {
        let (text, fenced) = subqueries::statement(&mut random);
        let (ours, by_row) = (answer(&mut connection, &text), answer(&mut connection, &fenced));
        let theirs = session.as_mut().map(|session| session.run(&text)).map(|answer| {
            if answer.sqlstate == "00000" { Ok(sorted(answer.rows)) } else { Err(answer.sqlstate) }
        });
        failed += u64::from(ours.is_err());
        let plan = answer(&mut connection, &format!("explain {text}")).unwrap_or_default();
        hashed += u64::from(plan.iter().flatten().flatten().any(|line| line.contains("hashed SubPlan")));
        if ours != by_row || theirs.as_ref().is_some_and(|theirs| *theirs != ours) {
            let short = |answer: &Result<_, _>| format!("{answer:?}").chars().take(300).collect::<String>();
            let theirs = theirs.as_ref().map(short);
            differences.push(format!("{text}\n  {}\n  {}\n  {theirs:?}", short(&ours), short(&by_row)));
        }
    }
    println!("seed {seed}: {failed} of {count} failed, {hashed} show hashed subqueries");
    assert!(failed * 3 < count && hashed * 8 > count, "seed {seed}: {failed} failed, {hashed} hashed");
    differences.truncate(5);
    assert!(differences.is_empty(), "seed {seed}:\n{}", differences.join("\n\n"));
}
