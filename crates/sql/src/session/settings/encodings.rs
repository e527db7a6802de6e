//! The encodings that `client_encoding` may be, by PostgreSQL's names for them.
//!
//! Texts are UTF-8 here; the server converts them for its client.

use crate::error::{Result, SqlError, SqlState};

/// The names as SHOW prints them, and other names of the same encodings, in lower case without what is no letter or digit.
const ENCODINGS: &[(&str, &[&str])] = &[
    ("UTF8", &["unicode"]),
    ("SQL_ASCII", &[]),
    ("BIG5", &["win950", "windows950"]),
    ("EUC_CN", &[]),
    ("EUC_JP", &[]),
    ("EUC_KR", &[]),
    ("GB18030", &[]),
    ("GBK", &["win936", "windows936"]),
    ("ISO_8859_5", &[]),
    ("ISO_8859_6", &[]),
    ("ISO_8859_7", &[]),
    ("ISO_8859_8", &[]),
    ("KOI8R", &["koi8"]),
    ("KOI8U", &[]),
    ("LATIN1", &["iso88591"]),
    ("LATIN2", &["iso88592"]),
    ("LATIN3", &["iso88593"]),
    ("LATIN4", &["iso88594"]),
    ("LATIN5", &["iso88599"]),
    ("LATIN6", &["iso885910"]),
    ("LATIN7", &["iso885913"]),
    ("LATIN8", &["iso885914"]),
    ("LATIN9", &["iso885915"]),
    ("LATIN10", &["iso885916"]),
    ("SJIS", &["shiftjis", "mskanji", "win932", "windows932"]),
    ("UHC", &["win949", "windows949"]),
    ("WIN1250", &["windows1250"]),
    ("WIN1251", &["windows1251", "win"]),
    ("WIN1252", &["windows1252"]),
    ("WIN1253", &["windows1253"]),
    ("WIN1254", &["windows1254"]),
    ("WIN1255", &["windows1255"]),
    ("WIN1256", &["windows1256"]),
    ("WIN1257", &["windows1257"]),
    ("WIN1258", &["windows1258", "abc", "tcvn", "tcvn5712", "vscii"]),
    ("WIN866", &["windows866", "alt"]),
    ("WIN874", &["windows874"]),
];

/// Encodings of PostgreSQL that nothing converts here.
const UNSUPPORTED: &[&str] = &["EUC_JIS_2004", "EUC_TW", "JOHAB", "MULE_INTERNAL", "SHIFT_JIS_2004"];

/// The encodings that a client may have, as SHOW prints them.
pub fn client_encodings() -> impl Iterator<Item = &'static str> {
    ENCODINGS.iter().map(|(name, _)| *name)
}

/// The encoding of this name, as SHOW prints it.
///
/// # Errors
/// 22023: there is no such encoding; 0A000: nothing converts it.
pub(super) fn client_encoding(value: &str) -> Result<&'static str> {
    let asked = bare(value);
    let found = ENCODINGS.iter().find(|(name, others)| bare(name) == asked || others.contains(&&*asked));
    if let Some((name, _)) = found {
        return Ok(name);
    }
    if let Some(name) = UNSUPPORTED.iter().find(|name| bare(name) == asked) {
        let message = format!("conversion between {name} and UTF8 is not supported");
        return Err(SqlError::unsupported(message));
    }
    let message = format!("invalid value for parameter \"client_encoding\": \"{value}\"");
    Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
}

/// The letters and digits, by which names are compared, as in PostgreSQL.
fn bare(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).flat_map(char::to_lowercase).collect()
}
