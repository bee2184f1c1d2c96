//! The limiter: what keeps a run from being faster, if two independent sources agree on it.
//!
//! One source misleads easily: a busy processor may be the client's or somebody else's, and sessions that wait for a lock
//! may wait for one whose holder waits for the disk. So each limiter needs a sign of the work itself, in what the
//! server's sessions do or in the processor time of the client or the command, and another one in what the kernel reports
//! of the machine. This is the method of Gregg, "Systems Performance" (2nd edition, 2020), chapter 2, utilisation and
//! saturation by resource, with the server's waits as further evidence.

use crate::limits::{
    CLIENT_BUSY_PERCENT, FLUSH_SLOW_MS, PRESSURE_PERCENT, PROCESSOR_BUSY_PERCENT, PROCESSOR_FREE_PERCENT, RUNNING_MIN,
    SESSIONS_ACTIVE_MIN, SESSIONS_ACTIVE_PERCENT, THROTTLED_PERCENT, UTILISATION_HIGH_PERCENT, WAITS_DOMINATE_PERCENT,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What limits a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limiter {
    /// The program that makes the load: the server could do more.
    Client,
    /// Locks of rows that many transactions want.
    Lock,
    /// The disk: flushes of the WAL, or reads and writes.
    Disk,
    /// The network between client and server.
    Network,
    /// The machine's processors, or a quota of them.
    Processor,
    /// No two sources agree.
    Unknown,
}

impl Limiter {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Lock => "row locks",
            Self::Disk => "disk",
            Self::Network => "network",
            Self::Processor => "processor",
            Self::Unknown => "unknown",
        }
    }
}

/// What was observed during the measured time of a run.
#[derive(Debug, Clone, Copy)]
pub struct Observed<'a> {
    /// Means of the recorder's values, by their names in [`super::recorder::Recording`].
    pub values: &'a BTreeMap<String, f64>,
    /// Processor time of the client, in percent of the time that its threads had. `None` if it was not measured.
    pub client_percent: Option<f64>,
    /// Processor time of a command that was run instead of a client, in percent of the time that it took.
    pub command_percent: Option<f64>,
}

/// A limiter and the reasons to name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limited {
    /// The limiter.
    pub by: Limiter,
    /// Sentences, one for each source. For [`Limiter::Unknown`]: what was seen that was not enough.
    pub evidence: Vec<String>,
}

/// The two kinds of signs of a limiter. Each gives a sentence if it is there.
struct Signs {
    limiter: Limiter,
    /// From the server's sessions, or from the client or command. Nobody else on the machine can give it.
    of_work: fn(&Observed<'_>) -> Option<String>,
    /// From elsewhere.
    of_resource: fn(&Observed<'_>) -> Option<String>,
}

/// All limiters, in the order of their precedence: what limits from outside of the server comes first, and a busy
/// processor last, because waiting for something else keeps it busy too.
const SIGNS: &[Signs] = &[
    Signs { limiter: Limiter::Client, of_work: client_busy, of_resource: sessions_idle },
    Signs { limiter: Limiter::Lock, of_work: waits_for_rows, of_resource: processor_free },
    Signs { limiter: Limiter::Disk, of_work: waits_for_disk, of_resource: disk_slow },
    Signs { limiter: Limiter::Network, of_work: waits_for_client, of_resource: network_full },
    Signs { limiter: Limiter::Processor, of_work: runs_or_waits_to_run, of_resource: processor_busy },
];

impl Limited {
    /// Names the limiter of a run.
    pub fn of(observed: &Observed<'_>) -> Self {
        let mut seen = Vec::new();
        for Signs { limiter, of_work, of_resource } in SIGNS {
            match (of_work(observed), of_resource(observed)) {
                (Some(work), Some(resource)) => return Self { by: *limiter, evidence: vec![work, resource] },
                // Much is idle or free in any run. That alone says nothing.
                (Some(work), None) => seen.push(work),
                (None, Some(resource))
                    if *limiter == Limiter::Processor || *limiter == Limiter::Client && observed.works() =>
                {
                    seen.push(resource);
                }
                (None, _) => {}
            }
        }
        seen.dedup();
        if seen.is_empty() {
            seen.push("nothing was near a limit".to_owned());
        }
        Self { by: Limiter::Unknown, evidence: seen }
    }
}

impl Observed<'_> {
    fn value(&self, name: &str) -> Option<f64> {
        self.values.get(name).copied()
    }

    /// Whether any session was active.
    pub fn works(&self) -> bool {
        self.value("sessions.active").is_some_and(|active| active >= SESSIONS_ACTIVE_MIN)
    }

    /// Share of the sessions, in percent, that waited for the client's next statement. `None` without sessions.
    fn idle_percent(&self) -> Option<f64> {
        let states = ["sessions.active", "sessions.idle", "sessions.in_transaction"];
        let [active, idle, waiting] = states.map(|name| self.value(name).unwrap_or(0.0));
        let all = active + idle + waiting;
        // An active session may wait for more of a statement, too.
        let reading = self.value("wait.Client:ClientRead").unwrap_or(0.0);
        (all > 0.0).then(|| (idle + waiting + reading) / all * 100.0)
    }

    /// Share of the samples of active sessions, in percent, in which they waited for such an event. `None` if hardly
    /// any session was active.
    fn waits(&self, wanted: impl Fn(&str) -> bool) -> Option<f64> {
        let active = self.value("sessions.active").filter(|_| self.works())?;
        let waits = self.values.iter().filter(|(name, _)| name.strip_prefix("wait.").is_some_and(&wanted));
        Some(waits.map(|(_, sessions)| sessions).sum::<f64>() / active * 100.0)
    }

    /// As `waits`, but `None` if most sessions waited for the client: then what the others wait for does not limit.
    fn waits_of_most(&self, wanted: impl Fn(&str) -> bool) -> Option<f64> {
        let active = self.idle_percent()? <= 100.0 - SESSIONS_ACTIVE_PERCENT;
        self.waits(wanted).filter(|_| active)
    }

    /// The largest of a value of the devices of data and WAL.
    fn disk(&self, name: &str) -> Option<f64> {
        ["data", "wal"].iter().filter_map(|role| self.value(&format!("disk.{role}.{name}"))).reduce(f64::max)
    }
}

/// A sentence that begins with a share in percent, if it is that of most.
fn most(share: Option<f64>, did: &str) -> Option<String> {
    from(WAITS_DOMINATE_PERCENT, share, |share| format!("{share:.0} % {did}"))
}

/// A sentence, if a value is at least so large.
fn from(threshold: f64, value: Option<f64>, sentence: impl FnOnce(f64) -> String) -> Option<String> {
    value.filter(|value| *value >= threshold).map(sentence)
}

fn client_busy(observed: &Observed<'_>) -> Option<String> {
    from(CLIENT_BUSY_PERCENT, observed.client_percent, |percent| {
        format!("the client used {percent:.0} % of the processor time that its threads can use")
    })
}

/// Sessions that wait for the next statement.
fn sessions_idle(observed: &Observed<'_>) -> Option<String> {
    most(observed.idle_percent(), "of the sessions waited for the client's next statement")
}

fn waits_for_rows(observed: &Observed<'_>) -> Option<String> {
    let share = observed.waits_of_most(|event| matches!(event, "Lock:transactionid" | "Lock:tuple"));
    most(share, "of the active sessions were waiting for a row lock")
}

/// The processors have time left: what waits does not wait for them.
fn processor_free(observed: &Observed<'_>) -> Option<String> {
    let busy = observed.value("processor.busy_percent");
    let free = busy.filter(|busy| *busy < PROCESSOR_FREE_PERCENT);
    free.map(|busy| format!("the processors were {busy:.0} % busy"))
}

/// Events of reading, writing and flushing. `LWLock:WALWrite` is waiting for another session's flush.
fn waits_for_disk(observed: &Observed<'_>) -> Option<String> {
    let share = observed.waits_of_most(|event| event.starts_with("IO:") || event == "LWLock:WALWrite");
    most(share, "of the active sessions waited for the disk or for a flush of the WAL")
}

fn disk_slow(observed: &Observed<'_>) -> Option<String> {
    from(FLUSH_SLOW_MS, observed.disk("flush_ms"), |ms| format!("a flush of the disk took {ms:.1} ms"))
        .or_else(|| {
            let waited = |share: f64| format!("{share:.0} % of the time some task waited for a disk (PSI)");
            from(PRESSURE_PERCENT, observed.value("pressure.io_some_percent"), waited)
        })
        .or_else(|| {
            let busy = observed.disk("utilisation_percent");
            from(UTILISATION_HIGH_PERCENT, busy, |share| format!("the disk was busy for {share:.0} % of the time"))
        })
        .or_else(|| processor_free(observed))
}

/// The server waits until the client takes its answers, or for what the client sends.
fn waits_for_client(observed: &Observed<'_>) -> Option<String> {
    let share = observed.waits_of_most(|event| matches!(event, "Client:ClientWrite" | "Client:ClientRead"));
    most(share, "of the active sessions sent to or read from the client")
}

fn network_full(observed: &Observed<'_>) -> Option<String> {
    let share = observed.value("network.utilisation_percent");
    from(UTILISATION_HIGH_PERCENT, share, |share| format!("a network link was used at {share:.0} % of its speed"))
}

/// Active sessions that do not wait, and enough of them; or a command that runs for most of its time. Tasks that wait for
/// a processor (PSI) are no sign of the work, because they may be anybody's.
fn runs_or_waits_to_run(observed: &Observed<'_>) -> Option<String> {
    let client = observed.client_percent.unwrap_or(0.0) / 100.0;
    let many = observed.value("wait.CPU").unwrap_or(0.0) + client >= RUNNING_MIN;
    let running = observed.waits(|event| event == "CPU").filter(|_| many);
    most(running, "of the active sessions ran or waited to run").or_else(|| {
        from(WAITS_DOMINATE_PERCENT, observed.command_percent, |percent| {
            format!("the command itself used {percent:.0} % of a processor")
        })
    })
}

fn processor_busy(observed: &Observed<'_>) -> Option<String> {
    let busy = observed.value("processor.busy_percent");
    from(PROCESSOR_BUSY_PERCENT, busy, |share| format!("the processors were {share:.0} % busy")).or_else(|| {
        let quota = observed.value("throttling.quota_percent");
        from(THROTTLED_PERCENT, quota, |share| format!("a quota stopped tasks for {share:.0} % of the time"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(client_percent: Option<f64>, list: &[(&str, f64)]) -> Limited {
        let values = list.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        Limited::of(&Observed { values: &values, client_percent, command_percent: None })
    }

    fn limiter(client_percent: Option<f64>, list: &[(&str, f64)]) -> Limiter {
        limited(client_percent, list).by
    }

    const BUSY: (&str, f64) = ("processor.busy_percent", 97.0);
    const CALM: (&str, f64) = ("processor.busy_percent", 30.0);
    const ACTIVE: (&str, f64) = ("sessions.active", 8.0);

    #[test]
    fn a_busy_processor_needs_running_sessions() {
        assert_eq!(limiter(None, &[BUSY, ACTIVE, ("wait.CPU", 7.0)]), Limiter::Processor);
        let alone = limited(None, &[BUSY, ACTIVE, ("wait.CPU", 1.0), ("pressure.cpu_some_percent", 5.0)]);
        assert_eq!((alone.by, alone.evidence), (Limiter::Unknown, vec!["the processors were 97 % busy".to_owned()]));
        assert_eq!(limiter(None, &[CALM, ACTIVE, ("wait.CPU", 7.0)]), Limiter::Unknown);
    }

    #[test]
    fn somebody_else_on_the_machine_gives_no_sign_of_the_work() {
        let others = [BUSY, ("pressure.cpu_some_percent", 100.0)];
        let of = |client: Option<f64>, own: &[(&str, f64)]| limiter(client, &[&others[..], own].concat());
        assert_eq!(of(None, &[]), Limiter::Unknown, "no session was seen");
        assert_eq!(of(None, &[ACTIVE, ("wait.Lock:transactionid", 8.0)]), Limiter::Unknown, "all wait for a row");
        // A few statements a second, each of which runs.
        let few = [("sessions.active", 0.2), ("sessions.idle", 0.8), ("wait.CPU", 0.2)];
        assert_eq!(of(None, &few), Limiter::Unknown);
        assert_eq!(of(Some(5.0), &few), Limiter::Unknown);
        // One session and its client share what there is.
        let one = [("sessions.active", 0.4), ("sessions.idle", 0.6), ("wait.CPU", 0.4)];
        assert_eq!(of(Some(50.0), &one), Limiter::Processor);
    }

    #[test]
    fn a_command_is_limited_by_the_processor_only_if_it_runs_itself() {
        let values = [BUSY, ("pressure.cpu_some_percent", 100.0)].map(|(name, value)| (name.to_owned(), value)).into();
        let of =
            |percent| Limited::of(&Observed { values: &values, client_percent: None, command_percent: Some(percent) });
        let [sleeps, runs] = [1.0, 96.0].map(of);
        assert_eq!((sleeps.by, sleeps.evidence), (Limiter::Unknown, vec!["the processors were 97 % busy".to_owned()]));
        let evidence = ["the command itself used 96 % of a processor", "the processors were 97 % busy"];
        assert_eq!((runs.by, runs.evidence), (Limiter::Processor, evidence.map(str::to_owned).to_vec()));
    }

    #[test]
    fn a_quota_limits_while_the_machine_is_calm() {
        let quota = ("throttling.quota_percent", 40.0);
        assert_eq!(limiter(None, &[CALM, quota, ACTIVE, ("wait.CPU", 7.0)]), Limiter::Processor);
    }

    #[test]
    fn a_slow_flush_needs_waiting_sessions_and_a_slow_disk_or_a_calm_processor() {
        // Since 17 the events are written `WalSync` and `WalWrite`.
        for event in ["wait.IO:WALSync", "wait.IO:WalSync", "wait.LWLock:WALWrite"] {
            let waits = [ACTIVE, (event, 6.0)];
            let slow = limited(None, &[&waits[..], &[BUSY, ("disk.wal.flush_ms", 8.0)]].concat());
            assert_eq!(slow.by, Limiter::Disk);
            assert_eq!(slow.evidence[1], "a flush of the disk took 8.0 ms");
            assert_eq!(limiter(None, &[&waits[..], &[CALM]].concat()), Limiter::Disk);
            assert_eq!(
                limiter(None, &[&waits[..], &[BUSY, ("pressure.io_some_percent", 30.0)]].concat()),
                Limiter::Disk
            );
            assert_eq!(limiter(None, &[&waits[..], &[BUSY, ("disk.data.flush_ms", 0.05)]].concat()), Limiter::Unknown);
        }
        assert_eq!(limiter(None, &[CALM, ACTIVE, ("disk.data.flush_ms", 8.0)]), Limiter::Unknown, "nobody waits");
    }

    #[test]
    fn waits_of_a_few_sessions_do_not_limit_if_the_others_wait_for_the_client() {
        let waits = [("sessions.active", 0.4), ("sessions.idle", 0.6), ("wait.IO:WALSync", 0.3), CALM];
        let found = limited(None, &waits);
        assert_eq!(found.by, Limiter::Unknown);
        assert_eq!(found.evidence, ["60 % of the sessions waited for the client's next statement"]);
    }

    #[test]
    fn a_hot_row_needs_lock_waits_and_a_calm_processor() {
        let waits = [ACTIVE, ("wait.Lock:transactionid", 3.0), ("wait.Lock:tuple", 4.0), ("wait.IO:WALSync", 1.0)];
        assert_eq!(limiter(None, &[&waits[..], &[CALM]].concat()), Limiter::Lock);
        assert_eq!(limiter(None, &[&waits[..], &[BUSY]].concat()), Limiter::Unknown);
        let few = [ACTIVE, CALM, ("wait.Lock:tuple", 2.0), ("wait.CPU", 6.0)];
        assert_eq!(limiter(None, &few), Limiter::Unknown);
    }

    #[test]
    fn a_saturated_client_needs_its_own_time_and_waiting_sessions() {
        let waiting = [
            BUSY,
            ("sessions.active", 1.0),
            ("wait.CPU", 1.0),
            ("sessions.idle", 5.0),
            ("sessions.in_transaction", 2.0),
        ];
        assert_eq!(limiter(Some(96.0), &waiting), Limiter::Client);
        assert_eq!(limiter(Some(50.0), &waiting), Limiter::Processor);
        assert_eq!(limiter(None, &waiting), Limiter::Processor, "not measured");
        assert_eq!(limiter(Some(96.0), &[CALM, ACTIVE, ("wait.CPU", 8.0)]), Limiter::Unknown);
    }

    #[test]
    fn a_network_needs_a_full_link_and_sessions_that_send() {
        let sends = [CALM, ACTIVE, ("wait.Client:ClientWrite", 6.0)];
        assert_eq!(limiter(None, &[&sends[..], &[("network.utilisation_percent", 95.0)]].concat()), Limiter::Network);
        assert_eq!(limiter(None, &sends), Limiter::Unknown);
    }

    #[test]
    fn an_idle_run_is_unknown() {
        let idle = [
            ("processor.busy_percent", 2.0),
            ("sessions.active", 0.0),
            ("sessions.idle", 8.0),
            ("disk.data.flush_ms", 5.0),
            ("pressure.io_some_percent", 0.1),
        ];
        let found = limited(Some(1.0), &idle);
        assert_eq!((found.by, found.evidence), (Limiter::Unknown, vec!["nothing was near a limit".to_owned()]));
        assert_eq!(limiter(None, &[]), Limiter::Unknown);
    }
}
