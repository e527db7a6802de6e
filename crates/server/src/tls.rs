//! TLS: reads certificates and keys, and hashes the server's certificate for channel binding.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use sha2::{Digest, Sha256, Sha384, Sha512};
use x509_parser::oid_registry;

use crate::settings::{Settings, SettingsError};

/// The encryption of connections.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) config: Arc<ServerConfig>,
    /// The hash of the server's certificate, by which clients bind their authentication to the connection; `None` if it is signed
    /// by an algorithm that defines none.
    pub(crate) end_point: Option<Arc<[u8]>>,
}

/// The hash of a certificate by the function with which it was signed, and SHA-256 in place of MD5 and SHA-1.
///
/// Source: RFC 5929, section 4.1.
fn end_point(certificate: &[u8]) -> Option<Arc<[u8]>> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let algorithm = &parsed.signature_algorithm.algorithm;
    let is_one_of = |known: &[oid_registry::Oid<'_>]| known.contains(algorithm);
    if is_one_of(&[
        oid_registry::OID_PKCS1_MD5WITHRSAENC,
        oid_registry::OID_PKCS1_SHA1WITHRSA,
        oid_registry::OID_PKCS1_SHA256WITHRSA,
        oid_registry::OID_SIG_ECDSA_WITH_SHA256,
    ]) {
        return Some(Sha256::digest(certificate).to_vec().into());
    }
    if is_one_of(&[oid_registry::OID_PKCS1_SHA384WITHRSA, oid_registry::OID_SIG_ECDSA_WITH_SHA384]) {
        return Some(Sha384::digest(certificate).to_vec().into());
    }
    is_one_of(&[oid_registry::OID_PKCS1_SHA512WITHRSA, oid_registry::OID_SIG_ECDSA_WITH_SHA512])
        .then(|| Sha512::digest(certificate).to_vec().into())
}

/// The configuration that the settings ask for, if they ask for TLS.
///
/// # Errors
/// A file cannot be read, or holds no certificate or key that fits.
pub(crate) fn configure(settings: &Settings) -> Result<Option<Tls>, SettingsError> {
    let (Some(certificate), Some(key)) = (&settings.tls_certificate, &settings.tls_key) else {
        return Ok(None);
    };
    let chain = certificates(certificate)?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(certificate, &error))?;
    let builder = match &settings.tls_client_ca {
        None => builder.with_no_client_auth(),
        Some(authorities) => {
            let mut roots = RootCertStore::empty();
            for authority in certificates(authorities)? {
                roots.add(authority).map_err(|error| unusable(authorities, &error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .allow_unauthenticated()
                .build()
                .map_err(|error| unusable(authorities, &error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let end_point = chain.first().and_then(|first| end_point(first));
    let config = builder.with_single_cert(chain, private).map_err(|error| unusable(certificate, &error))?;
    Ok(Some(Tls { config: Arc::new(config), end_point }))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, SettingsError> {
    let all = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unusable(path, &error))?;
    if all.is_empty() {
        return Err(unusable(path, &"it has no certificate"));
    }
    Ok(all)
}

fn unusable(path: &Path, error: &dyn std::fmt::Display) -> SettingsError {
    SettingsError::new(format!("{}: {error}", path.display()))
}
