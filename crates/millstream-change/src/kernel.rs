//! What the kinds of changes of the kernel share.

use crate::place::Place;
use crate::way_out::WayOut;
use millstream_host::HostChanges;
use millstream_model::Refusal;
use std::path::Path;

/// The value for a target that always has one.
pub(super) fn own<'a>(target: &str, value: Option<&'a str>) -> Result<&'a str, Refusal> {
    value.ok_or_else(|| Refusal::new(format!("{target} always has a value")))
}

/// Refuses while an experiment of the lab holds a setting of the machine; without a setting, while it holds any.
pub(super) fn is_free(place: &Place, setting: Option<&Path>) -> Result<(), Refusal> {
    let journal = place.path(Path::new(HostChanges::JOURNAL));
    let is_held = match setting {
        Some(setting) => HostChanges::is_held(&journal, setting),
        None => HostChanges::is_pending_at(&journal),
    };
    if !is_held {
        return Ok(());
    }
    let why = "an experiment of the lab has changed kernel settings of this machine, and gives them back when it ends";
    Err(Refusal::new(why).or_hint(WayOut::WaitForLab.to_string()))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{Changes, Journal, Kind, Sysctl, SysfsAttribute};
    use millstream_model::Change;
    use std::fs;

    /// A directory with these files, in the place of `/`.
    pub(crate) fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    /// The machine in such a directory.
    pub(crate) fn at(root: &Path) -> Place {
        Place { root: Some(root.to_owned()), ..Place::default() }
    }

    #[tokio::test]
    async fn nothing_is_changed_while_an_experiment_of_the_lab_holds_settings() {
        let (of_sysctl, of_disk) = ("proc/sys/vm/swappiness", "sys/block/sda/queue/rotational");
        let dir = root(&[(of_sysctl, "1\n"), (of_disk, "1\n"), ("run/millstream-host-changes", "")]);
        let own = dir.path().to_owned();
        let journal = Journal::new(&own.join("j"));
        let (kinds, place): ([&dyn Kind; 2], _) = ([&Sysctl, &SysfsAttribute], at(&own));
        let engine = Changes::new(&journal, &kinds, &place);
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
}
