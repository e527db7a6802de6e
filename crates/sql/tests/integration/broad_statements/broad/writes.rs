//! Statements that write: each meets a row once, so that their outcome is determined.

use super::schema::columns_of;
use super::{Column, Generator, templates};

impl Generator {
    /// A statement that writes.
    pub fn write(&mut self) -> String {
        self.may_fail = false;
        let text = match self.below(17) {
            0 | 1 => self.insert(),
            2 | 3 => self.upsert(),
            4..=6 => self.update(),
            7 => self.update_from(),
            8 => self.delete(),
            9 => self.delete_using(),
            10..=12 => self.merge(),
            13 | 14 => self.with_writes(),
            15 => self.view_write(),
            _ => self.bad_write(),
        };
        self.may_fail = false;
        text
    }

    fn returning(&mut self, scope: &[Column]) -> String {
        match self.below(3) {
            0 => String::new(),
            1 => " returning *".to_string(),
            _ => {
                let kind = self.kind();
                format!(" returning {}", self.expression(kind, scope, 1))
            }
        }
    }

    fn insert(&mut self) -> String {
        let first = 20 + self.below(60);
        let row = self.row_of("w", &first.to_string());
        match self.below(6) {
            0 => format!("insert into w values {row}{}", self.returning(&columns_of("w", "w"))),
            1 => {
                let (from, scope) = self.relation();
                let (number, text) = (self.expression("int4", &scope, 1), self.expression("text", &scope, 1));
                let filter = self.filter(&scope, 60);
                format!(
                    "insert into x (k, s, n) select 50 + row_number() over (order by {number}), max({text}), {} from {from}{filter} group by {number}",
                    self.pick(&["count(*)", "max(1.5)", "'3'"])
                )
            }
            2 => format!(
                "insert into y (v, s) values ({}, {}), ({}, default) returning v, s, e, ts",
                self.below(40),
                self.pick(&["'u'", "'q'", "null"]),
                self.below(1100)
            ),
            3 => format!(
                "insert into x (k, s, d, m) values ({}, {}, {}, {}) returning g, m",
                self.loose("int4", &[]),
                self.loose("text", &[]),
                self.loose("date", &[]),
                self.loose("mood", &[])
            ),
            4 => "insert into y default values returning s, v, e".to_string(),
            _ => format!(
                "insert into z (b, a, c) values ({}, {}, {}) returning a * 10 + b, c, s",
                self.below(5),
                self.below(5),
                self.expression("numeric", &[], 2)
            ),
        }
    }

    fn upsert(&mut self) -> String {
        let (a, b) = (self.below(4), self.below(4));
        let value = self.expression("numeric", &[], 1);
        let scope: Vec<Column> =
            columns_of("z", "z").into_iter().chain(columns_of("z", "excluded")).collect();
        let (expression, condition) =
            (self.expression("numeric", &scope, 1), self.expression("bool", &scope, 2));
        match self.below(6) {
            0 => format!(
                "insert into z values ({a}, {b}, {value}) on conflict (b, a) do update set c = {expression}, s = excluded.s where {condition} returning *"
            ),
            1 => format!(
                "insert into z values ({a}, {b}, {value}, 'new'), ({b}, {a}, 2.5, 'two') on conflict do nothing returning a, b"
            ),
            2 => format!(
                "insert into z values ({a}, {b}, {value}), ({a}, {b}, 7) on conflict on constraint z_pkey do update set c = excluded.c"
            ),
            3 => format!(
                "insert into z as t values ({a}, {b}, {value}) on conflict (a, b) do update set (c, s) = (t.c + 1, {}) returning t.*",
                self.literal("varchar")
            ),
            4 => format!(
                "insert into y (v, s) values ({a}, 'u') on conflict (v) where s = 'u' do update set v = y.v + 100 returning v, s"
            ),
            _ => format!(
                "insert into x (k, s, n) select k, s, n + 1 from x where k < {a} on conflict (k, s) do update set n = excluded.n where x.n is distinct from excluded.n"
            ),
        }
    }

    fn update(&mut self) -> String {
        let table = self.pick(&["w", "x", "z"]);
        let scope = columns_of(table, table);
        let (column, kind) = match table {
            "w" => self.pick(&[
                ("i4", "int4"),
                ("n", "numeric"),
                ("n2", "numeric"),
                ("s", "text"),
                ("vc", "varchar"),
                ("ch", "bpchar"),
                ("b", "bool"),
                ("ts", "timestamp"),
                ("d", "date"),
                ("iv", "interval"),
                ("ai", "int4[]"),
                ("j", "jsonb"),
                ("i2", "int2"),
                ("at", "text[]"),
                ("m", "mood"),
                ("f8", "float8"),
                ("by", "bytea"),
            ]),
            "x" => self.pick(&[
                ("n", "numeric"),
                ("i8", "int8"),
                ("d", "date"),
                ("ai", "int4[]"),
                ("b", "bool"),
                ("m", "mood"),
            ]),
            _ => self.pick(&[("c", "numeric"), ("s", "varchar")]),
        };
        let mut value = self.expression(kind, &scope, 2);
        let filter = self.expression("bool", &scope, 2);
        match (table, self.below(7)) {
            ("w", 90) => format!(
                "update w set ai[2] = {}, i8 = default where {filter} returning id, ai",
                self.below(9)
            ),
            ("w", 1) => format!(
                "update w set (i4, s) = (select {}, 'sub' from x where x.k = w.i4) where {filter}",
                self.pick(&["max(x.k)", "count(*)::int", "min(x.g)"])
            ),
            ("w", 2) => format!(
                "update w set (i4, n) = row ({}, {}) where {filter} returning i4, n",
                self.below(6),
                self.literal("numeric")
            ),
            ("w", 93) => format!(
                "update w set j['k'] = {} where {filter} returning j",
                self.pick(&["'5'", "'\"x\"'::jsonb", "'[1]'"])
            ),
            ("w", 4) => {
                value = self.loose(kind, &scope);
                format!("update w set {column} = {value} where {filter}")
            }
            _ => format!("update {table} set {column} = {value} where {filter}{}", self.returning(&scope)),
        }
    }

    fn update_from(&mut self) -> String {
        let scope: Vec<Column> = columns_of("w", "w");
        let condition = self.expression("bool", &scope, 1);
        match self.below(4) {
            0 => format!(
                "update w set i8 = q.total, s = w.s || q.cnt from (select k, count(*) as cnt, sum(k) as total from x group by k) q where q.k = w.i4 and {condition} returning w.id, q.cnt"
            ),
            1 => format!(
                "update w set n = z.c from z join (values (0, 1), (1, 1), (2, 0)) v(a, b) using (a, b) left join x on x.k = -5 where w.id = z.a + 1 and {condition}"
            ),
            2 => format!(
                "update z as t set c = u.c from z u where u.a = t.b and u.b = t.a and t.a <> {} returning t.a, t.b, t.c, u.c",
                self.below(4)
            ),
            _ => "update x set n = v.n from (select k, max(s) as s, count(*) as n from x group by k) v where x.k = v.k and x.s = v.s returning x.k, x.s, x.n, v.n".to_string(),
        }
    }

    fn delete(&mut self) -> String {
        let table = self.pick(&["x", "z", "y", "w"]);
        let scope = columns_of(table, table);
        let (one, other) = (self.expression("bool", &scope, 1), self.expression("bool", &scope, 2));
        format!("delete from {table} where {one} and {other}{}", self.returning(&scope))
    }

    fn delete_using(&mut self) -> String {
        let scope: Vec<Column> = columns_of("x", "x")
            .into_iter()
            .chain(columns_of("z", "z"))
            .chain(columns_of("w", "w"))
            .collect();
        let condition = self.expression("bool", &scope, 2);
        format!("delete from x using z, w where z.a = x.k and w.i4 = z.b and {condition}")
    }

    fn merge(&mut self) -> String {
        let scope: Vec<Column> = columns_of("z", "z")
            .into_iter()
            .chain([
                Column { name: "src.a".to_string(), kind: "int4" },
                Column { name: "src.b".to_string(), kind: "int4" },
                Column { name: "src.v".to_string(), kind: "numeric" },
            ])
            .collect();
        let (condition, value) = (self.expression("bool", &scope, 1), self.expression("numeric", &scope, 1));
        let source = self.pick(&[
            "(values (0, 0, 1.5), (1, 1, 2.5), (7, 7, null), (2, 0, 0)) as src(a, b, v)",
            "(select distinct k as a, k as b, 3.5 as v from x where k is not null) as src",
            "(select a, b + 2 as b, c as v from z) src",
        ]);
        let matched = match self.below(5) {
            0 => format!("when matched and {condition} then delete when matched then update set c = {value}"),
            1 => format!("when matched and {condition} then update set c = {value}, s = default"),
            2 => format!("when matched and {condition} then do nothing when matched then delete"),
            3 => format!("when matched then update set (c, s) = ({value}, 'm')"),
            _ => String::new(),
        };
        let not = match self.below(4) {
            0 => " when not matched and src.v is not null then insert (a, b, c) values (src.a, src.b, src.v)",
            1 => " when not matched then insert values (src.a, src.b, src.v, 'n')",
            2 => {
                " when not matched and src.a > 1 then do nothing when not matched then insert (b, a) values (src.b, src.a)"
            }
            _ if matched.is_empty() => " when not matched then do nothing",
            _ => "",
        };
        format!("merge into z using {source} on z.a = src.a and z.b = src.b {matched}{not}")
    }

    fn with_writes(&mut self) -> String {
        let scope = columns_of("z", "z");
        let condition = self.expression("bool", &scope, 1);
        match self.below(6) {
            0 => format!(
                "with gone as (delete from z where {condition} returning *) select count(*), sum(a), max(s) from gone"
            ),
            1 => format!(
                "with gone as (delete from z where {condition} returning *), back as (insert into x (k, s) select a + 60, s || b from gone returning k) select count(*), (select count(*) from z), (select count(*) from back) from gone"
            ),
            2 => format!(
                "with up as (update z set c = coalesce(c, 0) + 1 where {condition} returning a, b, c) select up.*, z.c is not distinct from up.c from up join z using (a, b)"
            ),
            3 => format!(
                "with src as (select * from z where {condition}) insert into z select a + 10, b, c from src on conflict do nothing returning a"
            ),
            4 => format!(
                "with i as (insert into y (v) values ({}) returning v) update w set i4 = i.v from i where w.id = {} returning w.id, w.i4",
                self.below(50),
                1 + self.below(14)
            ),
            _ => format!(
                "with a as (update w set i4 = i4 + 1 where id = {} returning id), b as (delete from x where k = {}) select * from a",
                self.below(14),
                self.below(6)
            ),
        }
    }

    fn view_write(&mut self) -> String {
        let (a, b) = (self.below(7), self.below(7));
        match self.below(5) {
            0 => format!("insert into vz values ({a}, {b}, 'view')"),
            1 => format!("update vz set s = 'v' || b where a = {a} returning *"),
            2 => format!("delete from vz where b = {b} returning a, s"),
            3 => format!(
                "insert into vz (a, b) values ({a}, {b}) on conflict (a, b) do update set s = 'c' returning s"
            ),
            _ => "update vg set cnt = 1".to_string(),
        }
    }

    /// Statements that mostly violate something.
    fn bad_write(&mut self) -> String {
        self.pick(templates::list("bad", "writes")).to_string()
    }
}
