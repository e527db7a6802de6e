//! Errors of the application, which pass through the engine.
//!
//! Invariants: the engine looks at none of them but for its message. One that leaves a transaction's body arrives at the caller as
//! the value that it was, or not at all (the attempt was retried).

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::{Error, Result};

/// An error of the application's own: [`Error::application`] makes one, [`Error::application_error`] gives it back.
#[derive(Clone)]
pub struct ApplicationError {
    message: String,
    value: Arc<dyn Any + Send + Sync>,
}

impl fmt::Display for ApplicationError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl fmt::Debug for ApplicationError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.message, formatter)
    }
}

/// Two are equal if they are the same value, or say the same.
impl PartialEq for ApplicationError {
    fn eq(&self, other: &ApplicationError) -> bool {
        Arc::ptr_eq(&self.value, &other.value) || self.message == other.message
    }
}

impl Error {
    /// Wraps an application's error, so that a procedure's body can fail with it: the caller gets it back by
    /// [`application_error`](Self::application_error), or unwrapped from `Database::try_call`. Closures need
    /// no wrapping: `Database::try_run` accepts bodies with any error type.
    ///
    /// ```
    /// use heddledb::Error;
    /// #[derive(Debug, PartialEq, thiserror::Error)]
    /// #[error("sold out")]
    /// struct SoldOut;
    ///
    /// let error = Error::application(SoldOut);
    /// assert_eq!(error.to_string(), "sold out");
    /// assert_eq!(error.application_error::<SoldOut>(), Some(&SoldOut));
    /// ```
    pub fn application(error: impl fmt::Display + Send + Sync + 'static) -> Error {
        Error::Application { error: ApplicationError { message: error.to_string(), value: Arc::new(error) } }
    }

    /// The application's own error, if this is one of this type.
    pub fn application_error<E: 'static>(&self) -> Option<&E> {
        match self {
            Error::Application { error } => error.value.downcast_ref(),
            _ => None,
        }
    }
}

/// The error that a body failed with, where the engine knows its own errors only.
pub(crate) struct OwnError<E>(Option<E>);

impl<E: From<Error>> OwnError<E> {
    /// No error yet.
    pub(crate) fn none() -> OwnError<E> {
        OwnError(None)
    }

    /// Converts the result of one run of the body for the engine; keeps its error.
    pub(crate) fn keep<T>(&mut self, result: Result<T, E>) -> Result<T> {
        self.0 = None;
        result.map_err(|error| {
            self.0 = Some(error);
            Error::Failed { message: String::new() }
        })
    }

    /// Converts the engine's result for the caller.
    ///
    /// # Errors
    /// The body's own, or the engine's.
    pub(crate) fn or_kept<T>(self, result: Result<T>) -> Result<T, E> {
        match (result, self.0) {
            (Err(Error::Failed { message }), Some(error)) if message.is_empty() => Err(error),
            (result, _) => result.map_err(E::from),
        }
    }
}
