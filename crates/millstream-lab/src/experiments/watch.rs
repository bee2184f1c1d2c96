//! The recorder beside a run, and what its recording says of the run.

use super::cluster::Cluster;
use crate::core::recorder::{Recorder, Recording, Watched};
use crate::core::{Measures, Series};
use crate::error::Error;
use millstream_pg::ConnInfo;
use std::collections::BTreeMap;
use std::path::Path;
use tempfile::TempDir;

/// Series that every record keeps, by the beginning of their names: a report draws them, or explains others with them.
const KEPT: &[&str] = &[
    "checkpoint.requested",
    "checkpoint.running",
    "checkpoint.timed",
    "disk.data.read_mb",
    "disk.data.write_mb",
    "disk.wal.read_mb",
    "disk.wal.write_mb",
    "processor.busy",
    "processor.iowait",
    "wal.mb",
];

/// What is recorded of this machine, by the beginning of the names: nothing about a server on another one.
const OF_THE_MACHINE: &[&str] = &["disk.", "memory.", "network.", "pressure.", "processor.", "throttling."];

/// A recorder at work.
#[derive(Debug)]
pub(crate) struct Watch {
    recorder: Result<(Recorder, TempDir), String>,
    /// The server runs on this machine, or there is none.
    is_local: bool,
}

impl Watch {
    /// Starts a recorder. Without one, because it cannot start or there is no `program`, the run is measured all the
    /// same, and says so.
    pub(crate) async fn start(program: Option<&Path>, server: Option<(&Cluster, &ConnInfo)>) -> Self {
        let recorder = match program {
            None => Err("nothing was recorded beside the run".to_owned()),
            Some(program) => {
                let started = Self::with(program, server).await;
                started.map_err(|error| format!("nothing was recorded beside the run: {}", error.chain()))
            }
        };
        Self { recorder, is_local: server.is_none_or(|(cluster, _)| cluster.is_local()) }
    }

    async fn with(program: &Path, server: Option<(&Cluster, &ConnInfo)>) -> Result<(Recorder, TempDir), Error> {
        let dir = super::scratch::for_a_run()?;
        let data = server.and_then(|(cluster, _)| cluster.data());
        let wal = data.and_then(|data| std::fs::read_link(data.join("pg_wal")).ok());
        let watched = Watched { data, wal: wal.as_deref(), db: server.map(|(_, db)| db) };
        let recorder = Recorder::start(program, &dir.path().join("recording"), watched).await?;
        Ok((recorder, dir))
    }

    /// Ends the recorder. Series whose names begin with a word of `more` are kept besides the usual ones.
    pub(crate) async fn finish(self, more: &[String]) -> Recorded {
        let recording = match self.recorder {
            Ok((recorder, _dir)) => recorder.finish().await.map_err(|error| error.chain()),
            Err(why) => Err(why),
        };
        recording.map_or_else(
            |why| Recorded { notes: vec![why], ..Recorded::default() },
            |all| Recorded::of(all, more, self.is_local),
        )
    }
}

/// What was recorded beside a run.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Recorded {
    values: BTreeMap<String, f64>,
    series: BTreeMap<String, Series>,
    notes: Vec<String>,
}

impl Recorded {
    fn of(recording: Recording, more: &[String], is_local: bool) -> Self {
        let Recording { series, summary, notes, .. } = recording;
        let of_server = |name: &str| is_local || !OF_THE_MACHINE.iter().any(|beginning| name.starts_with(beginning));
        let summary = summary.into_iter().filter(|(name, _)| of_server(name)).collect();
        let kept = |name: &str| {
            let wanted = KEPT.iter().copied().chain(more.iter().map(String::as_str));
            of_server(name) && wanted.into_iter().any(|beginning| name.starts_with(beginning))
        };
        let series = series.into_iter().filter(|(name, _)| kept(name)).collect();
        Self { values: summary, series, notes }
    }

    /// Why the run is void, if it is: others had the processors, or these were too hot. A quota of processor time is a
    /// property of the server's surroundings, so that it limits a run and does not make it void. `steal_max` is the
    /// percentage of the processors' time that the hypervisor may take.
    pub(crate) fn disturbance(&self, steal_max: f64) -> Option<String> {
        let value = |name: &str| self.values.get(name).copied().unwrap_or(0.0);
        let steal = value("processor.steal_percent");
        if steal > steal_max {
            return Some(format!("the hypervisor took {steal:.1} % of the processor's time"));
        }
        (value("throttling.heat_per_second") > 0.0).then(|| "the processor was throttled".to_owned())
    }

    /// Adds what was recorded to the numbers of the run.
    pub(crate) fn add_to(self, measures: &mut Measures) {
        for kind in ["read", "write"] {
            let series = self.series.get(&format!("disk.data.{kind}_mb_per_second"));
            let mean = self.values.get(&format!("disk.data.{kind}_mb_per_second"));
            measures.set(&format!("{kind}_mb_per_second"), mean.copied());
            measures.set(&format!("{kind}_mb_sd"), series.and_then(Series::deviation));
        }
        measures.recorded = self.values;
        measures.series.extend(self.series);
        measures.notes.extend(self.notes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(values: &[(&str, f64)]) -> Recorded {
        let summary = values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        Recorded::of(Recording { summary, ..Recording::default() }, &[], true)
    }

    #[test]
    fn steal_and_heat_make_a_run_void_and_a_quota_does_not() {
        assert_eq!(recorded(&[("processor.steal_percent", 1.9)]).disturbance(2.0), None);
        let stolen = recorded(&[("processor.steal_percent", 10.0)]).disturbance(2.0).unwrap();
        assert_eq!(stolen, "the hypervisor took 10.0 % of the processor's time");
        assert_eq!(recorded(&[("processor.steal_percent", 10.0)]).disturbance(12.0), None);
        let hot = recorded(&[("throttling.heat_per_second", 0.1)]).disturbance(2.0);
        assert_eq!(hot.unwrap(), "the processor was throttled");
        assert_eq!(recorded(&[("throttling.quota_per_second", 5.0)]).disturbance(2.0), None);
    }

    #[test]
    fn a_run_keeps_the_usual_series_and_those_that_are_wanted() {
        let all = [
            "checkpoint.running",
            "disk.data.read_mb_per_second",
            "disk.data.read_ms",
            "disk.data.write_mb_per_second",
            "disk.wal.write_mb_per_second",
            "memory.free_bytes",
            "processor.iowait_percent",
            "processor.user_percent",
        ];
        let one = Series::each_second([Some(1.0)]);
        let series = all.iter().map(|name| ((*name).to_owned(), one.clone())).collect();
        let recording = Recording { series, ..Recording::default() };
        let mut measures = Measures::default();
        Recorded::of(recording, &["memory.".to_owned()], true).add_to(&mut measures);
        let kept: Vec<&str> = measures.series.keys().map(String::as_str).collect();
        let not_kept = ["disk.data.read_ms", "processor.user_percent"];
        assert_eq!(kept, all.into_iter().filter(|name| !not_kept.contains(name)).collect::<Vec<_>>());
    }

    #[test]
    fn this_machine_says_nothing_about_a_server_on_another_one() {
        let values = [("processor.steal_percent", 10.0), ("disk.data.flush_ms", 9.0), ("wait.CPU", 1.0)];
        let summary = values.map(|(name, value)| (name.to_owned(), value)).into();
        let series = [("processor.busy_percent".to_owned(), Series::each_second([Some(1.0)]))].into();
        let found = Recorded::of(Recording { summary, series, ..Recording::default() }, &[], false);
        assert_eq!(found.disturbance(2.0), None);
        assert!(found.values.keys().eq(["wait.CPU"]) && found.series.is_empty(), "{found:?}");
    }

    #[tokio::test]
    async fn without_a_recorder_a_run_says_so() {
        let mut measures = Measures::default();
        let watch = Watch::start(Some(Path::new("false")), None).await;
        watch.finish(&[]).await.add_to(&mut measures);
        assert!(measures.notes[0].starts_with("nothing was recorded beside the run: the recorder failed"));
    }
}
