//! The arguments of a backslash command, as psql reads them.
//!
//! They are separated by blanks and end with the line, or at a backslash outside of quotes, where the next command begins (`\\` only
//! ends them). Single quotes keep blanks and know `\n` and its kin; variables are replaced outside of single
//! quotes; text between backquotes is a command, which the operating system's shell executes and whose output
//! replaces it.

use std::process::Command;

use crate::sql::variables::Variables;

/// A command with its arguments.
#[derive(Debug, PartialEq, Eq)]
pub struct Parsed {
    /// The name without its backslash.
    pub name: String,
    pub arguments: Vec<String>,
    /// The whole text behind the name, unchanged.
    pub whole: String,
    /// Position in the line behind the command.
    pub end: usize,
}

/// Commands that take the rest of the line unchanged.
const WHOLE_LINE: &[&str] = &["copy", "!", "h", "help", "sf", "sv", "sf+", "sv+"];

/// Parses the command at a place of a line, which has a backslash there.
pub fn parse(line: &str, at: usize, variables: &Variables) -> Parsed {
    let text = &line[at + 1..];
    let is_end = |letter: char| letter.is_whitespace() || letter == '\\';
    let name = match text.chars().next() {
        Some(first @ ('!' | '\\')) => &text[..first.len_utf8()],
        _ => &text[..text.find(is_end).unwrap_or(text.len())],
    };
    let behind = at + 1 + name.len();
    let whole = line[behind..].trim().to_owned();
    if name == "\\" {
        return Parsed { name: String::new(), arguments: Vec::new(), whole: String::new(), end: behind };
    }
    if WHOLE_LINE.contains(&name) {
        return Parsed { name: name.to_owned(), arguments: vec![whole.clone()], whole, end: line.len() };
    }
    let mut reader = Reader { line, at: behind, variables };
    let mut arguments = Vec::new();
    while let Some(argument) = reader.next() {
        arguments.push(argument);
    }
    Parsed { name: name.to_owned(), arguments, whole, end: reader.at }
}

struct Reader<'l> {
    line: &'l str,
    at: usize,
    variables: &'l Variables,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.line[self.at..]
    }

    /// The next argument; `None` if the line is over, or another command begins.
    fn next(&mut self) -> Option<String> {
        self.at += self.rest().len() - self.rest().trim_start().len();
        if self.rest().is_empty() || self.rest().starts_with('\\') {
            return None;
        }
        let mut argument = String::new();
        while let Some(letter) = self.rest().chars().next() {
            match letter {
                _ if letter.is_whitespace() => break,
                '\\' => break,
                '\'' => self.quoted(&mut argument),
                '`' => self.output_of_program(&mut argument),
                ':' => match self.variables.reference(self.rest()) {
                    Some((length, value)) => {
                        argument.push_str(&value);
                        self.at += length;
                    }
                    None => self.take(letter, &mut argument),
                },
                '"' => {
                    // Double quotes stay: they are part of a name.
                    let length = self.rest()[1..].find('"').map_or(self.rest().len(), |end| end + 2);
                    argument.push_str(&self.line[self.at..self.at + length]);
                    self.at += length;
                }
                _ => self.take(letter, &mut argument),
            }
        }
        Some(argument)
    }

    fn take(&mut self, letter: char, argument: &mut String) {
        argument.push(letter);
        self.at += letter.len_utf8();
    }

    /// Adds the text between single quotes.
    fn quoted(&mut self, argument: &mut String) {
        self.at += 1;
        while let Some(letter) = self.rest().chars().next() {
            self.at += letter.len_utf8();
            match letter {
                '\'' if self.rest().starts_with('\'') => {
                    argument.push('\'');
                    self.at += 1;
                }
                '\'' => return,
                '\\' => {
                    let Some(escaped) = self.rest().chars().next() else { return };
                    self.at += escaped.len_utf8();
                    argument.push(match escaped {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        'b' => '\u{8}',
                        'f' => '\u{c}',
                        other => other,
                    });
                }
                other => argument.push(other),
            }
        }
    }

    /// Adds the output of a program of the operating system, without its last end of line.
    fn output_of_program(&mut self, argument: &mut String) {
        let inner = &self.rest()[1..];
        let length = inner.find('`').unwrap_or(inner.len());
        let command = inner[..length].to_owned();
        self.at += (length + 2).min(self.rest().len());
        if let Ok(output) = Command::new("sh").arg("-c").arg(command).output() {
            argument.push_str(String::from_utf8_lossy(&output.stdout).trim_end_matches('\n'));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(line: &str) -> (String, Vec<String>, usize) {
        let mut variables = Variables::default();
        variables.set("v", "a b");
        let Parsed { name, arguments, end, .. } = parse(line, 0, &variables);
        (name, arguments, end)
    }

    #[test]
    fn arguments_are_separated_by_blanks_and_quotes_keep_them() {
        let (name, found, end) = arguments("\\set x 'it''s\\tone'  two\n");
        assert_eq!(
            (name.as_str(), found, end),
            ("set", vec!["x".into(), "it's\tone".into(), "two".into()], 25)
        );
        assert_eq!(arguments("\\echo :v :'v' \":v\" :w").1, ["a b", "'a b'", "\":v\"", ":w"]);
        assert_eq!(arguments("\\echo `echo hello`").1, ["hello"]);
    }

    #[test]
    fn a_backslash_ends_the_arguments() {
        let line = "\\echo a \\\\ select 1;";
        let (_, found, end) = arguments(line);
        assert_eq!((found, &line[end..]), (vec!["a".to_owned()], "\\\\ select 1;"));
        let parsed = parse(line, end, &Variables::default());
        assert_eq!((parsed.name.as_str(), &line[parsed.end..]), ("", " select 1;"));
        assert_eq!(arguments("\\x\\dt").2, 2);
    }

    #[test]
    fn some_commands_take_the_whole_line() {
        assert_eq!(arguments("\\copy t to 'a\\b.csv' csv\n").1, ["t to 'a\\b.csv' csv"]);
        assert_eq!(arguments("\\! echo 'a b' | wc\n").1, ["echo 'a b' | wc"]);
    }
}
