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
    /// NULL, where there must be a value.
    #[error("{what} must have a value, but was given NULL; give it one")]
    NullValue {
        /// The column, parameter or member.
        what: String,
    },
    /// A value of the right type that the engine does not store.
    #[error("{what} cannot hold this value: {detail}")]
    InvalidValue {
        /// The column, parameter or member.
        what: String,
        /// What is wrong with the value, and what to do about it.
        detail: String,
    },
    /// An exact number that its place could only hold rounded.
    #[error("{what} would lose digits: {detail}; round it first, or use a larger scale")]
    Inexact {
        /// The column, parameter or expression.
        what: String,
        /// The value and the digits that there is room for.
        detail: String,
    },
    /// A type that no column can have.
    #[error("{text:?} is no type of a column: {detail}")]
    InvalidType {
        /// The type, as it was written.
        text: String,
        /// What is wrong with it, and what would do.
        detail: String,
    },
    /// A commutative operation on a column for which it has no meaning.
    #[error("{operation} does not apply to a column of type {data_type}; it takes {accepted}")]
    WrongOperation {
        /// The operation.
        operation: &'static str,
        /// The column's type.
        data_type: String,
        /// The types that would do.
        accepted: &'static str,
    },
}
