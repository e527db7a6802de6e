//! Queries inside queries: WITH, recursion, and subqueries in every place.

use super::super::{Column, Generator};

impl Generator {
    pub(super) fn recursive_query(&mut self) -> String {
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

    pub(super) fn with_query(&mut self) -> String {
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

    pub(super) fn subquery_query(&mut self) -> String {
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
}
