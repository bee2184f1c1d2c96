//! Counters that have not counted for long: what needs more of them is not looked at, and nothing is gone by a reset.

use crate::checks::{report, request, sql};
use millstream_doctor::{RunOptions, examine, text};
use millstream_testkit as testkit;

/// The server of the tests may have counted for days, but not for so long.
pub(crate) const LONG: &str = "[threshold.connection-churn]\nhours = 840\n[threshold.temporary-files]\nhours = 840\n[threshold.rollback]\nhours = 840";

#[tokio::test]
async fn a_check_that_needs_weeks_of_counters_has_not_looked_after_seconds() {
    let checks = ["connection-churn", "temporary-files", "unused-index"];
    testkit::every_build(async |database| {
        let report = examine(&request(&database.url(), &checks, LONG)).await.unwrap();
        assert_eq!((report.passed.as_slice(), report.findings.as_slice()), (&[][..], &[][..]), "{report:?}");
        let whys: Vec<&str> = report.skipped.iter().map(|skip| skip.why.as_str()).collect();
        for (why, expected) in whys.iter().zip([
            "how often sessions are opened: needs 5w of counters, has ",
            "temporary files: needs 5w of counters, has ",
            "which indexes no query uses: needs 5w of counters, has ",
        ]) {
            assert!(why.starts_with(expected), "{why}");
        }
        assert_eq!(whys.len(), checks.len());
        assert!(text(&report, true, &RunOptions::default()).contains("\nThe server's counters began "), "{report:?}");
        assert_eq!(report.counters.len(), 2, "{report:?}");
    })
    .await;
}

#[tokio::test]
async fn a_finding_is_not_gone_because_the_counters_were_reset() {
    let (check, settings) = ("hot-row", "[threshold.hot-row]\nupdates = 2\nper_row = 2\nper_second = 0");
    testkit::every_build(async |database| {
        let client = database.client().await;
        let update = "update counter set n = n + 1; update counter set n = n + 1";
        sql(&client, &format!("create table counter (n int); insert into counter values (0); {update}")).await;
        let mut earlier = report(&database, check, settings).await;
        let [finding] = earlier.findings.as_slice() else { panic!("{earlier:?}") };
        let key = finding.key.clone();
        // As if they had counted for a day.
        earlier.counters.iter_mut().for_each(|counters| counters.seconds = 86_400.0);

        sql(&client, "select pg_stat_reset()").await;
        let later = report(&database, check, settings).await.since(&earlier);
        assert_eq!(later.changes.as_ref().unwrap().gone, [""; 0], "{later:?}");
        let [skip] = later.skipped.as_slice() else { panic!("{later:?}") };
        assert!(skip.why.starts_with(&format!("whether {key} is gone: needs 24h of counters, has ")), "{skip:?}");
        assert_eq!(later.passed, [""; 0]);

        // They have counted as long again.
        earlier.counters.iter_mut().for_each(|counters| counters.seconds = 0.0);
        let later = report(&database, check, settings).await.since(&earlier);
        assert_eq!((later.changes.unwrap().gone, later.skipped), (vec![key], vec![]));
    })
    .await;
}
