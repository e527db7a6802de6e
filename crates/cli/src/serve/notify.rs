//! Tells systemd the state of the server: datagrams to the socket that `NOTIFY_SOCKET` names
//! (`sd_notify(3)`). Without the variable nothing is sent, and a failure to send changes nothing: the server
//! serves with or without systemd.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends a state such as `READY=1`.
pub fn notify(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&name),
    };
    let sent = address
        .and_then(|address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop));
    if let Err(error) = sent {
        tracing::warn!(%error, "cannot notify systemd");
    }
}
