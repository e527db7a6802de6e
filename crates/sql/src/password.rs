//! Passwords: their stored form, by which a client can prove that it knows one without showing it.
//!
//! # Invariants
//! A password is never stored, logged or printed; its verifier is.
//!
//! Source: RFC 5802, RFC 7677; the verifier's text is PostgreSQL's.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// The iterations of the hash for new passwords, PostgreSQL's number.
pub const ITERATIONS: u32 = 4_096;

/// The mechanism's name.
pub const MECHANISM: &str = "SCRAM-SHA-256";

/// The length of a hash, in bytes.
pub const DIGEST: usize = 32;

/// The stored form of a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verifier {
    /// The iterations of the hash.
    pub iterations: u32,
    /// The salt of the hash.
    pub salt: Vec<u8>,
    /// The hash of the key by which the client proves that it knows the password.
    pub stored_key: [u8; DIGEST],
    /// The key by which the server proves that it knows the verifier.
    pub server_key: [u8; DIGEST],
}

impl Verifier {
    /// The verifier of a new password, with a random salt.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn new(password: &str) -> Result<Verifier, getrandom::Error> {
        let mut salt = [0; 16];
        getrandom::fill(&mut salt)?;
        Ok(Self::derive(password, &salt, ITERATIONS))
    }

    /// The verifier of a password, with this salt.
    pub fn derive(password: &str, salt: &[u8], iterations: u32) -> Verifier {
        // A password that SASLprep refuses is used as it is, as PostgreSQL does.
        let password = stringprep::saslprep(password).unwrap_or(password.into());
        let mut salted = [0; DIGEST];
        pbkdf2::pbkdf2_hmac::<Sha256>(password.as_bytes(), salt, iterations, &mut salted);
        let stored_key = Sha256::digest(hmac(&salted, &[b"Client Key"])).into();
        let server_key = hmac(&salted, &[b"Server Key"]);
        Verifier { iterations, salt: salt.to_vec(), stored_key, server_key }
    }

    /// Reads the text that [`Display`](std::fmt::Display) writes.
    pub fn parse(text: &str) -> Option<Verifier> {
        let rest = text.strip_prefix(MECHANISM)?.strip_prefix('$')?;
        let (parameters, keys) = rest.split_once('$')?;
        let (iterations, salt) = parameters.split_once(':')?;
        let (stored, server) = keys.split_once(':')?;
        let key = |text: &str| BASE64.decode(text).ok()?.try_into().ok();
        Some(Verifier {
            iterations: iterations.parse().ok().filter(|iterations| *iterations > 0)?,
            salt: BASE64.decode(salt).ok()?,
            stored_key: key(stored)?,
            server_key: key(server)?,
        })
    }
}

impl std::fmt::Display for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [salt, stored, server] =
            [&self.salt[..], &self.stored_key, &self.server_key].map(|bytes| BASE64.encode(bytes));
        write!(f, "{MECHANISM}${}:{salt}${stored}:{server}", self.iterations)
    }
}

/// The keyed hash of these parts, one after the other.
pub fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; DIGEST] {
    // A key of any length is a key of HMAC: the constructor never fails.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return [0; DIGEST] };
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verifier_reads_back_as_written_and_never_shows_the_password() {
        let verifier = Verifier::new("correct horse").expect("random bytes");
        let text = verifier.to_string();
        assert_eq!(Verifier::parse(&text).as_ref(), Some(&verifier));
        assert!(!text.contains("horse"));
        for broken in ["", "md5abc", "SCRAM-SHA-256$0:AAAA$AAAA:AAAA", "SCRAM-SHA-256$4096:AAAA$x:y"] {
            assert_eq!(Verifier::parse(broken), None, "{broken}");
        }
    }
}
