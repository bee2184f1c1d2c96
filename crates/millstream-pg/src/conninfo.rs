//! Where and how to connect: the settings libpq knows, read from text, variables and files as libpq reads them.

mod environment;
mod keyvalue;
mod keyword;
mod passfile;
mod service;
mod url;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use environment::Environment;

use crate::error::Error;
use crate::limits;

/// What was said, by keyword: later sources never replace earlier ones.
pub(crate) type Said = BTreeMap<&'static str, String>;

/// A complete, checked description of the servers to try and of how to talk to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnInfo {
    /// The hosts in the order they are tried, at least one.
    pub hosts: Vec<Host>,
    /// The role to log in as.
    pub user: String,
    /// The database.
    pub dbname: String,
    /// Encryption and certificates.
    pub tls: TlsSettings,
    /// Time one address may take until the session stands; `None` waits without end.
    pub connect_timeout: Option<Duration>,
    /// How a silent connection is noticed.
    pub keepalives: Keepalives,
    /// Which servers are good enough.
    pub target: TargetSession,
    /// Try hosts and addresses in random order.
    pub load_balance: bool,
    /// Binding the password exchange to the TLS channel.
    pub channel_binding: ChannelBinding,
    /// Server settings sent at the start, in the form of `options`.
    pub options: Option<String>,
    /// The user's own application name; ours is put in brackets behind it.
    pub application_name: Option<String>,
    warnings: Vec<String>,
}

/// One server of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The name as given: what a certificate is checked against; `None` for a bare `hostaddr` and for sockets.
    pub name: Option<String>,
    /// Where it is.
    pub address: Address,
    /// Its port; for a socket the number in the socket's file name.
    pub port: u16,
    /// The password for this host.
    pub password: Option<Secret>,
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// The directory of a Unix socket.
    Socket(PathBuf),
    /// A name to be resolved.
    Name(String),
    /// A numeric address (`hostaddr`).
    Ip(IpAddr),
}

/// A password: never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The password itself, for the login only.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Encryption and certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// Whether, and how strictly.
    pub mode: SslMode,
    /// TLS from the first byte, without asking (PostgreSQL 17 and later).
    pub direct: bool,
    /// Which authorities sign server certificates.
    pub root: TlsRoot,
    /// Our certificate and its key, in PEM.
    pub client: Option<ClientCertificate>,
    /// Send the host name before encryption starts.
    pub sni: bool,
    /// Lowest and highest protocol version, `TLSv1.2` or `TLSv1.3`.
    pub versions: (TlsVersion, TlsVersion),
}

/// Which authorities sign server certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TlsRoot {
    /// This file, which need not exist unless the mode verifies.
    File(PathBuf),
    /// The operating system's.
    System,
    /// None known: no home directory and no `sslrootcert`.
    None,
}

/// Our certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// PEM file of the certificate, followed by its intermediates.
    pub certificate: PathBuf,
    /// PEM file of the key.
    pub key: PathBuf,
    /// Named by the user: the file must exist. The default file may be missing.
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
    /// Only where the server insists.
    Allow,
    /// Where the server can.
    Prefer,
    /// Always; the certificate is checked only where a root certificate is at hand.
    Require,
    /// Always, signed by a known authority.
    VerifyCa,
    /// Always, signed by a known authority and made for this host.
    VerifyFull,
}

/// Which servers are good enough, as libpq's `target_session_attrs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetSession {
    /// The first that answers.
    Any,
    /// Takes writes.
    ReadWrite,
    /// Takes no writes.
    ReadOnly,
    /// Not in recovery.
    Primary,
    /// In recovery.
    Standby,
    /// In recovery if there is one, else the first that answers.
    PreferStandby,
}

/// Whether the password exchange is bound to the TLS channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelBinding {
    /// Never.
    Disable,
    /// Where both sides can.
    Prefer,
    /// Always, or no login.
    Require,
}

/// How a silent TCP connection is noticed. `None` leaves the operating system's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keepalives {
    /// At all.
    pub on: bool,
    /// Silence before the first question.
    pub idle: Duration,
    /// Time between questions.
    pub interval: Duration,
    /// Questions without answer before giving up.
    pub retries: u32,
    /// Time sent data may stay unacknowledged.
    pub user_timeout: Option<Duration>,
}

const SSL_MODES: &[(&str, SslMode)] = &[
    ("disable", SslMode::Disable),
    ("allow", SslMode::Allow),
    ("prefer", SslMode::Prefer),
    ("require", SslMode::Require),
    ("verify-ca", SslMode::VerifyCa),
    ("verify-full", SslMode::VerifyFull),
];

const TARGET_SESSIONS: &[(&str, TargetSession)] = &[
    ("any", TargetSession::Any),
    ("read-write", TargetSession::ReadWrite),
    ("read-only", TargetSession::ReadOnly),
    ("primary", TargetSession::Primary),
    ("standby", TargetSession::Standby),
    ("prefer-standby", TargetSession::PreferStandby),
];

const CHANNEL_BINDINGS: &[(&str, ChannelBinding)] =
    &[("disable", ChannelBinding::Disable), ("prefer", ChannelBinding::Prefer), ("require", ChannelBinding::Require)];

const TLS_VERSIONS: &[(&str, TlsVersion)] = &[("TLSv1.2", TlsVersion::V12), ("TLSv1.3", TlsVersion::V13)];

const SWITCHES: &[(&str, bool)] = &[("0", false), ("1", true)];

impl ConnInfo {
    /// Reads a connection string: a URL (`postgres://`, `postgresql://`), `key=value` pairs, a bare database name, or
    /// nothing. What it leaves open comes from the service file, the `PG*` variables, the password file and libpq's
    /// defaults, in this order.
    ///
    /// # Errors
    /// An unknown keyword, a keyword we cannot honour (named, with the reason), a malformed value.
    pub fn parse(text: &str, env: &Environment) -> Result<ConnInfo, Error> {
        let mut said = text_settings(text.trim())?;
        service::add(&mut said, env)?;
        keyword::add_variables(&mut said, env);
        let mut warnings = Vec::new();
        keyword::check(&said)?;

        let user = match said.get("user").filter(|u| !u.is_empty()) {
            Some(user) => user.clone(),
            None => env.user().map(str::to_owned).ok_or_else(|| {
                Error::settings_hint(
                    "the name of the database user is not known",
                    "say user=NAME in the connection string",
                )
            })?,
        };
        let dbname = said.get("dbname").filter(|d| !d.is_empty()).cloned().unwrap_or_else(|| user.clone());
        let mut hosts = hosts(&said, env)?;
        add_passwords(&mut hosts, &said, env, &user, &dbname, &mut warnings);
        Ok(ConnInfo {
            hosts,
            user,
            dbname,
            tls: tls(&said, env)?,
            connect_timeout: connect_timeout(&said)?,
            keepalives: keepalives(&said)?,
            target: choice(&said, "target_session_attrs", TARGET_SESSIONS)?.unwrap_or(TargetSession::Any),
            load_balance: choice(&said, "load_balance_hosts", &[("disable", false), ("random", true)])?
                .unwrap_or(false),
            channel_binding: choice(&said, "channel_binding", CHANNEL_BINDINGS)?.unwrap_or(ChannelBinding::Prefer),
            options: said.get("options").cloned(),
            application_name: said.get("application_name").or(said.get("fallback_application_name")).cloned(),
            warnings,
        })
    }

    /// The target for people, without password: a URL that connects to the same place, and the TLS mode.
    pub fn describe(&self) -> String {
        let user = url::encode(&self.user);
        let dbname = url::encode(&self.dbname);
        if self.hosts.iter().any(|h| matches!(h.address, Address::Socket(_))) {
            let names: Vec<String> = self.hosts.iter().map(Host::place).collect();
            let ports: Vec<String> = self.hosts.iter().map(|h| h.port.to_string()).collect();
            return format!("postgres://{user}@/{dbname}?host={}&port={}", names.join(","), ports.join(","));
        }
        let hosts: Vec<String> = self.hosts.iter().map(ToString::to_string).collect();
        format!("postgres://{user}@{}/{dbname} (sslmode={})", hosts.join(","), self.tls.mode)
    }

    /// Whether every host is this machine: a socket or a loopback address.
    pub fn is_local(&self) -> bool {
        self.hosts.iter().all(|host| match &host.address {
            Address::Socket(_) => true,
            Address::Ip(ip) => ip.is_loopback(),
            Address::Name(name) => {
                name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
            }
        })
    }

    /// What was ignored while reading and should be said, for instance a password file others can read.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

impl Host {
    /// Name, address or socket directory, without port.
    fn place(&self) -> String {
        match (&self.name, &self.address) {
            (Some(name), _) | (None, Address::Name(name)) => name.clone(),
            (None, Address::Ip(ip)) => ip.to_string(),
            (None, Address::Socket(dir)) => dir.display().to_string(),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.place();
        match &self.address {
            Address::Socket(_) => write!(f, "{place}/.s.PGSQL.{}", self.port),
            _ if place.contains(':') => write!(f, "[{place}]:{}", self.port),
            _ => write!(f, "{place}:{}", self.port),
        }
    }
}

impl fmt::Display for SslMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name_of(SSL_MODES, *self))
    }
}

impl fmt::Display for TargetSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name_of(TARGET_SESSIONS, *self))
    }
}

fn name_of<T: PartialEq + Copy>(list: &[(&'static str, T)], value: T) -> &'static str {
    list.iter().find(|(_, v)| *v == value).map_or("?", |(name, _)| name)
}

fn text_settings(text: &str) -> Result<Said, Error> {
    if url::is_url(text) {
        url::parse(text)
    } else if text.contains('=') {
        keyvalue::parse(text)
    } else if text.is_empty() {
        Ok(Said::new())
    } else {
        Ok(Said::from([("dbname", text.to_owned())]))
    }
}

fn hosts(said: &Said, env: &Environment) -> Result<Vec<Host>, Error> {
    let list = |keyword: &str| -> Vec<&str> {
        said.get(keyword).filter(|v| !v.is_empty()).map_or_else(Vec::new, |v| v.split(',').map(str::trim).collect())
    };
    let (names, addresses, ports) = (list("host"), list("hostaddr"), list("port"));
    let count = names.len().max(addresses.len()).max(1);
    if count > limits::HOSTS_MAX {
        return Err(Error::settings(format!("{count} hosts are more than {}", limits::HOSTS_MAX)));
    }
    if !names.is_empty() && !addresses.is_empty() && names.len() != addresses.len() {
        return Err(Error::settings(format!(
            "could not match {} host names to {} hostaddr values",
            names.len(),
            addresses.len()
        )));
    }
    if ports.len() > 1 && ports.len() != count {
        return Err(Error::settings(format!("could not match {} port numbers to {count} hosts", ports.len())));
    }
    (0..count)
        .map(|i| {
            let port = port(ports.get(i).or(ports.first()).copied().unwrap_or(""))?;
            host(names.get(i).copied().unwrap_or(""), addresses.get(i).copied().unwrap_or(""), port, env)
        })
        .collect()
}

fn host(name: &str, address: &str, port: u16, env: &Environment) -> Result<Host, Error> {
    let given = (!name.is_empty()).then(|| name.to_owned());
    if !address.is_empty() {
        let ip = address.parse::<IpAddr>().map_err(|_| {
            Error::settings_hint(format!("hostaddr \"{address}\" is no IP address"), "put names into host")
        })?;
        return Ok(Host { name: given, address: Address::Ip(ip), port, password: None });
    }
    if name.starts_with('@') {
        return Err(Error::settings_hint(
            format!("abstract Unix socket \"{name}\" is not supported"),
            "use a socket directory or a TCP host",
        ));
    }
    let address = if name.is_empty() {
        env.default_address(port)
    } else if name.starts_with('/') {
        Address::Socket(PathBuf::from(name))
    } else {
        Address::Name(name.to_owned())
    };
    let name = match &address {
        Address::Name(name) => Some(name.clone()),
        _ => None,
    };
    Ok(Host { name, address, port, password: None })
}

fn port(text: &str) -> Result<u16, Error> {
    if text.is_empty() {
        return Ok(5432);
    }
    text.parse::<u16>()
        .ok()
        .filter(|&port| port > 0)
        .ok_or_else(|| Error::settings(format!("invalid port number \"{text}\", not between 1 and 65535")))
}

fn add_passwords(
    hosts: &mut [Host],
    said: &Said,
    env: &Environment,
    user: &str,
    dbname: &str,
    warnings: &mut Vec<String>,
) {
    if let Some(password) = said.get("password").filter(|p| !p.is_empty()) {
        for host in hosts {
            host.password = Some(Secret(password.clone()));
        }
        return;
    }
    let path = match said.get("passfile").filter(|p| !p.is_empty()) {
        Some(path) => PathBuf::from(path),
        None => match env.home() {
            Some(home) => home.join(".pgpass"),
            None => return,
        },
    };
    let Some(text) = passfile::read(&path, warnings) else { return };
    for host in hosts {
        let name = match &host.address {
            Address::Socket(dir) if env.is_default_socket_dir(dir) => "localhost".to_owned(),
            _ => host.place(),
        };
        host.password = passfile::find(&text, &name, host.port, dbname, user).map(Secret);
    }
}

fn tls(said: &Said, env: &Environment) -> Result<TlsSettings, Error> {
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

fn connect_timeout(said: &Said) -> Result<Option<Duration>, Error> {
    let seconds = match number(said, "connect_timeout")? {
        None => i64::try_from(limits::CONNECT_TIMEOUT_S).unwrap_or(i64::MAX),
        Some(seconds) => seconds,
    };
    Ok(u64::try_from(seconds).ok().filter(|&s| s > 0).map(Duration::from_secs))
}

fn keepalives(said: &Said) -> Result<Keepalives, Error> {
    let positive = |keyword| -> Result<Option<u64>, Error> {
        Ok(number(said, keyword)?.and_then(|n| u64::try_from(n).ok()).filter(|&n| n > 0))
    };
    let retries = positive("keepalives_count")?.and_then(|n| u32::try_from(n).ok());
    Ok(Keepalives {
        on: number(said, "keepalives")?.unwrap_or(1) != 0,
        idle: Duration::from_secs(positive("keepalives_idle")?.unwrap_or(limits::KEEPALIVE_IDLE_S)),
        interval: Duration::from_secs(positive("keepalives_interval")?.unwrap_or(limits::KEEPALIVE_INTERVAL_S)),
        retries: retries.unwrap_or(limits::KEEPALIVE_RETRIES),
        user_timeout: positive("tcp_user_timeout")?.map(Duration::from_millis),
    })
}

/// An integer setting, as libpq reads it: blanks around it are fine, anything else is not.
fn number(said: &Said, keyword: &str) -> Result<Option<i64>, Error> {
    match said.get(keyword).map(|v| v.trim()).filter(|v| !v.is_empty()) {
        None => Ok(None),
        Some(text) => text.parse::<i32>().map(|n| Some(i64::from(n))).map_err(|_| {
            Error::settings(format!("invalid integer value \"{text}\" for connection option \"{keyword}\""))
        }),
    }
}

/// A setting with a closed list of values.
fn choice<T: Copy>(said: &Said, keyword: &str, list: &[(&str, T)]) -> Result<Option<T>, Error> {
    match said.get(keyword).filter(|v| !v.is_empty()) {
        None => Ok(None),
        Some(text) => match list.iter().find(|(name, _)| name == text) {
            Some((_, value)) => Ok(Some(*value)),
            None => {
                let names: Vec<&str> = list.iter().map(|(name, _)| *name).collect();
                Err(Error::settings_hint(
                    format!("invalid {keyword} value: \"{text}\""),
                    format!("{keyword} is one of {}", names.join(", ")),
                ))
            }
        },
    }
}

#[cfg(test)]
mod tests;
