//! Metrics that a command measures itself: the time of the process of another command is not the same measurement.

use super::experiment::{AGAIN, Experiment};
use crate::core::{Outcome, Run};

/// Makes void the runs whose command did not print the metric that decides, although that of an arm which is compared
/// with theirs did. Returns where they are.
pub(super) fn void_the_silent(experiment: &Experiment, runs: &mut [Run]) -> Vec<usize> {
    let metric = experiment.metric.as_str();
    let arm_of = |run: &Run| match run.arm.as_str() {
        AGAIN => Some(experiment.twice()),
        name => experiment.arm(name),
    };
    let says = |run: &Run| run.measures().is_some_and(|measures| measures.said.contains(metric));
    let silent = |run: &Run| {
        let arm = arm_of(run).filter(|arm| run.measures().is_some() && experiment.setup(arm).command.is_some())?;
        let other = runs.iter().filter(|other| says(other)).filter_map(arm_of).find(|other| {
            let named = arm.against.contains(&other.name) || other.against.contains(&arm.name);
            named || arm.group == other.group
        })?;
        (!says(run)).then(|| other.name.clone())
    };
    let found: Vec<(usize, String)> = (0..).zip(&*runs).filter_map(|(at, run)| Some((at, silent(run)?))).collect();
    for (at, other) in &found {
        let why = format!(
            "the last line of its output is no JSON with {metric}, and that of {other} is: the time of a process is \
             another measurement"
        );
        runs[*at].outcome = Outcome::Void(why);
    }
    found.into_iter().map(|(at, _)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Measures;
    use crate::experiments::Selection;
    use std::collections::BTreeMap;

    const FILE: &str = "question = 'q?'\nexpected = 'e'\nread = 'r'\nseconds = 1\nmetric = 'rows_per_second'\n\
        run = { rows = 1 }\n[[arm]]\nname = 'says'\nabout = ''\nrun = { command = 'a' }\n\
        [[arm]]\nname = 'silent'\nabout = ''\nrun = { command = 'b' }\n\
        [[arm]]\nname = 'pgbench'\nabout = ''\nrun = { scripts = ['builtin:select-only'] }\n\
        [[arm]]\nname = 'apart'\nabout = ''\ngroup = 'other'\nrun = { command = 'c' }\n\
        [[arm]]\nname = 'against'\nabout = ''\ngroup = 'third'\nagainst = ['says']\nrun = { command = 'd' }\n";

    fn run(arm: &str, says: bool) -> Run {
        let mut measures = Measures::default();
        measures.set("rows_per_second", Some(1.0));
        measures.said.extend(says.then(|| "rows_per_second".to_owned()));
        let (experiment, arm, factors) = ("x".to_owned(), arm.to_owned(), BTreeMap::new());
        Run { experiment, arm, factors, block: 1, turn: 1, outcome: Outcome::Measured(measures) }
    }

    #[test]
    fn runs_that_measure_something_else_than_those_they_are_compared_with_are_void() {
        let experiment = Experiment::parse("x", FILE, &Selection::default()).unwrap();
        let silent = ["silent", "pgbench", "apart", "against", AGAIN].map(|arm| run(arm, false));
        let mut runs = silent.to_vec();
        assert!(void_the_silent(&experiment, &mut runs).is_empty(), "nobody measures itself");
        runs.push(run("says", true));
        assert_eq!(void_the_silent(&experiment, &mut runs), [0, 3, 4], "whichever ran first");
        let void: Vec<&str> = runs.iter().filter(|run| run.measures().is_none()).map(|run| run.arm.as_str()).collect();
        assert_eq!(void, ["silent", "against", AGAIN]);
        let Outcome::Void(why) = &runs[0].outcome else { panic!("{runs:?}") };
        assert!(why.contains("no JSON with rows_per_second, and that of says is"), "{why}");
        assert!(void_the_silent(&experiment, &mut runs).is_empty(), "once");
        // A command that prints the metric only sometimes.
        runs.push(run("says", false));
        assert_eq!(void_the_silent(&experiment, &mut runs), [6]);
    }
}
