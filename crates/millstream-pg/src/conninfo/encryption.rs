//! The TLS settings of a connection string.

use std::fmt;
use std::path::PathBuf;

use super::{Environment, Said, choice, name_of};
use crate::error::Error;

/// Encryption and certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// Whether and how strictly the connection is encrypted.
    pub mode: SslMode,
    /// TLS from the first byte, without negotiation (PostgreSQL 17 and later).
    pub direct: bool,
    /// The authorities that may sign server certificates.
    pub root: TlsRoot,
    /// Our certificate and its key, in PEM.
    pub client: Option<ClientCertificate>,
    /// Send the host name before encryption starts.
    pub sni: bool,
    /// Lowest and highest protocol version, `TLSv1.2` or `TLSv1.3`.
    pub versions: (TlsVersion, TlsVersion),
}

/// The authorities that may sign server certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TlsRoot {
    /// This file. It need not exist unless the mode verifies certificates.
    File(PathBuf),
    /// The operating system's authorities.
    System,
    /// No authorities: there is neither a home directory nor `sslrootcert`.
    None,
}

/// Our certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// PEM file of the certificate, followed by its intermediates.
    pub certificate: PathBuf,
    /// PEM file of the key.
    pub key: PathBuf,
    /// The user named the file, so it must exist. The default file may be missing.
    pub named: bool,
}

/// A TLS protocol version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// TLS 1.2.
    V12,
    /// TLS 1.3.
    V13,
}

/// How strictly the connection is encrypted, as libpq's `sslmode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SslMode {
    /// Never.
    Disable,
    /// Only if the server requires it.
    Allow,
    /// If the server supports it.
    Prefer,
    /// Always. The certificate is checked only if there is a root certificate.
    Require,
    /// Always, signed by a known authority.
    VerifyCa,
    /// Always, signed by a known authority and made for this host.
    VerifyFull,
}

const SSL_MODES: &[(&str, SslMode)] = &[
    ("disable", SslMode::Disable),
    ("allow", SslMode::Allow),
    ("prefer", SslMode::Prefer),
    ("require", SslMode::Require),
    ("verify-ca", SslMode::VerifyCa),
    ("verify-full", SslMode::VerifyFull),
];

const TLS_VERSIONS: &[(&str, TlsVersion)] = &[("TLSv1.2", TlsVersion::V12), ("TLSv1.3", TlsVersion::V13)];

const SWITCHES: &[(&str, bool)] = &[("0", false), ("1", true)];

impl fmt::Display for SslMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name_of(SSL_MODES, *self))
    }
}

pub(super) fn tls(said: &Said, env: &Environment) -> Result<TlsSettings, Error> {
    let beside = |file: &str| env.home().map(|home| home.join(".postgresql").join(file));
    let named = |keyword: &str| said.get(keyword).filter(|v| !v.is_empty());
    let mode_said = choice(said, "sslmode", SSL_MODES)?;
    let root = match named("sslrootcert") {
        Some(root) if root == "system" => TlsRoot::System,
        Some(file) => TlsRoot::File(PathBuf::from(file)),
        None => beside("root.crt").map_or(TlsRoot::None, TlsRoot::File),
    };
    let mode = mode_said.unwrap_or(if root == TlsRoot::System { SslMode::VerifyFull } else { SslMode::Prefer });
    if root == TlsRoot::System && mode != SslMode::VerifyFull {
        return Err(Error::settings_hint(
            format!("weak sslmode \"{mode}\" may not be used with sslrootcert=system"),
            "use sslmode=verify-full",
        ));
    }
    let direct = choice(said, "sslnegotiation", &[("postgres", false), ("direct", true)])?.unwrap_or(false);
    if direct && mode < SslMode::Require {
        return Err(Error::settings_hint(
            format!("weak sslmode \"{mode}\" may not be used with sslnegotiation=direct"),
            "use sslmode=require or stronger",
        ));
    }
    let certificate = named("sslcert").map(PathBuf::from);
    let client = match choice(said, "sslcertmode", &[("disable", false), ("allow", true)])? {
        Some(false) => None,
        _ => {
            let key = named("sslkey").map(PathBuf::from).or_else(|| beside("postgresql.key"));
            let (named, certificate) = (certificate.is_some(), certificate.or_else(|| beside("postgresql.crt")));
            certificate.zip(key).map(|(certificate, key)| ClientCertificate { certificate, key, named })
        }
    };
    let low = choice(said, "ssl_min_protocol_version", TLS_VERSIONS)?.unwrap_or(TlsVersion::V12);
    let high = choice(said, "ssl_max_protocol_version", TLS_VERSIONS)?.unwrap_or(TlsVersion::V13);
    if low > high {
        return Err(Error::settings("ssl_min_protocol_version is higher than ssl_max_protocol_version"));
    }
    let sni = choice(said, "sslsni", SWITCHES)?.unwrap_or(true);
    Ok(TlsSettings { mode, direct, root, client, sni, versions: (low, high) })
}
