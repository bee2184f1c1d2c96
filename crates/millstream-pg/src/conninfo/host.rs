//! The servers of a connection string: where each is, and its password.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use super::{Address, Environment, Said, passfile};
use crate::error::Error;
use crate::limits;

/// One server of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The name as given, which a certificate must match; `None` for a bare `hostaddr` and for sockets.
    pub name: Option<String>,
    /// Where it is.
    pub address: Address,
    /// Its port; for a socket the number in the socket's file name.
    pub port: u16,
    /// The password for this host.
    pub password: Option<Secret>,
    /// No host was named, and the address is where we have looked for one.
    pub is_searched: bool,
}

/// A password. It is never shown.
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

impl Host {
    /// Name, address or socket directory, without port.
    pub fn place(&self) -> String {
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

pub(super) fn hosts(said: &Said, env: &Environment) -> Result<Vec<Host>, Error> {
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
            Error::settings_hint(format!("hostaddr \"{address}\" is not an IP address"), "put names into host")
        })?;
        return Ok(Host { name: given, address: Address::Ip(ip), port, password: None, is_searched: false });
    }
    if name.starts_with('@') {
        return Err(Error::settings_hint(
            format!("abstract Unix socket \"{name}\" is not supported"),
            "use a socket directory or a TCP host",
        ));
    }
    let is_searched = name.is_empty();
    let address = if is_searched {
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
    Ok(Host { name, address, port, password: None, is_searched })
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

/// Gives every host its password: the given one, else that of the password file for this host.
pub(super) fn add_passwords(
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
