//! What became of packets.

use super::backend::Backend;
use super::row::{Row, Verdict};
use millstream_host::Sandbox;
use millstream_model::Refusal;
use millstream_model::range::Family;
use serde_json::Value;

/// Where the kernel says how many connections it tracks. The file is not there before tracking was ever used.
const TRACKED: &str = "cat /proc/sys/net/netfilter/nf_conntrack_count 2>/dev/null || echo 0";

/// Packets so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    /// Those that the deciding rule has counted.
    decided: u64,
    /// Those that came to a socket, or found none.
    delivered: u64,
    /// Connections that are tracked now.
    tracked: u64,
}

impl Counts {
    pub(super) fn read(sandbox: &Sandbox, backend: Backend, row: &Row, family: Family) -> Result<Self, Refusal> {
        let decided = match row.verdict {
            Verdict::Accept if !row.counts => 0,
            // Its counter ends with the process that makes the packets, which tells us.
            _ if backend == Backend::Xdp => 0,
            _ if backend == Backend::Nft => {
                // Terse: without the elements of sets.
                let listed = sandbox.run(0, "nft", ["--terse", "--json", "list", "ruleset"])?.stdout;
                of_nft(&listed)
            }
            _ => {
                // Without its name, a normal user may not ask which tables there are.
                let saved = sandbox.run(0, backend.tool(family, "save"), ["-c", "-t", row.table()])?.stdout;
                of_iptables(&saved)
            }
        };
        let (file, of, names): (_, fn(&str, &str) -> u64, _) = match family {
            Family::V4 => ("/proc/net/snmp", of_snmp, ["InDatagrams", "NoPorts"]),
            Family::V6 => ("/proc/net/snmp6", of_snmp6, ["Udp6InDatagrams", "Udp6NoPorts"]),
        };
        let text = sandbox.run(0, "cat", [file])?.stdout;
        let delivered = names.into_iter().map(|name| of(&text, name)).sum();
        let tracked = sandbox.run(0, "sh", ["-c", TRACKED])?.stdout.trim().parse().unwrap_or(0);
        Ok(Self { decided, delivered, tracked })
    }

    /// What has come since earlier counts; connections are those of now.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self {
            decided: self.decided.saturating_sub(earlier.decided),
            delivered: self.delivered.saturating_sub(earlier.delivered),
            tracked: self.tracked,
        }
    }

    /// Adds packets that a program of XDP has counted.
    pub(super) fn and_watched(self, packets: u64) -> Self {
        Self { decided: self.decided + packets, ..self }
    }

    /// Refuses counts that are not what the row declares.
    pub(super) fn prove(&self, row: &Row, sent: u64) -> Result<(), Refusal> {
        let Self { decided, delivered, tracked } = *self;
        let (name, sources) = (&row.name, u64::from(row.sources));
        // A source sends one packet more if it is answered, and gets the answer, which belongs to a known connection.
        let (opening, answers) = if row.counts { (2 * sources, sources) } else { (0, 0) };
        let (is_met, fate) = match row.verdict {
            Verdict::Accept => (delivered == sent + opening && (!row.counts || decided == sent + answers), "delivered"),
            Verdict::Drop => (decided + delivered == sent && delivered <= row.passes_max, "dropped"),
        };
        if !is_met {
            let counted = format!("the deciding rule counted {decided}, and {delivered} were delivered");
            return Err(Refusal::new(format!("{name}: of {sent} packets, {counted}; all should be {fate}")));
        }
        match (row.tracks, tracked) {
            (true, 0) => Err(Refusal::new(format!("{}: no connection is tracked, but the row tracks", row.name))),
            (false, 1..) => Err(Refusal::new(format!("{}: {tracked} connections are tracked", row.name))),
            _ => Ok(()),
        }
    }
}

/// The last counter of a rule in what `nft --json` lists.
fn of_nft(json: &str) -> u64 {
    let listed: Value = serde_json::from_str(json).unwrap_or_default();
    let objects = listed["nftables"].as_array().into_iter().flatten();
    let expressions = objects.filter_map(|object| object["rule"]["expr"].as_array()).flatten();
    expressions.filter_map(|expression| expression["counter"]["packets"].as_u64()).next_back().unwrap_or(0)
}

/// The counter of the last rule in what `iptables-save -c` prints: `[PACKETS:BYTES] -A CHAIN ..`.
fn of_iptables(saved: &str) -> u64 {
    let rules = saved.lines().filter_map(|line| line.strip_prefix('['));
    let mut packets = rules.filter_map(|line| line.split_once(':')?.0.parse().ok());
    packets.next_back().unwrap_or(0)
}

/// A counter of UDP in `/proc/net/snmp`: a line of names, then one of numbers.
fn of_snmp(text: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (Some(names), Some(numbers)) = (lines.next(), lines.next()) else { return 0 };
    let found = names.split(' ').zip(numbers.split(' ')).find(|(one, _)| *one == name);
    found.and_then(|(_, number)| number.parse().ok()).unwrap_or(0)
}

/// A counter in `/proc/net/snmp6`: a line for each.
fn of_snmp6(text: &str, name: &str) -> u64 {
    let found = text.lines().filter_map(|line| line.split_once(char::is_whitespace)).find(|(one, _)| *one == name);
    found.and_then(|(_, number)| number.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packets::rows;

    #[test]
    fn counters_are_read_from_what_programs_print() {
        let json = r#"{"nftables": [{"metainfo": {}}, {"rule": {"expr": [{"drop": null}]}},
            {"rule": {"expr": [{"match": {}}, {"counter": {"packets": 7, "bytes": 900}}, {"drop": null}]}}]}"#;
        assert_eq!((of_nft(json), of_nft("")), (7, 0));
        let saved = "*raw\n:PREROUTING ACCEPT [9:9]\n[0:0] -A PREROUTING -s 1.2.3.4/32 -j DROP\n\
                     [1000:156000] -A PREROUTING -p udp -m udp --dport 9 -j DROP\nCOMMIT\n";
        assert_eq!(of_iptables(saved), 1_000);
        let snmp = "Udp: InDatagrams NoPorts InErrors\nUdp: 3 4 5\nUdpLite: InDatagrams NoPorts\nUdpLite: 0 0\n";
        assert_eq!((of_snmp(snmp, "InDatagrams"), of_snmp(snmp, "NoPorts")), (3, 4));
        assert_eq!(of_snmp6("Ip6InReceives   \t9\nUdp6NoPorts   \t12\n", "Udp6NoPorts"), 12);
    }

    #[test]
    fn a_row_that_does_not_do_what_it_declares_is_refused() {
        let rows = rows().unwrap();
        let row = |name: &str| rows.iter().find(|row| row.name == name).unwrap();
        let counts = |decided, delivered, tracked| Counts { decided, delivered, tracked };
        for (name, counts, is_proved) in [
            ("drop-raw", counts(1_000, 0, 0), true),
            ("drop-raw", counts(999, 0, 0), false),
            ("drop-raw", counts(999, 1, 0), false),
            ("drop-raw", counts(1_000, 0, 1), false),
            ("drop-xdp", counts(0, 0, 0).and_watched(1_000), true),
            ("drop-xdp", counts(0, 0, 0), false),
            ("limit-by-source", counts(900, 100, 0), true),
            ("limit-by-source", counts(0, 1_000, 0), false),
            ("accept", counts(0, 1_000, 0), true),
            ("accept", counts(0, 999, 0), false),
            ("accept-tracked", counts(0, 1_000, 1), true),
            ("accept-tracked", counts(0, 1_000, 0), false),
            ("accept-established", counts(1_001, 1_002, 1), true),
            ("accept-established", counts(0, 1_002, 1), false),
        ] {
            assert_eq!(counts.prove(row(name), 1_000).is_ok(), is_proved, "{name} {counts:?}");
        }
    }
}
