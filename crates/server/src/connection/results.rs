//! Receives the results of statements: each row becomes a message at once, and full buffers are written to
//! the client. The notices that were held precede each message.

use std::borrow::Cow;
use std::sync::Arc;

use heddle_sql::types::binary::to_binary;
use heddle_sql::types::text::write_text;
use heddle_sql::{
    CopyFormat, CopySource, Environment, Field, Notices, ResultSink, SqlError, SqlState, Type, Value,
};
use parking_lot::Mutex;

use super::backend::{Backend, protocol_error};
use super::failure::Failure;
use super::report;
use super::session::FLUSH_BYTES;
use crate::transport::Transport;
use crate::wire::decode::{Format, Formats, Message, decode};
use crate::wire::encode::{Column, Output};
use crate::wire::encoding::{Encoding, utf8};

/// The sink of one message's results.
pub(super) struct Results<'r> {
    transport: &'r mut Transport,
    answers: Arc<Mutex<Output>>,
    notices: Arc<Notices>,
    /// The client's encoding, unless it is UTF-8.
    encoding: Option<Encoding>,
    /// True if the data of a COPY are text.
    copies_text: bool,
    /// The formats of a portal; a simple query has none, and its results are described and sent as text.
    formats: Option<Formats>,
    types: Vec<heddle_sql::Type>,
    /// The value that is being written.
    text: String,
    /// The failure after which the client receives nothing more.
    failure: Option<Failure>,
}

impl<'r> Results<'r> {
    pub(super) fn new(
        transport: &'r mut Transport,
        backend: &Backend,
        formats: Option<Formats>,
    ) -> Results<'r> {
        Results {
            transport,
            answers: backend.answers.clone(),
            notices: backend.connection.notices(),
            encoding: backend.encoding,
            copies_text: false,
            formats,
            types: Vec::new(),
            text: String::new(),
            failure: None,
        }
    }

    /// Appends an answer, behind the notices that precede it.
    fn answer(&mut self, append: impl FnOnce(&mut Output)) {
        let mut output = self.answers.lock();
        for notice in self.notices.take() {
            report::notice(&mut output, &notice);
        }
        append(&mut output);
    }

    /// Returns the failure, if the connection is lost.
    pub(super) fn into_failure(self) -> Result<(), Failure> {
        self.failure.map_or(Ok(()), Err)
    }

    /// Writes the buffered answers.
    fn flush(&mut self) -> Result<(), SqlError> {
        let mut output = self.answers.lock();
        let written = self.transport.write(output.bytes());
        output.clear(FLUSH_BYTES);
        drop(output);
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
            self.answer(|output| {
                output.row_description(fields.iter().map(|field| column(field, Format::Text)));
            });
        }
        Ok(())
    }

    fn row(&mut self, values: &[Value], environment: &dyn Environment) -> Result<(), SqlError> {
        let (formats, encoding) = (self.formats.as_ref(), self.encoding);
        let (types, text) = (&self.types, &mut self.text);
        let mut output = self.answers.lock();
        for notice in self.notices.take() {
            report::notice(&mut output, &notice);
        }
        output.data_row(values.len(), |at, bytes| {
            let value = &values[at];
            if value.is_null() {
                return Ok(false);
            }
            match formats.map_or(Format::Text, |formats| formats.at(at)) {
                // The binary form of a text is the text.
                Format::Binary if encoding.is_none() || !is_text(types[at]) => {
                    to_binary(environment, types[at], value, bytes)?;
                }
                _ => {
                    text.clear();
                    write_text(environment, types[at], value, text)?;
                    encode(encoding, text, bytes)?;
                }
            }
            Ok::<_, SqlError>(true)
        })?;
        let is_full = output.len() >= FLUSH_BYTES;
        drop(output);
        if is_full { self.flush() } else { Ok(()) }
    }

    fn complete(&mut self, tag: &str) -> Result<(), SqlError> {
        self.answer(|output| output.command_complete(tag));
        Ok(())
    }

    fn empty(&mut self) {
        self.answer(Output::empty_query);
    }

    fn suspended(&mut self) {
        self.answer(Output::portal_suspended);
    }

    fn copy_in(&mut self, format: CopyFormat, columns: usize) -> Result<&mut dyn CopySource, SqlError> {
        self.copies_text = format != CopyFormat::Binary;
        self.answer(|output| output.copy_in(format == CopyFormat::Binary, columns));
        self.flush()?;
        Ok(self)
    }

    fn copy_out(&mut self, format: CopyFormat, columns: usize) -> Result<(), SqlError> {
        self.copies_text = format != CopyFormat::Binary;
        self.answer(|output| output.copy_out(format == CopyFormat::Binary, columns));
        Ok(())
    }

    fn copy_data(&mut self, data: &[u8]) -> Result<(), SqlError> {
        let data = match self.encoding.filter(|_| self.copies_text && !data.is_ascii()) {
            None => Cow::Borrowed(data),
            Some(_) => {
                let mut encoded = Vec::with_capacity(data.len());
                encode(self.encoding, utf8(data).map_err(protocol_error)?, &mut encoded)?;
                Cow::Owned(encoded)
            }
        };
        self.answer(|output| output.copy_data(&data));
        let is_full = self.answers.lock().len() >= FLUSH_BYTES;
        if is_full { self.flush() } else { Ok(()) }
    }

    fn copy_done(&mut self) -> Result<(), SqlError> {
        self.answer(Output::copy_done);
        Ok(())
    }
}

impl CopySource for Results<'_> {
    fn next(&mut self, into: &mut Vec<u8>) -> Result<bool, SqlError> {
        loop {
            let message = self.transport.read_message(None).map_err(|error| self.lose(error.into()))?;
            match decode(message.tag, self.transport.body(message)) {
                Ok(Message::CopyData(data)) => {
                    match self.encoding.filter(|_| self.copies_text) {
                        None => into.extend_from_slice(data),
                        Some(encoding) => {
                            let text = encoding.decode(data).map_err(protocol_error)?;
                            into.extend_from_slice(text.as_bytes());
                        }
                    }
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

/// Returns true if a type's binary form is its text.
fn is_text(ty: Type) -> bool {
    matches!(
        ty,
        Type::Text | Type::Varchar | Type::Bpchar | Type::Name | Type::Unknown | Type::Json | Type::Enum(_)
    )
}

/// Appends a text in the client's encoding.
///
/// # Errors
/// 22P05: the encoding does not have a character.
fn encode(encoding: Option<Encoding>, text: &str, into: &mut Vec<u8>) -> Result<(), SqlError> {
    let Some(encoding) = encoding else {
        into.extend_from_slice(text.as_bytes());
        return Ok(());
    };
    encoding
        .encode(text, into)
        .map_err(|character| SqlError::new(SqlState::new("22P05"), encoding.no_equivalent(character)))
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
