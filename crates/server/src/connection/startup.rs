//! From a connection's first byte to an authenticated user: encryption, cancel requests, version, authentication.
//!
//! # Invariants
//! Until a user is authenticated, a message has at most 10 KiB (`server::STARTUP_BYTES_MAX`), and all of it takes at
//! most the authentication timeout. Bytes that came before TLS began are refused, since they are not authenticated
//! (CVE-2021-23214).

use std::io::ErrorKind;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use heddle_sql::password::MECHANISM;

use super::failure::{Failure, write_fatal};
use crate::scram::{Binding, Exchange, Refused};
use crate::server::{Served, Shared};
use crate::settings::{Method, Settings};
use crate::tls::Tls;
use crate::transport::Transport;
use crate::wire::decode::{Message, decode};
use crate::wire::encode::Output;
use crate::wire::startup::{self, Start, Startup};
use crate::wire::{Fields, ProtocolError};

/// The newest minor version of protocol 3 that is spoken here.
const MINOR: u16 = 2;

/// SCRAM-SHA-256 with channel binding.
const BOUND_MECHANISM: &str = "SCRAM-SHA-256-PLUS";

/// An authenticated user.
pub(super) struct User<'c> {
    pub(super) served: &'c Served,
    pub(super) start: Start,
    pub(super) is_superuser: bool,
}

/// Leads a client to an authenticated user. `None`: the connection is over (a cancel request, or the client left).
///
/// # Errors
/// What the client receives before the connection closes.
pub(super) fn begin<'c>(
    shared: &'c Arc<Shared>,
    transport: &mut Transport,
    address: IpAddr,
) -> Result<Option<User<'c>>, Failure> {
    let current = shared.current();
    let settings = &current.settings;
    let deadline = Instant::now() + Duration::from_secs(settings.authentication_timeout_s);
    let Some(start) = negotiate(shared, transport, deadline)? else { return Ok(None) };
    let mut output = Output::default();
    if start.minor > MINOR || !start.extensions.is_empty() {
        output.negotiate_version(start.minor.min(MINOR), &start.extensions);
    }
    let served =
        shared.served.get().ok_or_else(|| Failure::fatal("57P03", "the database system is starting up"))?;
    let mut client =
        Client { shared, settings, tls: current.tls.clone(), served, transport, output, deadline };
    let is_superuser = client.authenticate(&start, address)?;
    let Client { mut output, .. } = client;
    // Scripts of pg_dumpall connect to the last two.
    if start.database != settings.database && !["postgres", "template1"].contains(&start.database.as_str()) {
        return Err(Failure::fatal("3D000", format!("database \"{}\" does not exist", start.database)));
    }
    output.authentication_ok();
    transport.write(output.bytes())?;
    Ok(Some(User { served, start, is_superuser }))
}

/// Reads first messages until one starts a session.
fn negotiate(
    shared: &Arc<Shared>,
    transport: &mut Transport,
    deadline: Instant,
) -> Result<Option<Start>, Failure> {
    let mut asked_for_gss = false;
    loop {
        let body = transport.read_startup(deadline)?;
        match startup::decode(&body)? {
            Startup::Start(start) => return Ok(Some(start)),
            Startup::Cancel { process, key } => {
                // The answer is the same whether there is such a connection or not: none.
                shared.registry.cancel(process, &key);
                return Ok(None);
            }
            Startup::Tls if !transport.is_encrypted() => {
                if transport.has_unread_bytes() {
                    return Err(ProtocolError::new("received unencrypted data after SSL request").into());
                }
                let mut output = Output::default();
                let tls = shared.current().tls;
                output.encryption(tls.is_some());
                transport.write(output.bytes())?;
                if let Some(tls) = tls {
                    transport.start_tls(tls.config, deadline)?;
                }
            }
            Startup::Gss if !asked_for_gss && !transport.is_encrypted() => {
                asked_for_gss = true;
                let mut output = Output::default();
                output.encryption(false);
                transport.write(output.bytes())?;
            }
            Startup::Tls | Startup::Gss => {
                return Err(ProtocolError::new("encryption was settled already").into());
            }
        }
    }
}

/// A client that proves to be a user.
struct Client<'c> {
    shared: &'c Arc<Shared>,
    settings: &'c Settings,
    tls: Option<Tls>,
    served: &'c Served,
    transport: &'c mut Transport,
    output: Output,
    deadline: Instant,
}

impl Client<'_> {
    /// Lets the user in, or refuses; says whether a user that is no role is the bootstrap superuser.
    fn authenticate(&mut self, start: &Start, address: IpAddr) -> Result<bool, Failure> {
        let has_users = self.served.sql.has_passwords();
        let refused = || {
            Failure::fatal(
                "28000",
                format!(
                    "no rule lets user \"{}\" connect from {address}: see the host rules of the settings",
                    start.user
                ),
            )
        };
        let method = self.settings.method(address, &start.user, has_users);
        let in_the_clear = !address.is_loopback() && !self.transport.is_encrypted();
        if in_the_clear && !self.settings.allow_unencrypted {
            return Err(Failure::fatal(
                "28000",
                "this server takes connections from other machines with TLS only",
            ));
        }
        match method {
            Method::Reject => Err(refused()),
            // Without any password, this machine's clients are trusted under any name.
            Method::Trust => Ok(!has_users),
            Method::Scram => self.scram(&start.user),
            Method::Certificate => self.certificate(&start.user),
        }
    }

    fn scram(&mut self, user: &str) -> Result<bool, Failure> {
        let verifier = self.served.sql.login_role(user).and_then(|role| role.verifier);
        // A reload may have replaced the certificate since the connection began: then the client sees another one, and fails.
        let tls = self.tls.clone().filter(|_| self.transport.is_encrypted());
        let end_point = tls.and_then(|tls| tls.end_point);
        match end_point {
            Some(_) => self.output.authentication_sasl(&[BOUND_MECHANISM, MECHANISM]),
            None => self.output.authentication_sasl(&[MECHANISM]),
        }
        let answer = self.ask()?;
        let mut fields = Fields::new(&answer);
        let mechanism = fields.text()?.to_owned();
        let first = fields.value()?.unwrap_or_default();
        fields.end()?;
        let binding = match (mechanism.as_str(), &end_point) {
            (BOUND_MECHANISM, Some(end_point)) => Binding::Bound(end_point),
            (MECHANISM, Some(_)) => Binding::Declined,
            (MECHANISM, None) => Binding::Impossible,
            _ => {
                let message = format!("unknown SASL mechanism {mechanism:?}: use {MECHANISM}");
                return Err(ProtocolError::new(message).into());
            }
        };
        let refused = |refused| match refused {
            Refused::Malformed => ProtocolError::new("malformed SCRAM message").into(),
            Refused::Wrong => {
                Failure::fatal("28P01", format!("password authentication failed for user \"{user}\""))
            }
        };
        let (exchange, answer) =
            Exchange::begin(user, verifier, &self.shared.secret, &binding, first).map_err(refused)?;
        self.output.authentication_sasl_continue(&answer);
        let proof = self.ask()?;
        let answer = exchange.finish(&proof).map_err(refused)?;
        self.output.authentication_sasl_final(&answer);
        Ok(false)
    }

    fn certificate(&mut self, user: &str) -> Result<bool, Failure> {
        let failed =
            || Failure::fatal("28000", format!("certificate authentication failed for user \"{user}\""));
        let certificate = self.transport.client_certificate().ok_or_else(failed)?;
        let (_, certificate) = x509_parser::parse_x509_certificate(&certificate).map_err(|_| failed())?;
        let mut names = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
        if !names.any(|name| name == user) {
            return Err(failed());
        }
        if self.served.sql.login_role(user).is_none() {
            return Err(failed());
        }
        Ok(false)
    }

    /// Sends what is there, and waits for the client's next step.
    fn ask(&mut self) -> Result<Vec<u8>, Failure> {
        self.transport.write(self.output.bytes())?;
        self.output.clear(0);
        let message = self.transport.read_message(Some(self.deadline))?;
        match decode(message.tag, self.transport.body(message))? {
            Message::Password(body) => Ok(body.to_vec()),
            Message::Terminate => Err(Failure::Gone(ErrorKind::UnexpectedEof.into())),
            _ => Err(ProtocolError::new(format!(
                "expected an answer to authentication, got message type {}",
                message.tag
            ))
            .into()),
        }
    }
}

/// Tells a client that there is no place for it. It may not have said a word yet, so this waits for its first message.
pub(crate) fn refuse(shared: &Arc<Shared>, transport: &mut Transport, failure: &Failure) {
    let deadline = Instant::now() + Duration::from_secs(1);
    if let Ok(Some(_)) = negotiate(shared, transport, deadline) {
        write_fatal(transport, failure);
    }
}
