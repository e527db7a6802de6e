//! Where statements put their results: each row becomes a message at once, and full buffers are written to the client.

use heddle_sql::types::binary::to_binary;
use heddle_sql::types::text::write_text;
use heddle_sql::{CopyFormat, CopySource, Environment, Field, ResultSink, SqlError, SqlState, Value};

use super::failure::Failure;
use super::session::FLUSH_BYTES;
use crate::transport::Transport;
use crate::wire::decode::{Format, Formats, Message, decode};
use crate::wire::encode::{Column, Output};

/// The sink of one message's results.
pub(super) struct Results<'r> {
    transport: &'r mut Transport,
    output: &'r mut Output,
    /// The formats of a portal; a simple query has none, and its results are described and sent as text.
    formats: Option<Formats>,
    types: Vec<heddle_sql::Type>,
    /// The value that is being written.
    text: String,
    /// Why the client can get no more.
    failure: Option<Failure>,
}

impl<'r> Results<'r> {
    pub(super) fn new(
        transport: &'r mut Transport,
        output: &'r mut Output,
        formats: Option<Formats>,
    ) -> Results<'r> {
        Results { transport, output, formats, types: Vec::new(), text: String::new(), failure: None }
    }

    /// Whether the connection is lost.
    pub(super) fn into_failure(self) -> Result<(), Failure> {
        self.failure.map_or(Ok(()), Err)
    }

    /// Writes what has come together.
    fn flush(&mut self) -> Result<(), SqlError> {
        let written = self.transport.write(self.output.bytes());
        self.output.clear(FLUSH_BYTES);
        written.map_err(|error| self.lose(error.into()))
    }

    /// The connection is lost: the statement ends with this error, which no client receives.
    fn lose(&mut self, failure: Failure) -> SqlError {
        let error = SqlError::new(SqlState::new("08006"), failure.to_string());
        self.failure = Some(failure);
        error
    }
}

impl ResultSink for Results<'_> {
    fn describe(&mut self, fields: &[Field]) -> Result<(), SqlError> {
        self.types = fields.iter().map(|field| field.ty).collect();
        if self.formats.is_none() {
            self.output.row_description(fields.iter().map(|field| column(field, Format::Text)));
        }
        Ok(())
    }

    fn row(&mut self, values: &[Value], environment: &dyn Environment) -> Result<(), SqlError> {
        let formats = self.formats.as_ref();
        let (types, text) = (&self.types, &mut self.text);
        self.output.data_row(values.len(), |at, bytes| {
            let value = &values[at];
            if value.is_null() {
                return Ok(false);
            }
            match formats.map_or(Format::Text, |formats| formats.at(at)) {
                Format::Text => {
                    text.clear();
                    write_text(environment, types[at], value, text)?;
                    bytes.extend_from_slice(text.as_bytes());
                }
                Format::Binary => to_binary(environment, types[at], value, bytes)?,
            }
            Ok::<_, SqlError>(true)
        })?;
        if self.output.len() >= FLUSH_BYTES { self.flush() } else { Ok(()) }
    }

    fn complete(&mut self, tag: &str) -> Result<(), SqlError> {
        self.output.command_complete(tag);
        Ok(())
    }

    fn empty(&mut self) {
        self.output.empty_query();
    }

    fn suspended(&mut self) {
        self.output.portal_suspended();
    }

    fn copy_in(&mut self, format: CopyFormat, columns: usize) -> Result<&mut dyn CopySource, SqlError> {
        self.output.copy_in(format == CopyFormat::Binary, columns);
        self.flush()?;
        Ok(self)
    }

    fn copy_out(&mut self, format: CopyFormat, columns: usize) -> Result<(), SqlError> {
        self.output.copy_out(format == CopyFormat::Binary, columns);
        Ok(())
    }

    fn copy_data(&mut self, data: &[u8]) -> Result<(), SqlError> {
        self.output.copy_data(data);
        if self.output.len() >= FLUSH_BYTES { self.flush() } else { Ok(()) }
    }

    fn copy_done(&mut self) -> Result<(), SqlError> {
        self.output.copy_done();
        Ok(())
    }
}

impl CopySource for Results<'_> {
    fn next(&mut self, into: &mut Vec<u8>) -> Result<bool, SqlError> {
        loop {
            let message = self.transport.read_message(None).map_err(|error| self.lose(error.into()))?;
            match decode(message.tag, self.transport.body(message)) {
                Ok(Message::CopyData(data)) => {
                    into.extend_from_slice(data);
                    return Ok(true);
                }
                Ok(Message::CopyDone) => return Ok(false),
                Ok(Message::CopyFail(reason)) => {
                    let message = format!("COPY from stdin failed: {reason}");
                    return Err(SqlError::new(SqlState::QUERY_CANCELED, message));
                }
                // The extended protocol's clients may send these at any time.
                Ok(Message::Flush | Message::Sync) => (),
                Ok(_) | Err(_) => {
                    let message =
                        format!("unexpected message type 0x{:02X} during COPY from stdin", message.tag);
                    return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message));
                }
            }
        }
    }
}

/// A result's column, as a RowDescription names it.
pub(super) fn column(field: &Field, format: Format) -> Column<'_> {
    Column {
        name: &field.name,
        origin: field.origin,
        type_oid: field.ty.oid(),
        type_size: field.ty.length(),
        modifier: field.modifier,
        format,
    }
}
