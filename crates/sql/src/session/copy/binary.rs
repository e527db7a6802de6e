//! COPY's binary format: a signature, flags, rows of fields with their lengths, and an end mark.
//!
//! Invariants: pieces of data may end anywhere; a length is believed only once that many bytes are there.
//!
//! Source: PostgreSQL 15, "COPY", "Binary Format".

use crate::error::{Result, SqlError, SqlState};
use crate::run::KeptRows;
use crate::session::connection::Connection;
use crate::session::copy::{CopyColumn, Unread};
use crate::session::result::{CopyFormat, CopySource, ResultSink};
use crate::session::run::Plan;
use crate::types::binary::{from_binary, to_binary};
use crate::types::{Environment, Value};

const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";

/// A set bit among the upper half of the flags changes the format.
const CRITICAL_FLAGS: u32 = 0xffff_0000;

fn bad(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message.into())
}

/// Data on its way to rows.
#[derive(Default)]
struct Rows {
    data: Vec<u8>,
    next: usize,
    has_header: bool,
    ended: bool,
}

impl Rows {
    fn push(&mut self, data: &[u8]) {
        self.data.drain(..self.next);
        self.next = 0;
        self.data.extend_from_slice(data);
    }

    /// The next bytes, if they are all there.
    fn bytes(&self, at: &mut usize, length: usize) -> Option<&[u8]> {
        let bytes = self.data.get(*at..)?.get(..length)?;
        *at += length;
        Some(bytes)
    }

    fn number<const N: usize>(&self, at: &mut usize) -> Option<[u8; N]> {
        self.bytes(at, N)?.first_chunk().copied()
    }

    /// Reads the header; returns false if more data is needed.
    fn header(&mut self) -> Result<bool> {
        if self.has_header {
            return Ok(true);
        }
        let mut at = 0;
        let known = self.data.len().min(SIGNATURE.len());
        if self.data[..known] != SIGNATURE[..known] {
            return Err(bad("COPY file signature not recognized"));
        }
        let header = (|| {
            self.bytes(&mut at, SIGNATURE.len())?;
            let flags = u32::from_be_bytes(self.number(&mut at)?);
            let extension = u32::from_be_bytes(self.number(&mut at)?) as usize;
            self.bytes(&mut at, extension)?;
            Some(flags)
        })();
        let Some(flags) = header else { return Ok(false) };
        if flags & CRITICAL_FLAGS != 0 {
            return Err(bad("unrecognized critical flags in COPY file header"));
        }
        (self.has_header, self.next) = (true, at);
        Ok(true)
    }

    /// The next row's values, if it is there whole.
    fn row(&mut self, environment: &dyn Environment, columns: &[CopyColumn]) -> Result<Option<Vec<Value>>> {
        if self.ended || !self.header()? {
            return Ok(None);
        }
        let mut at = self.next;
        let Some(count) = self.number(&mut at).map(i16::from_be_bytes) else { return Ok(None) };
        if count == -1 {
            (self.ended, self.next) = (true, at);
            return Ok(None);
        }
        if usize::try_from(count) != Ok(columns.len()) {
            let expected = columns.len();
            return Err(bad(format!("row field count is {count}, expected {expected}")));
        }
        let mut values = Vec::with_capacity(columns.len());
        for (_, ty, modifier) in columns {
            let Some(length) = self.number(&mut at).map(i32::from_be_bytes) else { return Ok(None) };
            if length == -1 {
                values.push(Value::Null);
                continue;
            }
            let length = usize::try_from(length).map_err(|_| bad("invalid field size"))?;
            let Some(bytes) = self.bytes(&mut at, length) else { return Ok(None) };
            let value = from_binary(environment, *ty, bytes)?;
            values.push(crate::types::cast::apply_modifier(*ty, *modifier, value, false)?);
        }
        self.next = at;
        Ok(Some(values))
    }

    /// Checks that nothing is left when the data ends.
    fn finish(&self) -> Result<()> {
        match (self.has_header, self.ended || self.next == self.data.len()) {
            (true, true) => Ok(()),
            (false, _) => Err(bad("COPY file signature not recognized")),
            (true, false) => Err(bad("unexpected EOF in COPY data")),
        }
    }
}

impl Connection {
    /// Reads all rows of a binary COPY.
    pub(super) fn binary_rows(
        &mut self,
        source: &mut dyn CopySource,
        table: &str,
        columns: &[CopyColumn],
    ) -> Result<KeptRows> {
        let mut rows = KeptRows::new(self.environment.memory()).packed();
        let mut incoming = Rows::default();
        let mut data = Vec::new();
        let mut unread = Unread::new(self.environment.state_memory());
        loop {
            data.clear();
            let more = source.next(&mut data)?;
            incoming.push(&data);
            let on_line =
                |error: SqlError, number: usize| error.with_context(format!("COPY {table}, line {number}"));
            while let Some(row) =
                incoming.row(&self.environment, columns).map_err(|error| on_line(error, rows.len() + 1))?
            {
                rows.push(&row)?;
            }
            unread.hold(incoming.data.len() - incoming.next)?;
            self.environment_check()?;
            if !more {
                incoming.finish()?;
                return Ok(rows);
            }
        }
    }

    /// Sends a plan's rows in the binary format, each as a piece of data of its own, the header with the first: drivers
    /// rely on it. Returns the number of rows.
    pub(super) fn copy_binary_to(
        &mut self,
        plan: &Plan,
        is_empty: &mut bool,
        sink: &mut dyn ResultSink,
    ) -> Result<u64> {
        let mut begin = |sink: &mut dyn ResultSink| match std::mem::take(is_empty) {
            true => sink.copy_out(CopyFormat::Binary, plan.fields.len()),
            false => Ok(()),
        };
        let mut bytes = [SIGNATURE, &[0; 8]].concat();
        let printing = self.environment.printing();
        let count = self.run_plan(plan, &[], &mut |row| {
            begin(sink)?;
            bytes.extend((row.len() as i16).to_be_bytes());
            for (value, field) in row.iter().zip(plan.fields.iter()) {
                let start = bytes.len();
                bytes.extend((-1_i32).to_be_bytes());
                if !value.is_null() {
                    to_binary(&*printing, field.ty, value, &mut bytes)?;
                    let length = (bytes.len() - start - 4) as i32;
                    bytes[start..start + 4].copy_from_slice(&length.to_be_bytes());
                }
            }
            sink.copy_data(&bytes)?;
            bytes.clear();
            Ok(())
        })?;
        begin(sink)?;
        bytes.extend((-1_i16).to_be_bytes());
        sink.copy_data(&bytes)?;
        Ok(count)
    }
}
