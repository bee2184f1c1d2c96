//! Commands: processes of a run that are not pgbench's own business, and how any of them ends.

use super::arm::Setup;
use super::cluster::{Cluster, Trouble};
use crate::core::{Measures, Metric, libpq};
use crate::error::Error;
use crate::limits::RUN_SLACK;
use millstream_host::{Child, Command, Measured};
use millstream_pg::ConnInfo;
use std::collections::BTreeMap;
use std::time::Duration;

/// Measures a command line from its start to its exit.
pub(crate) async fn measure(
    command: &str,
    setup: &Setup,
    server: Option<(&Cluster, &ConnInfo)>,
) -> Result<Measures, Trouble> {
    let measured = shell(command, server).await?;
    let mut measures = Measures::default();
    measures.set("wall_seconds", Some(measured.wall_seconds));
    measures.set("client_cpu_seconds", measured.cpu_seconds);
    measures.set("rows_per_second", setup.rows.map(|rows| rows / measured.wall_seconds));
    for (name, value) in said(&measured.ended.stdout)? {
        measures.set(&name, Some(value));
    }
    Ok(measures)
}

/// Metrics that a command measured itself: its last line of output, if that is a JSON object.
fn said(output: &str) -> Result<BTreeMap<String, f64>, Trouble> {
    let Some(line) = output.lines().next_back().filter(|line| line.starts_with('{')) else {
        return Ok(BTreeMap::new());
    };
    let failed = |why: String| Trouble::Error(Error::Subject { subject: "the command", why });
    let said: BTreeMap<String, f64> =
        serde_json::from_str(line).map_err(|error| failed(format!("its last line is no list of metrics: {error}")))?;
    match said.keys().find(|name| Metric::by_name(name).is_none()) {
        Some(unknown) => Err(failed(format!("it reports {unknown}, which is no metric"))),
        None => Ok(said),
    }
}

/// Runs a shell command. It finds the database in libpq's variables and in `MILLSTREAM_DB`, the server's programs first in `PATH`, a directory
/// for its files in `LAB_DIR`, and this program in `MILLSTREAM`.
pub(crate) async fn shell(text: &str, server: Option<(&Cluster, &ConnInfo)>) -> Result<Measured, Trouble> {
    finished(&mut shell_command(text, server), 0).await
}

/// Runs a shell command as [`shell`] does, again and again, until it fails, or what is returned is dropped.
pub(crate) fn again_and_again(text: &str, cluster: &Cluster, db: &ConnInfo) -> Result<Child, Trouble> {
    // Our end of its input closes if this program is killed; then it ends itself and what it has started.
    let watch = "exec 3<&0 </dev/null; { cat <&3; kill -KILL 0; } >/dev/null 2>&1 &";
    let script = format!("{watch}\nwhile\n{text}\ndo :; done");
    let started = shell_command(&script, Some((cluster, db))).start();
    started.map_err(|error| Trouble::Error(Error::Subject { subject: "beside", why: error.to_string() }))
}

fn shell_command(text: &str, server: Option<(&Cluster, &ConnInfo)>) -> Command {
    let mut command = Command::new("/bin/sh");
    if let Some((cluster, db)) = server {
        libpq::lead(&mut command, db, false);
        command.env("MILLSTREAM_DB", libpq::text(db)).env("LAB_DIR", cluster.files());
        if let Some(dir) = cluster.programs() {
            let path = std::env::var("PATH").unwrap_or_default();
            command.env("PATH", format!("{}:{path}", dir.display()));
        }
    }
    if let Ok(own) = std::env::current_exe() {
        command.env("MILLSTREAM", own);
    }
    command.args(["-c", text]);
    command
}

/// Runs a process to its end, which must be a good one. It may take so many seconds, and some more to start and to end.
pub(crate) async fn finished(command: &mut Command, seconds: u32) -> Result<Measured, Trouble> {
    let program = command.program().display().to_string();
    let failed = |why: String| Trouble::Error(Error::Subject { subject: "pgbench", why });
    let limit = Duration::from_secs(seconds.into()) + RUN_SLACK;
    let measured = command.measure(limit).await.map_err(|error| failed(error.to_string()))?;
    match measured.ended.status.success() {
        true => Ok(measured),
        false => {
            let said = measured.ended.stderr.lines().filter(|line| !line.starts_with("progress: "));
            let said: Vec<&str> = said.collect();
            let said = said[said.len().saturating_sub(5)..].join(" ");
            Err(failed(format!("{program} ended with {}: {said}", measured.ended.status)))
        }
    }
}
