//! Source `network`: bytes through the network and through the loopback interface, from `/proc/net/dev`.

use super::reading::{Delta, Sample, Values, add};
use super::{Read, Source};
use millstream_host::kernel::file;
use std::path::Path;

pub(super) const SOURCE: Source = Source {
    name: "network",
    read: Read::Kernel(|_| {
        let text = file::text("/proc/net/dev").unwrap_or_default();
        let speed = |name: &str| {
            let file = Path::new("/sys/class/net").join(name).join("speed");
            // Virtual interfaces have none, or -1.
            file::word(file)?.parse().ok().filter(|megabits: &f64| *megabits > 0.0)
        };
        Sample::counters(counters(&text, speed))
    }),
    values,
};

/// Bytes of the loopback interface, of all others, and for the fullest link the seconds that its bytes take at its
/// speed. `speed` gives megabits a second.
fn counters(text: &str, speed: impl Fn(&str) -> Option<f64>) -> Values {
    let mut values = Values::new();
    let mut sum = |name: &str, bytes: f64| *values.entry(name.to_owned()).or_default() += bytes;
    for (index, line) in text.lines().enumerate() {
        let Some((name, numbers)) = line.split_once(':') else { continue };
        let numbers: Vec<f64> = numbers.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let (Some(received), Some(sent)) = (numbers.first(), numbers.get(8)) else { continue };
        let name = name.trim();
        if name == "lo" {
            sum("loopback", *received);
            continue;
        }
        sum("received", *received);
        sum("sent", *sent);
        if let Some(megabits) = speed(name) {
            // A link has its full speed in each direction.
            sum(&format!("link{index}_in"), received * 8.0 / (megabits * 1e6));
            sum(&format!("link{index}_out"), sent * 8.0 / (megabits * 1e6));
        }
    }
    values
}

fn values(delta: &Delta<'_>, values: &mut Values) {
    let megabytes = |name: &str| Some(delta.rate(name)? / 1e6);
    let links = delta.after.keys().filter(|name| name.starts_with("link")).filter_map(|name| delta.rate(name));
    let fullest = links.reduce(f64::max).map(|share| (share * 100.0).min(100.0));
    let found = [
        ("network.received_mb_per_second", megabytes("received")),
        ("network.sent_mb_per_second", megabytes("sent")),
        ("network.loopback_mb_per_second", megabytes("loopback")),
        ("network.utilisation_percent", fullest),
    ];
    add(values, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(lo: u64, received: u64, sent: u64) -> String {
        format!(
            "Inter-| Receive\n face |bytes packets\n    lo: {lo} 1 0 0 0 0 0 0 {lo} 1 0 0 0 0 0 0\n  eth0:{received} 5 0 0 0 0 0 0 \
             {sent} 9 0 0 0 0 0 0\n  tun1: 0 5 0 0 0 0 0 0 0 9 0 0 0 0 0 0\n"
        )
    }

    #[test]
    fn the_network_is_apart_from_loopback_and_the_fullest_link_counts() {
        let speed = |name: &str| (name == "eth0").then_some(100.0);
        let (before, after) =
            (counters(&text(0, 0, 0), speed), counters(&text(4_000_000, 2_000_000, 10_000_000), speed));
        let mut found = Values::new();
        values(&Delta { before: &before, after: &after, seconds: 2.0 }, &mut found);
        let expected = [
            ("network.loopback_mb_per_second", 2.0),
            ("network.received_mb_per_second", 1.0),
            ("network.sent_mb_per_second", 5.0),
            ("network.utilisation_percent", 40.0),
        ];
        assert_eq!(found, super::super::reading::values(&expected));
    }
}
