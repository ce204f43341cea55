//! The server's certificate and key.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use freestone_wire::transport::tls_server_config;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::error::{Result, ServerError};

/// A TLS configuration from PEM files.
///
/// # Errors
///
/// A file cannot be read, or the key is not that of the certificate.
pub fn load(certificate: &Path, key: &Path) -> Result<Arc<rustls::ServerConfig>> {
    warn_if_public(key);
    tls_server_config(certificate, key).map_err(|error| {
        ServerError::new(error.to_string()).with_hint(
            "both files are PEM: the certificate comes first in its file, then its chain; the key is the certificate's",
        )
    })
}

/// The server's own certificate, which is the first one of its file.
///
/// # Errors
///
/// The file cannot be read.
pub fn certificate(file: &Path) -> Result<CertificateDer<'static>> {
    CertificateDer::from_pem_file(file).map_err(|error| ServerError::file("certificate", file, error))
}

/// Logs a warning if others can read the key. It is no error, because tools create keys with various permissions.
fn warn_if_public(key: &Path) {
    use std::os::unix::fs::MetadataExt;
    if fs::metadata(key).is_ok_and(|metadata| metadata.mode() & 0o077 != 0) {
        tracing::warn!(key = %key.display(), "others than its owner can read the key: chmod 600");
    }
}

/// The same configuration with application protocols (ALPN) that clients may request.
pub fn with_protocols(config: &Arc<rustls::ServerConfig>, names: &[&[u8]]) -> Arc<rustls::ServerConfig> {
    let mut config = rustls::ServerConfig::clone(config);
    config.alpn_protocols = names.iter().map(|name| name.to_vec()).collect();
    Arc::new(config)
}
