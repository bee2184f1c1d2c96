//! A report of the doctor in a browser.

use crate::checks::report;
use millstream_doctor::{RunOptions, html};
use millstream_testkit::{assert_shown_whole, database};

#[tokio::test]
async fn a_report_fits_a_telephone_and_a_desk_without_a_network() {
    let database = database().await;
    let long = "t".repeat(63);
    let sql = format!("create table {long} (a int); create index one on {long} (a); create index two on {long} (a)");
    database.client().await.batch_execute(&sql).await.unwrap();
    let report = report(&database, "duplicate-index", "").await;
    assert!(!report.findings.is_empty(), "{report:?}");
    assert_shown_whole(&html(&report, &RunOptions::default()), "PostgreSQL ").await;
}
