//! SCRAM-SHA-256 and SCRAM-SHA-256-PLUS: the server's side of the exchange. The latter binds it to the TLS connection by a hash of
//! the server's certificate (tls-server-end-point), so that no server in between can pass it on.
//!
//! # Invariants
//! A password is never kept, only its verifier, from which it cannot be computed. An unknown user gets the same
//! exchange as a known one, with a salt that stays the same for each name, and is refused at its end: neither the
//! messages nor their timing tell whether a name exists. A client that could bind the exchange, and believes that the server
//! cannot though it has offered to, is refused: the offer was changed on its way.
//!
//! Source: RFC 5802, RFC 5929, RFC 7677; the verifier's text is PostgreSQL's.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use heddle_sql::password::{DIGEST, ITERATIONS, Verifier, hmac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// A verifier for a user that does not exist, so that its exchange looks like any other.
fn mock(user: &str, secret: &[u8; DIGEST]) -> Verifier {
    let salt = hmac(secret, &[b"salt", user.as_bytes()])[..16].to_vec();
    let key = hmac(secret, &[b"key", user.as_bytes()]);
    Verifier { iterations: ITERATIONS, salt, stored_key: key, server_key: key }
}

/// The reason for which an exchange failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The message is not one of SCRAM.
    Malformed,
    /// The password is wrong, or there is no such user.
    Wrong,
}

/// The channel binding of an exchange.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Binding<'t> {
    /// The server has not offered it.
    Impossible,
    /// The server has offered it, and the client has chosen otherwise.
    Declined,
    /// The exchange is bound by the hash of the server's certificate.
    Bound(&'t [u8]),
}

/// An exchange whose first messages were sent.
#[derive(Debug)]
pub(crate) struct Exchange {
    verifier: Verifier,
    exists: bool,
    nonce: String,
    /// The header that the client's last message repeats, and what binds the exchange to the connection, in base 64.
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
        binding: &Binding<'_>,
        client_first: &[u8],
    ) -> Result<(Exchange, String), Refused> {
        let first = std::str::from_utf8(client_first).map_err(|_| Refused::Malformed)?;
        let (prefix, end_point) = match binding {
            Binding::Bound(end_point) => ("p=tls-server-end-point,,", *end_point),
            // By a client that could bind it, but believes that the server cannot.
            Binding::Impossible if first.starts_with('y') => ("y,,", &[][..]),
            Binding::Impossible | Binding::Declined => ("n,,", &[][..]),
        };
        let bare = first.strip_prefix(prefix).ok_or(Refused::Malformed)?;
        // The name is the one of the startup message; the one here is not looked at.
        let nonce = bare.split(',').find_map(|part| part.strip_prefix("r=")).ok_or(Refused::Malformed)?;
        if nonce.is_empty() || bare.starts_with("m=") {
            return Err(Refused::Malformed);
        }
        let mut random = [0; 18];
        getrandom::fill(&mut random).map_err(|_| Refused::Malformed)?;
        let nonce = format!("{nonce}{}", BASE64.encode(random));
        let exists = verifier.is_some();
        let verifier = verifier.unwrap_or_else(|| mock(user, secret));
        let answer = format!("r={nonce},s={},i={}", BASE64.encode(&verifier.salt), verifier.iterations);
        let signed = format!("{bare},{answer}");
        let header = BASE64.encode([prefix.as_bytes(), end_point].concat());
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

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: [u8; DIGEST] = [9; DIGEST];

    /// The answer of a client that knows this password.
    fn client(password: &str, bare: &str, server_first: &str) -> String {
        client_bound(password, bare, server_first, "biws")
    }

    fn client_bound(password: &str, bare: &str, server_first: &str, header: &str) -> String {
        let part = |name: &str| {
            server_first.split(',').find_map(|part| part.strip_prefix(name)).expect("it is sent")
        };
        let salt = BASE64.decode(part("s=")).expect("it is base 64");
        let verifier = Verifier::derive(password, &salt, part("i=").parse().expect("a number"));
        let mut salted = [0; DIGEST];
        pbkdf2::pbkdf2_hmac::<Sha256>(password.as_bytes(), &salt, verifier.iterations, &mut salted);
        let client_key = hmac(&salted, &[b"Client Key"]);
        let last = format!("c={header},r={}", part("r="));
        let message = format!("{bare},{server_first},{last}");
        let signature = hmac(&verifier.stored_key, &[message.as_bytes()]);
        let proof: [u8; DIGEST] = std::array::from_fn(|at| client_key[at] ^ signature[at]);
        format!("{last},p={}", BASE64.encode(proof))
    }

    fn exchange(stored: Option<&str>, offered: &str) -> Result<String, Refused> {
        let verifier = stored.map(|password| Verifier::new(password).expect("random bytes"));
        let bare = "n=,r=abcdef";
        let (exchange, first) =
            Exchange::begin("ada", verifier, &SECRET, &Binding::Declined, format!("n,,{bare}").as_bytes())?;
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
        let first = |verifier| {
            Exchange::begin("bob", verifier, &SECRET, &Binding::Impossible, b"y,,n=,r=x")
                .expect("well formed")
                .1
        };
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
    fn a_bound_exchange_ends_only_with_the_hash_of_this_certificate() {
        let verifier = || Some(Verifier::new("pencil").expect("random bytes"));
        let finish = |end_point: &[u8], claimed: &[u8]| {
            let bare = "n=,r=abcdef";
            let first = format!("p=tls-server-end-point,,{bare}");
            let binding = Binding::Bound(end_point);
            let (exchange, answer) = Exchange::begin("ada", verifier(), &SECRET, &binding, first.as_bytes())?;
            let header = BASE64.encode([b"p=tls-server-end-point,,", claimed].concat());
            exchange.finish(client_bound("pencil", bare, &answer, &header).as_bytes())
        };
        assert!(finish(b"hash", b"hash").is_ok());
        assert_eq!(finish(b"hash", b"other"), Err(Refused::Malformed));
        let unbound = Exchange::begin("ada", None, &SECRET, &Binding::Bound(b"hash"), b"n,,n=,r=x");
        assert!(unbound.is_err(), "the mechanism binds");
    }

    #[test]
    fn messages_that_are_not_of_the_exchange_are_refused() {
        for first in [&b"p=tls-unique,,n=,r=x"[..], b"n,,n=", b"n,,r=", b"\xff", b"n,,m=x,r=y", b"y,,n=,r=x"]
        {
            assert!(Exchange::begin("ada", None, &SECRET, &Binding::Declined, first).is_err(), "{first:?}");
        }
        let begin = || {
            Exchange::begin("ada", None, &SECRET, &Binding::Declined, b"n,,n=,r=x").expect("well formed").0
        };
        for last in [&b"c=biws,r=x,p=AAAA"[..], b"c=eSws,r=x", b"", b"\xff"] {
            assert_eq!(begin().finish(last), Err(Refused::Malformed), "{last:?}");
        }
    }
}
