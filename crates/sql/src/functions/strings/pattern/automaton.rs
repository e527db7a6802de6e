//! Automata: they decide the texts that a part of a pattern matches, without regard to captures and preferences.
//!
//! A nondeterministic automaton is made of a part's language; its sets of states become the states of a deterministic one as
//! texts are matched. Conditions on places (`^`, `\m`, look-around) are decided when a state is left: until then the state
//! holds them.
//!
//! # Invariants
//! - A deterministic state lists instructions that consume a character, that are conditions, or that accept.
//! - The known states are forgotten when they are too many; no number of a state outlives that.

use std::rc::Rc;

use hashbrown::HashMap;

use super::parse::{Reason, TOO_COMPLEX};
use super::syntax::{Constraint, UNBOUNDED};

/// Maximum number of instructions of all automata of a pattern.
const INSTRUCTIONS_MAX: usize = 200_000;
/// Maximum number of deterministic states that are kept.
const STATES_MAX: usize = 4_000;

/// The texts that a part of a pattern matches.
#[derive(Debug)]
pub(super) enum Language {
    Set(usize),
    Constraint(Constraint),
    /// One after the other; if there are none, the empty text.
    Sequence(Vec<Rc<Language>>),
    Either(Vec<Rc<Language>>),
    Repeated(Rc<Language>, u32, u32),
}

impl Language {
    pub fn empty() -> Rc<Language> {
        Rc::new(Language::Sequence(Vec::new()))
    }

    /// The texts that a back-reference to a part may match: conditions on places held where the part was captured.
    pub fn without_constraints(&self) -> Rc<Language> {
        let all = |parts: &[Rc<Language>]| parts.iter().map(|part| part.without_constraints()).collect();
        Rc::new(match self {
            Language::Set(set) => Language::Set(*set),
            Language::Constraint(_) => Language::Sequence(Vec::new()),
            Language::Sequence(parts) => Language::Sequence(all(parts)),
            Language::Either(parts) => Language::Either(all(parts)),
            Language::Repeated(part, min, max) => Language::Repeated(part.without_constraints(), *min, *max),
        })
    }

    /// A part that is repeated.
    pub fn repeated(inside: &Rc<Language>, min: u32, max: u32) -> Rc<Language> {
        match (min, max) {
            (1, 1) => inside.clone(),
            _ => Rc::new(Language::Repeated(inside.clone(), min, max)),
        }
    }
}

#[derive(Debug)]
enum Instruction {
    Set(usize, u32),
    Constraint(Constraint, u32),
    Split(u32, u32),
    Accept,
}

/// A place in a text, at which the conditions of an automaton hold or not.
pub(super) trait Place {
    /// Returns true if a condition holds.
    fn holds(&mut self, constraint: Constraint) -> bool;
}

/// A deterministic state after its conditions were decided.
#[derive(Debug)]
pub(super) struct Resolved {
    /// The instructions that consume a character.
    sets: Vec<(usize, u32)>,
    pub accepts: bool,
    /// The next state by the color of the next character; 0 if it is not known yet.
    next: Vec<u32>,
}

impl Resolved {
    /// Returns true if no character leads to another state.
    pub fn is_dead(&self) -> bool {
        self.sets.is_empty()
    }
}

/// The deterministic states that are known.
#[derive(Debug, Default)]
struct Known {
    /// The instructions of each state.
    states: Vec<Rc<[u32]>>,
    numbers: HashMap<Rc<[u32]>, u32>,
    /// The resolved state of a state and of what holds.
    resolved: HashMap<(u32, u64), u32>,
    all_resolved: Vec<Resolved>,
    /// The resolved state of each state without conditions, and one more; 0 if it is not known yet.
    plain: Vec<u32>,
}

/// The automaton of a language.
#[derive(Debug)]
pub(super) struct Automaton {
    instructions: Vec<Instruction>,
    start: u32,
    /// The conditions that occur, each a bit of what holds.
    constraints: Vec<Constraint>,
    known: Known,
    /// Bit sets of the instructions that a walk has seen.
    seen: Vec<u64>,
}

impl Automaton {
    /// The automaton of a language. `anywhere`: of the texts that end in one of the language. `total` counts the
    /// instructions of a pattern.
    pub fn new(language: &Language, anywhere: bool, total: &mut usize) -> Result<Automaton, Reason> {
        let mut made = Automaton {
            instructions: vec![Instruction::Accept],
            start: 0,
            constraints: Vec::new(),
            known: Known::default(),
            seen: Vec::new(),
        };
        let limit = INSTRUCTIONS_MAX.saturating_sub(*total);
        made.start = made.add(language, 0, limit)?;
        if anywhere {
            let here = made.instructions.len() as u32;
            let start = made.start;
            made.instructions.push(Instruction::Split(start, here + 1));
            made.instructions.push(Instruction::Set(usize::MAX, here));
            made.start = here;
        }
        *total += made.instructions.len();
        made.seen = vec![0; made.instructions.len().div_ceil(64)];
        made.begin();
        Ok(made)
    }

    fn push(&mut self, instruction: Instruction, limit: usize) -> Result<u32, Reason> {
        if self.instructions.len() >= limit {
            return Err(TOO_COMPLEX);
        }
        self.instructions.push(instruction);
        Ok(self.instructions.len() as u32 - 1)
    }

    /// Adds instructions that match a language and continue at `next`.
    fn add(&mut self, language: &Language, next: u32, limit: usize) -> Result<u32, Reason> {
        match language {
            Language::Set(set) => self.push(Instruction::Set(*set, next), limit),
            Language::Constraint(constraint) => {
                if !self.constraints.contains(constraint) {
                    self.constraints.push(*constraint);
                    if self.constraints.len() > 60 {
                        return Err(TOO_COMPLEX);
                    }
                }
                self.push(Instruction::Constraint(*constraint, next), limit)
            }
            Language::Sequence(parts) => {
                parts.iter().rev().try_fold(next, |next, part| self.add(part, next, limit))
            }
            Language::Either(parts) => {
                let mut entry = None;
                for part in parts {
                    let start = self.add(part, next, limit)?;
                    entry = Some(match entry {
                        None => start,
                        Some(other) => self.push(Instruction::Split(other, start), limit)?,
                    });
                }
                Ok(entry.unwrap_or(next))
            }
            Language::Repeated(part, min, max) => self.add_repeated(part, (*min, *max), next, limit),
        }
    }

    fn add_repeated(
        &mut self,
        part: &Language,
        (min, max): (u32, u32),
        next: u32,
        limit: usize,
    ) -> Result<u32, Reason> {
        let mut entry = next;
        if max == UNBOUNDED {
            let again = self.push(Instruction::Split(next, next), limit)?;
            let start = self.add(part, again, limit)?;
            self.instructions[again as usize] = Instruction::Split(start, next);
            entry = again;
        } else {
            for _ in min..max {
                let start = self.add(part, entry, limit)?;
                entry = self.push(Instruction::Split(start, next), limit)?;
            }
        }
        for _ in 0..min {
            entry = self.add(part, entry, limit)?;
        }
        Ok(entry)
    }

    /// Forgets all deterministic states but the first one, whose number is 1.
    fn begin(&mut self) {
        self.known = Known::default();
        // Number 0 means that a state is not known.
        self.known.states.push(Rc::from(Vec::new()));
        let state = self.closure([self.start], |_| false);
        self.number(state);
    }

    pub fn start(&mut self) -> u32 {
        if self.known.states.len() > STATES_MAX {
            self.begin();
        }
        1
    }

    fn number(&mut self, state: Rc<[u32]>) -> u32 {
        if let Some(number) = self.known.numbers.get(&state) {
            return *number;
        }
        let number = self.known.states.len() as u32;
        self.known.states.push(state.clone());
        self.known.numbers.insert(state, number);
        number
    }

    /// The instructions that are reached without a character, where these conditions hold.
    fn closure(
        &mut self,
        from: impl IntoIterator<Item = u32>,
        holds: impl Fn(Constraint) -> bool,
    ) -> Rc<[u32]> {
        self.seen.fill(0);
        let mut waiting: Vec<u32> = from.into_iter().collect();
        let mut found = Vec::new();
        while let Some(at) = waiting.pop() {
            let (word, bit) = (at as usize / 64, 1 << (at % 64));
            if self.seen[word] & bit != 0 {
                continue;
            }
            self.seen[word] |= bit;
            match self.instructions[at as usize] {
                Instruction::Split(one, other) => waiting.extend([one, other]),
                Instruction::Constraint(constraint, next) if holds(constraint) => waiting.push(next),
                _ => found.push(at),
            }
        }
        found.sort_unstable();
        found.into()
    }

    /// The number of the state after its conditions were decided.
    pub fn resolve(&mut self, state: u32, place: &mut impl Place) -> u32 {
        if self.constraints.is_empty()
            && let Some(&resolved) = self.known.plain.get(state as usize)
            && resolved != 0
        {
            return resolved - 1;
        }
        let mut holding = 0;
        for (bit, constraint) in self.constraints.iter().enumerate() {
            if place.holds(*constraint) {
                holding |= 1 << bit;
            }
        }
        if let Some(resolved) = self.known.resolved.get(&(state, holding)) {
            return *resolved;
        }
        let constraints = std::mem::take(&mut self.constraints);
        let holds = |constraint: Constraint| {
            let bit = constraints.iter().position(|other| *other == constraint);
            bit.is_some_and(|bit| holding & (1 << bit) != 0)
        };
        let from = self.known.states[state as usize].clone();
        let reached = self.closure(from.iter().copied(), holds);
        self.constraints = constraints;
        let mut made = Resolved { sets: Vec::new(), accepts: false, next: Vec::new() };
        for at in reached.iter() {
            match self.instructions[*at as usize] {
                Instruction::Set(set, next) => made.sets.push((set, next)),
                Instruction::Accept => made.accepts = true,
                _ => {}
            }
        }
        self.known.all_resolved.push(made);
        let number = self.known.all_resolved.len() as u32 - 1;
        self.known.resolved.insert((state, holding), number);
        if self.constraints.is_empty() {
            let plain = &mut self.known.plain;
            plain.resize(plain.len().max(state as usize + 1), 0);
            plain[state as usize] = number + 1;
        }
        number
    }

    pub fn resolved(&self, number: u32) -> &Resolved {
        &self.known.all_resolved[number as usize]
    }

    /// The next state after a character of this color. `is_in`: true if the color belongs to a set.
    pub fn step(&mut self, resolved: u32, color: u32, is_in: impl Fn(usize) -> bool) -> u32 {
        let known = &self.known.all_resolved[resolved as usize];
        if let Some(&next) = known.next.get(color as usize)
            && next != 0
        {
            return next;
        }
        let sets = known.sets.iter().filter(|(set, _)| *set == usize::MAX || is_in(*set));
        let from: Vec<u32> = sets.map(|(_, next)| *next).collect();
        let state = self.closure(from, |_| false);
        if self.known.states.len() > 2 * STATES_MAX {
            self.begin();
            return self.number(state);
        }
        let number = self.number(state);
        let next = &mut self.known.all_resolved[resolved as usize].next;
        if next.len() <= color as usize {
            next.resize(color as usize + 1, 0);
        }
        next[color as usize] = number;
        number
    }
}
