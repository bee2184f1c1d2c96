//! The file of a workload: TOML, with the line of everything that is wrong.

use super::goal::{LatencyGoal, Objective, is_latency, is_percentile};
use super::pace::{Pace, Step};
use super::statement::{Statement, Unusable, is_name};
use super::value::Draw;
use super::workload::{Class, Fault, Workload};
use crate::core::word::{complaint, unknown};
use crate::limits::{
    BACKLOG_DEFAULT, BACKLOG_MAX, CLASSES_MAX, CONNECTIONS_MAX, FINISH_DEFAULT_SECONDS, FINISH_SECONDS, RATE_MAX,
    RUN_LENGTH_SECONDS, STATEMENTS_MAX, STEPS_MAX, VALUES_MAX, WORKLOAD_BYTES_MAX,
};
use millstream_model::line_of;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// The percentile of an objective that names none.
const PERCENTILE_DEFAULT: f64 = 99.0;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    #[serde(default)]
    about: String,
    connections: Spanned<u64>,
    seconds: Spanned<u64>,
    backlog: Option<Spanned<u64>>,
    finish_seconds: Option<Spanned<u64>>,
    search: Option<Spanned<String>>,
    #[serde(default)]
    class: Vec<ClassText>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassText {
    name: Spanned<String>,
    rate: Option<Spanned<f64>>,
    steps: Option<Spanned<Vec<Spanned<StepText>>>>,
    ramp: Option<Spanned<bool>>,
    objective_ms: Option<Spanned<f64>>,
    percentile: Option<Spanned<f64>>,
    statements: Spanned<Vec<Spanned<String>>>,
    #[serde(default)]
    values: BTreeMap<Spanned<String>, Spanned<Draw>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepText {
    at_seconds: f64,
    rate: f64,
}

impl Workload {
    /// Reads the text of a workload file.
    ///
    /// # Errors
    /// [`Fault`]: the first thing that is wrong with it.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        workload(text)
    }
}

fn workload(text: &str) -> Result<Workload, Fault> {
    if text.len() > WORKLOAD_BYTES_MAX {
        let message = format!("a workload file has at most {WORKLOAD_BYTES_MAX} bytes");
        return Err(Fault { line: None, message });
    }
    let place = Place { text };
    let file: FileText = toml::from_str(text).map_err(|error| place.complaint(&error))?;
    let seconds = place.number("seconds", &file.seconds, 1, RUN_LENGTH_SECONDS)?;
    let connections = place.number("connections", &file.connections, 1, CONNECTIONS_MAX)?;
    let backlog = match &file.backlog {
        Some(backlog) => place.number("backlog", backlog, 0, BACKLOG_MAX)?,
        None => BACKLOG_DEFAULT,
    };
    let finish_seconds = match &file.finish_seconds {
        Some(seconds) => place.number("finish_seconds", seconds, 0, FINISH_SECONDS)?,
        None => FINISH_DEFAULT_SECONDS,
    };
    if file.class.is_empty() || file.class.len() > CLASSES_MAX {
        let message = format!("a workload has from 1 to {CLASSES_MAX} classes: write each under [[class]]");
        return Err(Fault { line: None, message });
    }
    let mut classes: Vec<Class> = Vec::new();
    for class in &file.class {
        let one = place.class(class, f64::from(seconds))?;
        if classes.iter().any(|other| other.name == one.name) {
            return Err(place.fault(&class.name, format!("there is another class \"{}\"", one.name)));
        }
        classes.push(one);
    }
    if classes.iter().all(|class| class.pace.requests() <= 0.0) {
        return Err(Fault { line: None, message: "all rates are 0".to_owned() });
    }
    let names: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
    let search = match &file.search {
        Some(goal) => {
            let read = goal.get_ref().parse().and_then(|read| known_class(read, &names));
            Some(read.map_err(|message| place.fault(goal, message))?)
        }
        None => None,
    };
    Ok(Workload {
        about: file.about,
        connections: connections as usize,
        seconds,
        backlog: backlog as usize,
        finish_seconds,
        search,
        classes,
    })
}

/// A goal, if it names one of the classes.
pub(super) fn known_class(goal: LatencyGoal, names: &[&str]) -> Result<LatencyGoal, String> {
    match &goal.class {
        Some(class) if !names.contains(&class.as_str()) => Err(unknown("class", class, names)),
        _ => Ok(goal),
    }
}

/// The text of a file, in which faults have their lines.
struct Place<'a> {
    text: &'a str,
}

impl Place<'_> {
    fn class(&self, class: &ClassText, seconds: f64) -> Result<Class, Fault> {
        let name = class.name.get_ref();
        if !is_name(name) {
            let message = format!("\"{name}\" is not a name: use letters, digits and _, and begin with a letter");
            return Err(self.fault(&class.name, message));
        }
        let values = self.values(class)?;
        let statements = self.statements(class, &values)?;
        let named = |value: usize| statements.iter().any(|statement| statement.values.contains(&value));
        if let Some((unused, (key, _))) = class.values.iter().enumerate().find(|(value, _)| !named(*value)) {
            let value = &values[unused].0;
            return Err(self.fault(key, format!("no statement names the value {{{value}}}")));
        }
        Ok(Class {
            name: name.clone(),
            pace: self.pace(class, seconds)?,
            objective: self.objective(class)?,
            statements,
            values,
        })
    }

    fn values(&self, class: &ClassText) -> Result<Vec<(String, Draw)>, Fault> {
        let mut values = Vec::new();
        for (name, draw) in &class.values {
            if !is_name(name.get_ref()) {
                let message = format!("\"{}\" is not a name: use letters, digits and _", name.get_ref());
                return Err(self.fault(name, message));
            }
            let (least, most) = draw.get_ref().range();
            if least > most {
                return Err(self.fault(draw, format!("a range from {least} to {most} is empty")));
            }
            values.push((name.get_ref().clone(), *draw.get_ref()));
        }
        match class.values.keys().nth(VALUES_MAX) {
            Some(name) => Err(self.fault(name, format!("a class has at most {VALUES_MAX} values"))),
            None => Ok(values),
        }
    }

    fn statements(&self, class: &ClassText, values: &[(String, Draw)]) -> Result<Vec<Statement>, Fault> {
        let texts = class.statements.get_ref();
        if texts.is_empty() || texts.len() > STATEMENTS_MAX {
            let message = format!("a class has from 1 to {STATEMENTS_MAX} statements");
            return Err(self.fault(&class.statements, message));
        }
        let names: Vec<&str> = values.iter().map(|(name, _)| name.as_str()).collect();
        let read = |text: &Spanned<String>| {
            Statement::new(text.get_ref(), &names).map_err(|unusable| {
                let message = match unusable {
                    Unusable::Empty => "the statement is empty".to_owned(),
                    Unusable::UnknownValue(name) => unknown("value", &name, &names),
                    Unusable::Quoted(name) => {
                        format!("{{{name}}} stands in a string, where PostgreSQL takes no parameter: cast it instead")
                    }
                };
                self.fault(text, message)
            })
        };
        texts.iter().map(read).collect()
    }

    fn pace(&self, class: &ClassText, seconds: f64) -> Result<Pace, Fault> {
        match (&class.rate, &class.steps) {
            (Some(rate), None) => {
                if let Some(ramp) = &class.ramp {
                    return Err(self.fault(ramp, "ramp needs steps".to_owned()));
                }
                self.rate(rate, *rate.get_ref())?;
                Ok(Pace::constant(*rate.get_ref(), seconds))
            }
            (None, Some(steps)) => {
                let read = self.steps(steps, seconds)?;
                Ok(Pace::steps(&read, class.ramp.as_ref().is_some_and(|ramp| *ramp.get_ref()), seconds))
            }
            _ => Err(self.fault(&class.name, "a class has either rate or steps".to_owned())),
        }
    }

    fn steps(&self, steps: &Spanned<Vec<Spanned<StepText>>>, seconds: f64) -> Result<Vec<Step>, Fault> {
        let list = steps.get_ref();
        if list.len() > STEPS_MAX || list.first().is_none_or(|step| step.get_ref().at_seconds != 0.0) {
            let message = format!("steps are from 1 to {STEPS_MAX}, and the first has at_seconds = 0");
            return Err(self.fault(steps, message));
        }
        let mut read: Vec<Step> = Vec::new();
        for step in list {
            let StepText { at_seconds, rate } = *step.get_ref();
            self.rate(step, rate)?;
            let follows = read.last().is_none_or(|last| at_seconds > last.at_seconds);
            if !follows || at_seconds >= seconds {
                let message = format!("at_seconds must grow from step to step and stay below {seconds}");
                return Err(self.fault(step, message));
            }
            read.push(Step { at_seconds, rate });
        }
        Ok(read)
    }

    fn rate<T>(&self, place: &Spanned<T>, rate: f64) -> Result<(), Fault> {
        if (0.0..=RATE_MAX).contains(&rate) {
            return Ok(());
        }
        Err(self.fault(place, format!("a rate is from 0 to {RATE_MAX} requests per second, not {rate}")))
    }

    fn objective(&self, class: &ClassText) -> Result<Option<Objective>, Fault> {
        if let Some(percentile) = class.percentile.as_ref().filter(|number| !is_percentile(*number.get_ref())) {
            return Err(self.fault(percentile, "a percentile is above 0 and at most 99.999".to_owned()));
        }
        match (&class.objective_ms, &class.percentile) {
            (Some(latency), _) if !is_latency(*latency.get_ref()) => {
                Err(self.fault(latency, "an objective is more than 0 ms".to_owned()))
            }
            (Some(latency), percentile) => Ok(Some(Objective {
                latency_ms: *latency.get_ref(),
                percentile: percentile.as_ref().map_or(PERCENTILE_DEFAULT, |number| *number.get_ref()),
            })),
            (None, Some(percentile)) => Err(self.fault(percentile, "percentile needs objective_ms".to_owned())),
            (None, None) => Ok(None),
        }
    }

    fn number(&self, name: &str, number: &Spanned<u64>, least: u32, most: u32) -> Result<u32, Fault> {
        let given = *number.get_ref();
        let fits = u32::try_from(given).ok().filter(|given| (least..=most).contains(given));
        fits.ok_or_else(|| self.fault(number, format!("{name} must be from {least} to {most}, not {given}")))
    }

    fn fault<T>(&self, place: &Spanned<T>, message: String) -> Fault {
        Fault { line: Some(self.line(place.span().start)), message }
    }

    fn line(&self, offset: usize) -> usize {
        line_of(self.text, offset)
    }

    fn complaint(&self, error: &toml::de::Error) -> Fault {
        Fault { line: error.span().map(|span| self.line(span.start)), message: complaint(error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
about = "a mix"
connections = 8
seconds = 30
search = "read.p99 < 10ms"

[[class]]
name = "read"
rate = 500
objective_ms = 10
statements = ["select abalance from pgbench_accounts where aid = {aid}"]
[class.values]
aid = { uniform = [1, 100000] }

[[class]]
name = "write"
steps = [{ at_seconds = 0, rate = 10 }, { at_seconds = 10.5, rate = 50 }]
ramp = true
objective_ms = 50.5
percentile = 95
statements = ["update t set a = a + 1", "select 1"]
"#;

    #[test]
    fn a_file_is_read() {
        let workload = workload(GOOD).unwrap();
        assert_eq!((workload.about.as_str(), workload.connections, workload.seconds), ("a mix", 8, 30));
        assert_eq!((workload.backlog, workload.search.as_ref().unwrap().below_ms), (BACKLOG_DEFAULT as usize, 10.0));
        let [read, write] = workload.classes.as_slice() else { panic!("{workload:?}") };
        assert_eq!(read.statements[0].sql, "select abalance from pgbench_accounts where aid = $1");
        assert_eq!(read.values, [("aid".to_owned(), Draw::Uniform(1, 100_000))]);
        assert_eq!(read.objective, Some(Objective { latency_ms: 10.0, percentile: 99.0 }));
        assert_eq!(write.objective, Some(Objective { latency_ms: 50.5, percentile: 95.0 }));
        assert_eq!(write.steps(), ["begin", "update t set a = a + 1", "select 1", "commit"]);
        assert_eq!(read.steps().len(), 1);
        assert!((workload.rate() - (15_000.0 + 30.0 * 10.5 + 50.0 * 19.5) / 30.0).abs() < 1e-9);
        assert!((workload.scaled(2.0).rate() / workload.rate() - 2.0).abs() < 1e-12);
    }

    /// The file with one text replaced by another, and what is said about it.
    fn complaint(from: &str, to: &str) -> (usize, String) {
        assert!(GOOD.contains(from), "{from}");
        let fault = workload(&GOOD.replacen(from, to, 1)).unwrap_err();
        (fault.line.unwrap_or(0), fault.message)
    }

    #[test]
    fn an_unknown_word_is_refused_with_its_line_and_the_nearest_word() {
        for (from, to, line, word) in [
            ("connections", "conections", 3, "did you mean \"connections\"?"),
            ("rate = 500", "raet = 500", 9, "did you mean \"rate\"?"),
            ("uniform", "unifrom", 13, "did you mean \"uniform\"?"),
            ("rate = 50 ", "rat = 50 ", 17, "did you mean \"rate\"?"),
            ("= {aid}", "= {aids}", 11, "did you mean \"aid\"?"),
            ("\"read.p99", "\"raed.p99", 5, "did you mean \"read\"?"),
        ] {
            let (at, message) = complaint(from, to);
            assert!(at == line && message.contains(word), "{to}: line {at}: {message}");
        }
    }

    #[test]
    fn wrong_values_are_refused_with_their_lines() {
        for (from, to, line, says) in [
            ("connections = 8", "connections = 0", 3, "connections must be from 1 to"),
            ("seconds = 30", "seconds = 30\nfinish_seconds = 9999", 5, "finish_seconds must be from 0 to"),
            ("seconds = 30", "seconds = \"x\"", 4, "expected u64"),
            ("search = \"read.p99 <", "search = \"read.p99 >", 5, "is not a goal"),
            ("name = \"read\"", "name = \"a b\"", 8, "is not a name"),
            ("name = \"write\"", "name = \"read\"", 16, "there is another class"),
            ("rate = 500", "rate = -1", 9, "a rate is from 0"),
            ("rate = 500", "rate = nan", 9, "a rate is from 0"),
            ("rate = 500", "", 8, "either rate or steps"),
            ("rate = 500", "rate = 500\nramp = true", 10, "ramp needs steps"),
            ("objective_ms = 10\n", "objective_ms = 0\n", 10, "more than 0 ms"),
            ("objective_ms = 10\n", "percentile = 90\n", 10, "needs objective_ms"),
            ("percentile = 95", "percentile = 100", 20, "at most 99.999"),
            ("[1, 100000]", "[2, 1]", 13, "is empty"),
            ("aid = { uniform", "bid = { uniform", 11, "unknown value \"aid\""),
            ("= {aid}", "= 7", 13, "no statement names the value {aid}"),
            ("= {aid}", "= '{aid}'", 11, "in a string"),
            ("at_seconds = 0,", "at_seconds = 1,", 17, "the first has at_seconds = 0"),
            ("at_seconds = 10.5", "at_seconds = 30", 17, "stay below 30"),
            ("[\"update t set a = a + 1\", \"select 1\"]", "[]", 21, "from 1 to"),
            ("\"select 1\"]", "\"\"]", 21, "is empty"),
            ("ramp = true", "ramp = ", 18, ""),
        ] {
            let (at, message) = complaint(from, to);
            assert!(at == line && message.contains(says), "{to}: line {at}: {message}");
        }
        let message = workload("connections = 1\nseconds = 1\n").unwrap_err().message;
        assert!(message.contains("[[class]]"), "{message}");
        let message = workload("seconds = 1\n").unwrap_err().message;
        assert_eq!(message, "the key \"connections\" is missing");
    }
}
