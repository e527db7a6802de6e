//! Change feeds, seen from outside: what they give, in which order, from where on, and what they hold back.

mod bounds;
mod changes;
mod copies;
mod copy;
mod crashes;
mod named;
mod order;
mod schema;
