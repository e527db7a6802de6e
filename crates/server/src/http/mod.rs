//! HTTP for operators: `/metrics` for Prometheus, `/health`, `/ready`, and one live page.
//!
//! - `request`: what a client asks for, and whether it may.
//! - `metrics`: the statistics as Prometheus reads them.
//! - `live`: what the page shows, once a second, as server-sent events.
//! - `busiest`: the rows that are accessed most, while a page is open.
//! - `host`: what the process takes of its machine.
//! - `page.html`: the page, which asks nothing of any other server.
//!
//! # Invariants
//! Off unless the settings have `http`. Each connection serves one request. A request has at most 8 KiB and
//! 10 seconds; there are at most [`CONNECTIONS_MAX`] connections, further ones are closed. At most [`LIVE_MAX`] of them are live
//! pages, and further ones are refused with 503, so that health and metrics are answered however many are open. Without a token, only
//! requests that name this machine are answered ([`request::Access`]), so that no other site's page can ask through a
//! browser.
//!
//! # Concurrency
//! One thread accepts, each connection has one of its own. They share the server's [`Shared`] only, and end when the
//! server does.

pub(crate) mod busiest;
mod host;
mod live;
mod metrics;
mod request;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustls::{ServerConnection, StreamOwned};

use self::request::{Access, Refusal, Request};
use crate::server::{ServerError, Shared, wake_acceptor};

/// Most connections at once: every open page has one.
const CONNECTIONS_MAX: usize = 64;

/// Most live pages at once: the other connections are left to requests that are answered at once.
const LIVE_MAX: usize = 32;

/// Time in which a client must send its request, or accept an answer.
const PATIENCE: Duration = Duration::from_secs(10);

const PAGE: &str = include_str!("page.html");

/// The page loads nothing and sends nothing elsewhere.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A TCP or TLS connection.
trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

/// The HTTP listener; dropping it ends its connections.
pub(crate) struct Http {
    address: SocketAddr,
    ending: Arc<Ending>,
    acceptor: Option<JoinHandle<()>>,
}

/// The signal by which connections learn that the server ends, and their numbers.
#[derive(Default)]
struct Ending {
    is_ending: AtomicBool,
    connections: Mutex<usize>,
    live: AtomicUsize,
    changed: Condvar,
}

impl Ending {
    /// Waits until the server ends, for at most this long. Whether it ends.
    fn wait(&self, time: Duration) -> bool {
        let mut connections = self.connections.lock();
        // Acquire: partner of the store in `Http::drop`.
        if !self.is_ending.load(Ordering::Acquire) {
            self.changed.wait_for(&mut connections, time);
        }
        self.is_ending.load(Ordering::Acquire)
    }
}

/// A place among the connections.
struct Place(Arc<Ending>);

impl Place {
    fn take(ending: &Arc<Ending>) -> Option<Place> {
        let mut connections = ending.connections.lock();
        (*connections < CONNECTIONS_MAX).then(|| {
            *connections += 1;
            Place(ending.clone())
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *self.0.connections.lock() -= 1;
        self.0.changed.notify_all();
    }
}

/// A place among the live pages.
struct LivePlace<'e>(&'e Ending);

impl<'e> LivePlace<'e> {
    fn take(ending: &'e Ending) -> Option<LivePlace<'e>> {
        // Relaxed: the count guards no other data.
        let taken = ending
            .live
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |live| (live < LIVE_MAX).then_some(live + 1));
        taken.is_ok().then(|| LivePlace(ending))
    }
}

impl Drop for LivePlace<'_> {
    fn drop(&mut self) {
        self.0.live.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Http {
    /// Listens.
    ///
    /// # Errors
    /// The address is in use or not this machine's; the file with the token cannot be read; the system refuses a
    /// thread.
    pub(crate) fn listen(address: SocketAddr, shared: Arc<Shared>) -> Result<Http, ServerError> {
        let access = Access::of(&shared.current().settings, address)?;
        let failed = |error| ServerError::Listen { address, error };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let ending = Arc::new(Ending::default());
        let life = {
            let ending = ending.clone();
            move || accept(&listener, &shared, &Arc::new(access), &ending)
        };
        let acceptor = thread::Builder::new().name("heddle-http".to_owned()).spawn(life);
        Ok(Http { address, ending, acceptor: Some(acceptor.map_err(ServerError::Thread)?) })
    }

    /// The address at which it listens, with its actual port.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        // Release: the threads acquire it before they go on. The lock keeps one that is about to wait from missing it.
        let connections = self.ending.connections.lock();
        self.ending.is_ending.store(true, Ordering::Release);
        drop(connections);
        self.ending.changed.notify_all();
        wake_acceptor(self.address);
        self.acceptor.take().map(JoinHandle::join);
        let mut connections = self.ending.connections.lock();
        // A client that neither reads nor leaves is left to its timeout.
        self.ending.changed.wait_while_for(
            &mut connections,
            |connections| *connections > 0,
            Duration::from_secs(2),
        );
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>, access: &Arc<Access>, ending: &Arc<Ending>) {
    loop {
        let accepted = listener.accept();
        // Acquire: partner of the store in `Http::drop`.
        if ending.is_ending.load(Ordering::Acquire) {
            return;
        }
        let Ok((socket, peer)) = accepted else {
            thread::sleep(Duration::from_millis(50));
            continue;
        };
        let Some(place) = Place::take(ending) else { continue };
        let (shared, access) = (shared.clone(), access.clone());
        let life = move || {
            if let Err(error) = serve(socket, &shared, &access, &place.0) {
                tracing::debug!(%peer, %error, "an HTTP client has left");
            }
        };
        if let Err(error) = thread::Builder::new().name("heddle-http-client".to_owned()).spawn(life) {
            tracing::warn!(%error, "an HTTP client got no thread");
        }
    }
}

/// Answers one request.
fn serve(socket: TcpStream, shared: &Shared, access: &Access, ending: &Ending) -> io::Result<()> {
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.set_nodelay(true)?;
    let tls = shared.current().tls.filter(|_| !access.is_loopback());
    let mut stream: Box<dyn Stream> = match tls {
        Some(tls) => {
            let session = ServerConnection::new(tls.config).map_err(io::Error::other)?;
            Box::new(StreamOwned::new(session, socket))
        }
        None => Box::new(socket),
    };
    let stream = &mut *stream;
    let answered = match request::read(stream)? {
        Ok(request) => answer(stream, &request, shared, access, ending),
        Err(refusal) => Err(Answer::Refused(refusal)),
    };
    match answered {
        Ok(()) => Ok(()),
        Err(Answer::Refused(refusal)) => refuse(stream, refusal),
        Err(Answer::Lost(error)) => Err(error),
    }
}

/// The reason for which a request has no answer.
enum Answer {
    Refused(Refusal),
    Lost(io::Error),
}

impl From<io::Error> for Answer {
    fn from(error: io::Error) -> Answer {
        Answer::Lost(error)
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Answer {
        Answer::Refused(refusal)
    }
}

fn answer(
    stream: &mut dyn Stream,
    request: &Request,
    shared: &Shared,
    access: &Access,
    ending: &Ending,
) -> Result<(), Answer> {
    access.check_host(request)?;
    match request.path.as_str() {
        "/health" => respond(stream, "200 OK", "text/plain", "ok\n")?,
        "/ready" if shared.is_ready() => respond(stream, "200 OK", "text/plain", "ready\n")?,
        "/ready" => respond(
            stream,
            "503 Service Unavailable",
            "text/plain",
            "not ready: starting up, shutting down, or the log has failed\n",
        )?,
        "/" => respond(stream, "200 OK", "text/html", PAGE)?,
        "/metrics" => {
            access.check_token(request)?;
            respond(stream, "200 OK", "text/plain; version=0.0.4", &metrics::text(shared))?;
        }
        "/live" => {
            access.check_token(request)?;
            let _place = LivePlace::take(ending).ok_or(Refusal::Busy)?;
            head(stream, "200 OK", "text/event-stream", None)?;
            live::stream(stream, shared, access.shows_data(shared), |time| ending.wait(time))?;
        }
        _ => return Err(Refusal::NotFound.into()),
    }
    Ok(())
}

fn refuse(stream: &mut dyn Stream, refusal: Refusal) -> io::Result<()> {
    respond(stream, refusal.status(), "text/plain", &format!("{refusal}\n"))
}

fn respond(stream: &mut dyn Stream, status: &str, kind: &str, body: &str) -> io::Result<()> {
    head(stream, status, kind, Some(body.len()))?;
    stream.write_all(body.as_bytes())?;
    stream.flush()
}

fn head(stream: &mut dyn Stream, status: &str, kind: &str, length: Option<usize>) -> io::Result<()> {
    let length = length.map_or_else(String::new, |length| format!("Content-Length: {length}\r\n"));
    let challenge = if status.starts_with("401") { "WWW-Authenticate: Bearer\r\n" } else { "" };
    let kind =
        if kind.contains(';') { format!("{kind}; charset=utf-8") } else { format!("{kind};charset=utf-8") };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{length}{challenge}Cache-Control: no-store\r\n\
         Content-Security-Policy: {POLICY}\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())
}
