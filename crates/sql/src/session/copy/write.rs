//! Rows as lines of text and CSV.

use crate::session::copy::CopyField;
use crate::session::copy::options::CopyOptions;
use crate::session::result::CopyFormat;

/// Appends a line with its end. `quotes_always`: by position.
pub(super) fn line(
    fields: &[CopyField],
    options: &CopyOptions,
    quotes_always: &dyn Fn(usize) -> bool,
    into: &mut String,
) {
    for (position, field) in fields.iter().enumerate() {
        if position > 0 {
            into.push(options.delimiter);
        }
        match field {
            None => into.push_str(&options.null),
            Some(text) if options.format == CopyFormat::Csv => {
                csv(text, options, quotes_always(position), fields.len() == 1, into);
            }
            Some(text) => escaped(text, options.delimiter, into),
        }
    }
    into.push('\n');
}

fn csv(text: &str, options: &CopyOptions, always: bool, alone: bool, into: &mut String) {
    let special = |character: char| {
        character == options.delimiter || character == options.quote || matches!(character, '\n' | '\r')
    };
    let quoted = always || text == options.null || text.contains(special) || (alone && text == "\\.");
    if !quoted {
        into.push_str(text);
        return;
    }
    into.push(options.quote);
    for character in text.chars() {
        if character == options.quote || character == options.escape {
            into.push(options.escape);
        }
        into.push(character);
    }
    into.push(options.quote);
}

fn escaped(text: &str, delimiter: char, into: &mut String) {
    for character in text.chars() {
        let letter = match character {
            '\\' => '\\',
            '\u{8}' => 'b',
            '\u{c}' => 'f',
            '\n' => 'n',
            '\r' => 'r',
            '\t' => 't',
            '\u{b}' => 'v',
            other if other == delimiter => other,
            other => {
                into.push(other);
                continue;
            }
        };
        into.push('\\');
        into.push(letter);
    }
}
