//! Where and how to connect: the settings libpq knows, read from text, variables and files as libpq reads them.

mod address;
mod encryption;
mod environment;
mod host;
mod keyvalue;
mod keyword;
mod passfile;
mod service;
mod url;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

pub use address::Address;
pub use encryption::{ClientCertificate, SslMode, TlsRoot, TlsSettings, TlsVersion};
pub use environment::Environment;
pub use host::{Host, Secret};

pub(crate) use environment::may_serve;

use encryption::tls;
use host::{add_passwords, hosts};
use tokio_postgres::config::ChannelBinding;

use crate::error::Error;
use crate::limits;
use crate::roster::Roster;

/// The settings given so far, by keyword. Later sources never replace earlier ones.
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
    /// Time limit for opening a session at one address; `None` waits without limit.
    pub connect_timeout: Option<Duration>,
    /// How a dead connection is detected.
    pub keepalives: Keepalives,
    /// Which servers are acceptable.
    pub target: TargetSession,
    /// Try hosts and addresses in random order.
    pub load_balance: bool,
    /// Whether the password exchange is bound to the TLS channel.
    pub channel_binding: ChannelBinding,
    /// Server settings sent at the start, in the form of `options`.
    pub options: Option<String>,
    /// The user's own application name. Ours follows it in brackets.
    pub application_name: Option<String>,
    /// The password file, if the connection string or a variable names one.
    passfile: Option<String>,
    warnings: Vec<String>,
    /// The sessions that are open through this value and its clones.
    pub roster: Roster,
}

/// Which servers are acceptable, as libpq's `target_session_attrs`.
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
    /// A server in recovery if there is one, else the first that answers.
    PreferStandby,
}

/// How a dead TCP connection is detected. `None` leaves the operating system's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keepalives {
    /// Whether TCP keepalives are used.
    pub on: bool,
    /// Idle time before the first probe.
    pub idle: Duration,
    /// Time between probes.
    pub interval: Duration,
    /// Unanswered probes after which the connection is dead.
    pub retries: u32,
    /// Time for which sent data may stay unacknowledged.
    pub user_timeout: Option<Duration>,
}

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

impl ConnInfo {
    /// Reads a connection string: a URL (`postgres://`, `postgresql://`), `key=value` pairs, a bare database name, or
    /// nothing. Settings that it lacks come from the service file, the `PG*` variables, the password file and libpq's
    /// defaults, in this order.
    ///
    /// # Errors
    /// An unknown keyword, a keyword that we do not support (named, with the reason), or a malformed value.
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
            passfile: said.get("passfile").cloned(),
            warnings,
            roster: Roster::default(),
        })
    }

    /// The same for another role, without the `options` of this one. The password of this one is not tried; the password
    /// file may have that of the other.
    pub fn as_role(&self, role: &str, env: &Environment) -> ConnInfo {
        let said: Said = self.passfile.iter().map(|file| ("passfile", file.clone())).collect();
        let mut other = ConnInfo { user: role.to_owned(), options: None, ..self.clone() };
        for host in &mut other.hosts {
            host.password = None;
        }
        add_passwords(&mut other.hosts, &said, env, role, &self.dbname, &mut other.warnings);
        other
    }

    /// The same for another server of its cluster, with more `options`. The role and the password are those of the first
    /// host. The roster is another one, because sessions are known by their process on one server.
    pub fn of_node(&self, host: &str, port: u16, options: &str) -> ConnInfo {
        let address = match (host.starts_with('/'), host.parse::<IpAddr>()) {
            (true, _) => Address::Socket(host.into()),
            (false, Ok(ip)) => Address::Ip(ip),
            (false, Err(_)) => Address::Name(host.to_owned()),
        };
        let name = (!host.starts_with('/')).then(|| host.to_owned());
        let password = self.hosts.first().and_then(|host| host.password.clone());
        let options = self.options.iter().map(String::as_str).chain([options]).collect::<Vec<_>>().join(" ");
        ConnInfo {
            hosts: vec![Host { name, address, port, password, is_searched: false }],
            options: Some(options),
            roster: Roster::default(),
            ..self.clone()
        }
    }

    /// The target for people to read, without password: a URL that connects to the same place, and the TLS mode.
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

    /// The connection string from which it was read, without its password. The second value says whether it had one; if
    /// not, the string is as it was given.
    ///
    /// # Errors
    /// As [`ConnInfo::parse`].
    pub fn without_password(&self, text: &str) -> Result<(String, bool), Error> {
        let mut said = text_settings(text.trim())?;
        if said.remove("password").is_none() {
            return Ok((text.to_owned(), false));
        }
        // What was taken from variables stays so in a shell that has them. The user and the database go together.
        said.insert("user", self.user.clone());
        said.insert("dbname", self.dbname.clone());
        Ok((keyvalue::shown_pairs(&said), true))
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

    /// What was ignored while reading and should be reported, for instance a password file that others can read.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
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
    } else if url::lacks_scheme(text) {
        Err(Error::settings_hint(
            "the database's URL does not begin with postgres://",
            "give it as postgres://USER@HOST:PORT/DB or \"host=.. dbname=..\"",
        ))
    } else if text.contains('=') {
        keyvalue::parse(text)
    } else if text.is_empty() {
        Ok(Said::new())
    } else {
        Ok(Said::from([("dbname", text.to_owned())]))
    }
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

/// An integer setting, as libpq reads it: there may be blanks around it, and nothing else.
fn number(said: &Said, keyword: &str) -> Result<Option<i64>, Error> {
    match said.get(keyword).map(|v| v.trim()).filter(|v| !v.is_empty()) {
        None => Ok(None),
        Some(text) => text.parse::<i32>().map(|n| Some(i64::from(n))).map_err(|_| {
            Error::settings(format!("invalid integer value \"{text}\" for connection option \"{keyword}\""))
        }),
    }
}

/// A setting with a fixed list of values.
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
