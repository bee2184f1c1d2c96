//! Settings of the kernel: files below `/proc/sys` and `/sys`, and their values.

use crate::error::Error;
use crate::kernel::file;
use std::fs;
use std::path::{Path, PathBuf};

/// The file of a setting by the name that `sysctl` gives it, such as `vm.swappiness`. `None` if it cannot be a name.
pub fn sysctl_file(name: &str) -> Option<PathBuf> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-' || c == '.';
    let good = name.chars().all(plain) && !name.split('.').any(str::is_empty);
    good.then(|| Path::new("/proc/sys").join(name.replace('.', "/")))
}

/// Settings of which the kernel keeps one: writing one of a pair makes the other 0, and 0 cannot be written to some.
const PAIRS: &[(&str, &str)] = &[("dirty_bytes", "dirty_ratio"), ("dirty_background_bytes", "dirty_background_ratio")];

/// The other setting of a pair, by its last name.
pub fn pair_of(name: &str) -> Option<&'static str> {
    PAIRS.iter().find_map(|(one, other)| match name {
        name if name == *one => Some(*other),
        name if name == *other => Some(*one),
        _ => None,
    })
}

/// What must be written to undo a change of a setting: the setting with its value, or the other one of its pair.
pub fn origin(setting: &Path) -> Result<(PathBuf, String), Error> {
    let now = read(setting)?;
    let name = setting.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let other = pair_of(name);
    if let (Some(other), "0") = (other.map(|other| setting.with_file_name(other)), now.as_str()) {
        let value = read(&other)?;
        return Ok((other, value));
    }
    Ok((setting.to_owned(), now))
}

/// The value of a setting. Of a list of possible values the chosen one is in brackets.
pub fn read(setting: &Path) -> Result<String, Error> {
    let text = fs::read_to_string(setting).map_err(Error::setting("read", setting))?;
    Ok(file::choice(text.trim()).to_owned())
}

/// Writes a value and reads it again.
pub fn write(setting: &Path, value: &str) -> Result<(), Error> {
    fs::write(setting, value).map_err(Error::setting("change", setting))?;
    let now = read(setting)?;
    if same(Some(&now), Some(value)) {
        return Ok(());
    }
    let why = std::io::Error::other(format!("it did not take the value {value}, and is {now}"));
    Err(Error::setting("change", setting)(why))
}

/// Whether two values are the same: the kernel prints tabs where a person types spaces.
pub fn same(one: Option<&str>, other: Option<&str>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.split_whitespace().eq(other.split_whitespace()),
        (one, other) => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_sysctl_is_a_file() {
        assert_eq!(sysctl_file("vm.dirty_ratio"), Some(PathBuf::from("/proc/sys/vm/dirty_ratio")));
        for name in ["../etc/passwd", "a/b", "a..b", ".a", ""] {
            assert_eq!(sysctl_file(name), None, "{name}");
        }
    }

    #[test]
    fn of_several_values_the_chosen_one_counts() {
        let dir = tempfile::tempdir().unwrap();
        let scheduler = dir.path().join("scheduler");
        fs::write(&scheduler, "none [mq-deadline] kyber\n").unwrap();
        assert_eq!(read(&scheduler).unwrap(), "mq-deadline");
    }

    #[test]
    fn space_between_words_makes_no_difference() {
        assert!(same(Some("1\t2"), Some("1 2")) && same(None, None));
        assert!(!same(Some("1"), None) && !same(Some("1 2"), Some("12")));
    }
}
