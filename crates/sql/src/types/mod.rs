//! SQL types and their values: text and binary formats, casts, arithmetic.
//!
//! ```text
//! kind         Type, Modifier, Category              value        Value: one value of any type, its order and hash
//! numeric      exact decimals                        interval     months, days and microseconds
//! array, record, jsonb   composite values            environment  services of a session for functions
//! network      addresses of networks                top_k        the greatest entries of a set
//! datetime     the calendar and time zones           text, binary values as text or bytes and back
//! cast         from type to type
//! ```

pub mod array;
pub mod binary;
pub(crate) mod bits;
pub mod cast;
pub mod datetime;
pub mod environment;
pub mod interval;
pub mod jsonb;
pub(crate) mod jsonpath;
mod kind;
pub mod mac_address;
pub mod network;
pub mod numeric;
pub mod record;
pub mod text;
pub(crate) mod top_k;
mod value;

pub use environment::{DeferrableKey, Environment, KeySide, PlainEnvironment};
pub use kind::{Category, FIRST_USER_OID, Modifier, ROW_TYPE, Type, format_type};
pub use value::{Value, compare_floats};
