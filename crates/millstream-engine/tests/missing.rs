//! Which rows count as written before a load began, by the 32 bits that a row keeps of a transaction's number.

use millstream_testkit::each_build;

/// The condition of the statements that count and delete missing rows.
const WRITTEN_BEFORE: &str = include_str!("../src/write/missing_before.sql");

/// Transactions whose numbers have the same lower 32 bits follow each other at this distance.
const EPOCH: i64 = 1 << 32;

/// How far beyond what a statement has seen a number may be.
const MARGIN: i64 = 1 << 24;

#[tokio::test]
async fn rows_of_every_epoch_are_told_apart() {
    let condition = WRITTEN_BEFORE
        .replace("${began}", "$1")
        .replace("seen.millstream_bound", "$2::bigint")
        .replace("stored.xmin", "$3::bigint");
    let sql = format!("select {condition}");
    each_build(async |db| {
        let client = db.client().await;
        for epoch in [0, 1, 3] {
            let at = |number: i64| epoch * EPOCH + number;
            let began = format!("{}:{}:{}", at(1_000), at(2_000), at(1_500));
            let bound = at(3_000) + MARGIN;
            for (bits, before) in [
                (900_i64, true),
                (1_999, true),
                // It ran when the load began.
                (1_500, false),
                (2_000, false),
                (2_999, false),
                // Beyond what the statement has seen: a row that was committed while it ran.
                (3_001, false),
                // Rows of a cluster that was upgraded from an old version.
                (2, true),
            ] {
                let row = client.query_one(&sql, &[&began, &bound, &bits]).await.unwrap();
                assert_eq!(row.get::<_, bool>(0), before, "{bits} in epoch {epoch}");
            }
            // Those of the epoch before. None can be older than half of one, or the server has frozen it.
            for bits in [EPOCH - 1, EPOCH - 1_000_000, EPOCH / 2 + 5_000].into_iter().filter(|_| epoch > 0) {
                let row = client.query_one(&sql, &[&began, &bound, &bits]).await.unwrap();
                assert!(row.get::<_, bool>(0), "{bits} before epoch {epoch}");
            }
        }
    })
    .await;
}
