//! The address of a topic: `kafka://HOST[:PORT][,..]/TOPIC`.

use crate::error::Error;
use crate::limits::TOPIC_BYTES_MAX;

/// How an address begins.
pub const SCHEME: &str = "kafka://";

/// The port of a broker that names none.
const PORT: &str = "9092";

/// Where a topic is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Brokers to ask first, each with its port.
    pub brokers: Vec<String>,
    /// The name of the topic.
    pub topic: String,
}

impl Address {
    /// The name by which a load knows a partition. It does not hold the brokers, whose addresses change: `named` tells
    /// topics of one name apart.
    pub fn source(&self, named: Option<&str>, partition: i32) -> String {
        match named {
            Some(name) => format!("{name}/{partition}"),
            None => format!("kafka:{}/{partition}", self.topic),
        }
    }
}

impl std::str::FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |problem: &str| {
            Error::refused(
                format!("{text}: {problem}"),
                "write kafka://HOST/TOPIC, or kafka://HOST:9092,HOST:9092/TOPIC",
            )
        };
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| wrong("it does not begin with kafka://"))?;
        if rest.contains('@') {
            // It may hold a password, so it is not printed.
            return Err(Error::refused(
                "the address of a topic has an @, and takes no user and no password",
                "write kafka://HOST/TOPIC, and put sasl.username and sasl.password into a file: --properties FILE",
            ));
        }
        let (hosts, topic) = rest.split_once('/').ok_or_else(|| wrong("it names no topic"))?;
        let brokers: Option<Vec<String>> = hosts.split(',').map(broker).collect();
        let brokers = brokers.ok_or_else(|| wrong("a broker is HOST or HOST:PORT"))?;
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if topic.is_empty() || [".", ".."].contains(&topic) || topic.len() > TOPIC_BYTES_MAX || !topic.bytes().all(fits)
        {
            return Err(wrong("the name of a topic has letters, digits, dots, underscores and dashes, 249 at most"));
        }
        Ok(Self { brokers, topic: topic.to_owned() })
    }
}

/// A broker with its port. `None` if the text is none.
pub(crate) fn broker(text: &str) -> Option<String> {
    // An address of IPv6 stands in brackets.
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (text, PORT),
    };
    let is_bare = host.starts_with('[') == host.ends_with(']') && (host.starts_with('[') || !host.contains(':'));
    let fits = !host.is_empty() && is_bare && !host.contains(char::is_whitespace);
    (fits && port.parse::<u16>().is_ok_and(|port| port > 0)).then(|| format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_pg::Explained as _;

    #[test]
    fn brokers_and_a_topic_are_read() {
        for (text, brokers, topic) in [
            ("kafka://localhost/orders", &["localhost:9092"][..], "orders"),
            ("kafka://a:1,b.example.com,[::1]:3/A.b_c-9", &["a:1", "b.example.com:9092", "[::1]:3"], "A.b_c-9"),
            ("kafka://[::1]/t", &["[::1]:9092"], "t"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(
                (address.brokers, address.topic.as_str()),
                (brokers.iter().map(|b| (*b).to_owned()).collect(), topic)
            );
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_its_form() {
        for text in [
            "kafka://",
            "kafka://a",
            "kafka://a/",
            "kafka:///t",
            "kafka://a,/t",
            "kafka://a:0/t",
            "kafka://a:70000/t",
            "kafka://a:b:1/t",
            "kafka://a/t/0",
            "kafka://a/..",
            "kafka://user:secret@a/t",
            "kafka://a b/t",
            "http://a/t",
        ] {
            let error = text.parse::<Address>().expect_err(text);
            assert!(error.hint().is_some_and(|hint| hint.contains("kafka://HOST/TOPIC")), "{error}");
        }
        let error = "kafka://user:secret@a/t".parse::<Address>().unwrap_err();
        assert!(
            error.hint().is_some_and(|hint| hint.contains("--properties")) && !error.to_string().contains("secret")
        );
    }

    #[test]
    fn the_brokers_are_no_part_of_a_partition() {
        let of = |text: &str, named| text.parse::<Address>().unwrap().source(named, 3);
        assert_eq!(of("kafka://a/t", None), of("kafka://b:1/t", None));
        assert_eq!(of("kafka://a/t", None), "kafka:t/3");
        assert_eq!(of("kafka://a/t", Some("east")), "east/3");
    }
}
