//! Functions and operators of `inet`, `cidr` and `macaddr`.
//!
//! Source: PostgreSQL 15, `network.c` and `mac.c`.

use super::definition::{Definition, scalar};
use crate::error::{Result, SqlError, SqlState};
use crate::types::Value;
use crate::types::network::Network;

/// The functions.
pub(super) const FUNCTIONS: &[Definition] = &[
    scalar("host(inet) text", |_, v| Ok(Value::text(network(&v[0]).host_text()))),
    scalar("text(inet) text", |_, v| Ok(Value::text(network(&v[0]).full_text()))),
    scalar("abbrev(inet) text", |_, v| {
        let network = network(&v[0]);
        let is_whole = network.bits == network.width();
        Ok(Value::text(if is_whole { network.host_text() } else { network.full_text() }))
    }),
    scalar("abbrev(cidr) text", |_, v| Ok(Value::text(abbreviated(network(&v[0]))))),
    scalar("family(inet) int4", |_, v| Ok(Value::Int4(if network(&v[0]).is_v6 { 6 } else { 4 }))),
    scalar("masklen(inet) int4", |_, v| Ok(Value::Int4(i32::from(network(&v[0]).bits)))),
    scalar("network(inet) cidr", |_, v| Ok(network(&v[0]).network().value())),
    scalar("broadcast(inet) inet", |_, v| {
        let network = network(&v[0]);
        Ok(network.with_address(network.address | network.host_mask()).value())
    }),
    scalar("netmask(inet) inet", |_, v| Ok(whole(network(&v[0]), !network(&v[0]).host_mask()))),
    scalar("hostmask(inet) inet", |_, v| Ok(whole(network(&v[0]), network(&v[0]).host_mask()))),
    scalar("set_masklen(inet, int4) inet", |_, v| masked(v).map(Network::value)),
    scalar("set_masklen(cidr, int4) cidr", |_, v| Ok(masked(v)?.network().value())),
    scalar("inet_same_family(inet, inet) bool", |_, v| {
        Ok(Value::Bool(network(&v[0]).is_v6 == network(&v[1]).is_v6))
    }),
    scalar("inet_merge(inet, inet) cidr", merge),
    scalar("trunc(macaddr) macaddr", |_, v| {
        let bytes = v[0].as_bytes().iter().enumerate();
        Ok(Value::bytes(bytes.map(|(at, byte)| if at < 3 { *byte } else { 0 }).collect::<Vec<u8>>()))
    }),
];

/// The operators.
pub(super) const OPERATORS: &[Definition] = &[
    scalar("<<(inet, inet) bool", |_, v| Ok(Value::Bool(is_below(&v[0], &v[1], true)))),
    scalar("<<=(inet, inet) bool", |_, v| Ok(Value::Bool(is_below(&v[0], &v[1], false)))),
    scalar(">>(inet, inet) bool", |_, v| Ok(Value::Bool(is_below(&v[1], &v[0], true)))),
    scalar(">>=(inet, inet) bool", |_, v| Ok(Value::Bool(is_below(&v[1], &v[0], false)))),
    scalar("&&(inet, inet) bool", |_, v| {
        Ok(Value::Bool(is_below(&v[0], &v[1], false) || is_below(&v[1], &v[0], false)))
    }),
    scalar("~(inet) inet", |_, v| {
        let network = network(&v[0]);
        Ok(network.with_address(!network.address).value())
    }),
    scalar("&(inet, inet) inet", |_, v| {
        let (left, right) = (network(&v[0]), same_family(v, "AND")?);
        Ok(combined(left, right, left.address & right.address))
    }),
    scalar("|(inet, inet) inet", |_, v| {
        let (left, right) = (network(&v[0]), same_family(v, "OR")?);
        Ok(combined(left, right, left.address | right.address))
    }),
    scalar("+(inet, int8) inet", |_, v| moved(&v[0], i128::from(v[1].int8()))),
    scalar("+(int8, inet) inet", |_, v| moved(&v[1], i128::from(v[0].int8()))),
    // The least `bigint` is its own opposite, as in PostgreSQL.
    scalar("-(inet, int8) inet", |_, v| moved(&v[0], i128::from(v[1].int8().wrapping_neg()))),
    scalar("-(inet, inet) int8", |_, v| {
        let (left, right) = (network(&v[0]), same_family(v, "subtract")?);
        let distance = left.address.wrapping_sub(right.address).cast_signed();
        i64::try_from(distance).map(Value::Int8).map_err(|_| out_of_range())
    }),
    scalar("~(macaddr) macaddr", |_, v| {
        Ok(Value::bytes(v[0].as_bytes().iter().map(|byte| !byte).collect::<Vec<u8>>()))
    }),
    scalar("&(macaddr, macaddr) macaddr", |_, v| Ok(by_byte(v, |left, right| left & right))),
    scalar("|(macaddr, macaddr) macaddr", |_, v| Ok(by_byte(v, |left, right| left | right))),
];

fn network(value: &Value) -> Network {
    Network::of(value.as_bytes())
}

fn out_of_range() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "result is out of range")
}

/// An address of the same family with a whole mask.
fn whole(like: Network, address: u128) -> Value {
    Network { bits: like.width(), ..like.with_address(address) }.value()
}

fn is_below(part: &Value, of: &Value, strictly: bool) -> bool {
    let (part, of) = (network(part), network(of));
    part.is_in(of) && !(strictly && part.bits == of.bits)
}

fn masked(values: &[Value]) -> Result<Network> {
    let (network, bits) = (network(&values[0]), values[1].int4());
    let bits = if bits == -1 { Some(network.width()) } else { u8::try_from(bits).ok() };
    match bits.filter(|bits| *bits <= network.width()) {
        Some(bits) => Ok(Network { bits, ..network }),
        None => {
            let message = format!("invalid mask length: {}", values[1].int4());
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
    }
}

/// The second network, if it is of the first one's family.
fn same_family(values: &[Value], verb: &str) -> Result<Network> {
    let (left, right) = (network(&values[0]), network(&values[1]));
    if left.is_v6 == right.is_v6 {
        return Ok(right);
    }
    let message = format!("cannot {verb} inet values of different sizes");
    Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
}

fn combined(left: Network, right: Network, address: u128) -> Value {
    Network { bits: left.bits.max(right.bits), ..left.with_address(address) }.value()
}

fn moved(value: &Value, by: i128) -> Result<Value> {
    let network = network(value);
    let address = network.address.checked_add_signed(by).filter(|address| *address <= network.all_ones());
    address.map(|address| network.with_address(address).value()).ok_or_else(out_of_range)
}

/// The smallest network with both.
fn merge(_: &mut super::FunctionContext<'_>, values: &[Value]) -> Result<Value> {
    let (left, right) = (network(&values[0]), network(&values[1]));
    if left.is_v6 != right.is_v6 {
        let message = "cannot merge addresses from different families";
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    let unused = 128 - u32::from(left.width());
    let common = ((left.address ^ right.address).leading_zeros() - unused) as u8;
    Ok(Network { bits: left.bits.min(right.bits).min(common), ..left }.network().value())
}

/// The address without the parts that the mask does not reach: octets of IPv4, groups of IPv6.
fn abbreviated(network: Network) -> String {
    if network.is_v6 {
        return format!("{}/{}", abbreviated_v6(network), network.bits);
    }
    let text = network.host_text();
    let octets: Vec<&str> = text.split('.').collect();
    let reached = usize::from(network.bits.div_ceil(8)).max(1);
    format!("{}/{}", octets[..reached.min(octets.len())].join("."), network.bits)
}

fn abbreviated_v6(network: Network) -> String {
    let groups = std::net::Ipv6Addr::from(network.network().address).segments();
    let shown = match usize::from(network.bits.div_ceil(16)) {
        0 => return "::".to_string(),
        // PostgreSQL shows two at least.
        count => count.max(2),
    };
    let (start, length) = longest_zeros(&groups[..shown]);
    let octets = groups.map(u16::to_be_bytes);
    // PostgreSQL's conditions, as they are.
    let is_mapped = length == 5 && groups[5] == 0xffff;
    let is_v4 = length != shown
        && start == 0
        && (length == 6 || is_mapped || length == 7 && octets[7][0] != 0 && octets[7][1] != 1);
    let mut text = String::new();
    for (at, group) in groups[..shown].iter().enumerate() {
        if (start..start + length).contains(&at) {
            text += if at == start { ":" } else { "" };
            text += if at + 1 == shown { ":" } else { "" };
        } else if is_v4 && at > 5 {
            text += if at == 6 { ":" } else { "." };
            text += &octets[at][0].to_string();
            if at != 7 || network.bits > 120 {
                text += &format!(".{}", octets[at][1]);
            }
        } else {
            text += if text.is_empty() { "" } else { ":" };
            text += &format!("{group:x}");
        }
    }
    text
}

/// Start and length of the longest run of zeros. A run that is not longer than one before it is counted into the next
/// one, as in PostgreSQL.
fn longest_zeros(groups: &[u16]) -> (usize, usize) {
    let (mut longest, mut run) = ((0, 0), (0, 0));
    for (at, group) in groups.iter().enumerate() {
        if *group == 0 {
            run = if run.1 == 0 { (at, 1) } else { (run.0, run.1 + 1) };
        } else if longest.1 < run.1 {
            (longest, run.1) = (run, 0);
        }
    }
    if longest.1 < run.1 { run } else { longest }
}

fn by_byte(values: &[Value], combine: fn(u8, u8) -> u8) -> Value {
    let pairs = values[0].as_bytes().iter().zip(values[1].as_bytes());
    Value::bytes(pairs.map(|(left, right)| combine(*left, *right)).collect::<Vec<u8>>())
}
