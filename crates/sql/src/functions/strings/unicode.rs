//! Unicode's normalization forms.

use unicode_normalization::{UnicodeNormalization, is_nfc, is_nfd, is_nfkc, is_nfkd};

use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Definition, FunctionContext, scalar};
use crate::interrupt::step;
use crate::types::Value;

/// The table of functions.
pub(super) const FUNCTIONS: &[Definition] = &[
    scalar("normalize(text, text = 'NFC') text", |context, v| {
        let (form, text) = (form(v[1].str())?, v[0].str());
        Ok(Value::text(match form {
            Form::Nfc => collected(context, || text.nfc()),
            Form::Nfd => collected(context, || text.nfd()),
            Form::Nfkc => collected(context, || text.nfkc()),
            Form::Nfkd => collected(context, || text.nfkd()),
        }?))
    }),
    scalar("is_normalized(text, text = 'NFC') bool", |_, v| {
        Ok(Value::Bool(form(v[1].str())?.is_of(v[0].str())))
    }),
];

/// The text of these characters, which may be far longer than its source.
fn collected<I: Iterator<Item = char>>(
    context: &mut FunctionContext<'_>,
    characters: impl Fn() -> I,
) -> Result<String> {
    let mut length = 0;
    for character in characters() {
        step()?;
        length += character.len_utf8();
    }
    context.environment.require_value(length)?;
    Ok(characters().collect())
}

/// A normalization form.
#[derive(Clone, Copy)]
enum Form {
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
}

impl Form {
    fn is_of(self, text: &str) -> bool {
        match self {
            Form::Nfc => is_nfc(text),
            Form::Nfd => is_nfd(text),
            Form::Nfkc => is_nfkc(text),
            Form::Nfkd => is_nfkd(text),
        }
    }
}

fn form(name: &str) -> Result<Form> {
    match name.to_ascii_uppercase().as_str() {
        "NFC" => Ok(Form::Nfc),
        "NFD" => Ok(Form::Nfd),
        "NFKC" => Ok(Form::Nfkc),
        "NFKD" => Ok(Form::Nfkd),
        _ => {
            let message = format!("invalid normalization form: {name}");
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
    }
}
