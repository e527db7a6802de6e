//! Queries: joins, LATERAL, grouping sets, windows, set operations, recursion, subqueries in every place.

mod from_items;
mod grouping;
mod nested;
mod special;

use super::{Column, Generator};

/// Types whose values can be compared with `<`, so that they sort and group.
const ORDERED: [&str; 12] = [
    "int4",
    "int8",
    "numeric",
    "text",
    "bool",
    "date",
    "timestamp",
    "interval",
    "jsonb",
    "int4[]",
    "mood",
    "bytea",
];

impl Generator {
    /// A query whose result is determined but for the order of rows.
    pub fn query(&mut self) -> String {
        self.may_fail = false;
        match self.below(28) {
            0..=3 => self.plain_query(),
            4..=6 => self.grouped_query(),
            7..=9 => self.window_query(),
            10 | 11 => self.set_query(),
            12 | 13 => self.lateral_query(),
            14 => self.recursive_query(),
            15 | 16 => self.with_query(),
            17..=19 => self.subquery_query(),
            20 => self.values_query(),
            21 => self.distinct_on_query(),
            22 => self.risky_query(),
            23 => self.operators_query(),
            24 => self.frames_query(),
            25 => self.regex_query(),
            26 => self.template_query(),
            _ => self.mixed_query(),
        }
    }

    fn targets(&mut self, scope: &[Column], count: usize, depth: usize) -> Vec<String> {
        (0..count)
            .map(|_| {
                let kind = self.kind();
                self.expression(kind, scope, depth)
            })
            .collect()
    }

    pub fn filter(&mut self, scope: &[Column], percent: usize) -> String {
        match self.chance(percent) {
            true => {
                let depth = 1 + self.below(3);
                format!(" where {}", self.expression("bool", scope, depth))
            }
            false => String::new(),
        }
    }

    /// ORDER BY all columns of the result, perhaps with a limit.
    fn ordered(&mut self, count: usize) -> String {
        let keys: Vec<String> = (1..=count)
            .map(|at| {
                format!("{at}{}", self.pick(&["", " desc", " nulls first", " desc nulls last", " asc"]))
            })
            .collect();
        let limit = self.pick(&[
            "",
            "",
            " limit 3",
            " offset 2",
            " limit 4 offset 1",
            " fetch first 2 rows only",
            " limit null",
            " limit all",
            " offset 1 rows fetch next row only",
            " limit (select 2)",
        ]);
        format!(" order by {}{limit}", keys.join(", "))
    }

    fn plain_query(&mut self) -> String {
        let depth = self.below(3);
        let (from, scope) = self.joined(depth);
        let kinds: Vec<&'static str> = (0..1 + self.below(3)).map(|_| self.pick(&ORDERED)).collect();
        let targets: Vec<String> = kinds.iter().map(|kind| self.expression(kind, &scope, 3)).collect();
        let filter = self.filter(&scope, 70);
        let distinct = self.pick(&["", "", "", "distinct ", "all "]);
        let tail = if self.chance(50) { self.ordered(targets.len()) } else { String::new() };
        format!("select {distinct}{} from {from}{filter}{tail}", targets.join(", "))
    }

    fn set_query(&mut self) -> String {
        let kinds: Vec<&'static str> = (0..1 + self.below(2)).map(|_| self.pick(&ORDERED[..9])).collect();
        let arm = |generator: &mut Generator| {
            if generator.chance(15) {
                let values: Vec<String> = kinds.iter().map(|kind| generator.loose(kind, &[])).collect();
                return format!("select {}", values.join(", "));
            }
            let (from, scope) = generator.relation();
            let targets: Vec<String> =
                kinds.iter().map(|kind| generator.expression(kind, &scope, 1)).collect();
            let filter = generator.filter(&scope, 50);
            format!("select {} from {from}{filter}", targets.join(", "))
        };
        let operator = |generator: &mut Generator| {
            generator.pick(&[
                "union",
                "union all",
                "intersect",
                "except",
                "intersect all",
                "except all",
                "union distinct",
            ])
        };
        let mut text = arm(self);
        for _ in 0..1 + self.below(3) {
            let other = arm(self);
            text = match self.below(4) {
                0 => format!(
                    "({text}) {} ({other} order by {} limit 5)",
                    operator(self),
                    (1..=kinds.len()).map(|at| at.to_string()).collect::<Vec<_>>().join(", ")
                ),
                1 => format!("{other} {} ({text})", operator(self)),
                _ => format!("{text} {} {other}", operator(self)),
            };
        }
        if self.chance(50) {
            text += &self.ordered(kinds.len());
        }
        text
    }

    fn values_query(&mut self) -> String {
        let kinds: Vec<&'static str> = (0..2).map(|_| self.kind()).collect();
        let rows: Vec<String> = (0..1 + self.below(4))
            .map(|_| format!("({}, {})", self.loose_or_exact(kinds[0]), self.loose_or_exact(kinds[1])))
            .collect();
        match self.below(3) {
            0 => format!("values {}", rows.join(", ")),
            1 => format!("select * from (values {}) as v(a, b) where a is not null", rows.join(", ")),
            _ => format!("select count(*), max(b::text) from (values {}) as v(a, b)", rows.join(", ")),
        }
    }

    fn loose_or_exact(&mut self, kind: &'static str) -> String {
        match self.chance(15) {
            true => self.loose(kind, &[]),
            false => self.expression(kind, &[], 1),
        }
    }

    fn distinct_on_query(&mut self) -> String {
        let (from, scope) = self.relation();
        let (key, rest) = (self.pick(&scope[..2]).name, scope[scope.len() - 1].name.clone());
        let first = scope[0].name.clone();
        let order = self.pick(&["", " desc", " desc nulls last", " nulls first"]);
        match self.chance(50) {
            true => format!(
                "select distinct on ({key}) {key}, {first} from {from} order by {key}{order}, {first}"
            ),
            false => format!(
                "select distinct on ({key} is null) {key}, {rest} is null from {from} order by {key} is null, 1{order}, 2"
            ),
        }
    }

    /// Each row's value of an expression that can fail.
    fn risky_query(&mut self) -> String {
        // Which of two errors comes first depends on the order of rows: tables only, not views.
        let name = self.pick(&["w", "x", "y", "z"]);
        let (from, _, scope) = self.relation_named(name);
        self.may_fail = true;
        let kind = self.kind();
        let target = self.expression(kind, &scope, 2);
        self.may_fail = false;
        format!("select {target} from {from}")
    }

    fn mixed_query(&mut self) -> String {
        let (from, scope) = self.relation();
        let target = self.mixed(&scope);
        format!("select {target} from {from}")
    }

    /// An expression over no table at all.
    pub fn constant(&mut self) -> String {
        self.may_fail = self.chance(30);
        if self.chance(25) {
            return format!("select {}", self.mixed(&[]));
        }
        let kind = self.kind();
        let depth = 1 + self.below(4);
        let text = format!("select {}", self.expression(kind, &[], depth));
        self.may_fail = false;
        text
    }
}

fn self_kind(kind: &str) -> &'static str {
    super::kind_name(kind)
}
