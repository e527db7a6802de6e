//! Variables of the shell: `\set`, and what statements leave behind.
//!
//! Invariant: names are those of psql, so that its scripts find what they expect (`SQLSTATE`, `ROW_COUNT`, `LAST_ERROR_MESSAGE`, …).

use std::collections::BTreeMap;

/// Values by names.
#[derive(Clone, Debug, Default)]
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.0.insert(name.to_owned(), value.into());
    }

    pub fn unset(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Returns true if a variable's value means yes.
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name).and_then(truth).unwrap_or(false)
    }

    pub fn all(&self) -> impl Iterator<Item = (&String, &String)> {
        self.0.iter()
    }

    /// The reference to a variable that a text begins with, a colon first: its length, and the text that
    /// replaces it. `None` if it is no reference, or there is no such variable.
    pub fn reference(&self, text: &str) -> Option<(usize, String)> {
        let rest = &text[1..];
        if let Some(inner) = rest.strip_prefix("{?") {
            let length = name_length(inner);
            let is_whole = length > 0 && inner[length..].starts_with('}');
            let truth = if self.0.contains_key(&inner[..length]) { "TRUE" } else { "FALSE" };
            return is_whole.then(|| (length + 4, truth.to_owned()));
        }
        let quote = rest.chars().next().filter(|letter| matches!(letter, '\'' | '"'));
        let inner = if quote.is_some() { &rest[1..] } else { rest };
        let length = name_length(inner);
        let value = self.get(&inner[..length])?;
        match quote {
            None => Some((length + 1, value.to_owned())),
            Some(quote) if inner[length..].starts_with(quote) => {
                let quoted = if quote == '\'' { literal(value) } else { identifier(value) };
                Some((length + 3, quoted))
            }
            Some(_) => None,
        }
    }
}

fn name_length(text: &str) -> usize {
    text.find(|letter: char| !(letter.is_alphanumeric() || letter == '_')).unwrap_or(text.len())
}

/// Returns true if a name is valid for a variable.
pub fn is_name(name: &str) -> bool {
    !name.is_empty() && name_length(name) == name.len()
}

/// A text as a constant of SQL.
pub fn literal(value: &str) -> String {
    let doubled = value.replace('\'', "''");
    if value.contains('\\') {
        format!(" E'{}'", doubled.replace('\\', "\\\\"))
    } else {
        format!("'{doubled}'")
    }
}

/// A text as an identifier of SQL.
pub fn identifier(value: &str) -> String {
    format!("\"{}\"", value.replace('"', "\"\""))
}

/// The truth value that a word means: any unambiguous beginning of one, as in psql.
pub fn truth(word: &str) -> Option<bool> {
    let word = word.to_lowercase();
    let begins = |whole: &str, least: usize| word.len() >= least && whole.starts_with(&word);
    if word == "1" || begins("true", 1) || begins("yes", 1) || begins("on", 2) {
        Some(true)
    } else if word == "0" || begins("false", 1) || begins("no", 1) || begins("off", 2) {
        Some(false)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_as_constants_and_identifiers() {
        assert_eq!(literal("it's"), "'it''s'");
        assert_eq!(literal("a\\b"), " E'a\\\\b'");
        assert_eq!(identifier("a\"b"), "\"a\"\"b\"");
    }

    #[test]
    fn words_for_yes_and_no_may_be_shortened() {
        for word in ["1", "t", "TRUE", "y", "yes", "on"] {
            assert_eq!(truth(word), Some(true), "{word}");
        }
        for word in ["0", "f", "no", "n", "off", "of"] {
            assert_eq!(truth(word), Some(false), "{word}");
        }
        assert_eq!((truth("o"), truth(""), truth("maybe")), (None, None, None));
    }

    #[test]
    fn references_name_variables_that_there_are() {
        let mut variables = Variables::default();
        variables.set("a", "1");
        assert_eq!(variables.reference(":a+1"), Some((2, "1".to_owned())));
        assert_eq!(variables.reference(":'a'"), Some((4, "'1'".to_owned())));
        assert_eq!(variables.reference(":{?b}"), Some((5, "FALSE".to_owned())));
        for none in [":b", ":'a", ":", ":{?}", ": a"] {
            assert_eq!(variables.reference(none), None, "{none}");
        }
    }
}
