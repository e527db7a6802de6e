//! Literals of definitions whose meaning depends on the session's settings: dates, times and intervals.
//!
//! PostgreSQL keeps the meaning that a literal had when its view, default or check was created. The catalog here keeps
//! texts, so the literal is rewritten to have the same meaning under any TimeZone, DateStyle and IntervalStyle.

use crate::bind::binder::Binder;
use crate::parse::string_literals;
use crate::parse::syntax::At;
use crate::types::text::to_text;
use crate::types::{PlainEnvironment, Type, Value};

/// A literal that was given a type.
#[derive(Debug)]
pub(crate) struct LiteralUse {
    /// Position of the literal, or of the expression that it is a part of.
    at: At,
    text: String,
    /// The text that has this meaning whatever the settings are.
    fixed: String,
}

impl LiteralUse {
    /// Counts its place from a later start of the text.
    pub fn moved(&mut self, start: At) {
        self.at = self.at.saturating_sub(start);
    }
}

impl Binder<'_> {
    /// Notes the meaning of a literal, if that is requested.
    pub(super) fn note_literal(&mut self, at: At, text: &str, ty: Type, value: &Value) {
        let Some(literals) = &mut self.literals else { return };
        let fixed = match is_read_by_settings(ty.element().unwrap_or(ty)) {
            true => to_text(&PlainEnvironment::new(0), ty, value).ok(),
            false => None,
        };
        literals.push(LiteralUse {
            at,
            text: text.to_string(),
            fixed: fixed.unwrap_or_else(|| text.to_string()),
        });
    }
}

/// Returns true if the meaning of a text as a value of a type depends on the session.
fn is_read_by_settings(ty: Type) -> bool {
    matches!(
        ty,
        Type::Date | Type::Time | Type::Timetz | Type::Timestamp | Type::Timestamptz | Type::Interval
    )
}

/// The literals of a text that are to be written otherwise: their numbers in it, their positions, and the new texts. If
/// equal literals have different meanings, the position decides.
pub(crate) fn fixed_literals(text: &str, uses: &[LiteralUse]) -> Vec<(usize, At, String)> {
    let mut fixed = Vec::new();
    for (number, (at, literal)) in string_literals(text).into_iter().enumerate() {
        let mut same = uses.iter().filter(|known| known.text == literal);
        let here = same.clone().find(|known| known.at == at);
        let Some(found) =
            here.or_else(|| same.next().filter(|first| same.all(|other| other.fixed == first.fixed)))
        else {
            continue;
        };
        if found.fixed != literal {
            fixed.push((number, at, format!("'{}'", found.fixed.replace('\'', "''"))));
        }
    }
    fixed
}
