//! FROM: joins, derived tables and LATERAL.

use super::super::{Column, Generator, templates};
use super::ORDERED;

impl Generator {
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

    pub(super) fn equality(&mut self, left: &[Column], right: &[Column]) -> String {
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

    pub(super) fn lateral_query(&mut self) -> String {
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
        if self.chance(40) {
            // What the item repeats of the outer columns is NULL where the join finds nothing.
            let outer = self.column("int4", scope).unwrap_or("7".to_string());
            let query = format!("select {outer} as e, 'k'::text as f from {from}");
            return (format!("lateral ({query}) as {alias}"), vec![("e", "int4"), ("f", "text")]);
        }
        let aggregate = self.aggregate_of_int(&inner);
        (
            format!("lateral (select {aggregate} as e from {from} where {filter}) as {alias}"),
            vec![("e", "int8")],
        )
    }
}
