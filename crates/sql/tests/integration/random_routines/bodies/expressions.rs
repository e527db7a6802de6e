//! Expressions of bodies: integers, texts and conditions.

use super::{Generator, Shape};

/// The place of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Alone, where it is evaluated once and nothing is folded: it may fail, call, and divide.
    Alone,
    /// In a statement over tables: it has the same value whenever it is evaluated, and does not fail.
    Table,
}

impl Generator {
    pub fn integer_name(&mut self) -> &'static str {
        match (self.shape, self.below(9)) {
            (Shape::Outs, 0) => "o1",
            (_, 8) => "l",
            _ => self.random.pick(&["a", "b", "x", "y"]),
        }
    }

    pub fn text_name(&mut self) -> &'static str {
        match (self.shape, self.chance(40)) {
            (Shape::Outs, true) => "o2",
            _ => "t",
        }
    }

    fn integer_leaf(&mut self) -> String {
        let name = self.integer_name();
        match self.below(10) {
            0..=2 => format!("{}", self.below(9) as i64 - 2),
            3..=4 => format!("coalesce({name}, {})", self.below(5)),
            5 => format!("arr[{}]", 1 + self.below(3)),
            6 => self.random.pick(&["q.v", "q.k", "inside.x", "d", "m::int"]).to_string(),
            _ => name.to_string(),
        }
    }

    /// An expression that is an integer.
    pub fn integer(&mut self, depth: usize, place: Place) -> String {
        if depth == 0 || self.chance(25) {
            return self.integer_leaf();
        }
        let (left, right) = (self.integer(depth - 1, place), self.integer(depth - 1, place));
        match self.below(16) {
            0 => format!("({left} + {right})"),
            1 => format!("({left} - {right})"),
            2 => format!("({left} % 7 * ({right} % 5))"),
            3 => format!("coalesce({left}, {right})"),
            4 => format!("greatest({left}, {right})"),
            5 => format!("nullif({left}, {right})"),
            6 => format!("(case when {} then {left} else {right} end)", self.condition(depth - 1, place)),
            7 => format!("(case {left} when 1 then {right} when {} then 0 end)", self.below(4)),
            8 => format!("coalesce(arr[abs({left}) % 4 + 1], {right})"),
            9 => format!("coalesce(array_length(arr || {left}, 1), 0)"),
            10 => format!("length({})", self.text(depth - 1, place)),
            11 => format!("abs({left})"),
            _ if place == Place::Table => format!("least({left}, {right})"),
            12 => format!("({left} / {})", self.integer_name()),
            13 => format!("({left} % {})", self.integer_name()),
            _ => self.scalar_call(&left, &right).unwrap_or_else(|| format!("least({left}, {right})")),
        }
    }

    /// The call of a function that returns an integer.
    fn scalar_call(&mut self, x: &str, y: &str) -> Option<String> {
        let routines: Vec<_> = self.routines.iter().filter(|it| it.shape == Shape::Int).cloned().collect();
        // In loops calls would be very many.
        if routines.is_empty() || self.loops.len() > 1 {
            return None;
        }
        let routine = self.random.pick(&routines);
        Some(format!("{}({})", routine.name, self.arguments(&routine, x, y)))
    }

    /// The arguments of a call in a body.
    pub fn arguments(&mut self, routine: &super::Routine, x: &str, y: &str) -> String {
        let x = if routine.takes_text { format!("('c' || coalesce({x}, 0))::text") } else { x.to_string() };
        match self.below(4) {
            0 if routine.shape != Shape::Procedure && routine.has_default => format!("x => {x}, d => d + 1"),
            1 => format!("{x}, d => d + 1, y => {y}"),
            _ => format!("{x}, {y}, d + 1"),
        }
    }

    /// An expression that is a text.
    pub fn text(&mut self, depth: usize, place: Place) -> String {
        let name = self.text_name();
        let value = self.integer(depth.saturating_sub(1), place);
        match self.below(9) {
            0 => format!("'c{}'", self.below(8)),
            1 => format!("'n' || coalesce({value}, 0)"),
            2 => format!("left({name}, {})", 1 + self.below(3)),
            3 => format!("coalesce({name}, 'none')"),
            4 => format!("upper({name})"),
            5 => format!("format('%s-%s', {name}, {value})"),
            6 if self.handles && place == Place::Alone => {
                self.random.pick(&["sqlstate", "sqlerrm"]).to_string()
            }
            7 => format!("concat({name}, {value})"),
            _ => format!("left({name}, 20)"),
        }
    }

    /// A condition.
    pub fn condition(&mut self, depth: usize, place: Place) -> String {
        let (left, right) = (self.integer(depth, place), self.integer(depth, place));
        match self.below(12) {
            0 => format!("{left} < {right}"),
            1 => format!("{left} = {right}"),
            2 => "found".to_string(),
            3 => format!("{} is null", self.integer_name()),
            4 => format!("{left} in ({right}, 3)"),
            5 => format!("not ({left} >= {right})"),
            6 => format!("{left} between {right} and 5"),
            7 => format!("{left} = any(arr)"),
            8 => format!("{left} is distinct from {right}"),
            9 => format!("{} like 'c%'", self.text_name()),
            10 if depth > 0 => {
                let word = ["and", "or"][self.below(2)];
                format!("({} {word} {left} > 1)", self.condition(depth - 1, place))
            }
            _ => format!("{left} > {right}"),
        }
    }

    /// A value of the key of `log`, from what bodies know.
    pub fn key(&mut self) -> String {
        let depth = self.below(2);
        let value = self.integer(depth, Place::Table);
        format!("({value}) % 12")
    }
}
