//! Random statements on random rows, compared with PostgreSQL 15: rows, and SQLSTATEs. `HEDDLE_STATEMENTS` says how many,
//! `HEDDLE_SEED` repeats a run.

use crate::support::oracle::{Oracle, Session};
use crate::support::samples::Random;
use heddle_sql::{Connection, Sql};
use heddledb::{Database, Durability, Options};

/// The types of generated expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Int,
    Big,
    Number,
    Text,
    Bool,
}

const KINDS: [Kind; 5] = [Kind::Int, Kind::Big, Kind::Number, Kind::Text, Kind::Bool];

/// A table: its name and its columns.
const TABLES: &[(&str, &[(&str, Kind)])] = &[
    ("t", &[("a", Kind::Int), ("b", Kind::Int), ("c", Kind::Big), ("d", Kind::Text), ("e", Kind::Number)]),
    ("u", &[("x", Kind::Int), ("y", Kind::Text), ("z", Kind::Number), ("w", Kind::Bool)]),
    ("v", &[("k", Kind::Text), ("n", Kind::Int), ("m", Kind::Big), ("o", Kind::Bool)]),
];

const SCHEMA: &[&str] = &[
    "create table t (a int primary key, b int, c bigint, d text, e numeric(10,2))",
    "create index t_b on t (b)",
    "create table u (x int, y text, z numeric, w boolean)",
    "create index u_x on u (x, y)",
    "create table v (k text, n int, m bigint not null, o boolean, primary key (k, m))",
];

/// A column that an expression may name.
#[derive(Clone)]
struct Column {
    name: String,
    kind: Kind,
}

struct Generator {
    random: Random,
    aliases: usize,
}

impl Generator {
    fn below(&mut self, limit: usize) -> usize {
        self.random.below(limit)
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        let at = self.below(of.len());
        &of[at]
    }

    fn literal(&mut self, kind: Kind) -> String {
        if self.chance(6) {
            return match kind {
                Kind::Int => "null::int",
                Kind::Big => "null::bigint",
                Kind::Number => "null::numeric",
                Kind::Text => "null::text",
                Kind::Bool => "null::boolean",
            }
            .to_string();
        }
        match kind {
            Kind::Int => format!("{}", self.below(12) as i64 - 3),
            Kind::Big => format!("{}::bigint", self.below(30) as i64 - 5),
            Kind::Number => format!("{}.{}", self.below(6), self.below(100)),
            Kind::Text => format!("'{}'", self.pick(&["a", "b", "ab", "", "B", "z z", "ä"])),
            Kind::Bool => self.pick(&["true", "false"]).to_string(),
        }
    }

    fn scalar(&mut self, kind: Kind, scope: &[Column], depth: usize) -> String {
        let columns: Vec<Column> = scope.iter().filter(|column| column.kind == kind).cloned().collect();
        if !columns.is_empty() && (depth == 0 || self.chance(50)) {
            return self.pick(&columns).name.clone();
        }
        if depth == 0 {
            return self.literal(kind);
        }
        if self.chance(15) {
            let condition = self.condition(scope, depth - 1);
            let (one, other) = (self.scalar(kind, scope, depth - 1), self.scalar(kind, scope, depth - 1));
            return match self.below(3) {
                0 => format!("case when {condition} then {one} else {other} end"),
                1 => format!("coalesce({one}, {other})"),
                _ => format!("nullif({one}, {other})"),
            };
        }
        match kind {
            Kind::Int | Kind::Big | Kind::Number if self.chance(70) => {
                let (one, other) = (self.scalar(kind, scope, depth - 1), self.scalar(kind, scope, depth - 1));
                match self.below(5) {
                    0 => format!("({one} - {other})"),
                    1 => format!("greatest({one}, {other})"),
                    2 => format!("least({one}, {other})"),
                    _ => format!("({one} + {other})"),
                }
            }
            Kind::Bool => format!("({})", self.condition(scope, depth - 1)),
            _ => self.literal(kind),
        }
    }

    fn condition(&mut self, scope: &[Column], depth: usize) -> String {
        let kind = *self.pick(&KINDS[..4]);
        let one = self.scalar(kind, scope, depth.min(1));
        match self.below(if depth == 0 { 4 } else { 11 }) {
            0 => format!("{one} is {}null", if self.chance(50) { "not " } else { "" }),
            1 => {
                let list: Vec<String> = (0..=self.below(3)).map(|_| self.literal(kind)).collect();
                format!("{one} {}in ({})", if self.chance(30) { "not " } else { "" }, list.join(", "))
            }
            2 => format!("{one} between {} and {}", self.literal(kind), self.scalar(kind, scope, 0)),
            3..=5 => {
                let operator = *self.pick(&["=", "=", "<>", "<", "<=", ">", ">="]);
                format!("{one} {operator} {}", self.scalar(kind, scope, depth.min(1)))
            }
            6 => format!("({} and {})", self.condition(scope, depth - 1), self.condition(scope, depth - 1)),
            7 => format!("({} or {})", self.condition(scope, depth - 1), self.condition(scope, depth - 1)),
            8 => format!("not ({})", self.condition(scope, depth - 1)),
            9 => format!(
                "{one} is {}distinct from {}",
                if self.chance(50) { "not " } else { "" },
                self.scalar(kind, scope, 0)
            ),
            _ => self.subquery_condition(kind, &one, scope, depth),
        }
    }

    fn subquery_condition(&mut self, kind: Kind, one: &str, scope: &[Column], depth: usize) -> String {
        let (from, inner) = self.table();
        let both: Vec<Column> = inner.iter().chain(scope).cloned().collect();
        let correlated = self.chance(60);
        let filter = self.condition(if correlated { &both } else { &inner }, depth - 1);
        let not = if self.chance(40) { "not " } else { "" };
        match self.below(4) {
            0 => format!("{not}exists (select 1 from {from} where {filter})"),
            1 => {
                let value = self.scalar(kind, &inner, 0);
                format!("{one} {not}in (select {value} from {from} where {filter})")
            }
            2 => {
                let value = self.scalar(kind, &inner, 0);
                let operator = *self.pick(&["=", "<", ">=", "<>"]);
                let quantifier = *self.pick(&["any", "all"]);
                format!("{one} {operator} {quantifier} (select {value} from {from} where {filter})")
            }
            _ => {
                let value = self.scalar(kind, &inner, 0);
                format!("{one} >= (select max({value}) from {from} where {filter})")
            }
        }
    }

    /// A table under a fresh alias, with its columns.
    fn table(&mut self) -> (String, Vec<Column>) {
        let (name, columns) = *self.pick(TABLES);
        self.aliases += 1;
        let alias = format!("q{}", self.aliases);
        let column = |(name, kind): &(&str, Kind)| Column { name: format!("{alias}.{name}"), kind: *kind };
        (format!("{name} {alias}"), columns.iter().map(column).collect())
    }

    /// An item of FROM: a table, a query, or a join.
    fn item(&mut self, depth: usize) -> (String, Vec<Column>) {
        match self.below(if depth == 0 { 1 } else { 10 }) {
            0..=4 => self.table(),
            5 => {
                let (text, kinds) = self.select(depth - 1, &[], false);
                self.aliases += 1;
                let alias = format!("q{}", self.aliases);
                let names: Vec<String> = (0..kinds.len()).map(|at| format!("c{at}")).collect();
                let column =
                    |(name, kind): (&String, &Kind)| Column { name: format!("{alias}.{name}"), kind: *kind };
                let columns = names.iter().zip(&kinds).map(column).collect();
                (format!("({text}) {alias}({})", names.join(", ")), columns)
            }
            _ => {
                let (left, mut columns) = self.item(depth - 1);
                let (right, more) = self.item(depth - 1);
                let kind = *self.pick(&["join", "join", "left join", "right join", "full join"]);
                let on = self.join_condition(&columns, &more, kind == "full join");
                columns.extend(more);
                (format!("({left} {kind} {right} on {on})"), columns)
            }
        }
    }

    fn join_condition(&mut self, left: &[Column], right: &[Column], only_equal: bool) -> String {
        let one = self.pick(left).clone();
        let partners: Vec<Column> = right.iter().filter(|column| column.kind == one.kind).cloned().collect();
        let equal = match partners.is_empty() {
            true => return "true".to_string(),
            false => format!("{} = {}", one.name, self.pick(&partners).name),
        };
        if only_equal || self.chance(70) {
            return equal;
        }
        let both: Vec<Column> = left.iter().chain(right).cloned().collect();
        format!("{equal} and {}", self.condition(&both, 1))
    }

    /// A SELECT and the kinds of its columns; `ordered`: by all of them, perhaps with a limit.
    fn select(&mut self, depth: usize, outer: &[Column], ordered: bool) -> (String, Vec<Kind>) {
        let (mut from, mut columns) = self.item(depth);
        if self.chance(25) {
            let (more, other) = self.item(depth.saturating_sub(1));
            from = format!("{from}, {more}");
            columns.extend(other);
        }
        let scope: Vec<Column> = columns.iter().chain(outer).cloned().collect();
        let filter =
            if self.chance(75) { format!(" where {}", self.condition(&scope, depth)) } else { String::new() };
        let (targets, rest, kinds) = match self.below(10) {
            0..=2 => self.grouped(&columns, depth),
            3 => self.windowed(&columns),
            _ => self.plain(&columns, depth),
        };
        let distinct = if self.chance(15) { "distinct " } else { "" };
        let mut text = format!("select {distinct}{} from {from}{filter}{rest}", targets.join(", "));
        if ordered {
            let keys: Vec<String> = (1..=kinds.len())
                .map(|at| format!("{at}{}", self.pick(&["", " desc", " nulls first", " desc nulls last"])))
                .collect();
            text.push_str(&format!(" order by {}", keys.join(", ")));
            if self.chance(40) {
                text.push_str(&format!(" limit {}", self.below(8)));
            }
            if self.chance(20) {
                text.push_str(&format!(" offset {}", self.below(4)));
            }
        }
        (text, kinds)
    }

    fn plain(&mut self, columns: &[Column], depth: usize) -> (Vec<String>, String, Vec<Kind>) {
        let (mut targets, mut kinds) = (Vec::new(), Vec::new());
        for _ in 0..=self.below(3) {
            let kind = *self.pick(&KINDS);
            let target = match self.chance(12) {
                true => {
                    let (from, inner) = self.table();
                    let both: Vec<Column> = inner.iter().chain(columns).cloned().collect();
                    let (value, filter) = (self.scalar(Kind::Int, &inner, 0), self.condition(&both, 1));
                    kinds.push(Kind::Big);
                    format!("(select sum({value}) from {from} where {filter})")
                }
                false => {
                    kinds.push(kind);
                    self.scalar(kind, columns, depth.min(2))
                }
            };
            targets.push(target);
        }
        (targets, String::new(), kinds)
    }

    fn aggregate(&mut self, columns: &[Column]) -> (String, Kind) {
        let filter = match self.chance(15) {
            true => format!(" filter (where {})", self.condition(columns, 0)),
            false => String::new(),
        };
        match self.below(6) {
            0 => (format!("count(*){filter}"), Kind::Big),
            1 => {
                let kind = *self.pick(&KINDS);
                let distinct = if self.chance(30) { "distinct " } else { "" };
                (format!("count({distinct}{}){filter}", self.scalar(kind, columns, 1)), Kind::Big)
            }
            2 => (format!("sum({}){filter}", self.scalar(Kind::Int, columns, 1)), Kind::Big),
            3 => (format!("sum({}){filter}", self.scalar(Kind::Number, columns, 1)), Kind::Number),
            _ => {
                let kind = *self.pick(&KINDS[..4]);
                let function = *self.pick(&["min", "max"]);
                (format!("{function}({}){filter}", self.scalar(kind, columns, 1)), kind)
            }
        }
    }

    fn grouped(&mut self, columns: &[Column], _depth: usize) -> (Vec<String>, String, Vec<Kind>) {
        let (mut targets, mut kinds, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.below(3) {
            let column = self.pick(columns).clone();
            kinds.push(column.kind);
            targets.push(column.name.clone());
            keys.push(column.name);
        }
        for _ in 0..=self.below(2) {
            let (text, kind) = self.aggregate(columns);
            targets.push(text);
            kinds.push(kind);
        }
        let mut rest = match (keys.is_empty(), self.below(6)) {
            (true, _) => String::new(),
            (false, 0) => format!(" group by rollup ({})", keys.join(", ")),
            (false, 1) => format!(" group by cube ({})", keys.join(", ")),
            (false, _) => format!(" group by {}", keys.join(", ")),
        };
        if self.chance(20) {
            let (text, _) = self.aggregate(columns);
            rest.push_str(&format!(" having {text} is not null"));
        }
        (targets, rest, kinds)
    }

    fn windowed(&mut self, columns: &[Column]) -> (Vec<String>, String, Vec<Kind>) {
        let (key, part) = (self.pick(columns).clone(), self.pick(columns).clone());
        let over = match self.below(3) {
            0 => format!("(partition by {} order by {})", part.name, key.name),
            1 => format!("(order by {} desc)", key.name),
            _ => format!("(partition by {})", part.name),
        };
        let value = self.scalar(Kind::Int, columns, 0);
        let call = match self.below(5) {
            0 => format!("rank() over {over}"),
            1 => format!("dense_rank() over {over}"),
            2 => format!("count({value}) over {over}"),
            3 => format!("sum({value}) over {over}"),
            _ => format!("max({value}) over {over}"),
        };
        // The kind matters to queries around only: they may compare it with numbers of any width.
        (vec![key.name, call], String::new(), vec![key.kind, Kind::Big])
    }

    fn query(&mut self) -> String {
        if self.chance(12) {
            let (left, kinds) = self.select(1, &[], false);
            let operation =
                *self.pick(&["union", "union all", "intersect", "except", "except all", "intersect all"]);
            let targets: Vec<String> = kinds.iter().map(|kind| self.literal(*kind)).collect();
            return format!("{left} {operation} select {} order by 1", targets.join(", "));
        }
        let depth = self.below(4);
        self.select(depth, &[], true).0
    }

    fn row(&mut self, columns: &[(&str, Kind)]) -> String {
        let values: Vec<String> = columns.iter().map(|(_, kind)| self.literal(*kind)).collect();
        format!("({})", values.join(", "))
    }

    fn write(&mut self) -> String {
        let (name, columns) = *self.pick(TABLES);
        let scope: Vec<Column> = columns
            .iter()
            .map(|(column, kind)| Column { name: format!("{name}.{column}"), kind: *kind })
            .collect();
        let filter = self.condition(&scope, 2);
        let (column, kind) = *self.pick(columns);
        let value = self.scalar(kind, &scope, 1);
        match self.below(7) {
            0 | 1 => format!("insert into {name} values {}, {}", self.row(columns), self.row(columns)),
            2 => format!("insert into {name} values {} on conflict do nothing", self.row(columns)),
            3 if name == "t" => format!(
                "insert into t values {} on conflict (a) do update set b = t.b + excluded.b, d = excluded.d",
                self.row(columns)
            ),
            4 => format!("delete from {name} where {filter} and {}", self.condition(&scope, 1)),
            5 => {
                let (from, other) = self.table();
                let both: Vec<Column> = scope.iter().chain(&other).cloned().collect();
                let on = self.join_condition(&scope, &other, true);
                format!("delete from {name} using {from} where {on} and {}", self.condition(&both, 1))
            }
            _ => {
                let filter = self.single_row(name, column).unwrap_or(filter);
                format!("update {name} set {column} = {value} where {filter}")
            }
        }
    }

    /// For a column of a key, a condition that one row meets: PostgreSQL checks keys row by row, in the order in which
    /// the rows happen to lie.
    fn single_row(&mut self, table: &str, column: &str) -> Option<String> {
        match (table, column) {
            ("t", "a") => Some(format!("a = {}", self.literal(Kind::Int))),
            ("v", "k" | "m") => {
                Some(format!("k = {} and m = {}", self.literal(Kind::Text), self.literal(Kind::Big)))
            }
            _ => None,
        }
    }
}

/// The answer of a statement: its rows or its SQLSTATE.
fn ours(connection: &mut Connection, text: &str) -> Result<Vec<Vec<Option<String>>>, String> {
    let results = connection.query(text).map_err(|error| error.state().as_str().to_string())?;
    results.iter().map(|result| connection.text_rows(result)).collect::<Result<Vec<_>, _>>().map_or_else(
        |error| Err(error.state().as_str().to_string()),
        |rows| Ok(rows.into_iter().flatten().collect()),
    )
}

fn theirs(session: &mut Session, text: &str) -> Result<Vec<Vec<Option<String>>>, String> {
    let answer = session.run(text);
    if answer.sqlstate == "00000" { Ok(answer.rows) } else { Err(answer.sqlstate) }
}

fn compare(
    connection: &mut Connection,
    session: &mut Session,
    text: &str,
    (differences, failed): (&mut Vec<String>, &mut u64),
) {
    let (mut ours, mut theirs) = (ours(connection, text), theirs(session, text));
    // Where values are equal, their order is free; and which of 1.5 and 1.50 stands for both, where a set or min()
    // keeps one.
    for rows in [&mut ours, &mut theirs].into_iter().flatten() {
        rows.iter_mut().flatten().flatten().for_each(trim_zeros);
        rows.sort();
    }
    *failed += u64::from(theirs.is_err());
    if ours != theirs {
        let short = |answer: &Result<Vec<Vec<Option<String>>>, String>| {
            let text = format!("{answer:?}");
            text.chars().take(400).collect::<String>()
        };
        differences.push(format!("{text}\n  ours   {}\n  theirs {}", short(&ours), short(&theirs)));
    }
}

/// A decimal number without the zeros at its end.
fn trim_zeros(text: &mut String) {
    let is_decimal =
        text.contains('.') && text.bytes().all(|byte| byte.is_ascii_digit() || b".-".contains(&byte));
    if is_decimal {
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn random_statements_answer_as_postgresql_does() {
    let Some(oracle) = Oracle::start() else { return };
    let mut session = oracle.connect();
    let database = Database::in_memory_with(Options::default().durability(Durability::None)).unwrap();
    let mut connection = Sql::new(&database).unwrap().connect(Default::default()).unwrap();
    let seed = number("HEDDLE_SEED", 1);
    let mut generator = Generator { random: Random(seed), aliases: 0 };
    let (mut differences, mut failed) = (Vec::new(), 0);
    for text in SCHEMA {
        compare(&mut connection, &mut session, text, (&mut differences, &mut failed));
    }
    for (name, columns) in TABLES {
        for _ in 0..25 {
            let text = format!("insert into {name} values {} on conflict do nothing", generator.row(columns));
            compare(&mut connection, &mut session, &text, (&mut differences, &mut failed));
        }
    }
    for count in 0..number("HEDDLE_STATEMENTS", 400) {
        let text = if count % 8 == 7 { generator.write() } else { generator.query() };
        compare(&mut connection, &mut session, &text, (&mut differences, &mut failed));
        if count % 8 == 7 {
            for (name, _) in TABLES {
                compare(
                    &mut connection,
                    &mut session,
                    &format!("select * from {name}"),
                    (&mut differences, &mut failed),
                );
            }
        }
        if differences.len() >= 5 {
            break;
        }
    }
    println!("seed {seed}: {failed} of {} statements failed on both sides", number("HEDDLE_STATEMENTS", 400));
    assert!(failed * 4 < number("HEDDLE_STATEMENTS", 400), "too many statements fail to compare much");
    assert!(differences.is_empty(), "seed {seed}:\n{}", differences.join("\n"));
}
