//! Rows as lines of text and CSV.

use heddledb_transfer::csv::write_field;

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
            into.push(options.dialect.delimiter);
        }
        match field {
            None => into.push_str(&options.dialect.null),
            Some(text) if options.format == CopyFormat::Csv => {
                let (alone, always) = (fields.len() == 1, quotes_always(position));
                write_field(Some(text), &options.dialect, alone, always, into);
            }
            Some(text) => escaped(text, options.dialect.delimiter, into),
        }
    }
    into.push('\n');
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
