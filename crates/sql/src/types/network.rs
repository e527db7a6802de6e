//! `inet`, `cidr` and `macaddr`: their texts, their binary format, and addresses as numbers.
//!
//! A value is kept as bytes that compare as PostgreSQL compares the values, so that indexes, sorts and hashes need no more:
//!
//! ```text
//! inet, cidr   4 or 6 (the family) | the address with zeros behind the mask | bits of the mask | the address
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
    /// Whether it is of IPv6.
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

    /// The same mask with another address.
    pub fn with_address(self, address: u128) -> Network {
        Network { address: address & self.all_ones(), ..self }
    }

    /// With zeros behind the mask.
    pub fn network(self) -> Network {
        self.with_address(self.address & !self.host_mask())
    }

    /// Whether it is the other's network, or in it.
    pub fn is_in(self, other: Network) -> bool {
        self.is_v6 == other.is_v6
            && self.bits >= other.bits
            && (self.address ^ other.address) & !other.host_mask() & other.all_ones() == 0
    }

    fn octets(self) -> Vec<u8> {
        let bytes = self.address.to_be_bytes();
        bytes[16 - usize::from(self.width() / 8)..].to_vec()
    }

    /// As a value.
    pub fn value(self) -> Value {
        let mut bytes = vec![if self.is_v6 { 6 } else { 4 }];
        bytes.extend(self.network().octets());
        bytes.push(self.bits);
        bytes.extend(self.octets());
        Value::bytes(bytes)
    }

    /// Of the bytes of a value.
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

    /// With the mask, also where that is a whole address's.
    pub fn full_text(self) -> String {
        format!("{}/{}", self.host_text(), self.bits)
    }
}

fn v4_text(octets: &[u8]) -> String {
    octets.iter().map(u8::to_string).collect::<Vec<_>>().join(".")
}

/// The longest run of zeros is left out. The last two groups behind six of zeros are an address of IPv4.
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
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(mask_bits(bits).ok_or_else(wrong)?)),
        None => (text, None),
    };
    let network = match text.contains(':') {
        true => {
            let address: Ipv6Addr = address.parse().map_err(|_| wrong())?;
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

fn mask_bits(text: &str) -> Option<u8> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// Octets that are left out at the end are zero, if the mask does not reach them. Without a mask an `inet` has all of them, and
/// a `cidr` the mask of its class, or of the octets that are there if they are more.
fn v4_from_text(text: &str, bits: Option<u8>, is_cidr: bool) -> Option<Network> {
    let octets = text.split('.').map(|octet| {
        let is_number = !octet.is_empty() && octet.bytes().all(|byte| byte.is_ascii_digit());
        octet.parse::<u8>().ok().filter(|_| is_number)
    });
    let octets: Vec<u8> = octets.collect::<Option<_>>()?;
    let given = octets.len();
    if given > 4 {
        return None;
    }
    let class = match octets[0] {
        240.. => 32,
        224.. => 4,
        192.. => 24,
        128.. => 16,
        _ => 8,
    };
    let bits = match bits {
        Some(bits) => bits,
        None if is_cidr && given == 1 => class,
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

/// Appends a value of one of these types in the binary format. Whether it is one.
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

/// A text as a `macaddr`: six bytes with colons, dashes or points between some of them, or none.
///
/// # Errors
/// 22P02; 22003 for a byte of more than two digits.
pub fn mac_from_text(text: &str) -> Result<Value> {
    let wrong = || invalid_syntax("macaddr", text);
    let trimmed = text.trim();
    let separated = |by: char| trimmed.split(by).collect::<Vec<_>>();
    let is_digits = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parts = [separated(':'), separated('-'), separated('.')].into_iter().max_by_key(Vec::len);
    let parts = parts.filter(|parts| parts.iter().all(is_digits)).ok_or_else(wrong)?;
    let joined = parts.concat();
    let bytes: Vec<String> = match (parts.len(), parts[0].len()) {
        (6, _) => parts.iter().map(|part| part.to_string()).collect(),
        (1, 12) | (2, 6) | (3, 4)
            if joined.len() == 12 && parts.iter().all(|it| it.len() == parts[0].len()) =>
        {
            (0..6).map(|at| joined[2 * at..2 * at + 2].to_string()).collect()
        }
        _ => return Err(wrong()),
    };
    let bytes = bytes.iter().map(|byte| u8::from_str_radix(byte, 16).ok()).collect::<Option<Vec<u8>>>();
    bytes.map(Value::bytes).ok_or_else(|| {
        let message = format!("invalid octet value in \"macaddr\" value: \"{text}\"");
        SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
    })
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

    #[test]
    fn hardware_addresses_have_many_spellings() {
        for text in [
            "08:00:2b:01:02:03",
            "8:0:2b:1:2:3",
            "08002b-010203",
            "0800.2b01.0203",
            "08-00-2B-01-02-03",
            "08002b010203",
        ] {
            let value = mac_from_text(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(text_of(Type::Macaddr, value.as_bytes()).as_deref(), Some("08:00:2b:01:02:03"));
        }
        for text in ["8:0:2b", "8:0:2b:1:2:300", "zz:0:2b:1:2:3", "", "08002b01020", "0800-2b01:0203"] {
            assert!(mac_from_text(text).is_err(), "{text}");
        }
    }
}
