//! The server's connections: enforces the connection limits, and routes a cancel request to its connection.
//!
//! # Concurrency
//! One mutex, held only for a lookup or an update. A connection is removed when its [`Registered`] is dropped, even if
//! its thread panics.

use std::collections::HashMap;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use subtle::ConstantTimeEq;

use crate::transport::Waker;

/// The length of the secret key in a cancel request, in bytes: 4 in protocol 3.0.
const KEY_BYTES: usize = 4;

/// Functions that cancel the statement in progress of a connection.
pub(crate) struct Cancels {
    /// Cancels it on request.
    pub(crate) request: Box<dyn Fn() + Send + Sync>,
    /// Cancels it because the client has left.
    pub(crate) leaving: Box<dyn Fn() + Send + Sync>,
}

/// A connection's state that other threads need to wake, cancel or close it.
pub(crate) struct Peer {
    pub(crate) process: u32,
    pub(crate) key: [u8; KEY_BYTES],
    pub(crate) waker: Waker,
    /// Functions that cancel the statement in progress.
    pub(crate) cancels: Cancels,
    /// Set when the server shuts down or another session terminates this one: the connection closes when it is idle.
    pub(crate) is_ending: AtomicBool,
    socket: TcpStream,
}

impl Peer {
    /// Asks the connection to close as soon as it is idle.
    pub(crate) fn end(&self) {
        // Release: pairs with the acquire load of the connection's thread, which then sees why it is to close.
        self.is_ending.store(true, Ordering::Release);
        self.waker.wake();
    }
}

/// All connections, and their number.
pub(crate) struct Registry {
    peers: Mutex<HashMap<u32, Arc<Peer>>>,
    left: Condvar,
    next_process: AtomicUsize,
    connections: AtomicUsize,
    unauthenticated: AtomicUsize,
}

impl Registry {
    pub(crate) fn new() -> Arc<Registry> {
        Arc::new(Registry {
            peers: Mutex::default(),
            left: Condvar::new(),
            next_process: AtomicUsize::new(1),
            connections: AtomicUsize::new(0),
            unauthenticated: AtomicUsize::new(0),
        })
    }

    /// Reserves a slot of this kind, or returns `None` if `limit` of them are in use.
    pub(crate) fn admit(self: &Arc<Self>, kind: ConnectionKind, limit: usize) -> Option<Admitted> {
        let count = self.count(kind);
        // Relaxed: the count guards no other data.
        let admitted = count
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| (count < limit).then_some(count + 1));
        admitted.is_ok().then(|| Admitted { registry: self.clone(), kind })
    }

    fn count(&self, kind: ConnectionKind) -> &AtomicUsize {
        match kind {
            ConnectionKind::Connection => &self.connections,
            ConnectionKind::Unauthenticated => &self.unauthenticated,
        }
    }

    /// The number of connections.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Registers an authenticated connection, and assigns its process ID.
    pub(crate) fn register(
        self: &Arc<Self>,
        key: [u8; KEY_BYTES],
        waker: Waker,
        socket: TcpStream,
        cancels: Cancels,
    ) -> Registered {
        let mut peers = self.peers.lock();
        let process = loop {
            // Relaxed: the numbers must only be distinct, and the mutex is held. Clients read them as signed, hence
            // the mask.
            let number = self.next_process.fetch_add(1, Ordering::Relaxed) as u32 & 0x7fff_ffff;
            if number > 0 && !peers.contains_key(&number) {
                break number;
            }
        };
        let peer = Arc::new(Peer { process, key, waker, cancels, is_ending: AtomicBool::new(false), socket });
        peers.insert(process, peer.clone());
        Registered { registry: self.clone(), peer }
    }

    /// Cancels the statement of the connection with this process ID, if the key matches. Returns whether it did.
    pub(crate) fn cancel(&self, process: u32, key: &[u8]) -> bool {
        let peer = self.peers.lock().get(&process).cloned();
        let peer = peer.filter(|peer| bool::from(peer.key.ct_eq(key)));
        peer.inspect(|peer| (peer.cancels.request)()).is_some()
    }

    /// Ends the statements of clients that have left: their ends of the connections are closed.
    pub(crate) fn end_abandoned(&self) {
        let peers = self.peers();
        let mut events: Vec<PollFd<'_>> = peers
            .iter()
            .map(|peer| PollFd::from_borrowed_fd(peer.socket.as_fd(), PollFlags::RDHUP))
            .collect();
        // An error says no more than that no event was seen.
        if events.is_empty() || poll(&mut events, Some(&Timespec::default())).is_err() {
            return;
        }
        let left = peers.iter().zip(&events).filter(|(_, event)| !event.revents().is_empty());
        left.for_each(|(peer, _)| (peer.cancels.leaving)());
    }

    /// The registered connections.
    pub(crate) fn peers(&self) -> Vec<Arc<Peer>> {
        self.peers.lock().values().cloned().collect()
    }

    /// Asks all connections to close when they are idle, and waits for at most `timeout`. The statements of those that
    /// remain are canceled; after one more second, their sockets are shut down.
    pub(crate) fn drain(&self, timeout: std::time::Duration) {
        self.peers().iter().for_each(|peer| peer.end());
        let grace = std::time::Duration::from_secs(1);
        if self.wait_until_empty(timeout) {
            return;
        }
        self.peers().iter().for_each(|peer| (peer.cancels.request)());
        if self.wait_until_empty(grace) {
            return;
        }
        for peer in self.peers() {
            // An error means that the socket is closed already.
            let _ = peer.socket.shutdown(Shutdown::Both);
        }
        self.wait_until_empty(grace);
    }

    fn wait_until_empty(&self, timeout: std::time::Duration) -> bool {
        let mut peers = self.peers.lock();
        self.left.wait_while_for(&mut peers, |peers| !peers.is_empty(), timeout);
        peers.is_empty()
    }
}

/// The two kinds of slots, each with a limit of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionKind {
    Connection,
    Unauthenticated,
}

/// A slot that is in use until this guard is dropped.
pub(crate) struct Admitted {
    registry: Arc<Registry>,
    kind: ConnectionKind,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.registry.count(self.kind).fetch_sub(1, Ordering::Relaxed);
    }
}

/// A registered connection, which is removed from the registry when this guard is dropped.
pub(crate) struct Registered {
    registry: Arc<Registry>,
    pub(crate) peer: Arc<Peer>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.registry.peers.lock().remove(&self.peer.process);
        self.registry.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Duration;

    use super::*;
    use crate::transport::Transport;

    fn transport() -> Transport {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let client = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
        drop(listener.accept());
        Transport::new(client, 1 << 13).expect("descriptors are free")
    }

    fn register(registry: &Arc<Registry>, cancelled: &Arc<AtomicBool>) -> Registered {
        let transport = transport();
        let socket = transport.second_handle().expect("a descriptor");
        let cancelled = cancelled.clone();
        let cancel = move || cancelled.store(true, Ordering::Relaxed);
        let cancels = Cancels { request: Box::new(cancel), leaving: Box::new(|| ()) };
        registry.register([1, 2, 3, 4], transport.waker(), socket, cancels)
    }

    #[test]
    fn a_cancel_request_needs_the_number_and_the_key() {
        let (registry, cancelled) = (Registry::new(), Arc::new(AtomicBool::new(false)));
        let registered = register(&registry, &cancelled);
        let process = registered.peer.process;
        assert!(!registry.cancel(process, &[1, 2, 3, 5]) && !registry.cancel(process, &[1, 2, 3]));
        assert!(!registry.cancel(process + 1, &[1, 2, 3, 4]) && !cancelled.load(Ordering::Relaxed));
        assert!(registry.cancel(process, &[1, 2, 3, 4]) && cancelled.load(Ordering::Relaxed));
        drop(registered);
        assert!(!registry.cancel(process, &[1, 2, 3, 4]));
    }

    #[test]
    fn places_are_limited_and_come_back() {
        let registry = Registry::new();
        let first = registry.admit(ConnectionKind::Connection, 2).expect("one of two");
        let second = registry.admit(ConnectionKind::Connection, 2).expect("two of two");
        assert!(registry.admit(ConnectionKind::Connection, 2).is_none());
        assert!(registry.admit(ConnectionKind::Unauthenticated, 1).is_some(), "counted apart");
        drop(first);
        assert_eq!(registry.connections(), 1);
        assert!(registry.admit(ConnectionKind::Connection, 2).is_some());
        drop(second);
    }

    #[test]
    fn a_drain_asks_cancels_and_ends() {
        let (registry, cancelled) = (Registry::new(), Arc::new(AtomicBool::new(false)));
        let stubborn = register(&registry, &cancelled);
        registry.drain(Duration::ZERO);
        assert!(stubborn.peer.is_ending.load(Ordering::Acquire) && cancelled.load(Ordering::Relaxed));
        assert_eq!(registry.peers().len(), 1, "its thread has not ended");
    }
}
