//! Statements that hold others: branches, loops, cursors, blocks with handlers.

use super::Generator;
use super::expressions::Place;

/// Conditions that handlers name.
const CONDITIONS: [&str; 12] = [
    "others",
    "unique_violation",
    "division_by_zero",
    "raise_exception or no_data_found",
    "integrity_constraint_violation",
    "sqlstate 'P0099'",
    "foreign_key_violation or check_violation",
    "too_many_rows or sqlstate '22012'",
    "case_not_found",
    "not_null_violation or numeric_value_out_of_range",
    "plpgsql_error",
    "data_exception",
];

/// Items of GET STACKED DIAGNOSTICS.
const DIAGNOSTICS: [&str; 8] = [
    "message_text",
    "returned_sqlstate",
    "pg_exception_detail",
    "pg_exception_hint",
    "column_name",
    "constraint_name",
    "table_name",
    "pg_exception_context",
];

impl Generator {
    pub(super) fn nested(&mut self, depth: usize) -> String {
        match self.below(12) {
            0..=2 => self.branches(depth),
            3 => self.case(depth),
            4 => self.integer_loop(depth),
            5 => self.row_loop(depth),
            6 => self.array_loop(depth),
            7 => self.conditional_loop(depth),
            8 if !self.is_keyed() => self.cursor(depth),
            8 | 9 => self.labeled_block(depth),
            _ => self.protected(depth),
        }
    }

    fn branches(&mut self, depth: usize) -> String {
        let first = match self.chance(25) {
            true => format!("exists (select 1 from log where k = {})", self.key()),
            false => self.condition(1, Place::Alone),
        };
        let (then, otherwise) = (self.block(depth - 1), self.block(depth - 1));
        match self.below(3) {
            0 => format!("if {first} then\n{then}\nend if;"),
            1 => format!("if {first} then\n{then}\nelse\n{otherwise}\nend if;"),
            _ => {
                let (second, body) = (self.condition(1, Place::Alone), self.block(depth - 1));
                format!("if {first} then\n{then}\nelsif {second} then\n{body}\nelse\n{otherwise}\nend if;")
            }
        }
    }

    fn case(&mut self, depth: usize) -> String {
        let (value, other) = (self.integer(1, Place::Alone), self.integer(1, Place::Alone));
        let (one, two) = (self.block(depth - 1), self.block(depth - 1));
        let otherwise = match self.chance(70) {
            true => format!("else\n{}\n", self.block(depth - 1)),
            false => String::new(),
        };
        match self.chance(50) {
            true => {
                format!("case {value}\nwhen {other}, 1 then\n{one}\nwhen 2 then\n{two}\n{otherwise}end case;")
            }
            false => {
                let (first, second) = (self.condition(1, Place::Alone), self.condition(0, Place::Alone));
                format!("case\nwhen {first} then\n{one}\nwhen {second} then\n{two}\n{otherwise}end case;")
            }
        }
    }

    /// A loop with this head; `first` stands at the beginning of its body.
    fn looped(&mut self, head: &str, first: &str, depth: usize) -> String {
        let label = self.name("l");
        self.loops.push(label.clone());
        let body = self.block(depth - 1);
        self.loops.pop();
        format!(
            "<<{label}>>\n{head} loop\n{first}{body}\nend loop{};",
            if self.chance(30) { format!(" {label}") } else { String::new() }
        )
    }

    fn integer_loop(&mut self, depth: usize) -> String {
        let name = self.name("i");
        let (low, high) = (self.below(4), self.below(4));
        let range = match self.below(5) {
            0 => format!("reverse {high}..{low}"),
            1 => format!("{low}..{} by 2", high + 2),
            2 => format!("greatest(0, least({}, 3))..3", self.integer_name()),
            3 => "x..x + 1".to_string(),
            _ => format!("{low}..{high}"),
        };
        let first = format!("{} := {name};\n", self.integer_name());
        self.looped(&format!("for {name} in {range}"), &first, depth)
    }

    fn row_loop(&mut self, depth: usize) -> String {
        let key = self.key();
        let (target, rows) = match self.below(if self.is_keyed() { 2 } else { 5 }) {
            0 => ("r", format!("select n as k, k as v from part where k = {key} order by n")),
            1 => ("q", format!("select * from log where k in ({key}, 2) order by k")),
            2 => ("r", format!("select k, v from log where k < {key} order by k")),
            3 => ("q.k, q.v", "select k, v from log order by k desc".to_string()),
            _ => ("r", format!("execute 'select k, v from log where k >= $1 order by k' using {key}")),
        };
        let first =
            format!("a := coalesce(a, 0) + coalesce({}, 1);\n", if target == "r" { "r.v" } else { "q.v" });
        self.looped(&format!("for {target} in {rows}"), &first, depth)
    }

    fn array_loop(&mut self, depth: usize) -> String {
        match self.below(4) {
            0 => self.looped("foreach arr slice 1 in array array[[1, 2], [3, 4]]", "", depth),
            1 => {
                let (x, y) = (self.integer(1, Place::Table), self.integer(1, Place::Table));
                self.looped(&format!("foreach a in array array[{x}, {y}]"), "", depth)
            }
            _ => {
                let value = self.integer(1, Place::Table);
                self.looped(&format!("foreach b in array arr[1:3] || {value}"), "", depth)
            }
        }
    }

    /// WHILE and LOOP, of three rounds at most.
    fn conditional_loop(&mut self, depth: usize) -> String {
        let name = self.name("w");
        let head = match self.chance(50) {
            true => format!("while {name} < 3 and {}", self.condition(1, Place::Alone)),
            false => String::new(),
        };
        let first = match head.is_empty() {
            true => format!("{name} := {name} + 1;\nexit when {name} > 3;\n"),
            false => format!("{name} := {name} + 1;\n"),
        };
        format!("declare {name} int := 0;\nbegin\n{}\nend;", self.looped(&head, &first, depth))
    }

    fn cursor(&mut self, depth: usize) -> String {
        let value = self.integer(1, Place::Table);
        match self.below(3) {
            0 => self.looped(&format!("for r in c({value})"), "a := r.k;\n", depth),
            1 => format!(
                "open c({value});\nfetch c into a, b;\nmove c;\nfetch c into q;\nif found then {} := q.v; end if;\nclose c;",
                self.integer_name()
            ),
            _ => {
                let name = self.name("w");
                format!(
                    "declare {name} refcursor; begin\nopen {name} for select n from part where k < {value} order by k, n;\n\
                     loop\nfetch {name} into a;\nexit when not found;\nb := coalesce(b, 0) + a;\nend loop;\nclose {name};\nend;"
                )
            }
        }
    }

    /// A block of its own, whose variables hide others, and which EXIT may leave.
    fn labeled_block(&mut self, depth: usize) -> String {
        let label = self.name("k");
        let value = self.integer(1, Place::Alone);
        let (exit, body) = (self.condition(1, Place::Alone), self.block(depth - 1));
        format!(
            "<<{label}>>\ndeclare b int := {value}; l int default {label}.b;\nbegin\nl := coalesce(l, 0) + 1;\n\
             exit {label} when {exit};\n{body}\na := l;\nend {label};"
        )
    }

    fn protected(&mut self, depth: usize) -> String {
        let body = self.block(depth - 1);
        let error = if self.chance(40) { self.raised() } else { String::new() };
        let handled = std::mem::replace(&mut self.handles, true);
        let count = 1 + self.below(2);
        let handlers: String = (0..count).map(|_| self.handler(depth)).collect();
        self.handles = handled;
        format!("begin\n{body}\n{error}\nexception\n{handlers}end;")
    }

    fn handler(&mut self, depth: usize) -> String {
        let condition = self.random.pick(&CONDITIONS);
        let item = self.random.pick(&DIAGNOSTICS);
        let look = match self.below(3) {
            0 => format!("get stacked diagnostics t = {item};\n"),
            1 => "t := sqlerrm;\n".to_string(),
            _ => String::new(),
        };
        format!("when {condition} then\n{look}{}\n", self.block(depth - 1))
    }
}
