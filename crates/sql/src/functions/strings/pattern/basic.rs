//! Basic regular expressions, where most characters are special only after a backslash.

use super::parse::{Reader, Reason};
use super::syntax::{Atom, Constraint, Piece, Preference, UNBOUNDED};

impl Reader {
    /// An atom and its quantifier. `is_first`: nothing precedes it in the expression or in its parentheses.
    pub(super) fn basic_piece(&mut self, is_first: bool) -> Result<Piece, Reason> {
        let atom = self.basic_atom(is_first)?;
        self.skip();
        if matches!(atom, Atom::Constraint(Constraint::TextStart | Constraint::LineStart)) {
            // A star after the anchor is an ordinary character.
            return Ok(Piece { atom, min: 1, max: 1, prefers: None });
        }
        if self.accept("\\{") {
            self.at -= 1;
            return self.bound(atom);
        }
        if self.accept("*") {
            return Ok(Piece { atom, min: 0, max: UNBOUNDED, prefers: Some(Preference::Longest) });
        }
        Ok(Piece { atom, min: 1, max: 1, prefers: None })
    }

    fn basic_atom(&mut self, is_first: bool) -> Result<Atom, Reason> {
        let is_last =
            |reader: &Reader| reader.peek().is_none() || reader.text[reader.at..].starts_with(&['\\', ')']);
        Ok(match self.next() {
            Some('^') if is_first => {
                Atom::Constraint(self.anchor(Constraint::TextStart, Constraint::LineStart))
            }
            Some('$') if is_last(self) => {
                Atom::Constraint(self.anchor(Constraint::TextEnd, Constraint::LineEnd))
            }
            Some('[') => return self.bracket(),
            Some('.') => self.any(),
            Some('\\') => match self.next() {
                Some('(') => return self.group(),
                Some('<') => Atom::Constraint(Constraint::WordStart),
                Some('>') => Atom::Constraint(Constraint::WordEnd),
                Some(digit @ '1'..='9') => return self.back_reference(digit as usize - '0' as usize),
                Some(plain) => self.character(plain),
                None => return Err(super::parse::ESCAPE),
            },
            Some(plain) => self.character(plain),
            None => return Err(super::parse::OPERAND),
        })
    }
}
