//! Which crates of the workspace may use which: the table that `tidy` checks.

/// A crate and the crates of ours it may depend on.
pub(crate) struct Arrows {
    /// The crate.
    pub(crate) from: &'static str,
    /// What it may name under `[dependencies]` and `[build-dependencies]`.
    pub(crate) to: &'static [&'static str],
}

/// The table, lowest crates first. Every crate of the workspace must be in it.
///
/// A row may be here before its crate exists.
pub(crate) const ARROWS: &[Arrows] = &[
    Arrows { from: "millstream-failpoint", to: &[] },
    Arrows { from: "millstream-model", to: &[] },
    Arrows { from: "millstream-pg", to: &["millstream-model"] },
    Arrows { from: "millstream-host", to: &["millstream-model"] },
    Arrows { from: "millstream-change", to: &["millstream-model", "millstream-pg", "millstream-host"] },
    Arrows { from: "millstream-local", to: &["millstream-model", "millstream-pg", "millstream-host"] },
    Arrows { from: "millstream-store", to: &["millstream-model", "millstream-pg"] },
    Arrows { from: "millstream-input", to: &["millstream-model"] },
    Arrows { from: "millstream-ranges", to: &["millstream-model", "millstream-pg", "millstream-input"] },
    Arrows {
        from: "millstream-engine",
        to: &["millstream-model", "millstream-pg", "millstream-input", "millstream-store"],
    },
    Arrows {
        from: "millstream-publish",
        to: &["millstream-model", "millstream-pg", "millstream-store", "millstream-engine"],
    },
    Arrows {
        from: "millstream-copy",
        to: &["millstream-model", "millstream-pg", "millstream-host", "millstream-input"],
    },
    Arrows {
        from: "millstream-doctor",
        to: &["millstream-model", "millstream-pg", "millstream-host", "millstream-change", "millstream-store"],
    },
    Arrows {
        from: "millstream-lab",
        to: &["millstream-model", "millstream-pg", "millstream-host", "millstream-local"],
    },
    Arrows {
        from: "millstream-server",
        to: &["millstream-model", "millstream-pg", "millstream-store", "millstream-engine", "millstream-publish"],
    },
    Arrows { from: "millstream-guard", to: &["millstream-model", "millstream-host", "millstream-change"] },
    Arrows { from: "millstream-network", to: &["millstream-model", "millstream-host", "millstream-change"] },
    Arrows {
        from: "millstream",
        to: &[
            "millstream-model",
            "millstream-pg",
            "millstream-host",
            "millstream-change",
            "millstream-local",
            "millstream-store",
            "millstream-input",
            "millstream-ranges",
            "millstream-engine",
            "millstream-publish",
            "millstream-copy",
            "millstream-guard",
            "millstream-network",
            "millstream-doctor",
            "millstream-lab",
            "millstream-server",
        ],
    },
    Arrows {
        from: "millstream-testkit",
        to: &["millstream-model", "millstream-pg", "millstream-host", "millstream-local"],
    },
    Arrows { from: "xtask", to: &[] },
];

/// Crates that every crate may use: the failpoints of tests, which a build of the program leaves out.
pub(crate) const FOR_ALL: &[&str] = &["millstream-failpoint"];

/// Crates that others may name under `[dev-dependencies]` only.
pub(crate) const DEV_ONLY: &[&str] = &["millstream-testkit"];

#[cfg(test)]
mod tests {
    use super::{ARROWS, DEV_ONLY};

    #[test]
    fn arrows_point_down_to_known_crates() {
        for (n, row) in ARROWS.iter().enumerate() {
            for to in row.to {
                let target = ARROWS.iter().position(|other| other.from == *to);
                assert!(target.is_some_and(|t| t < n), "{} -> {to}", row.from);
            }
        }
    }

    #[test]
    fn only_dev_dependencies_point_to_dev_only_crates() {
        for dev in DEV_ONLY {
            assert!(ARROWS.iter().any(|row| row.from == *dev), "{dev}");
            assert!(ARROWS.iter().all(|row| !row.to.contains(dev)), "{dev}");
        }
    }
}
