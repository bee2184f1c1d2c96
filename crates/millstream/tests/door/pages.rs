//! The pages that Millstream writes, in a browser.

use crate::process::{command, millstream, run};
use millstream_testkit::{Shown, database, shown};
use std::path::Path;

/// Widths of a telephone and of a desk.
const WIDTHS: &[u64] = &[400, 1280];

/// Nothing is cut off or has to be scrolled sideways, and nothing else is fetched.
async fn is_whole(page: &Path, heading: &str) {
    let Some(seen) = shown(page, WIDTHS).await else { return };
    for (shown, asked) in seen.into_iter().zip(WIDTHS) {
        let Shown { width, fetched, heading: begin } = &shown;
        assert!(width <= asked && *fetched == 0 && begin.starts_with(heading), "{}: {shown:?}", page.display());
    }
    assert!(std::fs::metadata(page).unwrap().len() < 2_000_000, "{}", page.display());
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_of_the_lab_fit_a_telephone_and_a_desk_without_a_network() {
    let dir = tempfile::tempdir().unwrap();
    for (experiment, heading) in [
        ("clients", "How many clients give the best throughput, how many the best latency, and what lies between?"),
        ("ladder", "What does each step on the way of a small transaction cost, and what is left when all are taken?"),
    ] {
        let record = format!("{}/../../lab/records/2026-11-23-2x-intel-xeon-{experiment}", env!("CARGO_MANIFEST_DIR"));
        let page = dir.path().join(format!("{experiment}.html"));
        millstream(&["lab", "report", &record, "--html", page.to_str().unwrap()]).ends(0);
        is_whole(&page, heading).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_of_the_doctor_fits_a_telephone_and_a_desk_without_a_network() {
    let database = database().await;
    let client = database.client().await;
    let long = "t".repeat(63);
    let sql = format!("create table {long} (a int); create index one on {long} (a); create index two on {long} (a)");
    client.batch_execute(&sql).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("report.html");
    let mut doctor = command(&["doctor", "--one-database", "--check", "duplicate-index", "--db", &database.url()]);
    run(doctor.arg("--html").arg(&page)).ends(1);
    is_whole(&page, "PostgreSQL ").await;
}
