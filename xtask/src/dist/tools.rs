//! Wheels that make and judge wheels, in a folder of their own.

use super::programs::{cannot, run};
use super::release::Release;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The wheels that make and judge wheels, in versions that were tried together. What they need stands here, too, so that
/// nothing is chosen at another time.
const WHEELS: &[&str] =
    &["maturin==1.16.0", "ziglang==0.17.1", "auditwheel==6.8.2", "pyelftools==0.33", "packaging==26.4"];

/// The wheels, unpacked.
pub(super) struct Tools {
    folder: PathBuf,
}

impl Tools {
    /// Fetches the wheels unless they are there.
    pub(super) fn ready(release: &Release) -> Result<Self, String> {
        let folder = release.work.join("tools");
        let (stamp, wanted) = (folder.join("versions"), WHEELS.join("\n"));
        if fs::read_to_string(&stamp).ok().as_ref() != Some(&wanted) {
            let folder = release.new_folder("tools")?;
            crate::say(&format!("fetching {}\n", WHEELS.join(", ")))?;
            let mut pip = Command::new("python3");
            pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:", "--target"]);
            run(pip.arg(&folder).args(WHEELS))
                .map_err(|error| format!("{error}\n  hint: Debian has pip in the package python3-pip"))?;
            fs::write(&stamp, wanted).map_err(cannot("write", &stamp))?;
        }
        Ok(Self { folder })
    }

    /// The version of one of them.
    pub(super) fn version(wheel: &str) -> &'static str {
        let pinned = WHEELS.iter().find_map(|pinned| pinned.strip_prefix(wheel)?.strip_prefix("=="));
        pinned.unwrap_or_default()
    }

    /// The folder of zig, with the sources of what it links.
    pub(super) fn zig(&self) -> PathBuf {
        self.folder.join("ziglang")
    }

    /// One of their programs, which finds the others.
    pub(super) fn command(&self, release: &Release, program: &str) -> Command {
        self.with_path(release.command(self.folder.join("bin").join(program)))
    }

    /// One of their modules.
    pub(super) fn module(&self, release: &Release, module: &str) -> Command {
        let mut command = self.with_path(release.command("python3"));
        command.args(["-m", module]);
        command
    }

    fn with_path(&self, mut command: Command) -> Command {
        command.env("PYTHONPATH", &self.folder);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wheel_has_its_version() {
        assert!(WHEELS.iter().all(|wheel| wheel.split("==").nth(1).is_some_and(|version| !version.is_empty())));
        assert!(WHEELS.contains(&format!("ziglang=={}", Tools::version("ziglang")).as_str()));
    }
}
