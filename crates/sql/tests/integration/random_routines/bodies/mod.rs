//! Random routines: functions in PL/pgSQL and SQL, procedures and triggers, whose answers the language defines.
//!
//! # Invariants
//! - What PostgreSQL leaves open is not generated: the order of rows, how often WHERE evaluates a function that writes, and
//!   errors that depend on when a statement is planned (a division stands only where nothing is folded).
//! - Every routine ends: its last argument counts how deeply calls nest, and loops have few rounds.

pub mod blocks;
pub mod expressions;
pub mod snapshots;
pub mod statements;
pub mod tables;

use crate::support::samples::Random;

/// The result of a routine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Int,
    Text,
    /// `OUT o1 int, OUT o2 text`.
    Outs,
    /// `SETOF int`.
    Rows,
    /// `TABLE (o3 int, o4 int)`.
    Table,
    Void,
    /// A procedure with `INOUT y int`.
    Procedure,
}

const SHAPES: [Shape; 8] = [
    Shape::Int,
    Shape::Int,
    Shape::Text,
    Shape::Outs,
    Shape::Rows,
    Shape::Table,
    Shape::Void,
    Shape::Procedure,
];

/// A routine that can be called: `name(x, y, d)`.
#[derive(Clone, Debug)]
pub struct Routine {
    pub name: String,
    pub shape: Shape,
    /// True if `x` is a text: an overload.
    pub takes_text: bool,
    pub has_default: bool,
}

/// The statements that a routine may contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Statements whose rows are named by keys: what a footprint can tell.
    Keyed,
    Any,
}

/// Writes routines from random numbers.
pub struct Generator {
    pub random: Random,
    pub style: Style,
    /// Those of the group that may be called.
    pub routines: Vec<Routine>,
    pub shape: Shape,
    /// The labels of the loops around, innermost last.
    pub loops: Vec<String>,
    /// True inside of a handler, in which the caught error is known.
    pub handles: bool,
    names: usize,
}

/// The declarations of every body.
const DECLARED: &str = "declare a int; b int := 1; t text := 'x'; m numeric(6,2) := 1.5; r record; q log%rowtype; \
    l log.v%type := 4; arr int[] := array[3, 1]; c cursor (p int) for select k, v from log where k < p order by k;";

impl Generator {
    pub fn new(seed: u64) -> Generator {
        Generator {
            random: Random(seed),
            style: Style::Any,
            routines: Vec::new(),
            shape: Shape::Int,
            loops: Vec::new(),
            handles: false,
            names: 0,
        }
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound)
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn is_keyed(&self) -> bool {
        self.style == Style::Keyed
    }

    /// A name that no other variable or label has.
    pub fn name(&mut self, of: &str) -> String {
        self.names += 1;
        format!("{of}{}", self.names)
    }

    /// Begins a group of routines over new tables. The statements that make it.
    pub fn group(&mut self) -> Vec<String> {
        self.routines.clear();
        let mut script: Vec<String> =
            ["drop schema if exists g cascade", "create schema g", "set search_path = g"]
                .map(str::to_string)
                .into();
        script.extend(self.tables());
        script.extend(snapshots::HELPERS.map(str::to_string));
        script
    }

    /// The statement that creates one more routine.
    pub fn routine(&mut self) -> String {
        self.style = if self.chance(60) { Style::Keyed } else { Style::Any };
        let shape = self.random.pick(&SHAPES);
        let last = self.routines.last().filter(|last| !last.takes_text && last.shape == shape);
        let last = last.map(|last| last.name.clone());
        let overloads = last.filter(|_| self.below(2) == 0);
        let takes_text = overloads.is_some() || self.chance(10);
        let name = overloads.unwrap_or_else(|| self.name("f"));
        let has_default = self.chance(40);
        let routine = Routine { name, shape, takes_text, has_default };
        if self.is_keyed() && self.chance(30) {
            // It may lead to itself.
            self.routines.push(routine.clone());
        }
        self.shape = shape;
        let text = if self.chance(15) { self.in_sql(&routine) } else { self.in_plpgsql(&routine) };
        self.routines.retain(|known| (&known.name, known.takes_text) != (&routine.name, takes_text));
        self.routines.push(routine);
        text
    }

    fn head(routine: &Routine) -> String {
        let x = if routine.takes_text { "x text" } else { "x int" };
        let default = if routine.has_default { " default 3" } else { "" };
        let (kind, y, more, result) = match routine.shape {
            Shape::Int => ("function", "y int", "", " returns int"),
            Shape::Text => ("function", "y int", "", " returns text"),
            Shape::Outs => ("function", "y int", ", out o1 int, out o2 text", ""),
            Shape::Rows => ("function", "y int", "", " returns setof int"),
            Shape::Table => ("function", "y int", "", " returns table (o3 int, o4 int)"),
            Shape::Void => ("function", "y int", "", " returns void"),
            Shape::Procedure => ("procedure", "inout y int", "", ""),
        };
        format!("create {kind} {}({x}, {y}{default}, d int default 0{more}){result}", routine.name)
    }

    fn in_plpgsql(&mut self, routine: &Routine) -> String {
        let (guard, end) = match routine.shape {
            Shape::Int => ("d", self.random.pick(&["a", "b", "coalesce(a, b)", "q.v"])),
            Shape::Text => ("'deep'", self.random.pick(&["t", "t || b", "m::text"])),
            _ => ("", ""),
        };
        let body = self.block(3);
        // A variable hides the argument, whose value it begins with.
        let shadow = match routine.takes_text {
            true => "<<inside>> declare x int := length(x); begin",
            false => "<<inside>> declare x int := x; begin",
        };
        format!(
            "{} language plpgsql as $body$\n{DECLARED}\nbegin\nif d > 2 then return {guard}; end if;\n{shadow}\n{body}\n\
             return {end};\nend;\nend $body$",
            Generator::head(routine)
        )
    }

    fn in_sql(&mut self, routine: &Routine) -> String {
        let x = if routine.takes_text { "length(x)" } else { "x" };
        let bodies: &[&str] = match routine.shape {
            Shape::Int => &[
                "select {x} + y",
                "update log set v = v + 1 where k = {x} % 12 returning v",
                "select v from log where k = {x}",
                "insert into log values ({x} % 12, y) on conflict (k) do update set v = excluded.v returning k",
            ],
            Shape::Text => &[
                "select 'q' || {x}",
                "delete from pair where id = {x} returning code",
                "select note from part where k = {x} and n = y",
            ],
            Shape::Outs => &["select {x} - y, 'o' || y", "select v, k::text from log where k = {x} % 12"],
            Shape::Rows => &[
                "select v from log where k < {x} order by k",
                "select n from part where k = {x} order by n",
                "insert into seen values ('sql', {x}, y, 1) on conflict do nothing returning k",
            ],
            Shape::Table => &["select k, v from log where k in ({x}, y) order by k"],
            Shape::Void | Shape::Procedure => {
                &["update log set v = y where k = {x} % 12", "delete from part where k = {x} and n = y"]
            }
        };
        let mut body = self.random.pick(bodies).replace("{x}", x);
        if routine.shape == Shape::Procedure {
            body.push_str("; select y + 1");
        }
        format!("{} language sql as $body$ {body} $body$", Generator::head(routine))
    }

    /// A call from outside, with arguments that are constants.
    pub fn call(&mut self) -> String {
        let routine = self.random.pick(&self.routines.clone());
        let (x, y) = (self.below(9) as i64 - 2, self.below(6));
        let x = if routine.takes_text { format!("'c{x}'::text") } else { x.to_string() };
        let arguments = match self.below(6) {
            0 if routine.has_default && routine.shape != Shape::Procedure => x,
            1 => format!("{x}, y => {y}"),
            2 => format!("y => {y}, x => {x}"),
            3 if self.chance(30) && !routine.takes_text => format!("null, {y}"),
            _ => format!("{x}, {y}"),
        };
        let name = &routine.name;
        match routine.shape {
            Shape::Procedure => format!("call {name}({arguments})"),
            Shape::Outs | Shape::Table => format!("select * from {name}({arguments})"),
            Shape::Rows if self.chance(50) => format!("select * from {name}({arguments})"),
            _ => format!("select {name}({arguments})"),
        }
    }
}
