//! Check `temporary-files`: sorts and hashes that do not fit into work_mem.

use super::number::{needs, number, size};
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::limits::STATEMENT_BYTES_MAX;
use crate::refusal::or_refusal;
use crate::server::Database;
use crate::statement::{schema, shown};
use millstream_model::quantity::{bytes, count};
use millstream_model::{Class, Finding, Level, Repair};
use millstream_pg::{Error, fill, quote_identifier, quote_literal};
use tokio_postgres::Row;

pub(super) const CHECK: Check = Check {
    id: "temporary-files",
    about: "sorts and hashes that do not fit into work_mem and go to the disk",
    class: Class::Arithmetic,
    thresholds: &[
        ("files_per_hour", 20.0),
        ("gb_per_hour", 5.0),
        ("hours", 24.0),
        ("role_percent", 50.0),
        ("work_mem_mb", 256.0),
    ],
    manual: include_str!("temporary_files.md"),
    looks: &[Look::Database(|_, database, task| Box::pin(look(database, task)))],
};

/// Bytes of memory for each byte of a temporary file, about: in memory, a sort keeps 24 bytes beside each row
/// (`SortTuple` in PostgreSQL's `tuplesort.h`), and a hash its buckets.
const MEMORY_PER_FILE: u64 = 2;

const MB: u64 = 1 << 20;

/// The role whose statements write most to temporary files.
struct Writer {
    role: String,
    /// Its share of what all roles write, in percent.
    percent: f64,
    /// The statement of it that writes most, if it may be seen, and the bytes that a call writes.
    statement: Option<(String, u64)>,
    /// With what its sessions begin, if that is known, and the same in bytes, if that is plain.
    work_mem: Option<String>,
    work_mem_bytes: Option<u64>,
}

async fn look(database: &Database, task: Task) -> Looked {
    database.counts_here()?;
    let needed = task.threshold("hours") * 3_600.0;
    needs("temporary files", "of counters", needed, database.sure_seconds)?;
    let row = database.session.client.query_one(include_str!("temporary_files.sql"), &[]).await?;
    let (files, all) = (number(&row, "files"), number(&row, "bytes"));
    let seconds = database.counted_seconds;
    let (files_hourly, bytes_hourly) = (files as f64 * 3_600.0 / seconds, all as f64 * 3_600.0 / seconds);
    if files_hourly < task.threshold("files_per_hour") || bytes_hourly < task.threshold("gb_per_hour") * 1e9 {
        return Ok(Seen::default());
    }
    let hourly = size(bytes_hourly);
    let sentence = format!(
        "{files_hourly:.0} temporary files an hour, with {hourly}, because something does not fit into work_mem"
    );
    let mut finding = task
        .finding(Level::Warning, "", sentence)
        .with("temporary files", count(files), "pg_stat_database")
        .with("their size", bytes(all), "pg_stat_database")
        .with("work_mem", row.get::<_, String>("work_mem"), "pg_settings")
        .counted(seconds)
        .unless("they come from a few large reports or index builds, which may take their time");
    let least = task.threshold("role_percent");
    let writer = Writer::read(database).await?.filter(|writer| writer.percent >= least);
    if let Some(writer) = &writer {
        finding = writer.add_to(finding);
    }
    // A standby has the settings of its primary, and cannot change them.
    let writer = writer.filter(|_| !database.session.server.in_recovery);
    let larger = writer.and_then(|writer| writer.repair(database, task.threshold("work_mem_mb")));
    Ok(finding.repaired_by(larger.unwrap_or_else(by_hand)).into())
}

/// What to do if it is not known which role needs how much.
fn by_hand() -> Repair {
    Repair::new(
        "find the statements (log_temp_files, pg_stat_statements), and give them or their role more work_mem",
        "each sort and hash of each session may take as much memory",
    )
    .run(["-- alter role REPORTS set work_mem = '256MB'"])
}

impl Writer {
    /// `None` if the server counts no statements that this role may see, or none that writes.
    async fn read(database: &Database) -> Result<Option<Self>, Error> {
        let client = &database.session.client;
        let Ok(schema) = schema(client).await? else { return Ok(None) };
        let sql = fill!(include_str!("temporary_files_role.sql"), schema = quote_identifier(&schema));
        // The server may not have loaded the library.
        let row = or_refusal(client.query_opt(&sql, &[&STATEMENT_BYTES_MAX]).await)?;
        Ok(row.ok().flatten().as_ref().map(Self::of))
    }

    fn of(row: &Row) -> Self {
        let number = |column: &str| row.get::<_, Option<i64>>(column).and_then(|n| u64::try_from(n).ok());
        let text: Option<String> = row.get("statement");
        Self {
            role: row.get("role"),
            percent: row.get("percent"),
            statement: text.zip(number("call_bytes")),
            work_mem: row.get("work_mem"),
            work_mem_bytes: number("work_mem_bytes"),
        }
    }

    /// The finding with the role as evidence.
    fn add_to(&self, finding: Finding) -> Finding {
        let source = "pg_stat_statements";
        let most = format!("{}: {:.0} %", self.role, self.percent);
        let (work_mem, whence) = match &self.work_mem {
            Some(work_mem) => (work_mem.as_str(), "pg_db_role_setting"),
            None => ("not known: the doctor's role has its own", "pg_settings"),
        };
        let (statement, call) = self.statement.as_ref().map(|(sql, call)| (shown(sql), bytes(*call))).unzip();
        finding
            .with("role that writes most", most, source)
            .with("work_mem of that role", work_mem, whence)
            .with_known("statement of it that writes most", statement, source)
            .with_known("what a call of it writes", call, source)
    }

    /// The least power of two of megabytes in which a call of the statement is likely to fit. `None` if the role has as
    /// much, or if that is more than a role should get.
    fn needed_mb(&self, mb_max: f64) -> Option<u32> {
        let needed = self.statement.as_ref()?.1.saturating_mul(MEMORY_PER_FILE);
        let mut mb: u32 = 1;
        while u64::from(mb) * MB < needed {
            mb = mb.checked_mul(2)?;
        }
        (f64::from(mb) <= mb_max && u64::from(mb) * MB > self.work_mem_bytes?).then_some(mb)
    }

    /// Gives the role as much memory as its statement needs.
    fn repair(&self, database: &Database, mb_max: f64) -> Option<Repair> {
        let value = format!("{}MB", self.needed_mb(mb_max)?);
        let (role, name) = (quote_identifier(&self.role), quote_identifier(&database.name));
        let set = format!("alter role {role} in database {name} set work_mem = {}", quote_literal(&value));
        Some(
            Repair::new(
                format!("give {} more work_mem in this database; its new sessions have it", self.role),
                "each sort and hash of each session of the role may take as much memory",
            )
            .run([set])
            .changes(database.set_for_role(&self.role, "work_mem", &value)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needed(call: Option<u64>, work_mem_bytes: Option<u64>) -> Option<u32> {
        let statement = call.map(|call| ("select".to_owned(), call));
        let (role, work_mem) = ("r".to_owned(), work_mem_bytes.map(bytes));
        Writer { role, percent: 100.0, statement, work_mem, work_mem_bytes }.needed_mb(256.0)
    }

    #[test]
    fn a_role_gets_as_much_as_its_statement_needs_or_nothing() {
        assert_eq!(needed(Some(9 * MB), Some(4 * MB)), Some(32));
        assert_eq!(needed(Some(128 * MB), Some(4 * MB)), Some(256));
        assert_eq!(needed(Some(129 * MB), Some(4 * MB)), None, "a larger report");
        assert_eq!(needed(Some(u64::MAX), Some(4 * MB)), None);
        assert_eq!(needed(Some(9 * MB), Some(32 * MB)), None, "the role has as much");
        assert_eq!(needed(Some(9 * MB), None), None, "what it has is not known");
        assert_eq!(needed(None, Some(4 * MB)), None, "its statement is not known");
    }
}
