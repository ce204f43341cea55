//! The server's certificate and key.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::{Result, ServerError};

/// A TLS configuration from PEM files. The key must be of the certificate.
pub fn load(certificate: &Path, key: &Path) -> Result<Arc<rustls::ServerConfig>> {
    let read = |what: &str, path: &Path| fs::read(path).map_err(|error| ServerError::file(what, path, error));
    let (certificate_text, key_text) = (read("certificate", certificate)?, read("key", key)?);
    warn_if_public(key);
    let chain = CertificateDer::pem_slice_iter(&certificate_text).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| ServerError::file("certificate", certificate, error))?;
    if chain.is_empty() {
        return Err(ServerError::file("certificate", certificate, "holds no PEM certificate"));
    }
    let private = PrivateKeyDer::from_pem_slice(&key_text).map_err(|error| ServerError::file("key", key, error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| ServerError::new(format!("TLS: {error}")))?;
    let config = builder.with_no_client_auth().with_single_cert(chain, private).map_err(|error| {
        ServerError::new(format!("{} and {} do not go together: {error}", certificate.display(), key.display()))
            .with_hint("the certificate comes first in its file, then its chain; the key is the certificate's")
    })?;
    Ok(Arc::new(config))
}

/// Keys come from many tools with many modes: the owner is told, and decides.
fn warn_if_public(key: &Path) {
    use std::os::unix::fs::MetadataExt;
    if fs::metadata(key).is_ok_and(|metadata| metadata.mode() & 0o077 != 0) {
        tracing::warn!(key = %key.display(), "others than its owner can read the key: chmod 600");
    }
}

/// The same configuration for a protocol that clients may ask for by name.
pub fn with_protocols(config: &Arc<rustls::ServerConfig>, names: &[&[u8]]) -> Arc<rustls::ServerConfig> {
    let mut config = rustls::ServerConfig::clone(config);
    config.alpn_protocols = names.iter().map(|name| name.to_vec()).collect();
    Arc::new(config)
}
