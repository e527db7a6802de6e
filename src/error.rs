//! Everything that can go wrong, as one enum.

/// A result of the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something was refused or failed.
///
/// Every message says what to do about it. [`Error::is_retryable`] tells whether the same call may succeed when it
/// is made again.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value has another type than its column or parameter.
    #[error("{what} is {expected}, but was given {found}; give it a value of that type")]
    WrongType {
        /// The column or parameter.
        what: String,
        /// The type that it has.
        expected: String,
        /// What was given.
        found: String,
    },
    /// A number does not fit its type.
    #[error("{what} is out of range: {detail}; use a wider type or a smaller value")]
    Overflow {
        /// The column, parameter or expression.
        what: String,
        /// The bounds and the value.
        detail: String,
    },
    /// A text that is no value of the type asked for.
    #[error("{text:?} is not a {expected}; write it as {example}")]
    Unparsable {
        /// What was given.
        text: String,
        /// The type wanted.
        expected: &'static str,
        /// A text that would do.
        example: &'static str,
    },
    /// Bytes that nobody of this format wrote.
    #[error("these bytes are no {what}: {detail}; they are damaged, or another program's")]
    Malformed {
        /// What they should have been.
        what: &'static str,
        /// What is wrong with them.
        detail: String,
    },
}
