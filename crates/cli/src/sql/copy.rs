//! `\copy`: COPY with files and programs of this process, as psql has it.
//!
//! `\copy TABLE [(COLUMNS)] | (QUERY) from | to FILE | stdin | pstdin | stdout | program 'COMMAND' [[with] (OPTIONS) | csv …]`

use std::io::Read;
use std::process::{Command, Stdio};

use heddle_sql::StatementResult;

use crate::failure::Result;
use crate::output;
use crate::sql::meta::refuse;
use crate::sql::shell::Shell;
use crate::sql::target::Target;

/// A parsed `\copy`.
#[derive(Debug, PartialEq, Eq)]
struct Copy {
    /// A table with its columns, or a query in parentheses: as COPY takes it.
    what: String,
    is_from: bool,
    place: Place,
    /// Everything behind, as COPY takes it.
    options: String,
}

/// The other side.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    File(String),
    Program(String),
    /// Standard input or output.
    Standard,
}

/// Runs the command.
pub fn run(shell: &mut Shell, text: &str) -> Result {
    let copy = match parse(text) {
        Ok(copy) => copy,
        Err(message) => {
            refuse(shell, &format!("\\copy: {message}"));
            return Ok(());
        }
    };
    let Copy { what, is_from, options, .. } = &copy;
    let (direction, side) = if *is_from { ("FROM", "STDIN") } else { ("TO", "STDOUT") };
    let statement =
        format!("COPY {what} {direction} {side}{}{options}", if options.is_empty() { "" } else { " " });
    if *is_from { copy_in(shell, &copy.place, &statement) } else { copy_out(shell, &copy.place, &statement) }
}

fn copy_in(shell: &mut Shell, place: &Place, statement: &str) -> Result {
    let data = match place {
        Place::File(file) => std::fs::read(file).map_err(|error| format!("{file}: {error}")),
        Place::Program(program) => output_of(program),
        Place::Standard => {
            let mut data = Vec::new();
            std::io::stdin().lock().read_to_end(&mut data).map(|_| data).map_err(|error| error.to_string())
        }
    };
    match data {
        Ok(data) => shell.execute_copy(statement, &data),
        Err(message) => {
            refuse(shell, &message);
            Ok(())
        }
    }
}

fn copy_out(shell: &mut Shell, place: &Place, statement: &str) -> Result {
    let Some(results) = shell.execute(statement)? else { return Ok(()) };
    let target = match place {
        Place::Standard => Ok(Target::Terminal),
        Place::File(file) => Target::open(file),
        Place::Program(program) => Target::open(&format!("|{program}")),
    };
    let mut target = match target {
        Ok(target) => target,
        Err(message) => {
            refuse(shell, &message);
            return Ok(());
        }
    };
    for StatementResult { data, tag, .. } in &results {
        target.write(data)?;
        if *place != Place::Standard {
            output::print(tag)?;
        }
    }
    Ok(())
}

/// The output of a program of the operating system.
fn output_of(program: &str) -> std::result::Result<Vec<u8>, String> {
    let output = Command::new("sh").arg("-c").arg(program).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() { Ok(output.stdout) } else { Err(format!("{program}: {}", output.status)) }
}

fn parse(text: &str) -> std::result::Result<Copy, String> {
    let usage = || "takes TABLE|(QUERY) from|to FILE|stdin|stdout|program 'COMMAND' [OPTIONS]".to_owned();
    let mut rest = text.trim();
    if let Some(behind) = keyword(rest, "binary") {
        rest = behind;
    }
    let end = end_of_what(rest).ok_or_else(usage)?;
    let what = rest[..end].trim().to_owned();
    let behind = rest[end..].trim_start();
    let (is_from, behind) = match (keyword(behind, "from"), keyword(behind, "to")) {
        (Some(behind), _) => (true, behind),
        (None, Some(behind)) => (false, behind),
        (None, None) => return Err(usage()),
    };
    let (place, options) = place(behind).ok_or_else(usage)?;
    Ok(Copy { what, is_from, place, options: options.trim().to_owned() })
}

/// The rest of a text behind its first word, if that is `word`.
fn keyword<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let head = text.get(..word.len()).filter(|head| head.eq_ignore_ascii_case(word))?;
    let behind = &text[head.len()..];
    behind.starts_with(|letter: char| letter.is_whitespace() || letter == '\'').then(|| behind.trim_start())
}

/// The end of the table with its columns, or of the query in parentheses: before FROM or TO outside of
/// parentheses and quotes.
fn end_of_what(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0_u32, None);
    let mut is_at_word = false;
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(open), _) => {
                if open == letter {
                    quote = None;
                }
            }
            (None, '\'' | '"') => quote = Some(letter),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            (None, _) if letter.is_whitespace() || at == 0 => {}
            (None, _) if depth == 0 && is_at_word => {
                if keyword(&text[at..], "from").or_else(|| keyword(&text[at..], "to")).is_some() {
                    return Some(at);
                }
            }
            (None, _) => {}
        }
        is_at_word = letter.is_whitespace() || letter == ')';
    }
    None
}

/// The file or program that a text begins with, and the rest of the text.
fn place(text: &str) -> Option<(Place, &str)> {
    if let Some(behind) = keyword(text, "program") {
        let (program, options) = word(behind)?;
        return Some((Place::Program(program), options));
    }
    let is_quoted = text.starts_with('\'');
    let (name, options) = word(text)?;
    let is_standard = ["stdin", "stdout", "pstdin", "pstdout"].iter().any(|it| name.eq_ignore_ascii_case(it));
    Some((if is_standard && !is_quoted { Place::Standard } else { Place::File(name) }, options))
}

/// The word that a text begins with, in quotes or not, and the rest of the text.
fn word(text: &str) -> Option<(String, &str)> {
    let Some(inner) = text.strip_prefix('\'') else {
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        return (end > 0).then(|| (text[..end].to_owned(), &text[end..]));
    };
    let mut found = String::new();
    let mut letters = inner.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\'' if letters.peek().is_some_and(|(_, next)| *next == '\'') => {
                found.push('\'');
                letters.next();
            }
            '\'' => return Some((found, &inner[at + 1..])),
            other => found.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_queries_files_and_options_are_distinguished() {
        let parsed = |text: &str| parse(text).expect(text);
        let copy = parsed("item to 'a b.csv' csv header");
        assert_eq!((copy.what.as_str(), copy.is_from, copy.options.as_str()), ("item", false, "csv header"));
        assert_eq!(copy.place, Place::File("a b.csv".to_owned()));
        let copy =
            parsed("(select 'to x' from \"from\" where a = 1) To stdout with (format csv, delimiter ';')");
        assert_eq!(copy.what, "(select 'to x' from \"from\" where a = 1)");
        assert_eq!(
            (copy.place, copy.options.as_str()),
            (Place::Standard, "with (format csv, delimiter ';')")
        );
        let copy = parsed("s.item (a, \"to\") from program 'echo ''1''; echo 2' ");
        assert_eq!((copy.what.as_str(), copy.is_from), ("s.item (a, \"to\")", true));
        assert_eq!(copy.place, Place::Program("echo '1'; echo 2".to_owned()));
        assert_eq!(parsed("t(a)from x").place, Place::File("x".to_owned()));
        for wrong in ["", "item", "item to", "item into x", "(select 1 to x", "item from 'x"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
