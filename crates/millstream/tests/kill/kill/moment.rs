//! The load killed at random moments.

use super::{Victim, is_killed};
use fastrand::Rng;
use millstream_testkit::{Server, Settings, builds, cases};
use serde_json::Value;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

/// Kills on every build that count.
const KILLS: usize = 15;
/// Documents of a load: many batches for each lane.
const DOCUMENTS: u64 = 30_000;
/// Latest moment of the first kill. Most loads have ended by then.
const LATEST: Duration = Duration::from_millis(500);
/// By so much the latest moment grows after a kill that came before a commit, and shrinks after one that came too late:
/// on a slow machine a load has not begun after half a second.
const STEP: f64 = 1.3;
/// The JSON file that sums the kills of many runs, if there is one.
const RECORD: &str = "MILLSTREAM_TEST_KILL_RECORD";

/// The effect of the kills of one load.
#[derive(Debug)]
struct Tally {
    mode: &'static str,
    /// Kills after which some batches of the run were committed and others not.
    kills: u64,
    /// Kills in all.
    tries: u64,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_killed_at_any_moment_resumes_correctly() {
    for build in builds().await {
        println!("on {}", build.installation);
        let server = Server::start(build, Settings { durable: true, ..Settings::default() }).await;
        let wanted = u64::try_from(cases(KILLS)).unwrap();
        let (mut done, mut latest) = (0, LATEST);
        while done < wanted {
            let seed = fastrand::u64(..);
            println!("seed {seed}");
            let tally = kill_one_load(&server, seed, wanted - done, &mut latest).await;
            done += tally.kills;
            if let Some(path) = std::env::var_os(RECORD) {
                add_to_record(Path::new(&path), build.major(), &tally).unwrap();
            }
        }
    }
}

/// Kills a load again and again, until it finishes or was killed often enough.
async fn kill_one_load(server: &Server, seed: u64, most: u64, latest: &mut Duration) -> Tally {
    let mut rng = Rng::with_seed(seed);
    let victim = Victim::new(server, &mut rng, DOCUMENTS).await;
    let mut tally = Tally { mode: victim.mode, kills: 0, tries: 0 };
    let mut before = 0;
    while tally.kills < most {
        let mut child = victim.start(rng.u16(1..5), "");
        tokio::time::sleep(latest.mul_f64(rng.f64())).await;
        // If the run has ended, this load is finished.
        child.kill().unwrap();
        if !is_killed(victim.end(child).await) {
            *latest = latest.div_f64(STEP);
            break;
        }
        tally.tries += 1;
        let committed = victim.committed().await;
        if committed == victim.input.documents {
            // The server may still be finishing the load; a new run would then start over.
            victim.left_alone().await;
        }
        if victim.receipt().await.is_some() {
            // Killed after its last commit.
            *latest = latest.div_f64(STEP);
            break;
        }
        if committed > before && committed < victim.input.documents {
            tally.kills += 1;
        } else if committed == before {
            *latest = latest.mul_f64(STEP);
        }
        before = committed;
    }
    victim.finish(&mut rng).await;
    tally
}

/// Adds to the counts of a server version and a mode in a file, so that thousands of kills can be spread over many
/// runs, even concurrent ones.
fn add_to_record(path: &Path, major: u32, tally: &Tally) -> std::io::Result<()> {
    let turn = File::create(path.with_extension("lock"))?;
    turn.lock()?;
    let text = std::fs::read_to_string(path).unwrap_or_else(|_| "{}".into());
    let mut record: Value = serde_json::from_str(&text)?;
    let counts = &mut record[format!("postgresql_{major}")][tally.mode];
    for (name, more) in [("kills", tally.kills), ("tries", tally.tries), ("loads", 1)] {
        counts[name] = (counts[name].as_u64().unwrap_or(0) + more).into();
    }
    let beside = path.with_extension("new");
    std::fs::write(&beside, serde_json::to_string_pretty(&record)? + "\n")?;
    std::fs::rename(beside, path)
}
