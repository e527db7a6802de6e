//! Values as text and back: the output and input functions of every type.
//!
//! ```text
//! output   value to text            input    text to value
//! float    shortest decimal forms   array    `{1,2,NULL}`    record    `(1,x)`    json   documents
//! ```

mod array;
mod float;
mod input;
mod json;
mod output;
mod record;

pub use float::{float4_text, float8_text, format_significant, parse_float4, parse_float8};
pub(crate) use input::{char_from_text, char_text, parse_escaped, parse_hex, truncated_name};
pub use input::{from_text, parse_bool, parse_integer};
pub use json::{
    check_depth, check_json, jsonb_text, parse_jsonb, pretty_text, push_json_string, too_deep, write_jsonb,
};
pub(crate) use output::push_hex;
pub use output::{bytea_text, to_text, uuid_text, write_text};
pub(crate) use record::shape_of;

use crate::error::{SqlError, SqlState};

/// `invalid input syntax for type …` (22P02).
pub fn invalid_syntax(kind: &str, text: &str) -> SqlError {
    let message = format!("invalid input syntax for type {kind}: \"{text}\"");
    let error = SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message);
    if kind == "integer" { error.with_routine("pg_strtoint32") } else { error }
}
