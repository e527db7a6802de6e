//! Values and their types: what a column can hold, how it compares, how it is written as bytes.
//!
//! ```text
//! data_type   the types of columns                   value      an owned and a borrowed value of any type
//! decimal, date, timestamp, uuid   the scalar types that Rust lacks
//! tuple, top_k   one entry, and the K greatest entries, each as a byte string
//! check       assignment of a value to a column      key        values as bytes that compare as they do
//! args        the arguments of a call, and the macros `key!`, `row!`, `set!` and `args!`
//! conversions Rust's types as values, and back       into_key   the forms of a key
//! values      values that a procedure's phases set
//! ```
//!
//! One order holds everywhere: NULL is below every value, -0 equals 0, NaN equals itself and is above every
//! number. This folder knows nothing of storage.

/// Gives a macro the tuples that are keys and composites: for each how many fields it has, and a name for each.
macro_rules! for_each_tuple {
    ($macro:ident) => {
        $macro! {
            1: A;
            2: A B;
            3: A B C;
            4: A B C D;
            5: A B C D E;
            6: A B C D E F;
        }
    };
}
pub(crate) use for_each_tuple;

mod args;
pub(crate) mod assignment;
mod conversions;
mod data_type;
mod date;
pub(crate) mod decimal;
mod encoded_key;
mod into_key;
pub(crate) mod key;
pub(crate) mod memory;
#[cfg(feature = "serde")]
mod serde_values;
mod timestamp;
pub(crate) mod top_k;
pub(crate) mod tuple;
mod uuid;
mod value;
mod value_ref;
pub(crate) mod values;

pub use args::Args;
pub use conversions::AsValue;
pub use data_type::{DataType, TupleType};
pub use date::Date;
pub use decimal::Decimal;
pub use into_key::IntoKey;
pub use timestamp::Timestamp;
pub use top_k::TopK;
pub use tuple::OrderedTuple;
pub use uuid::Uuid;
pub use value::Value;
pub use value_ref::ValueRef;
pub(crate) use value_ref::compare_floats;

#[cfg(test)]
pub(crate) mod strategies;
