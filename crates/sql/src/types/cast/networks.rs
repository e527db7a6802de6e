//! Casts of `inet` and `cidr`.

use super::CastContext::{Assignment, Implicit};
use super::{CastEntry, entry, relabel};
use crate::types::network::Network;
use crate::types::{Type, Value};

/// The table. As text an address always has its mask, other than where it is printed.
pub(super) const CASTS: &[CastEntry] = &[
    relabel(Type::Cidr, Type::Inet, Implicit, |_, v| Ok(v.clone())),
    entry(Type::Inet, Type::Cidr, Assignment, |_, v| Ok(Network::of(v.as_bytes()).network().value())),
    entry(Type::Inet, Type::Text, Assignment, |_, v| Ok(Value::text(full(v)))),
    entry(Type::Inet, Type::Varchar, Assignment, |_, v| Ok(Value::text(full(v)))),
    entry(Type::Inet, Type::Bpchar, Assignment, |_, v| Ok(Value::Bpchar(full(v).into()))),
    entry(Type::Cidr, Type::Text, Assignment, |_, v| Ok(Value::text(full(v)))),
    entry(Type::Cidr, Type::Varchar, Assignment, |_, v| Ok(Value::text(full(v)))),
    entry(Type::Cidr, Type::Bpchar, Assignment, |_, v| Ok(Value::Bpchar(full(v).into()))),
];

fn full(value: &Value) -> String {
    Network::of(value.as_bytes()).full_text()
}
