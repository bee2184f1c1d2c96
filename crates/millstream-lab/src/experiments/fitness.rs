//! Whether arms can be run as requested, as far as that is known before anything runs.

use super::arm::Setup;
use super::cluster::programs;
use super::conditions::Request;
use super::files::Source;
use super::host::not_allowed;
use super::via::Via;
use crate::error::Error;
use std::collections::BTreeMap;

impl Source {
    /// The arms that cannot be run as requested, by the reason.
    ///
    /// # Errors
    /// [`Error::Asked`] with every reason if no arm can be run, and if the request names a PostgreSQL that is not installed.
    pub fn check(&self, request: &Request) -> Result<BTreeMap<String, Vec<String>>, Error> {
        let (experiment, mut unfit) = (&self.experiment, BTreeMap::<String, Vec<String>>::new());
        if !experiment.server {
            return Ok(unfit);
        }
        if let (Some(postgres), None) = (&request.postgres, &request.db) {
            programs(postgres)?;
        }
        let mut asked: BTreeMap<String, Option<String>> = BTreeMap::new();
        let mut is_absent = |postgres: &String| {
            let found = asked.entry(postgres.clone());
            found.or_insert_with(|| programs(postgres).err().map(|error| error.to_string())).clone()
        };
        let mut can_be_run = false;
        for chain in experiment.chains() {
            // Nothing continues an arm that has no result.
            let mut why = None;
            for arm in chain {
                let setup = experiment.setup(arm);
                why = why.or_else(|| setup.unfit(request)).or_else(|| is_absent(setup.postgres.as_ref()?));
                match &why {
                    Some(why) => unfit.entry(why.clone()).or_default().push(arm.name.clone()),
                    None => can_be_run = true,
                }
            }
        }
        if can_be_run {
            return Ok(unfit);
        }
        let why = unfit.into_keys().collect::<Vec<_>>().join("; ");
        Err(Error::Asked(format!("no arm of {} can be run: {why}", experiment.name)))
    }
}

impl Setup {
    /// Why the request does not allow it, if so.
    pub(super) fn unfit(&self, request: &Request) -> Option<String> {
        let is_foreign = request.db.is_some();
        if is_foreign && (self.postgres.is_some() || request.postgres.is_some()) {
            return Some("it needs a server of its own, and --db names one".to_owned());
        }
        if is_foreign && self.wal_apart == Some(true) {
            return Some("it moves the WAL of a server that is not the lab's".to_owned());
        }
        if is_foreign && (self.slow_disk().is_some() || self.wal_segment_mb.is_some()) {
            return Some("it makes a server of its own, and --db names one".to_owned());
        }
        if is_foreign && self.memory_mb.is_some() {
            return Some("it needs a restart of a server that is not the lab's".to_owned());
        }
        if is_foreign && !request.may_change && !self.settings.is_empty() {
            return Some(
                "it changes settings of a server that is not the lab's; --i-own-this-server allows that".to_owned(),
            );
        }
        if self.wal_apart == Some(true) && request.wal_dir.is_none() {
            return Some("it needs the WAL on another device; --wal-dir names an empty directory there".to_owned());
        }
        let is_slow = self.slow_disk().is_some();
        if is_slow && self.wal_apart == Some(true) {
            return Some("the WAL lies on the slow disk with the data, and cannot be on another one".to_owned());
        }
        let changes_host = is_slow || !self.host.is_empty() || self.memory_mb.is_some() || self.via == Some(Via::Veth);
        (changes_host && !request.change_host).then(not_allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::{Experiment, Selection};
    use millstream_pg::{ConnInfo, Environment};
    use std::path::PathBuf;

    /// What is found of an experiment whose second arm, and a third one that continues it, have these words.
    fn found(run: &str, words: &str, request: &Request) -> Result<BTreeMap<String, Vec<String>>, String> {
        let text = format!(
            "question = 'q?'\nseconds = 1\nrun = {{ scripts = ['builtin:select-only']{run} }}\n[[arm]]\nname = 'a'\n\
             [[arm]]\nname = 'b'\nrun = {{ {words} }}\n[[arm]]\nname = 'c'\nafter = 'b'\nrun = {{ {words} }}\n"
        );
        let experiment = Experiment::parse("x", &text, &Selection::default()).unwrap();
        Source { experiment, files: BTreeMap::new() }.check(request).map_err(|error| error.to_string())
    }

    #[test]
    fn arms_that_cannot_be_run_are_named_and_if_there_is_no_other_it_is_an_error() {
        let plain = Request::default();
        let url = ConnInfo::parse("postgres://u@h/d", &Environment::from_variables([])).unwrap();
        let foreign = Request { db: Some(url), ..Request::default() };
        let apart = Request { wal_dir: Some(PathBuf::from("/wal")), ..Request::default() };
        let host = "it changes this machine; --change-host allows that, and gives back what it changes";
        let wal = "it needs the WAL on another device; --wal-dir names an empty directory there";
        let settings = "it changes settings of a server that is not the lab's; --i-own-this-server allows that";
        for (words, request, why) in [
            ("host = { 'vm.swappiness' = '1' }", &plain, host),
            ("via = 'veth'", &plain, host),
            ("memory_mb = 512", &plain, host),
            ("wal_apart = true", &plain, wal),
            ("postgres = '9'", &plain, "PostgreSQL 9 is not installed; installed: "),
            ("postgres = '/nowhere'", &plain, "/nowhere does not hold the programs of a PostgreSQL"),
            ("postgres = '15'", &foreign, "it needs a server of its own, and --db names one"),
            ("wal_apart = true", &foreign, "it moves the WAL of a server that is not the lab's"),
            ("memory_mb = 512", &foreign, "it needs a restart of a server that is not the lab's"),
            ("settings = { work_mem = '4MB' }", &foreign, settings),
            ("disk = 'hdd'", &plain, host),
            ("disk = 'hdd'", &foreign, "it makes a server of its own, and --db names one"),
            ("wal_segment_mb = 1", &foreign, "it makes a server of its own, and --db names one"),
            ("disk = 'hdd', wal_apart = true", &apart, "the WAL lies on the slow disk with the data"),
        ] {
            let some = found("", words, request).unwrap();
            let (reason, arms) = some.first_key_value().unwrap();
            assert!(reason.starts_with(why) && arms.iter().eq(["b", "c"]) && some.len() == 1, "{words}: {some:?}");
            let none = found(&format!(", {words}"), "", request).unwrap_err();
            assert!(none.starts_with(&format!("no arm of x can be run: {why}")), "{words}: {none}");
        }
    }

    #[test]
    fn what_the_request_allows_is_fit_and_a_postgresql_that_it_names_must_be_there() {
        let allowed = Request { change_host: true, wal_dir: Some(PathBuf::from("/wal")), ..Request::default() };
        for words in [
            "host = { 'vm.swappiness' = '1' }",
            "via = 'veth'",
            "memory_mb = 512",
            "wal_apart = true",
            "disk = { flush_ms = 8 }",
            "disk = 'own', wal_segment_mb = 64",
        ] {
            assert!(found(&format!(", {words}"), words, &allowed).unwrap().is_empty(), "{words}");
        }
        let refused = |postgres: &str| {
            let request = Request { postgres: Some(postgres.to_owned()), ..Request::default() };
            found("", "clients = 2", &request).unwrap_err()
        };
        let why = refused("9");
        assert!(why.starts_with("PostgreSQL 9 is not installed; installed: "), "{why}");
        assert_eq!(refused("/nowhere"), "/nowhere does not hold the programs of a PostgreSQL");
    }

    #[test]
    fn versions_that_are_not_installed_are_skipped_by_name_beside_one_that_is() {
        let installed = millstream_local::installed(&millstream_local::server_account().unwrap());
        let Some(one) = installed.first() else { return millstream_testkit::skip("no PostgreSQL is installed") };
        for (name, arms) in [("versions", 1), ("checkpoint", 4)] {
            let values = BTreeMap::from([("versions".to_owned(), format!("{},9", one.major))]);
            let source = Source::named(name, &Selection { values, ..Selection::default() }).unwrap();
            let skipped = source.check(&Request::default()).unwrap();
            let (why, absent) = skipped.first_key_value().unwrap();
            assert!(why.starts_with("PostgreSQL 9 is not installed; installed: "), "{why}");
            assert_eq!((absent.len(), absent.iter().all(|arm| arm.starts_with('9'))), (arms, true), "{absent:?}");
        }
    }

    #[test]
    fn an_experiment_that_only_another_option_allows_is_refused_at_once() {
        for (name, says) in [("kernel", "--change-host"), ("disk", "--change-host"), ("policy", "--change-host")] {
            let source = Source::named(name, &Selection::default()).unwrap();
            let error = source.check(&Request::default()).unwrap_err().to_string();
            assert!(error.starts_with(&format!("no arm of {name} can be run: ")) && error.contains(says), "{error}");
        }
    }
}
