//! The families under `index/`: five tables with the same rows and different indexes, asked the same.

use super::conditions::{Domain, Spelling};
use super::{Sort, Step, chance, expressions, shuffled};
use crate::support::samples::Random;

pub const TABLES: [&str; 5] = ["tab0", "tab1", "tab2", "tab3", "tab4"];

const COLUMNS: &str = "col0 INTEGER, col1 FLOAT, col2 TEXT, col3 INTEGER, col4 FLOAT, col5 TEXT";

/// The number of rows of a file's tables, and the bound of their values.
fn size(random: &mut Random) -> (usize, usize) {
    let rows = random.pick(&[10, 10, 10, 10, 10, 100, 100, 1000]);
    (rows, if rows == 10 { 100 } else { rows * 10 })
}

fn word(random: &mut Random) -> String {
    (0..5).map(|_| char::from(b'a' + random.below(26) as u8)).collect()
}

/// Fills the first table: values are distinct within each column, as unique indexes want them.
fn rows(random: &mut Random, count: usize, bound: usize, steps: &mut Vec<Step>) {
    let numbers: Vec<usize> = (0..bound).collect();
    let mut distinct = || -> Vec<usize> { shuffled(random, &numbers).into_iter().take(count).collect() };
    let (col0, col1, col3, col4) = (distinct(), distinct(), distinct(), distinct());
    for pk in 0..count {
        let null = |value: String, is_null: bool| if is_null { "NULL".to_string() } else { value };
        let float = |random: &mut Random, value: usize| format!("{value}.{}", random.below(100));
        let (one, other) = (float(random, col1[pk]), float(random, col4[pk]));
        let values = [
            null(col0[pk].to_string(), chance(random, 1)),
            null(one, chance(random, 1)),
            format!("'{}'", word(random)),
            null(col3[pk].to_string(), chance(random, 1)),
            other,
            format!("'{}'", word(random)),
        ];
        steps.push(Step::new(format!("INSERT INTO tab0 VALUES({pk},{})", values.join(","))));
    }
}

/// The five tables.
pub fn tables(random: &mut Random, key: &str) -> (Vec<Step>, Domain) {
    let (count, bound) = size(random);
    let mut steps = vec![Step::new(format!("CREATE TABLE tab0(pk INTEGER {key}, {COLUMNS})"))];
    rows(random, count, bound, &mut steps);
    for (number, table) in TABLES.iter().enumerate().skip(1) {
        steps.push(Step::new(format!("CREATE TABLE {table}(pk INTEGER {key}, {COLUMNS})")));
        if !key.is_empty() {
            for at in 0..5 {
                let columns = match number {
                    1 if at == 2 => continue,
                    1 => format!("col{at}"),
                    _ if chance(random, 40) => continue,
                    _ => {
                        let all = shuffled(random, &["col0", "col1", "col3", "col4"]);
                        let one = |column: &&str| {
                            format!("{column}{}", if chance(random, 40) { " DESC" } else { "" })
                        };
                        all.iter().take(1 + at % 3).map(one).collect::<Vec<_>>().join(",")
                    }
                };
                let unique = if number > 1 && chance(random, 25) { "UNIQUE " } else { "" };
                steps
                    .push(Step::new(format!("CREATE {unique}INDEX idx_{table}_{at} ON {table} ({columns})")));
            }
        }
        steps.push(Step::new(format!("INSERT INTO {table} SELECT * FROM tab0")));
    }
    (steps, Domain { bound, queries: true })
}

/// The depth of the next condition: mostly flat.
fn depth(random: &mut Random) -> usize {
    random.pick(&[0, 0, 0, 1, 1, 2, 3, 4])
}

/// Each condition asked of each table in each of these spellings.
fn respelled(random: &mut Random, count: usize, spellings: &[Spelling]) -> Vec<Step> {
    let (mut steps, domain) = tables(random, "PRIMARY KEY");
    while steps.len() < count {
        let depth = depth(random);
        let condition = domain.condition(random, depth);
        for table in TABLES {
            for spelling in spellings {
                let filter = condition.text(table, *spelling, random);
                steps.push(Step::new(format!("SELECT pk FROM {table} WHERE {filter}")));
            }
        }
    }
    steps
}

pub fn between(random: &mut Random, count: usize) -> Vec<Step> {
    respelled(random, count, &[Spelling::Plain, Spelling::Compared])
}

pub fn commute(random: &mut Random, count: usize) -> Vec<Step> {
    respelled(random, count, &[Spelling::Plain, Spelling::Commuted])
}

pub fn lists(random: &mut Random, count: usize) -> Vec<Step> {
    respelled(random, count, &[Spelling::Plain, Spelling::Reordered, Spelling::Alternatives])
}

pub fn ordered(random: &mut Random, count: usize) -> Vec<Step> {
    let (mut steps, domain) = tables(random, "PRIMARY KEY");
    while steps.len() < count {
        let depth = random.pick(&[0, 0, 0, 1, 2]);
        let condition = domain.condition(random, depth);
        for (targets, orders) in [
            ("pk", &["1 DESC", "1"][..]),
            ("pk, col0", &["1 DESC", "2 DESC", "1", "2", "2 DESC,1", "2,1", "1 DESC,2"][..]),
            ("pk, col1, col4", &["3 DESC,1", "2,3 DESC,1"][..]),
        ] {
            for order in orders {
                for table in TABLES {
                    let filter = condition.text(table, Spelling::Plain, random);
                    let text = format!("SELECT {targets} FROM {table} WHERE {filter} ORDER BY {order}");
                    // Where values are equal or NULL, their order is free.
                    let is_total = order.ends_with('1') || order.contains("1 DESC");
                    steps.push(Step::sorted(text, if is_total { Sort::None } else { Sort::Rows }));
                }
            }
        }
    }
    steps
}

pub fn delete(random: &mut Random, count: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    while steps.len() < count {
        let key = random.pick(&["", "PRIMARY KEY"]);
        let (more, domain) = tables(random, key);
        steps.extend(more);
        for _ in 0..6 {
            let depth = depth(random);
            let condition = domain.condition(random, depth);
            for table in TABLES {
                let filter = condition.text(table, Spelling::Plain, random);
                steps.push(Step::new(format!("DELETE FROM {table} WHERE {filter}")));
                steps.push(Step::new(format!("SELECT pk FROM {table} WHERE {filter}")));
                steps.push(Step::new(format!("SELECT pk FROM {table} WHERE NOT ({filter})")));
            }
        }
        steps.extend(TABLES.map(|table| Step::new(format!("DROP TABLE {table}"))));
    }
    steps
}

pub fn random(random: &mut Random, count: usize) -> Vec<Step> {
    let (mut steps, _) = tables(random, "PRIMARY KEY");
    while steps.len() < count {
        let (head, tail) = expressions::over_indexed(random);
        for table in TABLES {
            steps.push(Step::new(format!("{head} {table} {tail}")));
        }
    }
    steps
}

pub fn views(random: &mut Random, count: usize) -> Vec<Step> {
    let (mut steps, domain) = tables(random, "PRIMARY KEY");
    let mut number = 0;
    while steps.len() < count {
        number += 1;
        let depth = depth(random);
        let condition = domain.condition(random, depth);
        for table in TABLES {
            let filter = condition.text(table, Spelling::Plain, random);
            let view = |at: usize| format!("view_{at}_{table}_{number}");
            let (first, second, third) = (view(1), view(2), view(3));
            let one = format!("SELECT pk, col0 FROM {table} WHERE {filter}");
            let other = format!("SELECT pk, col0 FROM {table} WHERE NOT ({filter})");
            for text in [
                format!("DROP VIEW IF EXISTS {first}"),
                format!("CREATE VIEW {first} AS {one}"),
                format!("CREATE VIEW {second} AS {other}"),
                format!("CREATE VIEW {third} AS SELECT pk FROM {first}"),
                one.clone(),
                format!("SELECT pk, col0 FROM {first}"),
                format!("SELECT pk, col0 FROM {second}"),
                format!("{one} UNION ALL {other}"),
                format!("SELECT pk, col0 FROM {first} UNION ALL SELECT pk, col0 FROM {second}"),
                format!("{one} UNION {other}"),
                format!("SELECT pk, col0 FROM {first} UNION SELECT pk, col0 FROM {second}"),
                format!("SELECT pk FROM ( {one} ) AS {table}_{number}"),
                format!("SELECT * FROM {third}"),
                format!("DROP VIEW {third}"),
                format!("DROP VIEW {second}"),
                format!("DROP VIEW {first}"),
            ] {
                steps.push(Step::new(text));
            }
        }
    }
    steps
}
