//! POSIX patterns: their matches, and refused patterns.

use super::*;
use proptest::prelude::*;

fn is_match(pattern: &str, text: &str) -> bool {
    compile(pattern, Flags::default()).unwrap().is_match(text).unwrap()
}

#[test]
fn posix_patterns_are_understood() {
    for (pattern, text, expected) in [
        ("^a.c$", "a\nc", true),
        ("[[:digit:]]+", "x42", true),
        ("[]a]", "]", true),
        ("[a-c&&b]", "&", true),
        ("\\mfoo\\M", "a foo b", true),
        ("\\mfoo\\M", "afoo", false),
        ("a{2}", "caab", true),
        ("{", "{", true),
        ("(?i)ABC", "abc", true),
        ("***=a.c", "abc", false),
        ("[^a]", "\n", true),
        ("\\d", "٣", false),
        ("\\w", "ä", true),
    ] {
        assert_eq!(is_match(pattern, text), expected, "{pattern} {text}");
    }
}

#[test]
fn wrong_patterns_are_refused() {
    for pattern in
        ["(", ")", "[a", "*a", "a**", "a{2,1}", "a{300}", "\\", "[[:nothing:]]", "^*", "(a\\1)", "[b-a]"]
    {
        assert_eq!(compile(pattern, Flags::default()).unwrap_err().state().as_str(), "2201B", "{pattern}");
    }
    assert_eq!(Flags::parse("z").unwrap_err().state().as_str(), "22023");
}

/// The groups of the first match.
fn captures(pattern: &str, text: &str) -> Vec<Option<String>> {
    let found = compile(pattern, Flags::default()).unwrap().captures_at(text, 0).unwrap().unwrap();
    found.groups().map(|part| part.map(|(start, end)| text[start..end].to_string())).collect()
}

#[test]
fn a_branch_has_one_preference() {
    let some = |texts: &[&str]| texts.iter().map(|text| Some(text.to_string())).collect::<Vec<_>>();
    assert_eq!(captures("(.*?)(\\d+)(.*)", "abc01234xyz"), some(&["abc0", "abc", "0", ""]));
    assert_eq!(captures("(.*)(\\d+)(.*)", "abc01234xyz"), some(&["abc01234xyz", "abc0123", "4", "xyz"]));
    assert_eq!(captures("a|ab|abc", "abcd"), some(&["abc"]));
    assert_eq!(captures("(a)(b)?\\1", "aa").len(), 3);
    assert_eq!(captures("(\\w+) \\1", "the the"), some(&["the the", "the"]));
    assert_eq!(captures("(?<=\\$)\\d+(?!\\d|x)", "7 $123x $45"), some(&["45"]));
}

#[test]
fn nested_quantifiers_end() {
    let text = "a".repeat(2_000) + "c";
    for pattern in ["(a*)*b", "(a|aa)+b", "((a*)*)*b", "(?=(a*)*b)a"] {
        assert!(!compile(pattern, Flags::default()).unwrap().is_match(&text).unwrap(), "{pattern}");
    }
}

proptest! {
    #[test]
    fn any_pattern_is_compiled_or_refused(pattern in "[\\[\\](){}*+?^$|.a-c\\\\:=,0-9-]{0,20}") {
        let _ = compile(&pattern, Flags::default());
    }
}
