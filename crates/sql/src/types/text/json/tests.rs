//! JSON as texts.

use super::*;
use proptest::prelude::*;

fn round(text: &str) -> String {
    parse_jsonb(text).map_or_else(
        |error| error.state().as_str().to_string(),
        |value| jsonb_text(&value).expect("no statement is interrupted"),
    )
}

#[test]
fn documents_are_normalized() {
    for (text, expected) in [
        (r#"{"b":1,"aa":2,"a":3,"b":4}"#, r#"{"a": 3, "b": 4, "aa": 2}"#),
        (" [ 1.50 , 2e3 , -0 ] ", "[1.50, 2000, 0]"),
        (r#""\u00e4\ud83d\ude00\n""#, "\"ä😀\\n\""),
        ("01", "22P02"),
        ("[1,]", "22P02"),
        ("{\"a\":}", "22P02"),
        ("nul", "22P02"),
        (r#""\u0000""#, "22P05"),
        ("\"\u{1}\"", "22P02"),
        ("", "22P02"),
        ("1 2", "22P02"),
    ] {
        assert_eq!(round(text), expected, "{text}");
    }
    assert!(check_json(r#""\u0000""#).is_ok());
}

#[test]
fn deep_nesting_is_an_error() {
    let bomb = "[".repeat(100_000);
    assert_eq!(parse_jsonb(&bomb).unwrap_err().state().as_str(), "54001");
}

#[test]
fn texts_and_trees_are_limited_where_the_parser_is() {
    for (inside, levels) in [("", DEPTH_MAX + 1), ("1", DEPTH_MAX), (r#""[\"[""#, DEPTH_MAX)] {
        let nested = |levels| format!("{}{inside}{}", "[".repeat(levels), "]".repeat(levels));
        let text = nested(levels);
        assert!(check_depth(&text).is_ok() && check_json(&text).is_ok());
        let tree = parse_jsonb(&text).expect("the deepest there may be");
        assert!(tree.has_at_most_levels(DEPTH_MAX) && !tree.has_at_most_levels(DEPTH_MAX - 1));
        let text = nested(levels + 1);
        assert!(check_depth(&text).is_err() && check_json(&text).is_err());
        assert!(!Jsonb::Array(vec![Jsonb::Null, tree]).has_at_most_levels(DEPTH_MAX));
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "[\\[\\]{}:,\"\\\\u0-9a-f .eE+-]{0,30}") {
        if let Ok(value) = parse_jsonb(&text) {
            prop_assert_eq!(parse_jsonb(&jsonb_text(&value).unwrap()).unwrap(), value);
        }
    }
}
