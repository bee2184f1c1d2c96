//! The rules of other programs on this host: whether they drop packets, and whether they ask what connection tracking says.
//!
//! Known are the words that do neither. Every other word counts as both, because a mistake would lock somebody out.

mod copied;
mod limited;

pub use copied::Copied;
pub use limited::Limited;

use crate::limits::RULES_BYTES_MAX;
use crate::nft::{asked, printed};
use crate::rules::TABLE;
use limited::{Limits, Way};
use millstream_host::in_path;
use millstream_model::Refusal;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;

/// The kernel's older filter of a family.
struct Legacy {
    /// Where the kernel names its tables.
    names: &'static str,
    /// What it is called here.
    program: &'static str,
    /// The programs that print its rules. The first that is there is asked.
    savers: [&'static str; 2],
}

const LEGACY: [Legacy; 2] = [
    Legacy {
        names: "/proc/net/ip_tables_names",
        program: "iptables-legacy",
        savers: ["iptables-legacy-save", "iptables-save"],
    },
    Legacy {
        names: "/proc/net/ip6_tables_names",
        program: "ip6tables-legacy",
        savers: ["ip6tables-legacy-save", "ip6tables-save"],
    },
];

/// Matches of iptables that do not ask what tracking says.
const MATCHES: &[&str] = &[
    "addrtype",
    "ah",
    "bpf",
    "cgroup",
    "comment",
    "cpu",
    "devgroup",
    "dscp",
    "dst",
    "ecn",
    "esp",
    "eui64",
    "frag",
    "hashlimit",
    "hbh",
    "hl",
    "icmp",
    "icmp6",
    "iprange",
    "ipv6header",
    "length",
    "limit",
    "mac",
    "mark",
    "multiport",
    "owner",
    "physdev",
    "pkttype",
    "policy",
    "quota",
    "realm",
    "recent",
    "rpfilter",
    "rt",
    "sctp",
    "set",
    "socket",
    "statistic",
    "string",
    "tcp",
    "tcpmss",
    "time",
    "tos",
    "ttl",
    "u32",
    "udp",
    "udplite",
];

/// Targets of iptables that let a packet go on as it is, or change nothing that decides about it.
const PASSING: &[&str] = &[
    "ACCEPT", "AUDIT", "CHECKSUM", "CLASSIFY", "CT", "DSCP", "ECN", "HL", "LOG", "NFLOG", "NOTRACK", "RETURN", "SET",
    "TCPMSS", "TOS", "TRACE", "TTL",
];

/// Targets that may stop a packet or send it another way, without asking what tracking says.
const STOPPING: &[&str] = &["DROP", "MARK", "NFQUEUE", "QUEUE", "REJECT", "TEE", "TPROXY"];

/// Those of the passing ones that may turn tracking off.
const UNTRACKING: [&str; 2] = ["CT", "NOTRACK"];

/// Fields of a packet that do not decide where it goes.
const HARMLESS_FIELDS: [&str; 4] = ["dscp", "ecn", "hoplimit", "ttl"];

/// What the rules of others do to packets that come to this host or leave it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Others {
    /// Tables that translate addresses.
    pub translating: BTreeSet<String>,
    /// Chains that the kernel asks, and from which a packet can come to a rule that drops it.
    pub dropping: BTreeSet<String>,
    /// Rules that such a packet can meet and that may drop it, or send it another way: of those with the same limits, one.
    pub drops: Vec<Limited>,
    /// A rule that such a packet can meet and that asks what connection tracking says.
    pub question: Option<String>,
    /// Rules that such a packet can meet and that may turn connection tracking off for it: of those with the same limits, one.
    pub untracking: Vec<Limited>,
}

/// A chain, by its table and its name.
type Place = (String, String);

#[derive(Debug, Default)]
struct Chain {
    /// The packets of this host about which the kernel asks it. `None`: only about those that it forwards, or not at all.
    way: Option<Way>,
    /// Chains of its table that its rules lead to, and which packets.
    next: BTreeSet<(String, Limits)>,
    /// The packets that they may lead to any chain of its table.
    anywhere: BTreeSet<Limits>,
    /// The first rule that asks what tracking says, and with each limits the first that drops and the first that turns tracking
    /// off.
    drops: BTreeMap<Limits, String>,
    question: Option<String>,
    untracking: BTreeMap<Limits, String>,
}

/// What a rule does.
#[derive(Debug, Default)]
struct Does {
    /// The packets that it drops or sends another way.
    drops: Option<Limits>,
    asks: bool,
    /// The packets that it does not let the kernel track.
    untracks: Option<Limits>,
    next: BTreeSet<(String, Limits)>,
    anywhere: Option<Limits>,
}

#[derive(Debug, Default)]
struct Reading {
    chains: BTreeMap<Place, Chain>,
    others: Others,
}

impl Others {
    /// The rules of others on this host.
    ///
    /// # Errors
    /// nft is missing, this account may not ask, or what nft prints cannot be read.
    pub async fn read() -> Result<Self, Refusal> {
        let mut reading = Reading::default();
        // Without the elements of sets, which may be millions.
        let listed = asked(&["--terse", "--json", "list", "ruleset"]).await?;
        reading.nft(&listed.ok_or_else(|| Refusal::new("nft does not list the rules of this host"))?)?;
        for legacy in LEGACY {
            match legacy.saved().await {
                Ok(Some((tables, saved))) => reading.legacy(legacy.program, &tables, &saved),
                Ok(None) => {}
                Err(refusal) => reading.unread(legacy.program, &refusal.problem),
            }
        }
        Ok(reading.end())
    }
}

impl Legacy {
    /// The names of its tables, and their rules as they are printed. `None`: it has no tables.
    async fn saved(&self) -> Result<Option<(String, String)>, Refusal> {
        let tables = match fs::read_to_string(self.names) {
            Ok(tables) => tables,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Refusal::new(error.to_string())),
        };
        if tables.trim().is_empty() {
            return Ok(None);
        }
        Ok(Some((tables, saved(self.savers, &[]).await?)))
    }
}

/// What the first of two programs prints that is there.
async fn saved([first, second]: [&str; 2], args: &[&str]) -> Result<String, Refusal> {
    let program = if in_path(first).is_some() { first } else { second };
    Ok(printed(program, args, String::new(), RULES_BYTES_MAX).await?.succeeded()?.stdout)
}

impl Reading {
    /// Reads what nft lists as JSON.
    fn nft(&mut self, json: &str) -> Result<(), Refusal> {
        let listed: Value = serde_json::from_str(json)
            .map_err(|error| Refusal::new(format!("the rules that nft lists cannot be read: {error}")))?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut of_nat = BTreeSet::new();
        for object in listed["nftables"].as_array().into_iter().flatten() {
            // Packets of ARP are not tracked, and no policy is about them.
            let is_other = |item: &Value| {
                item.is_object() && item["family"] != "arp" && !(item["table"] == TABLE && item["family"] == "inet")
            };
            let table = |item: &Value| format!("{} {}", text(&item["family"]), text(&item["table"]));
            let (chain, rule) = (&object["chain"], &object["rule"]);
            if is_other(chain) {
                let (table, name) = (table(chain), text(&chain["name"]));
                // nft does not print what the rules of iptables do in such chains, so the chain decides.
                if chain["type"] == "nat" {
                    of_nat.insert(table.clone());
                }
                let way = match chain["hook"].as_str() {
                    None | Some("forward") => None,
                    Some("output" | "postrouting" | "egress") => Some(Way::Out),
                    Some(_) => Some(Way::In),
                };
                self.begin((table, name), way, chain["policy"] == "drop");
            }
            if is_other(rule) {
                let (table, name) = (table(rule), text(&rule["chain"]));
                let mut does = Does { asks: asks(&rule["expr"]), ..Does::default() };
                let mut limits = Limits::default();
                for statement in rule["expr"].as_array().into_iter().flatten() {
                    limits.add_statement(statement);
                    does.statement(statement, &limits, rule["table"] == "raw");
                }
                let what = format!("the rule with handle {} in the chain {table} {name}", rule["handle"]);
                if of_nat.contains(&table) {
                    self.others.translating.insert(table.clone());
                }
                self.add((table, name), does, what);
            }
        }
        Ok(())
    }

    /// Reads what iptables-save prints. `tables`: those that must be there.
    fn legacy(&mut self, program: &str, tables: &str, saved: &str) {
        let mut table = String::new();
        let mut seen = BTreeSet::new();
        for line in saved.lines() {
            if let Some(name) = line.strip_prefix('*') {
                seen.insert(name);
                table = format!("{program} {name}");
            } else if let Some(chain) = line.strip_prefix(':') {
                let mut words = chain.split_whitespace();
                let (name, policy) = (words.next().unwrap_or_default(), words.next().unwrap_or("-"));
                // Only the chains that the kernel asks have a policy.
                let way = match name {
                    _ if policy == "-" => None,
                    "FORWARD" => None,
                    "OUTPUT" | "POSTROUTING" => Some(Way::Out),
                    _ => Some(Way::In),
                };
                self.begin((table.clone(), name.to_owned()), way, !matches!(policy, "-" | "ACCEPT"));
            } else if let Some(rule) = line.strip_prefix("-A ") {
                let words = words(rule);
                let name = words.first().cloned().unwrap_or_default();
                let mut does = Does::default();
                for pair in words.windows(2) {
                    match (pair[0].as_str(), &pair[1]) {
                        ("-j" | "-g", target) if self.chains.contains_key(&(table.clone(), target.clone())) => {
                            does.next.insert((target.clone(), Limits::of_words(&words)));
                        }
                        ("-j" | "-g", target) => does.target(target, &words),
                        ("-m", name) => does.asks |= !MATCHES.contains(&name.as_str()),
                        _ => {}
                    }
                }
                if table.ends_with(" nat") {
                    self.others.translating.insert(program.to_owned());
                }
                self.add((table.clone(), name), does, format!("the rule {line} of {table}"));
            }
        }
        if let Some(missing) = tables.lines().find(|name| !seen.contains(name)) {
            self.unread(program, &format!("its table {missing} was not printed"));
        }
    }

    /// Nothing is known about the rules of a program, so that they may do everything.
    fn unread(&mut self, program: &str, why: &dyn std::fmt::Display) {
        let what = format!("a rule of {program}, whose rules cannot be read ({why}),");
        self.begin((program.to_owned(), "(unknown)".to_owned()), Some(Way::In), false);
        self.add(
            (program.to_owned(), "(unknown)".to_owned()),
            Does { drops: Some(Limits::default()), asks: true, ..Does::default() },
            what,
        );
    }

    fn begin(&mut self, place: Place, way: Option<Way>, drops: bool) {
        let what = format!("the policy of the chain {} {}", place.0, place.1);
        let chain = self.chains.entry(place).or_default();
        chain.way = way;
        if drops {
            chain.drops.entry(Limits::default()).or_insert(what);
        }
    }

    fn add(&mut self, place: Place, does: Does, what: String) {
        let chain = self.chains.entry(place).or_default();
        chain.next.extend(does.next);
        chain.anywhere.extend(does.anywhere);
        if let Some(limits) = does.drops {
            chain.drops.entry(limits).or_insert_with(|| what.clone());
        }
        if let Some(limits) = does.untracks {
            chain.untracking.entry(limits).or_insert_with(|| what.clone());
        }
        if does.asks {
            chain.question.get_or_insert(what);
        }
    }

    /// What packets of this host can meet. A chain that only forwarded packets reach does not count.
    fn end(self) -> Others {
        let Self { chains, mut others } = self;
        let (mut drops, mut untracking) = (BTreeMap::new(), BTreeMap::new());
        for ((table, name), way) in chains.iter().filter_map(|(place, chain)| Some((place, chain.way?))) {
            let mut seen = BTreeSet::new();
            let mut waiting = vec![(name, Limits::default())];
            while let Some((name, limits)) = waiting.pop() {
                if !seen.insert((name, limits.clone())) {
                    continue;
                }
                let Some(chain) = chains.get(&(table.clone(), name.clone())) else { continue };
                waiting.extend(chain.next.iter().map(|(name, more)| (name, limits.and(more))));
                for limits in chain.anywhere.iter().map(|more| limits.and(more)) {
                    let own = chains.keys().filter(|(one, _)| one == table);
                    waiting.extend(own.map(|(_, name)| (name, limits.clone())));
                }
                if let Some(question) = &chain.question {
                    others.question.get_or_insert_with(|| question.clone());
                }
                for (more, rule) in &chain.drops {
                    drops.entry((limits.and(more), way)).or_insert(rule);
                }
                for (more, rule) in &chain.untracking {
                    untracking.entry((limits.and(more), way)).or_insert(rule);
                }
            }
            let drops_in = |(name, _): &(&String, Limits)| {
                chains.get(&(table.clone(), (*name).clone())).is_some_and(|one| !one.drops.is_empty())
            };
            if seen.iter().any(drops_in) {
                others.dropping.insert(format!("{table} {name}"));
            }
        }
        let one = |((limits, way), rule): ((Limits, Way), &String)| Limited { rule: rule.clone(), limits, way };
        others.drops = drops.into_iter().map(one).collect();
        others.untracking = untracking.into_iter().map(one).collect();
        others
    }
}

/// Whether an expression of nft asks what tracking says, or may do so.
fn asks(expression: &Value) -> bool {
    match expression {
        Value::Array(all) => all.iter().any(asks),
        Value::Object(words) => words.iter().any(|(word, of)| match word.as_str() {
            "ct" | "synproxy" | "flow" => true,
            word if word.starts_with("ct ") => true,
            // What tracking is given is not asked.
            "mangle" if of["key"]["ct"].is_object() => asks(&of["value"]),
            "xt" => match (of["type"].as_str(), of["name"].as_str()) {
                (Some("match"), Some(name)) => !MATCHES.contains(&name),
                (Some("target"), Some(name)) => !PASSING.contains(&name) && !STOPPING.contains(&name),
                _ => true,
            },
            _ => asks(of),
        }),
        _ => false,
    }
}

impl Does {
    /// Adds what a statement of nft does, but for its questions. `limits`: those of the statements up to here. `is_raw`: it is in
    /// the table raw, the only one in which iptables turns tracking off.
    fn statement(&mut self, statement: &Value, limits: &Limits, is_raw: bool) {
        for (word, of) in statement.as_object().into_iter().flatten() {
            match word.as_str() {
                "match" | "counter" | "last" | "limit" | "log" | "map" | "meter" | "quota" | "set" => {}
                "notrack" => self.untracks(limits),
                word if word.starts_with("ct ") => {}
                "mangle" if redirects(&of["key"]) => self.drops(limits),
                "mangle" => {}
                "vmap" => match of["data"]["set"].as_array() {
                    Some(elements) => elements.iter().for_each(|element| self.verdict(&element[1], limits)),
                    // A map with a name may get elements at any time.
                    None => {
                        self.drops(limits);
                        self.anywhere.get_or_insert_with(|| limits.clone());
                    }
                },
                "xt" if of["type"] == "match" => {}
                "xt" => {
                    if of["name"].as_str().is_none_or(|name| !PASSING.contains(&name)) {
                        self.drops(limits);
                    }
                    // nft does not print the options of CT. Older versions do not even print its name.
                    if of["name"].as_str().map_or(is_raw, |name| UNTRACKING.contains(&name)) {
                        self.untracks(limits);
                    }
                }
                _ => self.verdict(statement, limits),
            }
        }
    }

    fn verdict(&mut self, verdict: &Value, limits: &Limits) {
        for (word, of) in verdict.as_object().into_iter().flatten() {
            match (word.as_str(), of["target"].as_str()) {
                ("accept" | "return" | "continue", _) => {}
                ("jump" | "goto", Some(target)) => {
                    self.next.insert((target.to_owned(), limits.clone()));
                }
                _ => self.drops(limits),
            }
        }
    }

    fn drops(&mut self, limits: &Limits) {
        self.drops.get_or_insert_with(|| limits.clone());
    }

    fn untracks(&mut self, limits: &Limits) {
        self.untracks.get_or_insert_with(|| limits.clone());
    }

    /// Adds what a target of iptables does in a rule of these words.
    fn target(&mut self, name: &str, words: &[String]) {
        if UNTRACKING.contains(&name) && (name != "CT" || words.iter().any(|word| word == "--notrack")) {
            self.untracks(&Limits::of_words(words));
        }
        if !PASSING.contains(&name) {
            self.drops(&Limits::of_words(words));
        }
        self.asks |= !PASSING.contains(&name) && !STOPPING.contains(&name);
    }
}

/// Whether setting this may send a packet another way: marks decide about routes, and so do addresses and ports.
fn redirects(key: &Value) -> bool {
    let is_harmless_field = key["payload"]["field"].as_str().is_some_and(|field| HARMLESS_FIELDS.contains(&field));
    let is_other_meta = key["meta"].is_object() && key["meta"]["key"] != "mark";
    !(is_harmless_field || is_other_meta || key["ct"].is_object() || key["tcp option"].is_object())
}

/// The words of a rule as iptables-save prints them. Quoted ones may hold spaces.
fn words(rule: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut rest = rule.chars();
    while let Some(c) = rest.next() {
        match c {
            '"' => is_quoted = !is_quoted,
            '\\' => word.extend(rest.next()),
            ' ' if !is_quoted => words.push(std::mem::take(&mut word)),
            c => word.push(c),
        }
    }
    words.push(word);
    words
}

#[cfg(test)]
mod tests;
