//! Every row of the experiment `packets` does to packets what it declares.

use crate::prober::sender;
use millstream_guard::packets::{Backend, Generator, Outcome, Row, measure, rows};
use millstream_model::range::{FAMILIES, Family};
use millstream_testkit::{Need, machine_has, todays};

/// Rows whose sets are so large that one family is enough.
const LARGE: &str = "265537";

#[test]
fn every_row_is_proved_and_measured_or_skipped_with_a_reason() {
    every_row(Generator::Send, |row, family| family == Family::V4 || !row.name.contains(LARGE));
}

#[test]
fn every_row_is_proved_with_live_frames_or_skipped_with_a_reason() {
    every_row(Generator::Live, |row, _| !row.name.contains(LARGE));
}

fn every_row(generator: Generator, is_wanted: impl Fn(&Row, Family) -> bool) {
    if !machine_has(&[Need::Networks, Need::NFT, Need::IPTABLES, Need::IPSET]) {
        return;
    }
    let (is_root, sender) = (rustix::process::geteuid().is_root(), sender());
    for row in todays(rows().unwrap()) {
        for (backend, family) in Backend::ALL.into_iter().flat_map(|backend| FAMILIES.map(|family| (backend, family))) {
            if !is_wanted(&row, family) {
                continue;
            }
            let outcome = measure(&row, backend, generator, family, 0.01, &sender).unwrap();
            let says = format!("{} {backend:?} {family:?}: {outcome:?}", row.name);
            let needs_root = backend == Backend::Xdp || generator == Generator::Live;
            match (row.lacks(backend).or(row.lacks_packets(generator)), outcome) {
                (Some(why), outcome) => assert_eq!(outcome, Outcome::Skipped(why.to_owned()), "{says}"),
                (None, Outcome::Skipped(why)) => {
                    assert!(needs_root && !is_root && why.starts_with("XDP needs root"), "{says}");
                }
                (None, Outcome::Measured(sent)) => {
                    assert!(is_root || !needs_root, "{says}");
                    assert!(sent.seconds * 1e9 > 10.0 * sent.packets as f64, "{says}");
                }
            }
        }
    }
}
