//! Values that a user may choose: in the file of an experiment, `{NAME}` stands for one of them.

use super::dial::Dial;
use super::plain_text;
use crate::core::word::unknown;
use serde::Deserialize;
use std::collections::BTreeMap;

/// What a user chooses of an experiment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Values, by the names that the experiment has for them.
    pub values: BTreeMap<String, String>,
    /// A value that is not chosen is the one for a quick run.
    pub quick: bool,
    /// The seed, for which `{seed}` stands.
    pub seed: u64,
    /// Arms, by their names or by what their names begin with before a slash; if empty, all.
    pub arms: Vec<String>,
}

/// The two tables of a file that name values.
#[derive(Deserialize)]
struct Tables {
    #[serde(default)]
    values: BTreeMap<String, Dial>,
    #[serde(default, deserialize_with = "plain_text::map")]
    quick: BTreeMap<String, String>,
}

impl Selection {
    /// The text of a file with the values in their places, and the values. A text that is no TOML comes back as it is:
    /// whoever parses it says what is wrong.
    pub(super) fn fill(&self, text: &str) -> Result<(String, BTreeMap<String, Dial>), String> {
        let Ok(Tables { values: mut dials, quick }) = toml::from_str::<Tables>(text) else {
            return Ok((text.to_owned(), BTreeMap::new()));
        };
        let mark = |name: &str| format!("{{{name}}}");
        let known: Vec<&str> = dials.keys().map(String::as_str).collect();
        if let Some(other) = quick.keys().chain(self.values.keys()).find(|name| !known.contains(&name.as_str())) {
            return Err(match known.is_empty() {
                true => format!("it has no values to choose, so no {other:?}"),
                false => unknown("value", other, &known),
            });
        }
        if let Some((name, value)) = self.values.iter().find(|(_, value)| !is_plain(value)) {
            return Err(format!("the value of {name} may have letters, digits and any of {MARKS}, not: {value}"));
        }
        if let Some(name) = self.values.iter().find_map(|(name, value)| value.is_empty().then_some(name)) {
            return Err(format!("the value of {name} is empty"));
        }
        let changes_nothing = |name: &&&str| !text.contains(&mark(name)) && dials[**name].arms.is_empty();
        if let Some(name) = known.iter().find(changes_nothing) {
            return Err(format!("the value {name} changes nothing: {} stands nowhere in the file", mark(name)));
        }
        for (name, dial) in &mut dials {
            let (own, of_quick) = (self.values.get(name), quick.get(name));
            for value in [Some(&dial.value), of_quick, own].into_iter().flatten() {
                dial.check(name, value)?;
            }
            let chosen = own.or_else(|| of_quick.filter(|_| self.quick));
            chosen.into_iter().for_each(|value| dial.choose(value));
        }
        let seed = self.seed.to_string();
        let text = &text.replace("{seed}", &seed);
        let put = |text: String, (name, dial): (&String, &Dial)| text.replace(&mark(name), &dial.value);
        Ok((dials.iter().fold(text.to_owned(), put), dials))
    }
}

/// Marks that a value may have.
const MARKS: &str = "._-/:,+=@%";

/// Whether a value is one word in a string of TOML and in a shell.
fn is_plain(value: &str) -> bool {
    value.chars().all(|c| c.is_alphanumeric() || MARKS.contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::Experiment;

    const FILE: &str = "question = 'q?'\nexpected = 'e'\nread = 'r'\nseconds = 1\n\
        [values]\ndocuments = '1000'\nbytes = '150'\n[quick]\ndocuments = '10'\n\
        [run]\nrows = '{documents}'\n\
        [[arm]]\nname = 'a/first'\nabout = '{documents} of {bytes}'\nrun = { command = 'x {bytes}' }\n\
        [[arm]]\nname = 'a/second'\nabout = ''\nafter = 'a/first'\nrun = { command = 'x' }\n\
        [[arm]]\nname = 'b'\nabout = ''\nagainst = ['a/first']\nrun = { command = 'x' }\n";

    fn parsed(values: &[(&str, &str)], quick: bool, arms: &[&str]) -> Result<Experiment, String> {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let selection =
            Selection { values, quick, seed: 1, arms: arms.iter().map(|name| (*name).to_owned()).collect() };
        Experiment::parse("x", FILE, &selection).map_err(|error| error.to_string())
    }

    #[test]
    fn a_value_is_the_users_else_that_of_a_quick_run_else_the_usual_one() {
        let about = |values: &[(&str, &str)], quick| parsed(values, quick, &[]).unwrap().arms[0].about.clone();
        assert_eq!(about(&[], false), "1000 of 150");
        assert_eq!(about(&[], true), "10 of 150");
        assert_eq!(about(&[("documents", "7"), ("bytes", "2048")], true), "7 of 2048");
        let one = parsed(&[("bytes", "2048")], false, &[]).unwrap();
        assert_eq!((one.values["bytes"].value.as_str(), one.setup(&one.arms[0]).rows()), ("2048", Some(1_000.0)));
        let unknown = parsed(&[("docs", "7")], false, &[]).unwrap_err();
        assert!(unknown.contains("unknown value \"docs\""), "{unknown}");
        let wrong = parsed(&[("bytes", "0")], false, &[]).unwrap_err();
        assert_eq!(wrong, "experiment x: bytes must be a whole number, at least 1, not 0");
        assert!(parsed(&[("bytes", "")], false, &[]).unwrap_err().ends_with("the value of bytes is empty"));
        assert!(parsed(&[("bytes", "1'; rm")], false, &[]).unwrap_err().contains("may have letters, digits and"));
    }

    #[test]
    fn a_value_that_changes_nothing_is_an_error() {
        let nowhere = FILE.replace("{bytes}", "some");
        let refused = Experiment::parse("x", &nowhere, &Selection::default()).unwrap_err().to_string();
        assert_eq!(refused, "experiment x: the value bytes changes nothing: {bytes} stands nowhere in the file");
        let of_no_arm = parsed(&[("bytes", "7")], false, &["b"]).unwrap_err();
        assert_eq!(of_no_arm, "experiment x: the value bytes=7 changes nothing: no chosen arm uses it");
        assert!(
            parsed(&[("documents", "7")], false, &["b"]).is_ok() && parsed(&[("bytes", "7")], true, &["a"]).is_ok()
        );
        assert!(parsed(&[("bytes", "150")], false, &["b"]).is_ok(), "the usual one");
    }

    #[test]
    fn values_may_be_numbers_and_lists_and_a_grid_has_no_more_threads_than_clients() {
        let text = "question = 'q?'\nseconds = '{seconds}'\n[values]\nclients = { value = '1,8', changes = 'sessions' }\n\
            threads = { value = 1, takes = { list = true } }\n\
            seconds = 4\nlimit = 20\nscale = 3\n[data]\nscale = '{scale}'\n\
            [run]\nscripts = ['builtin:select-only']\nlatency_limit_ms = '{limit}'\nmemory_mb = '512'\n\
            [[arm]]\nname = '{c}x{j}'\nsweep = { c = '{clients}', j = '{threads}' }\nrun = { clients = '{c}', threads = '{j}' }\n";
        let parsed = |values: &[(&str, &str)]| {
            let values = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let selection = Selection { values, ..Selection::default() };
            Experiment::parse("x", text, &selection).map_err(|error| error.to_string())
        };
        let names = |one: &Experiment| one.arms.iter().map(|arm| arm.name.clone()).collect::<Vec<_>>();
        let usual = parsed(&[]).unwrap();
        assert_eq!((names(&usual), usual.seconds, usual.data.scale), (vec!["1x1".into(), "8x1".into()], 4, 3));
        let setup = usual.setup(&usual.arms[1]);
        assert_eq!((setup.clients(), setup.latency_limit_ms(), setup.memory_mb), (8, Some(20.0), Some(512)));
        let grid = parsed(&[("clients", "1,2,8"), ("threads", "1,2"), ("seconds", "9")]).unwrap();
        assert_eq!((names(&grid), grid.seconds), (["1x1", "2x1", "8x1", "2x2", "8x2"].map(String::from).to_vec(), 9));
        assert_eq!(grid.values["clients"].shown(), "1,2,8 (usually 1,8)");
        let refused = parsed(&[("clients", "1"), ("threads", "2")]).unwrap_err();
        assert!(refused.contains("2 threads are more than 1 clients"), "{refused}");
        let refused = parsed(&[("seconds", "soon")]).unwrap_err();
        assert!(refused.ends_with("seconds must be a whole number, at least 1, not soon"), "{refused}");
    }

    #[test]
    fn chosen_arms_stay_with_what_still_has_a_meaning() {
        let names = |arms: &[&str]| -> Result<Vec<String>, String> {
            Ok(parsed(&[], false, arms)?.arms.into_iter().map(|arm| arm.name).collect())
        };
        assert_eq!(names(&["a"]).unwrap(), ["a/first", "a/second"]);
        assert_eq!(names(&["a/first", "b"]).unwrap(), ["a/first", "b"]);
        let alone = parsed(&[], false, &["b"]).unwrap();
        assert!(alone.against(&alone.arms[0]).is_empty());
        assert!(names(&["c"]).unwrap_err().contains("unknown arm \"c\""));
        assert!(names(&["a/second"]).unwrap_err().contains("a/second continues a/first, which is not chosen"));
    }
}
