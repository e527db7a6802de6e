//! The options of COPY.

use heddledb_transfer::csv::Dialect;

use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{Copy, CopyDirection, CopyOption, CopyValue};
use crate::session::result::CopyFormat;

/// The options of a COPY.
#[derive(Clone, Debug)]
pub(crate) struct CopyOptions {
    pub format: CopyFormat,
    /// The dialect; of the text format, the delimiter and NULL alone.
    pub dialect: Dialect,
    pub header: Header,
    force_quote: Columns,
    force_not_null: Columns,
    force_null: Columns,
}

/// The treatment of the first line: data, or names of the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    No,
    Yes,
    /// Names, which are compared with the columns.
    Match,
}

/// Some columns, or all.
#[derive(Clone, Debug, PartialEq)]
enum Columns {
    Named(Vec<String>),
    All,
}

impl Columns {
    fn contains(&self, name: &str) -> bool {
        match self {
            Columns::Named(names) => names.iter().any(|known| known == name),
            Columns::All => true,
        }
    }
}

fn wrong(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

impl CopyOptions {
    /// The options of a COPY, with the defaults of its format.
    ///
    /// # Errors
    /// 22023 for values that do not make sense; 42601 for options that do not exist or are given twice.
    pub fn of(copy: &Copy) -> Result<CopyOptions> {
        let none = || Columns::Named(Vec::new());
        let mut options = CopyOptions {
            format: CopyFormat::Text,
            dialect: Dialect { delimiter: '\t', null: "\\N".to_string(), ..Dialect::default() },
            header: Header::No,
            force_quote: none(),
            force_not_null: none(),
            force_null: none(),
        };
        for (position, option) in copy.options.iter().enumerate() {
            if copy.options[..position].iter().any(|other| other.name == option.name) {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options"));
            }
            if option.name == "format" {
                options.format = match text(option)? {
                    "text" => CopyFormat::Text,
                    "csv" => CopyFormat::Csv,
                    "binary" => CopyFormat::Binary,
                    other => return Err(wrong(format!("COPY format \"{other}\" not recognized"))),
                };
            }
        }
        if options.format == CopyFormat::Csv {
            options.dialect = Dialect::default();
        }
        let mut escape = None;
        for option in &copy.options {
            options.apply(option, &mut escape)?;
        }
        options.dialect.escape = escape.unwrap_or(options.dialect.quote);
        options.check(copy)?;
        Ok(options)
    }

    fn apply(&mut self, option: &CopyOption, escape: &mut Option<char>) -> Result<()> {
        match option.name.as_str() {
            "format" => {}
            "delimiter" => {
                self.dialect.delimiter =
                    one_character(option, "COPY delimiter must be a single one-byte character")?
            }
            "null" => self.dialect.null = text(option)?.to_string(),
            "header" => self.header = header(option)?,
            "quote" => {
                self.dialect.quote = one_character(option, "COPY quote must be a single one-byte character")?
            }
            "escape" => {
                *escape = Some(one_character(option, "COPY escape must be a single one-byte character")?)
            }
            // A table that was made in the same transaction would gain nothing.
            "freeze" => {
                flag(option)?;
            }
            "encoding" if text(option)?.replace('-', "").eq_ignore_ascii_case("utf8") => {}
            "encoding" => return Err(SqlError::unsupported("encodings other than UTF8 are not supported")),
            "force_quote" => self.force_quote = columns(option)?,
            "force_not_null" => self.force_not_null = columns(option)?,
            "force_null" => self.force_null = columns(option)?,
            other => {
                let message = format!("option \"{other}\" not recognized");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
        }
        Ok(())
    }

    fn check(&self, copy: &Copy) -> Result<()> {
        let csv = self.format == CopyFormat::Csv;
        let said = |name: &str| copy.options.iter().any(|option| option.name == name);
        if !csv
            && ["quote", "escape", "force_quote", "force_not_null", "force_null"]
                .iter()
                .any(|name| said(name))
        {
            return Err(SqlError::unsupported(
                "COPY quote, escape and force options are available only in CSV mode",
            ));
        }
        if self.format == CopyFormat::Binary && self.header != Header::No {
            return Err(SqlError::unsupported("cannot specify HEADER in BINARY mode"));
        }
        if copy.direction == CopyDirection::To && self.header == Header::Match {
            return Err(SqlError::unsupported("cannot use \"match\" with HEADER in COPY TO"));
        }
        if copy.direction == CopyDirection::From && said("force_quote") {
            return Err(SqlError::unsupported("COPY force quote only available using COPY TO"));
        }
        if matches!(self.dialect.delimiter, '\n' | '\r') {
            return Err(wrong("COPY delimiter cannot be newline or carriage return"));
        }
        if csv && self.dialect.delimiter == self.dialect.quote {
            return Err(wrong("COPY delimiter and quote must be different"));
        }
        if !csv && "\\.abcdefghijklmnopqrstuvwxyz0123456789".contains(self.dialect.delimiter) {
            return Err(wrong(format!("COPY delimiter cannot be \"{}\"", self.dialect.delimiter)));
        }
        if self.dialect.null.contains(self.dialect.delimiter) {
            return Err(wrong("COPY delimiter must not appear in the NULL specification"));
        }
        if self.dialect.null.contains(['\n', '\r']) {
            return Err(wrong("COPY null representation cannot use newline or carriage return"));
        }
        Ok(())
    }

    /// Returns true if a column's values are always quoted.
    pub fn quotes_always(&self, column: &str) -> bool {
        self.force_quote.contains(column)
    }

    /// A field as NULL or text: the null string is NULL, but not in quotes, unless that was asked for.
    pub fn null_or_text(&self, field: Option<String>, quoted: bool, column: &str) -> Option<String> {
        if self.format != CopyFormat::Csv {
            return field;
        }
        let field = field?;
        let null = field == self.dialect.null
            && if quoted { self.force_null.contains(column) } else { !self.force_not_null.contains(column) };
        if null { None } else { Some(field) }
    }
}

fn text(option: &CopyOption) -> Result<&str> {
    match &option.value {
        CopyValue::Text(text) => Ok(text),
        _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("{} requires a parameter", option.name))),
    }
}

fn one_character(option: &CopyOption, message: &str) -> Result<char> {
    let text = text(option)?;
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(character), None) if character.is_ascii() => Ok(character),
        _ => Err(SqlError::unsupported(message)),
    }
}

fn header(option: &CopyOption) -> Result<Header> {
    match &option.value {
        CopyValue::Text(text) if text.eq_ignore_ascii_case("match") => Ok(Header::Match),
        CopyValue::None | CopyValue::Text(_) => {
            let is_there = flag(option).map_err(|_| {
                let message = "header requires a Boolean value or \"match\"";
                SqlError::new(SqlState::SYNTAX_ERROR, message)
            })?;
            Ok(if is_there { Header::Yes } else { Header::No })
        }
        _ => flag(option).map(|_| Header::No),
    }
}

fn flag(option: &CopyOption) -> Result<bool> {
    match &option.value {
        CopyValue::None => Ok(true),
        CopyValue::Text(text) => match text.to_lowercase().as_str() {
            "true" | "on" | "1" => Ok(true),
            "false" | "off" | "0" => Ok(false),
            _ => Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("{} requires a Boolean value", option.name),
            )),
        },
        _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("{} requires a Boolean value", option.name))),
    }
}

fn columns(option: &CopyOption) -> Result<Columns> {
    match &option.value {
        CopyValue::All => Ok(Columns::All),
        CopyValue::Columns(names) => Ok(Columns::Named(names.iter().map(|name| name.text.clone()).collect())),
        _ => Err(wrong(format!("argument to option \"{}\" must be a list of column names", option.name))),
    }
}
