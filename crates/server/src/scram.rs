//! SCRAM-SHA-256: verifiers of passwords, and the server's side of the exchange.
//!
//! # Invariants
//! A password is never kept, only its verifier, from which it cannot be computed. An unknown user gets the same
//! exchange as a known one, with a salt that stays the same for each name, and is refused at its end: neither the
//! messages nor their timing tell whether a name exists.
//!
//! Source: RFC 5802, RFC 7677; the verifier's text is PostgreSQL's.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// How often the hash is iterated for new passwords, PostgreSQL's number.
const ITERATIONS: u32 = 4_096;

/// The mechanism's name.
pub(crate) const MECHANISM: &str = "SCRAM-SHA-256";

const DIGEST: usize = 32;

/// What is known of a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verifier {
    iterations: u32,
    salt: Vec<u8>,
    stored_key: [u8; DIGEST],
    server_key: [u8; DIGEST],
}

impl Verifier {
    /// Of a new password, with a random salt.
    pub(crate) fn new(password: &str) -> Result<Verifier, getrandom::Error> {
        let mut salt = [0; 16];
        getrandom::fill(&mut salt)?;
        Ok(Self::derive(password, &salt, ITERATIONS))
    }

    fn derive(password: &str, salt: &[u8], iterations: u32) -> Verifier {
        // A password that SASLprep refuses is taken as it is, as PostgreSQL does.
        let password = stringprep::saslprep(password).unwrap_or(password.into());
        let mut salted = [0; DIGEST];
        pbkdf2::pbkdf2_hmac::<Sha256>(password.as_bytes(), salt, iterations, &mut salted);
        let stored_key = Sha256::digest(hmac(&salted, &[b"Client Key"])).into();
        let server_key = hmac(&salted, &[b"Server Key"]);
        Verifier { iterations, salt: salt.to_vec(), stored_key, server_key }
    }

    /// What stands in for the verifier of a user that does not exist.
    fn mock(user: &str, secret: &[u8; DIGEST]) -> Verifier {
        let salt = hmac(secret, &[b"salt", user.as_bytes()])[..16].to_vec();
        let key = hmac(secret, &[b"key", user.as_bytes()]);
        Verifier { iterations: ITERATIONS, salt, stored_key: key, server_key: key }
    }

    /// Reads the text that [`Display`](std::fmt::Display) writes.
    pub(crate) fn parse(text: &str) -> Option<Verifier> {
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

/// Why an exchange ended without a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The message is not one of SCRAM.
    Malformed,
    /// The password is wrong, or there is no such user.
    Wrong,
}

/// An exchange whose first messages were sent.
#[derive(Debug)]
pub(crate) struct Exchange {
    verifier: Verifier,
    exists: bool,
    nonce: String,
    /// The header that the client's last message repeats.
    header: String,
    /// The first parts of what both sides sign.
    signed: String,
}

impl Exchange {
    /// Answers the client's first message: the exchange, and what the server sends.
    pub(crate) fn begin(
        user: &str,
        verifier: Option<Verifier>,
        secret: &[u8; DIGEST],
        client_first: &[u8],
    ) -> Result<(Exchange, String), Refused> {
        let first = std::str::from_utf8(client_first).map_err(|_| Refused::Malformed)?;
        // Without channel binding ("n"), or by a client that could but believes that the server cannot ("y").
        let bare = first.strip_prefix("n,,").or(first.strip_prefix("y,,")).ok_or(Refused::Malformed)?;
        // The name is the one of the startup message; the one here is not looked at.
        let nonce = bare.split(',').find_map(|part| part.strip_prefix("r=")).ok_or(Refused::Malformed)?;
        if nonce.is_empty() || bare.starts_with("m=") {
            return Err(Refused::Malformed);
        }
        let mut random = [0; 18];
        getrandom::fill(&mut random).map_err(|_| Refused::Malformed)?;
        let nonce = format!("{nonce}{}", BASE64.encode(random));
        let exists = verifier.is_some();
        let verifier = verifier.unwrap_or_else(|| Verifier::mock(user, secret));
        let answer = format!("r={nonce},s={},i={}", BASE64.encode(&verifier.salt), verifier.iterations);
        let signed = format!("{bare},{answer}");
        let header = BASE64.encode(&first[..3]);
        Ok((Exchange { verifier, exists, nonce, header, signed }, answer))
    }

    /// Judges the client's last message: what the server sends to prove that it knows the verifier.
    pub(crate) fn finish(self, client_final: &[u8]) -> Result<String, Refused> {
        let last = std::str::from_utf8(client_final).map_err(|_| Refused::Malformed)?;
        let (without_proof, proof) = last.rsplit_once(",p=").ok_or(Refused::Malformed)?;
        let mut parts = without_proof.split(',');
        let header = parts.next().and_then(|part| part.strip_prefix("c="));
        let nonce = parts.next().and_then(|part| part.strip_prefix("r="));
        if header != Some(&self.header) || nonce != Some(&self.nonce) {
            return Err(Refused::Malformed);
        }
        let proof: [u8; DIGEST] =
            BASE64.decode(proof).ok().and_then(|proof| proof.try_into().ok()).ok_or(Refused::Malformed)?;
        let message = [self.signed.as_bytes(), b",", without_proof.as_bytes()];
        let signature = hmac(&self.verifier.stored_key, &message);
        let client_key: [u8; DIGEST] = std::array::from_fn(|at| proof[at] ^ signature[at]);
        let is_right: bool = Sha256::digest(client_key).ct_eq(&self.verifier.stored_key).into();
        if !(is_right & self.exists) {
            return Err(Refused::Wrong);
        }
        Ok(format!("v={}", BASE64.encode(hmac(&self.verifier.server_key, &message))))
    }
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; DIGEST] {
    // A key of any length is a key of HMAC: the constructor never fails.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return [0; DIGEST] };
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: [u8; DIGEST] = [9; DIGEST];

    /// What a client that knows this password answers.
    fn client(password: &str, bare: &str, server_first: &str) -> String {
        let part = |name: &str| {
            server_first.split(',').find_map(|part| part.strip_prefix(name)).expect("it is sent")
        };
        let salt = BASE64.decode(part("s=")).expect("it is base 64");
        let verifier = Verifier::derive(password, &salt, part("i=").parse().expect("a number"));
        let mut salted = [0; DIGEST];
        pbkdf2::pbkdf2_hmac::<Sha256>(password.as_bytes(), &salt, verifier.iterations, &mut salted);
        let client_key = hmac(&salted, &[b"Client Key"]);
        let last = format!("c=biws,r={}", part("r="));
        let message = format!("{bare},{server_first},{last}");
        let signature = hmac(&verifier.stored_key, &[message.as_bytes()]);
        let proof: [u8; DIGEST] = std::array::from_fn(|at| client_key[at] ^ signature[at]);
        format!("{last},p={}", BASE64.encode(proof))
    }

    fn exchange(stored: Option<&str>, offered: &str) -> Result<String, Refused> {
        let verifier = stored.map(|password| Verifier::new(password).expect("random bytes"));
        let bare = "n=,r=abcdef";
        let (exchange, first) = Exchange::begin("ada", verifier, &SECRET, format!("n,,{bare}").as_bytes())?;
        exchange.finish(client(offered, bare, &first).as_bytes())
    }

    #[test]
    fn the_right_password_is_proved_to_both_sides() {
        let answer = exchange(Some("pencil"), "pencil").expect("it is right");
        assert!(answer.starts_with("v="));
    }

    #[test]
    fn a_wrong_password_and_an_unknown_user_end_alike() {
        assert_eq!(exchange(Some("pencil"), "pen"), Err(Refused::Wrong));
        assert_eq!(exchange(None, "pencil"), Err(Refused::Wrong));
        let first =
            |verifier| Exchange::begin("bob", verifier, &SECRET, b"n,,n=,r=x").expect("well formed").1;
        let salt = |first: &str| first.split(',').nth(1).map(str::to_owned);
        assert_eq!(salt(&first(None)), salt(&first(None)), "an unknown user's salt stays the same");
    }

    #[test]
    fn the_test_vector_of_rfc_7677_verifies() {
        let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base 64");
        let verifier = Verifier::derive("pencil", &salt, 4_096);
        let exchange = Exchange {
            verifier,
            exists: true,
            nonce: "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0".to_owned(),
            header: "biws".to_owned(),
            signed: "n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                     s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
                .to_owned(),
        };
        let last = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                    p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        let answer = exchange.finish(last.as_bytes());
        assert_eq!(answer.as_deref(), Ok("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
    }

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

    #[test]
    fn messages_that_are_not_of_the_exchange_are_refused() {
        for first in [&b"p=tls-unique,,n=,r=x"[..], b"n,,n=", b"n,,r=", b"\xff", b"n,,m=x,r=y"] {
            assert!(Exchange::begin("ada", None, &SECRET, first).is_err(), "{first:?}");
        }
        let begin = || Exchange::begin("ada", None, &SECRET, b"n,,n=,r=x").expect("well formed").0;
        for last in [&b"c=biws,r=x,p=AAAA"[..], b"c=eSws,r=x", b"", b"\xff"] {
            assert_eq!(begin().finish(last), Err(Refused::Malformed), "{last:?}");
        }
    }
}
