//! Random statements over all that `docs/sql.md` covers: expressions of every type, queries of every shape, statements that
//! write, and scripts of sessions.
//!
//! A statement's answer is determined but for the order of equal rows: writes meet each row once, windows are ordered by keys.

pub mod queries;
pub mod schema;
pub mod scripts;
pub mod templates;
pub mod writes;

use crate::support::samples::Random;
use templates::{forms, kinds, literals, patterns, risky};

/// A column that an expression may name, and its type.
#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub kind: &'static str,
}

/// Writes statements from random numbers.
pub struct Generator {
    pub random: Random,
    pub aliases: usize,
    /// True if the statement may still contain a form that can fail.
    pub may_fail: bool,
}

impl Generator {
    pub fn new(seed: u64) -> Generator {
        Generator { random: Random(seed), aliases: 0, may_fail: false }
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.random.below(limit)
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        self.random.pick(from)
    }

    pub fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("q{}", self.aliases)
    }

    pub fn kind(&mut self) -> &'static str {
        let kinds = kinds();
        // Numbers and texts are half of all.
        match self.chance(50) {
            true => self.pick(&["int4", "int4", "int8", "numeric", "text", "text", "bool", "float8"]),
            false => self.pick(&kinds),
        }
    }

    pub fn literal(&mut self, kind: &str) -> String {
        self.pick(literals(kind)).to_string()
    }

    /// A column of the type, if there is one.
    pub fn column(&mut self, kind: &str, scope: &[Column]) -> Option<String> {
        let columns: Vec<&Column> = scope.iter().filter(|column| column.kind == kind).collect();
        if columns.is_empty() { None } else { Some(columns[self.below(columns.len())].name.clone()) }
    }

    /// An expression of a type over the columns of a scope.
    pub fn expression(&mut self, kind: &str, scope: &[Column], depth: usize) -> String {
        if (depth == 0 || self.chance(30))
            && let Some(column) = self.column(kind, scope)
        {
            return column;
        }
        if depth == 0 {
            return self.literal(kind);
        }
        if self.may_fail && self.chance(25) && !risky(kind).is_empty() {
            self.may_fail = false;
            let form = self.pick(risky(kind));
            return self.fill(form, scope, depth - 1);
        }
        if self.chance(12) {
            return self.choice(kind, scope, depth - 1);
        }
        let form = self.pick(forms(kind));
        self.fill(form, scope, depth - 1)
    }

    /// A form that any type has: CASE and its kin.
    fn choice(&mut self, kind: &str, scope: &[Column], depth: usize) -> String {
        let (one, other) = (self.expression(kind, scope, depth), self.expression(kind, scope, depth));
        if kind == "json" {
            let condition = self.expression("bool", scope, depth);
            return format!("(case when {condition} then {one} else {other} end)");
        }
        match self.below(6) {
            0 => {
                let condition = self.expression("bool", scope, depth);
                format!("(case when {condition} then {one} else {other} end)")
            }
            1 => format!("coalesce({one}, {other})"),
            2 => format!("nullif({one}, {other})"),
            3 => format!("(select {one})"),
            4 => format!("(array[{one}, {other}])[{}]", 1 + self.below(2)),
            _ => {
                let (operand, label) = (self.kind(), self.expression("bool", scope, depth));
                let value = self.expression(operand, scope, 0);
                match operand {
                    "json" => format!("(case {label} when true then {one} when false then {other} end)"),
                    _ => format!(
                        "(case {value} when {} then {one} when {} then {other} end)",
                        self.literal(operand),
                        self.literal(operand)
                    ),
                }
            }
        }
    }

    /// Replaces the placeholders of a form.
    pub fn fill(&mut self, form: &str, scope: &[Column], depth: usize) -> String {
        let mut text = String::new();
        let mut rest = form;
        while let Some(at) = rest.find('{') {
            text.push_str(&rest[..at]);
            let end = rest[at..].find('}').map(|end| at + end);
            let filled = end.and_then(|end| self.placeholder(&rest[at + 1..end], scope, depth));
            match (filled, end) {
                (Some(filled), Some(end)) => {
                    text.push_str(&filled);
                    rest = &rest[end + 1..];
                }
                _ => {
                    text.push('{');
                    rest = &rest[at + 1..];
                }
            }
        }
        text.push_str(rest);
        text
    }

    fn placeholder(&mut self, name: &str, scope: &[Column], depth: usize) -> Option<String> {
        let filled = match name {
            "any" => {
                let kind = self.kind();
                self.expression(kind, scope, depth.min(1))
            }
            "any:plain" => self.pick(&["1", "'x'::text", "null::int", "true", "2.50"]).to_string(),
            "count" => self.below(5).to_string(),
            "count0to3" => self.below(4).to_string(),
            "month" => (1 + self.below(12)).to_string(),
            "some" => self.pick(&["1", "2", "3", "7", "-2", "10"]).to_string(),
            "some_positive" => (1 + self.below(4)).to_string(),
            "re" => self.pick(patterns()).to_string(),
            "numeric:small" => {
                self.pick(&["1.5", "-2.25", "0.005", "123.456", "null::numeric", "7"]).to_string()
            }
            "numeric:positive" => self.pick(&["1.5", "10", "0.25", "100", "2.718281828"]).to_string(),
            "interval:day" => self.pick(&["interval '2 hours'", "interval '-03:30'"]).to_string(),
            "text:key" => self.pick(&["'k1'", "'Zz'", "'ä'"]).to_string(),
            "text:digits" => self.pick(&["'{1,2}'", "'{}'", "'{4,null}'"]).to_string(),
            "text_pairs" => self.pick(&["'{a,1,b,2}'", "array['x','y'], array['1',null]"]).to_string(),
            kind if !literals(kind).is_empty() => self.expression(kind, scope, depth),
            _ => return None,
        };
        Some(filled)
    }

    /// A value of another spelling or type where PostgreSQL converts implicitly, or a text without a type.
    pub fn loose(&mut self, kind: &str, scope: &[Column]) -> String {
        if self.chance(30) {
            return match kind {
                "int2" | "int4" | "int8" => self.pick(&["'1'", "null", "' 7 '", "2.5", "1.0", "'x'"]),
                "numeric" | "float8" => self.pick(&["'1.50'", "null", "3", "'inf'", "1e2"]),
                "bool" => self.pick(&["'yes'", "null", "'f'", "'maybe'"]),
                "date" | "timestamp" | "timestamptz" => {
                    self.pick(&["'2024-01-31'", "null", "'infinity'", "'today?'"])
                }
                _ => self.pick(&["'a'", "null", "''", "'1'"]),
            }
            .to_string();
        }
        let kind = match self.chance(50) {
            true => self.kind(),
            false => kind_name(kind),
        };
        self.expression(kind, scope, 0)
    }

    /// An expression of operands whose types need not fit: what PostgreSQL says of it is compared, mostly an error.
    pub fn mixed(&mut self, scope: &[Column]) -> String {
        let kind = self.kind();
        let (one, other, third) = (self.loose(kind, scope), self.loose(kind, scope), self.loose(kind, scope));
        let operator = self.pick(templates::list("mixed", "operators"));
        let function = self.pick(templates::list("mixed", "functions"));
        match self.below(9) {
            0..=2 => format!("{one} {operator} {other}"),
            3 => format!("case when {one} is null then {other} else {third} end"),
            4 => format!("coalesce({one}, {other}, {third})"),
            5 => format!("array[{one}, {other}]"),
            6 => format!("{one} in ({other}, {third})"),
            7 => match self.below(3) {
                0 => format!("{function}({one})"),
                1 => format!("{function}({one}, {other})"),
                _ => format!("{function}({one}, {other}, {third})"),
            },
            _ => format!("({one}, {other}) = ({third}, {})", self.loose(kind, scope)),
        }
    }
}

/// The name of a type with the lifetime of the program.
pub fn kind_name(kind: &str) -> &'static str {
    kinds().into_iter().find(|name| *name == kind).unwrap_or("int4")
}
