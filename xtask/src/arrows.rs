//! Which crates of the workspace may use which: the table that `tidy` checks.

/// The table, lowest crates first: a crate, and the crates of ours that it may name under `[dependencies]` and
/// `[build-dependencies]`. Their names are without `millstream-`. Every crate of the workspace must be in it.
///
/// A row may be here before its crate exists.
pub(crate) const ARROWS: &[(&str, &[&str])] = &[
    ("millstream-failpoint", &[]),
    ("millstream-model", &[]),
    ("millstream-pg", &["model"]),
    ("millstream-host", &["model"]),
    ("millstream-change", &["model", "pg", "host"]),
    ("millstream-local", &["model", "pg", "host"]),
    ("millstream-store", &["model", "pg"]),
    ("millstream-records", &["model"]),
    ("millstream-input", &["model", "records"]),
    ("millstream-objects", &["input"]),
    ("millstream-document", &["model", "input"]),
    ("millstream-ranges", &["model", "pg", "host", "input"]),
    ("millstream-engine", &["model", "pg", "input", "store", "document"]),
    ("millstream-publish", &["model", "pg", "store", "engine"]),
    ("millstream-kafka", &["model", "pg", "store", "document", "engine"]),
    ("millstream-copy", &["model", "pg", "host", "input"]),
    ("millstream-doctor", &["model", "pg", "host", "change", "store"]),
    ("millstream-lab", &["model", "pg", "host", "local"]),
    ("millstream-guard", &["model", "host", "change"]),
    ("millstream-network", &["model", "host", "change"]),
    (
        "millstream",
        &[
            "model", "pg", "host", "change", "local", "store", "input", "objects", "document", "ranges", "engine",
            "publish", "kafka", "copy", "guard", "network", "doctor", "lab",
        ],
    ),
    ("millstream-testkit", &["model", "pg", "host", "local"]),
    ("millstream-fuzz", &["model", "input", "document"]),
    ("xtask", &[]),
];

/// Crates that every crate may use: the failpoints of tests, which a build of the program leaves out.
pub(crate) const FOR_ALL: &[&str] = &["millstream-failpoint"];

/// Crates that know no server and are not async, so that they are quick to build, to test and to fuzz. Their tests may
/// ask a server.
pub(crate) const WITHOUT_SERVER: &[&str] =
    &["millstream-model", "millstream-records", "millstream-input", "millstream-document"];

/// Packages of others that nobody needs without a server.
pub(crate) const OF_SERVERS: &[&str] = &["futures-util", "tokio", "tokio-postgres"];

/// Crates that others may name under `[dev-dependencies]` only.
pub(crate) const DEV_ONLY: &[&str] = &["millstream-testkit"];

#[cfg(test)]
mod tests {
    use super::{ARROWS, DEV_ONLY, WITHOUT_SERVER};

    #[test]
    fn arrows_point_down_to_known_crates() {
        for (n, (from, all)) in ARROWS.iter().enumerate() {
            for to in *all {
                let target = ARROWS.iter().position(|(other, _)| *other == format!("millstream-{to}"));
                assert!(target.is_some_and(|t| t < n), "{from} -> {to}");
            }
        }
    }

    #[test]
    fn what_knows_no_server_uses_nothing_that_does() {
        for name in WITHOUT_SERVER {
            let (_, uses) = ARROWS.iter().find(|(from, _)| from == name).unwrap();
            for short in *uses {
                assert!(WITHOUT_SERVER.contains(&format!("millstream-{short}").as_str()), "{name} -> {short}");
            }
        }
    }

    #[test]
    fn only_dev_dependencies_point_to_dev_only_crates() {
        for dev in DEV_ONLY {
            assert!(ARROWS.iter().any(|(from, _)| from == dev), "{dev}");
            let short = dev.strip_prefix("millstream-").unwrap();
            assert!(ARROWS.iter().all(|(_, to)| !to.contains(&short)), "{dev}");
        }
    }
}
