//! Where statements end: at a semicolon outside of quotes, comments and parentheses.

/// The first statement of a text, with its semicolon, and what stands behind it; none: it has not ended yet.
pub fn first_statement(text: &str) -> Option<(&str, &str)> {
    let end = end_of_statement(text)?;
    Some(text.split_at(end))
}

/// A text without the blanks, comments and lone semicolons that it begins with.
pub fn without_blanks(text: &str) -> &str {
    let mut scanner = Scanner { bytes: text.as_bytes(), at: 0 };
    while let Some(byte) = scanner.bytes.get(scanner.at) {
        if byte.is_ascii_whitespace() || *byte == b';' {
            scanner.at += 1;
        } else if !scanner.skip_comment() {
            break;
        }
    }
    &text[scanner.at..]
}

/// Whether a text is blank but for comments.
pub fn is_blank(text: &str) -> bool {
    without_blanks(text).is_empty()
}

/// The place behind the semicolon that ends the first statement.
fn end_of_statement(text: &str) -> Option<usize> {
    let mut scanner = Scanner { bytes: text.as_bytes(), at: 0 };
    let mut depth = 0_usize;
    while let Some(&byte) = scanner.bytes.get(scanner.at) {
        if scanner.skip_comment() || scanner.skip_quoted() {
            continue;
        }
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b';' if depth == 0 => return Some(scanner.at + 1),
            _ => {}
        }
        scanner.at += 1;
    }
    None
}

struct Scanner<'t> {
    bytes: &'t [u8],
    at: usize,
}

impl Scanner<'_> {
    fn starts_with(&self, with: &[u8]) -> bool {
        self.bytes[self.at..].starts_with(with)
    }

    /// Goes behind a comment, or to the end if it does not end. Whether there was one.
    fn skip_comment(&mut self) -> bool {
        if self.starts_with(b"--") {
            let rest = &self.bytes[self.at..];
            self.at += rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |end| end + 1);
            return true;
        }
        if !self.starts_with(b"/*") {
            return false;
        }
        let mut depth = 0;
        while self.at < self.bytes.len() {
            if self.starts_with(b"/*") {
                depth += 1;
                self.at += 2;
            } else if self.starts_with(b"*/") {
                depth -= 1;
                self.at += 2;
                if depth == 0 {
                    break;
                }
            } else {
                self.at += 1;
            }
        }
        true
    }

    /// Goes behind something in quotes. Whether there was something.
    fn skip_quoted(&mut self) -> bool {
        match self.bytes[self.at] {
            quote @ (b'\'' | b'"') => {
                let before = self.at.checked_sub(1).map(|before| self.bytes[before]);
                let is_escaped =
                    quote == b'\'' && matches!(before, Some(b'e' | b'E')) && !self.is_word_before(2);
                self.at += 1;
                while let Some(&byte) = self.bytes.get(self.at) {
                    self.at += 1;
                    if byte == b'\\' && is_escaped {
                        self.at += 1;
                    } else if byte == quote {
                        if self.bytes.get(self.at) != Some(&quote) {
                            break;
                        }
                        self.at += 1;
                    }
                }
                self.at = self.at.min(self.bytes.len());
                true
            }
            b'$' => self.skip_dollar_quoted(),
            _ => false,
        }
    }

    fn is_word_before(&self, distance: usize) -> bool {
        let before = self.at.checked_sub(distance).map(|before| self.bytes[before]);
        before.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    }

    fn skip_dollar_quoted(&mut self) -> bool {
        if self.is_word_before(1) {
            return false;
        }
        let rest = &self.bytes[self.at..];
        let is_tag = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 128;
        let length = rest[1..].iter().take_while(|byte| is_tag(byte)).count();
        let is_parameter = rest.get(1).is_some_and(u8::is_ascii_digit);
        if is_parameter || rest.get(length + 1) != Some(&b'$') {
            return false;
        }
        let tag = &rest[..length + 2];
        let body = &rest[tag.len()..];
        let end = body.windows(tag.len()).position(|window| window == tag);
        self.at += end.map_or(rest.len(), |end| tag.len() + end + tag.len());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statements(mut text: &str) -> Vec<&str> {
        let mut found = Vec::new();
        while let Some((statement, rest)) = first_statement(text) {
            found.push(statement.trim());
            text = rest;
        }
        found.push(text.trim());
        found
    }

    #[test]
    fn statements_end_at_semicolons_outside_of_everything() {
        assert_eq!(statements("select 1; select 2"), ["select 1;", "select 2"]);
        assert_eq!(
            statements("select ';', \"a;b\" -- ;\n, /* ; /* ; */ ; */ 3;"),
            ["select ';', \"a;b\" -- ;\n, /* ; /* ; */ ; */ 3;", ""]
        );
        assert_eq!(statements("do $$ begin; end; $$; x"), ["do $$ begin; end; $$;", "x"]);
        assert_eq!(statements("do $a$ ; $$ ; $a$; x"), ["do $a$ ; $$ ; $a$;", "x"]);
        assert_eq!(statements("select 'it''s;', E'a\\';b'; y"), ["select 'it''s;', E'a\\';b';", "y"]);
        assert_eq!(statements("select (1; 2); z"), ["select (1; 2);", "z"]);
        assert_eq!(statements("select $1; q"), ["select $1;", "q"]);
    }

    #[test]
    fn an_incomplete_statement_is_not_split_off() {
        for text in ["select 'a;", "select /* ;", "do $$ ;", "select (;", "select 1 -- ;"] {
            assert_eq!(first_statement(text), None, "{text}");
        }
    }

    #[test]
    fn comments_are_blank() {
        assert!(is_blank(" -- nothing\n /* at all */ ; "));
        assert_eq!(without_blanks("/* a */ ;\n\\d"), "\\d");
        assert!(!is_blank("x"));
        assert!(is_blank(""));
    }
}
