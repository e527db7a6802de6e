//! TLS: reads certificates and keys, and the name in a client's certificate.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use crate::settings::{Settings, SettingsError};

/// The configuration that the settings ask for, if they ask for TLS.
///
/// # Errors
/// A file cannot be read, or holds no certificate or key that fits.
pub(crate) fn configure(settings: &Settings) -> Result<Option<Arc<ServerConfig>>, SettingsError> {
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
    let config = builder.with_single_cert(chain, private).map_err(|error| unusable(certificate, &error))?;
    Ok(Some(Arc::new(config)))
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
