//! Reports of the lab in a browser.

use millstream_lab::experiments::report::{html, lineup};
use millstream_lab::experiments::{Analysis, Lineup, Record, Side};
use millstream_testkit::assert_shown_whole;
use std::path::Path;

#[tokio::test]
async fn reports_fit_a_telephone_and_a_desk_without_a_network() {
    let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/records");
    for (experiment, heading) in [
        ("clients", "How many clients give the best throughput, how many the best latency, and what lies between?"),
        ("ladder", "What does each step on the way of a small transaction cost, and what is left when all are taken?"),
    ] {
        let record = Record::read(&records.join(format!("2026-11-23-2x-intel-xeon-{experiment}"))).unwrap();
        assert_shown_whole(&html(&record, &Analysis::of(&record)), heading).await;
    }
}

#[tokio::test]
async fn several_records_fit_a_telephone_and_a_desk() {
    let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/records");
    let side = |name: &str| {
        let record = Record::read(&records.join(format!("2026-11-26-2x-amd-epyc-{name}"))).unwrap();
        Side::new(name.to_owned(), vec![record])
    };
    let all = Lineup::of(["network-1", "network-2", "network-3"].map(side).to_vec()).unwrap();
    let heading = all.sides[0].records[0].conditions.experiment.question.clone();
    assert_shown_whole(&lineup(&all), &heading).await;
}
