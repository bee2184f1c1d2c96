//! What a subject took in a phase, before it becomes the numbers of a run.

use crate::core::{Measures, number};

/// What a subject took.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Timing {
    /// From start to end. For a process: from its start to its exit.
    pub(crate) wall_seconds: f64,
    /// Seconds until the first row of an answer arrived, if that is timed.
    pub(crate) first_seconds: Option<f64>,
    /// Processor time of the client, user and system, in seconds; `None` if the system does not report it.
    pub(crate) client_cpu_seconds: Option<f64>,
    /// Largest resident memory of the client's process with its children, in bytes; `None` if it is not a separate
    /// process.
    pub(crate) client_peak_bytes: Option<u64>,
    /// The receipt that the subject printed.
    pub(crate) receipt: Option<serde_json::Value>,
}

impl Timing {
    /// The timing of something that is not a separate process.
    pub(crate) fn of(wall_seconds: f64) -> Self {
        Self { wall_seconds, first_seconds: None, client_cpu_seconds: None, client_peak_bytes: None, receipt: None }
    }

    /// The timing of two processes, one after the other. It has no receipt, because each of them has its own.
    pub(crate) fn then(&self, next: &Self) -> Self {
        let cpu = self.client_cpu_seconds.zip(next.client_cpu_seconds);
        Self {
            client_cpu_seconds: cpu.map(|(own, next)| own + next),
            client_peak_bytes: self.client_peak_bytes.max(next.client_peak_bytes),
            ..Self::of(self.wall_seconds + next.wall_seconds)
        }
    }

    /// The numbers of a run that are known so far.
    pub(crate) fn into_measures(self) -> Measures {
        let mut measures = Measures { receipt: self.receipt, ..Measures::default() };
        measures.set("wall_seconds", Some(self.wall_seconds));
        measures.set("first_seconds", self.first_seconds);
        measures.set("client_cpu_seconds", self.client_cpu_seconds);
        measures.set("client_peak_bytes", self.client_peak_bytes.map(number));
        measures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(wall: f64, cpu: Option<f64>, peak: Option<u64>) -> Timing {
        Timing { client_cpu_seconds: cpu, client_peak_bytes: peak, receipt: Some(true.into()), ..Timing::of(wall) }
    }

    #[test]
    fn times_of_two_processes_are_added_and_the_larger_one_is_the_peak() {
        let both = timing(1.5, Some(0.5), Some(9)).then(&timing(2.0, Some(0.25), Some(7)));
        assert_eq!(both, Timing { receipt: None, ..timing(3.5, Some(0.75), Some(9)) });
        let unknown = timing(1.5, Some(0.5), Some(9)).then(&timing(2.0, None, None));
        assert_eq!(unknown.client_cpu_seconds, None, "half of it would be a wrong number");
    }

    #[test]
    fn what_was_not_measured_is_no_number() {
        let measures = timing(1.5, None, Some(9)).into_measures();
        let values: Vec<(&str, f64)> = measures.values.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        assert_eq!(values, [("client_peak_bytes", 9.0), ("wall_seconds", 1.5)]);
        assert_eq!(measures.receipt, Some(true.into()));
    }
}
