//! Attributes of a disk's queue, below `/sys`.

use crate::kernel::{is_free, own};
use crate::kind::{Answer, Kind, Lasting, Lasts, Measurable};
use crate::place::Place;
use crate::sides::Sides;
use crate::way_out::WayOut;
use millstream_host::kernel::{device, file};
use millstream_host::setting::{read, write};
use millstream_model::{Change, Refusal};
use std::path::{Path, PathBuf};

/// Attributes of block devices, by their path: `/sys/block/sda/queue/rotational`. They last by a rule of udev, which
/// finds the device by its serial number.
#[derive(Debug)]
pub struct SysfsAttribute;

/// The file that makes attributes last.
const UDEV_FILE: &str = "/etc/udev/rules.d/90-millstream.rules";

impl Kind for SysfsAttribute {
    fn name(&self) -> &'static str {
        "sysfs"
    }

    fn read<'a>(&'a self, place: &'a Place, target: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(async move { read(&file_of(place, target)?).map(Some).map_err(Refusal::from) })
    }

    fn write<'a>(&'a self, place: &'a Place, target: &'a str, value: Option<&'a str>) -> Answer<'a, ()> {
        Box::pin(async move { write(&file_of(place, target)?, own(target, value)?).map_err(Refusal::from) })
    }

    fn is_free(&self, place: &Place, target: Option<&str>) -> Result<(), Refusal> {
        is_free(place, target.map(Path::new))
    }

    fn identity<'a>(&'a self, place: &'a Place, target: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(async move { Ok(serial(place, parts(target)?.0).map(|(_, number)| number)) })
    }

    fn lasts(&self) -> Option<&dyn Lasts> {
        Some(self)
    }

    fn measurable(&self) -> Option<&dyn Measurable> {
        Some(self)
    }
}

impl Lasts for SysfsAttribute {
    /// A rule of udev, by which it finds the disk again.
    fn lasting(&self, place: &Place, target: &str, value: Option<&str>) -> Result<Lasting, Refusal> {
        let value = own(target, value)?;
        let (device, name) = parts(target)?;
        let Some((attribute, number)) = serial(place, device) else {
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
        Ok(Lasting::Line { file: place.path(Path::new(UDEV_FILE)), beginning, line })
    }

    fn files(&self, place: &Place, _: &str) -> Vec<PathBuf> {
        vec![place.path(Path::new(UDEV_FILE))]
    }
}

impl Measurable for SysfsAttribute {
    /// The tables of pgbench are in memory, so that nothing is read ahead.
    fn shows(&self, change: &Change) -> bool {
        !change.target.ends_with("/read_ahead_kb")
    }

    fn sides<'a>(&'a self, place: &'a Place, change: &'a Change, before: Option<&'a str>) -> Answer<'a, Sides> {
        Box::pin(async move {
            let queues = place.lab.as_deref().map(device::queues_below).unwrap_or_default();
            sides(change, before.unwrap_or_default(), &queues)
        })
    }
}

fn file_of(place: &Place, target: &str) -> Result<PathBuf, Refusal> {
    let (device, name) = parts(target)?;
    Ok(place.path(&Path::new("/sys/block").join(device).join("queue").join(name)))
}

/// What identifies a disk: the attribute by which udev matches it, and its value.
fn serial(place: &Place, device: &str) -> Option<(&'static str, String)> {
    let below = |name: &str| place.path(&Path::new("/sys/block").join(device).join(name));
    SERIALS.iter().find_map(|(name, attribute)| Some((*attribute, file::word(below(name))?)))
}

/// The lab changes the disk of its own data, whose queues these are.
fn sides(change: &Change, value: &str, queues: &[PathBuf]) -> Result<Sides, Refusal> {
    let (device, attribute) = parts(&change.target)?;
    if !queues.iter().any(|queue| *queue == Path::new("/sys/block").join(device).join("queue")) {
        let why = format!("the lab measures the disk of its own data, and that is not {device}");
        return Err(Refusal::new(why).or_hint(WayOut::MoveLab(device.to_owned()).to_string()));
    }
    Ok(Sides::of(change, value, |value| Sides::entry("host", &format!("disk.{attribute}"), value)))
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
    found.ok_or_else(|| Refusal::new(format!("{target} is not an attribute of a disk's queue")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::tests::{at, root};
    use crate::{Changes, Journal};
    use std::fs;

    #[tokio::test]
    async fn a_wrong_flag_of_a_disk_is_changed_lasts_and_is_undone() {
        let dir = root(&[("sys/block/sda/queue/rotational", "1\n"), ("sys/block/sda/device/serial", "S1\n")]);
        let own = dir.path().to_owned();
        let (kinds, journal, place): ([&dyn Kind; 1], _, _) =
            ([&SysfsAttribute], Journal::new(&own.join("j")), at(&own));
        let engine = Changes::new(&journal, &kinds, &place);
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
        let dir = root(&[("sys/block/loop0/queue/rotational", "1\n")]);
        let place = at(dir.path());
        let lasting = SysfsAttribute.lasting(&place, "/sys/block/loop0/queue/rotational", Some("0")).unwrap();
        let why = "loop0 has no serial number by which udev could find it again";
        assert_eq!(lasting, Lasting::UntilRestart(why.to_owned()));
        for target in ["/etc/passwd", "/sys/block/../queue/x", "/sys/block/sda/queue/../x"] {
            assert!(SysfsAttribute.read(&place, target).await.is_err(), "{target}");
        }
    }

    #[test]
    fn an_attribute_of_a_disk_is_measured_only_on_the_disk_of_the_lab() {
        let queues = [PathBuf::from("/sys/block/sda/queue")];
        let of = |disk: &str| {
            let (kind, target) = ("sysfs".to_owned(), format!("/sys/block/{disk}/queue/scheduler"));
            sides(&Change { kind, target, value: Some("none".to_owned()) }, "bfq", &queues)
        };
        let sides = of("sda").unwrap();
        assert_eq!(sides.now, "host = { \"disk.scheduler\" = \"bfq\" }\n");
        assert_eq!(sides.changed, "host = { \"disk.scheduler\" = \"none\" }\n");
        let other = of("sdb").unwrap_err();
        assert!(other.to_string().contains("that is not sdb"), "{other}");
        assert_eq!(other.hint, Some(WayOut::MoveLab("sdb".to_owned()).to_string()));
    }
}
