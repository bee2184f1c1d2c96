//! Check `temporary-files`: sorts and hashes that do not fit into work_mem.

use super::number::number;
use crate::check::{Check, Look, Seen, Task, Threshold};
use crate::server::Database;
use millstream_model::quantity::{bytes, count};
use millstream_model::{Class, Level, Repair, Restart};
use millstream_pg::Error;

pub(super) const CHECK: Check = Check {
    id: "temporary-files",
    about: "sorts and hashes that do not fit into work_mem and go to the disk",
    class: Class::Arithmetic,
    thresholds: &[
        Threshold { name: "files_per_hour", default: 20.0 },
        Threshold { name: "gb_per_hour", default: 5.0 },
        Threshold { name: "hours", default: 24.0 },
    ],
    manual: include_str!("temporary_files.md"),
    looks: &[Look::Database(|_, database, task| Box::pin(look(database, task)))],
};

async fn look(database: &Database, task: Task) -> Result<Seen, Error> {
    // A standby counts its own.
    if !database.session.server.in_recovery && database.uncounted.is_some() {
        return Ok(Seen::default().but(database.uncounted.clone()));
    }
    let row = database.session.client.query_one(include_str!("temporary_files.sql"), &[]).await?;
    let (files, all) = (number(&row, "files"), number(&row, "bytes"));
    let seconds = row.get::<_, Option<f64>>("seconds").unwrap_or(0.0).max(1.0);
    let (files_hourly, bytes_hourly) = (files as f64 * 3_600.0 / seconds, all as f64 * 3_600.0 / seconds);
    if files_hourly < task.threshold("files_per_hour")
        || bytes_hourly < task.threshold("gb_per_hour") * 1e9
        || seconds < task.threshold("hours") * 3_600.0
    {
        return Ok(Seen::default());
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of floats saturates")]
    let hourly = bytes(bytes_hourly as u64);
    let sentence = format!(
        "{files_hourly:.0} temporary files an hour, with {hourly}, because something does not fit into work_mem"
    );
    let mut finding = task
        .finding(Level::Warning, "", sentence)
        .with("temporary files", count(files), "pg_stat_database")
        .with("their size", bytes(all), "pg_stat_database")
        .with("work_mem", row.get::<_, String>("work_mem"), "pg_settings");
    finding.counted_seconds = Some(seconds);
    finding.alternative =
        Some("they come from a few large reports or index builds, which may take their time".to_owned());
    finding.repair = Some(Repair {
        sentence: "find the statements (log_temp_files, pg_stat_statements), and give them or their role more work_mem"
            .to_owned(),
        commands: vec!["-- alter role REPORTS set work_mem = '256MB'".to_owned()],
        risk: "each sort and hash of each session may take as much memory".to_owned(),
        restart: Restart::Nothing,
        change: None,
    });
    Ok([finding].into_iter().collect())
}
