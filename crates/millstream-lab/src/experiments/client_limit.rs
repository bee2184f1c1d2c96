//! Why pgbench itself makes a run worthless: it had no time left, or fell behind its rate.

use super::arm::Setup;
use crate::core::Measures;
use crate::limits::{BUSY_SHARE_MAX, RATE_SHARE_MIN};

/// Why the client limits a run, if it does: a pgbench whose threads have no time left measures itself.
pub(super) fn client_limit(measures: &Measures, setup: &Setup) -> Option<String> {
    if setup.client_may_limit == Some(true) {
        return None;
    }
    let share = measures.values.get("client_share").filter(|share| **share > BUSY_SHARE_MAX)?;
    Some(format!("pgbench was busy for {:.0} % of the time; give it more threads", 100.0 * share))
}

/// Why a run with a rate is void, if it is: the transactions that came too late were not even begun.
pub(super) fn behind(measures: &Measures, setup: &Setup) -> Option<String> {
    let rate = setup.rate()?;
    let value = |name: &str| measures.values.get(name).copied().unwrap_or(0.0);
    let skipped = value("skipped_percent").min(99.9) / 100.0;
    let begun = value("tps") / (1.0 - skipped);
    // pgbench draws the times of transactions at random, so that their number scatters with its root.
    let seconds = value("seconds").max(1.0);
    let expected = RATE_SHARE_MIN * rate - 3.0 * (rate / seconds).sqrt();
    (begun < expected).then(|| format!("{begun:.0} of {rate:.0} scheduled transactions a second were begun"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::Number;

    fn measures(values: &[(&str, f64)]) -> Measures {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        Measures { values, ..Measures::default() }
    }

    #[test]
    fn a_client_without_time_makes_a_run_void_unless_it_may_limit() {
        let setup = |may: Option<bool>| Setup { client_may_limit: may, ..Setup::default() };
        let [busy, calm] = [0.95, 0.85].map(|share| measures(&[("client_share", share)]));
        assert!(client_limit(&busy, &setup(None)).unwrap().starts_with("pgbench was busy for 95 % of the time"));
        assert_eq!(client_limit(&calm, &setup(None)), None);
        assert_eq!(client_limit(&busy, &setup(Some(true))), None);
        assert_eq!(client_limit(&measures(&[]), &setup(None)), None, "it was not measured");
    }

    #[test]
    fn a_run_that_began_too_few_transactions_is_void() {
        let setup = Setup { rate: Some(Number::Plain(1_000.0)), ..Setup::default() };
        let run = |tps: f64, skipped: f64| {
            behind(&measures(&[("tps", tps), ("seconds", 10.0), ("skipped_percent", skipped)]), &setup)
        };
        assert_eq!(run(900.0, 0.0).unwrap(), "900 of 1000 scheduled transactions a second were begun");
        assert_eq!(run(960.0, 0.0), None);
        assert_eq!(run(925.0, 0.0), None, "arrivals are random");
        assert_eq!(run(500.0, 50.0), None, "skipped ones were begun");
        assert_eq!(behind(&measures(&[("tps", 1.0)]), &Setup::default()), None, "there is no rate");
    }
}
