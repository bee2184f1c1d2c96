//! Opens sessions where there may be too few: several at once, or as many as there are, or one as soon as there is one.

use crate::attempt::connect;
use crate::connection::Connection;
use crate::conninfo::ConnInfo;
use crate::error::Error;
use crate::explained::Explained;
use crate::identifier::quote_literal;
use crate::kind::ErrorKind;
use crate::limits::{FREE_SESSION_WAIT_S, FURTHER_SESSIONS_TRIES_MAX, FURTHER_SESSIONS_WAIT_S, SESSION_END_WAIT_MS};
use crate::poll::Poll;
use crate::session::SessionSettings;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

/// Sessions that were opened at once.
#[derive(Debug)]
pub struct Several {
    /// At least one, with the first of the settings.
    pub open: Vec<Connection>,
    /// Why there are no more, if there are fewer than asked for.
    pub lacking: Option<String>,
}

/// Opens a session for each of some settings, which differ only in the session's name, or as many of them as there are.
/// Once one is open, the others have [`FURTHER_SESSIONS_WAIT_S`]: a pool without a free connection does not answer.
///
/// # Errors
/// Those of [`connect`] if there is no session at all.
pub async fn connect_several(info: &ConnInfo, sessions: &[SessionSettings]) -> Result<Several, Error> {
    let mut connecting = JoinSet::new();
    for (n, session) in sessions.iter().cloned().enumerate() {
        let info = info.clone();
        connecting.spawn(async move { (n, connect(&info, &session).await) });
    }
    let (mut opened, mut failure, mut end) = (Vec::new(), None, None);
    let silent = loop {
        let joined = match end {
            None => connecting.join_next().await,
            Some(end) => match timeout_at(end, connecting.join_next()).await {
                Ok(joined) => joined,
                Err(_) => break Some(format!("no answer in {FURTHER_SESSIONS_WAIT_S} s")),
            },
        };
        match joined {
            None => break None,
            Some(Err(panic)) => std::panic::resume_unwind(panic.into_panic()),
            Some(Ok((n, Ok(connection)))) => {
                opened.push((n, connection));
                end.get_or_insert_with(|| Instant::now() + Duration::from_secs(FURTHER_SESSIONS_WAIT_S));
            }
            Some(Ok((_, Err(error)))) => failure = failure.or(Some(error)),
        }
    };
    // The server may still answer those that nobody waits for any more.
    connecting.shutdown().await;
    // Sessions that begin at once count each other, so a limit may refuse more of them than it must.
    let end = end.unwrap_or_else(|| Instant::now() + Duration::from_secs(FURTHER_SESSIONS_WAIT_S));
    let mut refused = 0;
    while refused < FURTHER_SESSIONS_TRIES_MAX && failure.as_ref().is_some_and(is_limit) {
        let Some(n) = (0..sessions.len()).find(|n| opened.iter().all(|(place, _)| place != n)) else { break };
        tokio::time::sleep(Duration::from_millis(SESSION_END_WAIT_MS)).await;
        match timeout_at(end, connect(info, &sessions[n])).await {
            Ok(Ok(connection)) => opened.push((n, connection)),
            Ok(Err(_)) => refused += 1,
            Err(_) => break,
        }
    }
    if opened.len() == sessions.len() {
        failure = None;
    }
    let lacking = failure.as_ref().map(ToString::to_string).or(silent);
    if let Some(error) = failure.filter(|_| opened.is_empty()) {
        return Err(error);
    }
    opened.sort_by_key(|(n, _)| *n);
    let mut open = Vec::with_capacity(opened.len());
    for ((n, connection), (place, session)) in opened.into_iter().zip(sessions.iter().enumerate()) {
        if n != place {
            let name = quote_literal(&session.shown_name(info.application_name.as_deref()));
            connection.client.batch_execute(&format!("set application_name = {name}")).await?;
        }
        open.push(connection);
    }
    Ok(Several { open, lacking })
}

/// Opens a session. While the server, the database or the role allows no more of them, waits for one that ends, for
/// [`FREE_SESSION_WAIT_S`] at most.
///
/// # Errors
/// Those of [`connect`].
pub async fn connect_when_free(info: &ConnInfo, session: &SessionSettings) -> Result<Connection, Error> {
    let full = Poll::new(Duration::from_millis(SESSION_END_WAIT_MS), Duration::from_secs(FREE_SESSION_WAIT_S));
    loop {
        match connect(info, session).await {
            Err(error) if is_limit(&error) && full.again().await => {}
            connected => return connected,
        }
    }
}

fn is_limit(error: &Error) -> bool {
    error.kind() == ErrorKind::TooManyConnections
}
