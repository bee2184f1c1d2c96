//! Values that a user may choose: in the file of an experiment, `{NAME}` stands for one of them.

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
    #[serde(default, deserialize_with = "plain_text::map")]
    values: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "plain_text::map")]
    quick: BTreeMap<String, String>,
}

impl Selection {
    /// The text of a file with the values in their places, and the values. A text that is no TOML comes back as it is:
    /// whoever parses it says what is wrong.
    pub(super) fn fill(&self, text: &str) -> Result<(String, BTreeMap<String, String>), String> {
        let Ok(Tables { mut values, quick }) = toml::from_str::<Tables>(text) else {
            return Ok((text.to_owned(), BTreeMap::new()));
        };
        let known: Vec<&str> = values.keys().map(String::as_str).collect();
        if let Some(other) = quick.keys().chain(self.values.keys()).find(|name| !known.contains(&name.as_str())) {
            return Err(match known.is_empty() {
                true => format!("it has no values to choose, so no {other:?}"),
                false => unknown("value", other, &known),
            });
        }
        if let Some((name, value)) = self.values.iter().find(|(_, value)| !is_plain(value)) {
            return Err(format!("the value of {name} may have letters, digits and any of {MARKS}, not: {value}"));
        }
        if self.quick {
            values.extend(quick);
        }
        values.extend(self.values.clone());
        let seed = self.seed.to_string();
        let text = &text.replace("{seed}", &seed);
        let put = |text: String, (name, value): (&String, &String)| text.replace(&format!("{{{name}}}"), value);
        Ok((values.iter().fold(text.to_owned(), put), values))
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
        [[arm]]\nname = 'a/first'\nabout = '{documents} of {bytes}'\nrun = { command = 'x' }\n\
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
        assert_eq!((one.values["bytes"].as_str(), one.setup(&one.arms[0]).rows()), ("2048", Some(1_000.0)));
        let unknown = parsed(&[("docs", "7")], false, &[]).unwrap_err();
        assert!(unknown.contains("unknown value \"docs\""), "{unknown}");
        assert!(parsed(&[("bytes", "1'; rm")], false, &[]).unwrap_err().contains("may have letters, digits and"));
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
