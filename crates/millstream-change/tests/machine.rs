//! A machine in a directory, with a kernel setting that is changed, made to last, and lost by a restart.

use crate::greeting::Greeting;
use millstream_change::{Changes, Journal, Kind, Place, Sysctl, SysfsAttribute, Undone};
use millstream_model::{Change, Refusal};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A setting, and the files that hold its values.
#[derive(Debug)]
pub(crate) struct Setting {
    /// The kind of its change.
    pub(crate) kind: &'static str,
    target: &'static str,
    /// The kernel's file.
    file: &'static str,
    /// The file that makes values last.
    lasting: &'static str,
    /// What somebody else has written there. The first line, if there is one, has nothing to do with the setting.
    theirs: &'static str,
    /// What stands before the value in a line there.
    mark: &'static str,
}

pub(crate) static SETTINGS: [Setting; 3] = [
    Setting {
        kind: "sysctl",
        target: "vm.zone_reclaim_mode",
        file: "proc/sys/vm/zone_reclaim_mode",
        lasting: "etc/sysctl.d/zz-millstream.conf",
        theirs: "vm.swappiness = 1\nvm.zone_reclaim_mode = 1\n",
        mark: "vm.zone_reclaim_mode = ",
    },
    Setting {
        kind: "sysfs",
        target: "/sys/block/sda/queue/rotational",
        file: "sys/block/sda/queue/rotational",
        lasting: "etc/udev/rules.d/90-millstream.rules",
        theirs: "# theirs\n",
        mark: "ATTR{queue/rotational}=\"",
    },
    Setting { kind: "greeting", target: "motd", file: "run/motd", lasting: "etc/motd", theirs: "", mark: "" },
];

/// The value after a start of the machine.
pub(crate) const DEFAULT: &str = "1";
/// The value that somebody has set since.
pub(crate) const BEFORE: &str = "2";
/// The value of the change.
pub(crate) const NEW: &str = "0";

/// A machine with one setting.
#[derive(Debug)]
pub(crate) struct Machine {
    /// Its `/`.
    pub(crate) root: PathBuf,
    setting: &'static Setting,
}

impl Machine {
    /// A machine in an empty directory, where somebody has set the value by hand.
    pub(crate) fn new(root: &Path, setting: &'static Setting) -> Self {
        let machine = Self::at(root, setting);
        machine.start("first");
        machine.put("sys/block/sda/device/serial", "S1\n");
        machine.put(setting.lasting, setting.theirs);
        machine.put(setting.file, BEFORE);
        machine
    }

    /// The same, with the new value, which was made to last.
    pub(crate) async fn confirmed(root: &Path, setting: &'static Setting) -> Self {
        let machine = Self::new(root, setting);
        for step in ["fix", "confirm"] {
            machine.run(step).await.unwrap();
        }
        machine
    }

    /// The machine that is in a directory already.
    pub(crate) fn at(root: &Path, setting: &'static Setting) -> Self {
        Self { root: root.to_owned(), setting }
    }

    pub(crate) fn put(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn start(&self, boot: &str) {
        self.put("proc/sys/kernel/random/boot_id", boot);
    }

    /// Starts the machine again. The kernel has its own value then, or the one that was made to last.
    pub(crate) fn restart(&self) {
        self.start("second");
        self.put(self.setting.file, self.lasting_value().as_deref().unwrap_or(DEFAULT));
    }

    /// The value now.
    pub(crate) fn value(&self) -> String {
        fs::read_to_string(self.root.join(self.setting.file)).unwrap().trim().to_owned()
    }

    /// Whether the new value lasts. The rest of the file must be what somebody else has written.
    pub(crate) fn lasts(&self) -> bool {
        let (text, theirs) = (self.lasting_text(), self.setting.theirs);
        let lasts = self.lasting_value().as_deref() == Some(NEW);
        assert!(
            if lasts { text.starts_with(theirs.lines().next().unwrap_or_default()) } else { text == theirs },
            "{text}"
        );
        lasts
    }

    /// Writes the file that makes values last as somebody else had written it.
    pub(crate) fn remove_line(&self) {
        self.put(self.setting.lasting, self.setting.theirs);
    }

    fn lasting_text(&self) -> String {
        fs::read_to_string(self.root.join(self.setting.lasting)).unwrap()
    }

    fn lasting_value(&self) -> Option<String> {
        let text = self.lasting_text();
        let value = text.lines().find_map(|line| line.split_once(self.setting.mark));
        value.map(|(_, value)| value.trim_end_matches('"').to_owned())
    }

    pub(crate) fn journal(&self) -> Journal {
        Journal::below(&self.root, &self.root.join("changes"))
    }

    /// Plans and applies a change to the new value (`fix`), or confirms, undoes or closes the first change.
    pub(crate) async fn run(&self, step: &str) -> Result<Option<Undone>, Refusal> {
        let (journal, place) = (self.journal(), Place { root: Some(self.root.clone()), ..Place::default() });
        let kinds: [&dyn Kind; 3] = [&Sysctl, &SysfsAttribute, &Greeting];
        let changes = Changes::new(&journal, &kinds, &place);
        match step {
            "fix" => {
                let (kind, target) = (self.setting.kind.to_owned(), self.setting.target.to_owned());
                let change = Change { kind, target, value: Some(NEW.to_owned()) };
                let planned = changes.plan(&change, "a test", Some(Duration::from_secs(60))).await?;
                changes.apply(planned.number).await?;
            }
            "confirm" => {
                changes.confirm(1).await?;
            }
            "undo" => return Ok(Some(changes.undo(1).await?.1)),
            "keep" => return Ok(Some(changes.keep(1).await?.1)),
            _ => panic!("{step} is not a step"),
        }
        Ok(None)
    }
}
