//! A client's socket, with or without TLS: reads whole messages into one buffer, writes whole buffers, and waits for
//! the client or for a wake-up from another thread.
//!
//! # Invariants
//! A message's body is buffered only as it arrives: a length alone makes the buffer grow by at most [`READ_BYTES`].
//! The buffer holds at most one message of the limit in force, one read, and [`REPLAY_BYTES_MAX`] of messages
//! that may be read again. These are forgotten as soon as anything is written: the client has seen an answer.
//!
//! # Concurrency
//! One thread, the connection's own, uses a transport. Others only wake it, through its [`Waker`], or shut its socket
//! down, upon which reads and writes end. The [`Channel`] has a mutex because the thread writes through it from two places: its
//! answers, and the notices of a statement that is running ([`Writer`]).

#[cfg(test)]
mod tests;

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use heddle_sql::Encryption;
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustls::{CipherSuite, ProtocolVersion, ServerConfig, ServerConnection};

use crate::wire::ProtocolError;
use crate::wire::decode;

/// Bytes of one read from the socket.
const READ_BYTES: usize = 16 << 10;

/// A message's type and length.
const HEADER_BYTES: usize = 5;

/// The least that a buffer keeps when it is shrunk after a large message.
const KEPT_BYTES: usize = 64 << 10;

/// The most that is kept of messages that were read, so that they can be read again.
const REPLAY_BYTES_MAX: usize = 256 << 10;

/// The reason for which no message was read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("the client closed the connection")]
    Closed,
    #[error("the time for this is over")]
    TimedOut,
    #[error("another thread woke this connection")]
    Woken,
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
}

/// Wakes a connection's thread that waits for its client.
#[derive(Clone, Debug)]
pub(crate) struct Waker(Arc<OwnedFd>);

impl Waker {
    fn new() -> io::Result<Waker> {
        Ok(Waker(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    pub(crate) fn wake(&self) {
        // A full counter is a wake-up that was not seen yet.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }

    fn clear(&self) {
        let _ = rustix::io::read(&*self.0, &mut [0; 8]);
    }
}

/// A message, as the transport has buffered it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffered {
    pub(crate) tag: u8,
    start: usize,
    end: usize,
}

/// A buffer that the transport has lent, with the message in it.
pub(crate) struct Lent {
    bytes: Vec<u8>,
    message: Buffered,
}

impl Lent {
    /// The message's body.
    pub(crate) fn body(&self) -> &[u8] {
        &self.bytes[self.message.start..self.message.end]
    }
}

/// The encryption of a connection, if it is encrypted, and what was written last.
#[derive(Default)]
struct Channel {
    tls: Mutex<Option<Box<ServerConnection>>>,
    /// True if anything was written since this was cleared.
    has_written: AtomicBool,
}

/// The way out of a connection.
#[derive(Clone)]
pub(crate) struct Writer {
    socket: Arc<TcpStream>,
    channel: Arc<Channel>,
}

impl Writer {
    /// Writes all of it. A client that does not read blocks this thread, and no other, until the socket is shut down or
    /// its write timeout has passed.
    ///
    /// # Errors
    /// The connection is gone.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        // Relaxed: the same thread reads it.
        self.channel.has_written.store(true, Ordering::Relaxed);
        let mut socket = &*self.socket;
        let mut tls = self.channel.tls.lock();
        let Some(session) = &mut *tls else { return socket.write_all(bytes) };
        let mut rest = bytes;
        while !rest.is_empty() {
            let written = session.writer().write(rest)?;
            rest = &rest[written..];
            while session.wants_write() {
                session.write_tls(&mut socket)?;
            }
        }
        Ok(())
    }
}

pub(crate) struct Transport {
    writer: Writer,
    waker: Waker,
    /// Its first `filled` bytes came from the client; those behind are room for the next read.
    input: Vec<u8>,
    filled: usize,
    /// Position of the first byte that belongs to no message yet.
    next: usize,
    /// Start of the message to which [`rewind`](Self::rewind) returns.
    pinned: Option<usize>,
    max_message_bytes: usize,
}

impl Transport {
    /// # Errors
    /// The system refuses a file descriptor or an option of the socket.
    pub(crate) fn new(socket: TcpStream, max_message_bytes: usize) -> io::Result<Transport> {
        socket.set_nodelay(true)?;
        let waker = Waker::new()?;
        let writer = Writer { socket: Arc::new(socket), channel: Arc::default() };
        Ok(Transport {
            writer,
            waker,
            input: Vec::new(),
            filled: 0,
            next: 0,
            pinned: None,
            max_message_bytes,
        })
    }

    pub(crate) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// The socket once more, so that another thread can shut it down.
    pub(crate) fn second_handle(&self) -> io::Result<TcpStream> {
        self.writer.socket.try_clone()
    }

    /// The way out, for what is sent while a statement runs.
    pub(crate) fn writer(&self) -> Writer {
        self.writer.clone()
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.writer.channel.tls.lock().is_some()
    }

    /// The version and cipher that encrypt the connection. `None` if it is not encrypted.
    pub(crate) fn encryption(&self) -> Option<Encryption> {
        let tls = self.writer.channel.tls.lock();
        let tls = tls.as_ref()?;
        let suite = tls.negotiated_cipher_suite()?;
        let version = match suite.version().version {
            ProtocolVersion::TLSv1_3 => "TLSv1.3",
            _ => "TLSv1.2",
        };
        let cipher = openssl_name(suite.suite());
        let bits = if cipher.contains("128") { 128 } else { 256 };
        Some(Encryption { version, cipher, bits })
    }

    pub(crate) fn set_max_message_bytes(&mut self, bytes: usize) {
        self.max_message_bytes = bytes;
    }

    /// Returns true if bytes were read that belong to no message yet: before TLS begins there must be none,
    /// since they are not authenticated.
    pub(crate) fn has_unread_bytes(&self) -> bool {
        self.next < self.filled
    }

    /// Begins TLS and completes the handshake.
    ///
    /// # Errors
    /// The handshake failed, or took too long.
    pub(crate) fn start_tls(
        &mut self,
        config: Arc<ServerConfig>,
        deadline: Instant,
    ) -> Result<(), ReadError> {
        let mut session = ServerConnection::new(config).map_err(io::Error::other)?;
        let mut socket = &*self.writer.socket;
        while session.is_handshaking() {
            if session.wants_write() {
                session.write_tls(&mut socket)?;
                continue;
            }
            self.wait_readable(Some(deadline))?;
            if session.read_tls(&mut socket)? == 0 {
                return Err(ReadError::Closed);
            }
            if let Err(error) = session.process_new_packets() {
                // The alert gives the client the reason; the connection ends either way.
                let _ = session.write_tls(&mut socket);
                return Err(io::Error::other(error).into());
            }
        }
        while session.wants_write() {
            session.write_tls(&mut socket)?;
        }
        *self.writer.channel.tls.lock() = Some(Box::new(session));
        Ok(())
    }

    /// The name in the certificate that the client has shown: its bytes, as DER.
    pub(crate) fn client_certificate(&self) -> Option<Vec<u8>> {
        let tls = self.writer.channel.tls.lock();
        let certificates = tls.as_ref()?.peer_certificates()?;
        certificates.first().map(|certificate| certificate.to_vec())
    }

    /// Returns true if a whole message is in the buffer.
    pub(crate) fn has_message(&self) -> bool {
        let rest = &self.input[self.next..self.filled];
        length(rest, 1).is_some_and(|length| rest.len() > length)
    }

    /// Returns true if the client's next unit is in the buffer as a whole: a simple query, a function call or
    /// a termination, or messages of the extended protocol with the Sync that ends them.
    pub(crate) fn has_unit(&self) -> bool {
        let mut rest = &self.input[self.next..self.filled];
        while let Some(length) = length(rest, 1).filter(|length| *length >= 4 && rest.len() > *length) {
            if b"QFSX".contains(&rest[0]) {
                return true;
            }
            rest = &rest[1 + length..];
        }
        false
    }

    /// The next message; waits for it until `deadline`, and for a wake-up.
    ///
    /// # Errors
    /// [`ReadError`].
    pub(crate) fn read_message(&mut self, deadline: Option<Instant>) -> Result<Buffered, ReadError> {
        self.discard_read();
        self.fill(HEADER_BYTES, deadline)?;
        let tag = self.input[self.next];
        if !decode::is_known(tag) {
            return Err(ProtocolError::new(format!("invalid frontend message type {tag}")).into());
        }
        let end = 1 + self.checked_length(1)?;
        self.fill(end, deadline)?;
        let buffered = Buffered { tag, start: self.next + HEADER_BYTES, end: self.next + end };
        self.next += end;
        Ok(buffered)
    }

    /// The first message of a connection, which has no type: its body.
    ///
    /// # Errors
    /// [`ReadError`].
    pub(crate) fn read_startup(&mut self, deadline: Instant) -> Result<Vec<u8>, ReadError> {
        self.discard_read();
        self.fill(4, Some(deadline))?;
        // A Terminate, of a client that leaves before it has begun.
        if self.input[self.next..].starts_with(b"X\0\0\0") {
            return Err(ReadError::Closed);
        }
        let end = self.checked_length(0)?;
        self.fill(end, Some(deadline))?;
        let body = self.input[self.next + 4..self.next + end].to_vec();
        self.next += end;
        Ok(body)
    }

    /// The body of the message that was read last.
    pub(crate) fn body(&self, message: Buffered) -> &[u8] {
        &self.input[message.start..message.end]
    }

    /// The type of the message that [`read_message`](Self::read_message) gives next; waits for it as that does.
    ///
    /// # Errors
    /// [`ReadError`].
    pub(crate) fn peek_tag(&mut self, deadline: Option<Instant>) -> Result<u8, ReadError> {
        self.fill(1, deadline)?;
        Ok(self.input[self.next])
    }

    /// Keeps this message, which was read last, and those behind it, so that [`rewind`](Self::rewind) can return here.
    pub(crate) fn pin(&mut self, message: Buffered) {
        // Relaxed: the same thread stores it.
        self.writer.channel.has_written.store(false, Ordering::Relaxed);
        self.pinned = Some(message.start - HEADER_BYTES);
    }

    /// Returns true if the pinned message is still there, and nothing was written since.
    pub(crate) fn is_pinned(&self) -> bool {
        self.pinned.is_some() && !self.writer.channel.has_written.load(Ordering::Relaxed)
    }

    pub(crate) fn unpin(&mut self) {
        self.pinned = None;
    }

    /// Makes the pinned message the next one that is read.
    pub(crate) fn rewind(&mut self) {
        self.next = self.pinned.take().unwrap_or(self.next);
    }

    /// Hands out the buffer that holds the message read last, so that the transport can be used beside it; the
    /// buffer is to come back by [`put_back`](Self::put_back).
    pub(crate) fn lend(&mut self, message: Buffered) -> Lent {
        self.pinned = None;
        let rest = self.input[self.next..self.filled].to_vec();
        (self.filled, self.next) = (rest.len(), 0);
        Lent { bytes: std::mem::replace(&mut self.input, rest), message }
    }

    /// Takes a lent buffer back, to read into it again.
    pub(crate) fn put_back(&mut self, lent: Lent) {
        if !self.has_unread_bytes() {
            (self.input, self.filled, self.next) = (lent.bytes, 0, 0);
        }
    }

    fn checked_length(&self, at: usize) -> Result<usize, ReadError> {
        let length = length(&self.input[self.next..self.filled], at).unwrap_or(0);
        if length < 4 {
            return Err(ProtocolError::new(format!("invalid message length: {length}")).into());
        }
        if length > self.max_message_bytes {
            let limit = self.max_message_bytes;
            return Err(ProtocolError::new(format!(
                "invalid message length: {length} bytes are more than the {limit} that are allowed"
            ))
            .into());
        }
        Ok(length)
    }

    /// Forgets the messages that were read and are not pinned, once they are all there is.
    fn discard_read(&mut self) {
        self.pinned = self.pinned.filter(|pinned| self.next - pinned <= REPLAY_BYTES_MAX);
        if self.pinned.is_none() && self.next == self.filled {
            self.compact();
        }
    }

    /// Makes room behind what is still needed, and frees the memory that a large message took.
    fn compact(&mut self) {
        let start = self.pinned.unwrap_or(self.next);
        self.input.copy_within(start..self.filled, 0);
        self.filled -= start;
        self.next -= start;
        self.pinned = self.pinned.map(|_| 0);
        if self.input.len() > 4 * KEPT_BYTES && self.filled < KEPT_BYTES {
            self.input.truncate(KEPT_BYTES);
            self.input.shrink_to(KEPT_BYTES);
        }
    }

    /// Reads until `bytes` bytes of the next message are buffered.
    fn fill(&mut self, bytes: usize, deadline: Option<Instant>) -> Result<(), ReadError> {
        while self.filled - self.next < bytes {
            if self.input.len() - self.filled < READ_BYTES / 2 {
                self.compact();
                self.input.resize(self.input.len().max(self.filled + READ_BYTES), 0);
            }
            match self.read_some(self.filled, deadline)? {
                0 => return Err(ReadError::Closed),
                read => self.filled += read,
            }
        }
        Ok(())
    }

    fn read_some(&mut self, at: usize, deadline: Option<Instant>) -> Result<usize, ReadError> {
        let mut socket = &*self.writer.socket;
        loop {
            let mut tls = self.writer.channel.tls.lock();
            let Some(session) = &mut *tls else {
                drop(tls);
                self.wait_readable(deadline)?;
                match socket.read(&mut self.input[at..]) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    read => return Ok(read?),
                }
            };
            match session.reader().read(&mut self.input[at..]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => (),
                read => return Ok(read?),
            }
            wait_readable(socket, &self.waker, deadline)?;
            if session.read_tls(&mut socket)? == 0 {
                return Ok(0);
            }
            session.process_new_packets().map_err(io::Error::other)?;
        }
    }

    fn wait_readable(&self, deadline: Option<Instant>) -> Result<(), ReadError> {
        wait_readable(&self.writer.socket, &self.waker, deadline)
    }

    /// Writes all of it, as [`Writer::write`] does.
    ///
    /// # Errors
    /// The connection is gone.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.pinned = None;
        self.writer.write(bytes)
    }
}

/// A message's length as its field at `at` says, which counts itself.
fn length(bytes: &[u8], at: usize) -> Option<usize> {
    let field = bytes.get(at..at + 4)?.first_chunk()?;
    Some(u32::from_be_bytes(*field) as usize)
}

/// Waits until the socket can be read.
fn wait_readable(socket: &TcpStream, waker: &Waker, deadline: Option<Instant>) -> Result<(), ReadError> {
    loop {
        let timeout = match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
            Some(Duration::ZERO) => return Err(ReadError::TimedOut),
            left => left.and_then(|left| Timespec::try_from(left).ok()),
        };
        let mut events = [
            PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(waker.0.as_fd(), PollFlags::IN),
        ];
        match poll(&mut events, timeout.as_ref()) {
            Err(rustix::io::Errno::INTR) | Ok(0) => continue,
            Err(error) => return Err(io::Error::from(error).into()),
            Ok(_) => (),
        }
        if !events[1].revents().is_empty() {
            waker.clear();
            return Err(ReadError::Woken);
        }
        return Ok(());
    }
}

/// OpenSSL's name of a suite, as in PostgreSQL: for those of TLS 1.3 it is the standard's.
fn openssl_name(suite: CipherSuite) -> String {
    let name = match suite {
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => "ECDHE-ECDSA-AES128-GCM-SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => "ECDHE-ECDSA-AES256-GCM-SHA384",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-ECDSA-CHACHA20-POLY1305",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => "ECDHE-RSA-AES128-GCM-SHA256",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => "ECDHE-RSA-AES256-GCM-SHA384",
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-RSA-CHACHA20-POLY1305",
        _ => return suite.as_str().unwrap_or_default().replace("TLS13_", "TLS_"),
    };
    name.to_string()
}
