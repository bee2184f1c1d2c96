//! Where a tree lies on another machine, as rsync writes it.

use crate::error::Error;
use crate::path::shown;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// A path on another machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// Who answers there.
    pub(crate) by: By,
    /// What stands before the path, such as `host:` or `rsync://host/`.
    prefix: Vec<u8>,
    /// The path. Of a daemon, its module is the first name.
    pub(crate) path: Vec<u8>,
}

/// Who answers on another machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum By {
    /// A remote shell on this host, such as ssh.
    Shell(OsString),
    /// A daemon of rsync.
    Daemon,
}

impl Address {
    /// Reads `HOST:PATH`, `HOST::MODULE/PATH` and `rsync://HOST/MODULE/PATH`. `None` for a path of this machine.
    ///
    /// # Errors
    /// The host, or the user before it, begins like an option.
    pub(crate) fn parse(path: &Path) -> Result<Option<Self>, Error> {
        let text = path.as_os_str().as_bytes();
        if let Some(rest) = text.strip_prefix(b"rsync://") {
            let length = rest.iter().position(|byte| *byte == b'/');
            bare(&rest[..length.unwrap_or(rest.len())])?;
            let host = length.map_or(text.len(), |at| b"rsync://".len() + at + 1);
            return Ok(Some(Self { by: By::Daemon, prefix: text[..host].to_vec(), path: text[host..].to_vec() }));
        }
        let Some(host) = host_of(text) else { return Ok(None) };
        let bare = bare(host)?;
        let rest = &text[host.len() + 1..];
        if let Some(path) = rest.strip_prefix(b":") {
            let prefix = text[..host.len() + 2].to_vec();
            return Ok(Some(Self { by: By::Daemon, prefix, path: path.to_vec() }));
        }
        // A shell begins in the home folder.
        let path = if rest == b"~" { b"" } else { rest.strip_prefix(b"~/").unwrap_or(rest) };
        let by = By::Shell(OsString::from_vec(bare));
        Ok(Some(Self { by, prefix: text[..=host.len()].to_vec(), path: path.to_vec() }))
    }

    /// The last name of the path, if it has one.
    pub(crate) fn name(&self) -> Option<&[u8]> {
        let name = self.path.rsplit(|byte| *byte == b'/').next().filter(|name| !name.is_empty())?;
        (name != b"." && name != b"..").then_some(name)
    }

    /// Whether what is in the folder is meant.
    pub(crate) fn has_slash(&self) -> bool {
        self.path.is_empty() || self.path.ends_with(b"/") || self.path.ends_with(b"/.") || self.path == b"."
    }

    /// A name in this folder.
    pub(crate) fn join(&self, name: &[u8]) -> Self {
        let is_complete = self.path.is_empty() || self.path.ends_with(b"/");
        let slash: &[u8] = if is_complete { b"" } else { b"/" };
        Self { path: [&self.path, slash, name].concat(), ..self.clone() }
    }

    /// Another path of the same machine.
    pub(super) fn at(&self, path: &Path) -> Self {
        Self { path: path.as_os_str().as_bytes().to_vec(), ..self.clone() }
    }

    /// The folder that this is in.
    pub(crate) fn parent(&self) -> Self {
        let path = self.path.iter().rposition(|byte| *byte == b'/').map_or(&b""[..], |at| &self.path[..at.max(1)]);
        Self { path: path.to_vec(), ..self.clone() }
    }

    /// Without slashes at its end.
    pub(crate) fn trimmed(mut self) -> Self {
        while self.path.len() > 1 && self.path.ends_with(b"/") {
            self.path.pop();
        }
        self
    }

    /// As rsync reads it.
    pub(crate) fn text(&self) -> OsString {
        OsString::from_vec([&self.prefix[..], &self.path].concat())
    }

    /// What is in the folder, as rsync reads it.
    pub(crate) fn content(&self) -> OsString {
        self.join(b"").text()
    }
}

/// The host before a colon, which stands before the first slash.
fn host_of(text: &[u8]) -> Option<&[u8]> {
    let first = text.split(|byte| *byte == b'/').next().unwrap_or_default();
    // Colons in brackets belong to an address of IPv6.
    let from = match first.iter().position(|byte| *byte == b'[') {
        Some(open) => first[open..].iter().position(|byte| *byte == b']').map(|close| open + close)?,
        None => 0,
    };
    let colon = first[from..].iter().position(|byte| *byte == b':')? + from;
    // This begins like an option, and can only be a path.
    (colon > 0 && !text.starts_with(b"-")).then_some(&text[..colon])
}

/// A host, and the user before it, without brackets, as a remote shell gets them: as one word or as two.
///
/// # Errors
/// The shell would take one of them for an option.
fn bare(host: &[u8]) -> Result<Vec<u8>, Error> {
    let bare: Vec<u8> = host.iter().filter(|byte| !b"[]".contains(byte)).copied().collect();
    if bare.split(|byte| *byte == b'@').any(|part| part.starts_with(b"-")) {
        let says = format!("{} is no name of a host: it begins like an option", shown(host));
        return Err(Error::refused(says, "put ./ before a path of this machine"));
    }
    Ok(bare)
}

/// Parts of a script or of an argument as one. Paths may hold any bytes.
pub(super) fn joined<const N: usize>(parts: [&dyn AsRef<OsStr>; N]) -> OsString {
    parts.iter().map(|part| part.as_ref()).collect()
}

/// A text as POSIX shells read it, in quotes. Without zero bytes, which no argument holds.
pub(super) fn quoted(text: &[u8]) -> OsString {
    let quoted = shlex::bytes::try_quote(text).unwrap_or_default();
    OsString::from_vec(quoted.into_owned())
}

/// A path as POSIX shells read it.
pub(super) fn quoted_path(path: &[u8]) -> OsString {
    match path {
        [] => ".".into(),
        // It would be taken for an option.
        [b'-', ..] => quoted(&[b"./", path].concat()),
        path => quoted(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_rsync_reads_them() {
        let parsed = |text: &str| {
            let address = Address::parse(Path::new(text)).unwrap()?;
            let by = match &address.by {
                By::Shell(host) => host.to_str().unwrap().to_owned(),
                By::Daemon => "daemon".to_owned(),
            };
            let text = address.text().into_string().unwrap();
            Some((by, String::from_utf8(address.path).unwrap(), text))
        };
        let cases = [
            ("host:a/b", "host", "a/b", "host:a/b"),
            ("me@host:/a:b/", "me@host", "/a:b/", "me@host:/a:b/"),
            ("host:", "host", "", "host:"),
            ("host:~/a", "host", "a", "host:a"),
            ("[::1]:/a", "::1", "/a", "[::1]:/a"),
            ("me@[fe80::1%eth0]:a", "me@fe80::1%eth0", "a", "me@[fe80::1%eth0]:a"),
            ("host::mod/a", "daemon", "mod/a", "host::mod/a"),
            ("[::1]::mod", "daemon", "mod", "[::1]::mod"),
            ("rsync://host:873/mod/a", "daemon", "mod/a", "rsync://host:873/mod/a"),
        ];
        for (text, by, path, whole) in cases {
            assert_eq!(parsed(text), Some((by.to_owned(), path.to_owned(), whole.to_owned())), "{text}");
        }
        for here in ["a", "-oProxyCommand=x:a", "./a:b", "/a:b", "a/b:c", ":a", "[a", ""] {
            assert_eq!(parsed(here), None, "{here}");
        }
    }

    #[test]
    fn a_host_that_a_shell_would_take_for_an_option_is_refused() {
        for text in [
            "[-oProxyCommand=touch x]:x",
            "me@-oProxyCommand=x:x",
            "me@[-oProxyCommand=x]:x",
            "[-l]@host:x",
            "a@-b@host:x",
            "[]-oProxyCommand=x:x",
            "[-oProxyCommand=x]::mod",
            "rsync://-x/mod",
            "rsync://me@[-x]:873/mod/a",
        ] {
            let refused = Address::parse(Path::new(text)).unwrap_err().to_string();
            assert!(refused.ends_with("is no name of a host: it begins like an option"), "{text}: {refused}");
        }
        for text in ["a-b:x", "me@a-:x", "host:-x", "host::mod/-x", "rsync://host/-x"] {
            assert!(Address::parse(Path::new(text)).unwrap().is_some(), "{text}");
        }
    }

    #[test]
    fn paths_are_cut_and_joined_behind_the_host() {
        let address = |text: &str| Address::parse(Path::new(text)).unwrap().unwrap();
        assert_eq!(address("h:a/b").join(b"c").text(), "h:a/b/c");
        assert_eq!((address("h:").join(b"c").text(), address("h:a").content()), ("h:c".into(), "h:a/".into()));
        assert_eq!((address("h:a/b").parent(), address("h:/b").parent()), (address("h:a"), address("h:/")));
        assert_eq!((address("h:b").parent(), address("h:b").name()), (address("h:"), Some(&b"b"[..])));
        assert_eq!((address("h:b/").name(), address("h:/").trimmed()), (None, address("h:/")));
        assert!(address("h:b/.").has_slash() && address("h:").has_slash() && !address("h:b").has_slash());
        assert_eq!((quoted_path(b"-a"), quoted_path(b"")), ("./-a".into(), ".".into()));
        assert_eq!(quoted_path(b"a b"), "'a b'");
    }
}
