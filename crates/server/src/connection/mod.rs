//! One connection, from its first byte to its last, on a thread of its own.
//!
//! - `startup`: encryption, cancel requests, authentication.
//! - `session`: the loop over messages, and what ends it; when a pipeline is executed again.
//! - `backend`: the SQL session and the answers that wait to be written.
//! - `extended`: Parse, Bind, Describe, Close.
//! - `results`: what statements give, as messages.
//! - `failure`, `report`: what a client receives of an error.

mod backend;
mod extended;
pub(crate) mod failure;
mod report;
mod results;
mod session;
mod startup;

use std::net::IpAddr;
use std::sync::Arc;

use self::failure::{Failure, write_fatal};
use self::session::Session;
pub(crate) use self::startup::refuse;
use crate::registry::Admitted;
use crate::server::Shared;
use crate::transport::Transport;

/// Serves a client until it leaves or has to go. `admitted`: its places among all connections, and among those that
/// are not authenticated.
pub(crate) fn run(
    shared: &Arc<Shared>,
    mut transport: Transport,
    address: IpAddr,
    admitted: (Admitted, Admitted),
) {
    let (_place, unauthenticated) = admitted;
    let failure = match startup::begin(shared, &mut transport, address) {
        Ok(None) => return,
        Err(failure) => failure,
        Ok(Some(user)) => {
            drop(unauthenticated);
            transport.set_max_message_bytes(shared.current().settings.max_message_bytes);
            match Session::begin(shared, &mut transport, &user).and_then(Session::run) {
                Ok(()) => return,
                Err(failure) => failure,
            }
        }
    };
    match &failure {
        Failure::Gone(error) => tracing::debug!(%address, %error, "the client has left"),
        ended => tracing::info!(%address, reason = %ended, "connection ended"),
    }
    write_fatal(&mut transport, &failure);
}
