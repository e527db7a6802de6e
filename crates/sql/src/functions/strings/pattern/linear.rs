//! Patterns in the syntax of the crate `regex`, which matches in linear time.
//!
//! Invariant: the crate's pattern matches wherever the pattern does. It also matches elsewhere if there are
//! back-references, which match any text there, or look-around, which is left out.

use std::fmt::Write;

use super::syntax::{Alternatives, Atom, Constraint, Parsed, UNBOUNDED};

/// The crate's pattern.
pub(super) fn source(parsed: &Parsed) -> String {
    let mut writer = Writer { parsed, out: String::new() };
    writer.alternatives(&parsed.root);
    writer.out
}

struct Writer<'p> {
    parsed: &'p Parsed,
    out: String,
}

impl Writer<'_> {
    fn alternatives(&mut self, alternatives: &Alternatives) {
        for (number, branch) in alternatives.0.iter().enumerate() {
            if number > 0 {
                self.out.push('|');
            }
            for piece in branch {
                self.atom(&piece.atom);
                match (piece.min, piece.max) {
                    (1, 1) => {}
                    (min, UNBOUNDED) => {
                        let _ = write!(self.out, "{{{min},}}");
                    }
                    (min, max) => {
                        let _ = write!(self.out, "{{{min},{max}}}");
                    }
                }
            }
        }
    }

    fn atom(&mut self, atom: &Atom) {
        match atom {
            Atom::Set(set) => self.parsed.sets[*set].write(&mut self.out),
            Atom::Constraint(constraint) => self.out.push_str(match constraint {
                Constraint::TextStart => "\\A",
                Constraint::TextEnd => "\\z",
                Constraint::LineStart => "(?m:^)",
                Constraint::LineEnd => "(?m:$)",
                Constraint::WordStart => "\\b{start}",
                Constraint::WordEnd => "\\b{end}",
                Constraint::WordBoundary => "\\b",
                Constraint::NoWordBoundary => "\\B",
                Constraint::Look(_) => "",
            }),
            Atom::Group(_, inside) => {
                self.out.push_str("(?:");
                self.alternatives(inside);
                self.out.push(')');
            }
            Atom::BackReference(_) => self.out.push_str("(?s:.*)"),
        }
    }
}
