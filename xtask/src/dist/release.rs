//! What is packaged: its version, its target, its moment, and the folders in which it is made.

use super::components::Components;
use super::options::{Options, Target};
use super::programs::{cannot, printed};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The name of the file with the checksums of a distribution.
pub(super) const SUMS: &str = "SHA256SUMS";

/// What is packaged.
pub(super) struct Release {
    /// The root of the workspace.
    pub(super) root: PathBuf,
    /// Where finished packages go.
    pub(super) packages: PathBuf,
    /// Where everything else is made.
    pub(super) work: PathBuf,
    pub(super) target: Target,
    /// Of the program, and so of every package.
    pub(super) version: String,
    /// As Debian counts.
    pub(super) debian_version: String,
    /// The moment that files in packages have, in seconds since 1970.
    pub(super) moment: String,
}

impl Release {
    /// A release of the checked-out commit.
    pub(super) fn of(options: &Options, components: &Components) -> Result<Self, String> {
        let root = crate::workspace_root();
        require_committed(&root)?;
        let (packages, work) = (root.join("target/packages"), root.join("target/dist"));
        for folder in [&packages, &work] {
            fs::create_dir_all(folder).map_err(cannot("make", folder))?;
        }
        let version = components.program().version.clone();
        let debian_version = format!("{version}-{}", options.revision);
        let moment = moment(&root)?;
        Ok(Self { root, packages, work, target: options.target, version, debian_version, moment })
    }

    /// A program, which takes moments from this release and nothing from the language of the machine.
    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("LC_ALL", "C").env("TZ", "UTC").env("SOURCE_DATE_EPOCH", &self.moment);
        command
    }

    /// The moment in a format of `date`.
    pub(super) fn date(&self, format: &str) -> Result<String, String> {
        let date = printed(self.command("date").arg("-u").arg("-d").arg(format!("@{}", self.moment)).arg(format))?;
        Ok(date.trim().to_owned())
    }

    /// The place of a finished package. Older ones of its kind go, so that a pattern such as `*.whl` means one file. So do
    /// checksums, of which `dist` writes new ones at its end.
    pub(super) fn place(&self, name: &str, is_of_kind: &dyn Fn(&str) -> bool) -> Result<PathBuf, String> {
        clear(&self.packages, &|other| other == SUMS || is_of_kind(other))?;
        Ok(self.packages.join(name))
    }

    /// A new, empty folder of this name in which something is made.
    pub(super) fn new_folder(&self, name: &str) -> Result<PathBuf, String> {
        let folder = self.work.join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(cannot("remove", &folder))?;
        }
        fs::create_dir_all(&folder).map_err(cannot("make", &folder))?;
        Ok(folder)
    }
}

/// Refuses what no commit has: packages name the checked-out commit, and bear its time.
fn require_committed(root: &Path) -> Result<(), String> {
    match printed(Command::new("git").args(["status", "--porcelain"]).current_dir(root)) {
        Ok(status) => committed(&status),
        // Sources that were unpacked have no commit; then the caller says the time.
        Err(_) => Ok(()),
    }
}

/// An error if git says that something is not committed.
fn committed(status: &str) -> Result<(), String> {
    let changed: Vec<&str> = status.lines().filter_map(|line| line.get(3..)).collect();
    let Some(first) = changed.first() else { return Ok(()) };
    let others = if changed.len() > 1 { format!(" and {} more", changed.len() - 1) } else { String::new() };
    Err(format!(
        "not committed: {first}{others}; but packages name the commit that is checked out, and bear its time\n  \
         hint: commit it, or put it aside with `git stash --include-untracked`"
    ))
}

/// Removes files of a folder, by their names.
fn clear(folder: &Path, is_old: &dyn Fn(&str) -> bool) -> Result<(), String> {
    let listed = fs::read_dir(folder).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    for entry in listed.map_err(cannot("list", folder))? {
        if entry.file_name().to_str().is_some_and(is_old) {
            fs::remove_file(entry.path()).map_err(cannot("remove", &entry.path()))?;
        }
    }
    Ok(())
}

/// What the caller says, or when the last commit was made. So two builds of a commit have the same bytes.
fn moment(root: &Path) -> Result<String, String> {
    let said = std::env::var("SOURCE_DATE_EPOCH").ok().filter(|said| !said.is_empty());
    let moment = match said {
        Some(said) => said,
        None => printed(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root))
            .map_err(|error| format!("{error}\n  hint: without git, set SOURCE_DATE_EPOCH to seconds since 1970"))?,
    };
    let moment = moment.trim().to_owned();
    match moment.parse::<u64>() {
        Ok(_) => Ok(moment),
        Err(_) => Err(format!("SOURCE_DATE_EPOCH takes seconds since 1970, not \"{moment}\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_committed_is_refused() {
        assert_eq!(committed(""), Ok(()));
        let one = committed(" M README.md\n").unwrap_err();
        assert!(one.starts_with("not committed: README.md; ") && one.contains("hint: commit it"), "{one}");
        let more = committed("?? a b\nMM c\n D d\n").unwrap_err();
        assert!(more.starts_with("not committed: a b and 2 more; "), "{more}");
    }

    #[test]
    fn older_packages_of_a_kind_go() {
        let folder = std::env::temp_dir().join(format!("millstream-xtask-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for name in ["a-1.whl", "a-2.whl", "a-1.deb"] {
            fs::write(folder.join(name), "").unwrap();
        }
        clear(&folder, &|name| name.ends_with(".whl")).unwrap();
        let left: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(left, ["a-1.deb"]);
    }
}
