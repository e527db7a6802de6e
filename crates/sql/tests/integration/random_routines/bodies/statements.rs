//! Statements of bodies: assignments, reads and writes of tables, calls, results, errors.

use super::expressions::Place;
use super::{Generator, Routine, Shape};

impl Generator {
    /// Some statements.
    pub fn block(&mut self, depth: usize) -> String {
        let count = 1 + self.below(3);
        (0..count).map(|_| self.statement(depth)).collect::<Vec<_>>().join("\n")
    }

    pub fn statement(&mut self, depth: usize) -> String {
        match self.below(if depth == 0 { 24 } else { 36 }) {
            20..=23 => self.seeing(),
            0..=3 => self.assignment(),
            4..=7 => self.write(),
            8..=10 => self.read(),
            11 => self.key_from_a_read(),
            12..=13 => self.routine_call(),
            14 => self.returned(),
            15 => self.raised(),
            16 if !self.loops.is_empty() => self.jump(),
            17 if !self.is_keyed() => self.executed(),
            18 if !self.is_keyed() => self.over_many_rows(),
            16..=19 => self.assignment(),
            _ => self.nested(depth),
        }
    }

    fn assignment(&mut self) -> String {
        let value = self.integer(2, Place::Alone);
        let name = self.integer_name();
        match self.below(12) {
            0 => format!("{} := {};", self.text_name(), self.text(2, Place::Alone)),
            1 => format!("arr[abs({}) % 4 + 1] := {value};", self.integer(1, Place::Table)),
            2 => "arr := arr || b;".to_string(),
            3 => format!("q.v := {value};"),
            4 => format!("m := {value};"),
            5 => format!("perform {};", self.integer(2, Place::Table)),
            6 => format!(
                "select {}, {} into a, b;",
                self.integer(1, Place::Table),
                self.integer(1, Place::Table)
            ),
            7 => "arr := arr[1:2];".to_string(),
            _ => format!("{name} := {value};"),
        }
    }

    /// A check that rows were found, in one of the possible ways.
    fn looked_at(&mut self) -> String {
        match self.below(6) {
            0 => format!("get diagnostics {} = row_count;", self.integer_name()),
            1 => "if not found then b := -1; end if;".to_string(),
            _ => String::new(),
        }
    }

    fn write(&mut self) -> String {
        let statement = match self.below(3) {
            0 | 1 => self.write_of_log(),
            _ => self.write_of_others(),
        };
        format!("{statement}; {}", self.looked_at()).trim_end().to_string()
    }

    fn write_of_log(&mut self) -> String {
        let (key, value, name) = (self.key(), self.integer(1, Place::Table), self.integer_name());
        match self.below(9) {
            0 => format!("insert into log values ({key}, {value})"),
            1 => format!("insert into log values ({key}, {value}) on conflict do nothing"),
            2 => format!(
                "insert into log values ({key}, {value}) on conflict (k) do update set v = log.v + excluded.v"
            ),
            3 => format!("update log set v = v + {value} where k = {key}"),
            4 => format!("update log set v = {value} where k = {key} returning v into {name}"),
            5 => format!("update log set v = v + 1 where k in ({key}, {})", self.key()),
            6 => format!("delete from log where k = {key} returning k, v into q"),
            7 => format!("update log set k = {} where k = {key}", self.key()),
            _ => format!("insert into log (v, k) values ({value}, {key}) returning k into strict {name}"),
        }
    }

    fn write_of_others(&mut self) -> String {
        let (key, value, text) = (self.key(), self.integer(1, Place::Table), self.text(1, Place::Table));
        match self.below(10) {
            0 => format!("insert into part values ({key}, {value}, 2.5, {text})"),
            1 => format!("insert into part (k, n) values ({key}, {value}) on conflict do nothing"),
            2 => format!("update part set note = {text}, w = w * 2 where k = {key} and n = {value}"),
            3 => format!("delete from part where k = {key}"),
            4 => format!("delete from part where k = {key} and n = 1 returning note into t"),
            5 => format!("update pair set ref = {key} where id = {value}"),
            6 => format!("insert into pair values ({value}, {text}, {key})"),
            7 => format!("update pair set code = {text} where id = {value}"),
            8 => format!("delete from pair where id = {value}"),
            _ => format!(
                "insert into seen values ({text}, {key}, coalesce({value}, 0), 1) \
                 on conflict (what, k, v) do update set times = seen.times + excluded.times"
            ),
        }
    }

    fn read(&mut self) -> String {
        let (key, name) = (self.key(), self.integer_name());
        let strict = if self.chance(25) { "strict " } else { "" };
        let read = match self.below(9) {
            0 | 1 => format!("select v into {strict}{name} from log where k = {key};"),
            2 => format!("select * into {strict}q from log where k = {key};"),
            3 => format!("select k, v into {strict}r from log where k = {key}; a := r.v;"),
            4 => format!("select count(*), max(note) into b, t from part where k = {key};"),
            5 => format!(
                "select id into {strict}{name} from pair where code = {};",
                self.text(1, Place::Table)
            ),
            6 => format!("perform 1 from part where k = {key} and n = {};", self.integer(0, Place::Table)),
            7 => format!(
                "select v into {strict}{name} from log where k = any(array[{key}, {}]) order by k;",
                self.key()
            ),
            _ => format!("select v into {name} from log where k = {key} for update;"),
        };
        format!("{read} {}", self.looked_at()).trim_end().to_string()
    }

    /// A statement whose key another statement has found.
    fn key_from_a_read(&mut self) -> String {
        let value = self.integer(1, Place::Table);
        let read = match self.below(4) {
            0 => format!("select ref into a from pair where code = {};", self.text(1, Place::Table)),
            1 => format!("select ref into a from pair where id = {value};"),
            2 => format!("update pair set ref = ref where id = {value} returning ref into a;"),
            _ => format!("select v into a from log where k = {}; a := a % 12;", self.key()),
        };
        let write = match self.below(4) {
            0 => "update log set v = coalesce(v, 0) + 1 where k = a;".to_string(),
            1 => format!("insert into part values (a, {value}, 0, 'k') on conflict do nothing;"),
            2 => "delete from part where k = a;".to_string(),
            _ => format!("if a is not null then update log set v = {value} where k = a; end if;"),
        };
        format!("{read}\n{write}")
    }

    /// A call of one of the other routines, as a statement.
    pub fn routine_call(&mut self) -> String {
        if self.routines.is_empty() || self.loops.len() > 1 {
            return self.assignment();
        }
        let routine = self.random.pick(&self.routines.clone());
        let (x, y) = (self.integer(1, Place::Table), self.integer(1, Place::Table));
        let y = if routine.shape == Shape::Procedure { "b".to_string() } else { y };
        let arguments = self.arguments(&routine, &x, &y);
        self.call_of(&routine, &format!("{}({arguments})", routine.name))
    }

    fn call_of(&mut self, routine: &Routine, call: &str) -> String {
        match routine.shape {
            Shape::Int => format!("{} := {call};", self.integer_name()),
            Shape::Text => format!("t := left({call}, 20);"),
            Shape::Void => format!("perform {call};"),
            Shape::Procedure => format!("call {call};"),
            Shape::Outs => self
                .random
                .pick(&[
                    "select * into a, t from {};",
                    "select o2, o1 into t, b from {};",
                    "select o1, o2 into r from {};",
                ])
                .replace("{}", call),
            Shape::Rows if self.shape == Shape::Rows => format!("return query select * from {call};"),
            Shape::Rows => format!("select sum(s), count(s) into a, b from {call} s;"),
            Shape::Table => {
                format!("for r in select * from {call} loop\na := coalesce(a, 0) + r.o3;\nend loop;")
            }
        }
    }

    fn returned(&mut self) -> String {
        let value = self.integer(2, Place::Alone);
        match self.shape {
            Shape::Int => format!("return {value};"),
            Shape::Text => format!("return {};", self.text(2, Place::Alone)),
            Shape::Rows => match self.below(5) {
                0 => "return query select k from log order by k;".to_string(),
                1 => format!("return query update log set v = v + 1 where k = {} returning v;", self.key()),
                2 => "return;".to_string(),
                _ => format!("return next {value};"),
            },
            Shape::Table => match self.below(4) {
                0 => format!(
                    "return query select k, v from log where k < {} order by k;",
                    self.integer(1, Place::Table)
                ),
                1 => "return;".to_string(),
                _ => format!("o3 := {value}; o4 := b; return next;"),
            },
            Shape::Outs | Shape::Void | Shape::Procedure => match self.below(3) {
                0 => "return;".to_string(),
                _ => self.assignment(),
            },
        }
    }

    /// An error, perhaps.
    pub fn raised(&mut self) -> String {
        let (condition, value) = (self.condition(1, Place::Alone), self.integer(1, Place::Alone));
        let text = self.text(1, Place::Table);
        let error = match self.below(9) {
            0 => format!(
                "raise exception 'e % and %', {value}, t using errcode = 'P0099', detail = {text}, hint = 'h';"
            ),
            1 => format!("raise exception 'e %%: %', {value};"),
            2 => "raise division_by_zero;".to_string(),
            3 => format!("raise sqlstate '23505' using message = 'm' || coalesce({text}, '');"),
            4 => format!("assert {value} > 1, 'not ' || b;"),
            5 => "raise unique_violation using column = 'k', constraint = 'c', table = 'log';".to_string(),
            6 => format!("raise notice 'n %', {value};"),
            7 if self.handles => "raise;".to_string(),
            _ => format!("raise exception using message = 'x', errcode = 'no_data_found', detail = {text};"),
        };
        format!("if {condition} then {error} end if;")
    }

    fn jump(&mut self) -> String {
        let word = ["exit", "continue"][self.below(2)];
        let label = match self.chance(40) {
            true => format!(" {}", self.random.pick(&self.loops.clone())),
            false => String::new(),
        };
        match self.chance(75) {
            true => format!("{word}{label} when {};", self.condition(1, Place::Alone)),
            false => format!("{word}{label};"),
        }
    }

    fn executed(&mut self) -> String {
        let (value, key) = (self.integer(1, Place::Alone), self.integer(0, Place::Table));
        match self.below(6) {
            0 => format!("execute 'select $1 + $2' into a using {value}, {key};"),
            1 => format!(
                "execute 'update log set v = $1 where k = $2' using {value}, {key}; get diagnostics b = row_count;"
            ),
            2 => format!("execute format('select v from log where k = %L', {key}) into strict l;"),
            3 => format!("execute 'insert into log values ($1, 0) returning k' into a using {key};"),
            4 => "execute 'select 1; select 2';".to_string(),
            _ => format!(
                "execute 'delete from ' || quote_ident('part') || ' where k = ' || coalesce({key}, 0);"
            ),
        }
    }

    fn over_many_rows(&mut self) -> String {
        let value = self.integer(1, Place::Table);
        match self.below(8) {
            0 => format!("insert into heap values ({value}, b);"),
            1 => format!("update heap set v = v + 1 where k = {value};"),
            2 => format!("select count(*), sum(v) into a, b from log where k < {value};"),
            3 => format!("delete from heap where k < {value}; get diagnostics b = row_count;"),
            4 => format!("insert into heap select k, v from log where k < {value};"),
            5 => "arr := array(select k from log order by k);".to_string(),
            6 => "select l1.v, count(*) into a, b from log l1 join part on part.k = l1.k group by l1.v order by 1 limit 1;"
                .to_string(),
            _ => format!("a := (select max(n) from part where k <= {value});"),
        }
    }
}
