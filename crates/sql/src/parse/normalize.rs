//! Statements without their constants, as statistics and logs show them: no value that a client has sent is kept.

use super::lexer::{Lexer, TokenKind};

/// Maximum size of a normalized statement, in bytes.
const TEXT_BYTES_MAX: usize = 4_096;

/// The statement with `$n` in place of each constant, numbered after its own parameters, and on one line. A text that
/// is no SQL, which may hold anything, becomes empty.
pub(crate) fn normalize(text: &str) -> String {
    let mut next = 0;
    for token in Lexer::new(text) {
        match token.map(|token| token.kind) {
            Ok(TokenKind::Parameter(number)) => next = number.max(next),
            Ok(_) => {}
            Err(_) => return String::new(),
        }
    }
    let mut normalized = String::with_capacity(text.len().min(TEXT_BYTES_MAX));
    let mut end = 0;
    for token in Lexer::new(text).flatten() {
        let (start, before) = (token.start as usize, end);
        end = token.end as usize;
        // Blanks and comments between tokens.
        if start > before && !normalized.is_empty() && token.kind != TokenKind::End {
            normalized.push(' ');
        }
        match token.kind {
            TokenKind::Integer(_)
            | TokenKind::Decimal(_)
            | TokenKind::Text(_)
            | TokenKind::National(_)
            | TokenKind::Bits(_) => {
                next += 1;
                normalized.push('$');
                normalized.push_str(&next.to_string());
            }
            _ => normalized.push_str(&text[start..end]),
        }
        if normalized.len() > TEXT_BYTES_MAX {
            normalized.truncate(normalized.floor_char_boundary(TEXT_BYTES_MAX));
            break;
        }
    }
    normalized.truncate(normalized.trim_end_matches([';', ' ']).len());
    normalized
}

/// Normalizes a text whose end may have been cut off, in the middle of a constant, say: that end is left out.
pub(crate) fn normalize_cut(text: &str) -> String {
    let mut end = text.len();
    // The rest that is cut off can only be a string, a quoted name or a comment: they begin with one of these.
    while end > 0 {
        let normalized = normalize(&text[..end]);
        if !normalized.is_empty() {
            return normalized;
        }
        end = text[..end].rfind(['\'', '"', '$', '/']).unwrap_or(0);
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_become_parameters_and_blanks_one_space() {
        for (text, normalized) in [
            ("SELECT 1", "SELECT $1"),
            ("select  a,\n\tb from t -- a comment\n where c = 'x' ;", "select a, b from t where c = $1"),
            ("UPDATE t SET n = n + $1 WHERE id = 7", "UPDATE t SET n = n + $1 WHERE id = $2"),
            ("INSERT INTO t VALUES (1.5, E'a\\nb', X'ff')", "INSERT INTO t VALUES ($1, $2, $3)"),
            ("SELECT \"Odd 1\" FROM t", "SELECT \"Odd 1\" FROM t"),
            ("", ""),
        ] {
            assert_eq!(normalize(text), normalized, "{text}");
        }
    }

    #[test]
    fn nothing_that_was_quoted_or_cannot_be_read_remains() {
        for text in [
            "ALTER ROLE ada PASSWORD 'canary'",
            "DO $body$ canary $body$",
            "SELECT U&'canary'",
            "COPY t FROM STDIN WITH (NULL 'canary')",
            "SELECT 'canary",
            "SELECT 1 /* canary",
            "SELECT 1 /* canary */",
        ] {
            assert!(!normalize(text).contains("canary"), "{text}: {}", normalize(text));
        }
    }

    #[test]
    fn of_a_text_that_was_cut_off_what_can_be_read_remains() {
        assert_eq!(normalize_cut("SELECT 1, 'a can"), "SELECT $1,");
        assert_eq!(normalize_cut("SELECT 1, 'it''s a can"), "SELECT $1, $2");
        assert_eq!(normalize_cut("SELECT 1 FROM t WHERE \"na"), "SELECT $1 FROM t WHERE");
        assert_eq!(normalize_cut("SELECT $tag$ can"), "SELECT");
        assert_eq!(normalize_cut("'canary"), "");
    }

    #[test]
    fn long_statements_are_cut_between_characters() {
        let long = format!("SELECT {}", "é, ".repeat(5_000));
        let normalized = normalize(&long);
        assert!(normalized.len() <= TEXT_BYTES_MAX && normalized.starts_with("SELECT é, é"));
    }
}
