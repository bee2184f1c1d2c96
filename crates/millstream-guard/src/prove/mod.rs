//! Proving rules before they are trusted: a client sends packets through a router to a host that has them, in networks of
//! their own, and each must pass or not as the policy means.

mod beside;
mod bytes;
mod difference;
mod exchange;
mod network;
mod probe;
mod probes;
mod talk;

pub use beside::{lost_beside, try_beside};
pub use difference::{Difference, Differences};
pub use probe::{Passed, Task, send};

use crate::policy::{Decision, Direction, Mode, Packet, Policy, meaning};
use crate::prober::Prober;
use crate::rules::{Rules, TABLE};
use millstream_host::Sandbox;
use millstream_model::Refusal;
use network::{HOST, PLAIN};

/// Rules of somebody else that track connections. Without them, a host tracks nothing whatever its policy says.
const TRACKING: &str = "\
table inet somebody {
    chain in { type filter hook input priority 10; ct state invalid counter; }
    chain out { type filter hook output priority 10; ct state invalid counter; }
}
";

/// How nft begins what it lists as JSON.
const BEGIN: &str = "{\"nftables\": [";

/// The language in which rules are given to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Text of nft.
    Nft,
    /// JSON of nft.
    NftJson,
    /// iptables, which makes nftables of its rules.
    IptablesNft,
    /// iptables with the kernel's older filter.
    IptablesLegacy,
}

/// What a proof found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Packets that were sent.
    pub packets: usize,
    /// How many there would be with every combination of the addresses, ports and flags that were tried.
    pub possible: u64,
    /// Conversations that were tried.
    pub talks: usize,
    /// What did not go as the policy means.
    pub wrong: Vec<Wrong>,
}

/// Something that did not go as the policy means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wrong {
    /// A packet passed, or did not.
    Packet {
        /// The packet.
        packet: Packet,
        /// What the policy means.
        meant: Decision,
    },
    /// This conversation failed.
    Talk(String),
    /// A limit let too many or too few through.
    Limit {
        /// The line.
        line: String,
        /// Packets that were sent.
        sent: usize,
        /// Those that passed.
        passed: usize,
    },
    /// So many connections were tracked, although the policy tracks none.
    Tracked(u64),
}

/// Rules that are proved.
#[derive(Debug, Clone, Copy)]
pub enum Subject<'a> {
    /// Those of the policy.
    Own(Form),
    /// Those that a shell script makes.
    Script(&'a str),
}

impl Form {
    /// Every form.
    pub const ALL: [Self; 4] = [Self::Nft, Self::NftJson, Self::IptablesNft, Self::IptablesLegacy];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nft => "nft",
            Self::NftJson => "nft-json",
            Self::IptablesNft => "iptables-nft",
            Self::IptablesLegacy => "iptables-legacy",
        }
    }

    /// Gives rules to a network.
    ///
    /// # Errors
    /// A program is missing, or refuses them.
    pub fn load(self, sandbox: &Sandbox, network: usize, rules: &Rules) -> Result<(), Refusal> {
        let give = |program: &str, args: &[&str], input: String| sandbox.feed(network, program, args, input);
        if matches!(self, Self::Nft | Self::NftJson) {
            rules.fit_nft()?;
        }
        match self {
            Self::Nft => give("nft", &["-f", "-"], rules.nft()).map(|_| ())?,
            Self::NftJson => give("nft", &["-j", "-f", "-"], json(rules)?).map(|_| ())?,
            Self::IptablesNft | Self::IptablesLegacy => {
                for (program, input) in rules.iptables_inputs() {
                    let kind = self.name().trim_start_matches("iptables");
                    match program {
                        "ipset" => give("ipset", &["-exist", "restore"], input)?,
                        // Others may hold the lock.
                        restore => give(&restore.replace("tables", &format!("tables{kind}")), &["-w"], input)?,
                    };
                }
            }
        }
        Ok(())
    }
}

/// Lets nft read rules, in a network of their own; or iptables, if nft has no words for them. Returns which.
///
/// # Errors
/// The program refuses them, or no network can be made.
pub fn accepted(rules: &Rules) -> Result<Form, Refusal> {
    let form = if rules.fit_nft().is_ok() { Form::Nft } else { Form::IptablesNft };
    form.load(&Sandbox::make(1)?, 0, rules)?;
    Ok(form)
}

/// Rules as JSON of nft, which replace the table: what nft prints of them once they are loaded, so that it is nft's own
/// translation.
///
/// # Errors
/// No network can be made in which they are loaded, or nft is missing.
pub fn json(rules: &Rules) -> Result<String, Refusal> {
    let sandbox = Sandbox::make(1)?;
    Form::Nft.load(&sandbox, 0, rules)?;
    let listed = sandbox.run(0, "nft", ["--json", "list", "table", "inet", TABLE])?.stdout;
    let table = format!("{{\"table\": {{\"family\": \"inet\", \"name\": \"{TABLE}\"}}}}");
    let replacing = format!("{BEGIN}{{\"add\": {table}}}, {{\"delete\": {table}}}, ");
    Ok(listed.replacen(BEGIN, &replacing, 1))
}

/// The packets that a proof of a policy sends to rules that may track.
pub(crate) fn samples(policy: &Policy) -> Vec<Packet> {
    probes::packets(policy, &network::cables(policy, PLAIN), false).packets
}

/// Proves rules by what a prober sends: it reads a [`Task`], does it by [`send`], and prints a [`Passed`].
///
/// # Errors
/// No network can be made, a program is missing, or the rules are refused.
pub fn prove(policy: &Policy, subject: Subject<'_>, prober: &Prober) -> Result<Report, Refusal> {
    let cables = network::cables(policy, PLAIN);
    let talks = probes::talks(policy, &cables[0]);
    let sandbox = network::make(&cables, &probes::talking(&talks))?;
    // What a limit lets through depends on the time.
    let mut unlimited = policy.clone();
    unlimited.services.iter_mut().for_each(|service| service.limit = None);
    match subject {
        Subject::Own(form) => form.load(&sandbox, HOST, &Rules::of(&unlimited))?,
        Subject::Script(script) => {
            sandbox.run(HOST, "sh", ["-ec", script])?;
        }
    }
    let networks = network::paths(&sandbox);
    let task = |packets, talks| Task {
        networks: networks.clone(),
        cables: cables.clone(),
        packets,
        talks,
        exchanges: Vec::new(),
    };
    let mut report = Report::default();
    // Once as they are, and once beside rules that track, which put fragments together before any filter.
    for is_tracked in [false, true] {
        if is_tracked {
            sandbox.feed(HOST, "nft", ["-f", "-"], TRACKING)?;
        }
        let probes = probes::packets(&unlimited, &cables, !is_tracked && policy.mode == Mode::Stateless);
        report.possible += probes.possible;
        let task = task(probes.packets, talks.clone());
        report.compare(&unlimited, &task, &task.passed(&sandbox, prober)?);
    }
    if let (Subject::Own(form), Some(limited)) = (subject, probes::limited(policy, &cables[0])) {
        form.load(&sandbox, HOST, &Rules::of(policy))?;
        let task = task(limited.packets.clone(), Vec::new());
        report.compare_limit(&limited, &task.passed(&sandbox, prober)?);
    }
    if policy.mode == Mode::Stateless {
        let count = sandbox.run(HOST, "cat", ["/proc/sys/net/netfilter/nf_conntrack_count"])?.stdout;
        let tracked = count.trim().parse().unwrap_or(u64::MAX);
        report.wrong.extend((tracked > 0).then_some(Wrong::Tracked(tracked)));
    }
    Ok(report)
}

impl Report {
    /// The packets that did not go as the policy means, by the lines that decide about them.
    pub fn differences(&self) -> Differences {
        let mut differences = Differences::default();
        for one in &self.wrong {
            if let Wrong::Packet { packet, meant } = one {
                differences.add(meant, packet);
            }
        }
        differences
    }

    fn compare(&mut self, policy: &Policy, task: &Task, passed: &Passed) {
        for (packet, passes) in task.packets.iter().zip(&passed.packets) {
            let meant = meaning(policy, packet);
            if meant.accepts != *passes {
                self.wrong.push(Wrong::Packet { packet: packet.clone(), meant });
            }
        }
        let talks = task.talks.iter().zip(&passed.talks);
        let failed = talks.filter(|(_, succeeds)| !**succeeds).map(|(talk, _)| Wrong::Talk(talk.to_string()));
        self.wrong.extend(failed);
        self.packets += passed.packets.len();
        self.talks += passed.talks.len();
    }

    /// A burst passes, and then no more than the rate allows in the time that it took.
    fn compare_limit(&mut self, limited: &probes::Limited, passed: &Passed) {
        let both = limited.packets.iter().zip(&passed.packets);
        let coming: Vec<bool> =
            both.filter(|(packet, _)| packet.direction == Direction::In).map(|(_, passes)| *passes).collect();
        let (sent, count) = (coming.len(), coming.iter().filter(|passes| **passes).count());
        let most = f64::from(limited.burst) + limited.per_second * passed.seconds + 1.0;
        if count as f64 > most || count < sent.min(limited.burst as usize) {
            self.wrong.push(Wrong::Limit { line: limited.line.clone(), sent, passed: count });
        }
        self.packets += sent;
    }
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Packet { packet, meant: Decision { accepts: true, line } } => {
                write!(f, "dropped, but {line} accepts it: {packet}")
            }
            Self::Packet { packet, meant: Decision { line, .. } } => write!(f, "passed, but {line} drops it: {packet}"),
            Self::Talk(about) => write!(f, "failed: {about}"),
            Self::Limit { line, sent, passed } => {
                write!(f, "{line} let {passed} of {sent} packets through that one source sent at once")
            }
            Self::Tracked(count) => write!(f, "{count} connections are tracked, but the policy tracks none"),
        }
    }
}
