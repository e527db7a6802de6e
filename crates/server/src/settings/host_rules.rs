//! The rules for logins: which clients may log in, by address and user, and their authentication methods.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::Settings;

/// A rule for connections from some addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostRule {
    /// An address, or a network as `10.0.0.0/8`; `all` is every one.
    pub address: String,
    /// The users it is for; none means all.
    #[serde(default)]
    pub users: Vec<String>,
    /// The authentication method of these users.
    pub method: Method,
}

/// An authentication method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// No authentication.
    Trust,
    /// A password, in an exchange that does not show it.
    Scram,
    /// A client certificate whose common name is the user's.
    Certificate,
    /// A refusal: the rule rejects connections.
    Reject,
}

impl Settings {
    /// The authentication method of a user at an address. `has_users`: true if any user was added to the
    /// database.
    pub(crate) fn method(&self, address: IpAddr, user: &str, has_users: bool) -> Method {
        let fits = |rule: &&HostRule| {
            Network::parse(&rule.address).is_some_and(|network| network.contains(address))
                && (rule.users.is_empty() || rule.users.iter().any(|name| name == user))
        };
        match self.hosts.iter().find(fits) {
            Some(rule) => rule.method,
            None if !self.hosts.is_empty() => Method::Reject,
            None if address.is_loopback() && !has_users => Method::Trust,
            None => Method::Scram,
        }
    }
}

/// Addresses that share their first bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Network {
    All,
    Of { address: IpAddr, bits: u32 },
}

impl Network {
    pub(super) fn parse(text: &str) -> Option<Network> {
        if text == "all" {
            return Some(Network::All);
        }
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u32>().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        (bits <= most).then_some(Network::Of { address, bits })
    }

    fn contains(self, other: IpAddr) -> bool {
        let Network::Of { address, bits } = self else { return true };
        match (address, other.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                let differing = ours.to_bits() ^ theirs.to_bits();
                differing.checked_shr(32 - bits).unwrap_or(0) == 0
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => {
                let differing = ours.to_bits() ^ theirs.to_bits();
                differing.checked_shr(128 - bits).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}
