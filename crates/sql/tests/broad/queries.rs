//! Queries: joins, LATERAL, grouping sets, windows, set operations, recursion, subqueries in every place.

use super::{Column, Generator, templates};

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
        match self.below(24) {
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

    /// Relations joined, with their columns.
    pub fn joined(&mut self, depth: usize) -> (String, Vec<Column>) {
        let (left, mut columns) = match depth > 1 && self.chance(50) {
            true => self.joined(depth - 1),
            false => self.relation(),
        };
        if depth == 0 || self.chance(30) {
            return (left, columns);
        }
        let (right, more) = match self.below(5) {
            0 => self.derived(),
            _ => self.relation(),
        };
        let kind = self.pick(&[
            "join",
            "left join",
            "right join",
            "full join",
            "cross join",
            "inner join",
            "left outer join",
        ]);
        let text = match kind {
            "cross join" => format!("({left} cross join {right})"),
            "full join" => format!("({left} full join {right} on {})", self.equality(&columns, &more)),
            _ => {
                let mut on = self.equality(&columns, &more);
                if self.chance(30) {
                    let both: Vec<Column> = columns.iter().chain(&more).cloned().collect();
                    let condition = self.expression("bool", &both, 2);
                    on = format!("{on} and {condition}");
                }
                format!("({left} {kind} {right} on {on})")
            }
        };
        columns.extend(more);
        (text, columns)
    }

    fn equality(&mut self, left: &[Column], right: &[Column]) -> String {
        let kind = self.pick(&["int4", "int4", "text", "numeric", "date"]);
        match (self.column(kind, left), self.column(kind, right)) {
            (Some(one), Some(other)) => format!("{one} = {other}"),
            _ => match (self.column("int4", left), self.column("int4", right)) {
                (Some(one), Some(other)) => format!("{one} = {other}"),
                _ => "true".to_string(),
            },
        }
    }

    /// A query in FROM under an alias, with its columns.
    fn derived(&mut self) -> (String, Vec<Column>) {
        let (from, scope) = self.relation();
        let alias = self.alias();
        let kinds: Vec<&'static str> = (0..2 + self.below(2)).map(|_| self.pick(&ORDERED)).collect();
        let targets: Vec<String> = kinds.iter().map(|kind| self.expression(kind, &scope, 1)).collect();
        let names: Vec<String> = (0..kinds.len()).map(|at| format!("c{at}")).collect();
        let filter = self.filter(&scope, 40);
        let columns = names
            .iter()
            .zip(&kinds)
            .map(|(name, kind)| Column { name: format!("{alias}.{name}"), kind })
            .collect();
        let distinct = self.pick(&["", "", "distinct "]);
        (
            format!(
                "(select {distinct}{} from {from}{filter}) as {alias}({})",
                targets.join(", "),
                names.join(", ")
            ),
            columns,
        )
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

    fn aggregate(&mut self, scope: &[Column]) -> String {
        let form = self.pick(templates::aggregates());
        // An aggregate's argument may not hold another aggregate, and `same` is a column that is there twice.
        let same = self.column("text", scope).unwrap_or("'a'::text".to_string());
        let form = match form.contains("{same}") {
            true => form.replace("{same}", &same).replace("{text}", &same),
            false => form.to_string(),
        };
        let depth = self.below(2);
        self.fill(&form, scope, depth)
    }

    fn grouped_query(&mut self) -> String {
        let depth = self.below(2);
        let (from, scope) = self.joined(depth);
        let keys: Vec<String> = (0..self.below(4))
            .map(|_| {
                let kind = self.pick(&ORDERED);
                match self.column(kind, &scope) {
                    Some(column) if self.chance(80) => column,
                    _ => format!("({})", self.expression(self_kind(kind), &scope, 1)),
                }
            })
            .filter(|key| key.contains('.') && !key.contains("select"))
            .collect();
        let mut targets = keys.clone();
        for _ in 0..1 + self.below(3) {
            targets.push(self.aggregate(&scope));
        }
        let all = keys.join(", ");
        let group = match (keys.len(), self.below(10)) {
            (0, 0) => " group by ()".to_string(),
            (0, _) => String::new(),
            (_, 0) => format!(" group by rollup ({all})"),
            (_, 1) => format!(" group by cube ({all})"),
            (_, 2) => format!(" group by grouping sets (({all}), ({}), ())", keys[0]),
            (_, 3) => {
                format!(" group by {}, grouping sets (({all}), rollup ({}))", keys[0], keys[keys.len() - 1])
            }
            (_, 4) => format!(" group by distinct rollup ({all}), cube ({})", keys[0]),
            _ => format!(" group by {all}"),
        };
        if group.contains("rollup") || group.contains("cube") || group.contains("sets") {
            targets.push(format!("grouping({all})"));
        }
        let filter = self.filter(&scope, 30);
        let having = match self.below(4) {
            0 => format!(" having {} is not null", self.aggregate(&scope)),
            1 => " having count(*) > 1".to_string(),
            _ => String::new(),
        };
        let windowed = if self.chance(12) { ", sum(count(*)) over ()" } else { "" };
        let order = match self.below(4) {
            0 => format!(
                " order by count(*) desc, {}",
                (1..=targets.len()).map(|at| at.to_string()).collect::<Vec<_>>().join(", ")
            ),
            _ => String::new(),
        };
        format!("select {}{windowed} from {from}{filter}{group}{having}{order}", targets.join(", "))
    }

    fn window_query(&mut self) -> String {
        let (text, alias, scope) = self.relation_named("w");
        let part = self
            .pick(&["", "partition by {}.i4 ", "partition by {}.b ", "partition by {}.i4 % 2, {}.b "])
            .replace("{}", &alias);
        let (order, mode, unit) = match self.below(6) {
            0 | 1 => (format!("order by {alias}.i4, {alias}.id"), "rows", "n"),
            2 => (
                format!("order by {alias}.i4{}", self.pick(&["", " desc", " nulls first"])),
                "range",
                "value",
            ),
            3 => (
                format!("order by {alias}.{}{}", self.pick(&["d", "ts"]), self.pick(&["", " desc"])),
                "range",
                "day",
            ),
            4 => (format!("order by {alias}.{}", self.pick(&["n2", "i8", "i2"])), "range", "value"),
            _ => (
                format!(
                    "order by {alias}.{}{}",
                    self.pick(&["i4", "s", "m", "b"]),
                    self.pick(&["", " desc nulls last"])
                ),
                "groups",
                "n",
            ),
        };
        let frame = self.frame(mode, unit);
        // Functions that see the order of rows need an order without ties.
        let is_total = mode == "rows";
        let call = |generator: &mut Generator| {
            let form = generator.pick(templates::windows());
            let sees_order = templates::list("sees", "order").iter().any(|name| form.starts_with(name));
            let form = if sees_order && !is_total { "count({int4})" } else { form };
            generator.fill(form, &scope, 1)
        };
        let (one, two, filter) = (call(self), call(self), self.filter(&scope, 30));
        if self.chance(30) {
            return format!(
                "select {alias}.id, {one} over win, {two} over (win{}) from {text}{filter} window win as ({part}{order})",
                if frame.is_empty() { String::new() } else { frame }
            );
        }
        format!(
            "select {alias}.id, {one} over ({part}{order}{frame}), {two} over ({part}{order}) from {text}{filter}"
        )
    }

    fn frame(&mut self, mode: &str, unit: &str) -> String {
        let bounds = templates::list("bounds", unit);
        let exclusion = self.pick(&[
            "",
            "",
            " exclude current row",
            " exclude group",
            " exclude ties",
            " exclude no others",
        ]);
        match self.below(3) {
            0 => String::new(),
            1 => format!(" {mode} {}{exclusion}", self.pick(bounds)),
            _ => format!(" {mode} between {} and {}{exclusion}", self.pick(bounds), self.pick(bounds)),
        }
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

    fn lateral_query(&mut self) -> String {
        let (left, scope) = self.relation();
        let alias = self.alias();
        let (item, more) = self.lateral_item(&alias, &scope);
        let mut all = scope;
        all.extend(more.iter().map(|(name, kind)| Column { name: format!("{alias}.{name}"), kind }));
        let join = self.pick(&[" cross join ", ", ", " left join ", " join "]);
        let on = match join {
            " left join " | " join " if self.chance(50) => " on true".to_string(),
            " left join " | " join " => format!(" on {}", self.expression("bool", &all, 1)),
            _ => String::new(),
        };
        let mut targets = self.targets(&all, 2, 1);
        targets.push(format!("{alias}.{}", more[0].0));
        let filter = self.filter(&all, 40);
        format!("select {} from {left}{join}{item}{on}{filter}", targets.join(", "))
    }

    /// An item of FROM that sees the columns of others, and its columns with their types.
    fn lateral_item(&mut self, alias: &str, scope: &[Column]) -> (String, Vec<(&'static str, &'static str)>) {
        if self.chance(70) {
            let form = self.pick(templates::list("lateral", "any"));
            let (item, columns) = form.split_once(" | ").unwrap_or((form, "e int4"));
            let columns = columns.split(", ").filter_map(|column| column.split_once(' ')).collect();
            return (self.fill(&item.replace("{alias}", alias), scope, 1), columns);
        }
        let (from, inner) = self.relation();
        let both: Vec<Column> = inner.iter().chain(scope).cloned().collect();
        let filter = self.expression("bool", &both, 2);
        if self.chance(50) {
            let target = self.expression("int4", &both, 1);
            let query =
                format!("select {target}, count(*) over () from {from} where {filter} order by 1 limit 2");
            return (format!("lateral ({query}) as {alias}(e, f)"), vec![("e", "int4"), ("f", "int8")]);
        }
        let aggregate = self.aggregate_of_int(&inner);
        (
            format!("lateral (select {aggregate} as e from {from} where {filter}) as {alias}"),
            vec![("e", "int8")],
        )
    }

    fn aggregate_of_int(&mut self, scope: &[Column]) -> String {
        let form = self.pick(&["sum({int4})", "count({text})", "max({int4})::int8", "count(*)"]);
        self.fill(form, scope, 0)
    }

    fn recursive_query(&mut self) -> String {
        let limit = 2 + self.below(6);
        match self.below(6) {
            0 => format!(
                "with recursive r(n, f) as (select 1, {} union all select n + 1, f || n from r where n < {limit}) select * from r order by n desc",
                self.pick(&["'x'::text", "''::text"])
            ),
            1 => format!(
                "with recursive r(n) as (values ({}) union select (n * 3 + 1) % {limit} from r) select count(*), sum(n) from r",
                self.below(5)
            ),
            2 => format!(
                "with recursive r as (select a, b, 1 as depth, array[a] as path from z where b = 0 union all select z.a, z.b, depth + 1, path || z.a from r join z on z.b = r.b + 1 and z.a >= r.a where depth < {limit}) select * from r"
            ),
            3 => format!(
                "with recursive a(n) as (select 1 union all select n + 1 from a where n < {limit}), b(m) as (select n * 2 from a union all select m + 10 from b where m < 40) select n, m from a left join b on m = n * 2 order by 1, 2"
            ),
            4 => {
                let (from, scope) = self.relation();
                let condition = self.expression("bool", &scope, 1);
                format!(
                    "with recursive r(n) as (select 0 union all select n + 1 from r where n < {limit} and exists (select 1 from {from} where {condition})) select array_agg(n order by n) from r"
                )
            }
            _ => format!(
                "with recursive t(n) as (select 1 union all select n + 1 from t where n < 100) select n from t limit {limit}"
            ),
        }
    }

    fn with_query(&mut self) -> String {
        let (from, scope) = self.joined(1);
        let (one, two) = (self.expression("int4", &scope, 1), self.expression("text", &scope, 1));
        let filter = self.filter(&scope, 50);
        let hint = self.pick(&["", "materialized ", "not materialized "]);
        let name = self.alias();
        let cte = [
            Column { name: format!("{name}.p"), kind: "int4" },
            Column { name: format!("{name}.q"), kind: "text" },
        ];
        let (other, more) = self.relation();
        let both: Vec<Column> = cte.iter().chain(&more).cloned().collect();
        let head = format!("with {name}(p, q) as {hint}(select {one}, {two} from {from}{filter})");
        match self.below(4) {
            0 => format!("{head} select p, count(*), max(q) from {name} group by p"),
            1 => format!(
                "{head} select * from {name} union all select p + 1, q || 'x' from {name} where p > 0"
            ),
            2 => {
                let condition = self.expression("bool", &both, 1);
                format!(
                    "{head} select p, q from {name} where exists (select 1 from {other} where {condition})"
                )
            }
            _ => {
                let (target, condition) =
                    (self.expression("numeric", &both, 1), self.expression("bool", &both, 1));
                format!(
                    "{head}, second as (select p, sum(length(q)) as l from {name} group by p) select {name}.p, second.l, {target} from {name} join second using (p), {other} where {condition}"
                )
            }
        }
    }

    fn subquery_query(&mut self) -> String {
        let (from, scope) = self.relation();
        let (inner, columns) = self.relation();
        let both: Vec<Column> = columns.iter().chain(&scope).cloned().collect();
        let kind = self.pick(&["int4", "text", "numeric", "int8"]);
        let (condition, value, outer) = (
            self.expression("bool", &both, 2),
            self.expression(kind, &both, 1),
            self.expression(kind, &scope, 1),
        );
        let aggregate = self.pick(&["max", "min", "count"]);
        let scalar = format!("(select {aggregate}({value}) from {inner} where {condition})");
        let rows = format!("(select {value} from {inner} where {condition})");
        let first = scope[0].name.clone();
        match self.below(14) {
            0 => format!("select {first}, {scalar} from {from}"),
            1 => format!(
                "select {first} from {from} where {outer} {} {rows}",
                self.pick(&["in", "not in", "= any", "<> all", "> any", "<= all"])
            ),
            2 => format!("select {first} from {from} where {}exists {rows}", self.pick(&["", "not "])),
            3 => format!(
                "select {first}, case when {outer} in {rows} then 1 when exists {rows} then 2 end from {from}"
            ),
            4 => format!("select count(*) from {from} group by {scalar}"),
            5 => format!(
                "select {first}, count(*) from {from} group by {first} having count(*) >= all (select count(*) from {inner} group by {})",
                columns[0].name
            ),
            6 => format!("select {first} from {from} order by {scalar} desc nulls last, {first}, 1 limit 4"),
            7 => format!("select coalesce({scalar}::text, 'none') || {first} from {from}"),
            8 => format!(
                "select {first}, array(select {value} from {inner} where {condition} order by 1) from {from}"
            ),
            9 => {
                let (third, more) = self.relation();
                let all: Vec<Column> = more.iter().chain(&both).cloned().collect();
                let deep = self.expression("bool", &all, 1);
                format!(
                    "select {first} from {from} where exists (select 1 from {inner} where {condition} and {}exists (select 1 from {third} where {deep}))",
                    self.pick(&["", "not "])
                )
            }
            10 => format!(
                "select {first} from {from} where ({outer}, {first}) {} (select {value}, {} from {inner} where {condition})",
                self.pick(&["in", "not in", "= any"]),
                columns[0].name
            ),
            11 => format!(
                "select {first}, (select count(*) from {inner} where {condition}) + {} from {from} where {scalar} is not null",
                self.below(3)
            ),
            12 => {
                let (third, more) = self.relation();
                let equality = self.equality(&scope, &more);
                format!(
                    "select {first}, {} from {from} left join {third} on {equality} and {first} in (select {} from {inner})",
                    more[0].name, columns[0].name
                )
            }
            _ => format!("select sum({first}) filter (where exists {rows}) from {from}"),
        }
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
