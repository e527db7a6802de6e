//! Encodes what a client gets: messages are appended to one buffer, which the connection writes out.

use super::decode::Format;
use super::encoding::Encoding;

/// The transaction status that ends each answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Idle,
    InTransaction,
    Failed,
}

/// A column of a result, as a RowDescription names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column<'a> {
    pub(crate) name: &'a str,
    /// The table's object identifier, and the column's number in it; zeros for an expression.
    pub(crate) origin: (u32, i16),
    pub(crate) type_oid: u32,
    /// Bytes of a value; negative: it varies.
    pub(crate) type_size: i16,
    pub(crate) modifier: i32,
    pub(crate) format: Format,
}

/// A field of an ErrorResponse or NoticeResponse: its code and its text.
pub(crate) type Field<'a> = (u8, &'a str);

/// Messages on their way to a client.
#[derive(Debug, Default)]
pub(crate) struct Output {
    bytes: Vec<u8>,
    /// The client's encoding, unless it is UTF-8.
    pub(crate) encoding: Option<Encoding>,
    /// A message is there that PostgreSQL sends at once: a ReadyForQuery, an error, or a notice.
    is_urgent: bool,
}

impl Output {
    /// The bytes that are to be written.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn is_urgent(&self) -> bool {
        self.is_urgent
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Forgets all of it; keeps at most `keep` bytes of memory.
    pub(crate) fn clear(&mut self, keep: usize) {
        self.is_urgent = false;
        self.bytes.clear();
        self.bytes.shrink_to(keep);
    }

    /// Takes back what was appended since there were this many bytes.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.bytes.truncate(length);
    }

    /// A message: its type, its length, and what `fill` appends.
    fn message(&mut self, tag: u8, fill: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.push(tag);
        let start = self.bytes.len();
        self.bytes.extend([0; 4]);
        fill(&mut self.bytes);
        let length = (self.bytes.len() - start) as u32;
        self.bytes[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// The single byte that answers a request for encryption.
    pub(crate) fn encryption(&mut self, available: bool) {
        self.bytes.push(if available { b'S' } else { b'N' });
    }

    pub(crate) fn authentication_ok(&mut self) {
        self.message(b'R', |body| body.extend(0_u32.to_be_bytes()));
    }

    /// The mechanisms of SASL that the client may choose from.
    pub(crate) fn authentication_sasl(&mut self, mechanisms: &[&str]) {
        let encoding = self.encoding;
        self.message(b'R', |body| {
            body.extend(10_u32.to_be_bytes());
            mechanisms.iter().for_each(|mechanism| text(body, encoding, mechanism));
            body.push(0);
        });
    }

    pub(crate) fn authentication_sasl_continue(&mut self, data: &str) {
        self.message(b'R', |body| {
            body.extend(11_u32.to_be_bytes());
            body.extend(data.as_bytes());
        });
    }

    pub(crate) fn authentication_sasl_final(&mut self, data: &str) {
        self.message(b'R', |body| {
            body.extend(12_u32.to_be_bytes());
            body.extend(data.as_bytes());
        });
    }

    pub(crate) fn parameter_status(&mut self, name: &str, value: &str) {
        let encoding = self.encoding;
        self.message(b'S', |body| {
            text(body, encoding, name);
            text(body, encoding, value);
        });
    }

    /// Appends the identity by which a cancel request names this connection.
    pub(crate) fn backend_key_data(&mut self, process: u32, key: &[u8]) {
        self.message(b'K', |body| {
            body.extend(process.to_be_bytes());
            body.extend(key);
        });
    }

    /// The newest minor version that this server speaks, and the extensions that it does not know.
    pub(crate) fn negotiate_version(&mut self, minor: u16, unknown: &[String]) {
        let encoding = self.encoding;
        self.message(b'v', |body| {
            body.extend((0x0003_0000 | u32::from(minor)).to_be_bytes());
            body.extend((unknown.len() as u32).to_be_bytes());
            unknown.iter().for_each(|name| text(body, encoding, name));
        });
    }

    /// Appends a notification of another session, or of this one.
    pub(crate) fn notification(&mut self, process: u32, channel: &str, payload: &str) {
        let encoding = self.encoding;
        self.message(b'A', |body| {
            body.extend(process.to_be_bytes());
            text(body, encoding, channel);
            text(body, encoding, payload);
        });
    }

    pub(crate) fn ready(&mut self, status: Status) {
        let status = match status {
            Status::Idle => b'I',
            Status::InTransaction => b'T',
            Status::Failed => b'E',
        };
        self.is_urgent = true;
        self.message(b'Z', |body| body.push(status));
    }

    pub(crate) fn row_description<'a>(&mut self, columns: impl ExactSizeIterator<Item = Column<'a>>) {
        let encoding = self.encoding;
        self.message(b'T', |body| {
            body.extend((columns.len() as u16).to_be_bytes());
            for column in columns {
                text(body, encoding, column.name);
                body.extend(column.origin.0.to_be_bytes());
                body.extend(column.origin.1.to_be_bytes());
                body.extend(column.type_oid.to_be_bytes());
                body.extend(column.type_size.to_be_bytes());
                body.extend(column.modifier.to_be_bytes());
                body.extend(code(column.format).to_be_bytes());
            }
        });
    }

    /// A row: `value` appends the bytes of the value at a position, or says that it is NULL by returning `false`.
    pub(crate) fn data_row<E>(
        &mut self,
        values: usize,
        mut value: impl FnMut(usize, &mut Vec<u8>) -> Result<bool, E>,
    ) -> Result<(), E> {
        let mut failure = None;
        let before = self.bytes.len();
        self.message(b'D', |body| {
            body.extend((values as u16).to_be_bytes());
            for position in 0..values {
                let start = body.len();
                body.extend([0xff; 4]);
                match value(position, body) {
                    Ok(false) => body.truncate(start + 4),
                    Ok(true) => {
                        let length = (body.len() - start - 4) as u32;
                        body[start..start + 4].copy_from_slice(&length.to_be_bytes());
                    }
                    Err(error) => {
                        failure = Some(error);
                        break;
                    }
                }
            }
        });
        match failure {
            None => Ok(()),
            Some(error) => {
                self.bytes.truncate(before);
                Err(error)
            }
        }
    }

    pub(crate) fn command_complete(&mut self, tag: &str) {
        let encoding = self.encoding;
        self.message(b'C', |body| text(body, encoding, tag));
    }

    pub(crate) fn parameter_description(&mut self, types: impl ExactSizeIterator<Item = u32>) {
        self.message(b't', |body| {
            body.extend((types.len() as u16).to_be_bytes());
            types.for_each(|oid| body.extend(oid.to_be_bytes()));
        });
    }

    pub(crate) fn empty_query(&mut self) {
        self.message(b'I', |_| ());
    }

    pub(crate) fn parse_complete(&mut self) {
        self.message(b'1', |_| ());
    }

    pub(crate) fn bind_complete(&mut self) {
        self.message(b'2', |_| ());
    }

    pub(crate) fn close_complete(&mut self) {
        self.message(b'3', |_| ());
    }

    pub(crate) fn no_data(&mut self) {
        self.message(b'n', |_| ());
    }

    pub(crate) fn portal_suspended(&mut self) {
        self.message(b's', |_| ());
    }

    /// The client may send the data of a COPY now.
    pub(crate) fn copy_in(&mut self, binary: bool, columns: usize) {
        self.copy_response(b'G', binary, columns);
    }

    /// The data of a COPY follow.
    pub(crate) fn copy_out(&mut self, binary: bool, columns: usize) {
        self.copy_response(b'H', binary, columns);
    }

    fn copy_response(&mut self, tag: u8, binary: bool, columns: usize) {
        self.message(tag, |body| {
            body.push(u8::from(binary));
            body.extend((columns as u16).to_be_bytes());
            (0..columns).for_each(|_| body.extend(u16::from(binary).to_be_bytes()));
        });
    }

    pub(crate) fn copy_data(&mut self, data: &[u8]) {
        self.message(b'd', |body| body.extend(data));
    }

    pub(crate) fn copy_done(&mut self) {
        self.message(b'c', |_| ());
    }

    pub(crate) fn error(&mut self, fields: &[Field<'_>]) {
        self.is_urgent = true;
        self.fields(b'E', fields);
    }

    pub(crate) fn notice(&mut self, fields: &[Field<'_>]) {
        self.is_urgent = true;
        self.fields(b'N', fields);
    }

    fn fields(&mut self, tag: u8, fields: &[Field<'_>]) {
        let encoding = self.encoding;
        self.message(tag, |body| {
            for (code, value) in fields {
                body.push(*code);
                text(body, encoding, value);
            }
            body.push(0);
        });
    }
}

fn code(format: Format) -> u16 {
    match format {
        Format::Text => 0,
        Format::Binary => 1,
    }
}

/// A text and its final zero byte. A zero inside would end it early, so it is left out.
fn text(into: &mut Vec<u8>, encoding: Option<Encoding>, text: &str) {
    match encoding.filter(|_| !text.is_ascii()) {
        None => into.extend(text.bytes().filter(|byte| *byte != 0)),
        Some(encoding) => {
            let mut encoded = Vec::with_capacity(text.len());
            encoding.encode_lossy(text, &mut encoded);
            into.extend(encoded.into_iter().filter(|byte| *byte != 0));
        }
    }
    into.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_its_type_and_its_length() {
        let mut output = Output::default();
        output.ready(Status::InTransaction);
        output.command_complete("SELECT 2");
        assert_eq!(output.bytes(), b"Z\0\0\0\x05TC\0\0\0\x0dSELECT 2\0");
    }

    #[test]
    fn null_has_no_bytes_and_an_empty_value_has_none_either_but_a_length() {
        let mut output = Output::default();
        let row = output.data_row(2, |position, body| {
            body.extend(b"never".iter().filter(|_| position == 1));
            body.truncate(if position == 1 { body.len() - 5 } else { body.len() });
            Ok::<_, ()>(position == 1)
        });
        assert_eq!(row, Ok(()));
        assert_eq!(output.bytes(), b"D\0\0\0\x0e\0\x02\xff\xff\xff\xff\0\0\0\0");
    }

    #[test]
    fn a_row_that_fails_leaves_nothing() {
        let mut output = Output::default();
        output.parse_complete();
        let before = output.len();
        let failed = output.data_row(3, |position, body| {
            body.push(1);
            if position == 2 { Err("no") } else { Ok(true) }
        });
        assert_eq!((failed, output.len()), (Err("no"), before));
    }

    #[test]
    fn a_zero_byte_in_a_text_does_not_end_the_message_early() {
        let mut output = Output::default();
        output.error(&[(b'S', "ERROR"), (b'M', "a\0b")]);
        assert_eq!(output.bytes(), b"E\0\0\0\x10SERROR\0Mab\0\0");
    }

    #[test]
    fn a_copy_names_the_format_of_each_column() {
        let mut output = Output::default();
        output.copy_in(true, 2);
        assert_eq!(output.bytes(), b"G\0\0\0\x0b\x01\0\x02\0\x01\0\x01");
    }
}
