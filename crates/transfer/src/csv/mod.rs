//! Lines of fields: CSV as PostgreSQL reads and writes it, which tells NULL from the empty text.
//!
//! `lines` cuts data into lines, [`fields`] a line into fields, and [`write_field`] is the way back. COPY of `heddle-sql` uses them too.

mod lines;

pub use lines::{Line, LineError, Lines};

/// The delimiter, quotes and NULL of fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Dialect {
    /// The character between two fields.
    pub delimiter: char,
    /// The character around a field that holds delimiters, quotes or line breaks.
    pub quote: char,
    /// The character before a quote within quotes; by default the quote itself.
    pub escape: char,
    /// The text of NULL, without quotes.
    pub null: String,
}

impl Default for Dialect {
    /// Commas, `"`, and nothing for NULL.
    fn default() -> Dialect {
        Dialect { delimiter: ',', quote: '"', escape: '"', null: String::new() }
    }
}

/// The fields of a line, and whether each was quoted.
pub fn fields(line: &str, dialect: &Dialect) -> Vec<(String, bool)> {
    let mut fields = Vec::new();
    let (mut field, mut quoted, mut inside) = (String::new(), false, false);
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        if inside {
            let next = characters.peek().copied();
            if character == dialect.escape
                && matches!(next, Some(next) if next == dialect.quote || next == dialect.escape)
            {
                field.extend(characters.next());
            } else if character == dialect.quote {
                inside = false;
            } else {
                field.push(character);
            }
        } else if character == dialect.quote {
            (inside, quoted) = (true, true);
        } else if character == dialect.delimiter {
            fields.push((std::mem::take(&mut field), quoted));
            quoted = false;
        } else {
            field.push(character);
        }
    }
    fields.push((field, quoted));
    fields
}

/// Appends a field, without a delimiter. `alone`: it is the line's only one. `quotes_always`: also where nothing asks for it.
pub fn write_field(
    text: Option<&str>,
    dialect: &Dialect,
    alone: bool,
    quotes_always: bool,
    into: &mut String,
) {
    let Some(text) = text else {
        into.push_str(&dialect.null);
        return;
    };
    let special = |character: char| {
        character == dialect.delimiter || character == dialect.quote || matches!(character, '\n' | '\r')
    };
    let quoted = quotes_always || text == dialect.null || text.contains(special) || (alone && text == "\\.");
    if !quoted {
        into.push_str(text);
        return;
    }
    into.push(dialect.quote);
    for character in text.chars() {
        if character == dialect.quote || character == dialect.escape {
            into.push(dialect.escape);
        }
        into.push(character);
    }
    into.push(dialect.quote);
}
