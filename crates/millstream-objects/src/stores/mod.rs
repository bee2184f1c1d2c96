//! The stores: which credentials each takes, and where it is.

mod amazon;
mod azure;
mod connector;
mod google;
mod profile;
mod setting;
mod web;

use crate::address::Address;
use crate::cause::{Cause, CauseKind};
use crate::error::Error;
use crate::limits::{
    BACKOFF_FIRST_WAIT, BACKOFF_LONGEST_WAIT, CONNECT_WAIT, RANGES, RANGES_MAX, RETRIES_MAX, RETRY_WAIT,
};
use crate::runtime;
use object_store::{BackoffConfig, ClientOptions, HeaderMap, HeaderValue, ObjectStore, RetryConfig};
use std::fmt;
use std::sync::Arc;

/// A kind of store.
pub(crate) struct Kind {
    /// How its addresses begin.
    pub(crate) scheme: &'static str,
    /// Whether it lists its objects.
    pub(crate) lists: bool,
    /// What to do if it denies an object.
    pub(crate) denied: &'static str,
    /// What to do if it says that the object is at another address.
    elsewhere: &'static str,
    open: fn(&Address) -> Result<Opened, Error>,
}

/// Every kind of store, in the order of how common it is.
pub(crate) const KINDS: &[Kind] = &[amazon::KIND, google::KIND, azure::KIND, web::KIND, web::PLAIN];

/// The environment variable for the number of requests at once.
const RANGES_VARIABLE: &str = "MILLSTREAM_OBJECT_RANGES";

/// The way to a bucket.
pub(crate) struct Opened {
    pub(crate) client: Arc<dyn ObjectStore>,
    /// What no message may hold.
    pub(crate) secrets: Vec<String>,
}

/// A bucket, or a host.
pub(crate) struct Store {
    pub(crate) kind: &'static Kind,
    pub(crate) client: Arc<dyn ObjectStore>,
    /// Requests at once for one object.
    pub(crate) ranges: usize,
    secrets: Vec<String>,
}

impl Store {
    /// Opens the store of an address. Nothing is asked of it yet.
    ///
    /// # Errors
    /// There are no credentials, or a setting is not one.
    pub(crate) fn open(address: &Address) -> Result<Self, Error> {
        runtime::prepare();
        let kind = KINDS.iter().find(|kind| kind.scheme == address.scheme);
        let kind = kind.ok_or_else(|| Error::refused(format!("{} names no store", address.name), "use s3://"))?;
        let Opened { client, secrets } = (kind.open)(address)?;
        Ok(Self { kind, client, ranges: ranges(std::env::var(RANGES_VARIABLE).ok().as_deref())?, secrets })
    }

    /// A store that tests fill.
    #[cfg(test)]
    pub(crate) fn of(client: Arc<dyn ObjectStore>, ranges: usize) -> Self {
        runtime::prepare();
        Self { kind: &KINDS[0], client, ranges, secrets: Vec::new() }
    }

    /// What an error of the store means.
    pub(crate) fn cause(&self, error: &object_store::Error) -> Cause {
        Cause::of(error, &self.secrets)
    }

    /// The error of what was asked for by this name.
    pub(crate) fn error(&self, name: &str, error: &object_store::Error) -> Error {
        let cause = self.cause(error);
        let hint = match cause.kind {
            CauseKind::Missing if self.kind.lists => {
                "check the address; a pattern needs quotes, such as 's3://BUCKET/logs/*.json.gz'"
            }
            CauseKind::Missing => "check the address; a web server lists nothing, so name each object",
            CauseKind::Denied => self.kind.denied,
            CauseKind::Replaced => "run the same command again",
            CauseKind::Elsewhere => self.kind.elsewhere,
            CauseKind::Busy => "run the same command again later",
            CauseKind::NoRanges => {
                "let another program read it: curl -sSf URL | millstream load - --source-name NAME .."
            }
            CauseKind::Misspelled => {
                "keys with an empty part, or with . or .. as a part, are not read; copy the object"
            }
            // Asked for facts about an object, S3 does not say that its bucket is in another region.
            CauseKind::Other if self.kind.lists => {
                let hint = format!("check the address and the network; {}", self.kind.elsewhere);
                return Error::Store { name: name.to_owned(), cause: cause.text, hint };
            }
            CauseKind::Other => "check the address and the network",
        };
        Error::Store { name: name.to_owned(), cause: cause.text, hint: hint.to_owned() }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the client: it holds credentials.
        f.debug_struct("Store").field("scheme", &self.kind.scheme).finish_non_exhaustive()
    }
}

/// Requests at once, as the environment asks for it.
fn ranges(asked: Option<&str>) -> Result<usize, Error> {
    let Some(asked) = asked else { return Ok(RANGES) };
    let number = asked.parse().ok().filter(|number| (1..=RANGES_MAX).contains(number));
    number.ok_or_else(|| {
        let problem = format!("{RANGES_VARIABLE} takes 1 to {RANGES_MAX}");
        Error::refused(problem, format!("unset it for the default of {RANGES}"))
    })
}

/// How requests are made, as far as [`connector::Connector`] leaves it open. A request may take long as long as bytes arrive.
fn client_options(plain: bool, encoding: Option<&'static str>) -> ClientOptions {
    let options =
        ClientOptions::new().with_timeout_disabled().with_connect_timeout(CONNECT_WAIT).with_allow_http(plain);
    let Some(encoding) = encoding else { return options };
    let mut headers = HeaderMap::new();
    headers.insert("accept-encoding", HeaderValue::from_static(encoding));
    options.with_default_headers(headers)
}

/// How often each request is tried again.
fn retry() -> RetryConfig {
    let backoff = BackoffConfig {
        init_backoff: BACKOFF_FIRST_WAIT,
        max_backoff: BACKOFF_LONGEST_WAIT,
        ..BackoffConfig::default()
    };
    RetryConfig { backoff, max_retries: RETRIES_MAX, retry_timeout: RETRY_WAIT }
}

/// The error of a store that cannot be opened, because of a setting. Who reads the file of an account as JSON quotes values
/// of it.
fn unopened(name: &str, error: &object_store::Error, hint: &str) -> Error {
    Error::Store { name: name.to_owned(), cause: without_quoted(&Cause::of(error, &[]).text), hint: hint.to_owned() }
}

/// The text without what it quotes. A quote that does not end reaches to the end.
fn without_quoted(text: &str) -> String {
    let (mut shown, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(['"', '`']) {
        let (before, quoted) = rest.split_at(at);
        let (quote, quoted) = quoted.split_at(1);
        shown.extend([before, "***"]);
        rest = quoted.split_once(quote).map_or("", |(_, rest)| rest);
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::is_object;

    #[test]
    fn every_kind_of_store_has_an_address() {
        for kind in KINDS {
            assert!(is_object(&format!("{}://a/b", kind.scheme)), "{}", kind.scheme);
        }
    }

    #[test]
    fn an_error_of_a_setting_quotes_nothing() {
        for (text, shown) in [
            ("expected value at line 1", "expected value at line 1"),
            (
                "unknown variant `KEY`, expected `a` or `b` at line 1",
                "unknown variant ***, expected *** or *** at line 1",
            ),
            (
                "invalid type: string \"KEY\", expected a map at line 2",
                "invalid type: string ***, expected a map at line 2",
            ),
            ("no end: \"KEY", "no end: ***"),
            ("`\"KEY` é", "*** é"),
        ] {
            assert_eq!(without_quoted(text), shown);
        }
    }

    #[test]
    fn the_number_of_requests_at_once_is_bounded() {
        assert_eq!(ranges(None).unwrap(), RANGES);
        assert_eq!(ranges(Some("1")).unwrap(), 1);
        for asked in ["0", "17", "many", "-1", ""] {
            assert!(ranges(Some(asked)).unwrap_err().to_string().contains("1 to 16"), "{asked}");
        }
    }
}
