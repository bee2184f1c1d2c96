//! The environment of a run: what of machine and server may change its numbers, and in what two environments differ.
//!
//! Nothing in it tells whose machine it is: no names of hosts and users, no paths, no addresses.

mod control_group;
mod kernel;
mod memory;
mod processor;
mod scheduler;
mod server;
mod storage;

use crate::error::Error;
use crate::limits::FACT_BYTES_MAX;
use millstream_host::kernel::mount::mounts;
use millstream_host::kernel::{Mount, cgroup, file};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use tokio_postgres::Client;

/// Facts of a section, by name.
type Facts = BTreeMap<String, String>;

/// Facts by section and name. What a machine or server does not have, or does not show us, is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Environment {
    /// Sections such as `kernel` and `settings`.
    pub sections: BTreeMap<String, Facts>,
}

/// A fact in which two environments differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Section and name, such as `kernel.release`.
    pub name: String,
    /// The value in the first environment, if it has the fact.
    pub a: Option<String>,
    /// The value in the second.
    pub b: Option<String>,
}

/// A section that is read from the machine.
struct Section {
    name: &'static str,
    read: fn(&Ground) -> Facts,
}

/// What sections of the machine are about.
struct Ground {
    mounts: Vec<Mount>,
    data: Option<PathBuf>,
    /// The server's process, or our own: for control groups.
    process: String,
}

/// Every section of the machine, by name. The server's are `server` and `settings`.
const SECTIONS: &[Section] = &[
    control_group::SECTION,
    kernel::SECTION,
    memory::SECTION,
    processor::SECTION,
    scheduler::SECTION,
    storage::SECTION,
];

impl Environment {
    /// Examines this machine and the server. `data` is the server's data directory, if it is on this machine.
    ///
    /// # Errors
    /// The server's.
    pub async fn look(data: Option<&Path>, client: &Client) -> Result<Self, Error> {
        let mut environment = Self::of_server(client).await?;
        environment.add_machine(data);
        Ok(environment)
    }

    fn add_machine(&mut self, data: Option<&Path>) {
        let ground = Ground {
            mounts: mounts(),
            data: data.map(Path::to_owned),
            process: data.and_then(cgroup::server_process).unwrap_or_else(|| "self".to_owned()),
        };
        for section in SECTIONS {
            self.add(section.name, (section.read)(&ground));
        }
    }

    /// Examines a server on another machine.
    ///
    /// # Errors
    /// The server's.
    pub async fn of_server(client: &Client) -> Result<Self, Error> {
        let mut environment = Self::default();
        environment.add("server", server::build(client).await?);
        environment.add("settings", server::settings(client).await?);
        Ok(environment)
    }

    /// Whether nothing is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.sections.is_empty()
    }

    /// Sections and names of its facts, such as `kernel.release`.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        let all = self.sections.iter();
        all.flat_map(|(section, facts)| facts.keys().map(move |name| format!("{section}.{name}")))
    }

    /// The facts that another one has, too.
    pub(crate) fn common(&self, other: &Self) -> Self {
        self.filtered(|section, name, value| other.value(section, name) == Some(value))
    }

    /// The facts that another one does not have, or with another value.
    pub(crate) fn without(&self, other: &Self) -> Self {
        self.filtered(|section, name, value| other.value(section, name) != Some(value))
    }

    /// Adds facts.
    pub(crate) fn extend(&mut self, more: &Self) {
        for (section, facts) in &more.sections {
            let own = self.sections.entry(section.clone()).or_default();
            own.extend(facts.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
    }

    fn value(&self, section: &str, name: &str) -> Option<&String> {
        self.sections.get(section)?.get(name)
    }

    fn filtered(&self, keeps: impl Fn(&str, &str, &String) -> bool) -> Self {
        let mut kept = Self::default();
        for (section, facts) in &self.sections {
            let some = facts.iter().filter(|(name, value)| keeps(section, name, value));
            let some: Facts = some.map(|(name, value)| (name.clone(), value.clone())).collect();
            if !some.is_empty() {
                kept.sections.insert(section.clone(), some);
            }
        }
        kept
    }

    fn add(&mut self, section: &str, mut facts: Facts) {
        facts.values_mut().for_each(|value| value.truncate(value.floor_char_boundary(FACT_BYTES_MAX)));
        if !facts.is_empty() {
            self.sections.insert(section.to_owned(), facts);
        }
    }
}

/// The facts in which two environments differ, by section and name.
pub fn difference(a: &Environment, b: &Environment) -> Vec<Difference> {
    let keys = |one: &Environment| -> BTreeSet<(String, String)> {
        let all = one.sections.iter();
        all.flat_map(|(section, facts)| facts.keys().map(|name| (section.clone(), name.clone()))).collect()
    };
    let value = |one: &Environment, section: &str, name: &str| one.sections.get(section)?.get(name).cloned();
    let both = keys(a).union(&keys(b)).cloned().collect::<Vec<_>>();
    let found = both.into_iter().map(|(section, name)| Difference {
        a: value(a, &section, &name),
        b: value(b, &section, &name),
        name: format!("{section}.{name}"),
    });
    found.filter(|one| one.a != one.b).collect()
}

/// The facts that there are.
fn facts<'a>(list: impl IntoIterator<Item = (&'a str, Option<String>)>) -> Facts {
    list.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// The content of every file of a directory whose name is wanted, by that name.
fn files(dir: &str, wanted: impl Fn(&str) -> bool) -> Facts {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| wanted(name));
    names.filter_map(|name| Some((name.clone(), file::word(Path::new(dir).join(&name))?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(list: &[(&str, &str, &str)]) -> Environment {
        let mut environment = Environment::default();
        for (section, name, value) in list {
            let facts = environment.sections.entry((*section).to_owned()).or_default();
            facts.insert((*name).to_owned(), (*value).to_owned());
        }
        environment
    }

    #[test]
    fn only_facts_that_differ_are_shown() {
        let a = environment(&[("kernel", "release", "6.1"), ("kernel", "same", "x"), ("memory", "only_a", "1")]);
        let b = environment(&[("kernel", "release", "6.12"), ("kernel", "same", "x"), ("settings", "only_b", "2")]);
        let found = difference(&a, &b);
        let shown: Vec<_> = found.iter().map(|one| (one.name.as_str(), one.a.as_deref(), one.b.as_deref())).collect();
        let expected = [
            ("kernel.release", Some("6.1"), Some("6.12")),
            ("memory.only_a", Some("1"), None),
            ("settings.only_b", None, Some("2")),
        ];
        assert_eq!(shown, expected);
        assert!(difference(&a, &a).is_empty());
    }

    #[test]
    fn this_machine_is_described_and_survives_a_record() {
        let mut found = Environment::default();
        found.add_machine(Some(Path::new("/")));
        assert!(found.sections["kernel"].contains_key("release") && found.sections["processor"].contains_key("online"));
        assert!(found.sections["memory"].contains_key("vm.swappiness"), "{found:?}");
        let text = serde_json::to_string(&found).unwrap();
        assert_eq!(serde_json::from_str::<Environment>(&text).unwrap(), found);
        let host = file::word("/proc/sys/kernel/hostname").unwrap();
        let values = found.sections.values().flat_map(BTreeMap::values);
        assert!(values.clone().all(|value| *value != host && value.len() <= FACT_BYTES_MAX), "{found:?}");
    }
}
