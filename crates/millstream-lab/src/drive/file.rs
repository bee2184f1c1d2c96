//! The file of a workload: TOML, with the line of everything that is wrong.

use super::goal::{LatencyGoal, Objective, is_latency, is_name, is_percentile};
use super::workload::{Fault, Script, Workload};
use crate::core::word::{complaint, unknown};
use crate::limits::{
    CONNECTIONS_MAX, DRIVEN_MAX, RATE_MAX, RATES_MAX, RUN_LENGTH_SECONDS, SCRIPTS_MAX, WEIGHT_MAX, WORKLOAD_BYTES_MAX,
};
use millstream_model::line_of;
use serde::Deserialize;
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
    rate: Spanned<Rates>,
    limit_ms: Option<Spanned<f64>>,
    search: Option<Spanned<String>>,
    #[serde(default)]
    script: Vec<ScriptText>,
}

/// One rate, or several in a row.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Rates {
    One(f64),
    Several(Vec<f64>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptText {
    name: Spanned<String>,
    weight: Option<Spanned<u64>>,
    objective_ms: Option<Spanned<f64>>,
    percentile: Option<Spanned<f64>>,
    sql: Spanned<String>,
}

impl Workload {
    /// Reads the text of a workload file.
    ///
    /// # Errors
    /// [`Fault`]: the first thing that is wrong with it.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        if text.len() > WORKLOAD_BYTES_MAX {
            let message = format!("a workload file has at most {WORKLOAD_BYTES_MAX} bytes");
            return Err(Fault { line: None, message });
        }
        let place = Lines { text };
        let file: FileText = toml::from_str(text).map_err(|error| place.complaint(&error))?;
        let seconds = place.number("seconds", &file.seconds, 1, RUN_LENGTH_SECONDS)?;
        let connections = place.number("connections", &file.connections, 1, CONNECTIONS_MAX)?;
        let rates = place.rates(&file.rate, seconds)?;
        if let Some(limit) = file.limit_ms.as_ref().filter(|limit| !is_latency(*limit.get_ref())) {
            return Err(place.fault(limit, "a limit is more than 0 ms".to_owned()));
        }
        if file.script.is_empty() || file.script.len() > SCRIPTS_MAX {
            let message = format!("a workload has from 1 to {SCRIPTS_MAX} scripts: write each under [[script]]");
            return Err(Fault { line: None, message });
        }
        let mut scripts: Vec<Script> = Vec::new();
        for script in &file.script {
            let one = place.script(script)?;
            if scripts.iter().any(|other| other.name == one.name) {
                return Err(place.fault(&script.name, format!("there is another script \"{}\"", one.name)));
            }
            scripts.push(one);
        }
        let names: Vec<&str> = scripts.iter().map(|script| script.name.as_str()).collect();
        let search = match &file.search {
            Some(goal) => {
                let read = goal.get_ref().parse().and_then(|read| known_script(read, &names));
                Some(read.map_err(|message| place.fault(goal, message))?)
            }
            None => None,
        };
        let limit_ms = file.limit_ms.map(Spanned::into_inner);
        Ok(Self { about: file.about, connections, seconds, rates, limit_ms, search, scripts })
    }
}

/// A goal, if it names one of the scripts.
pub(super) fn known_script(goal: LatencyGoal, names: &[&str]) -> Result<LatencyGoal, String> {
    match &goal.script {
        Some(script) if !names.contains(&script.as_str()) => Err(unknown("script", script, names)),
        _ => Ok(goal),
    }
}

/// The text of a file, in which faults have their lines.
struct Lines<'a> {
    text: &'a str,
}

impl Lines<'_> {
    fn rates(&self, rates: &Spanned<Rates>, seconds: u32) -> Result<Vec<f64>, Fault> {
        let list = match rates.get_ref() {
            Rates::One(rate) => vec![*rate],
            Rates::Several(list) => list.clone(),
        };
        if list.is_empty() || list.len() > RATES_MAX {
            return Err(self.fault(rates, format!("rate is a number, or a list of 1 to {RATES_MAX}")));
        }
        if let Some(wrong) = list.iter().find(|rate| !(0.001..=RATE_MAX).contains(*rate)) {
            let message = format!("a rate is from 0.001 to {RATE_MAX} transactions per second, not {wrong}");
            return Err(self.fault(rates, message));
        }
        if list.iter().any(|rate| rate * f64::from(seconds) > DRIVEN_MAX) {
            let message = format!("a run has at most {DRIVEN_MAX} transactions, because each has a line in a log");
            return Err(self.fault(rates, message));
        }
        Ok(list)
    }

    fn script(&self, script: &ScriptText) -> Result<Script, Fault> {
        let name = script.name.get_ref();
        if !is_name(name) {
            let message = format!("\"{name}\" is not a name: use letters, digits and _, and begin with a letter");
            return Err(self.fault(&script.name, message));
        }
        let weight = match &script.weight {
            Some(weight) => self.number("weight", weight, 1, WEIGHT_MAX)?,
            None => 1,
        };
        if script.sql.get_ref().trim().is_empty() {
            return Err(self.fault(&script.sql, "the script is empty".to_owned()));
        }
        Ok(Script { name: name.clone(), weight, objective: self.objective(script)?, sql: script.sql.get_ref().clone() })
    }

    fn objective(&self, script: &ScriptText) -> Result<Option<Objective>, Fault> {
        if let Some(percentile) = script.percentile.as_ref().filter(|number| !is_percentile(*number.get_ref())) {
            return Err(self.fault(percentile, "a percentile is above 0 and at most 99.999".to_owned()));
        }
        match (&script.objective_ms, &script.percentile) {
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
        Fault { line: Some(line_of(self.text, place.span().start)), message }
    }

    fn complaint(&self, error: &toml::de::Error) -> Fault {
        Fault { line: error.span().map(|span| line_of(self.text, span.start)), message: complaint(error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
about = "a mix"
connections = 8
seconds = 30
rate = [500, 1000.5]
limit_ms = 100
search = "read.p99 < 10ms"

[[script]]
name = "read"
weight = 9
objective_ms = 10
sql = '''
\set aid random(1, 100000)
select abalance from pgbench_accounts where aid = :aid;
'''

[[script]]
name = "write"
objective_ms = 50.5
percentile = 95
sql = "update t set a = a + 1"
"#;

    #[test]
    fn a_file_is_read() {
        let workload = Workload::parse(GOOD).unwrap();
        assert_eq!((workload.about.as_str(), workload.connections, workload.seconds), ("a mix", 8, 30));
        assert_eq!((workload.rates.as_slice(), workload.limit_ms), (&[500.0, 1000.5][..], Some(100.0)));
        assert_eq!(workload.search.as_ref().unwrap().below_ms, 10.0);
        let [read, write] = workload.scripts.as_slice() else { panic!("{workload:?}") };
        assert_eq!((read.weight, write.weight), (9, 1));
        assert!(read.sql.starts_with("\\set aid random(1, 100000)\nselect"), "{}", read.sql);
        assert_eq!(read.objective, Some(Objective { latency_ms: 10.0, percentile: 99.0 }));
        assert_eq!(write.objective, Some(Objective { latency_ms: 50.5, percentile: 95.0 }));
        assert!((workload.share(|script| script.name == "read") - 0.9).abs() < 1e-12);
        let one = Workload::parse(&GOOD.replacen("[500, 1000.5]", "7", 1)).unwrap();
        assert_eq!(one.rates, [7.0]);
    }

    /// The file with one text replaced by another, and what is said about it.
    fn complaint(from: &str, to: &str) -> (usize, String) {
        assert!(GOOD.contains(from), "{from}");
        let fault = Workload::parse(&GOOD.replacen(from, to, 1)).unwrap_err();
        (fault.line.unwrap_or(0), fault.message)
    }

    #[test]
    fn an_unknown_word_is_refused_with_its_line_and_the_nearest_word() {
        for (from, to, line, word) in [
            ("connections", "conections", 3, "did you mean \"connections\"?"),
            ("weight = 9", "wieght = 9", 11, "did you mean \"weight\"?"),
            ("\"read.p99", "\"raed.p99", 7, "did you mean \"read\"?"),
        ] {
            let (at, message) = complaint(from, to);
            assert!(at == line && message.contains(word), "{to}: line {at}: {message}");
        }
    }

    #[test]
    fn wrong_values_are_refused_with_their_lines() {
        for (from, to, line, says) in [
            ("connections = 8", "connections = 0", 3, "connections must be from 1 to"),
            ("[500, 1000.5]", "[]", 5, "or a list of 1 to"),
            ("[500, 1000.5]", "[500, 0]", 5, "a rate is from 0.001 to"),
            ("[500, 1000.5]", "900000", 5, "a run has at most"),
            ("limit_ms = 100", "limit_ms = 0", 6, "a limit is more than 0 ms"),
            ("weight = 9", "weight = 0", 11, "weight must be from 1 to"),
            ("name = \"write\"", "name = \"read\"", 19, "there is another script \"read\""),
            ("name = \"write\"", "name = \"a b\"", 19, "is not a name"),
            ("percentile = 95", "percentile = 100", 21, "at most 99.999"),
            ("objective_ms = 50.5\n", "", 20, "percentile needs objective_ms"),
            ("\"update t set a = a + 1\"", "\" \"", 22, "the script is empty"),
        ] {
            let (at, message) = complaint(from, to);
            assert!(at == line && message.contains(says), "{to}: line {at}: {message}");
        }
        let none = Workload::parse("connections = 1\nseconds = 1\nrate = 1\n").unwrap_err();
        assert!(none.message.contains("write each under [[script]]"), "{none}");
        assert!(Workload::parse(&"#".repeat(WORKLOAD_BYTES_MAX + 1)).is_err());
    }
}
