//! Unicode's normalization forms.

use unicode_normalization::{UnicodeNormalization, is_nfc, is_nfd, is_nfkc, is_nfkd};

use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Definition, scalar};
use crate::types::Value;

/// The table of functions.
pub(super) const FUNCTIONS: &[Definition] = &[
    scalar("normalize(text, text = 'NFC') text", |_, v| Ok(Value::text(form(v[1].str())?.of(v[0].str())))),
    scalar("is_normalized(text, text = 'NFC') bool", |_, v| {
        Ok(Value::Bool(form(v[1].str())?.is_of(v[0].str())))
    }),
];

/// A normalization form.
#[derive(Clone, Copy)]
enum Form {
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
}

impl Form {
    fn of(self, text: &str) -> String {
        match self {
            Form::Nfc => text.nfc().collect(),
            Form::Nfd => text.nfd().collect(),
            Form::Nfkc => text.nfkc().collect(),
            Form::Nfkd => text.nfkd().collect(),
        }
    }

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
