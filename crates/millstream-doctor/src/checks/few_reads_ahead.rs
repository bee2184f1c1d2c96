//! Check `few-reads-ahead`: a server that asks for one block after the other, although the disk serves many at once.

use super::number::{count, number};
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::host::Host;
use crate::server::Server;
use millstream_model::{Class, Level, Restart};
use millstream_pg::sizing::{BuildFacts, Setting, settings};
use tokio_postgres::Row;

pub(super) const CHECK: Check = Check {
    id: "few-reads-ahead",
    about: "reads that wait for each other, although the disk and the processors could serve many at once",
    class: Class::Hypothesis,
    thresholds: &[("blocks", 100_000.0), ("times", 2.0)],
    manual: include_str!("few_reads_ahead.md"),
    looks: &[Look::Machine(|server, host, task| Box::pin(look(server, host, task)))],
};

async fn look(server: &Server, host: &Host, task: Task) -> Looked {
    let facts = host.facts()?;
    let row = server.session.client.query_one(include_str!("few_reads_ahead.sql"), &[]).await?;
    task.counted(row.get::<_, Option<f64>>("reset_seconds").unwrap_or(f64::INFINITY).min(server.sure_seconds));
    if (number(&row, "blocks") as f64) < task.threshold("blocks") {
        return Ok(Seen::default());
    }
    let major = u32::try_from(server.version_num() / 10_000).unwrap_or(0);
    let table = settings(&facts, BuildFacts { major, lz4: false });
    let present = Present::of(&row);
    let found = table.iter().filter_map(|fitting| {
        let sentence = present.lacks(fitting, major, facts.rotational, task.threshold("times"))?;
        let shown = present.shown(fitting.name);
        let risk = "scans take more of the disk, and look-ups beside them wait longer";
        let mut repair = server.setting(fitting.name, &fitting.value, "try it, and measure before and after", risk);
        if fitting.name == "io_method" {
            (repair.restart, repair.change) = (Restart::Server, None);
        }
        Some(
            task.finding(Level::Info, fitting.name, sentence)
                .with(fitting.name, shown, "pg_settings")
                .with("blocks that were not in shared buffers", count(&row, "blocks"), "pg_stat_database.blks_read")
                .with("why another value", &fitting.reason, "the table by which Millstream sets up servers")
                .counted(server.counted_seconds)
                .unless("the system's cache had the blocks, or somebody has measured it")
                .repaired_by(repair),
        )
    });
    Ok(found.collect())
}

/// How the server reads ahead now.
#[derive(Debug)]
struct Present {
    /// `None` if it is not known, because this role or database has a value of its own.
    concurrency: Option<f64>,
    /// From PostgreSQL 18 on.
    method: Option<String>,
    /// In PostgreSQL 18.
    workers: Option<f64>,
}

impl Present {
    fn of(row: &Row) -> Self {
        Self { concurrency: row.get("concurrency"), method: row.get("method"), workers: row.get("workers") }
    }

    fn shown(&self, name: &str) -> String {
        match name {
            "effective_io_concurrency" => self.concurrency.unwrap_or_default().to_string(),
            "io_method" => self.method.clone().unwrap_or_default(),
            _ => self.workers.unwrap_or_default().to_string(),
        }
    }

    /// What is wrong with a setting, if it is one of these and much less than what fits.
    fn lacks(&self, fitting: &Setting, major: u32, rotates: bool, times: f64) -> Option<String> {
        let method = self.method.as_deref();
        // Before 18, 1 is the default, which is default-setting's.
        let least = if major < 18 { 1.0 } else { 2.0 };
        match fitting.name {
            "effective_io_concurrency" if !rotates => {
                let concurrency = self.concurrency.filter(|concurrency| *concurrency < least)?;
                let what = if concurrency < 1.0 { "does not read ahead" } else { "reads one block ahead" };
                Some(format!("a scan {what}, although the disk serves many reads at once"))
            }
            "io_method" if method == Some("sync") => Some("each session waits for each of its reads".to_owned()),
            "io_workers" if method == Some("worker") => {
                let (workers, fit) = (self.workers?, fitting.value.parse::<f64>().ok()?);
                let sentence = format!("{workers} processes read for all sessions; this machine has room for {fit}");
                (fit >= workers * times).then_some(sentence)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_settings_far_from_what_fits_are_reported() {
        let fitting = |name, value: &str| Setting { name, value: value.to_owned(), reason: String::new() };
        let (ahead, method) = (fitting("effective_io_concurrency", "64"), fitting("io_method", "worker"));
        let workers = |value: &str| fitting("io_workers", value);
        let old = |concurrency| Present { concurrency: Some(concurrency), method: None, workers: None };
        assert!(old(0.0).lacks(&ahead, 15, false, 2.0).is_some());
        assert_eq!(old(1.0).lacks(&ahead, 15, false, 2.0), None, "default-setting reports it");
        assert_eq!(old(0.0).lacks(&ahead, 15, true, 2.0), None, "the disk has heads");
        assert_eq!(old(0.0).lacks(&method, 15, false, 2.0), None);
        let of_role = Present { concurrency: None, method: None, workers: None };
        assert_eq!(of_role.lacks(&ahead, 15, false, 2.0), None, "the server may have another one");

        let new = |concurrency, method: &str| {
            let method = Some(method.to_owned());
            Present { concurrency: Some(concurrency), method, workers: Some(3.0) }
        };
        assert!(new(1.0, "worker").lacks(&ahead, 18, false, 2.0).is_some());
        assert_eq!(new(16.0, "worker").lacks(&ahead, 18, false, 2.0), None);
        assert!(new(16.0, "sync").lacks(&method, 18, false, 2.0).is_some());
        assert_eq!(new(16.0, "io_uring").lacks(&method, 18, false, 2.0), None);
        assert!(new(16.0, "worker").lacks(&workers("6"), 18, false, 2.0).is_some());
        assert_eq!(new(16.0, "worker").lacks(&workers("5"), 18, false, 2.0), None);
        assert_eq!(new(16.0, "io_uring").lacks(&workers("8"), 18, false, 2.0), None, "no worker is used");
    }
}
