//! Kinds of changes of the kernel: what `sysctl` knows, and attributes below `/sys`.

use super::held::{HostChanges, JOURNAL};
use super::kind::{Answer, Kind, Lasting, Refusal};
use super::setting::{origin, pair_of, read, sysctl_file, write};
use crate::kernel::file;
use std::path::{Path, PathBuf};

/// Settings by the name that `sysctl` gives them. They last by a file below `/etc/sysctl.d`.
#[derive(Debug, Default)]
pub struct Sysctl {
    /// Where `/proc` and `/etc` are, if not at the root: for tests.
    pub root: Option<PathBuf>,
}

/// Attributes of block devices, by their path: `/sys/block/sda/queue/rotational`. They last by a rule of udev, which
/// finds the device by its serial number.
#[derive(Debug, Default)]
pub struct SysfsAttribute {
    /// Where `/sys` and `/etc` are, if not at the root: for tests.
    pub root: Option<PathBuf>,
}

/// The kinds of changes of this machine's kernel.
pub static KERNEL_KINDS: [&(dyn Kind + 'static); 2] = [&Sysctl { root: None }, &SysfsAttribute { root: None }];

/// The file that makes settings last. Later names count, and `99-sysctl.conf` is common.
const SYSCTL_FILE: &str = "/etc/sysctl.d/zz-millstream.conf";

/// The file that makes attributes last.
const UDEV_FILE: &str = "/etc/udev/rules.d/90-millstream.rules";

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
        let file = sysctl_file(name).ok_or_else(|| Refusal(format!("{name} is no name of sysctl")))?;
        Ok(rooted(self.root.as_deref(), &file))
    }
}

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
    found.ok_or_else(|| Refusal(format!("{target} is no attribute of a disk's queue")))
}

/// The value for a target that always has one.
fn own<'a>(target: &str, value: Option<&'a str>) -> Result<&'a str, Refusal> {
    value.ok_or_else(|| Refusal(format!("{target} always has a value")))
}

/// Refuses while an experiment of the lab holds a setting of the machine; without a setting, while it holds any.
fn is_free(root: Option<&Path>, setting: Option<&Path>) -> Result<(), Refusal> {
    let journal = rooted(root, Path::new(JOURNAL));
    let is_held = match setting {
        Some(setting) => HostChanges::is_held(&journal, setting),
        None => HostChanges::is_pending_at(&journal),
    };
    if !is_held {
        return Ok(());
    }
    let why = "an experiment of the lab has changed kernel settings of this machine, and gives them back when it ends";
    let way_out = "wait for that; if it was killed, the next millstream lab run as root gives them back";
    Err(Refusal(format!("{why}; {way_out}")))
}

fn rooted(root: Option<&Path>, path: &Path) -> PathBuf {
    root.map_or_else(|| path.to_owned(), |root| root.join(path.strip_prefix("/").unwrap_or(path)))
}

/// The other setting of a pair of which the kernel keeps one.
fn other_of(name: &str) -> Option<String> {
    let (before, last) = name.rsplit_once('.')?;
    Some(format!("{before}.{}", pair_of(last)?))
}

#[cfg(test)]
mod tests {
    use super::super::{Engine, Journal};
    use super::*;
    use millstream_model::Change;
    use std::fs;

    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

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

    #[tokio::test]
    async fn nothing_is_changed_while_an_experiment_of_the_lab_holds_settings() {
        let (of_sysctl, of_disk) = ("proc/sys/vm/swappiness", "sys/block/sda/queue/rotational");
        let place = root(&[(of_sysctl, "1\n"), (of_disk, "1\n"), ("run/millstream-host-changes", "")]);
        let own = place.path().to_owned();
        let (sysctl, sysfs) = (Sysctl { root: Some(own.clone()) }, SysfsAttribute { root: Some(own.clone()) });
        let journal = Journal::new(&own.join("j"));
        let kinds: [&dyn Kind; 2] = [&sysctl, &sysfs];
        let engine = Engine::new(&journal, &kinds);
        let lab_holds = |text: &str| fs::write(own.join("run/millstream-host-changes"), text).unwrap();
        let is_refused = |refusal: Option<Refusal>| {
            let text = refusal.unwrap().to_string();
            assert!(text.starts_with("an experiment of the lab has changed kernel settings"), "{text}");
        };
        for (kind, target, file) in
            [("sysctl", "vm.swappiness", of_sysctl), ("sysfs", "/sys/block/sda/queue/rotational", of_disk)]
        {
            let value = || fs::read_to_string(own.join(file)).unwrap().trim().to_owned();
            let change = Change { kind: kind.to_owned(), target: target.to_owned(), value: Some("0".to_owned()) };
            let known = journal.entries().unwrap().len();
            let (it, another) = (format!("/{file}\t60\n"), "/proc/sys/vm/dirty_ratio\t20\n");
            lab_holds(another);
            is_refused(engine.plan(&change, "a test", None).await.err());
            assert_eq!(journal.entries().unwrap().len(), known);
            lab_holds("");
            let number = engine.plan(&change, "a test", None).await.unwrap().number;
            lab_holds(&it);
            is_refused(engine.apply(number).await.err());
            assert_eq!(value(), "1");
            lab_holds("");
            engine.apply(number).await.unwrap();
            lab_holds(&it);
            is_refused(engine.confirm(number).await.err());
            is_refused(engine.undo(number).await.err());
            assert_eq!(value(), "0");
            // A plan that was made before is carried out to its end.
            lab_holds(another);
            engine.undo(number).await.unwrap();
            assert_eq!(value(), "1");
        }
    }

    #[test]
    fn a_lasting_setting_is_a_line_of_a_file_of_ours() {
        let lasting = Sysctl::default().lasting("vm.dirty_ratio", Some("10")).unwrap();
        let (file, beginning, line) =
            (SYSCTL_FILE.into(), "vm.dirty_ratio = ".to_owned(), "vm.dirty_ratio = 10".to_owned());
        assert_eq!(lasting, Lasting::Line { file, beginning, line });
    }
}
