//! Decodes the first message of a connection, which has no type byte: a start, a cancel request, or the question
//! whether the server encrypts.

use super::{Fields, ProtocolError};

const CANCEL: u32 = 80_877_102;
const SSL: u32 = 80_877_103;
const GSS: u32 = 80_877_104;

/// The first message of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Startup {
    /// The client asks whether TLS is available, and continues with another of these.
    Tls,
    /// The client asks whether GSSAPI is available, which it never is, and continues with another of these.
    Gss,
    /// Another connection's statement is to be ended.
    Cancel {
        process: u32,
        key: Vec<u8>,
    },
    Start(Start),
}

/// The user, the database and the protocol version that the client asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) minor: u16,
    pub(crate) user: String,
    pub(crate) database: String,
    /// Settings of the session, and `options`.
    pub(crate) parameters: Vec<(String, String)>,
    /// Protocol extensions (`_pq_.…`) that the client asks for; none is known here.
    pub(crate) extensions: Vec<String>,
}

/// Decodes a first message: its body, which begins behind the length.
///
/// # Errors
/// It is no startup message, or of a major version other than 3.
pub(crate) fn decode(body: &[u8]) -> Result<Startup, ProtocolError> {
    let mut fields = Fields::new(body);
    match fields.u32()? {
        CANCEL => {
            let process = fields.u32()?;
            Ok(Startup::Cancel { process, key: fields.remaining().to_vec() })
        }
        SSL => fields.end().map(|()| Startup::Tls),
        GSS => fields.end().map(|()| Startup::Gss),
        version if version >> 16 == 3 => start(version as u16, fields).map(Startup::Start),
        version => Err(ProtocolError::new(format!(
            "unsupported frontend protocol {}.{}: server supports 3.0 to 3.2",
            version >> 16,
            version & 0xffff
        ))),
    }
}

fn start(minor: u16, mut fields: Fields<'_>) -> Result<Start, ProtocolError> {
    let mut start = Start { minor, ..Start::default() };
    loop {
        let name = fields.text()?;
        if name.is_empty() {
            break;
        }
        let value = fields.text()?;
        match name {
            "user" => start.user = value.to_owned(),
            "database" => start.database = value.to_owned(),
            extension if extension.starts_with("_pq_.") => start.extensions.push(extension.to_owned()),
            _ => start.parameters.push((name.to_owned(), value.to_owned())),
        }
    }
    fields.end()?;
    if start.user.is_empty() {
        return Err(ProtocolError::new("no PostgreSQL user name specified in startup packet"));
    }
    if start.database.is_empty() {
        start.database.clone_from(&start.user);
    }
    Ok(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(version: u32, rest: &[u8]) -> Vec<u8> {
        [&version.to_be_bytes()[..], rest].concat()
    }

    #[test]
    fn a_start_names_user_database_and_settings() {
        let packet = body(0x0003_0002, b"user\0ada\0application_name\0psql\0_pq_.compression\0on\0\0");
        let Ok(Startup::Start(start)) = decode(&packet) else { panic!("it is a start") };
        assert_eq!((start.minor, start.user.as_str(), start.database.as_str()), (2, "ada", "ada"));
        assert_eq!(start.parameters, [("application_name".to_owned(), "psql".to_owned())]);
        assert_eq!(start.extensions, ["_pq_.compression"]);
    }

    #[test]
    fn requests_for_encryption_and_cancellation_are_distinguished() {
        assert_eq!(decode(&body(SSL, b"")), Ok(Startup::Tls));
        assert_eq!(decode(&body(GSS, b"")), Ok(Startup::Gss));
        let cancel = decode(&body(CANCEL, &[0, 0, 0, 9, 1, 2, 3, 4]));
        assert_eq!(cancel, Ok(Startup::Cancel { process: 9, key: vec![1, 2, 3, 4] }));
    }

    #[test]
    fn an_invalid_startup_packet_is_refused() {
        for packet in [
            body(0x0002_0000, b"user\0ada\0\0"),
            body(0x0003_0000, b"user\0ada\0"),
            body(0x0003_0000, b"user\0\0\0"),
            body(0x0003_0000, b"database\0shop\0\0"),
            body(0x0003_0000, b"user\0ada\0\0more"),
            body(SSL, b"x"),
            vec![0, 3],
        ] {
            assert!(decode(&packet).is_err(), "{packet:?}");
        }
    }
}
