//! Rows of JSON: objects, one behind the other, or in a list.
//!
//! Invariant: an object that is wrong inside costs only itself: its brackets say where it ends, before it is parsed.

use std::io::{BufRead, BufReader, Read};

use serde_json::{Map, Value as Json};

use crate::error::{Error, Rejected, Result};
use crate::field::Field;
use crate::record::{Record, Records, Target};

/// Rows of JSON.
pub(crate) struct JsonRecords<R: Read> {
    input: BufReader<R>,
    target: Target,
    line: u64,
    /// True if the objects are in a list; not known before the first of them.
    in_list: Option<bool>,
    ended: bool,
}

impl<R: Read> JsonRecords<R> {
    pub fn new(input: R, target: Target) -> JsonRecords<R> {
        JsonRecords { input: BufReader::new(input), target, line: 1, in_list: None, ended: false }
    }

    fn peek(&mut self) -> Result<Option<u8>> {
        Ok(self.input.fill_buf()?.first().copied())
    }

    fn next_byte(&mut self) -> Result<Option<u8>> {
        let byte = self.peek()?;
        if byte.is_some() {
            self.input.consume(1);
            self.line += u64::from(byte == Some(b'\n'));
        }
        Ok(byte)
    }

    fn malformed<T>(&self, detail: &str) -> Result<T> {
        Err(Error::Malformed { line: self.line, detail: detail.to_string() })
    }

    /// The first byte of the next element; none at the end.
    fn begin(&mut self) -> Result<Option<u8>> {
        while let Some(byte) = self.peek()? {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' => {}
                // The mark that some editors put before a text.
                0xEF | 0xBB | 0xBF if self.in_list.is_none() => {}
                b'[' if self.in_list.is_none() => self.in_list = Some(true),
                b',' if self.in_list == Some(true) => {}
                b']' if self.in_list == Some(true) => self.ended = true,
                _ if self.ended => return self.malformed("there is more behind the list"),
                other => {
                    self.in_list.get_or_insert(false);
                    return Ok(Some(other));
                }
            }
            self.next_byte()?;
        }
        if self.in_list == Some(true) && !self.ended {
            return self.malformed("the list does not end");
        }
        Ok(None)
    }

    /// The bytes of an element: up to the bracket that closes its first; without one, up to the end of the line or the list's comma.
    fn element(&mut self, first: u8) -> Result<Vec<u8>> {
        let (mut bytes, mut depth, mut in_text, mut escaped) = (Vec::new(), 0_usize, false, false);
        let begins_at = self.line;
        let in_list = self.in_list == Some(true);
        while let Some(byte) = self.peek()? {
            if depth == 0 && !in_text && (byte == b'\n' || (in_list && matches!(byte, b',' | b']'))) {
                break;
            }
            self.next_byte()?;
            bytes.push(byte);
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_text => escaped = true,
                b'"' => in_text = !in_text,
                b'{' | b'[' if !in_text => depth += 1,
                b'}' | b']' if !in_text => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 && first == b'{' {
                        return Ok(bytes);
                    }
                }
                _ => {}
            }
        }
        if depth > 0 || in_text {
            return Err(Error::Malformed { line: begins_at, detail: "the object does not end".to_string() });
        }
        Ok(bytes)
    }

    fn arranged(&self, object: Map<String, Json>) -> std::result::Result<Vec<Option<Field>>, String> {
        let mut fields = vec![None; self.target.columns.len()];
        for (name, value) in object {
            let position = self.target.position(&name).map_err(|error| error.to_string())?;
            fields[position] = Some(Field::of_json(value));
        }
        Ok(fields)
    }
}

impl<R: Read> Records for JsonRecords<R> {
    fn next_record(&mut self) -> Result<Option<std::result::Result<Record, Rejected>>> {
        let Some(first) = self.begin()? else { return Ok(None) };
        let line = self.line;
        let bytes = self.element(first)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let object = serde_json::from_slice::<Map<String, Json>>(&bytes)
            .map_err(|error| format!("it is no object in JSON: {error}"));
        Ok(Some(match object.and_then(|object| self.arranged(object)) {
            Ok(fields) => Ok(Record { line, text, fields }),
            Err(reason) => Err(Rejected { line, column: None, reason, text }),
        }))
    }
}
