//! The failure that ends a connection, and the error that the client receives, if it can receive any.

use std::io;

use heddle_sql::SqlError;

use super::report;
use crate::transport::{ReadError, Transport};
use crate::wire::ProtocolError;
use crate::wire::encode::Output;

/// The end of a connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The client receives this, with severity FATAL.
    #[error("{message}")]
    Fatal { code: &'static str, message: String },
    /// The client receives this error of the SQL session, with severity FATAL.
    #[error("{}", .0.message())]
    Sql(Box<SqlError>),
    /// There is no client to notify.
    #[error("the connection is gone: {0}")]
    Gone(io::Error),
}

impl Failure {
    pub(crate) fn fatal(code: &'static str, message: impl Into<String>) -> Failure {
        Failure::Fatal { code, message: message.into() }
    }

    /// The server ends (SQLSTATE 57P01).
    pub(crate) fn shutdown() -> Failure {
        Failure::fatal("57P01", "terminating connection due to administrator command")
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Gone(error)
    }
}

impl From<ProtocolError> for Failure {
    fn from(error: ProtocolError) -> Failure {
        Failure::fatal(error.state, error.message)
    }
}

impl From<heddledb::Error> for Failure {
    fn from(error: heddledb::Error) -> Failure {
        Failure::fatal("58030", error.to_string())
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Failure {
        match error {
            ReadError::Closed => Failure::Gone(io::ErrorKind::UnexpectedEof.into()),
            ReadError::TimedOut => Failure::fatal("08006", "canceling authentication due to timeout"),
            ReadError::Woken => Failure::shutdown(),
            ReadError::Io(error) => Failure::Gone(error),
            ReadError::Protocol(error) => error.into(),
        }
    }
}

/// Tells the client why the connection ends; it may be gone already.
pub(crate) fn write_fatal(transport: &mut Transport, failure: &Failure) {
    let mut output = Output::default();
    match failure {
        Failure::Gone(_) => return,
        Failure::Fatal { code, message } => {
            output.error(&[(b'S', "FATAL"), (b'V', "FATAL"), (b'C', code), (b'M', message)]);
        }
        Failure::Sql(error) => report::error(&mut output, "FATAL", error),
    }
    let _ = transport.write(output.bytes());
}
