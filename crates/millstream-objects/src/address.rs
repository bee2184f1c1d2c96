//! Addresses of objects, and what of them may be shown.

#[cfg(feature = "objects")]
use crate::error::Error;
#[cfg(feature = "objects")]
use crate::limits::ADDRESS_BYTES_MAX;

/// How an address begins.
const SCHEMES: [&str; 5] = ["s3", "gs", "az", "https", "http"];

/// Characters that are shown of an address that is too long.
#[cfg(feature = "objects")]
const BEGIN_CHARS: usize = 40;

/// Whether a source that was typed is the address of an object, or a pattern of such addresses.
pub fn is_object(typed: &str) -> bool {
    split(typed).is_some()
}

/// The address without what may be a credential: neither a user nor a query.
pub fn shown(typed: &str) -> String {
    let Some((scheme, rest)) = split(typed) else { return typed.to_owned() };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let without_query = |text: &str| text.split(['?', '#']).next().unwrap_or_default().to_owned();
    let (host, path) = match is_web(scheme) {
        true if path.is_empty() => (without_query(host), String::new()),
        true => (host.to_owned(), without_query(path)),
        false => (host.to_owned(), path.to_owned()),
    };
    match is_host(&host) {
        true => format!("{scheme}://{host}{path}"),
        // It may be the first half of a user and a password.
        false => format!("{scheme}://***"),
    }
}

/// Whether this can be a bucket, or a host with its port.
fn is_host(text: &str) -> bool {
    let port = text.rsplit_once(':').filter(|_| !text.ends_with(']')).map(|(_, port)| port);
    !text.contains('@') && port.is_none_or(|port| port.chars().all(|c| c.is_ascii_digit()))
}

fn split(typed: &str) -> Option<(&str, &str)> {
    typed.split_once("://").filter(|(scheme, _)| SCHEMES.contains(scheme))
}

fn is_web(scheme: &str) -> bool {
    scheme.starts_with("http")
}

/// An address, taken apart.
#[cfg(feature = "objects")]
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// How it begins.
    pub(crate) scheme: String,
    /// The bucket or container; the host, with its port, of a web server.
    pub(crate) bucket: String,
    /// The key, or the path of a web server as it is typed.
    pub(crate) key: String,
    /// What follows the path of a web server. It may be a signature.
    pub(crate) query: Option<String>,
    /// What it is called.
    pub(crate) name: String,
}

#[cfg(feature = "objects")]
impl Address {
    /// Takes an address apart.
    ///
    /// # Errors
    /// It names no object, or holds a password.
    pub(crate) fn of(typed: &str) -> Result<Self, Error> {
        require_short(typed)?;
        let name = shown(typed);
        let unclear = || Error::refused(format!("{name} names no object"), "write it as s3://BUCKET/KEY");
        let (scheme, rest) = split(typed).ok_or_else(unclear)?;
        let is_web = is_web(scheme);
        let place = if is_web { rest.split('#').next().unwrap_or_default() } else { rest };
        let (place, query) = match place.split_once('?') {
            Some((place, query)) if is_web => (place, Some(query.to_owned())),
            _ => (place, None),
        };
        let Some((bucket, key)) = place.split_once('/').filter(|(bucket, key)| !bucket.is_empty() && !key.is_empty())
        else {
            let hint = match is_web {
                true => "write it as https://HOST/PATH".to_owned(),
                false => format!("write it as {scheme}://BUCKET/KEY, or as a pattern in quotes: '{scheme}://BUCKET/*'"),
            };
            return Err(Error::refused(format!("{name} names no object"), hint));
        };
        if !is_host(bucket) {
            let hint = match is_web {
                true => "let another program read it: curl -sSf -u .. URL | millstream load - --source-name NAME ..",
                false => "write it as s3://BUCKET/KEY; credentials are looked for where the store's own tools look",
            };
            return Err(Error::refused(format!("the address of {name} holds a user, which would be shown"), hint));
        }
        if key.ends_with('/') && !is_web {
            let hint = format!("name the objects in it by a pattern in quotes: '{name}*'");
            return Err(Error::refused(format!("{name} is a folder, and no object"), hint));
        }
        let (scheme, bucket, key) = (scheme.to_owned(), bucket.to_owned(), key.to_owned());
        Ok(Self { scheme, bucket, key, query, name })
    }

    /// What is the same for all objects of a bucket or host.
    pub(crate) fn root(&self) -> String {
        format!("{}://{}", self.scheme, self.bucket)
    }
}

/// Requires that a request can hold an address.
///
/// # Errors
/// It is too long.
#[cfg(feature = "objects")]
pub(crate) fn require_short(address: &str) -> Result<(), Error> {
    if address.len() <= ADDRESS_BYTES_MAX {
        return Ok(());
    }
    let begin: String = shown(address).chars().take(BEGIN_CHARS).collect();
    let problem =
        format!("an address has {} bytes, and {ADDRESS_BYTES_MAX} at most are read: {begin}..", address.len());
    Err(Error::refused(problem, "copy the object to a shorter key"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_objects_are_no_paths() {
        for (typed, is) in [
            ("s3://a/b", true),
            ("gs://a/b", true),
            ("az://a/b", true),
            ("https://a/b", true),
            ("http://a/b", true),
            ("./s3://a/b", false),
            ("s3:/a/b", false),
            ("ftp://a/b", false),
            ("a.json", false),
            ("-", false),
        ] {
            assert_eq!(is_object(typed), is, "{typed}");
        }
    }

    #[test]
    fn what_may_be_a_credential_is_not_shown() {
        for (typed, expected) in [
            ("s3://b/odd?#key@1.json", "s3://b/odd?#key@1.json"),
            ("https://h:8/a/b.json?X-Amz-Signature=secret&a=b", "https://h:8/a/b.json"),
            ("https://user:secret@h/a", "https://h/a"),
            ("https://user:se@cret@h/a?sig=secret#secret", "https://h/a"),
            ("s3://KEY:secret@b/a", "s3://b/a"),
            ("https://h?secret", "https://h"),
            ("https://user:se/cret@h/a", "https://***"),
            ("https://user:se?secret@h/a", "https://h/a"),
            ("http://[::1]/a", "http://[::1]/a"),
            ("http://[::1]:80/a", "http://[::1]:80/a"),
        ] {
            assert_eq!(shown(typed), expected);
        }
    }

    #[cfg(feature = "objects")]
    #[test]
    fn an_address_is_taken_apart() {
        let of = |typed: &str| Address::of(typed).unwrap();
        let odd = of("s3://b/a b/~+%20?#é.json");
        assert_eq!((odd.root().as_str(), odd.key.as_str(), odd.query), ("s3://b", "a b/~+%20?#é.json", None));
        let web = of("https://h:1/a/b%20c?x=1/2&y#z");
        assert_eq!((web.bucket.as_str(), web.key.as_str(), web.query.as_deref()), ("h:1", "a/b%20c", Some("x=1/2&y")));
        for (typed, says) in [
            ("s3://b", "names no object"),
            ("s3://b/", "names no object"),
            ("s3:///k", "names no object"),
            ("s3://b/dir/", "is a folder"),
            ("https://user:secret@h/a", "holds a user"),
            ("s3://KEY:secret@b/a", "holds a user"),
            ("https://user:secret/@h/a", "holds a user"),
        ] {
            let error = Address::of(typed).err().unwrap();
            assert!(error.to_string().contains(says), "{error}");
            assert!(!format!("{error}{}{error:?}", error.hint()).contains("secret"), "{error:?}");
        }
        let long = format!("https://h/{}?secret", "a".repeat(ADDRESS_BYTES_MAX));
        let error = Address::of(&long).err().unwrap().to_string();
        assert!(error.contains(": https://h/aaaa") && error.len() < 150 && !error.contains("secret"), "{error}");
    }
}
