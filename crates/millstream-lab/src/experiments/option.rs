//! Options of the command line that exist for every experiment, and turn its dials.

use super::conditions::Request;
use super::experiment::Experiment;
use super::values::Selection;
use crate::error::Error;
use std::fmt::Display;

impl Experiment {
    /// Applies the options that exist for every experiment. Where it has a dial of that name, they turn it.
    ///
    /// # Errors
    /// [`Error::Asked`] if one of them changes nothing, or says what a chosen value says.
    pub fn apply(&mut self, request: &mut Request, selection: &Selection, scale_max: Option<u32>) -> Result<(), Error> {
        let name = self.name.clone();
        let nothing = |option: &str, why: String| -> Result<(), Error> {
            Err(Error::Asked(format!("{option} changes nothing in {name}: {why}")))
        };
        let is_set = |name: &str| selection.values.contains_key(name);
        match request.seconds {
            Some(seconds) if is_set("seconds") => {
                let both = format!("--seconds and --set seconds={seconds} choose the same; give one of them");
                return Err(Error::Asked(both));
            }
            Some(seconds) if !self.has_pgbench() => {
                let way_out = self.way_out("seconds", seconds, "chooses how long it measures");
                return nothing("--seconds", format!("none of its arms is a run of pgbench{way_out}"));
            }
            Some(seconds) => self.turn("seconds", seconds),
            // A quick run has a length of its own, unless the user chooses one.
            None if is_set("seconds") && self.has_pgbench() => request.seconds = Some(self.seconds),
            None => {}
        }
        match (scale_max, self.data.scale) {
            (Some(_), 0) => return nothing("--scale-max", "it has no tables of pgbench".to_owned()),
            (Some(most), scale) if most >= scale => {
                let way_out = self.way_out("scale", most, "makes larger tables");
                return nothing("--scale-max", format!("its scale is {scale}{way_out}"));
            }
            (Some(most), _) => self.limit_scale(most),
            (None, _) => {}
        }
        if request.postgres.is_some() && self.server && self.arms.iter().all(|arm| self.setup(arm).postgres.is_some()) {
            let way_out = self.way_out("versions", "15,18", "chooses them");
            return nothing("--postgres", format!("each of its arms names its PostgreSQL{way_out}"));
        }
        Ok(())
    }

    /// How to change by a dial what an option does not, if there is one.
    fn way_out(&self, dial: &str, value: impl Display, does: &str) -> String {
        match self.values.contains_key(dial) {
            true => format!("; --set {dial}={value} {does}"),
            false => String::new(),
        }
    }

    /// Makes the tables of pgbench at most this large.
    pub fn limit_scale(&mut self, most: u32) {
        if self.data.scale > most {
            self.data.scale = most;
            self.turn("scale", most);
        }
    }

    /// Shows a value that was chosen by another way than its name.
    fn turn(&mut self, name: &str, value: u32) {
        if let Some(dial) = self.values.get_mut(name) {
            dial.choose(&value.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::Source;

    fn named(name: &str, values: &[(&str, &str)]) -> (Experiment, Selection) {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let selection = Selection { values, ..Selection::default() };
        (Source::named(name, &selection).unwrap().experiment, selection)
    }

    #[test]
    fn an_option_that_changes_nothing_is_an_error_and_others_turn_the_dial_of_their_name() {
        let applied = |name: &str, values: &[(&str, &str)], asked: &Request, scale_max: Option<u32>| {
            let (mut experiment, selection) = named(name, values);
            let mut request = asked.clone();
            let done = experiment.apply(&mut request, &selection, scale_max);
            done.map(|()| (experiment, request)).map_err(|error| error.to_string())
        };
        let plain = Request::default();
        let nothing = applied("ladder", &[], &plain, Some(20)).unwrap_err();
        assert!(nothing.starts_with("--scale-max changes nothing in ladder: its scale is 10; "), "{nothing}");
        assert!(applied("ingest", &[], &plain, Some(1)).unwrap_err().ends_with("it has no tables of pgbench"));
        let (ladder, _) = applied("ladder", &[], &plain, Some(1)).unwrap();
        assert_eq!((ladder.data.scale, ladder.values["scale"].shown().as_str()), (1, "1 (usually 10)"));

        let short = Request { seconds: Some(5), ..Request::default() };
        let nothing = applied("ingest", &[], &short, None).unwrap_err();
        assert_eq!(nothing, "--seconds changes nothing in ingest: none of its arms is a run of pgbench");
        assert!(applied("packets", &[], &short, None).unwrap_err().ends_with(" chooses how long it measures"));
        let (ladder, request) = applied("ladder", &[], &short, None).unwrap();
        assert_eq!((request.seconds, ladder.values["seconds"].value.as_str()), (Some(5), "5"));
        assert!(applied("ladder", &[("seconds", "5")], &short, None).unwrap_err().contains("choose the same"));
        let (_, request) = applied("ladder", &[("seconds", "5")], &plain, None).unwrap();
        assert_eq!(request.seconds, Some(5), "also if it is quick");

        let other = Request { postgres: Some("15".to_owned()), ..Request::default() };
        let nothing = applied("versions", &[], &other, None).unwrap_err();
        assert!(nothing.starts_with("--postgres changes nothing in versions: each of its arms names its"), "{nothing}");
        assert!(applied("ladder", &[], &other, None).is_ok() && applied("ladder", &[], &plain, None).is_ok());
    }
}
