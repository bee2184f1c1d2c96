//! What sends packets for a proof or a row: this binary, started again in another network.

use millstream_guard::{Prober, packets, prove};

/// The arguments by which the tests know that they are meant. To the harness each is one more name of a test, and there is none
/// of it.
const PROBES: &str = "send-probes";
const PACKETS: &str = "send-packets";

/// Run by a proof in a process of its own.
#[test]
fn sends_what_it_reads_if_it_is_meant() {
    if !std::env::args().any(|word| word == PROBES) {
        return;
    }
    let task: prove::Task = serde_json::from_reader(std::io::stdin().lock()).unwrap();
    // The harness may have begun a line.
    println!("\n{}", serde_json::to_string(&prove::send(&task).unwrap()).unwrap());
}

/// Run for a row in a process of its own.
#[test]
fn sends_what_its_last_argument_says_if_it_is_meant() {
    let Some(traffic) = std::env::args().skip_while(|word| word != PACKETS).nth(1) else { return };
    let traffic: packets::Traffic = serde_json::from_str(&traffic).unwrap();
    println!("\n{}", serde_json::to_string(&packets::send(&traffic).unwrap()).unwrap());
}

/// For proofs.
pub(crate) fn prober() -> Prober {
    again("prober::sends_what_it_reads_if_it_is_meant", PROBES)
}

/// For rows.
pub(crate) fn sender() -> Prober {
    again("prober::sends_what_its_last_argument_says_if_it_is_meant", PACKETS)
}

fn again(test: &str, meant: &str) -> Prober {
    let words = ["--exact", test, "--nocapture", meant];
    Prober { program: std::env::current_exe().unwrap(), args: words.map(str::to_owned).to_vec() }
}
