//! The server certificates that a client accepts.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::error::WireError;

/// Trusts certificates that trusted authorities have signed, and a server's certificate that is itself among those that
/// the user gave.
///
/// `openssl req -x509` creates the certificate of an authority, which by the rules of the web is not a server's. A user
/// who gives it to server and client means it as both.
#[derive(Debug)]
pub struct Trust {
    authorities: Arc<WebPkiServerVerifier>,
    given: Vec<CertificateDer<'static>>,
}

impl Trust {
    /// `given`: the certificates that the user named, which are among the roots. Empty if the roots are the system's.
    pub fn new(
        roots: RootCertStore,
        given: Vec<CertificateDer<'static>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, WireError> {
        let authorities = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        Ok(Self { authorities: authorities.map_err(|e| WireError::Config(e.to_string()))?, given })
    }
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.authorities.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // That it is an authority's has no error of its own; that it has expired has one.
            Err(Error::InvalidCertificate(CertificateError::Other(_))) if self.given.contains(end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}
