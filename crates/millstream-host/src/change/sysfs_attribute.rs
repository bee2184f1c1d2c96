//! Attributes of a disk's queue, below `/sys`.

use super::kernel::{is_free, own, rooted};
use super::kind::{Answer, Kind, Lasting, Refusal};
use super::setting::{read, write};
use crate::kernel::file;
use std::path::{Path, PathBuf};

/// Attributes of block devices, by their path: `/sys/block/sda/queue/rotational`. They last by a rule of udev, which
/// finds the device by its serial number.
#[derive(Debug, Default)]
pub struct SysfsAttribute {
    /// Where `/sys` and `/etc` are, if not at the root: for tests.
    pub root: Option<PathBuf>,
}

/// The file that makes attributes last.
const UDEV_FILE: &str = "/etc/udev/rules.d/90-millstream.rules";

impl Kind for SysfsAttribute {
    fn name(&self) -> &'static str {
        "sysfs"
    }

    fn read<'a>(&'a self, target: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(async move { read(&self.file(target)?).map(Some).map_err(Refusal::from) })
    }

    fn write<'a>(&'a self, target: &'a str, value: Option<&'a str>) -> Answer<'a, ()> {
        Box::pin(async move { write(&self.file(target)?, own(target, value)?).map_err(Refusal::from) })
    }

    /// A rule of udev, by which it finds the disk again.
    fn lasting(&self, target: &str, value: Option<&str>) -> Result<Lasting, Refusal> {
        let value = own(target, value)?;
        let (device, name) = parts(target)?;
        let Some((attribute, number)) = self.serial(device) else {
            let why = "has no serial number by which udev could find it again";
            return Ok(Lasting::UntilRestart(format!("{device} {why}")));
        };
        // These characters have a meaning in patterns of udev.
        let number = number.replace(['"', '\\', '*', '[', ']', '|'], "?");
        let beginning = format!(
            "ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{{DEVTYPE}}==\"disk\", {attribute}==\"{number}\", \
             ATTR{{queue/{name}}}=\""
        );
        let line = format!("{beginning}{value}\"");
        Ok(Lasting::Line { file: rooted(self.root.as_deref(), Path::new(UDEV_FILE)), beginning, line })
    }

    fn is_free(&self, target: Option<&str>) -> Result<(), Refusal> {
        is_free(self.root.as_deref(), target.map(Path::new))
    }

    fn identity<'a>(&'a self, target: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(async move { Ok(self.serial(parts(target)?.0).map(|(_, number)| number)) })
    }
}

impl SysfsAttribute {
    fn file(&self, target: &str) -> Result<PathBuf, Refusal> {
        let (device, name) = parts(target)?;
        let file = Path::new("/sys/block").join(device).join("queue").join(name);
        Ok(rooted(self.root.as_deref(), &file))
    }

    /// What identifies a disk: the attribute by which udev matches it, and its value.
    fn serial(&self, device: &str) -> Option<(&'static str, String)> {
        let below = |name: &str| rooted(self.root.as_deref(), &Path::new("/sys/block").join(device).join(name));
        SERIALS.iter().find_map(|(name, attribute)| Some((*attribute, file::word(below(name))?)))
    }
}

/// Files below a disk's directory that identify it, and how a rule of udev matches them.
const SERIALS: &[(&str, &str)] = &[
    ("serial", "ATTR{serial}"),
    ("wwid", "ATTR{wwid}"),
    ("device/serial", "ATTRS{serial}"),
    ("device/wwid", "ATTRS{wwid}"),
];

/// Device and attribute of `/sys/block/DEVICE/queue/ATTRIBUTE`.
fn parts(target: &str) -> Result<(&str, &str), Refusal> {
    let plain = |text: &&str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-' || c == '!')
    };
    let inside = target.strip_prefix("/sys/block/").and_then(|rest| rest.split_once("/queue/"));
    let found = inside.filter(|(device, name)| plain(device) && plain(name));
    found.ok_or_else(|| Refusal(format!("{target} is not an attribute of a disk's queue")))
}

#[cfg(test)]
mod tests {
    use super::super::kernel::tests::root;
    use super::super::{Engine, Journal};
    use super::*;
    use millstream_model::Change;
    use std::fs;

    #[tokio::test]
    async fn a_wrong_flag_of_a_disk_is_changed_lasts_and_is_undone() {
        let place = root(&[("sys/block/sda/queue/rotational", "1\n"), ("sys/block/sda/device/serial", "S1\n")]);
        let own = place.path().to_owned();
        let (kind, journal) = (SysfsAttribute { root: Some(own.clone()) }, Journal::new(&own.join("j")));
        let kinds: [&dyn Kind; 1] = [&kind];
        let engine = Engine::new(&journal, &kinds);
        let target = "/sys/block/sda/queue/rotational".to_owned();
        let change = Change { kind: "sysfs".to_owned(), target, value: Some("0".to_owned()) };
        let entry = engine.plan(&change, "a test", None).await.unwrap();
        engine.apply(entry.number).await.unwrap();
        assert_eq!(fs::read_to_string(own.join("sys/block/sda/queue/rotational")).unwrap(), "0");
        engine.confirm(entry.number).await.unwrap();
        let rules = fs::read_to_string(own.join("etc/udev/rules.d/90-millstream.rules")).unwrap();
        assert!(rules.contains("ATTRS{serial}==\"S1\", ATTR{queue/rotational}=\"0\""), "{rules}");
        engine.undo(entry.number).await.unwrap();
        assert_eq!(fs::read_to_string(own.join("sys/block/sda/queue/rotational")).unwrap(), "1");
        assert!(!own.join("etc/udev/rules.d/90-millstream.rules").exists());
    }

    #[tokio::test]
    async fn a_disk_without_a_serial_number_is_changed_until_the_next_start() {
        let place = root(&[("sys/block/loop0/queue/rotational", "1\n")]);
        let kind = SysfsAttribute { root: Some(place.path().to_owned()) };
        let lasting = kind.lasting("/sys/block/loop0/queue/rotational", Some("0")).unwrap();
        let why = "loop0 has no serial number by which udev could find it again";
        assert_eq!(lasting, Lasting::UntilRestart(why.to_owned()));
        for target in ["/etc/passwd", "/sys/block/../queue/x", "/sys/block/sda/queue/../x"] {
            assert!(kind.read(target).await.is_err(), "{target}");
        }
    }
}
