//! POSIX advanced regular expressions, as PostgreSQL matches them.
//!
//! A pattern is read to a syntax tree (`parse`). The linear-time matcher of the crate `regex` finds where it may match
//! (`linear`); `~` needs no more of a pattern without look-around and back-references. The choice among several
//! matches, and the captures of groups, follow PostgreSQL's rules, which differ from Perl's: a whole branch has one
//! preference, and alternatives prefer the longest match (`tree`, `matcher`). Automata that work as texts are matched
//! find both in time proportional to the text for each node of the tree (`automaton`, `context`); back-references may
//! need many attempts, and every step polls for cancellation.
//!
//! Invariants: a pattern that is not valid in PostgreSQL is 2201B. Compiled patterns are kept for each thread.

mod automaton;
mod basic;
mod classes;
mod context;
mod linear;
mod matcher;
mod parse;
mod program;
mod syntax;
#[cfg(test)]
mod tests;
mod tree;

use std::cell::RefCell;
use std::rc::Rc;

use hashbrown::HashMap;

pub(super) use self::program::{Found, Program};
use crate::error::{Result, SqlError, SqlState};
use crate::types::jsonpath::RegexFlags;

/// Maximum number of compiled patterns that a thread keeps.
const CACHED_PATTERNS_MAX: usize = 128;

/// The options named by the letters of a flags argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Flags {
    /// `g`
    pub is_global: bool,
    /// `i`
    ignores_case: bool,
    /// `q`
    is_literal: bool,
    /// `x`
    is_expanded: bool,
    /// `p` and `n`: a newline is matched by neither `.` nor `[^…]`.
    stops_at_newline: bool,
    /// `w` and `n`: `^` and `$` match at newlines.
    has_lines: bool,
    /// Escapes, non-greedy quantifiers and `(?…)` have their meaning.
    is_advanced: bool,
    /// Basic regular expressions.
    is_basic: bool,
}

impl Default for Flags {
    fn default() -> Flags {
        Flags {
            is_global: false,
            ignores_case: false,
            is_literal: false,
            is_expanded: false,
            stops_at_newline: false,
            has_lines: false,
            is_advanced: true,
            is_basic: false,
        }
    }
}

impl Flags {
    /// The flags of `~*`.
    pub(super) fn ignoring_case() -> Flags {
        Flags { ignores_case: true, ..Flags::default() }
    }

    /// The flags of jsonpath's `like_regex`.
    pub(super) fn of_path(flags: RegexFlags) -> Flags {
        Flags {
            ignores_case: flags.ignores_case,
            is_literal: flags.is_literal,
            is_advanced: !flags.is_literal,
            stops_at_newline: !flags.is_literal && !flags.dot_is_all,
            has_lines: !flags.is_literal && flags.has_lines,
            ..Flags::default()
        }
    }

    /// Reads the letters.
    pub(super) fn parse(text: &str) -> Result<Flags> {
        let mut flags = Flags::default();
        for letter in text.chars() {
            // PostgreSQL's functions read basic expressions with `e`, too.
            let letter = if letter == 'e' { 'b' } else { letter };
            if letter == 'g' {
                flags.is_global = true;
            } else if !flags.set(letter) {
                let message = format!("invalid regular expression option: \"{letter}\"");
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
        }
        Ok(flags)
    }

    fn set(&mut self, letter: char) -> bool {
        match letter {
            'i' => self.ignores_case = true,
            'c' => self.ignores_case = false,
            'q' => (self.is_literal, self.is_advanced, self.is_basic) = (true, false, false),
            'x' => self.is_expanded = true,
            't' => self.is_expanded = false,
            'n' | 'm' => (self.stops_at_newline, self.has_lines) = (true, true),
            'p' => (self.stops_at_newline, self.has_lines) = (true, false),
            'w' => (self.stops_at_newline, self.has_lines) = (false, true),
            's' => (self.stops_at_newline, self.has_lines) = (false, false),
            'e' => (self.is_advanced, self.is_basic, self.is_literal) = (false, false, false),
            'b' => (self.is_advanced, self.is_basic, self.is_literal) = (false, true, false),
            _ => return false,
        }
        true
    }
}

thread_local! {
    static COMPILED: RefCell<HashMap<(String, Flags), Rc<Program>>> = RefCell::new(HashMap::new());
}

/// The compiled form of a pattern.
pub(super) fn compile(pattern: &str, flags: Flags) -> Result<Rc<Program>> {
    let key = (pattern.to_string(), Flags { is_global: false, ..flags });
    let known = COMPILED.with_borrow(|compiled| compiled.get(&key).cloned());
    if let Some(known) = known {
        return Ok(known);
    }
    let made = Rc::new(Program::new(pattern, flags).map_err(invalid)?);
    COMPILED.with_borrow_mut(|compiled| {
        if compiled.len() >= CACHED_PATTERNS_MAX {
            compiled.clear();
        }
        compiled.insert(key, made.clone());
    });
    Ok(made)
}

fn invalid(reason: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_REGULAR_EXPRESSION, format!("invalid regular expression: {reason}"))
}
