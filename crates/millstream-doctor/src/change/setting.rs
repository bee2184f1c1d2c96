//! Settings of a server that `alter system` has written.

use super::session::{assignment, identity, open, refusal, refuse_name_list};
use crate::limits::{CHECKPOINT_SECONDS_MAX, SETTING_EFFECT_MAX, SETTING_LOOK};
use millstream_change::{Answer, Kind, Measurable, Place, Sides};
use millstream_host::kernel::file;
use millstream_model::{Change, Refusal};
use std::time::Instant;

/// A setting by its name. Its value is what `alter system` has written; without that, other files or the default count.
#[derive(Debug)]
pub struct SettingKind;

/// Settings that show in the transactions of pgbench, which find rows by their key and write a little. Plans, large scans
/// and large amounts of WAL are not among them.
const MEASURABLE: &[&str] = &[
    "bgwriter_delay",
    "checkpoint_completion_target",
    "checkpoint_flush_after",
    "checkpoint_timeout",
    "commit_delay",
    "commit_siblings",
    "huge_pages",
    "shared_buffers",
    "wal_compression",
    "wal_sync_method",
];

/// Huge pages that the server of the lab may need more than yours, besides a twentieth.
const SPARE_PAGES: i64 = 32;

impl Kind for SettingKind {
    fn name(&self) -> &'static str {
        "setting"
    }

    fn is_of_server(&self) -> bool {
        true
    }

    fn read<'a>(&'a self, place: &'a Place, target: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(async move {
            refuse_name_list(target, "alter system")?;
            let session = open(place, None).await?;
            let row = session.client.query_opt(include_str!("setting.sql"), &[&target]).await.map_err(refusal)?;
            Ok(row.map(|row| row.get(0)))
        })
    }

    fn write<'a>(&'a self, place: &'a Place, target: &'a str, value: Option<&'a str>) -> Answer<'a, ()> {
        Box::pin(async move {
            refuse_name_list(target, "alter system")?;
            let session = open(place, None).await?;
            let sql = format!("alter system {}", assignment(target, value));
            session.client.batch_execute(&sql).await.map_err(refusal)?;
            session.client.batch_execute("select pg_reload_conf()").await.map_err(refusal)?;
            if value.is_some() { comes_into_effect(place, target).await } else { Ok(()) }
        })
    }

    fn identity<'a>(&'a self, place: &'a Place, _: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(identity(place))
    }

    fn measurable(&self) -> Option<&dyn Measurable> {
        Some(self)
    }
}

impl Measurable for SettingKind {
    fn shows(&self, change: &Change) -> bool {
        MEASURABLE.contains(&change.target.as_str())
    }

    fn sides<'a>(&'a self, place: &'a Place, change: &'a Change, _: Option<&'a str>) -> Answer<'a, Sides> {
        Box::pin(sides(place, change))
    }
}

/// Waits until new sessions have the value that was written. The server reads its files a little later.
async fn comes_into_effect(place: &Place, name: &str) -> Result<(), Refusal> {
    let begun = Instant::now();
    loop {
        let session = open(place, None).await?;
        let written = session.client.query_opt(include_str!("setting.sql"), &[&name]).await.map_err(refusal)?;
        if let Some(error) = written.and_then(|row| row.get::<_, Option<String>>("error")) {
            return Err(Refusal::new(format!("the server does not take the value of {name}: {error}")));
        }
        let sql =
            "select source, coalesce(sourcefile, '') like '%postgresql.auto.conf' from pg_settings where name = $1";
        let row = session.client.query_one(sql, &[&name]).await.map_err(refusal)?;
        if row.get(1) {
            return Ok(());
        }
        if begun.elapsed() > SETTING_EFFECT_MAX {
            let source: String = row.get(0);
            return Err(Refusal::new(format!(
                "the value of {name} has no effect, because another one comes from: {source}"
            )));
        }
        tokio::time::sleep(SETTING_LOOK).await;
    }
}

/// What is in effect may come from a file, or be the default.
async fn sides(place: &Place, change: &Change) -> Result<Sides, Refusal> {
    let session = open(place, None).await?;
    let sql = "select current_setting($1), \
               coalesce((select context = 'postmaster' from pg_settings where name = $1), false)";
    let row = session.client.query_one(sql, &[&change.target]).await.map_err(refusal)?;
    let (value, restarts): (String, bool) = (row.get(0), row.get(1));
    let setting = |value: &str| Sides::entry("settings", &change.target, value);
    let mut sides = Sides { restarts, ..Sides::of(change, &value, setting) };
    match change.target.as_str() {
        "checkpoint_timeout" => {
            let sql = "select setting::bigint from pg_settings where name = 'checkpoint_timeout'";
            let seconds: i64 = session.client.query_one(sql, &[]).await.map_err(refusal)?.get(0);
            let Some(seconds) = u32::try_from(seconds).ok().filter(|seconds| *seconds <= CHECKPOINT_SECONDS_MAX) else {
                let says = format!("an experiment with checkpoint_timeout at {value} would take hours");
                let hint = "compare the values on a server of yours, for several checkpoints each";
                return Err(Refusal::new(says).hint(hint));
            };
            sides.seconds = Some(Sides::seconds_of_two(seconds));
        }
        "checkpoint_completion_target" | "checkpoint_flush_after" => sides = sides.with_checkpoints(),
        _ => {}
    }
    if change.target == "huge_pages" {
        let sql = "select current_setting('shared_buffers'), \
                   nullif(current_setting('shared_memory_size_in_huge_pages', true), '')::bigint, \
                   pg_size_bytes(current_setting('shared_buffers'))";
        let row = session.client.query_one(sql, &[]).await.map_err(refusal)?;
        let (buffers, pages, bytes): (String, Option<i64>, i64) = (row.get(0), row.get(1), row.get(2));
        // The lab's server takes as much again, beside yours.
        if memory_kb("MemAvailable").is_some_and(|free| free * 1_024 < bytes + bytes / 5) {
            return Err(Refusal::new(format!(
                "the lab would need {buffers} of memory more, and this machine has not enough left; measure on a machine \
                 like this one that has no other work"
            )));
        }
        sides.both = Sides::entry("settings", "shared_buffers", &buffers);
        // With `try` the server would take the pages that another arm has left.
        sides.now = setting("off");
        if let Some(pages) = pages.filter(|pages| *pages > 0) {
            // Those that others use or have reserved stay theirs, and free ones stay set aside.
            let [total, free, reserved] =
                ["Total", "Free", "Rsvd"].map(|name| memory_kb(&format!("HugePages_{name}")).unwrap_or(0));
            let pages = total.max(total - free + reserved + pages + pages / 20 + SPARE_PAGES);
            sides.changed += &Sides::entry("host", "vm.nr_hugepages", &pages.to_string());
        }
    }
    Ok(sides)
}

/// A line of `/proc/meminfo`, in kB or pages.
fn memory_kb(name: &str) -> Option<i64> {
    let number = file::number(&file::text("/proc/meminfo")?, name)?;
    #[expect(clippy::cast_possible_truncation, reason = "a cast of floats saturates")]
    Some(number as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_list_of_names_is_refused_before_a_server_is_asked() {
        let place = Place::default();
        for name in ["shared_preload_libraries", "Search_Path"] {
            let expected = format!("{name} is a list of names; change it by hand, with alter system");
            assert_eq!(SettingKind.read(&place, name).await.unwrap_err().to_string(), expected);
            assert_eq!(SettingKind.write(&place, name, Some("a, b")).await.unwrap_err().to_string(), expected);
        }
    }
}
