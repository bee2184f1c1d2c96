//! How long an answer takes, and when its first row comes: of a query, or of a command.

use crate::error::Error;
use crate::experiments::run_to_end;
use crate::limits::{ANSWERS, COMMAND_TIME_MAX};
use futures_util::TryStreamExt;
use millstream_host::Command;
use millstream_host::limits::PART_BYTES_MAX;
use millstream_pg::{ConnInfo, SessionSettings};
use serde::Serialize;
use std::time::Instant;
use tokio_postgres::Client;

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// A query.
    Query(String),
    /// A query whose answer is the query to run.
    Generated(String),
    /// A shell command, which prints a line for each row.
    Command(String),
}

/// Times of an answer, by the names of their metrics.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Answer {
    /// Seconds until its last row.
    pub wall_seconds: f64,
    /// Seconds until its first row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_seconds: Option<f64>,
}

/// Asks several times, over one session, and returns the answer of median length. Each must have so many values, all of
/// them distinct.
///
/// # Errors
/// [`Error::Wrong`] for other values; those of the server and the command.
pub async fn ask(db: &ConnInfo, settings: Option<&str>, question: &Question, values: usize) -> Result<Answer, Error> {
    let session = millstream_pg::connect(db, &SessionSettings::named("millstream lab")).await?;
    if let Some(settings) = settings {
        session.client.batch_execute(settings).await?;
    }
    let mut answers = Vec::new();
    for _ in 0..ANSWERS {
        let (answer, found) = once(&session.client, question).await?;
        check(found, values)?;
        answers.push(answer);
    }
    session.close().await;
    answers.sort_by(|a, b| a.wall_seconds.total_cmp(&b.wall_seconds));
    Ok(answers.swap_remove(answers.len() / 2))
}

async fn once(client: &Client, question: &Question) -> Result<(Answer, Vec<String>), Error> {
    let start = Instant::now();
    let generated: String;
    let sql = match question {
        Question::Command(command) => {
            let program = "the command";
            let measured = run_to_end(Command::new("/bin/sh").args(["-c", command]), program, COMMAND_TIME_MAX).await?;
            if !measured.is_whole {
                let why = format!("it prints more than {} bytes; ask for fewer values", 2 * PART_BYTES_MAX);
                return Err(Error::Program { program, why });
            }
            let answer = Answer { wall_seconds: measured.wall_seconds, first_seconds: measured.first_seconds };
            return Ok((answer, measured.ended.stdout.lines().map(str::to_owned).collect()));
        }
        Question::Query(sql) => sql,
        Question::Generated(sql) => {
            generated = client.query_one(sql, &[]).await?.try_get(0)?;
            &generated
        }
    };
    let rows = client.query_raw(sql, [""; 0]).await?;
    let mut rows = std::pin::pin!(rows);
    let (mut values, mut first_seconds) = (Vec::new(), None);
    while let Some(row) = rows.try_next().await? {
        first_seconds.get_or_insert_with(|| start.elapsed().as_secs_f64());
        values.push(row.try_get(0)?);
    }
    Ok((Answer { wall_seconds: start.elapsed().as_secs_f64(), first_seconds }, values))
}

/// Checks that an answer holds each value once.
fn check(mut found: Vec<String>, expected: usize) -> Result<(), Error> {
    let all = found.len();
    found.sort_unstable();
    found.dedup();
    match (all, found.len()) == (expected, expected) {
        true => Ok(()),
        false => Err(Error::Wrong(format!("{all} values, {} of them distinct, instead of {expected}", found.len()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_holds_each_value_once() {
        let check = |values: &[&str]| {
            check(values.iter().map(|value| (*value).to_owned()).collect(), 2).map_err(|error| error.to_string())
        };
        assert_eq!(check(&["b", "a"]), Ok(()));
        assert_eq!(check(&["a", "a"]).unwrap_err(), "wrong result: 2 values, 1 of them distinct, instead of 2");
        assert!(check(&["a", "b", "b"]).is_err());
    }
}
