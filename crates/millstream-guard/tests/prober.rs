//! What sends the packets of a proof: this binary, started again in the network of the host.

use millstream_guard::prove::{Prober, Task, send};

/// The argument by which the test knows that it is meant. To the harness it is one more name of a test, and there is none of it.
const MEANT: &str = "send-probes";

/// Run by a proof in a process of its own.
#[test]
fn sends_what_it_reads_if_it_is_meant() {
    if !std::env::args().any(|word| word == MEANT) {
        return;
    }
    let task: Task = serde_json::from_reader(std::io::stdin().lock()).unwrap();
    // The harness may have begun a line.
    println!("\n{}", serde_json::to_string(&send(&task).unwrap()).unwrap());
}

pub(crate) fn prober() -> Prober {
    let words = ["--exact", "prober::sends_what_it_reads_if_it_is_meant", MEANT, "--nocapture"];
    Prober { program: std::env::current_exe().unwrap(), args: words.map(str::to_owned).to_vec() }
}
