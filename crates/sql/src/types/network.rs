//! `inet`, `cidr` and `macaddr`: their texts, their binary format, and addresses as numbers.
//!
//! A value is kept as bytes that compare as PostgreSQL compares the values, so that indexes, sorts and hashes need no more:
//!
//! ```text
//! inet, cidr   4 or 6 (the family) | the address with zeros after the mask | bits of the mask | the address
//! macaddr      6 bytes
//! ```
//!
//! Source: PostgreSQL 15, `network.c`, `inet_net_pton.c`, `inet_net_ntop.c`, `mac.c`.

use std::net::Ipv6Addr;

use crate::error::{Result, SqlError, SqlState};
use crate::types::text::invalid_syntax;
use crate::types::{Type, Value};

/// The bytes of the family of IPv4 in the binary format; IPv6 is the next.
const FAMILY_V4: u8 = 2;

/// An address with its mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// True if it is of IPv6.
    pub is_v6: bool,
    /// The bits of the mask.
    pub bits: u8,
    /// The address, in the low 32 bits if it is of IPv4.
    pub address: u128,
}

impl Network {
    /// The bits of an address of its family.
    pub fn width(self) -> u8 {
        if self.is_v6 { 128 } else { 32 }
    }

    /// The bits of the host, as ones.
    pub fn host_mask(self) -> u128 {
        let host = u32::from(self.width() - self.bits.min(self.width()));
        1_u128.checked_shl(host).map_or(u128::MAX, |bit| bit - 1)
    }

    /// All bits of an address, as ones.
    pub fn all_ones(self) -> u128 {
        if self.is_v6 { u128::MAX } else { u128::from(u32::MAX) }
    }

    /// Returns another address with the same mask.
    pub fn with_address(self, address: u128) -> Network {
        Network { address: address & self.all_ones(), ..self }
    }

    /// The address with zeros after the mask.
    pub fn network(self) -> Network {
        self.with_address(self.address & !self.host_mask())
    }

    /// Returns true if it is the other's network, or in it.
    pub fn is_in(self, other: Network) -> bool {
        self.is_v6 == other.is_v6
            && self.bits >= other.bits
            && (self.address ^ other.address) & !other.host_mask() & other.all_ones() == 0
    }

    fn octets(self) -> Vec<u8> {
        let bytes = self.address.to_be_bytes();
        bytes[16 - usize::from(self.width() / 8)..].to_vec()
    }

    /// Converts it to a value.
    pub fn value(self) -> Value {
        let mut bytes = vec![if self.is_v6 { 6 } else { 4 }];
        bytes.extend(self.network().octets());
        bytes.push(self.bits);
        bytes.extend(self.octets());
        Value::bytes(bytes)
    }

    /// Decodes the bytes of a value.
    pub fn of(bytes: &[u8]) -> Network {
        let is_v6 = bytes.first() == Some(&6);
        let octets = if is_v6 { 16 } else { 4 };
        let bits = bytes.get(1 + octets).copied().unwrap_or(0);
        let address = bytes.iter().rev().take(octets).rev();
        let address = address.fold(0, |address: u128, byte| address << 8 | u128::from(*byte));
        Network { is_v6, bits, address }
    }

    /// The address alone.
    pub fn host_text(self) -> String {
        if self.is_v6 { v6_text(self.address) } else { v4_text(&self.octets()) }
    }

    /// The text with the mask, also where that is a whole address's.
    pub fn full_text(self) -> String {
        format!("{}/{}", self.host_text(), self.bits)
    }
}

fn v4_text(octets: &[u8]) -> String {
    octets.iter().map(u8::to_string).collect::<Vec<_>>().join(".")
}

/// The longest run of zeros is left out. The last two groups after six of zeros are an address of IPv4.
fn v6_text(address: u128) -> String {
    let octets = address.to_be_bytes();
    if address >> 32 == 0 && address >> 16 != 0 {
        return format!("::{}", v4_text(&octets[12..]));
    }
    Ipv6Addr::from(address).to_string()
}

/// A text as an `inet` or a `cidr`.
///
/// # Errors
/// 22P02.
pub fn network_from_text(text: &str, is_cidr: bool) -> Result<Value> {
    let wrong = || invalid_syntax(if is_cidr { "cidr" } else { "inet" }, text);
    let is_v6 = text.contains(':');
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(mask_bits(bits, is_v6).ok_or_else(wrong)?)),
        None => (text, None),
    };
    let network = match is_v6 {
        true => {
            let address: Ipv6Addr = with_all_octets(address).parse().map_err(|_| wrong())?;
            Network { is_v6: true, bits: bits.unwrap_or(128), address: address.into() }
        }
        false => v4_from_text(address, bits, is_cidr).ok_or_else(wrong)?,
    };
    if network.bits > network.width() {
        return Err(wrong());
    }
    if is_cidr && network.network() != network {
        let message = format!("invalid cidr value: \"{text}\"");
        return Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
            .with_detail("Value has bits set to right of mask."));
    }
    Ok(network.value())
}

/// The number after the slash, which has no leading zeros in IPv6.
fn mask_bits(text: &str, is_v6: bool) -> Option<u8> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_padded = is_v6 && text.len() > 1 && text.starts_with('0');
    text.parse().ok().filter(|_| is_number && !is_padded)
}

/// An address of IPv6; the octets of IPv4 that it leaves out at its end are zero.
fn with_all_octets(address: &str) -> String {
    let octets = address.rsplit(':').next().unwrap_or_default();
    match octets.contains('.') {
        true => format!("{address}{}", ".0".repeat(3_usize.saturating_sub(octets.matches('.').count()))),
        false => address.to_string(),
    }
}

/// `0x0a01`: the digits of the octets, of which the last may be missing.
fn hexadecimal_octets(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let padded = if digits.len().is_multiple_of(2) { digits.to_string() } else { format!("{digits}0") };
    (0..padded.len()).step_by(2).map(|at| u8::from_str_radix(&padded[at..at + 2], 16).ok()).collect()
}

/// Octets that are left out at the end are zero, if the mask does not reach them. Without a mask an `inet` has all of them, and
/// a `cidr` the mask of its class, or of the octets that are there if they are more; its octets may be hexadecimal.
fn v4_from_text(text: &str, bits: Option<u8>, is_cidr: bool) -> Option<Network> {
    let octets = text.split('.').map(|octet| {
        let is_number = !octet.is_empty() && octet.bytes().all(|byte| byte.is_ascii_digit());
        octet.parse::<u8>().ok().filter(|_| is_number)
    });
    let octets: Vec<u8> = match octets.collect::<Option<_>>() {
        Some(octets) => octets,
        None if is_cidr => hexadecimal_octets(text)?,
        None => return None,
    };
    let given = octets.len();
    if given > 4 {
        return None;
    }
    let class = match octets[0] {
        240.. => 32,
        224.. => 8,
        192.. => 24,
        128.. => 16,
        _ => 8,
    };
    let bits = match bits {
        Some(bits) => bits,
        None if is_cidr && given == 1 && octets[0] == 224 => 4,
        None if is_cidr => class.max(given as u8 * 8),
        None if given == 4 => 32,
        None => return None,
    };
    if !is_cidr && usize::from(bits / 8) > given {
        return None;
    }
    let address =
        (0..4).fold(0, |address: u128, at| address << 8 | u128::from(*octets.get(at).unwrap_or(&0)));
    Some(Network { is_v6: false, bits, address })
}

/// A value of one of these types as text; none of another type.
pub fn text_of(kind: Type, bytes: &[u8]) -> Option<String> {
    Some(match kind {
        Type::Cidr => Network::of(bytes).full_text(),
        Type::Inet => {
            let network = Network::of(bytes);
            if network.bits == network.width() { network.host_text() } else { network.full_text() }
        }
        Type::Macaddr => bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":"),
        _ => return None,
    })
}

/// Appends a value of one of these types in the binary format. Returns true if it is one.
pub fn write_binary(kind: Type, bytes: &[u8], out: &mut Vec<u8>) -> bool {
    if !matches!(kind, Type::Inet | Type::Cidr) {
        return false;
    }
    let network = Network::of(bytes);
    let octets = network.octets();
    let family = FAMILY_V4 + u8::from(network.is_v6);
    out.extend([family, network.bits, u8::from(kind == Type::Cidr), octets.len() as u8]);
    out.extend(octets);
    true
}

/// The binary format of an `inet` or a `cidr`.
///
/// # Errors
/// 22P03.
pub fn read_binary(kind: Type, bytes: &[u8]) -> Result<Value> {
    let wrong = |what: &str| {
        let message = format!("invalid {what} in external \"{}\" value", kind.display_name());
        SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, message)
    };
    let [family, bits, _, length, octets @ ..] = bytes else { return Err(wrong("length")) };
    let is_v6 = match family.checked_sub(FAMILY_V4) {
        Some(0) => false,
        Some(1) => true,
        _ => return Err(wrong("address family")),
    };
    let address = octets.iter().fold(0, |address: u128, byte| address << 8 | u128::from(*byte));
    let network = Network { is_v6, bits: *bits, address };
    if *bits > network.width() {
        return Err(wrong("bits"));
    }
    if usize::from(*length) != octets.len() || octets.len() != usize::from(network.width() / 8) {
        return Err(wrong("length"));
    }
    if kind == Type::Cidr && network.network() != network {
        return Err(wrong("value: bits set to right of mask"));
    }
    Ok(network.value())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str, is_cidr: bool) -> Vec<u8> {
        network_from_text(text, is_cidr).unwrap_or_else(|error| panic!("{text}: {error}")).as_bytes().to_vec()
    }

    #[test]
    fn texts_are_read_and_printed_as_postgresql_does() {
        for (text, printed) in [
            ("1.2.3.4", "1.2.3.4"),
            ("10/8", "10.0.0.0/8"),
            ("10.1.2.3/8", "10.1.2.3/8"),
            ("01.2.3.4/08", "1.2.3.4/8"),
            ("::5", "::5"),
            ("::", "::"),
            ("::1.2.3.4", "::1.2.3.4"),
            ("::ffff:1.2.3.4", "::ffff:1.2.3.4"),
            ("1:0:0:2::", "1:0:0:2::"),
            ("0:0:1::", "0:0:1::"),
            ("fe80::1/64", "fe80::1/64"),
            ("1:0:2:0:0:3:0:0", "1:0:2::3:0:0"),
            ("::1:0:0", "::1:0:0"),
        ] {
            assert_eq!(text_of(Type::Inet, &bytes(text, false)).as_deref(), Some(printed), "{text}");
        }
        for (text, printed) in [
            ("10", "10.0.0.0/8"),
            ("10.1", "10.1.0.0/16"),
            ("192.168.1", "192.168.1.0/24"),
            ("224", "224.0.0.0/4"),
            ("225", "225.0.0.0/8"),
            ("239", "239.0.0.0/8"),
            ("224.1", "224.1.0.0/16"),
            ("0x0a", "10.0.0.0/8"),
            ("0x12345/24", "18.52.80.0/24"),
            ("::ffff:1.2.3/128", "::ffff:1.2.3.0/128"),
            ("240.1", "240.1.0.0/32"),
            ("10/24", "10.0.0.0/24"),
            ("fe80::/10", "fe80::/10"),
        ] {
            assert_eq!(text_of(Type::Cidr, &bytes(text, true)).as_deref(), Some(printed), "{text}");
        }
        for text in [
            "1.2.3.4/33",
            "1.2.3",
            " 1.2.3.4",
            "1.2.3.4.5",
            "",
            "fe80::1%eth0",
            "1.2.3.4/",
            "::/129",
            "::/064",
            "0x0a/8",
            "::1.2.3.4.5",
            "1.2.3.400",
        ] {
            assert!(network_from_text(text, false).is_err(), "{text}");
        }
        assert!(network_from_text("1.2.3.4/24", true).is_err());
    }

    #[test]
    fn bytes_compare_as_the_values_do_and_come_back() {
        let ordered = [
            "0.0.0.0/0",
            "10.0.0.0/8",
            "10.0.0.1/8",
            "10.0.0.0/9",
            "10.0.0.0",
            "10.0.0.1",
            "11.0.0.0/8",
            "::/0",
            "::1",
            "ffff::/16",
        ];
        for pair in ordered.windows(2) {
            assert!(bytes(pair[0], false) < bytes(pair[1], false), "{pair:?}");
        }
        for text in ordered {
            let (kept, mut sent) = (bytes(text, false), Vec::new());
            assert!(write_binary(Type::Inet, &kept, &mut sent));
            assert_eq!(read_binary(Type::Inet, &sent).expect("it was written").as_bytes(), kept);
            assert!(read_binary(Type::Inet, &sent[1..]).is_err());
        }
    }
}
