//! Aggregates, grouping sets and windows.

use super::super::{Column, Generator, templates};
use super::{ORDERED, self_kind};

impl Generator {
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

    pub(super) fn grouped_query(&mut self) -> String {
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

    pub(super) fn window_query(&mut self) -> String {
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

    pub(super) fn aggregate_of_int(&mut self, scope: &[Column]) -> String {
        let form = self.pick(&["sum({int4})", "count({text})", "max({int4})::int8", "count(*)"]);
        self.fill(form, scope, 0)
    }
}
