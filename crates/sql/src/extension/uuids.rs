//! `uuid-ossp`: identifiers by time, by name and by chance.
//!
//! Source: RFC 4122; PostgreSQL 15, `contrib/uuid-ossp`.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use md5::{Digest, Md5};
use sha1::Sha1;

use super::digests::random;
use crate::error::Result;
use crate::functions::definition::{Definition, FunctionContext, scalar};
use crate::types::Value;

/// The table.
pub(super) const FUNCTIONS: &[Definition] = &[
    scalar("uuid_nil() uuid", |_, _| Ok(Value::Uuid([0; 16]))),
    scalar("uuid_ns_dns() uuid", |_, _| Ok(name_space(0))),
    scalar("uuid_ns_url() uuid", |_, _| Ok(name_space(1))),
    scalar("uuid_ns_oid() uuid", |_, _| Ok(name_space(2))),
    scalar("uuid_ns_x500() uuid", |_, _| Ok(name_space(4))),
    scalar("uuid_generate_v1() uuid", by_time).volatile(),
    scalar("uuid_generate_v1mc() uuid", by_time).volatile(),
    scalar("uuid_generate_v3(namespace uuid, name text) uuid", |_, v| Ok(by_name::<Md5>(v, 3))),
    scalar("uuid_generate_v4() uuid", by_chance).volatile(),
    scalar("uuid_generate_v5(namespace uuid, name text) uuid", |_, v| Ok(by_name::<Sha1>(v, 5))),
];

/// Hundreds of nanoseconds from the beginning of the Gregorian calendar to 2000-01-01.
const TICKS_TO_2000: u64 = 0x01b2_1dd2_1381_4000 + 946_684_800 * 10_000_000;

/// A name space of RFC 4122, Appendix C: they differ in one digit.
fn name_space(number: u8) -> Value {
    let mut bytes = *b"\x6b\xa7\xb8\x10\x9d\xad\x11\xd1\x80\xb4\x00\xc0\x4f\xd4\x30\xc8";
    bytes[3] += number;
    Value::Uuid(bytes)
}

/// Sets version and variant.
fn finished(mut bytes: [u8; 16], version: u8) -> Value {
    bytes[6] = bytes[6] & 0x0f | version << 4;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Value::Uuid(bytes)
}

fn by_name<D: Digest>(v: &[Value], version: u8) -> Value {
    let digest = D::new().chain_update(v[0].uuid()).chain_update(v[1].str().as_bytes()).finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    finished(bytes, version)
}

fn by_chance(_: &mut FunctionContext<'_>, _: &[Value]) -> Result<Value> {
    let mut bytes = [0; 16];
    random(&mut bytes)?;
    Ok(finished(bytes, 4))
}

/// Clock sequence and node of this process: by chance, marked as no address of a network card.
static NODE: LazyLock<[u8; 8]> = LazyLock::new(|| {
    let mut node = [0; 8];
    // Without randomness identifiers are still unique in this process.
    let _ = random(&mut node);
    node[2] |= 1;
    node
});

fn by_time(context: &mut FunctionContext<'_>, _: &[Value]) -> Result<Value> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let micros = context.environment.clock().cast_unsigned();
    let now = TICKS_TO_2000.wrapping_add(micros.wrapping_mul(10));
    // Relaxed: the number carries no data, and no two threads get the same one.
    let next = |last: u64| Some(now.max(last + 1));
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or(now);
    let ticks = now.max(last + 1);
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&(ticks as u32).to_be_bytes());
    bytes[4..6].copy_from_slice(&((ticks >> 32) as u16).to_be_bytes());
    bytes[6..8].copy_from_slice(&((ticks >> 48) as u16).to_be_bytes());
    bytes[8..].copy_from_slice(&*NODE);
    Ok(finished(bytes, 1))
}
