//! Check `minor-version-behind`: the server lacks corrections that were released, or gets none any more.

use crate::check::{Check, Look, Looked, Seen, Task};
use crate::server::Server;
use millstream_model::{Class, Level, Restart};

pub(super) const CHECK: Check = Check {
    id: "minor-version-behind",
    about: "the server lacks corrections that were released, or its version gets none any more",
    class: Class::Fact,
    thresholds: &[("end_days", 180.0), ("table_days", 365.0)],
    manual: include_str!("minor_version_behind.md"),
    looks: &[Look::Server(|server, task| Box::pin(look(server, task)))],
};

/// The day on which the table was last looked through.
const TABLE: &str = "2026-11-24";

/// All versions get their releases on one day, and Debian's packages come within a few. If a row is older than another
/// by more days than this, a release is missing there.
const TOGETHER_DAYS: i32 = 30;

/// A version, as the table knows it.
struct Version {
    major: i32,
    /// The newest release of it that we could verify, and the day of that release or of Debian's package of it.
    minor: i32,
    released: &'static str,
    /// Its last release. Later there are no corrections.
    end: &'static str,
}

/// The versions that we connect to. Sources: <https://www.postgresql.org/support/versioning/>, announcements of
/// releases, and Debian's changelogs.
const VERSIONS: &[Version] = &[
    Version { major: 15, minor: 20, released: "2026-11-13", end: "2027-11-11" },
    Version { major: 16, minor: 15, released: "2026-08-13", end: "2028-11-09" },
    Version { major: 17, minor: 11, released: "2026-08-13", end: "2029-11-08" },
    // There was no 18.5.
    Version { major: 18, minor: 6, released: "2026-08-13", end: "2030-11-14" },
];

async fn look(server: &Server, task: Task) -> Looked {
    let number = server.version_num();
    let (major, minor) = (number / 10_000, number % 10_000);
    let unknown = || format!("releases of PostgreSQL {major}, which our table of {TABLE} lacks; update millstream");
    let known = VERSIONS.iter().find(|known| known.major == major).ok_or_else(unknown)?;
    let sql = "select $1::text::date - current_date, current_date - $2::text::date, $3::text::date - $4::text::date";
    let newest = VERSIONS.iter().map(|known| known.released).max().unwrap_or(known.released);
    let row = server.session.client.query_one(sql, &[&known.end, &TABLE, &newest, &known.released]).await?;
    let mut seen = judged(&task, known, minor, row.get(0), row.get(1), server.provider());
    if seen.unseen.is_none() && minor <= known.minor && row.get::<_, i32>(2) > TOGETHER_DAYS {
        let released = known.released;
        seen.unseen = Some(format!("releases of {major} after {released}, which our table of {TABLE} lacks"));
    }
    Ok(seen)
}

/// What is wrong with a release, so many days before the end of its version, and so many days after the table was made.
fn judged(task: &Task, known: &Version, minor: i32, days_left: i32, age: i32, provider: Option<&str>) -> Seen {
    let Version { major, minor: newest, released, end } = known;
    let is_old = f64::from(age) > task.threshold("table_days");
    let table = match is_old {
        true => format!("our table of {TABLE}, which is {age} days old; a newer millstream may know more"),
        false => format!("our table of {TABLE}"),
    };
    let mut seen = Seen::default();
    let place = provider.map_or("with the packages that it came from", |_| "in the service's window for maintenance");
    if minor < *newest {
        let sentence = format!("{major}.{minor} lacks corrections that {major}.{newest} has, also for security");
        let finding = task
            .finding(Level::Warning, "release", sentence)
            .with("release of the server", format!("{major}.{minor}"), "server_version_num")
            .with("newest release that is known here", format!("{major}.{newest}, of {released}"), &table)
            .unless("your distribution has corrected the older release, and kept its number");
        let sentence = format!("update to the newest {major} {place}; the data stay as they are");
        let risk = "the server restarts; read the release notes: some releases ask you to build indexes again or set \
                    something";
        seen.findings.push(finding.repaired(sentence, risk).needs(Restart::Server));
    } else if is_old {
        seen.unseen = Some(format!("releases of the last {age} days, which our table lacks; update millstream"));
    }
    if f64::from(days_left) <= task.threshold("end_days") {
        let (level, sentence) = match days_left {
            ..0 => (Level::Warning, format!("PostgreSQL {major} has had no corrections since {end}")),
            _ => (Level::Info, format!("PostgreSQL {major} gets its last corrections on {end}, in {days_left} days")),
        };
        let finding = task
            .finding(level, "version", sentence)
            .with("last release", end, &table)
            .unless("somebody else corrects this version for you");
        let sentence = "move to a newer version: pg_upgrade, or logical replication for a short pause";
        let risk = "plans and programs may behave in another way; try it on a copy first";
        seen.findings.push(finding.repaired(sentence, risk).needs(Restart::Server));
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const KNOWN: Version = Version { major: 15, minor: 20, released: "2026-11-13", end: "2027-11-11" };

    fn found(minor: i32, days_left: i32, age: i32) -> (Vec<(String, Level)>, bool) {
        let seen = judged(&Task::of(&CHECK, BTreeMap::new()), &KNOWN, minor, days_left, age, None);
        let findings = seen.findings.iter().map(|finding| (finding.subject.clone(), finding.level));
        (findings.collect(), seen.unseen.is_some())
    }

    fn only(subject: &str, level: Level) -> Vec<(String, Level)> {
        vec![(subject.to_owned(), level)]
    }

    #[test]
    fn a_release_is_behind_if_a_newer_one_is_known() {
        assert_eq!(found(20, 300, 10), (Vec::new(), false));
        assert_eq!(found(21, 300, 10), (Vec::new(), false), "newer than the table");
        assert_eq!(found(19, 300, 10), (only("release", Level::Warning), false));
    }

    #[test]
    fn a_version_is_reported_before_and_after_its_end() {
        assert_eq!(found(20, 180, 10).0, only("version", Level::Info));
        assert_eq!(found(20, 0, 10).0, only("version", Level::Info));
        assert_eq!(found(20, -1, 10).0, only("version", Level::Warning));
    }

    #[test]
    fn an_old_table_says_that_it_is_old() {
        assert_eq!(found(20, 300, 366), (Vec::new(), true));
        let seen = judged(&Task::of(&CHECK, BTreeMap::new()), &KNOWN, 19, 300, 366, None);
        assert!(seen.unseen.is_none() && seen.findings[0].evidence[1].source.contains("366 days old"), "{seen:?}");
    }

    #[test]
    fn the_table_is_in_order_and_its_days_are_days() {
        assert!(VERSIONS.is_sorted_by(|one, other| one.major < other.major && one.end < other.end));
        let is_day = |day: &str| day.len() == 10 && day.split('-').all(|part| part.parse::<u32>().is_ok());
        assert!(VERSIONS.iter().all(|known| is_day(known.end) && is_day(known.released) && known.released < TABLE));
    }
}
