//! TLS with libpq's rules, on rustls: what each `sslmode` verifies, and what a refusal means.

mod verifier;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use millstream_model::shell_word;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{CertificateError, ClientConfig};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::conninfo::{ClientCertificate, SslMode, TlsRoot, TlsSettings, TlsVersion};
use crate::error::Error;
use crate::limits::CERTIFICATES_BYTES_MAX;
use crate::named_file;
use crate::socket::Socket;
use verifier::Verifier;

/// The TLS of one connection.
pub(crate) type Connector = <MakeRustlsConnect as MakeTlsConnect<Socket>>::TlsConnect;

/// The TLS of the next connection, to a host of this name.
///
/// # Errors
/// A certificate or key file that is missing, unreadable, not protected or not PEM.
pub(crate) fn connector(settings: &TlsSettings, name: &str) -> Result<Connector, Error> {
    let provider = Arc::new(ring::default_provider());
    let algorithms = provider.signature_verification_algorithms;
    let verifier = Verifier::new(roots(settings)?, settings.mode == SslMode::VerifyFull, algorithms);
    let versions: Vec<_> = [(TlsVersion::V12, &rustls::version::TLS12), (TlsVersion::V13, &rustls::version::TLS13)]
        .into_iter()
        .filter(|(version, _)| (settings.versions.0..=settings.versions.1).contains(version))
        .map(|(_, version)| version)
        .collect();
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)
        .map_err(|e| Error::settings(format!("TLS cannot be set up: {e}")))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match identity(settings.client.as_ref())? {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => builder
            .with_client_auth_cert(chain, key)
            .map_err(|e| Error::settings(format!("the client certificate and its key cannot be used: {e}")))?,
    };
    config.enable_sni = settings.sni;
    if settings.direct {
        config.alpn_protocols = vec![b"postgresql".to_vec()];
    }
    let Ok(connector) = MakeTlsConnect::<Socket>::make_tls_connect(&mut MakeRustlsConnect::new(config), name);
    Ok(connector)
}

/// What went wrong in TLS, for people, with a hint; `None` if the failure has another cause.
pub(crate) fn explain(error: &tokio_postgres::Error, settings: &TlsSettings) -> Option<(String, Option<String>)> {
    if let Some(cause) = crate::error::causes(error).find_map(|cause| cause.downcast_ref::<rustls::Error>()) {
        return Some(match cause {
            rustls::Error::InvalidCertificate(certificate) => explain_certificate(certificate, settings),
            rustls::Error::AlertReceived(alert) => (
                format!("the server ended TLS with the alert {alert:?}"),
                Some("the server may want another client certificate: sslcert=FILE sslkey=FILE".to_owned()),
            ),
            other => (format!("the TLS handshake failed: {other}"), None),
        });
    }
    if !error.to_string().contains("TLS") {
        return None;
    }
    let text = crate::error::driver_text(error);
    if text.contains("does not support TLS") {
        return Some((
            format!("the server does not support TLS, but sslmode={} asks for it", settings.mode),
            Some("turn ssl on at the server, or use sslmode=prefer on a network you trust".to_owned()),
        ));
    }
    Some((text, None))
}

fn explain_certificate(error: &CertificateError, settings: &TlsSettings) -> (String, Option<String>) {
    let authority = match &settings.root {
        TlsRoot::File(file) => format!("the certificates in \"{}\"", file.display()),
        TlsRoot::System | TlsRoot::None => "the system's certificate authorities".to_owned(),
    };
    match error {
        // An authority with the right name and another key causes a bad signature.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => (
            format!("the server's certificate is not signed by {authority}"),
            Some("name the right authority with sslrootcert=FILE (or sslrootcert=system)".to_owned()),
        ),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => (
            "the server's certificate is not made for this host name".to_owned(),
            Some(
                "connect by a name in the certificate's subjectAltName (the common name alone does not count), \
                 with hostaddr=ADDRESS beside host=NAME if need be"
                    .to_owned(),
            ),
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            ("the server's certificate has expired".to_owned(), Some("renew it at the server".to_owned()))
        }
        CertificateError::Other(other) if other.0.to_string().starts_with("UnsupportedCertVersion") => (
            "the server's certificate has an X.509 version before 3, which cannot be verified".to_owned(),
            Some("issue it anew with a subjectAltName, which makes it version 3".to_owned()),
        ),
        other => (format!("the server's certificate is not valid: {other}"), None),
    }
}

/// The authorities to check against, or `None` for encryption without a check.
///
/// As in libpq, a root certificate file that exists is used in every mode. So `require` with it means `verify-ca`.
fn roots(settings: &TlsSettings) -> Result<Option<Vec<CertificateDer<'static>>>, Error> {
    let verifies = settings.mode >= SslMode::VerifyCa;
    match &settings.root {
        TlsRoot::System => {
            let found = rustls_native_certs::load_native_certs();
            if found.certs.is_empty() {
                return Err(Error::settings_hint(
                    "the system has no certificate authorities that can be read",
                    "install the package ca-certificates, or name a file with sslrootcert=FILE",
                ));
            }
            Ok(Some(found.certs))
        }
        TlsRoot::File(file) if file.exists() => certificates(file, "root certificate").map(Some),
        TlsRoot::File(file) if verifies => Err(Error::settings_hint(
            format!("root certificate file \"{}\" does not exist", file.display()),
            format!("sslmode={} needs it: sslrootcert=FILE, or sslrootcert=system", settings.mode),
        )),
        TlsRoot::None if verifies => Err(Error::settings_hint(
            format!("sslmode={} needs a root certificate", settings.mode),
            "name it with sslrootcert=FILE, or use sslrootcert=system",
        )),
        TlsRoot::File(_) | TlsRoot::None => Ok(None),
    }
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn identity(client: Option<&ClientCertificate>) -> Result<Option<Identity>, Error> {
    let Some(client) = client.filter(|c| c.named || c.certificate.exists()) else { return Ok(None) };
    let chain = certificates(&client.certificate, "client certificate")?;
    check_key_file(&client.key)?;
    let pem = read(&client.key, "client key")?;
    if pem.windows(9).any(|w| w == b"ENCRYPTED") {
        return Err(Error::settings_hint(
            format!("client key \"{}\" is encrypted, which is not supported", client.key.display()),
            "decrypt it with `openssl pkey` into a file of mode 0600 and name that with sslkey=FILE",
        ));
    }
    let key = PrivateKeyDer::from_pem_slice(&pem)
        .map_err(|_| Error::settings(format!("client key \"{}\" holds no private key in PEM", client.key.display())))?;
    Ok(Some((chain, key)))
}

fn certificates(file: &Path, what: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let pem = read(file, what)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match found {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(Error::settings(format!("{what} file \"{}\" holds no certificate in PEM", file.display()))),
    }
}

fn read(file: &Path, what: &str) -> Result<Vec<u8>, Error> {
    named_file::read(file, CERTIFICATES_BYTES_MAX)
        .map_err(|error| Error::settings(format!("{what} file \"{}\" cannot be read: {error}", file.display())))
}

/// libpq's rule: only its owner may read the key. If root owns it, a group may read it too.
fn check_key_file(key: &Path) -> Result<(), Error> {
    let Ok(metadata) = fs::metadata(key) else { return Ok(()) };
    let open = if metadata.uid() == 0 { 0o027 } else { 0o077 };
    if metadata.mode() & open == 0 {
        return Ok(());
    }
    Err(Error::settings_hint(
        format!("client key \"{}\" can be read by group or others", key.display()),
        format!("chmod 0600 {}", shell_word(&key.display())),
    ))
}
