//! Topologies of random links: each is an error of the check, or every word of it is in each output, and NetworkManager takes it.

use super::written_by_both;
use fastrand::Rng;
use millstream_network::lint::{Finding, Level, lint};
use millstream_network::output::{Form, Words};
use millstream_network::topology::Topology;
use millstream_testkit::{cases, networkmanager};
use std::collections::BTreeSet;
use std::fmt::Display;

/// Names of links. They are dealt out anew each time, so that their order is not that in which links lie on each other.
const NAMES: [&str; 6] = ["a", "b.5", "inner", "outer", "z0", "k-2"];

/// A topology, and the words that it says.
#[derive(Default)]
struct Made {
    text: String,
    words: Vec<String>,
}

impl Made {
    fn table(&mut self, kind: &str, name: &str) {
        self.text += &format!("[{kind}.'{name}']\n");
        self.words.push(name.to_owned());
    }

    /// Words that stand in the text in another way.
    fn line(&mut self, line: &str, words: &[&str]) {
        self.text += &format!("{line}\n");
        self.words.extend(words.iter().map(|word| (*word).to_owned()));
    }

    fn number(&mut self, key: &str, value: impl Display) {
        let value = value.to_string();
        self.line(&format!("{key} = {value}"), &[&value]);
    }

    fn string(&mut self, key: &str, value: &str) {
        self.line(&format!("{key} = '{value}'"), &[value]);
    }

    fn strings(&mut self, key: &str, values: &[&str]) {
        let quoted: Vec<String> = values.iter().map(|value| format!("'{value}'")).collect();
        self.line(&format!("{key} = [{}]", quoted.join(", ")), values);
    }
}

/// One of some.
fn any<'a>(rng: &mut Rng, all: &[&'a str]) -> &'a str {
    all[rng.usize(..all.len())]
}

/// Some, each at most once.
fn some<'a>(rng: &mut Rng, all: &[&'a str]) -> Vec<&'a str> {
    all.iter().copied().filter(|_| rng.u8(..3) == 0).collect()
}

/// Whether a thing happens that does so once in a few times.
fn seldom(rng: &mut Rng, times: u8) -> bool {
    rng.u8(..times) == 0
}

fn made(rng: &mut Rng) -> Made {
    let mut made = Made::default();
    let mut names = NAMES;
    rng.shuffle(&mut names);
    let [bond, bridge, first, second, ..] = names;
    let (has_bond, has_second, has_bridge) = (rng.bool(), rng.bool(), rng.bool());
    let parent = any(rng, &[if has_bond { bond } else { "eth0" }, "eth2"]);
    let port = any(rng, &[if has_second { second } else { first }, "eth2"]);
    let mut ports = Vec::new();
    if has_bond {
        ports.extend(["eth0", "eth1"]);
    }
    if has_bridge {
        ports.push(port);
    }
    let mut links = vec![("cards", "eth0"), ("cards", "eth1"), ("cards", "eth2"), ("vlans", first)];
    links.extend(has_bond.then_some(("bonds", bond)));
    links.extend(has_second.then_some(("vlans", second)));
    links.extend(has_bridge.then_some(("bridges", bridge)));
    for (n, (kind, name)) in links.into_iter().enumerate() {
        made.table(kind, name);
        match kind {
            "bonds" => {
                of_bond(&mut made, rng);
                starts_ports(&mut made, rng);
            }
            "vlans" => {
                made.string("parent", if name == first { parent } else { first });
                made.number("id", 100 + n);
            }
            "bridges" => {
                of_bridge(&mut made, rng, port);
                starts_ports(&mut made, rng);
            }
            _ => {}
        }
        if seldom(rng, 6) {
            made.number("mtu", any(rng, &["1400", "1500", "9000"]));
        }
        if seldom(rng, 4) {
            made.string("zone", any(rng, &["public", "trusted"]));
        }
        if !ports.contains(&name) || seldom(rng, 20) {
            of_addresses(&mut made, rng, n + 1);
        }
    }
    made
}

fn starts_ports(made: &mut Made, rng: &mut Rng) {
    if seldom(rng, 3) {
        made.line("autoconnect_ports = true", &["autoconnect_ports"]);
    }
}

fn of_bond(made: &mut Made, rng: &mut Rng) {
    made.strings("ports", &["eth0", "eth1"]);
    let modes = ["balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb"];
    let mode = any(rng, &modes);
    made.string("mode", mode);
    if rng.bool() {
        made.number("miimon", 101);
        if rng.bool() {
            made.number("up_delay", 202);
            made.number("down_delay", 303);
        }
    } else {
        made.number("arp_interval", 1_001);
        made.strings("arp_targets", &["192.0.2.71", "192.0.2.72"]);
    }
    if mode == "active-backup" && rng.bool() {
        made.string("primary", "eth1");
    }
    if mode == "802.3ad" && rng.bool() {
        made.string("lacp_rate", any(rng, &["slow", "fast"]));
    }
    if ["balance-xor", "802.3ad", "balance-tlb"].contains(&mode) && rng.bool() {
        let hashes = ["layer2", "layer2+3", "layer3+4", "encap2+3", "encap3+4", "vlan+srcmac"];
        made.string("transmit_hash", any(rng, &hashes));
    }
    if seldom(rng, 3) {
        made.number("min_links", 2);
    }
}

fn of_bridge(made: &mut Made, rng: &mut Rng, port: &str) {
    made.strings("ports", &[port]);
    // What is as usual stands in no file of NetworkManager.
    if rng.bool() {
        made.line("stp = false", &[]);
        made.number("forward_delay", any(rng, &["0", "1", "2", "4"]));
    } else {
        made.number("forward_delay", any(rng, &["2", "14", "30"]));
        made.number("hello_time", any(rng, &["1", "10"]));
        made.number("max_age", any(rng, &["6", "40"]));
    }
    if rng.bool() {
        made.number("priority", any(rng, &["0", "4096", "65535"]));
    }
}

/// Addresses of the networks of a number, and what belongs to them.
fn of_addresses(made: &mut Made, rng: &mut Rng, n: usize) {
    let (v4, v6) = (rng.bool(), rng.bool());
    let (mut addresses, mut gateways, mut routes) = (Vec::new(), Vec::new(), Vec::new());
    if v4 && seldom(rng, 3) {
        addresses.push(format!("203.0.113.{n}/32"));
        gateways.push(format!("172.31.{n}.1"));
        routes.push((format!("172.31.{n}.1/32"), None));
    } else if v4 {
        addresses.push(format!("10.{n}.0.5/24"));
        gateways.push(format!("10.{n}.0.1"));
        routes.push((format!("10.{n}.64.0/18"), Some(format!("10.{n}.0.9"))));
    }
    if v6 {
        addresses.push(format!("2001:db8:{n}::5/64"));
        addresses.push("fe80::1/64".to_owned());
        gateways.push("fe80::2".to_owned());
        routes.push((format!("2001:db8:{n}:8::/64"), Some(format!("2001:db8:{n}::9"))));
    }
    // Of a family that the link may not have.
    if seldom(rng, 8) {
        routes.push((format!("10.{n}.128.0/24"), None));
    }
    for key in ["ipv4", "ipv6"] {
        if seldom(rng, 8) {
            let way = any(rng, &["auto", "disabled", "ignore"]);
            let said: &[&str] = if way == "auto" { &["auto"] } else { &[] };
            made.line(&format!("{key} = '{way}'"), said);
        }
    }
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    made.strings("addresses", &addresses);
    gateways.retain(|_| seldom(rng, 3));
    let mut texts = Vec::new();
    for via in &gateways {
        let metric = (700 + n).to_string();
        made.words.push(via.clone());
        if seldom(rng, 4) {
            texts.push(format!("'{via}'"));
        } else {
            texts.push(format!("{{ via = '{via}', metric = {metric} }}"));
            made.words.push(metric);
        }
    }
    made.line(&format!("gateway = [{}]", texts.join(", ")), &[]);
    let mut texts = Vec::new();
    for (to, via) in &routes {
        let mut text = format!("to = '{to}'");
        made.words.push(to.clone());
        if let Some(via) = via {
            text += &format!(", via = '{via}'");
            made.words.push(via.clone());
        }
        if rng.bool() {
            let metric = (800 + 10 * n + texts.len()).to_string();
            text += &format!(", metric = {metric}");
            made.words.push(metric);
        }
        texts.push(format!("{{ {text} }}"));
    }
    made.line(&format!("routes = [{}]", texts.join(", ")), &[]);
    let mut servers = Vec::new();
    if v4 || seldom(rng, 8) {
        servers.extend(some(rng, &["192.0.2.53", "192.0.2.54"]));
    }
    if v6 || seldom(rng, 8) {
        servers.extend(some(rng, &["2001:db8:53::1", "fe80::53"]));
    }
    made.strings("dns", &servers);
    if v4 || v6 || seldom(rng, 8) {
        let domains = some(rng, &["example.org", "example.net", "lan"]);
        made.strings("search", &domains);
    }
}

/// The topology, unless the check finds an error in it.
fn passed(text: &str) -> Option<Topology> {
    let topology = Topology::parse(text).ok()?;
    let is_error = |one: &Finding| one.level == Level::Error;
    (!lint(&topology).iter().any(is_error)).then_some(topology)
}

/// The words of an output.
fn words(text: &str) -> BTreeSet<&str> {
    text.split(|one: char| !(one.is_ascii_alphanumeric() || ".:/_+-".contains(one)))
        .map(|word| word.trim_end_matches(':'))
        .collect()
}

/// Whether an output has a word in one of the ways in which programs write it.
fn has(output: &BTreeSet<&str>, word: &str) -> bool {
    // nmstate writes an address and its prefix, and `ip` hundredths of a second.
    let halves = word.split_once('/').is_some_and(|(one, other)| output.contains(one) && output.contains(other));
    let is_automatic = word == "auto" && ["dhcp", "DHCP"].iter().any(|one| output.contains(one));
    let has_key = ["autoconnect-ports", "connection.autoconnect-ports"].iter().any(|one| output.contains(one));
    let starts_ports = word == "autoconnect_ports" && has_key;
    output.contains(word) || halves || is_automatic || starts_ports || output.contains(format!("{word}00").as_str())
}

#[test]
fn what_check_passes_is_in_each_output_word_by_word() {
    let (mut whole, count) = (0, cases(400).max(400));
    for seed in 0..count as u64 {
        let Made { text, words: said } = made(&mut Rng::with_seed(seed));
        let Some(topology) = passed(&text) else { continue };
        whole += 1;
        for form in Form::ALL {
            let output = form.text(&topology, Words::NEW);
            let has_words = words(&output);
            let lost: Vec<&String> = said.iter().filter(|word| !has(&has_words, word)).collect();
            assert!(lost.is_empty(), "{} loses {lost:?} of\n{text}\n{output}", form.name());
        }
    }
    assert!(whole * 10 > count && whole < count, "{whole} of {count} have no error");
}

#[test]
fn what_check_passes_is_taken_by_networkmanager() {
    let Some(unpacked) = networkmanager() else { return };
    let all = (0..400).map(|seed| made(&mut Rng::with_seed(seed)).text);
    let whole: Vec<String> = all.filter(|text| passed(text).is_some()).take(cases(15)).collect();
    assert!(!whole.is_empty());
    whole.iter().for_each(|text| written_by_both(&unpacked, text));
}
