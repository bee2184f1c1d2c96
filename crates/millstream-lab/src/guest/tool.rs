//! The programs of this machine that make guests.

use crate::error::Error;
use crate::limits::SAID_BYTES_MAX;
use millstream_host::{Command, Ended, in_path};
use std::path::PathBuf;
use std::time::Duration;

/// The machine.
pub(super) const QEMU: &str = "qemu-system-x86_64";

/// The shell and the small programs in a guest.
const BUSYBOX: &str = "busybox";

/// What is needed, each with its package in Debian.
const TOOLS: &[(&str, &str)] = &[
    (QEMU, "qemu-system-x86"),
    (BUSYBOX, "busybox-static"),
    ("dpkg-deb", "dpkg"),
    ("tar", "tar"),
    ("ldd", "libc-bin"),
];

/// Checks that everything is there, and returns the path of busybox.
///
/// # Errors
/// [`Error::Missing`] with the packages to install.
pub(super) fn busybox() -> Result<PathBuf, Error> {
    if std::env::consts::ARCH != "x86_64" {
        return Err(Error::Asked("guests run only on x86-64".to_owned()));
    }
    let absent: Vec<_> = TOOLS.iter().copied().filter(|(name, _)| in_path(name).is_none()).collect();
    match in_path(BUSYBOX) {
        Some(busybox) if absent.is_empty() => Ok(busybox),
        _ => Err(missing(&absent)),
    }
}

/// Runs a program to its end, which must be a good one. Of what it prints only a bounded part is kept, and less in an error.
pub(super) async fn run(command: &mut Command, limit: Duration) -> Result<Ended, millstream_host::Error> {
    let ended = command.measure(limit).await?.ended.succeeded();
    ended.map_err(|mut error| {
        if let millstream_host::Error::Failed { said, .. } = &mut error {
            said.truncate(said.floor_char_boundary(SAID_BYTES_MAX));
        }
        error
    })
}

fn missing(absent: &[(&'static str, &'static str)]) -> Error {
    let names: Vec<&str> = absent.iter().map(|(name, _)| *name).collect();
    let packages: Vec<&str> = absent.iter().map(|(_, package)| *package).collect();
    let why = format!("not in PATH: {}", names.join(", "));
    Error::Missing { tool: "a guest", why, hint: format!("on Debian: apt install {}", packages.join(" ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_pg::Explained as _;

    #[test]
    fn all_missing_programs_are_named_with_their_packages() {
        let error = missing(&TOOLS[..2]);
        let says = "cannot measure what needs a guest: not in PATH: qemu-system-x86_64, busybox";
        assert_eq!(error.to_string(), says);
        assert_eq!(error.hint().unwrap(), "on Debian: apt install qemu-system-x86 busybox-static");
    }

    #[tokio::test]
    async fn what_a_failed_program_printed_is_cut() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo why >&2; head -c 40000000 /dev/zero >&2; exit 3"]);
        let error = run(&mut command, Duration::from_secs(1_000)).await.unwrap_err().to_string();
        assert!(error.starts_with("/bin/sh failed (exit status: 3): why\n") && error.len() < 2 * SAID_BYTES_MAX);
    }

    #[test]
    fn programs_are_found_in_path() {
        assert!(in_path("sh").unwrap().is_absolute());
        assert_eq!(in_path("no-such-program"), None);
    }
}
