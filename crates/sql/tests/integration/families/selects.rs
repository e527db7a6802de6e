//! The families `select1` to `select5`, and `evidence`.

use super::{Sort, Step, chance, shuffled};
use crate::support::samples::Random;

const LETTERS: [&str; 5] = ["a", "b", "c", "d", "e"];

const TARGETS: &[&str] = &[
    "a",
    "b",
    "c",
    "d",
    "e",
    "a-b",
    "b-c",
    "c-d",
    "d-e",
    "a+b*2",
    "a+b*2+c*3",
    "a+b*2+c*3+d*4",
    "a+b*2+c*3+d*4+e*5",
    "(a+b+c+d+e)/5",
    "abs(a)",
    "abs(b-c)",
    "(SELECT count(*) FROM t1 AS x WHERE x.b<t1.b)",
    "(SELECT count(*) FROM t1 AS x WHERE x.c>t1.c AND x.d<t1.d)",
    "CASE WHEN c>(SELECT avg(c) FROM t1) THEN a*2 ELSE b*10 END",
    "CASE WHEN a<b-3 THEN 111 WHEN a<=b THEN 222\n        WHEN a<b+3 THEN 333 ELSE 444 END",
    "CASE a+1 WHEN b THEN 111 WHEN c THEN 222\n        WHEN d THEN 333  WHEN e THEN 444 ELSE 555 END",
];

const FILTERS: &[&str] = &[
    "a>b",
    "b>c",
    "c>d",
    "d>e",
    "c BETWEEN b-2 AND d+2",
    "d NOT BETWEEN 110 AND 150",
    "e+d BETWEEN a+b-10 AND c+130",
    "(a>b-2 AND a<b+2)",
    "(e>a AND e<b)",
    "(c<=d-2 OR c>=d+2)",
    "(e>c OR e<d)",
    "EXISTS(SELECT 1 FROM t1 AS x WHERE x.b<t1.b)",
    "a IS NULL",
    "coalesce(a,b,c,d,e)<>0",
];

pub fn expressions_of_columns(random: &mut Random, count: usize) -> Vec<Step> {
    let mut steps = vec![Step::new("CREATE TABLE t1(a INTEGER, b INTEGER, c INTEGER, d INTEGER, e INTEGER)")];
    let nulls = random.pick(&[0, 10]);
    for row in 0..30 {
        let value = |at: usize, random: &mut Random| match chance(random, nulls) {
            true => "NULL".to_string(),
            false => (100 + row * 5 + at).to_string(),
        };
        let values: Vec<String> = (0..5).map(|at| value(at, random)).collect();
        let (values, columns) = (shuffled(random, &values), shuffled(random, &LETTERS));
        steps.push(Step::new(format!("INSERT INTO t1({}) VALUES({})", columns.join(","), values.join(","))));
    }
    while steps.len() < count {
        let targets: Vec<&str> = shuffled(random, TARGETS).into_iter().take(1 + random.below(7)).collect();
        let select = format!("SELECT {}\n  FROM t1", targets.join(",\n       "));
        let filters: Vec<&str> = shuffled(random, FILTERS).into_iter().take(random.below(4)).collect();
        let operator = random.pick(&["\n    OR ", "\n   AND "]);
        for _ in 0..=filters.len() {
            let filter = match filters.is_empty() {
                true => String::new(),
                false => format!("\n WHERE {}", shuffled(random, &filters).join(operator)),
            };
            steps.push(Step::new(format!("{select}{filter}")));
            let numbers: Vec<String> = (1..=targets.len()).map(|at| at.to_string()).collect();
            let order = shuffled(random, &numbers).join(",");
            steps.push(Step::sorted(format!("{select}{filter}\n ORDER BY {order}"), Sort::None));
        }
    }
    steps
}

/// Tables t1 to t9 of about 110 rows, each with its own kinds of indexes.
fn nine_tables(random: &mut Random) -> (Vec<Step>, Vec<Vec<[usize; 5]>>) {
    let mut steps = Vec::new();
    for n in 1..=9 {
        steps.push(Step::new(format!(
            "CREATE TABLE t{n}(\n  a{n} INTEGER,\n  b{n} INTEGER,\n  c{n} INTEGER,\n  d{n} INTEGER,\n  e{n} INTEGER,\n  x{n} VARCHAR(30)\n)"
        )));
    }
    let mut rows = vec![Vec::new(); 10];
    for _ in 0..1000 {
        let n = 1 + random.below(9);
        let row: [usize; 5] = std::array::from_fn(|_| random.below(999));
        rows[n].push(row);
        let values = row.map(|value| value.to_string()).join(",");
        steps.push(Step::new(format!(
            "INSERT INTO t{n} VALUES({values},'table tn{n} row {}')",
            rows[n].len()
        )));
    }
    let columns = ["a1", "b1", "c1", "d1", "e1", "x1"];
    for at in 0..5 {
        steps.push(Step::new(format!("CREATE INDEX t1i{at} ON t1({})", columns[at..].join(","))));
        steps.push(Step::new(format!("CREATE INDEX t2{0}2 ON t2({0}2)", LETTERS[at])));
        let n = at + 3;
        steps.push(Step::new(format!("CREATE INDEX t{n}{0}{n} ON t{n}({0}{n})", LETTERS[at])));
    }
    steps.push(Step::new("CREATE INDEX t8all ON t8(e8 DESC, d8 ASC, c8 DESC, b8 ASC, a8 DESC)"));
    (steps, rows)
}

/// Conditions that leave a handful of a table's rows.
fn few(random: &mut Random, n: usize, rows: &[[usize; 5]]) -> Vec<String> {
    let equal = |random: &mut Random, column: usize, value: usize| match chance(random, 50) {
        true => format!("{value}={}{n}", LETTERS[column]),
        false => format!("{}{n}={value}", LETTERS[column]),
    };
    let term = |random: &mut Random| match random.below(3) {
        0 => {
            let column = random.below(5);
            let list: Vec<String> =
                (0..3 + random.below(12)).map(|_| random.pick(rows)[column].to_string()).collect();
            format!("{}{n} in ({})", LETTERS[column], list.join(","))
        }
        1 => {
            let row = random.pick(rows);
            let columns: Vec<usize> =
                shuffled(random, &[0, 1, 2, 3, 4]).into_iter().take(1 + random.below(5)).collect();
            let parts: Vec<String> =
                columns.into_iter().map(|column| equal(random, column, row[column])).collect();
            format!("({})", parts.join(" AND "))
        }
        _ => {
            let one = |random: &mut Random| {
                let column = random.below(5);
                let value = random.pick(rows)[column];
                equal(random, column, value)
            };
            let parts: Vec<String> = (0..1 + random.below(3)).map(|_| one(random)).collect();
            format!("({})", parts.join(" OR "))
        }
    };
    (0..1 + random.below(3)).map(|_| term(random)).collect()
}

/// A query of several parts, each from another table.
fn compound(random: &mut Random, rows: &[Vec<[usize; 5]>]) -> String {
    let count = 2 + random.below(8);
    let tables: Vec<usize> = shuffled(random, &[1, 2, 3, 4, 5, 6, 7, 8, 9]).into_iter().take(count).collect();
    let mut text = String::new();
    for (at, n) in tables.into_iter().enumerate() {
        let operator =
            if at == 0 { "" } else { random.pick(&["UNION\n", "UNION ALL\n", "EXCEPT\n", "INTERSECT\n"]) };
        let is_large = operator.starts_with("EX") || operator.starts_with("IN");
        let column = random.pick(&LETTERS);
        let terms = few(random, n, &rows[n]).join("\n      OR ");
        let filter = if is_large { format!("NOT ({terms})") } else { terms };
        text.push_str(&format!("{operator}  SELECT {column}{n} FROM t{n}\n   WHERE {filter}\n"));
    }
    text
}

/// A join of up to six tables, because some have no condition between them: a condition on an indexed column of each.
fn joined(random: &mut Random, rows: &[Vec<[usize; 5]>]) -> Vec<String> {
    let count = 2 + random.below(5);
    let tables: Vec<usize> = shuffled(random, &[1, 2, 3, 4, 5, 6, 7, 8, 9]).into_iter().take(count).collect();
    let (mut targets, mut filters) = (Vec::new(), Vec::new());
    for n in &tables {
        let mut target = format!("{}{n}", random.pick(&["a", "b", "c", "d", "e", "x"]));
        if !target.starts_with('x') {
            target += random.pick(&["", "", "*7", "+519", "*846"]);
            if chance(random, 30) {
                let (column, other) = (random.pick(&LETTERS), random.pick(&tables));
                target += &format!("+{column}{other}");
            }
        }
        targets.push(target);
        let column = match n {
            1 => 0,
            2 | 9 => random.below(5),
            8 => 4,
            n => n - 3,
        };
        let letter = LETTERS[column];
        let other = random.pick(&tables);
        let list = |random: &mut Random, count: usize| -> Vec<String> {
            (0..count).map(|_| random.pick(&rows[*n])[column].to_string()).collect()
        };
        filters.push(match random.below(6) {
            0 | 1 => {
                let length = 3 + random.below(6);
                format!("{letter}{n} in ({})", list(random, length).join(","))
            }
            2 | 3 if other != *n => format!("{letter}{n}={}{other}", random.pick(&LETTERS)),
            4 => format!("{}={letter}{n}", list(random, 1)[0]),
            _ => {
                let parts = list(random, 3).into_iter().map(|value| format!("{letter}{n}={value}"));
                format!("({})", parts.collect::<Vec<_>>().join(" OR "))
            }
        });
    }
    let names: Vec<String> = tables.iter().map(|n| format!("t{n}")).collect();
    let one = |random: &mut Random| {
        let (from, filters) =
            (shuffled(random, &names).join(", "), shuffled(random, &filters).join("\n   AND "));
        format!("SELECT {}\n  FROM {from}\n WHERE {filters}", targets.join(", "))
    };
    (0..3).map(|_| one(random)).collect()
}

pub fn sets_and_joins(random: &mut Random, count: usize) -> Vec<Step> {
    let (mut steps, rows) = nine_tables(random);
    let end = steps.len() + count;
    while steps.len() < end {
        steps.push(Step::sorted(compound(random, &rows), Sort::Values));
        steps.extend(joined(random, &rows).into_iter().map(Step::new));
    }
    steps
}

/// Joins of 4 to 64 tables along equalities.
pub fn deep_joins(random: &mut Random, count: usize) -> Vec<Step> {
    let numbers: Vec<usize> = (1..=10).collect();
    let tables: Vec<usize> = (1..=64).collect();
    let mut steps = Vec::new();
    for n in &tables {
        steps.push(Step::new(format!(
            "CREATE TABLE t{n}(\n  a{n} INTEGER PRIMARY KEY,\n  b{n} INTEGER,\n  x{n} VARCHAR(40)\n)"
        )));
        for (a, b) in numbers.iter().zip(shuffled(random, &numbers)) {
            steps.push(Step::new(format!("INSERT INTO t{n} VALUES({a},{b},'table t{n} row {a}')")));
        }
    }
    let end = steps.len() + count / 10;
    while steps.len() < end {
        let depth = 4 + random.below(61);
        let chosen: Vec<usize> = shuffled(random, &tables).into_iter().take(depth).collect();
        let chain = shuffled(random, &chosen);
        let of = |prefix: &str, tables: &[usize]| {
            tables.iter().map(|n| format!("{prefix}{n}")).collect::<Vec<_>>().join(",")
        };
        for _ in 0..3 {
            let mut filters = vec![format!("a{}={}", chain[depth - 1], 1 + random.below(10))];
            for pair in chain.windows(2) {
                filters.push(match chance(random, 50) {
                    true => format!("a{}=b{}", pair[1], pair[0]),
                    false => format!("b{}=a{}", pair[0], pair[1]),
                });
            }
            let (from, filters) = (of("t", &shuffled(random, &chain)), shuffled(random, &filters));
            let text =
                format!("SELECT {}\n  FROM {from}\n WHERE {}", of("x", &chosen), filters.join("\n   AND "));
            steps.push(Step::sorted(text, Sort::Values));
        }
    }
    steps
}

/// IN and NOT IN with lists and queries, with NULL on either side; writes and their errors.
pub fn membership(random: &mut Random, count: usize) -> Vec<Step> {
    let mut steps: Vec<Step> = [
        "CREATE TABLE t1(x INTEGER)",
        "CREATE TABLE t2(y INTEGER PRIMARY KEY)",
        "CREATE TABLE t4n(a INTEGER UNIQUE)",
        "INSERT INTO t4n VALUES(2)",
        "INSERT INTO t4n VALUES(3)",
        "INSERT INTO t4n VALUES(null)",
        "INSERT INTO t2 SELECT a FROM t4n WHERE a>0",
        "CREATE TABLE t7n(a TEXT UNIQUE)",
        "INSERT INTO t7n VALUES('b')",
        "INSERT INTO t7n VALUES(null)",
        "CREATE TABLE t9(x INTEGER, y VARCHAR(8))",
        "INSERT INTO t9 VALUES(1,'true')",
        "INSERT INTO t9 VALUES(0,'false')",
        "INSERT INTO t9 VALUES(NULL,'NULL')",
        "CREATE INDEX t9i1 ON t9(x)",
        "CREATE VIEW view1 AS SELECT x FROM t9 WHERE x>0",
        "CREATE VIEW view1 AS SELECT x FROM t9 WHERE x>0",
        "DROP VIEW viewX",
        "DROP INDEX t9i2",
        "DROP TABLE t99",
        "CREATE TABLE t9(x INTEGER)",
        "UPDATE t9 SET z='foo'",
        "UPDATE t9 SET z='foo' WHERE x>0",
        "SELECT count(DISTINCT *) FROM t9",
        "INSERT INTO t9 VALUES(4.0,'true')",
        "SELECT avg(x), sum(x), max(y) FROM t9",
    ]
    .into_iter()
    .map(Step::new)
    .collect();
    while steps.len() < count {
        let not = random.pick(&["", "NOT "]);
        let text = match random.below(5) {
            0 => format!(
                "UPDATE t9 SET x={} WHERE {}",
                random.pick(&["x+2", "3", "3+1", "NULL", "0"]),
                random.pick(&["x>0", "y='unknown'", "y='foo'", "x IS NULL", "x=2"])
            ),
            1 => format!(
                "SELECT {}, y FROM t9 WHERE x {not}IN (SELECT a FROM t4n)",
                random.pick(&["x", "x+1"])
            ),
            2 => {
                let list: Vec<&str> =
                    (0..1 + random.below(6)).map(|_| random.pick(&["2", "3", "4", "null", "2.0"])).collect();
                format!(
                    "SELECT {} {not}IN ({})",
                    random.pick(&["1", "2", "null", "3", "1.23"]),
                    list.join(",")
                )
            }
            3 => format!(
                "SELECT {} {not}IN (SELECT * FROM {})",
                random.pick(&["'b'", "null", "'hello'"]),
                random.pick(&["t7n", "t7n WHERE a IS NOT NULL"])
            ),
            _ => format!(
                "SELECT {} {not}IN (SELECT {})",
                random.pick(&["1", "2", "null", "1.23", "5"]),
                random.pick(&["* FROM t1", "* FROM t2", "* FROM t4n", "x+y FROM t1, t2", "a+y FROM t4n, t2"])
            ),
        };
        steps.push(Step::new(text));
    }
    steps
}
