//! The tables of a group of routines, their triggers, and the statement that shows all rows.

use super::Generator;

/// Shows what all tables hold.
pub const SHOWN: &str = "select \
    (select string_agg(concat_ws('=', k, v), ' ' order by k) from log), \
    (select string_agg(concat_ws(',', k, n, w, note), ' ' order by k, n) from part), \
    (select string_agg(concat_ws(',', id, code, ref), ' ' order by id) from pair), \
    (select string_agg(concat_ws(',', what, k, v, times), ' ' order by what, k, v) from seen), \
    (select string_agg(concat_ws(',', k, v), ' ' order by k, v) from heap), \
    (select string_agg(concat_ws(',', k, n), ' ' order by k) from sums), \
    (select string_agg(concat_ws(',', id, up), ' ' order by id) from late)";

impl Generator {
    /// Creates the tables and their triggers.
    pub(super) fn tables(&mut self) -> Vec<String> {
        let on_part = self.random.pick(&["on delete cascade", "on delete cascade on update cascade", ""]);
        let on_pair = self.random.pick(&["on delete set null on update cascade", "on delete cascade", ""]);
        let mut script = vec![
            "create table log (k int primary key, v int check (v < 1000))".to_string(),
            format!(
                "create table part (k int references log {on_part}, n int, w numeric(8,2), note text not null default 'd', \
                 primary key (k, n))"
            ),
            format!(
                "create table pair (id int primary key, code text unique, ref int references log {on_pair})"
            ),
            "create table seen (what text, k int, v int, times int, primary key (what, k, v))".to_string(),
            "create table heap (k int, v int)".to_string(),
            "insert into log values (1, 10), (2, 20), (5, 50), (7, null)".to_string(),
            "insert into part values (1, 1, 1.5, 'p'), (1, 2, 2.5, 'q'), (5, 1, null, 'r')".to_string(),
            "insert into pair values (1, 'c1', 1), (2, 'c2', 5), (3, 'c3', null), (4, null, 2)".to_string(),
        ];
        for table in ["log", "part", "pair"] {
            if self.chance(35) {
                script.extend(self.trigger(table));
            }
        }
        script
    }

    /// A trigger of a table: its function, and itself.
    fn trigger(&mut self, table: &str) -> [String; 2] {
        let name = self.name("note");
        let (key, value) = match table {
            "log" => ("k", "v"),
            "part" => ("k", "n"),
            _ => ("id", "ref"),
        };
        let event = self.random.pick(&["insert", "update", "delete", "insert or update", "update or delete"]);
        let has_new = !event.contains("delete");
        let seen = |what: &str, row: &str| {
            format!(
                "insert into seen values ({what}, coalesce({row}.{key}, -9), coalesce({row}.{value}, -9), 1) \
                 on conflict (what, k, v) do update set times = seen.times + 1;"
            )
        };
        let last = "if tg_op = 'DELETE' then return old; end if;\nreturn new;";
        let body = match self.below(8) {
            0 if has_new => {
                format!("if new.{key} % 4 = 3 then return null; end if;\nreturn new;")
            }
            1 if has_new && table == "log" => "new.v := coalesce(new.v, 0) + 1;\nreturn new;".to_string(),
            2 if has_new && table == "part" => "new.note := new.note || tg_argv[0];\nreturn new;".to_string(),
            3 if has_new => format!(
                "if new.{key} = 11 then raise exception 'no % in %', new.{key}, tg_table_name using errcode = 'P0077'; \
                 end if;\nreturn new;"
            ),
            4 if table == "pair" => {
                format!(
                    "update log set v = v + 1 where k = {}.{key};\n{last}",
                    if has_new { "new" } else { "old" }
                )
            }
            5 => {
                let (came, went) = (seen("tg_op || tg_when", "new"), seen("lower(tg_op) || tg_nargs", "old"));
                format!("if tg_op = 'INSERT' then {came} else {went} end if;\n{last}")
            }
            _ => format!(
                "if tg_level = 'ROW' and tg_op <> 'DELETE' then {} end if;\n{last}",
                seen("tg_table_name", "new")
            ),
        };
        let time = self.random.pick(&["before", "after"]);
        let condition = match has_new && self.chance(30) {
            true => format!(" when (new.{key} > 1)"),
            false => String::new(),
        };
        [
            format!(
                "create function {name}() returns trigger language plpgsql as $body$\nbegin\n{body}\nend $body$"
            ),
            format!(
                "create trigger {name} {time} {event} on {table} for each row{condition} execute function {name}('z')"
            ),
        ]
    }
}
