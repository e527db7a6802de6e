//! A query's rows as a stream of batches, which a thread makes while a consumer reads them.
//!
//! # Invariants
//! - The thread owns the connection, and with it the snapshot that the query reads: both end with the stream.
//! - At most two batches wait for the consumer; the thread waits for it without the GIL.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use heddle_sql::{Environment, Field, ResultSink, SqlError, SqlState, Type, Value};

use super::columns::{Columns, schema_of};
use super::{BATCH_ROWS, arrow_error};
use crate::rows::portable;
use crate::session::Open;

/// Batches that wait for the consumer.
const BATCHES_MAX: usize = 2;

/// A message of the thread to the consumer.
enum Made {
    Schema(SchemaRef),
    Batch(RecordBatch),
    Failed(SqlError),
}

/// Starts a query on a connection: its batches, as soon as its columns are known.
///
/// # Errors
/// The query's, if it returns no rows at all.
pub fn start(open: Open, text: String) -> Result<Box<dyn RecordBatchReader + Send>, SqlError> {
    let (sender, receiver) = sync_channel(BATCHES_MAX);
    let thread = std::thread::Builder::new().name("heddle-arrow".to_string());
    let refused = |error| SqlError::new(SqlState::new("53000"), format!("no thread for the stream: {error}"));
    thread.spawn(move || run(open, &text, sender)).map_err(refused)?;
    match receiver.recv() {
        Ok(Made::Schema(schema)) => {
            Ok(Box::new(StreamReader { schema, receiver, process: std::process::id() }))
        }
        Ok(Made::Failed(error)) => Err(error),
        Ok(Made::Batch(_)) | Err(_) => {
            Err(SqlError::new(SqlState::SYNTAX_ERROR, "the query returns no rows"))
        }
    }
}

fn run(mut open: Open, text: &str, sender: SyncSender<Made>) {
    let mut sink = BatchSink { sender, columns: None, kinds: Vec::new() };
    if let Err(error) = open.connection.simple_query(text, &mut sink) {
        // A consumer that has left needs no error.
        let _ = sink.sender.send(Made::Failed(error));
    }
    // The snapshot ends before the stream does.
    drop(open);
}

/// Makes batches of rows.
struct BatchSink {
    sender: SyncSender<Made>,
    columns: Option<Columns>,
    kinds: Vec<Type>,
}

impl BatchSink {
    fn send(&self, made: Made) -> Result<(), SqlError> {
        let left = |_| SqlError::new(SqlState::QUERY_CANCELED, "the stream was closed");
        self.sender.send(made).map_err(left)
    }

    fn send_batch(&mut self) -> Result<(), SqlError> {
        let Some(columns) = self.columns.as_mut().filter(|columns| columns.rows() > 0) else { return Ok(()) };
        let batch = columns.finish().map_err(|error| super::sql_error(&error))?;
        self.send(Made::Batch(batch))
    }
}

impl ResultSink for BatchSink {
    fn describe(&mut self, fields: &[Field]) -> Result<(), SqlError> {
        if self.columns.is_some() {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "a stream has one query"));
        }
        let schema = schema_of(fields);
        self.kinds = fields.iter().map(|field| field.ty).collect();
        self.columns = Some(Columns::new(fields, schema.clone()));
        self.send(Made::Schema(schema))
    }

    fn row(&mut self, values: &[Value], environment: &dyn Environment) -> Result<(), SqlError> {
        let Some(columns) = &mut self.columns else { return Ok(()) };
        let made = values.iter().zip(&self.kinds).map(|(value, &kind)| portable(environment, kind, value));
        columns.push(&made.collect::<Result<Vec<_>, _>>()?)?;
        if columns.rows() == BATCH_ROWS { self.send_batch() } else { Ok(()) }
    }

    fn complete(&mut self, _tag: &str) -> Result<(), SqlError> {
        self.send_batch()
    }
}

/// The consumer's end.
struct StreamReader {
    schema: SchemaRef,
    receiver: Receiver<Made>,
    process: u32,
}

impl Iterator for StreamReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.process != std::process::id() {
            // The thread is the parent's.
            let message = "the stream was opened before this process was forked";
            return Some(Err(ArrowError::ExternalError(message.into())));
        }
        match self.receiver.recv() {
            Ok(Made::Batch(batch)) => Some(Ok(batch)),
            Ok(Made::Failed(error)) => Some(Err(arrow_error(&error))),
            Ok(Made::Schema(_)) | Err(_) => None,
        }
    }
}

impl RecordBatchReader for StreamReader {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
