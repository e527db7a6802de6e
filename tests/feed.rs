//! Change feeds, seen from outside: what they give, in which order, from where on, and what they hold back.

#[path = "feed/bounds.rs"]
mod bounds;
#[path = "feed/changes.rs"]
mod changes;
#[path = "support/concurrent.rs"]
mod concurrent;
#[path = "feed/copies.rs"]
mod copies;
#[path = "feed/copy.rs"]
mod copy;
#[path = "feed/crashes.rs"]
mod crashes;
#[path = "feed/named.rs"]
mod named;
#[path = "feed/order.rs"]
mod order;
#[path = "feed/schema.rs"]
mod schema;
