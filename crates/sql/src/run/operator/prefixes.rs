//! The beginning that all texts share which match a pattern: an index in the order of the characters' codes finds them
//! by it.
//!
//! # Invariants
//! - Each text that matches the pattern has this beginning. If that is not certain, the beginning is unknown.

use crate::plan::node::Pattern;

/// The common beginning of all texts that match a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Beginning {
    Unknown,
    /// The texts begin with this.
    With(String),
    /// Only this text matches.
    Exactly(String),
}

impl Beginning {
    fn with(text: String) -> Beginning {
        if text.is_empty() { Beginning::Unknown } else { Beginning::With(text) }
    }
}

/// The beginning of texts that match a pattern of this kind.
pub(crate) fn of(text: &str, pattern: Pattern) -> Beginning {
    match pattern {
        Pattern::Like => of_like(text),
        Pattern::Regex => of_regex(text),
    }
}

/// The beginning of texts that are LIKE a pattern.
fn of_like(pattern: &str) -> Beginning {
    let mut text = String::new();
    let mut rest = pattern.chars();
    while let Some(character) = rest.next() {
        match character {
            '%' | '_' => return Beginning::with(text),
            '\\' => match rest.next() {
                Some(escaped) => text.push(escaped),
                // An error, which matching reports.
                None => return Beginning::Unknown,
            },
            character => text.push(character),
        }
    }
    Beginning::Exactly(text)
}

/// The beginning of texts that match a regular expression.
fn of_regex(pattern: &str) -> Beginning {
    let Some(body) = pattern.strip_prefix('^') else { return Beginning::Unknown };
    // The form to which SIMILAR TO is translated.
    let body = match body.strip_prefix("(?:").and_then(|body| body.strip_suffix(")$")) {
        Some(inner) if !inner.contains(['(', ')']) => inner,
        _ => body,
    };
    // An alternative may begin in another way.
    if body.contains('|') {
        return Beginning::Unknown;
    }
    let mut text = String::new();
    let mut rest = body.chars();
    while let Some(character) = rest.next() {
        match character {
            // The character before them may be missing.
            '*' | '?' | '{' => {
                text.pop();
                break;
            }
            '.' | '[' | ']' | '(' | ')' | '+' | '$' | '^' | '}' => break,
            '\\' => match rest.next() {
                Some(escaped) if !escaped.is_alphanumeric() => text.push(escaped),
                _ => break,
            },
            character => text.push(character),
        }
    }
    Beginning::with(text)
}

/// The least text above all that begin with this one; `None` if there is none.
pub(crate) fn end_of(text: &str) -> Option<String> {
    let mut characters: Vec<char> = text.chars().collect();
    while let Some(last) = characters.pop() {
        let next = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32);
        if let Some(next) = next {
            characters.push(next);
            return Some(characters.into_iter().collect());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str) -> Beginning {
        Beginning::With(text.to_string())
    }

    #[test]
    fn a_like_pattern_begins_with_its_characters_up_to_the_first_wildcard() {
        assert_eq!(of_like("x1%"), with("x1"));
        assert_eq!(of_like("x_1"), with("x"));
        assert_eq!(of_like("%x"), Beginning::Unknown);
        assert_eq!(of_like(r"a\%b%"), with("a%b"));
        assert_eq!(of_like("abc"), Beginning::Exactly("abc".to_string()));
        assert_eq!(of_like(""), Beginning::Exactly(String::new()));
        assert_eq!(of_like(r"abc\"), Beginning::Unknown);
    }

    #[test]
    fn a_regular_expression_begins_with_its_plain_characters() {
        assert_eq!(of_regex("^abc"), with("abc"));
        assert_eq!(of_regex("^abc*"), with("ab"));
        assert_eq!(of_regex("^abc+d"), with("abc"));
        assert_eq!(of_regex("^ab{2}"), with("a"));
        assert_eq!(of_regex("^a.c"), with("a"));
        assert_eq!(of_regex(r"^a\.c"), with("a.c"));
        assert_eq!(of_regex(r"^a\d"), with("a"));
        assert_eq!(of_regex("^a|b"), Beginning::Unknown);
        assert_eq!(of_regex("^(a|b)"), Beginning::Unknown);
        assert_eq!(of_regex("^(?:abc.*)$"), with("abc"));
        assert_eq!(of_regex("^(?:abc)*"), Beginning::Unknown);
        assert_eq!(of_regex("abc"), Beginning::Unknown);
        assert_eq!(of_regex("^x?y"), Beginning::Unknown);
        assert_eq!(of_regex("***=^abc"), Beginning::Unknown);
    }

    #[test]
    fn the_end_of_a_beginning_is_above_all_texts_with_it() {
        assert_eq!(end_of("ab"), Some("ac".to_string()));
        assert_eq!(end_of("a\u{d7ff}"), Some("a\u{e000}".to_string()));
        assert_eq!(end_of("a\u{10ffff}"), Some("b".to_string()));
        assert_eq!(end_of("\u{10ffff}"), None);
    }
}
