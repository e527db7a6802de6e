//! Runs automata over a text: characters as colors, conditions on places, look-around.

use hashbrown::HashMap;

use super::automaton::{Automaton, Place};
use super::classes::{CharSet, is_word};
use super::syntax::Constraint;
use crate::error::{Result, SqlError, SqlState};
use crate::interrupt::step;

/// Maximum number of characters that are examined for one match.
const STEPS_MAX: u64 = 1 << 32;

/// Classes of characters that belong to the same sets of a pattern.
#[derive(Debug)]
pub(super) struct Colors {
    sets: Vec<CharSet>,
    /// The colors of ASCII characters and one more each; 0 if it is not known yet.
    ascii: [u32; 128],
    others: HashMap<char, u32>,
    /// The sets that each color belongs to.
    members: Vec<Vec<bool>>,
}

impl Colors {
    pub fn new(sets: Vec<CharSet>) -> Colors {
        Colors { sets, ascii: [0; 128], others: HashMap::new(), members: Vec::new() }
    }

    fn of(&mut self, character: char) -> u32 {
        let known = match self.ascii.get(character as usize) {
            Some(known) => known.checked_sub(1),
            None => self.others.get(&character).copied(),
        };
        known.unwrap_or_else(|| self.find(character))
    }

    fn find(&mut self, character: char) -> u32 {
        let members: Vec<bool> = self.sets.iter().map(|set| set.contains(character)).collect();
        let color = self.members.iter().position(|known| *known == members).unwrap_or_else(|| {
            self.members.push(members);
            self.members.len() - 1
        }) as u32;
        match self.ascii.get_mut(character as usize) {
            Some(known) => *known = color + 1,
            None => {
                self.others.insert(character, color);
            }
        }
        color
    }
}

/// `(?=…)` and the other look-arounds, with their known results at the places of a text.
#[derive(Debug)]
pub(super) struct Lookout {
    pub automaton: Automaton,
    pub is_behind: bool,
    pub is_negated: bool,
    /// Known results by byte; empty if nothing is known.
    known: Vec<Option<bool>>,
}

impl Lookout {
    pub fn new(automaton: Automaton, is_behind: bool, is_negated: bool) -> Lookout {
        Lookout { automaton, is_behind, is_negated, known: Vec::new() }
    }

    pub fn forget(&mut self) {
        self.known.clear();
    }
}

/// A text, and what automata need to run over it.
pub(super) struct Context<'a, 't> {
    pub text: &'t str,
    pub colors: &'a mut Colors,
    /// The look-arounds; one inside of another is before it.
    pub lookouts: &'a mut [Lookout],
    pub steps: u64,
    /// The error of a look-around, which ends the run.
    failed: Option<SqlError>,
}

/// A place of a text.
struct Here<'a, 'c, 't> {
    context: &'a mut Context<'c, 't>,
    at: usize,
}

impl Place for Here<'_, '_, '_> {
    fn holds(&mut self, constraint: Constraint) -> bool {
        let text = self.context.text;
        let before = text[..self.at].chars().next_back();
        let behind = text[self.at..].chars().next();
        let (was_word, is_word) = (before.is_some_and(is_word), behind.is_some_and(is_word));
        match constraint {
            Constraint::TextStart => before.is_none(),
            Constraint::TextEnd => behind.is_none(),
            Constraint::LineStart => before.is_none_or(|character| character == '\n'),
            Constraint::LineEnd => behind.is_none_or(|character| character == '\n'),
            Constraint::WordStart => !was_word && is_word,
            Constraint::WordEnd => was_word && !is_word,
            Constraint::WordBoundary => was_word != is_word,
            Constraint::NoWordBoundary => was_word == is_word,
            Constraint::Look(look) => self.context.look(look, self.at).unwrap_or_else(|error| {
                self.context.failed = Some(error);
                false
            }),
        }
    }
}

impl<'a, 't> Context<'a, 't> {
    pub fn new(text: &'t str, colors: &'a mut Colors, lookouts: &'a mut [Lookout], steps: u64) -> Self {
        Context { text, colors, lookouts, steps, failed: None }
    }

    /// Runs an automaton from a place, up to `limit`. `accept` is called with each place up to which it matches, and returns true to
    /// end the run.
    pub fn run(
        &mut self,
        automaton: &mut Automaton,
        from: usize,
        limit: usize,
        mut accept: impl FnMut(usize) -> bool,
    ) -> Result<()> {
        let mut state = automaton.start();
        let mut at = from;
        let mut characters = self.text[from..].chars();
        loop {
            let resolved = automaton.resolve(state, &mut Here { context: self, at });
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            let known = automaton.resolved(resolved);
            if (known.accepts && accept(at)) || at >= limit || known.is_dead() {
                return Ok(());
            }
            let Some(character) = characters.next() else { return Ok(()) };
            let color = self.colors.of(character);
            let members = &self.colors.members[color as usize];
            state = automaton.step(resolved, color, |set| members[set]);
            at += character.len_utf8();
            step()?;
            self.steps += 1;
            if self.steps > STEPS_MAX {
                let message = "regular expression is too complex";
                return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message));
            }
        }
    }

    /// Returns true if a look-around holds at a place.
    fn look(&mut self, look: usize, at: usize) -> Result<bool> {
        let (inner, outer) = self.lookouts.split_at_mut(look);
        let Some(lookout) = outer.first_mut() else { return Ok(false) };
        if let Some(Some(found)) = lookout.known.get(at) {
            return Ok(*found != lookout.is_negated);
        }
        let Lookout { automaton, is_behind, is_negated, known } = lookout;
        let mut context = Context::new(self.text, self.colors, inner, self.steps);
        known.resize(self.text.len() + 1, None);
        if *is_behind {
            known.fill(Some(false));
            let length = self.text.len();
            context.run(automaton, 0, length, |place| {
                known[place] = Some(true);
                false
            })?;
        } else {
            let mut found = false;
            context.run(automaton, at, self.text.len(), |_| {
                found = true;
                true
            })?;
            known[at] = Some(found);
        }
        self.steps = context.steps;
        Ok(known[at] == Some(!*is_negated))
    }
}
