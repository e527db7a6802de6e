//! Finds statements and commands in the input, line by line, as psql does.
//!
//! A statement ends at a semicolon outside of quotes, comments, parentheses and bodies (`BEGIN ATOMIC … END`); a command begins at a
//! backslash outside of quotes and comments, anywhere in a line. Variables are replaced meanwhile: `:name` by the value, `:'name'`
//! by a literal, `:"name"` by an identifier, `:{?name}` by whether there is one.
//!
//! Invariant: what a line leaves open is kept, so that each line is looked at once, however long its statement is.

use crate::sql::variables::Variables;

/// Most replacements of variables in one line: a variable whose value names itself would never end otherwise.
const REPLACEMENTS_MAX: usize = 1_000;

/// The event that ended a scan of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The buffer holds a statement, with its semicolon.
    Statement,
    /// The line has a backslash at the place: a command.
    Command,
    /// The line is over.
    EndOfLine,
}

/// The construct that contains the next letter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Plain,
    /// A text constant; with escapes: `E'…'`.
    Text {
        has_escapes: bool,
    },
    Name,
    Comment(u32),
    /// `$tag$`.
    Dollar(String),
}

/// The lexer's state at the end of the scanned text: the constructs that are open.
#[derive(Clone, Debug, Default)]
pub struct Lexer {
    place: Place,
    parentheses: u32,
    bodies: u32,
    /// The first words of the statement, in lower case: whether it creates a routine.
    words: Vec<String>,
    replacements: usize,
}

impl Lexer {
    /// The mark before the sign of a prompt, for a statement that is continued.
    pub fn mark(&self) -> char {
        match self.place {
            Place::Text { .. } => '\'',
            Place::Name => '"',
            Place::Comment(_) => '*',
            Place::Dollar(_) => '$',
            Place::Plain if self.parentheses > 0 => '(',
            Place::Plain => '-',
        }
    }

    /// Moves the line from a place on into the buffer, up to what ends a statement or begins a command. Blanks and comments in front
    /// of a statement are left out.
    pub fn scan(
        &mut self,
        line: &mut String,
        at: &mut usize,
        buffer: &mut String,
        variables: &Variables,
    ) -> Event {
        self.replacements = 0;
        while let Some(letter) = line[*at..].chars().next() {
            let was_comment = self.is_comment();
            let step = match self.place {
                Place::Plain => match self.plain(line, at, letter, buffer, variables) {
                    Ok(step) => step,
                    Err(event) => return event,
                },
                _ => self.inside(&line[*at..], letter),
            };
            let is_blank = letter.is_whitespace() || was_comment || self.is_comment();
            if !(buffer.is_empty() && is_blank) {
                buffer.push_str(&line[*at..*at + step]);
            }
            *at += step;
        }
        Event::EndOfLine
    }

    fn is_comment(&self) -> bool {
        matches!(self.place, Place::Comment(_))
    }

    /// Letters inside of quotes and comments, up to where their meaning may change.
    fn inside(&mut self, rest: &str, letter: char) -> usize {
        match &mut self.place {
            Place::Text { has_escapes } => {
                if *has_escapes && letter == '\\' {
                    return 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
                }
                self.end_quoted(rest, letter, '\'')
            }
            Place::Name => self.end_quoted(rest, letter, '"'),
            Place::Comment(depth) => {
                if rest.starts_with("/*") {
                    *depth += 1;
                    return 2;
                }
                if rest.starts_with("*/") {
                    *depth -= 1;
                    if *depth == 0 {
                        self.place = Place::Plain;
                    }
                    return 2;
                }
                letter.len_utf8()
            }
            Place::Dollar(tag) => match rest.find(tag.as_str()) {
                Some(end) => {
                    let end = end + tag.len();
                    self.place = Place::Plain;
                    end
                }
                None => rest.len(),
            },
            Place::Plain => letter.len_utf8(),
        }
    }

    fn end_quoted(&mut self, rest: &str, letter: char, quote: char) -> usize {
        if letter == quote {
            if rest[1..].starts_with(quote) {
                return 2;
            }
            self.place = Place::Plain;
        }
        letter.len_utf8()
    }

    /// Letters outside of everything.
    fn plain(
        &mut self,
        line: &mut String,
        at: &mut usize,
        letter: char,
        buffer: &mut String,
        variables: &Variables,
    ) -> Result<usize, Event> {
        let rest = &line[*at..];
        if rest.starts_with("--") {
            let end = rest.find('\n').unwrap_or(rest.len());
            if buffer.is_empty() {
                *at += end;
                return Ok(0);
            }
            return Ok(end);
        }
        if rest.starts_with("/*") {
            self.place = Place::Comment(0);
            return Ok(0);
        }
        match letter {
            '\'' => {
                let has_escapes = buffer.ends_with(['e', 'E']) && !ends_in_word(&buffer[..buffer.len() - 1]);
                self.place = Place::Text { has_escapes };
                buffer.push('\'');
                *at += 1;
                return Ok(0);
            }
            '"' => self.place = Place::Name,
            '$' if !ends_in_word(buffer) => {
                if let Some(tag) = dollar_tag(rest) {
                    self.place = Place::Dollar(tag.to_owned());
                    return Ok(tag.len());
                }
            }
            '(' => self.parentheses += 1,
            ')' => self.parentheses = self.parentheses.saturating_sub(1),
            ';' if self.parentheses == 0 && self.bodies == 0 => {
                buffer.push(';');
                *at += 1;
                *self = Lexer::default();
                return Err(Event::Statement);
            }
            // As psql: a semicolon that does not end the statement's sending.
            '\\' if rest.starts_with("\\;") => {
                buffer.push(';');
                *at += 2;
                self.words.clear();
                return Ok(0);
            }
            '\\' => return Err(Event::Command),
            ':' => return Ok(self.variable(line, *at, variables)),
            _ if is_word_start(letter) => return Ok(self.word(rest)),
            _ => {}
        }
        Ok(letter.len_utf8())
    }

    /// A word, which may begin or end a routine's body.
    fn word(&mut self, rest: &str) -> usize {
        let length = rest.find(|letter: char| !is_word(letter)).unwrap_or(rest.len());
        let word = rest[..length].to_lowercase();
        if self.creates_routine() && self.parentheses == 0 {
            match word.as_str() {
                "begin" => self.bodies += 1,
                "case" if self.bodies > 0 => self.bodies += 1,
                "end" => self.bodies = self.bodies.saturating_sub(1),
                _ => {}
            }
        }
        if self.words.len() < 4 {
            self.words.push(word);
        }
        length
    }

    fn creates_routine(&self) -> bool {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        let kind = match words[..] {
            ["create", "or", "replace", kind] => kind,
            ["create", kind, ..] => kind,
            _ => return false,
        };
        matches!(kind, "function" | "procedure")
    }

    /// Replaces a variable in the line by its value, which is looked at next; what is none stays.
    fn variable(&mut self, line: &mut String, at: usize, variables: &Variables) -> usize {
        let rest = &line[at..];
        if rest.starts_with("::") || rest.starts_with(":=") {
            return 2;
        }
        let replaced = variables.reference(rest).filter(|_| self.replacements < REPLACEMENTS_MAX);
        match replaced {
            Some((length, value)) => {
                self.replacements += 1;
                line.replace_range(at..at + length, &value);
                0
            }
            None => 1,
        }
    }
}

fn is_word_start(letter: char) -> bool {
    letter.is_alphabetic() || letter == '_'
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == '$'
}

fn ends_in_word(text: &str) -> bool {
    text.chars().next_back().is_some_and(is_word)
}

/// `$tag$` that a text begins with.
fn dollar_tag(rest: &str) -> Option<&str> {
    let end = rest[1..].find('$')? + 1;
    let tag = &rest[1..end];
    let is_tag = tag.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
    (is_tag && !tag.starts_with(|letter: char| letter.is_ascii_digit())).then(|| &rest[..=end])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The statements of lines, with `\` for each command, whose line is left out; and what is left.
    fn pieces(text: &str, variables: &Variables) -> Vec<String> {
        let (mut lexer, mut buffer, mut found) = (Lexer::default(), String::new(), Vec::new());
        for line in text.split_inclusive('\n') {
            let (mut line, mut at) = (line.to_owned(), 0);
            loop {
                match lexer.scan(&mut line, &mut at, &mut buffer, variables) {
                    Event::Statement => found.push(std::mem::take(&mut buffer)),
                    Event::Command => {
                        found.push("\\".to_owned());
                        at = line.len();
                    }
                    Event::EndOfLine => break,
                }
            }
        }
        found.push(buffer.trim_end().to_owned());
        found
    }

    fn statements(text: &str) -> Vec<String> {
        pieces(text, &Variables::default())
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
        assert_eq!(statements("select 1 \\; select 2; q"), ["select 1 ; select 2;", "q"]);
    }

    #[test]
    fn bodies_of_routines_go_on_to_their_end() {
        let body = "create or replace function f() returns int begin atomic\n select case when true then 1 end;\n select 2;\nend;";
        assert_eq!(statements(&format!("{body} x")), [body, "x"]);
        assert_eq!(statements("begin; select 1; end;"), ["begin;", "select 1;", "end;", ""]);
    }

    #[test]
    fn an_incomplete_statement_is_not_split_off_and_says_what_is_open() {
        for (text, mark) in [
            ("select 'a;\n", '\''),
            ("select \"a;\n", '"'),
            ("select /* ;\n", '*'),
            ("do $$ ;\n", '$'),
            ("select (;\n", '('),
            ("select 1 -- ;\n", '-'),
        ] {
            let (mut lexer, mut buffer) = (Lexer::default(), String::new());
            let event = lexer.scan(&mut text.to_owned(), &mut 0, &mut buffer, &Variables::default());
            assert_eq!((event, lexer.mark(), buffer.as_str()), (Event::EndOfLine, mark, text));
        }
    }

    #[test]
    fn blanks_and_comments_in_front_are_left_out() {
        assert_eq!(statements("  -- nothing\n /* at\n all */ \n  select 1;\n\n"), ["select 1;", ""]);
        assert_eq!(statements(" /* a */ \\d\n"), ["\\", ""]);
    }

    #[test]
    fn commands_begin_at_backslashes_outside_of_quotes() {
        assert_eq!(statements("select 1 \\g\n"), ["\\", "select 1"]);
        assert_eq!(statements("select '\\g', E'\\'' -- \\g\n;"), ["select '\\g', E'\\'' -- \\g\n;", ""]);
    }

    #[test]
    fn variables_are_replaced_outside_of_quotes() {
        let mut variables = Variables::default();
        for (name, value) in [("a", "it's"), ("n", "5"), ("q", "select 1; select 2;"), ("loop", ":loop")] {
            variables.set(name, value);
        }
        let replaced = |text: &str| pieces(text, &variables);
        assert_eq!(
            replaced("select :n, :'a', :\"a\", ':n', x::int, :none;")[0],
            "select 5, 'it''s', \"it's\", ':n', x::int, :none;"
        );
        assert_eq!(replaced("select :{?n}, :{?none};")[0], "select TRUE, FALSE;");
        assert_eq!(replaced(":q"), ["select 1;", "select 2;", ""]);
        assert_eq!(replaced("select :loop;")[0], "select :loop;", "it ends");
    }
}
