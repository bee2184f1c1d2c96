//! Settings of the client, read from a file with the names that librdkafka gives them.

use crate::address::broker;
use crate::error::Error;
use crate::limits::{PATIENCE_SHARE, POLL_INTERVAL, RELEASE_SLACK, SESSION_TIMEOUT};
use std::path::PathBuf;
use std::time::Duration;

/// Settings of the client.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Properties {
    /// More brokers to ask first.
    pub brokers: Vec<String>,
    /// What the brokers call this client.
    pub client_id: Option<String>,
    /// The group for which offsets are written, for tools that show how far it is behind. Who joins it is a member of it.
    pub group: Option<String>,
    /// What this member of the group calls itself. One that has a name keeps its partitions while it is restarted.
    pub instance: Option<String>,
    /// How members and brokers speak with each other.
    pub protocol: Protocol,
    /// What divides the partitions, if the brokers do; the brokers' own choice if it is `None`.
    pub assignor: Option<String>,
    /// How long a broker goes without a heartbeat of a member before that counts as gone. If the brokers divide the partitions,
    /// they say so themselves, and this only repeats it.
    pub session_timeout: Option<Duration>,
    /// How often a member sends a heartbeat, if the members divide the partitions themselves.
    pub heartbeat: Option<Duration>,
    /// How long a member may take to release partitions before it counts as gone.
    pub poll_interval: Option<Duration>,
    /// How often members look for partitions that were added, if they divide the partitions themselves.
    pub metadata_interval: Option<Duration>,
    /// Whether connections are encrypted.
    pub tls: bool,
    /// How the client proves who it is.
    pub sasl: Option<Sasl>,
    /// Certificates of those who sign the brokers' certificates.
    pub ca: Option<PathBuf>,
    /// The client's own certificate, and the file of its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Bytes that a broker returns at once.
    pub fetch_bytes: Option<i32>,
    /// Bytes of one partition that a broker returns at once.
    pub partition_fetch_bytes: Option<i32>,
    /// How long a broker waits for records.
    pub fetch_wait: Option<Duration>,
    /// How long an answer may take.
    pub request_timeout: Option<Duration>,
    /// The rack of this client, so that it reads from a near replica.
    pub rack: Option<String>,
}

/// How the members of a group and the brokers speak with each other. Members of both kinds can be in one group only if the
/// brokers are of Kafka 4.0 or later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// The brokers divide the partitions. They are of Kafka 4.0 or later.
    #[default]
    Consumer,
    /// The members divide the partitions.
    Classic,
}

/// How a client proves who it is.
#[derive(Clone, PartialEq, Eq)]
pub struct Sasl {
    /// How.
    pub mechanism: Mechanism,
    /// Who.
    pub username: String,
    /// The password.
    pub password: String,
}

/// A way to prove who one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// The password is sent.
    Plain,
    /// SCRAM with SHA-256.
    ScramSha256,
    /// SCRAM with SHA-512.
    ScramSha512,
}

/// Without passwords.
impl std::fmt::Debug for Properties {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { brokers, client_id, group, tls, sasl, ca, certificate, .. } = self;
        let sasl = sasl.as_ref().map(|sasl| (sasl.mechanism, &sasl.username));
        f.debug_struct("Properties")
            .field("brokers", brokers)
            .field("client_id", client_id)
            .field("group", group)
            .field("tls", tls)
            .field("sasl", &sasl)
            .field("ca", ca)
            .field("certificate", certificate)
            .finish_non_exhaustive()
    }
}

/// Settings that others have, and what takes their place here.
const INSTEAD: &[(&str, &str)] = &[
    ("auto.offset.reset", "--from says where a partition begins, and --allow-gap what follows lost records"),
    ("enable.auto.commit", "leave it out: offsets are written after the documents are committed"),
    ("enable.auto.offset.store", "leave it out: offsets are written after the documents are committed"),
    ("isolation.level", "leave it out: records of aborted transactions are never loaded"),
    ("partition.assignment.strategy", "leave it out: only the partitions that move are taken from a member"),
    ("enable.ssl.certificate.verification", "leave it out, and name the brokers' authority: ssl.ca.location"),
    ("ssl.truststore.location", "write its certificates as PEM: ssl.ca.location"),
    ("ssl.keystore.location", "write them as PEM: ssl.certificate.location and ssl.key.location"),
    ("ssl.truststore.password", "write the certificates as PEM, which has no password: ssl.ca.location"),
    ("ssl.keystore.password", "write them as PEM: ssl.certificate.location and ssl.key.location"),
    ("ssl.key.password", "decrypt the key into a file that only you can read: openssl pkcs8"),
    ("ssl.ca.pem", "write it into a file: ssl.ca.location"),
    ("ssl.certificate.pem", "write it into a file: ssl.certificate.location"),
    ("ssl.key.pem", "write it into a file that only you can read: ssl.key.location"),
    (
        "ssl.endpoint.identification.algorithm",
        "leave it out: the name of a broker is always compared with its certificate",
    ),
    ("sasl.jaas.config", "write sasl.username and sasl.password"),
    ("sasl.oauthbearer.config", "take another mechanism: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"),
    ("sasl.oauthbearer.method", "take another mechanism: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"),
    ("sasl.kerberos.service.name", "take another mechanism: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"),
    ("auto.commit.interval.ms", "leave it out: offsets are written every 5 seconds"),
    ("request.timeout.ms", "write socket.timeout.ms"),
    ("fetch.max.wait.ms", "write fetch.wait.max.ms"),
    ("client.dns.lookup", "leave it out: all addresses of a broker are tried"),
    ("acks", "leave it out: it is for programs that write"),
    ("compression.type", "leave it out: it is for programs that write"),
    ("schema.registry.url", "leave it out: JSON is unwrapped without its schema"),
    ("basic.auth.user.info", "leave it out: no schema registry is asked"),
    ("basic.auth.credentials.source", "leave it out: no schema registry is asked"),
    ("key.deserializer", "leave it out: --message-key reads text and JSON"),
    ("value.deserializer", "leave it out: messages are JSON"),
];

impl Properties {
    /// How long a member that lives may take to notice that partitions are not its own any more: a share of the time after
    /// which a silent one counts as gone, in which heartbeats come several times.
    pub fn patience(&self) -> Duration {
        self.session_timeout.unwrap_or(SESSION_TIMEOUT) / PATIENCE_SHARE
    }

    /// How long a member may take to release partitions. Then its group counts it as gone.
    pub fn release_wait(&self) -> Duration {
        self.poll_interval.unwrap_or(POLL_INTERVAL)
    }

    /// Refuses a drain of a [`Group`](crate::Group) for which these settings leave no time.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub fn check_drain(&self, drain: Duration) -> Result<(), Error> {
        let (needs, most) = (drain.saturating_add(RELEASE_SLACK), self.release_wait());
        if needs < most {
            return Ok(());
        }
        Err(Error::refused(
            format!(
                "a --drain of {drain:?} lets the group wait for {needs:?}, and after {most:?} (max.poll.interval.ms) it takes \
                 all partitions away from this process"
            ),
            "shorten --drain, or write a longer max.poll.interval.ms into a file for --properties",
        ))
    }

    /// Reads settings: one a line, `name=value`. Lines that begin with `#` are comments. `place` names the text in errors.
    ///
    /// # Errors
    /// Names the line. A value is never part of an error, because it may be a password.
    pub fn parse(text: &str, place: &str) -> Result<Self, Error> {
        let mut properties = Self::default();
        let (mut protocol, mut mechanism, mut username, mut password) = (None, None, None, None);
        let (mut certificate, mut key) = (None, None);
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', '!']) {
                continue;
            }
            let wrong = |problem: String, hint: &str| Error::refused(format!("{place}:{number}: {problem}"), hint);
            let (name, value) = line
                .split_once('=')
                .map(|(name, value)| (name.trim(), value.trim()))
                .ok_or_else(|| wrong("a setting has no =".into(), "write NAME=VALUE, one a line"))?;
            let text = || Some(value.to_owned());
            let whole = || value.parse::<i32>().ok().filter(|&whole| whole > 0);
            let whole = || whole().ok_or_else(|| wrong(format!("{name} takes a whole number above 0"), "correct it"));
            let time = || Ok::<_, Error>(Some(Duration::from_millis(u64::from(whole()?.unsigned_abs()))));
            match name {
                "bootstrap.servers" | "metadata.broker.list" => {
                    let brokers: Option<Vec<String>> = value.split(',').map(|one| broker(one.trim())).collect();
                    let form = "write HOST or HOST:PORT, with commas between them";
                    properties.brokers = brokers.ok_or_else(|| wrong(format!("{name} names no broker"), form))?;
                }
                "client.id" => properties.client_id = text(),
                "group.id" | "group.instance.id" if value.is_empty() => {
                    return Err(wrong(format!("{name} is empty"), "write a name, or leave it out"));
                }
                "group.id" => properties.group = text(),
                "group.instance.id" => properties.instance = text(),
                "group.remote.assignor" => properties.assignor = text(),
                "group.protocol" => {
                    properties.protocol = match value.to_ascii_lowercase().as_str() {
                        "consumer" => Protocol::Consumer,
                        "classic" => Protocol::Classic,
                        _ => return Err(wrong("group.protocol is unknown".into(), "write consumer or classic")),
                    };
                }
                "session.timeout.ms" => properties.session_timeout = time()?,
                "heartbeat.interval.ms" => properties.heartbeat = time()?,
                "max.poll.interval.ms" => properties.poll_interval = time()?,
                "topic.metadata.refresh.interval.ms" => properties.metadata_interval = time()?,
                "client.rack" => properties.rack = text(),
                "security.protocol" => protocol = Some(value.to_ascii_uppercase()),
                "sasl.mechanism" | "sasl.mechanisms" => mechanism = Some(value.to_ascii_uppercase()),
                "sasl.username" => username = text(),
                "sasl.password" => password = text(),
                "ssl.ca.location" => properties.ca = Some(value.into()),
                "ssl.certificate.location" => certificate = Some(PathBuf::from(value)),
                "ssl.key.location" => key = Some(PathBuf::from(value)),
                "fetch.max.bytes" => properties.fetch_bytes = Some(whole()?),
                "max.partition.fetch.bytes" | "fetch.message.max.bytes" => {
                    properties.partition_fetch_bytes = Some(whole()?);
                }
                "fetch.wait.max.ms" => properties.fetch_wait = time()?,
                "socket.timeout.ms" => properties.request_timeout = time()?,
                _ => {
                    let instead = INSTEAD.iter().find(|(other, _)| *other == name).map(|(_, instead)| *instead);
                    let hint = instead.unwrap_or("see docs/guides/kafka.md for the settings that are known");
                    return Err(wrong(format!("{name} is not a setting that Millstream takes"), hint));
                }
            }
        }
        let wrong = |problem: &str, hint: &str| Error::refused(format!("{place}: {problem}"), hint);
        let (tls, sasl) = match protocol.as_deref().unwrap_or("PLAINTEXT") {
            "PLAINTEXT" => (false, false),
            "SSL" => (true, false),
            "SASL_PLAINTEXT" => (false, true),
            "SASL_SSL" => (true, true),
            _ => return Err(wrong("security.protocol is unknown", "write plaintext, ssl, sasl_plaintext or sasl_ssl")),
        };
        properties.tls = tls;
        properties.sasl = match (sasl, username, password) {
            (false, None, None) if mechanism.is_none() => None,
            (false, ..) => {
                let problem = "sasl.* is set, but security.protocol does not use SASL";
                return Err(wrong(problem, "write security.protocol=sasl_ssl, or sasl_plaintext"));
            }
            (true, Some(username), Some(password)) => {
                let mechanism = match mechanism.as_deref() {
                    Some("PLAIN") => Mechanism::Plain,
                    Some("SCRAM-SHA-256") => Mechanism::ScramSha256,
                    Some("SCRAM-SHA-512") => Mechanism::ScramSha512,
                    _ => {
                        let problem = "sasl.mechanism is missing or unknown";
                        return Err(wrong(problem, "write PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"));
                    }
                };
                Some(Sasl { mechanism, username, password })
            }
            (true, ..) => return Err(wrong("sasl.username or sasl.password is missing", "write both")),
        };
        properties.certificate = match (certificate, key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate, key)),
            _ => {
                let problem = "a client's certificate and its key go together";
                return Err(wrong(problem, "write ssl.certificate.location and ssl.key.location"));
            }
        };
        if properties.assignor.is_some() && properties.protocol == Protocol::Classic {
            return Err(wrong("group.remote.assignor is set, and the members divide the partitions", "leave it out"));
        }
        let of_tls = properties.ca.is_some() || properties.certificate.is_some();
        if of_tls && !tls {
            let problem = "ssl.* is set, but security.protocol does not use TLS";
            return Err(wrong(problem, "write security.protocol=ssl, or sasl_ssl"));
        }
        Ok(properties)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_pg::Explained as _;

    #[test]
    fn settings_are_read_by_their_names() {
        let text = "# a comment\n\nbootstrap.servers = a:1, b\ngroup.id=loader\nsecurity.protocol=sasl_ssl\n\
                    sasl.mechanisms=SCRAM-SHA-512\nsasl.username=u\nsasl.password= p=w \nssl.ca.location=/ca.pem\n\
                    ssl.certificate.location=/c.pem\nssl.key.location=/k.pem\nfetch.max.bytes=1000\n\
                    socket.timeout.ms=1500\n";
        let read = Properties::parse(text, "f").unwrap();
        assert_eq!(read.brokers, ["a:1", "b:9092"]);
        assert_eq!((read.group.as_deref(), read.tls, read.fetch_bytes), (Some("loader"), true, Some(1_000)));
        let sasl = read.sasl.clone().unwrap();
        assert_eq!((sasl.mechanism, sasl.password.as_str()), (Mechanism::ScramSha512, "p=w"));
        assert_eq!(read.certificate, Some(("/c.pem".into(), "/k.pem".into())));
        assert_eq!(read.request_timeout, Some(Duration::from_millis(1_500)));
        assert!(!format!("{read:?}").contains("p=w"), "a password is not printed");
        assert!(Properties::parse("", "f").unwrap() == Properties::default());
        let text = "group.protocol=Classic\ngroup.instance.id=a\nsession.timeout.ms=8000\nheartbeat.interval.ms=500\n\
                    max.poll.interval.ms=60000\ntopic.metadata.refresh.interval.ms=1000\n";
        let read = Properties::parse(text, "f").unwrap();
        assert_eq!((read.protocol, read.instance.as_deref()), (Protocol::Classic, Some("a")));
        assert_eq!((read.patience(), read.heartbeat), (Duration::from_secs(2), Some(Duration::from_millis(500))));
        assert_eq!(read.metadata_interval, Some(Duration::from_secs(1)));
    }

    #[test]
    fn what_is_wrong_names_its_line_and_no_value() {
        for (text, says, hint) in [
            ("a\n", "f:1: a setting has no =", "NAME=VALUE"),
            ("\nqueued.max.messages.kbytes=1\n", "f:2: queued.max.messages.kbytes is not", "docs/guides/kafka.md"),
            ("auto.offset.reset=secret\n", "f:1: auto.offset.reset is not", "--from"),
            ("isolation.level=read_uncommitted\n", "isolation.level", "never loaded"),
            ("enable.ssl.certificate.verification=false\n", "verification", "ssl.ca.location"),
            ("bootstrap.servers=a:1,a b\n", "f:1: bootstrap.servers names no broker", "HOST:PORT"),
            ("sasl.jaas.config=secret\n", "f:1: sasl.jaas.config is not", "sasl.password"),
            ("fetch.max.bytes=secret\n", "f:1: fetch.max.bytes takes", "correct"),
            ("security.protocol=secret\n", "security.protocol is unknown", "sasl_ssl"),
            ("sasl.username=secret\n", "does not use SASL", "sasl_ssl"),
            ("security.protocol=sasl_ssl\nsasl.username=secret\n", "missing", "both"),
            ("security.protocol=sasl_ssl\nsasl.username=a\nsasl.password=secret\n", "sasl.mechanism", "PLAIN"),
            ("security.protocol=ssl\nssl.key.location=secret\n", "go together", "ssl.certificate.location"),
            ("ssl.ca.location=secret\n", "does not use TLS", "ssl"),
            ("group.protocol=secret\n", "f:1: group.protocol is unknown", "classic"),
            ("group.id=\n", "f:1: group.id is empty", "leave it out"),
            ("group.protocol=classic\ngroup.remote.assignor=secret\n", "the members divide", "leave it out"),
            ("partition.assignment.strategy=secret\n", "is not a setting", "that move"),
        ] {
            let Err(error) = Properties::parse(text, "f") else { panic!("{text}") };
            assert!(error.to_string().contains(says), "{error}");
            assert!(error.hint().is_some_and(|found| found.contains(hint)), "{text}: {:?}", error.hint());
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_drain_fits_into_the_time_that_the_group_waits() {
        let minutes = |n: u64| Duration::from_secs(60 * n);
        let usual = Properties::default();
        assert!(usual.check_drain(crate::limits::DRAIN).is_ok() && usual.check_drain(minutes(4)).is_ok());
        for too_long in [minutes(5), Duration::MAX] {
            let error = usual.check_drain(too_long).unwrap_err();
            assert!(error.to_string().contains("after 300s (max.poll.interval.ms)"), "{error}");
        }
        let longer = Properties::parse("max.poll.interval.ms=600000\n", "f").unwrap();
        assert!(longer.check_drain(minutes(5)).is_ok());
        let shorter = Properties::parse("max.poll.interval.ms=10000\n", "f").unwrap();
        let error = shorter.check_drain(crate::limits::DRAIN).unwrap_err();
        assert!(error.to_string().starts_with("a --drain of 5s lets the group wait for 10s"), "{error}");
    }
}
