//! Several settings as one change, with one undo: a profile.

use super::setting::SettingKind;
use millstream_change::{Answer, Kind, Lasting, Lasts, Place, Sysctl, SysfsAttribute, find};
use millstream_host::setting::same;
use millstream_model::{Change, Refusal};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Settings of a server, of its kernel and of its disks, which are changed and taken back together. A target names them all, as
/// `KIND:TARGET` with commas between; a value is the JSON list of theirs.
#[derive(Debug)]
pub struct ProfileKind;

/// The kinds of its parts.
static PARTS: &[&dyn Kind] = &[&Sysctl, &SysfsAttribute, &SettingKind];

/// These changes as one. `None`: there are none.
pub(crate) fn together(changes: &[Change]) -> Option<Change> {
    let targets: Vec<String> = changes.iter().map(|one| format!("{}:{}", one.kind, one.target)).collect();
    let values: Vec<Option<&str>> = changes.iter().map(|one| one.value.as_deref()).collect();
    let value = serde_json::to_string(&values).ok().filter(|_| !changes.is_empty())?;
    Some(Change::new("profile", targets.join(","), value))
}

impl ProfileKind {
    /// The kinds and targets of the parts of such a change.
    ///
    /// # Errors
    /// The target is not that of a profile.
    pub fn parts(target: &str) -> Result<Vec<(&'static str, &str)>, Refusal> {
        Ok(parts(target)?.into_iter().map(|(kind, target)| (kind.name(), target)).collect())
    }
}

impl Kind for ProfileKind {
    fn name(&self) -> &'static str {
        "profile"
    }

    fn is_of_server(&self) -> bool {
        true
    }

    fn read<'a>(&'a self, place: &'a Place, target: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(async move {
            let mut values = Vec::new();
            for (kind, target) in parts(target)? {
                values.push(kind.read(place, target).await?);
            }
            Ok(Some(written(&values)?))
        })
    }

    fn write<'a>(&'a self, place: &'a Place, target: &'a str, value: Option<&'a str>) -> Answer<'a, ()> {
        Box::pin(async move {
            for ((kind, target), value) in each(target, value)? {
                let now = kind.read(place, target).await?;
                if !same(now.as_deref(), value.as_deref()) {
                    kind.write(place, target, value.as_deref()).await?;
                }
            }
            Ok(())
        })
    }

    fn spelled<'a>(&'a self, place: &'a Place, target: &'a str, value: &'a str) -> Answer<'a, String> {
        Box::pin(async move {
            let mut values = Vec::new();
            for ((kind, target), value) in each(target, Some(value))? {
                values.push(match &value {
                    Some(value) => Some(kind.spelled(place, target, value).await?),
                    None => None,
                });
            }
            written(&values)
        })
    }

    fn identity<'a>(&'a self, place: &'a Place, target: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(async move {
            let (mut all, mut knows_server) = (Vec::new(), false);
            for (kind, target) in parts(target)? {
                // All parts of the server are on the same one.
                if !(kind.is_of_server() && knows_server) {
                    all.extend(kind.identity(place, target).await?);
                }
                knows_server |= kind.is_of_server();
            }
            Ok((!all.is_empty()).then(|| all.join("; ")))
        })
    }

    /// A kill may leave some parts with the new value and others with the old one.
    fn overwrites(&self, is_confirmed: bool) -> bool {
        !is_confirmed
    }

    fn is_free(&self, place: &Place, target: Option<&str>) -> Result<(), Refusal> {
        match target {
            Some(target) => parts(target)?.into_iter().try_for_each(|(kind, target)| kind.is_free(place, Some(target))),
            None => PARTS.iter().try_for_each(|kind| kind.is_free(place, None)),
        }
    }

    fn lasts(&self) -> Option<&dyn Lasts> {
        Some(self)
    }
}

impl Lasts for ProfileKind {
    /// Files of its own, so that its lines come and go together.
    fn lasting(&self, place: &Place, target: &str, value: Option<&str>) -> Result<Lasting, Refusal> {
        let (mut files, mut until_restart) = (BTreeMap::<PathBuf, String>::new(), None);
        for ((kind, target), value) in each(target, value)? {
            match kind.lasting(place, target, value.as_deref())? {
                Lasting::Always => {}
                Lasting::Line { file, line, .. } => files.entry(beside(&file)).or_default().push_str(&(line + "\n")),
                Lasting::Files(more) => files.extend(more),
                Lasting::UntilRestart(why) => until_restart = Some(why),
            }
        }
        Ok(match until_restart {
            Some(why) if files.is_empty() => Lasting::UntilRestart(why),
            _ if files.is_empty() => Lasting::Always,
            _ => Lasting::Files(files.into_iter().collect()),
        })
    }

    fn files(&self, place: &Place, target: &str) -> Vec<PathBuf> {
        let of = |(kind, target): (&dyn Kind, &str)| kind.lasts().map(|lasts| lasts.files(place, target));
        let all = parts(target).unwrap_or_default().into_iter().filter_map(of).flatten();
        all.map(|file| beside(&file)).collect()
    }

    fn stays_in_part(&self, target: &str) -> bool {
        parts(target).is_ok_and(|parts| parts.iter().any(|(kind, _)| kind.lasts().is_none()))
    }
}

/// The parts of a target.
fn parts(target: &str) -> Result<Vec<(&'static dyn Kind, &str)>, Refusal> {
    let part = |part: &str| part.split_once(':').and_then(|(kind, _)| find(PARTS, kind));
    let one = |text| match part(text) {
        Some(kind) => Ok((kind, &text[kind.name().len() + 1..])),
        None => Err(Refusal::new(format!("{text} is no setting of a server, its kernel or its disks"))),
    };
    target.split(',').map(one).collect()
}

/// A part, and its value.
type Valued<'a> = ((&'static dyn Kind, &'a str), Option<String>);

/// The parts of a target, each with its value.
fn each<'a>(target: &'a str, value: Option<&str>) -> Result<Vec<Valued<'a>>, Refusal> {
    let parts = parts(target)?;
    let values = value.and_then(|value| serde_json::from_str::<Vec<Option<String>>>(value).ok());
    match values.filter(|values| values.len() == parts.len()) {
        Some(values) => Ok(parts.into_iter().zip(values).collect()),
        None => Err(Refusal::new(format!("there is not one value for each part of {target}"))),
    }
}

fn written(values: &[Option<String>]) -> Result<String, Refusal> {
    serde_json::to_string(values).map_err(|error| Refusal::new(format!("values that cannot be written: {error}")))
}

/// The file of ours that is to a file of single changes as `zz-millstream-profile.conf` to `zz-millstream.conf`. It is read
/// before that one, so a single change counts that was made later.
fn beside(file: &Path) -> PathBuf {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
    file.with_file_name(format!("{stem}-profile.{ending}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_change::{Changes, Journal, State};
    use std::fs;

    const SWAPPINESS: &str = "proc/sys/vm/swappiness";
    const SCHEDULER: &str = "sys/block/sda/queue/scheduler";

    fn changes() -> Vec<Change> {
        vec![
            Change::new("sysctl", "vm.swappiness", "10"),
            Change::new("sysfs", "/sys/block/sda/queue/scheduler", "none"),
        ]
    }

    /// A machine with a disk.
    fn machine() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in [(SWAPPINESS, "60\n"), (SCHEDULER, "bfq\n"), ("sys/block/sda/device/serial", "S1\n")] {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    #[tokio::test]
    async fn all_parts_are_changed_last_and_come_back_together() {
        let dir = machine();
        let place = Place { root: Some(dir.path().to_owned()), ..Place::default() };
        let (kinds, journal): ([&dyn Kind; 1], _) = ([&ProfileKind], Journal::new(&dir.path().join("j")));
        let engine = Changes::new(&journal, &kinds, &place);
        let value = |path: &str| fs::read_to_string(dir.path().join(path)).unwrap().trim().to_owned();
        let change = together(&changes()).unwrap();
        assert_eq!(change.target, "sysctl:vm.swappiness,sysfs:/sys/block/sda/queue/scheduler");
        let entry = engine.plan(&change, "a test", None).await.unwrap();
        assert_eq!(entry.before.as_deref(), Some(r#"["60","bfq"]"#));
        assert_eq!(entry.identity.as_deref(), Some("S1"));
        engine.apply(entry.number).await.unwrap();
        assert_eq!((value(SWAPPINESS), value(SCHEDULER)), ("10".to_owned(), "none".to_owned()));
        engine.confirm(entry.number).await.unwrap();
        assert_eq!(value("etc/sysctl.d/zz-millstream-profile.conf"), "vm.swappiness = 10");
        assert!(value("etc/udev/rules.d/90-millstream-profile.rules").ends_with("ATTR{queue/scheduler}=\"none\""));
        engine.undo(entry.number).await.unwrap();
        assert_eq!((value(SWAPPINESS), value(SCHEDULER)), ("60".to_owned(), "bfq".to_owned()));
        for file in ["etc/sysctl.d/zz-millstream-profile.conf", "etc/udev/rules.d/90-millstream-profile.rules"] {
            assert!(!dir.path().join(file).exists(), "{file}");
        }
    }

    #[tokio::test]
    async fn what_a_kill_or_a_refusal_has_left_half_way_is_given_back() {
        let dir = machine();
        let place = Place { root: Some(dir.path().to_owned()), ..Place::default() };
        let (kinds, journal): ([&dyn Kind; 1], _) = ([&ProfileKind], Journal::new(&dir.path().join("j")));
        let engine = Changes::new(&journal, &kinds, &place);
        let value = |path: &str| fs::read_to_string(dir.path().join(path)).unwrap().trim().to_owned();
        let killed = engine.plan(&together(&changes()).unwrap(), "a test", None).await.unwrap();
        fs::write(dir.path().join(SWAPPINESS), "10").unwrap();
        let (entry, _) = engine.undo(killed.number).await.unwrap();
        assert_eq!((entry.state, value(SWAPPINESS)), (State::Undone, "60".to_owned()));

        // The second part is gone by then.
        let refused = engine.plan(&together(&changes()).unwrap(), "a test", None).await.unwrap();
        fs::rename(dir.path().join(SCHEDULER), dir.path().join("gone")).unwrap();
        engine.apply(refused.number).await.unwrap_err();
        fs::rename(dir.path().join("gone"), dir.path().join(SCHEDULER)).unwrap();
        engine.undo(refused.number).await.unwrap();
        assert_eq!((value(SWAPPINESS), value(SCHEDULER)), ("60".to_owned(), "bfq".to_owned()));
    }

    #[test]
    fn settings_of_the_server_outlive_the_machines_restart_and_others_do_not() {
        let stays = |target: &str| ProfileKind.stays_in_part(target);
        assert!(stays("sysctl:vm.swappiness,setting:max_wal_size") && !stays("sysctl:vm.swappiness"));
        let always = ProfileKind.lasting(&Place::default(), "setting:max_wal_size", Some(r#"["4GB"]"#));
        assert_eq!(always.unwrap(), Lasting::Always);
        for (target, value) in [("index:shop/i", r#"["x"]"#), ("setting:a,setting:b", r#"["x"]"#), ("", "[]")] {
            assert!(ProfileKind.lasting(&Place::default(), target, Some(value)).is_err(), "{target}");
        }
        assert_eq!(together(&[]), None);
    }
}
