//! A request's head, and whether it is answered.
//!
//! # Invariants
//! Only GET is answered, and nothing that a request says is stored or executed. A browser sends `Origin` with requests of
//! other sites' pages, and the name that it looked up as `Host`: a page whose name was made to mean this machine's
//! address (DNS rebinding) therefore gets no answer. The token is compared in constant time.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, SocketAddr};

use subtle::ConstantTimeEq;

use crate::server::Shared;
use crate::settings::{Settings, SettingsError};

/// The largest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 8 << 10;

/// The shortest token, in bytes.
const TOKEN_BYTES_MIN: usize = 16;

/// A client's request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// The path without a query.
    pub(super) path: String,
    /// The values of headers by names in lower case; of several of one name the last.
    headers: HashMap<String, String>,
}

/// The reason for which a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Malformed,
    TooLarge,
    Method,
    NotFound,
    Host,
    Origin,
    Token,
    Busy,
}

impl Refusal {
    pub(super) fn status(self) -> &'static str {
        match self {
            Refusal::Malformed => "400 Bad Request",
            Refusal::TooLarge => "431 Request Header Fields Too Large",
            Refusal::Method => "405 Method Not Allowed",
            Refusal::NotFound => "404 Not Found",
            Refusal::Host | Refusal::Origin => "403 Forbidden",
            Refusal::Token => "401 Unauthorized",
            Refusal::Busy => "503 Service Unavailable",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Refusal::Malformed => "not an HTTP/1.1 request",
            Refusal::TooLarge => "the request's head is too large",
            Refusal::Method => "only GET is answered",
            Refusal::NotFound => "not found: try /, /metrics, /health or /ready",
            Refusal::Host => "the request does not name this machine: use localhost or 127.0.0.1",
            Refusal::Origin => "requests of other sites' pages are not answered",
            Refusal::Busy => "too many live pages are open: close some",
            Refusal::Token => "send the token of http_token_file: Authorization: Bearer TOKEN",
        })
    }
}

/// Reads a request's head.
///
/// # Errors
/// The connection is gone, or silent for too long.
pub(super) fn read(stream: &mut (impl Read + ?Sized)) -> io::Result<Result<Request, Refusal>> {
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    let end = loop {
        if let Some(end) = head.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break end;
        }
        if head.len() >= HEAD_BYTES_MAX {
            return Ok(Err(Refusal::TooLarge));
        }
        match stream.read(&mut buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => head.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == ErrorKind::Interrupted => (),
            Err(error) => return Err(error),
        }
    };
    Ok(std::str::from_utf8(&head[..end]).map_err(|_| Refusal::Malformed).and_then(parse))
}

fn parse(head: &str) -> Result<Request, Refusal> {
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Refusal::Malformed);
    };
    if !version.starts_with("HTTP/1.") || !target.starts_with('/') {
        return Err(Refusal::Malformed);
    }
    if method != "GET" {
        return Err(Refusal::Method);
    }
    let path = target.split('?').next().unwrap_or_default().to_owned();
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    };
    let headers = lines.map(header).collect::<Option<_>>().ok_or(Refusal::Malformed)?;
    Ok(Request { path, headers })
}

/// The check of which requests are answered.
#[derive(Debug)]
pub(super) struct Access {
    is_loopback: bool,
    token: Option<String>,
}

impl Access {
    /// # Errors
    /// The file with the token cannot be read, or the token is too short.
    pub(super) fn of(settings: &Settings, address: SocketAddr) -> Result<Access, SettingsError> {
        let read = |path: &std::path::PathBuf| {
            let text = std::fs::read_to_string(path)
                .map_err(|error| SettingsError::new(format!("{}: {error}", path.display())))?;
            let token = text.trim().to_owned();
            if token.len() < TOKEN_BYTES_MIN {
                return Err(SettingsError::new(format!(
                    "{}: the token has less than {TOKEN_BYTES_MIN} bytes",
                    path.display()
                )));
            }
            Ok(token)
        };
        let token = settings.http_token_file.as_ref().map(read).transpose()?;
        Ok(Access { is_loopback: address.ip().is_loopback(), token })
    }

    pub(super) fn is_loopback(&self) -> bool {
        self.is_loopback
    }

    /// Refuses requests of other sites' pages.
    pub(super) fn check_host(&self, request: &Request) -> Result<(), Refusal> {
        let host = request.headers.get("host").ok_or(Refusal::Malformed)?;
        if self.is_loopback && !names_this_machine(host) {
            return Err(Refusal::Host);
        }
        let origin = request.headers.get("origin");
        let is_own = |origin: &String| {
            let site = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            site.is_some_and(|site| site.eq_ignore_ascii_case(host))
        };
        if origin.is_none_or(is_own) { Ok(()) } else { Err(Refusal::Origin) }
    }

    /// Refuses requests without the token, if there is one.
    pub(super) fn check_token(&self, request: &Request) -> Result<(), Refusal> {
        let Some(token) = &self.token else { return Ok(()) };
        let given = request.headers.get("authorization").and_then(|value| value.strip_prefix("Bearer "));
        let is_right = given.is_some_and(|given| bool::from(given.as_bytes().ct_eq(token.as_bytes())));
        if is_right { Ok(()) } else { Err(Refusal::Token) }
    }

    /// Returns true if clients that have passed see keys of rows and texts of statements: with the token, or
    /// as long as connections from this machine are trusted under any name.
    pub(super) fn shows_data(&self, shared: &Shared) -> bool {
        self.token.is_some() || shared.trusts_everybody()
    }
}

/// Returns true if a `Host` names this machine: a loopback address or `localhost`, with or without a port.
fn names_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(headers: &[(&str, &str)]) -> Request {
        let lines: String = headers.iter().map(|(name, value)| format!("\r\n{name}: {value}")).collect();
        parse(&format!("GET /metrics HTTP/1.1{lines}")).expect("it is right")
    }

    fn access(is_loopback: bool, token: Option<&str>) -> Access {
        Access { is_loopback, token: token.map(str::to_owned) }
    }

    #[test]
    fn a_head_is_read_however_it_arrives_and_bounded() {
        let text = b"GET /live?x=1 HTTP/1.1\r\nHost: localhost\r\nX: y\r\n\r\n";
        let mut read_one_by_one = text
            .chunks(1)
            .fold(Box::new(io::empty()) as Box<dyn Read>, |before, chunk| Box::new(before.chain(chunk)));
        let request = read(&mut *read_one_by_one).expect("it is there").expect("it is right");
        assert_eq!(request.path, "/live");
        assert_eq!(read(&mut io::repeat(b'a')).expect("it is there"), Err(Refusal::TooLarge));
        assert!(read(&mut &b"GET / HTTP/1.1\r\n"[..]).is_err());
        for (text, refusal) in [
            ("GET /\r\n\r\n", Refusal::Malformed),
            ("GET http://a/ HTTP/1.1\r\n\r\n", Refusal::Malformed),
            ("GET / HTTP/1.1\r\nno header\r\n\r\n", Refusal::Malformed),
            ("POST / HTTP/1.1\r\n\r\n", Refusal::Method),
            ("\u{16}\u{3}\u{1}\r\n\r\n", Refusal::Malformed),
        ] {
            assert_eq!(read(&mut text.as_bytes()).expect("it is there"), Err(refusal), "{text}");
        }
    }

    #[test]
    fn only_requests_that_name_this_machine_are_answered_on_loopback() {
        let access = access(true, None);
        for host in ["localhost", "LOCALHOST:9090", "127.0.0.1:80", "127.1.2.3", "[::1]:9090", "[::1]"] {
            assert_eq!(access.check_host(&request(&[("Host", host)])), Ok(()), "{host}");
        }
        for host in ["example.com", "localhost.example.com", "10.0.0.1", "[fe80::1]:80", ""] {
            assert_eq!(access.check_host(&request(&[("Host", host)])), Err(Refusal::Host), "{host}");
        }
        assert_eq!(access.check_host(&request(&[])), Err(Refusal::Malformed));
    }

    #[test]
    fn pages_of_other_sites_get_no_answer() {
        let with = |origin| request(&[("Host", "localhost:9090"), ("Origin", origin)]);
        for access in [access(true, None), access(false, Some("0123456789abcdef"))] {
            assert_eq!(access.check_host(&with("http://localhost:9090")), Ok(()));
            for origin in ["http://evil.example", "http://localhost:9091", "null", "file://localhost:9090"] {
                assert_eq!(access.check_host(&with(origin)), Err(Refusal::Origin), "{origin}");
            }
        }
    }

    #[test]
    fn the_token_must_be_sent_exactly() {
        let access = access(false, Some("0123456789abcdef"));
        let with = |value| request(&[("Host", "db.example"), ("Authorization", value)]);
        assert_eq!(access.check_token(&with("Bearer 0123456789abcdef")), Ok(()));
        for value in ["Bearer 0123456789abcdeg", "Bearer ", "0123456789abcdef", "Basic 0123456789abcdef"] {
            assert_eq!(access.check_token(&with(value)), Err(Refusal::Token), "{value}");
        }
        assert_eq!(access.check_token(&request(&[("Host", "db.example")])), Err(Refusal::Token));
    }
}
