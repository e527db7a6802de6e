//! PostgreSQL's wire protocol, versions 3.0 and 3.2, as bytes: what clients send, decoded, and what they get, encoded.
//!
//! Nothing here knows sockets, sessions or SQL. Lengths are checked before anything is allocated for them.
//!
//! Source: PostgreSQL 15, "Frontend/Backend Protocol", "Message Formats".

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod encoding;
pub(crate) mod startup;

/// The SQLSTATE of a message that breaks the protocol.
pub(crate) const PROTOCOL_VIOLATION: &str = "08P01";

/// The SQLSTATE of a text with bytes that are no characters of its encoding.
pub(crate) const NOT_IN_REPERTOIRE: &str = "22021";

/// A violation of the protocol by a client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ProtocolError {
    pub(crate) state: &'static str,
    pub(crate) message: String,
}

impl ProtocolError {
    pub(crate) fn new(message: impl Into<String>) -> ProtocolError {
        ProtocolError { state: PROTOCOL_VIOLATION, message: message.into() }
    }

    /// A text whose bytes, from the first of these on, are none of the encoding.
    pub(crate) fn invalid_text(encoding: &str, bytes: &[u8]) -> ProtocolError {
        let bytes: Vec<String> = bytes.iter().map(|byte| format!("0x{byte:02x}")).collect();
        let message = format!("invalid byte sequence for encoding \"{encoding}\": {}", bytes.join(" "));
        ProtocolError { state: NOT_IN_REPERTOIRE, message }
    }
}

/// A message's bytes, read field by field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn new(body: &'a [u8]) -> Fields<'a> {
        Fields { rest: body }
    }

    /// The next `length` bytes.
    pub(crate) fn bytes(&mut self, length: usize) -> Result<&'a [u8], ProtocolError> {
        let (bytes, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or_else(|| ProtocolError::new("insufficient data left in message"))?;
        self.rest = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ProtocolError> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, ProtocolError> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, ProtocolError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub(crate) fn i32(&mut self) -> Result<i32, ProtocolError> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, ProtocolError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// The bytes of a text that ends with a zero byte.
    pub(crate) fn raw_text(&mut self) -> Result<&'a [u8], ProtocolError> {
        let end = self.rest.iter().position(|byte| *byte == 0);
        let length = end.ok_or_else(|| ProtocolError::new("invalid string in message"))?;
        let bytes = self.bytes(length)?;
        self.u8()?;
        Ok(bytes)
    }

    /// A text that ends with a zero byte.
    pub(crate) fn text(&mut self) -> Result<&'a str, ProtocolError> {
        encoding::utf8(self.raw_text()?)
    }

    /// A value: its length, −1 for NULL, and its bytes.
    pub(crate) fn value(&mut self) -> Result<Option<&'a [u8]>, ProtocolError> {
        match self.i32()? {
            -1 => Ok(None),
            length => match usize::try_from(length) {
                Ok(length) => self.bytes(length).map(Some),
                Err(_) => Err(ProtocolError::new(format!("invalid length of a value: {length}"))),
            },
        }
    }

    /// All that is left.
    pub(crate) fn remaining(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Refuses bytes behind the last field.
    pub(crate) fn end(self) -> Result<(), ProtocolError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(ProtocolError::new("invalid message format"))
    }
}
