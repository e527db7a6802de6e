//! Parquet: `read` and `write`.

mod read;
mod write;

pub(crate) use read::ParquetRecords;
pub(crate) use write::ParquetWriter;

use ::parquet::errors::ParquetError;

use crate::error::Error;

impl From<ParquetError> for Error {
    fn from(error: ParquetError) -> Error {
        match error {
            ParquetError::External(reason) => match reason.downcast() {
                Ok(io) => Error::Io(*io),
                Err(reason) => Error::Io(std::io::Error::other(reason)),
            },
            other => Error::Io(std::io::Error::new(std::io::ErrorKind::InvalidData, other)),
        }
    }
}
