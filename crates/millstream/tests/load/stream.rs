//! A stream of 200 MB on standard input loads in bounded memory, against an independent reading of it.

use crate::process::command;
use millstream_testkit::database;
use std::collections::HashMap;
use std::io::{BufWriter, Write};
use std::process::Stdio;

/// Bytes of the stream; the same by hand with 5 GB is in the record of the measurement.
const STREAM_BYTES: u64 = 200_000_000;
/// Keys of the stream: each is met several times.
const KEYS: u64 = 100_000;
/// Most memory the process may take, in KiB.
const MEMORY_KIB_MAX: u64 = 256 << 10;

#[tokio::test]
async fn a_large_stream_loads_in_bounded_memory() {
    let db = database().await;
    let mut child =
        command(&["load", "-", "--into", "stream", "--key", "id:text", "--output", "json", "--db", &db.url()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
    let pid = child.id();
    let mut rng = fastrand::Rng::with_seed(42);
    let mut last = HashMap::new();
    let (mut written, mut documents) = (0u64, 0u64);
    let padding = "x".repeat(360);
    let mut peak = 0;
    {
        let mut input = BufWriter::new(child.stdin.take().unwrap());
        while written < STREAM_BYTES {
            let id = rng.u64(..KEYS);
            let line = format!("{{\"id\":\"k{id}\",\"value\":{documents},\"padding\":\"{padding}\"}}\n");
            input.write_all(line.as_bytes()).unwrap();
            last.insert(format!("k{id}"), i64::try_from(documents).unwrap());
            written += line.len() as u64;
            documents += 1;
            if documents.is_multiple_of(10_000) {
                peak = peak.max(memory_peak_kib(pid));
            }
        }
        input.flush().unwrap();
    }
    peak = peak.max(memory_peak_kib(pid));
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(peak > 0 && peak < MEMORY_KIB_MAX, "{peak} KiB at most");
    let receipt: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(receipt["read"], documents);
    assert_eq!(receipt["inserted"], last.len() as u64);
    let rows = db.client().await.query("select id, (doc ->> 'value')::bigint from stream", &[]).await.unwrap();
    let found: HashMap<String, i64> = rows.iter().map(|r| (r.get(0), r.get(1))).collect();
    assert!(found == last, "the table is what the stream says");
}

/// Largest resident memory so far; 0 once the process is gone.
fn memory_peak_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0)
}
