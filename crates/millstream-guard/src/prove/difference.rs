//! What rules decide otherwise than a policy means, by the lines of the policy.

use crate::limits::EXAMPLES_SHOWN;
use crate::policy::{Decision, Packet};
use std::fmt;

/// Packets about which rules decide otherwise than one line of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The name of the line.
    pub line: String,
    /// Whether the policy accepts them. The rules do not, or the other way round.
    pub accepts: bool,
    /// How many of the packets that were tried.
    pub packets: usize,
    /// The first few of them.
    pub examples: Vec<Packet>,
}

/// All of these, in the order in which they were found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Differences {
    lines: Vec<Difference>,
}

impl Differences {
    /// Adds a packet about which the rules decide otherwise.
    pub(crate) fn add(&mut self, meant: &Decision, packet: &Packet) {
        let is_same = |one: &&mut Difference| (&one.line, one.accepts) == (&meant.line, meant.accepts);
        match self.lines.iter_mut().find(is_same) {
            Some(one) => {
                one.packets += 1;
                if one.examples.len() < EXAMPLES_SHOWN {
                    one.examples.push(packet.clone());
                }
            }
            None => self.lines.push(Difference {
                line: meant.line.clone(),
                accepts: meant.accepts,
                packets: 1,
                examples: vec![packet.clone()],
            }),
        }
    }

    /// Each line with its packets.
    pub fn iter(&self) -> impl Iterator<Item = &Difference> {
        self.lines.iter()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, packets, .. } = self;
        let noun = if *packets == 1 { "packet" } else { "packets" };
        let (policy, rules) = if self.accepts { ("accepts", "drop") } else { ("drops", "accept") };
        write!(f, "{line} {policy} {packets} {noun} that the rules {rules}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Content, Direction};

    #[test]
    fn packets_are_counted_by_the_line_that_decides() {
        let mut differences = Differences::default();
        let packet = |to| Packet {
            direction: Direction::In,
            interface: "eth0".to_owned(),
            source: [192, 0, 2, 1].into(),
            destination: [192, 0, 2, 2].into(),
            content: Content::Udp { from: 50_000, to },
            text: Vec::new(),
            is_established: false,
        };
        let meant = |line: &str, accepts| Decision { accepts, line: line.to_owned() };
        for port in 1..=9 {
            differences.add(&meant("services.dns", true), &packet(port));
        }
        differences.add(&meant("everything-else", false), &packet(10));
        let shown: Vec<String> = differences.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "services.dns accepts 9 packets that the rules drop",
                "everything-else drops 1 packet that the rules accept"
            ]
        );
        assert_eq!(differences.iter().map(|one| one.examples.len()).collect::<Vec<_>>(), [EXAMPLES_SHOWN, 1]);
    }
}
