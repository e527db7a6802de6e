//! POSIX patterns: what they match, and which are refused.

use super::*;
use proptest::prelude::*;

fn is_match(pattern: &str, text: &str) -> bool {
    compile(pattern, Flags::default()).unwrap().is_match(text)
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
    for pattern in ["(", ")", "[a", "*a", "a**", "a{2,1}", "a{300}", "\\", "[[:nothing:]]"] {
        assert_eq!(compile(pattern, Flags::default()).unwrap_err().state().as_str(), "2201B", "{pattern}");
    }
    for pattern in ["(a)\\1", "(?=a)", "(?<!a)b"] {
        assert_eq!(compile(pattern, Flags::default()).unwrap_err().state().as_str(), "0A000", "{pattern}");
    }
    assert_eq!(Flags::parse("z").unwrap_err().state().as_str(), "22023");
}

proptest! {
    #[test]
    fn any_pattern_is_compiled_or_refused(pattern in "[\\[\\](){}*+?^$|.a-c\\\\:=,0-9-]{0,20}") {
        let _ = compile(&pattern, Flags::default());
    }
}
