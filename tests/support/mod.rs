//! Helpers of the integration tests; each program uses a part of them.

pub mod concurrent;
pub mod forge;
pub mod logged;
pub mod split;
pub mod tables;
