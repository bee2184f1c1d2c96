//! A run of a workload: pgbench as a process, and its log.

use super::goal::Objective;
use super::result::{RunResult, Tally};
use super::workload::{Script, Workload};
use crate::error::Error;
use crate::experiments::{PGBENCH, Program, Via, lines, logs, parse_line, run_to_end, scratch};
use crate::limits::DRIVE_FINISH;
use millstream_host::write_whole;
use millstream_pg::{ConnInfo, SessionSettings};
use std::fs::File;
use std::io::BufReader;
use std::time::Duration;

/// The rate of a run, its length, and the seed of its times and values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Turn {
    pub(super) rate: f64,
    pub(super) seconds: u32,
    pub(super) seed: u32,
}

/// A workload on its way to a server. Its sessions have a name of their own, by which they are found when pgbench is gone.
#[derive(Debug)]
pub struct Drive<'a> {
    pub(super) workload: &'a Workload,
    pub(super) seed: u32,
    db: &'a ConnInfo,
    /// The name of its sessions.
    sessions: String,
}

impl<'a> Drive<'a> {
    /// Nothing is sent yet. The seed is that of the times and values of the transactions.
    pub fn new(workload: &'a Workload, seed: u32, db: &'a ConnInfo) -> Self {
        // A process may have several drives, and a process of another machine the same number.
        let sessions = format!("millstream drive {}-{:08x}", std::process::id(), fastrand::u32(..));
        Self { workload, seed, db, sessions }
    }

    /// Runs the workload at a rate. If the future is dropped, pgbench is killed; then call [`Drive::end_sessions`].
    ///
    /// # Errors
    /// pgbench cannot be found or fails, as it does at an error of a statement.
    pub async fn run(&self, rate: f64) -> Result<RunResult, Error> {
        let turn = Turn { rate, seconds: self.workload.seconds, seed: self.seed };
        self.turn(turn, &|script| script.objective).await
    }

    /// Runs the workload, with other objectives than it has.
    pub(super) async fn turn(
        &self,
        turn: Turn,
        objective: &(dyn Fn(&Script) -> Option<Objective> + Sync),
    ) -> Result<RunResult, Error> {
        let Self { workload, db, .. } = *self;
        let Turn { rate, seconds, seed } = turn;
        let program = Program::find(None).await?;
        let dir = scratch::for_a_run()?;
        let mut command = program.command(db, Via::default());
        command.env("PGAPPNAME", &self.sessions);
        command.args(["-n", "-M", "prepared", "-j", "1", "-c", &workload.connections.to_string()]);
        command.args(["-T", &seconds.to_string(), "-R", &rate.to_string(), "--random-seed", &seed.to_string()]);
        if let Some(limit) = workload.limit_ms {
            command.args(["-L", &limit.to_string()]);
        }
        for script in &workload.scripts {
            let path = dir.path().join(format!("{}.sql", script.name));
            write_whole(&path, &script.sql).map_err(Error::io("write", &path))?;
            command.arg("-f").arg(format!("{}@{}", path.display(), script.weight));
        }
        command.args(["-l", "--log-prefix"]).arg(dir.path().join("log")).arg(&db.dbname);
        let limit = Duration::from_secs(seconds.into()) + DRIVE_FINISH;
        let measured = match run_to_end(&mut command, PGBENCH, limit).await {
            Ok(measured) => measured,
            Err(error) => {
                // A statement may still run for a client that is gone. The error to report is the first one.
                let _ = self.end_sessions().await;
                return Err(error);
            }
        };
        let mut tallies: Vec<Tally> =
            workload.scripts.iter().map(|script| Tally::new(script, objective(script))).collect();
        for path in logs(dir.path())? {
            let file = BufReader::new(File::open(&path).map_err(Error::io("read", &path))?);
            for line in lines(file) {
                let line = line.map_err(Error::io("read", &path))?;
                let parsed = parse_line(&line).and_then(|parsed| Some((tallies.get_mut(parsed.script)?, parsed)));
                let Some((tally, parsed)) = parsed else {
                    return Err(Error::Program {
                        program: PGBENCH,
                        why: format!("unexpected line in its log: {line}"),
                    });
                };
                tally.add(&parsed);
            }
        }
        let mut result = RunResult {
            rate,
            seconds,
            cpu_seconds: measured.cpu_seconds,
            client_share: measured.cpu_seconds.map(|cpu| cpu / measured.wall_seconds),
            scripts: tallies.into_iter().map(Tally::result).collect(),
            remarks: Vec::new(),
        };
        result.remarks = result.remarks();
        Ok(result)
    }

    /// Ends what the server still does for a run that was stopped.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub async fn end_sessions(&self) -> Result<(), Error> {
        let settings = SessionSettings::named("millstream drive end").with_own_names();
        let control = Box::pin(millstream_pg::connect(self.db, &settings)).await?;
        let sql =
            "select pg_catalog.pg_terminate_backend(pid) from pg_catalog.pg_stat_activity where application_name = $1";
        control.client.execute(sql, &[&self.sessions]).await?;
        Ok(())
    }
}
