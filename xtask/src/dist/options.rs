//! What is typed behind the commands that make packages.

/// A target: its name in Rust, the machine, and the machine's name at Debian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) triple: &'static str,
    pub(super) machine: &'static str,
    pub(super) debian: &'static str,
}

/// Every target that has packages. The first one is meant if none is named. `docs/install.md` says which were built and
/// run.
const TARGETS: &[Target] = &[
    Target { triple: "x86_64-unknown-linux-gnu", machine: "x86_64", debian: "amd64" },
    Target { triple: "aarch64-unknown-linux-gnu", machine: "aarch64", debian: "arm64" },
];

/// What is typed behind the command.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) target: Target,
    /// How often this version was packaged for Debian.
    pub(super) revision: u32,
}

impl Options {
    /// Reads the words behind the command.
    pub(super) fn read(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self { target: TARGETS[0], revision: 1 };
        while let Some(word) = words.next() {
            let value = words.next().unwrap_or_default();
            match word.as_str() {
                "--target" => {
                    let found = TARGETS.iter().find(|target| target.triple == value);
                    let known: Vec<&str> = TARGETS.iter().map(|target| target.triple).collect();
                    options.target = *found
                        .ok_or_else(|| format!("no packages for \"{value}\"\n  hint: one of {}", known.join(", ")))?;
                }
                "--revision" => {
                    let number = value.parse::<u32>().ok().filter(|number| *number > 0);
                    options.revision =
                        number.ok_or_else(|| format!("--revision takes a whole number from 1 on, not \"{value}\""))?;
                }
                _ => return Err(format!("no option \"{word}\"\n  hint: --target TRIPLE, --revision N")),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Result<Options, String> {
        Options::read(words.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_are_read_and_wrong_ones_named() {
        assert_eq!(read(""), Ok(Options { target: TARGETS[0], revision: 1 }));
        let other = read("--revision 2 --target aarch64-unknown-linux-gnu").unwrap();
        assert_eq!((other.target.debian, other.revision), ("arm64", 2));
        for (words, says) in [
            ("--target x86_64-unknown-linux-musl", "no packages for \"x86_64-unknown-linux-musl\""),
            ("--target", "no packages for \"\""),
            ("--revision 0", "--revision takes"),
            ("--out x", "no option \"--out\""),
        ] {
            assert!(read(words).unwrap_err().contains(says), "{words}");
        }
    }
}
