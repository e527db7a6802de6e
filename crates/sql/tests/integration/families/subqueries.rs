//! Statements with subqueries: every quantifier, in every place, correlated in every way, over rows with NULLs and over none.
//!
//! Invariants: a statement says the same with `OFFSET 0` at the end of each subquery, where the planner joins nothing with it
//! and computes its answers row by row.

use super::chance;
use crate::support::samples::Random;

/// Tables with the same columns; the last one stays empty.
pub const TABLES: [&str; 4] = ["ta", "tb", "tc", "td"];

/// A mark at the end of a subquery.
const END: &str = "/*end*/";

/// Statements that make the tables.
pub fn tables(random: &mut Random) -> Vec<String> {
    let mut statements = Vec::new();
    for (at, table) in TABLES.iter().enumerate() {
        statements
            .push(format!("create table {table} (id int primary key, a int, b bigint, n numeric, s text)"));
        if at < 3 {
            let rows: Vec<String> = (0..40 + random.below(40)).map(|id| row(random, id)).collect();
            statements.push(format!("insert into {table} values {}", rows.join(", ")));
        }
    }
    statements.push("create index on tb (a)".to_string());
    statements
}

fn row(random: &mut Random, id: usize) -> String {
    let a = or_null(random, |random| format!("{}", random.below(9)));
    let b = or_null(random, |random| format!("{}", random.below(9)));
    let n = or_null(random, |random| format!("{}{}", random.below(5), random.pick(&["", ".0", ".50", ".5"])));
    let s = or_null(random, |random| format!("'{}'", random.pick(&["a", "b", "ab", "B", ""])));
    format!("({id}, {a}, {b}, {n}, {s})")
}

fn or_null(random: &mut Random, value: impl Fn(&mut Random) -> String) -> String {
    if chance(random, 12) { "null".to_string() } else { value(random) }
}

/// A statement, and the same one with its subqueries kept as they are.
pub fn statement(random: &mut Random) -> (String, String) {
    let mut writer = Writer { random, aliases: 0 };
    let text = writer.statement();
    (text.replace(END, ""), text.replace(END, " offset 0"))
}

struct Writer<'r> {
    random: &'r mut Random,
    aliases: usize,
}

impl Writer<'_> {
    fn pick(&mut self, of: &[&'static str]) -> &'static str {
        self.random.pick(of)
    }

    fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("q{}", self.aliases)
    }

    fn statement(&mut self) -> String {
        let outer = ["o".to_string()];
        let table = self.pick(&TABLES[..3]);
        let depth = self.random.below(2);
        let condition = self.condition(&outer, depth);
        match self.random.below(11) {
            9 | 10 => self.derived(),
            0 | 1 => format!("select o.id from {table} o where {condition}"),
            2 => format!("select o.id from {table} o where o.a > 2 and {condition}"),
            3 => {
                let other = self.condition(&outer, depth);
                format!("select o.id from {table} o where o.b = 3 or {condition} or {other}")
            }
            4 => format!(
                "select o.id from {table} o where case when o.a > 4 then {condition} else o.b is null end"
            ),
            5 => format!("select o.id, {condition}, {} from {table} o", self.value(&outer, depth)),
            6 => {
                let value = self.value(&outer, depth);
                format!("select o.a, count(*), sum({value}) from {table} o group by o.a having count(*) > 1")
            }
            7 => {
                let sees = ["o".to_string(), "p".to_string()];
                let condition = self.condition(&sees, depth);
                format!(
                    "select o.id, p.id from {table} o left join tc p on o.a = p.a and ({condition} or p.b > 6)"
                )
            }
            _ => {
                let group = self.grouped_condition();
                format!("select o.a, count(*) from {table} o group by o.a having {group} or count(*) > 7")
            }
        }
    }

    /// Conditions on the rows of a query in FROM, or in WITH: columns `k` and `v`.
    fn derived(&mut self) -> String {
        let (one, other) = (self.pick(&TABLES), self.pick(&TABLES));
        let operation = self.pick(&["union", "union all", "intersect", "except", "except all"]);
        let query = match self.random.below(9) {
            0 => format!("select a as k, count(*) as v from {one} group by a{END}"),
            1 => format!("select a + 1 as k, b as v from {one} group by b, a + 1 having count(*) > 1{END}"),
            2 => format!("select a as k, count(*) as v from {one} group by rollup (a){END}"),
            3 => format!("select a as k, b as v from {one} group by grouping sets ((a, b), (a)){END}"),
            4 => format!("select count(*) as k, 3 as v from {one}{END}"),
            5 => format!("select distinct a as k, b as v from {one}{END}"),
            6 => format!("select a as k, rank() over (partition by a order by b) as v from {one}{END}"),
            7 => format!(
                "select p.a as k, q.b as v from {one} p left join {other} q on p.a = q.a where q.id is null or q.b > 2 order by 1{END}"
            ),
            _ => format!("select a as k, b as v from {one} {operation} select b, a from {other}{END}"),
        };
        let condition = match self.random.below(5) {
            0 => "d.k > 2".to_string(),
            1 => "d.k = 3 and d.v >= 1".to_string(),
            2 => "d.v is null or d.k < 4".to_string(),
            3 => "d.k + d.v > 5 and 1 = 1".to_string(),
            _ => format!("d.k in (select {other}.b from {other}) and d.k <> 5"),
        };
        match self.random.below(6) {
            4 => format!("select t.id, d.k, d.v from ta t left join ({query}) d on d.k = t.a where t.a = 3"),
            5 => format!(
                "select t.id, u.id, d.v from ta t left join tb u on t.b = u.b left join ({query}) d on d.k = u.a and d.v = t.a where t.b = 2 and u.a = 3 or t.b = 4"
            ),
            0 => format!("with d as ({query}) select d.k, d.v from d where {condition}"),
            1 => {
                format!("select t.id, d.k, d.v from ta t left join ({query}) d on d.k = t.a and {condition}")
            }
            2 => format!("select t.id, d.v from ta t join ({query}) d on d.k = t.a where {condition}"),
            _ => format!("select d.k, d.v from ({query}) d where {condition}"),
        }
    }

    /// A condition with a subquery that sees rows of these aliases.
    fn condition(&mut self, outer: &[String], depth: usize) -> String {
        let not = self.pick(&["", "", "not "]);
        let around = outer[self.random.below(outer.len())].clone();
        match self.random.below(7) {
            0 | 1 => format!("{not}exists ({})", self.subquery("1", outer, depth)),
            2 | 3 => {
                let (column, inner) = self.pair();
                format!("{around}.{column} {not}in ({})", self.subquery(inner, outer, depth))
            }
            4 => {
                let (operator, quantifier) = (self.pick(&["=", "<>", "<", ">="]), self.pick(&["any", "all"]));
                let (column, inner) = self.pair();
                let query = self.subquery(inner, outer, depth);
                format!("{around}.{column} {operator} {quantifier} ({query})")
            }
            5 => {
                let query = self.subquery("a, .s", outer, depth);
                format!("({around}.a, {around}.s) {not}in ({query})")
            }
            _ => {
                let operator = self.pick(&["=", "<", ">=", "is distinct from"]);
                format!("{around}.b {operator} {}", self.value(outer, depth))
            }
        }
    }

    /// A condition of HAVING whose subquery sees the group.
    fn grouped_condition(&mut self) -> String {
        let alias = self.alias();
        let table = self.pick(&TABLES);
        let with = self.pick(&["o.a", "count(*)", "max(o.b)"]);
        match self.random.below(3) {
            0 => format!("exists (select 1 from {table} {alias} where {alias}.b = {with}{END})"),
            1 => format!("o.a in (select {alias}.a from {table} {alias} where {alias}.b = {with}{END})"),
            _ => format!("(select count(*) from {table} {alias} where {alias}.b = {with}{END}) > 1"),
        }
    }

    /// Columns of one type, or of numbers of different widths.
    fn pair(&mut self) -> (&'static str, &'static str) {
        self.random.pick(&[("a", "a"), ("a", "b"), ("b", "a"), ("n", "n"), ("s", "s"), ("b", "b")])
    }

    /// A number that a subquery computes.
    fn value(&mut self, outer: &[String], depth: usize) -> String {
        match self.random.below(7) {
            0 => format!("({})", self.subquery("count(*)", outer, depth)),
            1 => format!("({})", self.subquery("sum(.a)", outer, depth)),
            2 => format!("({})", self.subquery("max(.b)", outer, depth)),
            3 => format!("({})", self.subquery("count(*) + coalesce(min(.a), -1)", outer, depth)),
            4 => format!("({})", self.subquery("b", outer, depth)),
            5 => format!("cardinality(array({}))", self.subquery("a", outer, depth)),
            _ => {
                let query = self.subquery("a", outer, depth);
                let alias = query.split_once('.').map_or("q1", |(before, _)| &before["select ".len()..]);
                let order = format!(" order by {alias}.a, {alias}.id limit 1");
                format!(
                    "({})",
                    query.strip_suffix(END).map_or(query.clone(), |query| format!("{query}{order}{END}"))
                )
            }
        }
    }

    /// A query with this target, whose columns are marked by a dot or are all of it.
    fn subquery(&mut self, target: &str, outer: &[String], depth: usize) -> String {
        let alias = self.alias();
        let mut sees = vec![alias.clone()];
        let mut from = format!("{} {alias}", self.pick(&TABLES));
        if chance(self.random, 25) {
            let other = self.alias();
            let kind = self.pick(&["join", "left join"]);
            from = format!("{from} {kind} {} {other} on {other}.a = {alias}.b", self.pick(&TABLES));
            sees.push(other);
        }
        let is_aggregate = target.contains('(') || target.starts_with("count");
        let named = match target.contains('.') || is_aggregate || target == "1" {
            true if target.starts_with("a, ") => format!("{alias}.a, {alias}.s"),
            true => target.replace('.', &format!("{alias}.")),
            false => format!("{alias}.{target}"),
        };
        let mut conditions: Vec<String> = self.correlations(&alias, outer);
        if chance(self.random, 40) {
            conditions.push(format!("{alias}.a {} {}", self.pick(&["<", ">", "<>"]), self.random.below(6)));
        }
        if chance(self.random, 8) {
            conditions.push("random() >= 0".to_string());
        }
        if depth > 0 {
            sees.extend_from_slice(outer);
            conditions.push(self.condition(&sees, depth - 1));
        }
        let filter = if conditions.is_empty() {
            String::new()
        } else {
            format!(" where {}", conditions.join(" and "))
        };
        let rest = match (is_aggregate, self.random.below(8)) {
            (true, 0) => " having count(*) <> 2".to_string(),
            (false, 0) if target != "1" => format!(" group by {named} having count(*) > 1"),
            (false, 1) if target != "1" => format!(" group by {named}"),
            _ => String::new(),
        };
        let is_distinct = !is_aggregate && rest.is_empty() && chance(self.random, 15);
        let distinct = if is_distinct && target != "a" { "distinct " } else { "" };
        format!("select {distinct}{named} from {from}{filter}{rest}{END}")
    }

    /// Conditions that correlate a subquery with the rows around it.
    fn correlations(&mut self, alias: &str, outer: &[String]) -> Vec<String> {
        let around = outer[self.random.below(outer.len())].clone();
        let further = outer[self.random.below(outer.len())].clone();
        match self.random.below(12) {
            0 => Vec::new(),
            1 | 2 => vec![format!("{alias}.a = {around}.a")],
            3 => vec![format!("{around}.b = {alias}.a")],
            4 => vec![format!("{alias}.n = {around}.n")],
            5 => vec![format!("{alias}.s = {around}.s"), format!("{alias}.b = {further}.b")],
            6 => vec![format!("{alias}.a + 1 = {around}.a - 1")],
            7 => vec![format!("{alias}.a = {around}.a"), format!("{alias}.b < {further}.b")],
            8 => vec![format!("{alias}.b > {around}.a")],
            9 => vec![format!("({alias}.a = {around}.a and {alias}.s = {further}.s)")],
            10 => vec![format!("({alias}.a = {around}.a or {alias}.b = {further}.b)")],
            _ => vec![format!("{alias}.id = {around}.id")],
        }
    }
}
