//! Names of files as text, including names that are not UTF-8.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Prefix of the spelling of a name that is not UTF-8. No absolute path begins with it. A relative path that does is
/// spelled with `./` in front.
const BYTES: &str = "bytes:";

/// The path as text, which [`path`] turns back into the path. If it is not UTF-8, `\xNN` replaces each byte that is no
/// text.
pub fn spelling(path: &Path) -> String {
    match path.to_str() {
        Some(text) if text.starts_with(BYTES) => format!("./{text}"),
        Some(text) => text.to_owned(),
        None => {
            let mut spelled = BYTES.to_owned();
            for chunk in path.as_os_str().as_bytes().utf8_chunks() {
                spelled.push_str(&chunk.valid().replace('\\', "\\\\"));
                chunk.invalid().iter().for_each(|byte| spelled.push_str(&format!("\\x{byte:02x}")));
            }
            spelled
        }
    }
}

/// The path that a spelling stands for.
pub fn path(spelling: &str) -> PathBuf {
    let Some(spelled) = spelling.strip_prefix(BYTES) else { return PathBuf::from(spelling) };
    let (mut bytes, mut rest) = (Vec::new(), spelled.as_bytes());
    while let [first, others @ ..] = rest {
        let (byte, after) = match others {
            [b'\\', after @ ..] if *first == b'\\' => (b'\\', after),
            [b'x', high, low, after @ ..] if *first == b'\\' => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => (high * 16 + low, after),
                _ => (*first, others),
            },
            _ => (*first, others),
        };
        bytes.push(byte);
        rest = after;
    }
    PathBuf::from(OsString::from_vec(bytes))
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn paths_round_trip_and_spellings_are_unique() {
        let names: [&[u8]; 7] =
            [b"/a/b", b"/a/\xff", b"/a/\\xff", b"/a/\xff\\xfe\\", b"bytes:/a/\\xff", b"-", b"\xe9t\xe9 \x80.csv"];
        let mut spelled = Vec::new();
        for name in names {
            let given = Path::new(OsStr::from_bytes(name));
            let text = spelling(given);
            let back = path(&text);
            assert_eq!(back.strip_prefix("./").unwrap_or(&back), given, "{text}");
            spelled.push(text);
        }
        assert_eq!(spelled[1], "bytes:/a/\\xff");
        spelled.sort_unstable();
        spelled.dedup();
        assert_eq!(spelled.len(), names.len());
    }
}
