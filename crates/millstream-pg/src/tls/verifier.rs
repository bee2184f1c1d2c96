//! The check of a server's certificate: chain and host name separately, for `verify-ca` and `verify-full`.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// Checks what the mode requires.
#[derive(Debug)]
pub(super) struct Verifier {
    trust: Option<Trust>,
    check_name: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

#[derive(Debug)]
struct Trust {
    store: RootCertStore,
    certificates: Vec<CertificateDer<'static>>,
}

impl Verifier {
    /// A check against these authorities. With `None`, every certificate passes.
    pub(super) fn new(
        roots: Option<Vec<CertificateDer<'static>>>,
        check_name: bool,
        algorithms: WebPkiSupportedAlgorithms,
    ) -> Verifier {
        let trust = roots.map(|certificates| {
            let mut store = RootCertStore::empty();
            // Certificates that it cannot read are left out, as in OpenSSL.
            store.add_parsable_certificates(certificates.iter().cloned());
            Trust { store, certificates }
        });
        Verifier { trust, check_name, algorithms }
    }

    /// If we need not verify the certificate, webpki may be unable to read it (version 1). Then its signature proves no
    /// more than the certificate does, and passes. A signature that is readable and wrong stays an error.
    fn tolerate_unreadable(
        &self,
        result: Result<HandshakeSignatureValid, Error>,
    ) -> Result<HandshakeSignatureValid, Error> {
        match result {
            Err(Error::InvalidCertificate(CertificateError::BadSignature)) => result,
            Err(Error::InvalidCertificate(_)) if self.trust.is_none() => Ok(HandshakeSignatureValid::assertion()),
            _ => result,
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(trust) = &self.trust else { return Ok(ServerCertVerified::assertion()) };
        let parsed = ParsedCertificate::try_from(certificate)?;
        let all = self.algorithms.all;
        match verify_server_cert_signed_by_trust_anchor(&parsed, &trust.store, intermediates, now, all) {
            Ok(()) => {}
            // `openssl req -x509`, which PostgreSQL's manual uses for self-signed certificates, marks them as
            // authorities. Such a one passes if it is, byte for byte, the trusted one. Dates are checked first.
            Err(error) if is_authority(&error) && trust.certificates.iter().any(|c| c == certificate) => {}
            Err(error) => return Err(error),
        }
        if self.check_name {
            verify_server_name(&parsed, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.tolerate_unreadable(verify_tls12_signature(message, certificate, signature, &self.algorithms))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.tolerate_unreadable(verify_tls13_signature(message, certificate, signature, &self.algorithms))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Whether a chain was refused only because its end is marked as an authority.
fn is_authority(error: &Error) -> bool {
    matches!(error, Error::InvalidCertificate(CertificateError::Other(other)) if other.0.to_string() == "CaUsedAsEndEntity")
}
