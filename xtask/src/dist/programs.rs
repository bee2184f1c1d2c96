//! Programs of the machine, run to their end.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// Programs of the machine, each with the package in which Debian has it.
const PACKAGES: &[(&str, &str)] = &[
    ("date", "coreutils"),
    ("dpkg-deb", "dpkg"),
    ("git", "git"),
    ("gzip", "gzip"),
    ("md5sum", "coreutils"),
    ("python3", "python3"),
    ("sha256sum", "coreutils"),
    ("tar", "tar"),
];

/// Runs a program to its end. What it prints is shown.
pub(super) fn run(command: &mut Command) -> Result<(), String> {
    let status = command.stdin(Stdio::null()).status().map_err(|error| not_run(command, &error))?;
    if status.success() { Ok(()) } else { Err(format!("{} failed: {status}", name(command))) }
}

/// Runs a program to its end. Returns what it prints on stdout.
pub(super) fn printed(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| not_run(command, &error))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{} failed: {}\n  caused by: {}", name(command), output.status, said.trim()));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("{} prints what is not UTF-8", name(command)))
}

/// Says what could not be done with a file.
pub(super) fn cannot(verb: &str, path: &Path) -> impl Fn(io::Error) -> String {
    let what = format!("cannot {verb} {}", path.display());
    move |error| format!("{what}: {error}")
}

fn name(command: &Command) -> String {
    Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn not_run(command: &Command, error: &io::Error) -> String {
    let name = name(command);
    let package = PACKAGES.iter().find(|(program, _)| *program == name);
    match package.filter(|_| error.kind() == io::ErrorKind::NotFound) {
        Some((_, package)) => format!("{name} is missing\n  hint: Debian has it in the package {package}"),
        None => format!("cannot run {}: {error}", command.get_program().to_string_lossy()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_missing_or_fails_is_named() {
        let missing = printed(Command::new("/nowhere/dpkg-deb").arg("--version")).unwrap_err();
        assert_eq!(missing, "dpkg-deb is missing\n  hint: Debian has it in the package dpkg");
        let failed = printed(Command::new("sh").args(["-c", "echo why >&2; exit 3"])).unwrap_err();
        assert!(failed.starts_with("sh failed: ") && failed.ends_with("caused by: why"), "{failed}");
        assert_eq!(printed(Command::new("sh").args(["-c", "echo a"])).as_deref(), Ok("a\n"));
    }
}
