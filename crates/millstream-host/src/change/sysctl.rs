//! Settings of the kernel that `sysctl` knows.

use super::kernel::{is_free, own, rooted};
use super::kind::{Answer, Kind, Lasting, Refusal};
use super::setting::{origin, pair_of, sysctl_file, write};
use std::path::{Path, PathBuf};

/// Settings by the name that `sysctl` gives them. They last by a file below `/etc/sysctl.d`.
#[derive(Debug, Default)]
pub struct Sysctl {
    /// Where `/proc` and `/etc` are, if not at the root: for tests.
    pub root: Option<PathBuf>,
}

/// The file that makes settings last. Later names count, and `99-sysctl.conf` is common.
const SYSCTL_FILE: &str = "/etc/sysctl.d/zz-millstream.conf";

impl Kind for Sysctl {
    fn name(&self) -> &'static str {
        "sysctl"
    }

    /// Of two settings of which the kernel keeps one (`vm.dirty_bytes` and `vm.dirty_ratio`), the value is that of the
    /// other one if this one is 0: `vm.dirty_ratio=20`.
    fn read<'a>(&'a self, target: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(async move {
            let file = self.file(target)?;
            let (counts, value) = origin(&file)?;
            Ok(Some(match other_of(target).filter(|_| counts != file) {
                Some(other) => format!("{other}={value}"),
                None => value,
            }))
        })
    }

    fn write<'a>(&'a self, target: &'a str, value: Option<&'a str>) -> Answer<'a, ()> {
        Box::pin(async move {
            let value = own(target, value)?;
            let (name, value) = match value.split_once('=') {
                Some((other, value)) if other_of(target).as_deref() == Some(other) => (other, value),
                _ => (target, value),
            };
            write(&self.file(name)?, value).map_err(Refusal::from)
        })
    }

    fn lasting(&self, target: &str, value: Option<&str>) -> Result<Lasting, Refusal> {
        let value = own(target, value)?;
        let beginning = format!("{target} = ");
        let line = format!("{beginning}{value}");
        Ok(Lasting::Line { file: rooted(self.root.as_deref(), Path::new(SYSCTL_FILE)), beginning, line })
    }

    fn is_free(&self, target: Option<&str>) -> Result<(), Refusal> {
        is_free(self.root.as_deref(), target.and_then(sysctl_file).as_deref())
    }
}

impl Sysctl {
    fn file(&self, name: &str) -> Result<PathBuf, Refusal> {
        let file = sysctl_file(name).ok_or_else(|| Refusal(format!("{name} is not a name of sysctl")))?;
        Ok(rooted(self.root.as_deref(), &file))
    }
}

/// The other setting of a pair of which the kernel keeps one.
fn other_of(name: &str) -> Option<String> {
    let (before, last) = name.rsplit_once('.')?;
    Some(format!("{before}.{}", pair_of(last)?))
}

#[cfg(test)]
mod tests {
    use super::super::kernel::tests::root;
    use super::*;
    use std::fs;

    #[tokio::test]
    async fn the_ratio_comes_back_if_bytes_were_written() {
        let place = root(&[("proc/sys/vm/dirty_bytes", "0\n"), ("proc/sys/vm/dirty_ratio", "20\n")]);
        let kind = Sysctl { root: Some(place.path().to_owned()) };
        assert_eq!(kind.read("vm.dirty_bytes").await.unwrap().as_deref(), Some("vm.dirty_ratio=20"));
        kind.write("vm.dirty_bytes", Some("1000000")).await.unwrap();
        assert_eq!(kind.read("vm.dirty_bytes").await.unwrap().as_deref(), Some("1000000"));
        fs::write(place.path().join("proc/sys/vm/dirty_ratio"), "0\n").unwrap();
        kind.write("vm.dirty_bytes", Some("vm.dirty_ratio=20")).await.unwrap();
        assert_eq!(fs::read_to_string(place.path().join("proc/sys/vm/dirty_ratio")).unwrap(), "20");
    }

    #[test]
    fn a_lasting_setting_is_a_line_of_a_file_of_ours() {
        let lasting = Sysctl::default().lasting("vm.dirty_ratio", Some("10")).unwrap();
        let (file, beginning, line) =
            (SYSCTL_FILE.into(), "vm.dirty_ratio = ".to_owned(), "vm.dirty_ratio = 10".to_owned());
        assert_eq!(lasting, Lasting::Line { file, beginning, line });
    }
}
