//! Scripts of sessions: savepoints with errors, prepared statements, cursors, views.

use super::Generator;
use super::schema::columns_of;

/// Types of parameters.
const PARAMETERS: [&str; 12] = [
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
    "float8",
    "varchar",
];

impl Generator {
    /// Statements of one session, in order.
    pub fn script(&mut self) -> Vec<String> {
        match self.below(7) {
            0 => self.savepoints(),
            6 => self.settings(),
            1 | 2 => self.prepared(),
            3 => self.cursor(),
            4 => self.view(),
            _ => self.temporary(),
        }
    }

    fn savepoints(&mut self) -> Vec<String> {
        let mut script = vec!["begin".to_string()];
        for at in 0..2 + self.below(3) {
            script.push(format!("savepoint s{at}"));
            for _ in 0..1 + self.below(2) {
                script.push(self.write());
            }
            match self.below(4) {
                0 => script.push(format!("rollback to s{at}")),
                1 => {
                    script.push("select 1 / 0".to_string());
                    script.push("select count(*) from w".to_string());
                    script.push(format!("rollback to savepoint s{at}"));
                }
                2 => {
                    script.push(format!("release s{at}"));
                    script.push(format!("rollback to s{at}"));
                }
                _ => {}
            }
            script.push("select count(*), sum(a), sum(b) from z".to_string());
        }
        script.push(self.pick(&["commit", "rollback", "end", "rollback", "abort"]).to_string());
        script
    }

    /// Settings within savepoints and handlers: what remains of them at each point.
    fn settings(&mut self) -> Vec<String> {
        const NAMES: [(&str, [&str; 3]); 4] = [
            ("lock_timeout", ["1s", "2s", "0"]),
            ("extra_float_digits", ["0", "1", "2"]),
            ("my.own", ["x", "y", "z"]),
            ("intervalstyle", ["iso_8601", "postgres", "sql_standard"]),
        ];
        let shown = NAMES.map(|(name, _)| format!("current_setting('{name}', true)")).join(", ");
        let mut script = vec!["begin".to_string()];
        for _ in 0..3 + self.below(8) {
            let (name, values) = self.pick(&NAMES);
            let (value, savepoint) = (self.pick(&values), self.below(3));
            let is_local = self.pick(&["true", "false"]);
            script.push(match self.below(10) {
                0 => format!("set {name} = '{value}'"),
                1 => format!("set local {name} = '{value}'"),
                2 => format!("reset {name}"),
                3 => format!("savepoint s{savepoint}"),
                4 => format!("rollback to s{savepoint}"),
                5 => format!("release s{savepoint}"),
                6 => format!("select set_config('{name}', '{value}', {is_local})"),
                7 => self.pick(&["commit", "rollback", "begin", "select 1 / 0"]).to_string(),
                8 => format!("select set_config('{name}', '{value}', {is_local}), 1 / 0"),
                _ => format!(
                    "do $$ begin perform set_config('{name}', '{value}', {is_local}); {} \
                     exception when division_by_zero then null; end $$",
                    self.pick(&["", "perform 1 / 0;"])
                ),
            });
            script.push(format!("select {shown}"));
        }
        script.extend(["rollback", "reset all"].map(str::to_string));
        script.push(format!("select {shown}"));
        script
    }

    fn prepared(&mut self) -> Vec<String> {
        let (one, two) = (self.pick(&PARAMETERS), self.pick(&PARAMETERS));
        let mut scope = columns_of("w", "w");
        scope.push(super::Column { name: "$1".to_string(), kind: one });
        scope.push(super::Column { name: "$2".to_string(), kind: two });
        let (first, second) = (self.kind(), self.kind());
        let (target, other, condition) = (
            self.expression(first, &scope, 2),
            self.expression(second, &scope[scope.len() - 2..], 2),
            self.expression("bool", &scope, 2),
        );
        let text = match self.below(3) {
            0 => format!(
                "select id, {target} from w where {condition} and $1 is not distinct from $1 and $2 is not distinct from $2"
            ),
            1 => format!("select {other}, $1, $2"),
            _ => format!("select $2, $1, {target} from w where {condition}"),
        };
        let types = [one, two].map(|kind| match kind {
            "bpchar" => "char(4)",
            kind => kind,
        });
        let mut script = vec![format!("prepare p ({}) as {text}", types.join(", "))];
        for _ in 0..2 {
            let (value, more) = (self.literal(one), self.literal(two));
            script.push(format!("execute p ({value}, {more})"));
        }
        let loose = self.loose(one, &[]);
        script.push(format!("execute p ({loose}, null)"));
        script.push("deallocate p".to_string());
        script
    }

    fn cursor(&mut self) -> Vec<String> {
        let order = self.pick(&["id", "i4, id", "s desc nulls last, id desc"]);
        let scroll = self.pick(&["scroll ", "", "no scroll "]);
        let mut script = vec![
            "begin".to_string(),
            format!("declare c {scroll}cursor for select id, i4, s from w order by {order}"),
        ];
        for _ in 0..2 + self.below(4) {
            let how = match scroll {
                "scroll " => self.pick(&[
                    "next",
                    "prior",
                    "first",
                    "last",
                    "absolute 3",
                    "absolute -2",
                    "relative 2",
                    "relative -1",
                    "forward 3",
                    "backward 2",
                    "all",
                    "4",
                    "-2",
                    "0",
                    "backward all",
                ]),
                _ => self.pick(&["next", "forward 3", "2", "forward all", "relative 1", "forward"]),
            };
            script.push(format!("{} {how} from c", self.pick(&["fetch", "fetch", "move"])));
            if self.chance(20) {
                script.push("update w set i4 = i4 where id = 1".to_string());
            }
        }
        script.push("close c".to_string());
        script.push("fetch next from c".to_string());
        script.push("rollback".to_string());
        script
    }

    fn view(&mut self) -> Vec<String> {
        let name = self.alias();
        let query = self.query();
        vec![
            "begin".to_string(),
            format!("create temp view {name}_v as select * from ({query}) as source"),
            format!("select count(*) from {name}_v"),
            "rollback".to_string(),
        ]
    }

    fn temporary(&mut self) -> Vec<String> {
        let name = self.alias();
        let (kind, other) = (self.kind(), self.kind());
        let scope = columns_of("w", "w");
        let (one, two) = (self.expression(kind, &scope, 1), self.expression(other, &scope, 2));
        vec![
            format!("create temp table {name}_t as select id, {one} as one, {two} as two from w"),
            format!("select * from {name}_t"),
            format!("select count(*), count(one), count(distinct two::text) from {name}_t"),
            format!("insert into {name}_t (id, one) select id + 100, one from {name}_t where two is null"),
            format!("alter table {name}_t alter column two type text using two::text"),
            format!("select * from {name}_t where id > 5"),
            format!("drop table {name}_t"),
        ]
    }
}
