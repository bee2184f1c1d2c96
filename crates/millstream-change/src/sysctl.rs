//! Settings of the kernel that `sysctl` knows.

use crate::kernel::{is_free, own};
use crate::kind::{Answer, Kind, Lasting, Lasts, Measurable};
use crate::place::Place;
use crate::sides::Sides;
use millstream_host::setting::{origin, pair_of, sysctl_file, write};
use millstream_model::{Change, Refusal};
use std::path::{Path, PathBuf};

/// Settings by the name that `sysctl` gives them. They last by a file below `/etc/sysctl.d`.
#[derive(Debug)]
pub struct Sysctl;

/// The file that makes settings last. Later names count, and `99-sysctl.conf` is common.
const SYSCTL_FILE: &str = "/etc/sysctl.d/zz-millstream.conf";

impl Kind for Sysctl {
    fn name(&self) -> &'static str {
        "sysctl"
    }

    /// Of two settings of which the kernel keeps one (`vm.dirty_bytes` and `vm.dirty_ratio`), the value is that of the
    /// other one if this one is 0: `vm.dirty_ratio=20`.
    fn read<'a>(&'a self, place: &'a Place, target: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(async move {
            let file = file(place, target)?;
            let (counts, value) = origin(&file)?;
            Ok(Some(match other_of(target).filter(|_| counts != file) {
                Some(other) => format!("{other}={value}"),
                None => value,
            }))
        })
    }

    fn write<'a>(&'a self, place: &'a Place, target: &'a str, value: Option<&'a str>) -> Answer<'a, ()> {
        Box::pin(async move {
            let value = own(target, value)?;
            let (name, value) = match value.split_once('=') {
                Some((other, value)) if other_of(target).as_deref() == Some(other) => (other, value),
                _ => (target, value),
            };
            write(&file(place, name)?, value).map_err(Refusal::from)
        })
    }

    fn is_free(&self, place: &Place, target: Option<&str>) -> Result<(), Refusal> {
        is_free(place, target.and_then(sysctl_file).as_deref())
    }

    fn lasts(&self) -> Option<&dyn Lasts> {
        Some(self)
    }

    fn measurable(&self) -> Option<&dyn Measurable> {
        Some(self)
    }
}

impl Lasts for Sysctl {
    fn lasting(&self, place: &Place, target: &str, value: Option<&str>) -> Result<Lasting, Refusal> {
        let value = own(target, value)?;
        let beginning = format!("{target} = ");
        let line = format!("{beginning}{value}");
        Ok(Lasting::Line { file: place.path(Path::new(SYSCTL_FILE)), beginning, line })
    }

    fn files(&self, place: &Place, _: &str) -> Vec<PathBuf> {
        vec![place.path(Path::new(SYSCTL_FILE))]
    }
}

impl Measurable for Sysctl {
    /// The others limit what the few sessions and the small tables of pgbench do not come near.
    fn shows(&self, change: &Change) -> bool {
        change.target.starts_with("vm.dirty_")
    }

    fn sides<'a>(&'a self, _: &'a Place, change: &'a Change, before: Option<&'a str>) -> Answer<'a, Sides> {
        Box::pin(async move { Ok(sides(change, before.unwrap_or_default())) })
    }
}

fn file(place: &Place, name: &str) -> Result<PathBuf, Refusal> {
    let file = sysctl_file(name).ok_or_else(|| Refusal::new(format!("{name} is not a name of sysctl")))?;
    Ok(place.path(&file))
}

fn sides(change: &Change, value: &str) -> Sides {
    let sides = Sides::of(change, value, |value| Sides::entry("host", &change.target, value)).with_checkpoints();
    // Limits of dirty pages are bytes or shares of the memory; the kernel keeps the one that was set last.
    match value.split_once('=') {
        Some((other, plain)) => Sides { now: Sides::entry("host", other, plain), ..sides },
        None => sides,
    }
}

/// The other setting of a pair of which the kernel keeps one.
fn other_of(name: &str) -> Option<String> {
    let (before, last) = name.rsplit_once('.')?;
    Some(format!("{before}.{}", pair_of(last)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::tests::{at, root};
    use std::fs;

    #[tokio::test]
    async fn the_ratio_comes_back_if_bytes_were_written() {
        let dir = root(&[("proc/sys/vm/dirty_bytes", "0\n"), ("proc/sys/vm/dirty_ratio", "20\n")]);
        let place = at(dir.path());
        assert_eq!(Sysctl.read(&place, "vm.dirty_bytes").await.unwrap().as_deref(), Some("vm.dirty_ratio=20"));
        Sysctl.write(&place, "vm.dirty_bytes", Some("1000000")).await.unwrap();
        assert_eq!(Sysctl.read(&place, "vm.dirty_bytes").await.unwrap().as_deref(), Some("1000000"));
        fs::write(dir.path().join("proc/sys/vm/dirty_ratio"), "0\n").unwrap();
        Sysctl.write(&place, "vm.dirty_bytes", Some("vm.dirty_ratio=20")).await.unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("proc/sys/vm/dirty_ratio")).unwrap(), "20");
    }

    #[test]
    fn a_lasting_setting_is_a_line_of_a_file_of_ours() {
        let lasting = Sysctl.lasting(&Place::default(), "vm.dirty_ratio", Some("10")).unwrap();
        let (file, beginning, line) =
            (SYSCTL_FILE.into(), "vm.dirty_ratio = ".to_owned(), "vm.dirty_ratio = 10".to_owned());
        assert_eq!(lasting, Lasting::Line { file, beginning, line });
    }

    #[test]
    fn the_limit_that_counts_now_is_the_one_that_the_kernel_keeps() {
        let (kind, target) = ("sysctl".to_owned(), "vm.dirty_bytes".to_owned());
        let sides = sides(&Change { kind, target, value: Some("1000".to_owned()) }, "vm.dirty_ratio=20");
        assert_eq!(sides.now, "host = { \"vm.dirty_ratio\" = \"20\" }\n");
        assert_eq!(sides.changed, "host = { \"vm.dirty_bytes\" = \"1000\" }\n");
    }
}
