//! The mistakes of an experiment's file: all of them at once, each with its line.

use crate::core::word::complaint;
use crate::limits::MISTAKES_MAX;
use millstream_model::line_of;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

/// A part of a file that can be refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A key at the top.
    Key(&'static str),
    /// A key of an arm, or of its `run`, or of that of all arms: the arm's place among those that sweeps make.
    Arm(usize, &'static str),
    /// The split of this place.
    Split(usize),
}

/// Why a part of a file is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    /// Where.
    pub(super) place: Place,
    /// What may be the cause.
    pub(super) cause: Cause,
    /// Why.
    pub(super) why: String,
}

/// What may be the cause of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// The part itself.
    Itself,
    /// A key that is not there, or is misspelled.
    Missing,
    /// A name of something else, which may be misspelled where it is defined.
    Name,
}

impl Refusal {
    /// A part is wrong in itself.
    pub(super) fn of(place: Place, why: impl Into<String>) -> Self {
        Self { place, cause: Cause::Itself, why: why.into() }
    }

    /// A part names what is not there.
    pub(super) fn of_name(place: Place, why: impl Into<String>) -> Self {
        Self { cause: Cause::Name, ..Self::of(place, why) }
    }
}

/// What is wrong in a file.
pub(super) struct Mistakes<'t> {
    text: &'t str,
    /// The file as it is.
    file: DeTable<'t>,
    /// Lines, each with what is wrong in it.
    found: BTreeSet<(usize, String)>,
    /// The tables in which something could not be read.
    damaged: Vec<Part>,
    /// The ways to what could not be read.
    removed: Vec<Vec<Step>>,
}

/// A table of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The file itself.
    Top,
    /// An arm, by its place in the file.
    Arm(usize),
    /// Any other, by its key, such as `run`.
    Other,
}

impl<'t> Mistakes<'t> {
    /// Reads a file, and what is left of it without what cannot be read. `None` if nothing can be.
    pub(super) fn read<T: DeserializeOwned>(text: &'t str) -> (Option<T>, Self) {
        let (root, errors) = DeTable::parse_recoverable(text);
        let mut mistakes = Self {
            text,
            file: root.get_ref().clone(),
            found: BTreeSet::new(),
            damaged: Vec::new(),
            removed: Vec::new(),
        };
        for error in &errors {
            mistakes.add_error(error);
        }
        if !errors.is_empty() {
            return (None, mistakes);
        }
        let mut rest = root;
        while mistakes.found.len() <= MISTAKES_MAX {
            let error = match T::deserialize(Deserializer::from(rest.clone())) {
                Ok(read) => return (Some(read), mistakes),
                Err(error) => error,
            };
            let removed = error.span().and_then(|span| remove(rest.get_mut(), &span));
            let is_inside = |path: &[Step]| mistakes.removed.iter().any(|earlier| earlier.starts_with(path));
            // A key that is missing may be the one that could not be read.
            let follows = error.message().starts_with("missing field") && removed.as_deref().is_some_and(is_inside);
            if !follows {
                mistakes.add_error(&error);
            }
            let Some(path) = removed else { break };
            mistakes.damaged.push(match path.as_slice() {
                [Step::Key(_)] => Part::Top,
                [Step::Key(key), Step::Place(at), ..] if key == ARM => Part::Arm(*at),
                _ => Part::Other,
            });
            mistakes.removed.push(path);
        }
        (None, mistakes)
    }

    /// Adds what is refused in what could be read. `origins` has the places in the file of the arms.
    pub(super) fn refuse(&mut self, refusals: Vec<Refusal>, origins: &[usize]) {
        let mut seen: Vec<(Option<usize>, Place)> = Vec::new();
        for Refusal { place, cause, why } in refusals {
            let origin = match place {
                Place::Arm(at, _) => origins.get(at).copied(),
                Place::Key(_) | Place::Split(_) => None,
            };
            let is_removed = |key: &str| self.removed.contains(&vec![Step::Key(key.to_owned())]);
            let is_there = matches!(place, Place::Key(key) if self.file.contains_key(key) && !is_removed(key));
            // What follows from another mistake is none.
            let follows = match (cause, origin) {
                (Cause::Itself, None) => false,
                (Cause::Itself | Cause::Missing, Some(origin)) => {
                    self.damaged.iter().any(|part| *part == Part::Other || *part == Part::Arm(origin))
                }
                (Cause::Missing, None) => !is_there && !self.damaged.is_empty(),
                (Cause::Name, _) => !self.damaged.is_empty(),
            };
            // Arms that a sweep makes have the same mistake.
            let key = match place {
                Place::Arm(_, key) => (origin, Place::Arm(0, key)),
                other => (None, other),
            };
            if follows || seen.contains(&key) {
                continue;
            }
            seen.push(key);
            self.found.insert((self.line(place, origin), why));
        }
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    fn add_error(&mut self, error: &toml::de::Error) {
        let line = error.span().map_or(1, |span| line_of(self.text, span.start));
        self.found.insert((line, complaint(error)));
    }

    fn line(&self, place: Place, origin: Option<usize>) -> usize {
        let span = match place {
            Place::Key(key) => key_in(&self.file, key),
            Place::Arm(_, key) => self.element(ARM, origin).and_then(|arm| {
                let table = arm.get_ref().as_table();
                let run = table.and_then(|table| table.get("run")).and_then(|run| run.get_ref().as_table());
                let of_all = || self.file.get("run").and_then(|run| key_in(run.get_ref().as_table()?, key));
                let own = run.and_then(|run| key_in(run, key)).or_else(|| key_in(table?, key));
                own.or_else(of_all).or_else(|| Some(arm.span()))
            }),
            Place::Split(at) => self.element("split", Some(at)).map(Spanned::span),
        };
        span.map_or(1, |span| line_of(self.text, span.start))
    }

    fn element(&self, key: &str, at: Option<usize>) -> Option<&Spanned<DeValue<'t>>> {
        self.file.get(key)?.get_ref().as_array()?.get(at?)
    }
}

impl fmt::Display for Mistakes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some((line, why)), 1) = (self.found.first(), self.found.len()) {
            return write!(f, "line {line}: {why}");
        }
        match self.found.len() {
            // The rest of the file was not read.
            count if count > MISTAKES_MAX => write!(f, "more than {MISTAKES_MAX} mistakes, among them")?,
            count => write!(f, "{count} mistakes")?,
        }
        self.found.iter().take(MISTAKES_MAX).try_for_each(|(line, why)| write!(f, "\n  line {line}: {why}"))
    }
}

/// The key of the arms.
const ARM: &str = "arm";

/// Where a key is.
fn key_in(table: &DeTable<'_>, key: &str) -> Option<Range<usize>> {
    table.get_key_value(key).map(|(key, _)| key.span())
}

/// A step to a value in a file.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Place(usize),
}

/// Removes the smallest entry that holds what could not be read. Returns the way to it; `None` if there is none.
fn remove(table: &mut DeTable<'_>, at: &Range<usize>) -> Option<Vec<Step>> {
    for (key, value) in table.iter_mut() {
        let below = match value.get_mut() {
            DeValue::Table(inner) => remove(inner, at),
            DeValue::Array(array) => (0..).zip(array.iter_mut()).find_map(|(place, element)| match element.get_mut() {
                DeValue::Table(inner) => remove(inner, at).map(|path| with_first(Step::Place(place), path)),
                _ => None,
            }),
            _ => None,
        };
        if let Some(path) = below {
            return Some(with_first(Step::Key(key.get_ref().to_string()), path));
        }
    }
    let holds = |span: Range<usize>| span.start <= at.start && at.end <= span.end;
    let is_in = |value: &Spanned<DeValue<'_>>| match value.get_ref() {
        DeValue::Array(array) => holds(value.span()) || array.iter().any(|element| holds(element.span())),
        _ => holds(value.span()),
    };
    let (key, _) = table.iter().find(|(key, value)| holds(key.span()) || is_in(value))?;
    let key = key.get_ref().to_string();
    table.remove(key.as_str());
    Some(vec![Step::Key(key)])
}

fn with_first(step: Step, mut path: Vec<Step>) -> Vec<Step> {
    path.insert(0, step);
    path
}

#[cfg(test)]
mod tests {
    use crate::experiments::{Experiment, Selection};

    fn wrong(text: &str) -> String {
        Experiment::parse("x", text, &Selection::default()).unwrap_err().to_string()
    }

    #[test]
    fn all_mistakes_of_a_file_are_named_with_their_lines() {
        let text = "question = 'q?'\nseconds = 0\nbloks = 3\nwarm_up = 'never'\n\
            [run]\nscripts = ['a.sql']\nthreads = 2\n\
            [[arm]]\nname = 'a'\nabuot = 'x'\n\
            [[arm]]\nname = 'b'\nagainst = ['c']\n[arm.run]\nprotocol = 'prepare'\nclients = true\n\
            [[arm]]\nname = 'again'\n[arm.run]\nclients = 4\nfillfactor = 1\nrate = -1\n";
        assert_eq!(
            wrong(text).lines().collect::<Vec<_>>(),
            [
                "experiment x: 9 mistakes",
                "  line 2: seconds must be from 1 to 86400, not 0",
                "  line 3: unknown key \"bloks\": did you mean \"blocks\"?",
                "  line 4: expected seconds, \"detect\" or \"never-steady\"",
                "  line 10: unknown key \"abuot\": did you mean \"about\"?",
                "  line 15: unknown word \"prepare\": did you mean \"prepared\"?",
                "  line 16: expected a number, or a text in which a sweep puts one",
                "  line 18: no arm can be named again: that is the second turn of one of them",
                "  line 21: arm again: fillfactor must be from 10 to 100",
                "  line 22: arm again: rate must be a positive number",
            ]
        );
    }

    #[test]
    fn one_mistake_is_named_on_one_line() {
        let said = wrong("question = 'q?'\nsecnods = 1\nrun = { scripts = ['a.sql'] }\n[[arm]]\nname = 'a'\n");
        assert_eq!(said, "experiment x: line 2: unknown key \"secnods\": did you mean \"seconds\"?");
    }

    #[test]
    fn mistakes_of_the_syntax_are_named_together() {
        let said = wrong("question = 'q?'\nseconds = \nblocks = 3\nblocks = 4\n[[arm]\nname = 'a'\n");
        let has = |part: &str| said.contains(part);
        assert!(has("3 mistakes") && has("line 2: ") && has("line 4: duplicate key") && has("line 5: "), "{said}");
    }

    #[test]
    fn a_mistake_that_follows_from_another_is_not_named() {
        let said = wrong("qestion = 'q?'\nseconds = 1\n[[arm]]\nname = 'a'\nrun = { comand = 'true' }\n");
        assert_eq!(said.lines().count(), 3, "{said}");
        assert!(said.contains("did you mean \"question\"?") && said.contains("did you mean \"command\"?"), "{said}");
        let said = wrong(
            "question = 'q?'\nmetric = { name = 'm', beter = 'lower' }\nseconds = 'x'\n[[arm]]\nname = 'a'\n\
            run = { command = 'true' }\n",
        );
        let expected = "experiment x: 2 mistakes\n  line 2: unknown key \"beter\": did you mean \"better\"?\n  \
            line 3: invalid type: string \"x\", expected a whole number";
        assert_eq!(said, expected);
        let said = wrong("seconds = 1\n[[arm]]\nname = 'a'\n");
        assert!(said.contains("the key \"question\" is missing") && said.contains("scripts or a command"), "{said}");
    }

    #[test]
    fn arms_of_a_sweep_have_a_mistake_once_and_very_many_mistakes_are_counted() {
        let arm = "[[arm]]\nname = 'a{n}'\nsweep = { n = [1, 2] }\nrun = { command = 'true', fillfactor = 1 }\n";
        let said = wrong(&format!("question = 'q?'\nseconds = 1\n{arm}"));
        assert!(said.contains("line 6: arm a1: fillfactor must") && !said.contains("a2"), "{said}");
        let many: String = (0..100).map(|n| format!("key{n} = 1\n")).collect();
        let said = wrong(&many);
        assert!(said.starts_with("experiment x: more than 20 mistakes, among them\n  line "), "{said}");
        assert_eq!(said.lines().count(), 21, "{said}");
    }
}
