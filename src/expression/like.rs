//! LIKE: `%` matches any characters, `_` one, and a backslash before a character the character itself.
//!
//! Invariant: the time is at most the product of both lengths, whatever the pattern.

/// Returns true if the text matches the pattern.
pub(super) fn matches(text: &str, pattern: &str) -> bool {
    let (mut text, mut pattern) = (text.chars(), pattern.chars());
    // The position to return to if the rest of the pattern behind the last `%` does not match: the text is tried from
    // one character further.
    let mut again = None;
    loop {
        match pattern.next() {
            Some('%') => {
                again = Some((text.clone(), pattern.clone()));
                continue;
            }
            Some('_') if text.clone().next().is_some() => {
                text.next();
                continue;
            }
            Some(wanted) if wanted != '_' => {
                let wanted = if wanted == '\\' { pattern.next().unwrap_or('\\') } else { wanted };
                let mut ahead = text.clone();
                if ahead.next() == Some(wanted) {
                    text = ahead;
                    continue;
                }
            }
            None if text.clone().next().is_none() => return true,
            _ => {}
        }
        let Some((mut from, after)) = again.take() else { return false };
        if from.next().is_none() {
            return false;
        }
        again = Some((from.clone(), after.clone()));
        (text, pattern) = (from, after);
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn wildcards_stand_for_characters() {
        for (text, pattern) in [
            ("", ""),
            ("", "%"),
            ("abc", "abc"),
            ("abc", "%"),
            ("abc", "a%"),
            ("abc", "%c"),
            ("abc", "%b%"),
            ("abc", "a_c"),
            ("aXbXc", "a%b%c"),
            ("aaab", "%ab"),
            ("ünï", "_n_"),
            ("50%", "50\\%"),
            ("a_b", "a\\_b"),
            ("\\", "\\\\"),
            ("abcabc", "%abc"),
        ] {
            assert!(matches(text, pattern), "{text:?} LIKE {pattern:?}");
        }
    }

    #[test]
    fn what_differs_does_not_match() {
        for (text, pattern) in [
            ("a", ""),
            ("", "_"),
            ("abc", "ab"),
            ("abc", "abcd"),
            ("abc", "_"),
            ("abc", "%d%"),
            ("ABC", "abc"),
            ("50x", "50\\%"),
            ("axb", "a\\_b"),
            ("ab", "a_b"),
        ] {
            assert!(!matches(text, pattern), "{text:?} NOT LIKE {pattern:?}");
        }
    }

    #[test]
    fn many_wildcards_do_not_take_exponential_time() {
        let text = "a".repeat(2_000);
        assert!(!matches(&text, &format!("{}b", "%a".repeat(50))));
    }
}
