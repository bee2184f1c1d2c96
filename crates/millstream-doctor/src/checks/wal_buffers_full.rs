//! Check `wal-buffers-full`: sessions that write WAL themselves, because its buffers are full.

use super::number::{bytes, count, number, percent};
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::server::Server;
use millstream_model::quantity;
use millstream_model::{Class, Level, Repair};
use millstream_pg::sizing::{size, wal_buffers};

pub(super) const CHECK: Check = Check {
    id: "wal-buffers-full",
    about: "sessions that must write WAL before they go on, because its buffers are full",
    class: Class::Arithmetic,
    thresholds: &[("per_second", 1.0), ("percent", 10.0)],
    manual: include_str!("wal_buffers_full.md"),
    looks: &[Look::Server(|server, task| Box::pin(look(server, task)))],
};

async fn look(server: &Server, task: Task) -> Looked {
    let row = server.session.client.query_one(include_str!("wal_buffers_full.sql"), &[]).await?;
    let waits = number(&row, "waits");
    let seconds: f64 = row.get::<_, Option<f64>>("seconds").unwrap_or(0.0).max(1.0);
    task.counted(seconds);
    let per_second = waits as f64 / seconds;
    // Each time a session writes a page at least.
    let share = percent(waits, number(&row, "wal_bytes") / number(&row, "page_bytes").max(1)).min(100.0);
    if per_second < task.threshold("per_second") || share < task.threshold("percent") {
        return Ok(Seen::default());
    }
    let sentence = format!(
        "{per_second:.1} times a second a session found the WAL buffers full, for {share:.0} % of the pages of WAL"
    );
    let written = quantity::whole(number(&row, "wal_bytes") as f64 / seconds);
    let finding = task
        .finding(Level::Info, "wal_buffers", sentence)
        .with("times that they were full", count(&row, "waits"), "pg_stat_wal.wal_buffers_full")
        .with("WAL", bytes(&row, "wal_bytes"), "pg_stat_wal.wal_bytes")
        .with("wal_buffers", bytes(&row, "buffers"), "pg_settings")
        .drawn("WAL in a second", written, quantity::bytes(written))
        .drawn("wal_buffers", number(&row, "buffers"), bytes(&row, "buffers"))
        .counted(seconds)
        .unless("a load or an index build has run once since the counters began");
    let larger = larger(number(&row, "buffers"), number(&row, "shared"), number(&row, "segment"));
    Ok(finding.repaired_at_start(repair(server, larger)).into())
}

fn repair(server: &Server, larger: Option<u64>) -> Repair {
    let Some(larger) = larger else {
        return Repair::new(
            "the buffers are large, so the disk of the WAL is the limit: write less WAL, or put pg_wal on a faster disk",
            "the server must stand still while pg_wal is moved",
        );
    };
    let risk = "as much memory less for other work";
    server.setting("wal_buffers", &size(larger), "let more WAL wait for one write, and measure", risk)
}

/// The buffers to try, in bytes: twice as much, or what the table of settings says. `None` if they are the largest. No
/// less than a segment: by itself the server takes up to that, so that another `shared_buffers` leaves it no larger ones.
fn larger(present: u64, shared: u64, segment: u64) -> Option<u64> {
    let most = wal_buffers(u64::MAX);
    (present < most).then(|| wal_buffers(shared).max(present.saturating_mul(2)).max(segment).min(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_buffers_are_tried_up_to_the_largest_that_help() {
        const MB: u64 = 1 << 20;
        assert_eq!(larger(MB / 16, 128 * MB, 16 * MB), Some(16 * MB));
        assert_eq!(larger(16 * MB, 512 * MB, 16 * MB), Some(32 * MB));
        assert_eq!(larger(48 * MB, 512 * MB, 16 * MB), Some(64 * MB));
        assert_eq!(larger(64 * MB, 512 * MB, 16 * MB), None);
    }

    #[test]
    fn larger_buffers_are_no_less_than_the_server_takes_with_other_shared_buffers() {
        const MB: u64 = 1 << 20;
        for segment in [MB, 16 * MB, 64 * MB] {
            // As `XLOGChooseNumBuffers` in PostgreSQL's xlog.c.
            let automatic = |shared: u64| (shared / 32).min(segment);
            for shared in [32, 128, 512, 4_096].map(|size| size * MB) {
                let tried = larger(automatic(shared), shared, segment);
                for other in [64, 1_024, 16_384].map(|size| size * MB) {
                    assert!(tried.is_none_or(|tried| tried >= automatic(other)), "{segment} {shared} {other}");
                }
            }
        }
    }
}
