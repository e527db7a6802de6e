//! Serves HeddleDB to PostgreSQL clients.
//!
//! - `wire`: the protocol's messages as bytes.
//! - `transport`: a client's socket, with or without TLS.
//! - `scram`, `users`, `tls`: how a client proves to be a user.
//! - `settings`: the configuration of a server.
//! - `registry`: all connections; cancel requests; the end of the server.
//! - `connection`: one connection, from its first byte to its last.
//! - `server`: the listener and the threads.
//! - `http`: metrics, health and the live page.

mod connection;
mod http;
mod registry;
mod scram;
pub mod server;
pub mod settings;
mod tls;
mod transport;
pub mod users;
mod watch;
mod wire;
