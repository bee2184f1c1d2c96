//! Opening a session: hosts, addresses and TLS modes tried in libpq's order.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use millstream_model::shell_word;
use tokio_postgres::CancelToken;
use tokio_postgres::config::{SslMode as DriverMode, SslNegotiation};
use tokio_postgres::error::DbError;

use crate::connection::{Connection, ServerFacts};
use crate::conninfo::{Address, ConnInfo, Host, SslMode, TargetSession, TlsSettings};
use crate::error::{self, Error, NO_ANSWER};
use crate::identifier::quote_identifier;
use crate::kind::ErrorKind;
use crate::roster::Cancel;
use crate::session::SessionSettings;
use crate::socket::{Flooded, Place, Socket, Stranger};
use crate::{Explained, sqlstate, tls};

/// Opens a session on the first suitable host and sets the session's settings.
///
/// Hosts are tried in order (or at random), each with all its addresses. As in libpq, a server that answers and refuses
/// us (password, database) ends the search. One that is unreachable, starting, full or of the wrong kind does not.
///
/// # Errors
/// [`Error::Connect`] with the reason of every host; [`Error::Unusable`] for a database that is not UTF-8 or a server
/// that is too old; [`Error::Settings`] for certificate files that cannot be used.
pub async fn connect(info: &ConnInfo, session: &SessionSettings) -> Result<Connection, Error> {
    let passes: &[TargetSession] = match &info.target {
        TargetSession::PreferStandby => &[TargetSession::Standby, TargetSession::Any],
        other => std::slice::from_ref(other),
    };
    let mut failures = Vec::new();
    for &target in passes {
        failures.clear();
        for host in in_order(&info.hosts, info.load_balance) {
            match (Attempt { info, host, session }).connect(target).await {
                Ok(connection) => return Ok(connection),
                Err(error) if !another_host_may_do(error.kind()) => return Err(error),
                Err(error) => failures.push(error),
            }
        }
    }
    Err(all_failed(failures))
}

fn in_order<T>(items: &[T], shuffled: bool) -> Vec<&T> {
    let mut items: Vec<&T> = items.iter().collect();
    if shuffled {
        fastrand::shuffle(&mut items);
    }
    items
}

fn another_host_may_do(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Unreachable
            | ErrorKind::Transient
            | ErrorKind::TooManyConnections
            | ErrorKind::ReadOnly
            | ErrorKind::Tls
    )
}

/// Makes one error of the errors of several hosts. If a host may come back, its error decides the kind: then a retry
/// makes sense.
fn all_failed(mut failures: Vec<Error>) -> Error {
    if failures.len() == 1 {
        return failures.remove(0);
    }
    let decisive = failures.iter().find(|e| crate::may_pass(e.kind())).or(failures.first());
    let (kind, hint) = decisive.map_or((ErrorKind::Config, None), |e| (e.kind(), e.hint()));
    let sqlstate = decisive.and_then(Error::sqlstate).map(str::to_owned);
    let mut reasons = Vec::new();
    for failure in &failures {
        match failure {
            Error::Connect { target, message, .. } => reasons.push(format!("{target}: {message}")),
            other => reasons.push(other.to_string()),
        }
    }
    Error::Connect { target: "any host".to_owned(), kind, sqlstate, message: reasons.join("; "), hint }
}

/// Who connects, to which server, and with which settings.
#[derive(Debug, Clone, Copy)]
struct Attempt<'a> {
    info: &'a ConnInfo,
    host: &'a Host,
    session: &'a SessionSettings,
}

impl Attempt<'_> {
    async fn connect(self, target: TargetSession) -> Result<Connection, Error> {
        let Self { info, host, .. } = self;
        let mut last = None;
        for place in places(info, host).await? {
            match self.connect_place(&place).await {
                Ok(connection) => {
                    return match unsuitable(target, &connection.server) {
                        None => Ok(connection),
                        Some(message) => Err(failed(host, ErrorKind::ReadOnly, message, None)),
                    };
                }
                Err(error) if error.kind() == ErrorKind::Unreachable => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| failed(host, ErrorKind::Unreachable, "the name has no address".into(), None)))
    }

    /// Tries the kinds of encryption that the mode allows, in its order.
    async fn connect_place(self, place: &Place) -> Result<Connection, Error> {
        let Self { info, host, .. } = self;
        if matches!(place, Place::Unix(..)) {
            return self.attempt(place, DriverMode::Disable).await;
        }
        if info.tls.mode == SslMode::VerifyFull && host.name.is_none() {
            return Err(Error::settings_hint(
                "sslmode=verify-full needs a host name to check, and only hostaddr is given",
                "add host=NAME beside hostaddr",
            ));
        }
        let (first, second) = match info.tls.mode {
            SslMode::Disable => (DriverMode::Disable, None),
            SslMode::Allow => (DriverMode::Disable, Some(DriverMode::Require)),
            SslMode::Prefer => (DriverMode::Prefer, Some(DriverMode::Disable)),
            SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => (DriverMode::Require, None),
        };
        let refused = match self.attempt(place, first).await {
            Ok(connection) => return Ok(connection),
            Err(error) => error,
        };
        // Try the other encryption if TLS itself failed, or if pg_hba.conf has no line for this one.
        let other = refused.kind() == ErrorKind::Tls || refused.sqlstate() == Some("28000");
        match second.filter(|_| other) {
            None => Err(refused),
            Some(mode) => match self.attempt(place, mode).await {
                // If TLS fails, the first refusal says more.
                Err(again) if again.kind() == ErrorKind::Tls => Err(refused),
                answer => answer,
            },
        }
    }

    async fn attempt(self, place: &Place, mode: DriverMode) -> Result<Connection, Error> {
        let Self { info, host, session } = self;
        let config = self.config(mode);
        let name = host.place();
        let tls = tls::connector(&info.tls, &name)?;
        let open = async {
            let socket = Socket::open(place).await.map_err(|error| unreached(&error, host))?;
            let room = socket.room();
            let (client, connection) =
                config.connect_raw(socket, tls).await.map_err(|error| explain(&error, info, host))?;
            room.lift();
            let cancel = cancel(client.cancel_token(), place.clone(), info.tls.clone(), name.clone());
            let seat = (&info.roster, cancel);
            Connection::open(client, connection, session, host, seat).await.map_err(|error| in_opening(error, host))
        };
        within(info.connect_timeout, open).await.unwrap_or_else(|| {
            let hint = "is the host right, and does a firewall let us through? connect_timeout=SECONDS waits longer";
            Err(failed(host, ErrorKind::Unreachable, NO_ANSWER.to_owned(), Some(hint.to_owned())))
        })
    }

    fn config(self, mode: DriverMode) -> tokio_postgres::Config {
        let Self { info, host, session } = self;
        let mut config = tokio_postgres::Config::new();
        config.user(&info.user).dbname(&info.dbname).ssl_mode(mode);
        config.application_name(session.shown_name(info.application_name.as_deref()));
        if let Some(password) = &host.password {
            config.password(password.reveal());
        }
        if let Some(options) = info.options.as_deref().filter(|o| !o.is_empty()) {
            config.options(options);
        }
        if info.tls.direct && mode == DriverMode::Require {
            config.ssl_negotiation(SslNegotiation::Direct);
        }
        config.channel_binding(info.channel_binding);
        config
    }
}

/// Where a host listens: its socket, or its numeric addresses.
async fn places(info: &ConnInfo, host: &Host) -> Result<Vec<Place>, Error> {
    let at = |ip: IpAddr| Place::Tcp(ip, host.port, info.keepalives.clone());
    let name = match &host.address {
        Address::Socket(dir) => {
            return Ok(vec![Place::Unix(dir.join(format!(".s.PGSQL.{}", host.port)), host.is_searched)]);
        }
        Address::Ip(ip) => return Ok(vec![at(*ip)]),
        Address::Name(name) => name,
    };
    let found = within(info.connect_timeout, tokio::net::lookup_host((name.as_str(), host.port))).await;
    let unknown = |reason: String| {
        let hint = "check the spelling of the host and the name service of this machine".to_owned();
        failed(host, ErrorKind::Unreachable, format!("could not translate the host name: {reason}"), Some(hint))
    };
    match found {
        Some(Ok(found)) => {
            let mut list: Vec<IpAddr> = found.map(|a| a.ip()).collect();
            list.dedup();
            Ok(in_order(&list, info.load_balance).into_iter().map(|ip| at(*ip)).collect())
        }
        Some(Err(error)) => Err(unknown(error.to_string())),
        None => Err(unknown(NO_ANSWER.to_owned())),
    }
}

/// Asks the server to cancel what a session does, over a connection of its own.
fn cancel(token: CancelToken, place: Place, settings: TlsSettings, name: String) -> Cancel {
    Box::new(move || {
        let (token, place, settings, name) = (token.clone(), place.clone(), settings.clone(), name.clone());
        Box::pin(async move {
            // If it fails, nothing is cancelled, and the server soon notices that the client is gone.
            let Ok(socket) = Socket::open(&place).await else { return };
            if let Ok(tls) = tls::connector(&settings, &name) {
                let _ = token.cancel_query_raw(socket, tls).await;
            }
        })
    })
}

/// The future's output, or `None` if the time is up first.
async fn within<F: Future>(timeout: Option<Duration>, future: F) -> Option<F::Output> {
    match timeout {
        Some(timeout) => tokio::time::timeout(timeout, future).await.ok(),
        None => Some(future.await),
    }
}

/// Why a server does not match `target_session_attrs`; `None` if it does.
fn unsuitable(target: TargetSession, server: &ServerFacts) -> Option<String> {
    let read_only = server.read_only || server.in_recovery;
    let fits = match target {
        TargetSession::Any | TargetSession::PreferStandby => true,
        TargetSession::ReadWrite => !read_only,
        TargetSession::ReadOnly => read_only,
        TargetSession::Primary => !server.in_recovery,
        TargetSession::Standby => server.in_recovery,
    };
    let is = match (server.in_recovery, server.read_only) {
        (true, _) => "a standby",
        (false, true) => "a read-only primary",
        (false, false) => "a read-write primary",
    };
    (!fits).then(|| format!("the server is {is}, but target_session_attrs={target}"))
}

fn failed(host: &Host, kind: ErrorKind, message: String, hint: Option<String>) -> Error {
    Error::Connect { target: host.to_string(), kind, sqlstate: None, message, hint }
}

/// A failure after the login, while the settings are set.
fn in_opening(error: Error, host: &Host) -> Error {
    match error {
        Error::Server { kind, sqlstate, message, .. } => Error::Connect {
            target: host.to_string(),
            kind,
            hint: error::code_hint(&sqlstate, &message).or(kind.hint()).map(str::to_owned),
            sqlstate: Some(sqlstate),
            message: format!("the session could not be set up: {message}"),
        },
        Error::Lost { message } => failed(host, ErrorKind::Transient, message, None),
        other => other,
    }
}

/// A failure before the session is open.
fn explain(error: &tokio_postgres::Error, info: &ConnInfo, host: &Host) -> Error {
    if let Some(db) = error.as_db_error() {
        let code = db.code().code();
        let kind = match sqlstate::classify(error) {
            ErrorKind::Bug => ErrorKind::Config,
            kind => kind,
        };
        return Error::Connect {
            target: host.to_string(),
            kind,
            sqlstate: Some(code.to_owned()),
            message: db.message().to_owned(),
            hint: login_hint(code, db, info)
                .or_else(|| error::code_hint(code, db.message()).or(kind.hint()).map(str::to_owned)),
        };
    }
    if error::causes(error).any(|cause| cause.is::<Flooded>()) {
        return failed(host, ErrorKind::Config, Flooded.to_string(), Some(is_it_postgres(host)));
    }
    if let Some((message, hint)) = tls::explain(error, &info.tls) {
        return failed(host, ErrorKind::Tls, message, hint);
    }
    let text = error::driver_text(error);
    if text.contains("password missing") {
        let message = format!("the server asks for the password of \"{}\", and none is given", info.user);
        let hint = "set PGPASSWORD, or add a line to ~/.pgpass (mode 0600): host:port:database:user:password";
        return failed(host, ErrorKind::Auth, message, Some(hint.to_owned()));
    }
    if let Some(io) = error::causes(error).find_map(|cause| cause.downcast_ref::<io::Error>()) {
        return unreached(io, host);
    }
    let kind = match sqlstate::classify(error) {
        ErrorKind::Transient => ErrorKind::Unreachable,
        _ if text.contains("authentication") => ErrorKind::Auth,
        _ => ErrorKind::Config,
    };
    failed(host, kind, text, None)
}

/// The connection to a host fails or breaks before the session is open.
fn unreached(error: &io::Error, host: &Host) -> Error {
    if error.get_ref().is_some_and(|cause| cause.is::<Stranger>()) {
        let hint = format!("if you trust that user with your password, name the directory: host={}", host.place());
        return failed(host, ErrorKind::Config, error.to_string(), Some(hint));
    }
    let hint = match error.kind() {
        io::ErrorKind::NotFound if host.is_searched => {
            let place = "if its socket is elsewhere, name the directory: host=/tmp";
            format!("is a server listening on {host}? {place}; `millstream db start` starts a local one")
        }
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
            format!("is a server listening on {host}? `millstream db start` starts a local one")
        }
        io::ErrorKind::PermissionDenied => "this user may not open the socket; connect by TCP".to_owned(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => is_it_postgres(host),
        _ => "check host, port and network".to_owned(),
    };
    failed(host, ErrorKind::Unreachable, plain(error), Some(hint))
}

fn is_it_postgres(host: &Host) -> String {
    format!("is it a PostgreSQL server that listens on {host}?")
}

/// The operating system's message in our style: without capital letter and number.
fn plain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::NotFound => "there is no such socket".to_owned(),
        _ => error.to_string(),
    }
}

fn login_hint(code: &str, error: &DbError, info: &ConnInfo) -> Option<String> {
    match code {
        // The server's routine tells whose limit it is, in any language of the server.
        "53300" if error.routine() == Some("InitializeSessionUserId") => Some(format!(
            "the role has a connection limit of its own: end its idle sessions, use fewer lanes or workers, or: alter role {} \
             connection limit N",
            quote_identifier(&info.user)
        )),
        "53300" if error.routine() == Some("CheckMyDatabase") => Some(format!(
            "the database has a connection limit of its own: end idle sessions, use fewer lanes or workers, or: alter database \
             {} connection limit N",
            quote_identifier(&info.dbname)
        )),
        "28P01" => Some("check the password in the connection string, PGPASSWORD or ~/.pgpass".to_owned()),
        "28000" if info.tls.mode < SslMode::Require => {
            Some("pg_hba.conf on the server decides who may log in from where; it may want sslmode=require".to_owned())
        }
        "28000" => Some("pg_hba.conf on the server decides who may log in from where".to_owned()),
        "3D000" => Some(format!("create it with `createdb {}`, or name another database", shell_word(&info.dbname))),
        "08P01" if error.message().contains("startup parameter") => Some(
            "a pooler stands between; let it pass or ignore this parameter (PgBouncer: ignore_startup_parameters)"
                .to_owned(),
        ),
        _ => None,
    }
}
