//! Statements that see what others have written, or do not: functions of all volatilities, statements in WITH, operations that
//! overflow, and constraints that wait for the end.
//!
//! # Invariants
//! - Where a volatile function is called for several rows, the rows come in an order that the statement says.

use super::Generator;
use super::expressions::Place;

/// The tables and functions that the statements use.
pub(super) const HELPERS: [&str; 10] = [
    "create table sums (k int primary key, n int)",
    "create table late (id int primary key, up int references late deferrable initially deferred)",
    "insert into sums values (1, 1), (2, 2000000000), (5, -5)",
    "create function vs(p int) returns int stable language plpgsql as \
     'begin return (select (coalesce(sum(v), 0) + count(*))::int from log where k <= p); end'",
    "create function vv(p int) returns int language sql as \
     'select (coalesce(sum(v), 0) + count(*))::int from log where k <= p'",
    "create function hs() returns int stable language sql as 'select count(*)::int from heap'",
    "create function hv() returns int language plpgsql as 'begin return (select count(*) from heap); end'",
    "create function hi() returns int immutable language plpgsql as 'begin return hs() * 100 + hv(); end'",
    "create function wr(p int) returns int language plpgsql as \
     'begin insert into heap values (p, hv()); return hs() + hv(); end'",
    "create function wl(p int) returns int language sql as \
     'insert into log values (p % 12, 1) on conflict (k) do update set v = coalesce(log.v, 0) % 50 + 1 returning v'",
];

impl Generator {
    /// A statement that sees writes of its own transaction.
    pub fn seeing(&mut self) -> String {
        match self.is_keyed() {
            true => self.waiting(),
            false if self.chance(30) => self.waiting(),
            false => self.seen_by_functions(),
        }
    }

    /// Operations that may overflow, and rows whose references come later.
    fn waiting(&mut self) -> String {
        let (key, other, value) = (self.key(), self.key(), self.integer(1, Place::Table));
        match self.below(9) {
            0 | 1 => format!("update sums set n = n + {value} where k = {key};"),
            2 => format!("update sums set n = n + 2147483000 where k = {key};"),
            3 => format!("update sums set n = n - 2147483000 where k in ({key}, {other});"),
            4 => format!(
                "insert into sums values ({key}, 5) on conflict (k) do update set n = sums.n + 2000000000;"
            ),
            5 | 6 => format!("insert into late values ({key}, {other}) on conflict (id) do nothing;"),
            7 => format!("update late set up = {key} where id = {other};"),
            _ => self
                .random
                .pick(&["set constraints all immediate;", "set constraints late_up_fkey deferred;"])
                .to_string(),
        }
    }

    /// Functions of all volatilities around writes, and statements in WITH.
    fn seen_by_functions(&mut self) -> String {
        let (key, value) = (self.key(), self.integer(1, Place::Table));
        match self.below(16) {
            0 => format!("update log set v = (vs(k) + hs() + hi()) % 100 where k < {value};"),
            1 => format!("update log set v = (vv(k) + vs(9)) % 100 where k = {key};"),
            2 => "insert into heap values (vv(5), hv()), (hs(), hv()), (wr(1), wr(2)), (hi(), hv());"
                .to_string(),
            3 => format!("insert into heap select wr(g), hs() from generate_series(1, {value} % 4) g;"),
            4 => "insert into heap select hv(), g from generate_series(1, 3) g where hv() % 5 <> 4;"
                .to_string(),
            5 => format!(
                "with w as (update log set v = coalesce(v, 0) % 50 + 1 where k = {key} returning v) \
                 select w.v, vs(99) into a, b from w;"
            ),
            6 => format!(
                "with d as (delete from part where k = {key} returning n) \
                 insert into heap select n, (select count(*) from part) from d;"
            ),
            7 => format!("select wr({value}), hs(), hv(), (select count(*) from heap) into a, b, l, x;"),
            8 => "a := wr(3) + hs() + hv();".to_string(),
            9 => format!(
                "with i as (insert into heap values ({value}, 7) returning k) select count(*), hv() into a, b from heap;"
            ),
            10 => format!(
                "for r in with u as (update log set v = coalesce(v, 0) % 50 + 1 where k in ({key}, 2) returning k, v) \
                 select k, v from u order by k loop\nexit;\nend loop;"
            ),
            11 => format!(
                "with u as (update log set v = 3 where k = {key} returning k), \
                 w as (update log set v = 4 where k = {key} returning k) \
                 select (select count(*) from u), (select count(*) from w) into a, b;"
            ),
            12 => format!("update log set v = wl({value}) where k = {key};"),
            13 => format!("select wl({value}), vs(11), vv(11) into a, b, l;"),
            14 => {
                "select array_agg(wr(g) + hs() order by g) into arr from generate_series(1, 2) g;".to_string()
            }
            _ => format!(
                "merge into log using (values (({key})), (9)) s (k) on log.k = s.k \
                 when matched then update set v = vs(11) % 100 when not matched then insert values (s.k, hs());"
            ),
        }
    }
}
