//! What a store said, without what it must not say again: addresses of requests and answers may hold credentials.

use object_store::Error as StoreError;
use std::error::Error as _;

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) kind: CauseKind,
    /// The end of a sentence.
    pub(crate) text: String,
}

/// What follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CauseKind {
    /// There is no such object or bucket.
    Missing,
    /// The credentials are missing, wrong or not enough.
    Denied,
    /// The object is of another version than was demanded.
    Replaced,
    /// The bucket is in another region.
    Elsewhere,
    /// The store asks for fewer requests, or is out of order.
    Busy,
    /// The server gives whole objects only.
    NoRanges,
    /// The address or the key is not one.
    Misspelled,
    /// Anything else, most often the network.
    Other,
}

/// How the errors of answers begin.
const ANSWERED: [&str; 2] = ["Server returned non-2xx status code: ", "Server returned error response: "];
const REDIRECTED: &str = "Received redirect without LOCATION";

/// Where an instance in a cloud asks for its credentials. Who asks there has no others.
const OF_INSTANCES: [&str; 2] = ["http://169.254.169.254/", "http://metadata.google.internal/"];

/// Longest code of an error that is shown.
const CODE_LENGTH: usize = 60;

impl Cause {
    /// The cause of an error. None of these secrets is in it.
    pub(crate) fn of(error: &StoreError, secrets: &[String]) -> Self {
        let cause = Self::told(error);
        Self { text: masked(&cause.text, secrets), ..cause }
    }

    fn told(error: &StoreError) -> Self {
        let cause = |kind, text: &str| Self { kind, text: text.to_owned() };
        match error {
            StoreError::Precondition { .. } => return cause(CauseKind::Replaced, "it was replaced"),
            StoreError::NotSupported { .. } => {
                return cause(CauseKind::NoRanges, "the server gives whole objects only");
            }
            StoreError::InvalidPath { source } => return cause(CauseKind::Misspelled, &source.to_string()),
            _ => {}
        }
        let mut texts = vec![error.to_string()];
        let mut next = error.source();
        while let Some(error) = next {
            texts.push(error.to_string());
            next = error.source();
        }
        let kind = match error {
            StoreError::NotFound { .. } => CauseKind::Missing,
            StoreError::PermissionDenied { .. } | StoreError::Unauthenticated { .. } => CauseKind::Denied,
            _ => CauseKind::Other,
        };
        if texts.iter().any(|text| OF_INSTANCES.iter().any(|service| text.contains(service))) {
            return cause(CauseKind::Denied, "there are no credentials, and this machine is no instance that has some");
        }
        if texts.iter().any(|text| text.starts_with(REDIRECTED)) {
            return cause(CauseKind::Elsewhere, "the bucket is in another region");
        }
        match texts.iter().find_map(|text| answer(text)) {
            Some((status, text)) => {
                let kind = match status {
                    301..=303 | 307 | 308 => CauseKind::Elsewhere,
                    400 if text.contains("AuthorizationHeaderMalformed") => CauseKind::Elsewhere,
                    400 if text.contains("Token") => CauseKind::Denied,
                    401 | 403 => CauseKind::Denied,
                    404 => CauseKind::Missing,
                    412 => CauseKind::Replaced,
                    429 | 500.. => CauseKind::Busy,
                    _ => kind,
                };
                Self { kind, text }
            }
            // The innermost one is the system's, and holds no address.
            None => Self { kind, text: without_addresses(texts.last().map_or("", String::as_str)) },
        }
    }
}

/// The status of an answer, and what is said about it: its name, and the store's code.
fn answer(text: &str) -> Option<(u16, String)> {
    let answer = ANSWERED.iter().find_map(|begin| text.strip_prefix(*begin))?;
    let code = answer.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>")).map(|(code, _)| code);
    let code = code.filter(|code| code.len() <= CODE_LENGTH && code.chars().all(|c| c.is_ascii_alphanumeric()));
    let status = answer.split(':').next().unwrap_or_default();
    // An error within a good answer has no status.
    let number = status.get(..3).and_then(|number| number.parse().ok());
    let said = match (number, code) {
        (Some(_), Some(code)) => format!("the store answered {status} ({code})"),
        (Some(_), None) => format!("the store answered {status}"),
        (None, code) => format!("the store answered with an error ({})", code.unwrap_or("without a code")),
    };
    Some((number.unwrap_or(500), said))
}

/// The text without words that are addresses, which may have a query.
fn without_addresses(text: &str) -> String {
    let shown = |word: &str| match word.contains("://") {
        true => "(an address)".to_owned(),
        false => word.to_owned(),
    };
    text.split(' ').map(shown).collect::<Vec<_>>().join(" ")
}

/// The text without these secrets.
fn masked(text: &str, secrets: &[String]) -> String {
    let given = secrets.iter().filter(|secret| !secret.is_empty());
    given.fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "***"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Said(&'static str);

    fn generic(text: &'static str) -> StoreError {
        StoreError::Generic { store: "S3", source: Box::new(Said(text)) }
    }

    #[test]
    fn an_answer_is_shortened_to_its_status_and_code() {
        for (text, kind, says) in [
            (
                "Server returned non-2xx status code: 503 Service Unavailable: <Error><Code>SlowDown</Code><Message>KEY",
                CauseKind::Busy,
                "the store answered 503 Service Unavailable (SlowDown)",
            ),
            (
                "Server returned non-2xx status code: 403 Forbidden: <Code>SignatureDoesNotMatch</Code><AWSAccessKeyId>KEY",
                CauseKind::Denied,
                "the store answered 403 Forbidden (SignatureDoesNotMatch)",
            ),
            (
                "Server returned non-2xx status code: 400 Bad Request: <Code>AuthorizationHeaderMalformed</Code>",
                CauseKind::Elsewhere,
                "the store answered 400 Bad Request (AuthorizationHeaderMalformed)",
            ),
            (
                "Server returned non-2xx status code: 400 Bad Request: <Code>ExpiredToken</Code>",
                CauseKind::Denied,
                "the store answered 400 Bad Request (ExpiredToken)",
            ),
            (
                "Server returned non-2xx status code: 502 Bad Gateway: <html>KEY",
                CauseKind::Busy,
                "the store answered 502 Bad Gateway",
            ),
            (
                "Server returned error response: <Error><Code>InternalError</Code>",
                CauseKind::Busy,
                "the store answered with an error (InternalError)",
            ),
            (
                "Server returned non-2xx status code: 404 Not Found: <Code>KEY KEY</Code>",
                CauseKind::Missing,
                "the store answered 404 Not Found",
            ),
            (
                "Received redirect without LOCATION, this normally",
                CauseKind::Elsewhere,
                "the bucket is in another region",
            ),
            (
                "Error performing PUT http://169.254.169.254/latest/api/token in 31s, after 10 retries",
                CauseKind::Denied,
                "there are no credentials, and this machine is no instance that has some",
            ),
            ("cannot reach https://h/a?sig=KEY now", CauseKind::Other, "cannot reach (an address) now"),
            ("the password is hidden", CauseKind::Other, "the *** is hidden"),
        ] {
            let cause = Cause::of(&generic(text), &["password".to_owned(), String::new()]);
            assert_eq!((cause.kind, cause.text.as_str()), (kind, says));
            assert!(!cause.text.contains("KEY"));
        }
    }

    #[test]
    fn the_kind_of_an_error_counts_where_there_is_no_answer() {
        let missing = StoreError::NotFound { path: "a".into(), source: Box::new(Said("no")) };
        assert_eq!(Cause::of(&missing, &[]).kind, CauseKind::Missing);
        let source = Box::new(Said("https://h/?sig=KEY"));
        let replaced = Cause::of(&StoreError::Precondition { path: "a".into(), source }, &[]);
        assert_eq!((replaced.kind, replaced.text.as_str()), (CauseKind::Replaced, "it was replaced"));
    }
}
