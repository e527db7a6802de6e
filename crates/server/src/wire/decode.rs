//! Decodes the messages that a client sends once a connection is up.

use std::sync::Arc;

use super::{Fields, ProtocolError};

/// A statement or a portal, by its name; the empty name is the unnamed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named<'a> {
    Statement(&'a str),
    Portal(&'a str),
}

/// The format in which values are sent: as text, or in their binary form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    #[default]
    Text,
    Binary,
}

/// The formats that a Bind names: none (all text), one for all, or one for each value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Formats {
    All(Format),
    Each(Arc<[Format]>),
}

impl Default for Formats {
    fn default() -> Formats {
        Formats::All(Format::Text)
    }
}

impl Formats {
    /// The format of the value at this position.
    pub(crate) fn at(&self, position: usize) -> Format {
        match self {
            Formats::All(format) => *format,
            Formats::Each(formats) => formats.get(position).copied().unwrap_or_default(),
        }
    }

    /// Refuses a number of formats that fits no rule.
    pub(crate) fn check(&self, values: usize, what: &str, of: &str) -> Result<(), ProtocolError> {
        match self {
            Formats::Each(formats) if formats.len() != values => {
                Err(ProtocolError::new(format!("bind message has {} {what} formats but {of}", formats.len())))
            }
            _ => Ok(()),
        }
    }
}

/// A Bind: a portal is made of a statement and its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bind<'a> {
    pub(crate) portal: &'a str,
    pub(crate) statement: &'a str,
    pub(crate) parameter_formats: Formats,
    pub(crate) parameters: Vec<Option<&'a [u8]>>,
    pub(crate) result_formats: Formats,
}

/// A message of an established connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    Query(&'a str),
    Parse {
        name: &'a str,
        query: &'a str,
        types: Vec<u32>,
    },
    Bind(Bind<'a>),
    Describe(Named<'a>),
    Execute {
        portal: &'a str,
        max_rows: u32,
    },
    Close(Named<'a>),
    Flush,
    Sync,
    Terminate,
    CopyData(&'a [u8]),
    CopyDone,
    CopyFail(&'a str),
    /// A password, or a step of SASL: only the authentication knows which.
    Password(&'a [u8]),
    FunctionCall,
}

/// Returns true if a message of this type exists: a length behind any other byte means nothing.
pub(crate) fn is_known(tag: u8) -> bool {
    b"QPBDECHSXdcfpF".contains(&tag)
}

/// Decodes a message: its type and its body, which begins behind the length.
///
/// # Errors
/// The body is not one of a message of this type.
pub(crate) fn decode(tag: u8, body: &[u8]) -> Result<Message<'_>, ProtocolError> {
    let mut fields = Fields::new(body);
    let message = match tag {
        b'Q' => Message::Query(fields.text()?),
        b'P' => parse(&mut fields)?,
        b'B' => Message::Bind(bind(&mut fields)?),
        b'D' => Message::Describe(named(&mut fields)?),
        b'E' => Message::Execute { portal: fields.text()?, max_rows: max_rows(&mut fields)? },
        b'C' => Message::Close(named(&mut fields)?),
        b'H' => Message::Flush,
        b'S' => Message::Sync,
        b'X' => Message::Terminate,
        b'd' => Message::CopyData(fields.remaining()),
        b'c' => Message::CopyDone,
        b'f' => Message::CopyFail(fields.text()?),
        b'p' => Message::Password(fields.remaining()),
        b'F' => {
            fields.remaining();
            Message::FunctionCall
        }
        other => return Err(ProtocolError::new(format!("invalid frontend message type {other}"))),
    };
    fields.end()?;
    Ok(message)
}

fn parse<'a>(fields: &mut Fields<'a>) -> Result<Message<'a>, ProtocolError> {
    let (name, query) = (fields.text()?, fields.text()?);
    let count = fields.u16()?;
    let types = (0..count).map(|_| fields.u32()).collect::<Result<_, _>>()?;
    Ok(Message::Parse { name, query, types })
}

fn bind<'a>(fields: &mut Fields<'a>) -> Result<Bind<'a>, ProtocolError> {
    let (portal, statement) = (fields.text()?, fields.text()?);
    let parameter_formats = formats(fields)?;
    let count = fields.u16()?;
    let parameters = (0..count).map(|_| fields.value()).collect::<Result<Vec<_>, _>>()?;
    parameter_formats.check(parameters.len(), "parameter", &format!("{} parameters", parameters.len()))?;
    Ok(Bind { portal, statement, parameter_formats, parameters, result_formats: formats(fields)? })
}

fn formats(fields: &mut Fields<'_>) -> Result<Formats, ProtocolError> {
    let count = fields.u16()?;
    let mut next = || match fields.u16()? {
        0 => Ok(Format::Text),
        1 => Ok(Format::Binary),
        other => Err(ProtocolError::new(format!("invalid format code: {other}"))),
    };
    match count {
        0 => Ok(Formats::default()),
        1 => next().map(Formats::All),
        count => (0..count).map(|_| next()).collect::<Result<_, _>>().map(Formats::Each),
    }
}

fn named<'a>(fields: &mut Fields<'a>) -> Result<Named<'a>, ProtocolError> {
    match (fields.u8()?, fields.text()?) {
        (b'S', name) => Ok(Named::Statement(name)),
        (b'P', name) => Ok(Named::Portal(name)),
        (other, _) => Err(ProtocolError::new(format!("invalid message subtype {other}"))),
    }
}

/// The most rows that an Execute asks for; zero, or a negative number as PostgreSQL reads it, is all of them.
fn max_rows(fields: &mut Fields<'_>) -> Result<u32, ProtocolError> {
    Ok(u32::try_from(fields.i32()?).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(into: &mut Vec<u8>, text: &str) {
        into.extend_from_slice(text.as_bytes());
        into.push(0);
    }

    #[test]
    fn a_bind_has_formats_parameters_and_result_formats() {
        let mut body = Vec::new();
        text(&mut body, "");
        text(&mut body, "find");
        body.extend([0, 1, 0, 1]); // one format for all: binary
        body.extend([0, 2, 0, 0, 0, 2, 7, 8, 0xff, 0xff, 0xff, 0xff]); // two bytes, and NULL
        body.extend([0, 0]);
        let Ok(Message::Bind(bind)) = decode(b'B', &body) else { panic!("it is a bind") };
        assert_eq!((bind.portal, bind.statement), ("", "find"));
        assert_eq!(bind.parameters, [Some(&[7, 8][..]), None]);
        assert_eq!(bind.parameter_formats.at(1), Format::Binary);
        assert_eq!(bind.result_formats.at(5), Format::Text);
    }

    #[test]
    fn lengths_that_lie_are_refused_before_anything_is_allocated() {
        let mut body = Vec::new();
        text(&mut body, "");
        text(&mut body, "");
        body.extend([0, 0, 0xff, 0xff]); // 65,535 parameters, and none follows
        assert!(decode(b'B', &body).is_err());
        let mut body = Vec::new();
        text(&mut body, "");
        text(&mut body, "");
        body.extend([0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff]); // one of 2 GiB
        assert!(decode(b'B', &body).is_err());
        body.truncate(4);
        body.extend([0, 1, 0xff, 0xff, 0xff, 0xfe]); // one of −2 bytes
        assert!(decode(b'B', &body).is_err());
    }

    #[test]
    fn texts_end_and_are_utf8_and_nothing_follows_the_last_field() {
        assert_eq!(decode(b'Q', b"SELECT 1\0"), Ok(Message::Query("SELECT 1")));
        for body in [&b"SELECT 1"[..], b"\xff\0", b"SELECT 1\0x", b""] {
            assert!(decode(b'Q', body).is_err(), "{body:?}");
        }
        assert!(decode(b'S', b"x").is_err());
        assert!(decode(b'D', b"Xname\0").is_err());
        assert!(decode(b'?', b"").is_err() && !is_known(b'?'));
    }

    #[test]
    fn a_negative_row_limit_is_none() {
        let execute = decode(b'E', b"p\0\xff\xff\xff\xff");
        assert_eq!(execute, Ok(Message::Execute { portal: "p", max_rows: 0 }));
        assert_eq!(decode(b'E', b"\0\0\0\0\x05"), Ok(Message::Execute { portal: "", max_rows: 5 }));
    }

    #[test]
    fn a_number_of_formats_fits_the_values_or_is_refused() {
        let two = Formats::Each(Arc::from([Format::Binary, Format::Text]));
        assert!(two.check(2, "parameter", "2 parameters").is_ok());
        let refused = two.check(3, "result", "query has 3 columns").expect_err("three columns, two formats");
        assert_eq!(refused.message, "bind message has 2 result formats but query has 3 columns");
        assert!(Formats::default().check(9, "result", "query has 9 columns").is_ok());
        assert_eq!((two.at(0), two.at(1)), (Format::Binary, Format::Text));
    }

    /// No sequence of bytes makes the decoder panic, whatever message it is said to be.
    #[test]
    fn any_bytes_are_decoded_or_refused() {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for _ in 0..200_000 {
            let length = (next() % 24) as usize;
            let body: Vec<u8> = (0..length).map(|_| if next() % 3 == 0 { 0 } else { next() as u8 }).collect();
            let tag = b"QPBDECHSXdcfpF?"[(next() % 15) as usize];
            let _ = decode(tag, &body);
        }
    }
}
