//! Settings that requests carry. The client takes for granted that a request can hold them, so they are checked before.

use crate::error::Error;
use reqwest::Url;

/// What an address may have besides letters and digits (RFC 3986, 2).
const IN_ADDRESSES: &[u8] = b"-._~:/?#[]@!$&'()*+,;=%";

/// What a setting is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Setting {
    /// A key or a token, which a header holds.
    Token,
    /// A part of the name of a host.
    Label,
    /// A bucket, or a host whose name may have letters of any language.
    Name,
    /// The address of a server.
    Server,
}

impl Setting {
    /// Requires that a request can hold this value of the setting of this name.
    ///
    /// # Errors
    /// It cannot. The value, which may be a secret, is not in the error.
    pub(super) fn require(self, name: &str, value: &str) -> Result<(), Error> {
        let (is_fit, problem, hint) = match self {
            Self::Token => (
                !value.chars().any(char::is_control),
                "holds the end of a line, or another character that no request can hold",
                "set it once more; the end of a line often comes with what is read from a file",
            ),
            Self::Label => (
                value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)),
                "holds a character that the name of a host cannot have",
                "correct it: it has letters, digits and hyphens",
            ),
            Self::Name => (
                value.bytes().all(|byte| !byte.is_ascii() || is_of_address(byte)),
                "holds a blank, or another character that no address has",
                "correct the address",
            ),
            Self::Server => (
                is_server(value),
                "is not the address of a server",
                "write it as https://HOST or http://HOST:PORT, in ASCII",
            ),
        };
        if is_fit { Ok(()) } else { Err(Error::refused(format!("{name} {problem}"), hint)) }
    }
}

fn is_of_address(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || IN_ADDRESSES.contains(&byte)
}

/// Whether a request can be sent there. Of what the client demands, a parser of addresses overlooks that the host follows
/// two slashes, and that one user at most comes before it.
fn is_server(value: &str) -> bool {
    let rest = value.strip_prefix("http://").or_else(|| value.strip_prefix("https://"));
    rest.is_some_and(|rest| !rest.starts_with('/') && rest.matches('@').count() <= 1)
        && value.bytes().all(is_of_address)
        && Url::parse(value).is_ok_and(|url| url.has_host())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_request_can_hold_is_refused_without_showing_it() {
        for (setting, fitting, others) in [
            (Setting::Token, &["", "a+b/c==", "a b", "ü"][..], &["secret\n", "sec\0ret", "secret\r"][..]),
            (Setting::Label, &["us-east-1", "Region_1.a"], &["secret b", "secret\n", "secret/", "secretü"]),
            (
                Setting::Name,
                &["a.b-c_1", "$web", "münchen.example", "h:80"],
                &["secret b", "secret<", "secret`", "secret\n"],
            ),
            (
                Setting::Server,
                &["http://localhost:9000", "https://h/a/b", "http://[::1]:9", "http://u:p@h", "https://h?a=b#c"],
                &[
                    "localhost:9000",
                    "secret",
                    "",
                    "ftp://secret",
                    "http://",
                    "http:secret",
                    "http:///secret",
                    "http://secret:x",
                    "http://u:secret@h:99999",
                    "http://a@secret@h",
                    "http://secret b",
                    "http://h/secret b",
                    "http://h/secret\n",
                    "http://h/secret\\",
                    "http://secretü",
                    "http://_127.0.0.1",
                    "http://h%zz",
                ],
            ),
        ] {
            for value in fitting {
                assert!(setting.require("SETTING", value).is_ok(), "{setting:?} {value:?}");
            }
            for value in others {
                let error = setting.require("SETTING", value).expect_err(value);
                let said = format!("{error} {} {error:?}", error.hint());
                assert!(said.contains("SETTING") && !said.contains("secret"), "{setting:?} {value:?}: {said}");
            }
        }
    }
}
