//! A policy as its file holds it.

use super::known::{CLIENTS, Known, SERVICES, UNPRIVILEGED};
use super::resolver::Resolvers;
use super::{Addresses, Client, DeniedText, Limit, Mode, Policy, Ports, ReadStore, Service, Unit, list};
use crate::limits::{BURST, DENIED_TEXT_AT_MAX, DENIED_TEXT_BYTES_MAX, INTERFACE_BYTES_MAX, NAME_BYTES_MAX, RATE_MAX};
use millstream_model::Refusal;
use millstream_model::range::Range;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default = "stateless", deserialize_with = "millstream_model::variant")]
    mode: Mode,
    #[serde(default)]
    log: bool,
    #[serde(default = "yes")]
    ping: bool,
    #[serde(default)]
    send_all: bool,
    #[serde(default)]
    allow: Vec<String>,
    #[serde(default)]
    deny: Vec<String>,
    resolvers: Option<Vec<String>>,
    #[serde(default)]
    lists: BTreeMap<String, ListText>,
    #[serde(default)]
    services: BTreeMap<String, ServiceText>,
    #[serde(default)]
    clients: BTreeMap<String, ClientText>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a list is an array of addresses, the name of a file, or { store = \"PATH\" }")]
enum ListText {
    Here(Vec<String>),
    File(PathBuf),
    Store { store: PathBuf },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServiceText {
    #[serde(default)]
    tcp: Vec<PortText>,
    #[serde(default)]
    udp: Vec<PortText>,
    from: Option<Vec<String>>,
    interface: Option<String>,
    limit: Option<LimitText>,
    deny_text: Option<DeniedTextText>,
    #[serde(default)]
    hot: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientText {
    #[serde(default)]
    tcp: Vec<PortText>,
    #[serde(default)]
    udp: Vec<PortText>,
    to: Option<Vec<String>>,
    #[serde(default)]
    own_ports: Vec<PortText>,
    interface: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a port is a number, or a range such as \"9000-9100\"")]
enum PortText {
    One(i64),
    Range(String),
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a limit is a rate such as \"10/minute\", or a table with rate, burst, v4 and v6")]
enum LimitText {
    Rate(String),
    Table(LimitTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitTable {
    rate: String,
    burst: Option<u32>,
    v4: Option<u32>,
    v6: Option<u32>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "deny_text is a text, or a table with text and at")]
enum DeniedTextText {
    Anywhere(String),
    Table(DeniedTextTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeniedTextTable {
    text: String,
    at: i64,
}

/// Ranges by the name of their list.
type Lists = BTreeMap<String, Vec<Range>>;

fn stateless() -> Mode {
    Mode::Stateless
}

fn yes() -> bool {
    true
}

/// The policy of a text. Names of files are relative to `dir`.
pub(super) fn policy(text: &str, dir: &Path, store: ReadStore<'_>) -> Result<Policy, Refusal> {
    let file: File = toml::from_str(text).map_err(|error| Refusal::new(error.to_string().trim_end().to_owned()))?;
    if file.send_all && file.mode == Mode::Stateless {
        return Err(Refusal::new("send_all needs tracking: without it, no line knows the answers")
            .hint("write mode = \"stateful\" at the beginning of the file, or clients for what this host asks"));
    }
    let mut lists = BTreeMap::new();
    for (name, text) in file.lists {
        let place = format!("lists.{name}");
        named(&name).map_err(Refusal::at(&place))?;
        let ranges = match text {
            ListText::Here(texts) => texts.iter().map(|text| list::range(text)).collect(),
            ListText::File(path) => list::of_file(&dir.join(path)),
            ListText::Store { store: path } => store(&dir.join(path)),
        };
        lists.insert(name, ranges.and_then(list::merged).map_err(Refusal::at(&place))?);
    }
    let resolvers = match file.resolvers {
        Some(texts) => Resolvers::named(addresses(texts, &lists).map_err(Refusal::at("resolvers"))?),
        None => Resolvers::of_host(),
    };
    let mut services = Vec::new();
    for (name, text) in file.services {
        let service = service(&name, text, file.mode, &lists);
        services.push(service.map_err(Refusal::at(format!("services.{name}")))?);
    }
    let mut clients = Vec::new();
    for (name, text) in file.clients {
        let client = client(&name, text, &resolvers, &lists);
        clients.push(client.map_err(Refusal::at(format!("clients.{name}")))?);
    }
    let asks = clients.iter().any(|client| client.name == "dns" && client.to == resolvers.addresses);
    Ok(Policy {
        mode: file.mode,
        log: file.log,
        ping: file.ping,
        send_all: file.send_all,
        allow: addresses(file.allow, &lists).map_err(Refusal::at("allow"))?,
        deny: addresses(file.deny, &lists).map_err(Refusal::at("deny"))?,
        services,
        clients,
        resolvers_of: resolvers.file.filter(|_| asks),
        own_resolver: resolvers.own.filter(|_| asks),
        lists,
    })
}

fn service(name: &str, text: ServiceText, mode: Mode, lists: &Lists) -> Result<Service, Refusal> {
    named(name)?;
    if text.hot && mode != Mode::Hybrid {
        return Err(Refusal::new("hot is for mode hybrid, where other services are tracked")
            .hint("write mode = \"hybrid\" at the beginning of the file, or leave hot out"));
    }
    let ports = ports(name, text.tcp, text.udp, SERVICES)?;
    if text.deny_text.is_some() && ports.udp.is_empty() {
        return Err(Refusal::new("deny_text is for services of UDP, whose datagrams are whole")
            .hint("the bytes of a connection of TCP come in pieces: let the program itself look for a text there"));
    }
    Ok(Service {
        name: name.to_owned(),
        ports,
        from: one_of(text.from, lists).map_err(Refusal::at("from"))?,
        interface: text.interface.map(interface).transpose()?,
        limit: text.limit.map(limit).transpose().map_err(Refusal::at("limit"))?,
        deny_text: text.deny_text.map(denied_text).transpose().map_err(Refusal::at("deny_text"))?,
        hot: text.hot,
    })
}

fn client(name: &str, text: ClientText, resolvers: &Resolvers, lists: &Lists) -> Result<Client, Refusal> {
    named(name)?;
    let known = CLIENTS.iter().find(|known| known.name == name);
    let to = match text.to {
        None if known.is_some_and(|known| known.asks_resolvers) => resolvers.addresses.clone(),
        to => one_of(to, lists).map_err(Refusal::at("to"))?,
    };
    if to.is_empty() {
        return Err(resolvers.missing());
    }
    let own: Vec<(u16, u16)> =
        text.own_ports.into_iter().map(port).collect::<Result<_, _>>().map_err(Refusal::at("own_ports"))?;
    let usual = || known.map_or(UNPRIVILEGED, |known| known.own_ports).to_vec();
    Ok(Client {
        name: name.to_owned(),
        ports: ports(name, text.tcp, text.udp, CLIENTS)?,
        to,
        interface: text.interface.map(interface).transpose()?,
        own_ports: if own.is_empty() { usual() } else { own },
        asks_all: known.is_some_and(|known| known.asks_all),
    })
}

/// Addresses that may be left out: then they are all.
fn one_of(texts: Option<Vec<String>>, lists: &Lists) -> Result<Addresses, Refusal> {
    match texts {
        None => Ok(Addresses::all()),
        Some(texts) if texts.is_empty() => {
            Err(Refusal::new("there are no addresses").hint("leave it out for all addresses, or remove the table"))
        }
        Some(texts) => addresses(texts, lists),
    }
}

fn addresses(texts: Vec<String>, lists: &Lists) -> Result<Addresses, Refusal> {
    let mut found = Addresses::default();
    for text in texts {
        match text.strip_prefix('@') {
            Some(name) if lists.contains_key(name) => found.lists.push(name.to_owned()),
            Some(name) => {
                return Err(Refusal::new(format!("there is no list {name:?}"))
                    .hint("lists are in the table [lists], such as office = [\"192.0.2.0/24\"]"));
            }
            None => found.ranges.push(list::range(&text).map_err(|refusal| {
                let is_name = text.chars().any(|c| c.is_ascii_alphabetic()) && !text.contains(':');
                let hint = "a policy holds addresses, because names may change; a list is written as \"@NAME\"";
                if is_name { refusal.hint(hint) } else { refusal }
            })?),
        }
    }
    found.ranges = list::merged(found.ranges)?;
    found.lists.sort_unstable();
    found.lists.dedup();
    Ok(found)
}

fn ports(name: &str, tcp: Vec<PortText>, udp: Vec<PortText>, known: &[Known]) -> Result<Ports, Refusal> {
    if !tcp.is_empty() || !udp.is_empty() {
        let each = |ports: Vec<PortText>| ports.into_iter().map(port).collect::<Result<Vec<_>, _>>();
        return Ok(Ports { tcp: each(tcp).map_err(Refusal::at("tcp"))?, udp: each(udp).map_err(Refusal::at("udp"))? });
    }
    if let Some(known) = known.iter().find(|known| known.name == name) {
        return Ok(known.ports());
    }
    let names: Vec<&str> = known.iter().map(|known| known.name).collect();
    Err(Refusal::new("it has no ports")
        .hint(format!("give it some, such as tcp = [9100]; without ports are known: {}", names.join(", "))))
}

fn port(text: PortText) -> Result<(u16, u16), Refusal> {
    let number = |number: i64| u16::try_from(number).ok().filter(|port| *port > 0);
    let wrong = |what: &dyn std::fmt::Display| Refusal::new(format!("{what} is not a port: those are 1 to 65535"));
    match text {
        PortText::One(one) => number(one).map(|port| (port, port)).ok_or_else(|| wrong(&one)),
        PortText::Range(text) => {
            let (first, last) = text.split_once('-').unwrap_or((&text, &text));
            let end = |text: &str| text.trim().parse().ok().and_then(number);
            match (end(first), end(last)) {
                (Some(first), Some(last)) if first <= last => Ok((first, last)),
                (Some(_), Some(_)) => Err(Refusal::new(format!("{text:?}: the last port is before the first"))),
                _ => Err(wrong(&format!("{text:?}"))),
            }
        }
    }
}

fn limit(text: LimitText) -> Result<Limit, Refusal> {
    let table = match text {
        LimitText::Rate(rate) => LimitTable { rate, burst: None, v4: None, v6: None },
        LimitText::Table(table) => table,
    };
    let rate = &table.rate;
    let wrong =
        || Refusal::new(format!("{rate:?} is not a rate")).hint("a rate is such as \"10/second\", /minute or /hour");
    let (count, unit) = rate.split_once('/').ok_or_else(wrong)?;
    let units = [Unit::Second, Unit::Minute, Unit::Hour];
    let unit = units.into_iter().find(|one| one.name() == unit.trim()).ok_or_else(wrong)?;
    let count: u32 = count.trim().parse().ok().filter(|count| (1..=RATE_MAX).contains(count)).ok_or_else(wrong)?;
    let burst = table.burst.unwrap_or(BURST);
    if !(1..=RATE_MAX).contains(&burst) {
        return Err(Refusal::new(format!("burst is 1 to {RATE_MAX}, not {burst}")));
    }
    let length = |name, given: Option<u32>, bits| match given.unwrap_or(bits) {
        length if (1..=bits).contains(&length) => Ok(length),
        length => Err(Refusal::new(format!("{name} is the length of a prefix, 1 to {bits}, not {length}"))),
    };
    // A host gets a /64 of IPv6.
    let v6 = length("v6", table.v6, 128).map(|length| if table.v6.is_none() { 64 } else { length })?;
    Ok(Limit { count, unit, burst, v4: length("v4", table.v4, 32)?, v6 })
}

fn denied_text(text: DeniedTextText) -> Result<DeniedText, Refusal> {
    let (text, at) = match text {
        DeniedTextText::Anywhere(text) => (text, None),
        DeniedTextText::Table(DeniedTextTable { text, at }) => (text, Some(at)),
    };
    if !(1..=DENIED_TEXT_BYTES_MAX).contains(&text.len()) {
        return Err(Refusal::new(format!("a text has 1 to {DENIED_TEXT_BYTES_MAX} bytes, not {}", text.len())));
    }
    let number = |at: i64| {
        let at_number = u16::try_from(at).ok().filter(|at| *at <= DENIED_TEXT_AT_MAX);
        at_number
            .ok_or_else(|| Refusal::new(format!("at is the number of a byte, 0 to {DENIED_TEXT_AT_MAX}, not {at}")))
    };
    Ok(DeniedText { text, at: at.map(number).transpose()? })
}

/// A name of ours becomes part of names in the kernel.
fn named(name: &str) -> Result<(), Refusal> {
    let is_plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    let begins = name.bytes().next().is_some_and(|c| c.is_ascii_lowercase());
    if begins && name.len() <= NAME_BYTES_MAX && name.bytes().all(is_plain) {
        return Ok(());
    }
    Err(Refusal::new(format!("{name:?} is not a name"))
        .hint(format!("use at most {NAME_BYTES_MAX} lower-case letters, digits and hyphens, a letter first")))
}

fn interface(name: String) -> Result<String, Refusal> {
    let is_plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
    // A program would take a name with a hyphen before it for an option.
    let is_word = !name.starts_with('-') && name.bytes().all(is_plain);
    if (1..=INTERFACE_BYTES_MAX).contains(&name.len()) && is_word && name != "lo" {
        return Ok(name);
    }
    Err(Refusal::new(format!("{name:?} is not the name of an interface"))
        .hint("ip link lists them; the loopback interface needs no line"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Policy, Refusal> {
        policy(text, Path::new("/nowhere"), &|_| Ok(vec![list::range("192.0.2.0/24")?]))
    }

    #[test]
    fn a_policy_is_read() {
        let policy = read(
            "allow = ['@office']\nresolvers = ['192.0.2.53']\n[lists]\noffice = ['198.51.100.0/25', '198.51.100.128/25']\n\
             spam = { store = 'spam' }\n[services.ssh]\nlimit = '10/minute'\n[services.metrics]\ntcp = [9100, '9200-9299']\n\
             from = ['10.0.0.0/8', '@office']\ninterface = 'eth1'\n[clients.dns]\n",
        );
        let policy = policy.unwrap();
        assert_eq!(policy.mode, Mode::Stateless);
        assert_eq!(policy.lists["office"].len(), 1, "ranges that touch are one");
        assert_eq!(policy.services[0].ports.tcp, [(9_100, 9_100), (9_200, 9_299)]);
        assert_eq!(
            policy.services[1].limit.as_ref().map(|limit| (limit.count, limit.v4, limit.v6)),
            Some((10, 32, 64))
        );
        assert!(policy.has(&policy.clients[0].to, [192, 0, 2, 53].into()));
        assert!(!policy.has(&policy.clients[0].to, [192, 0, 2, 54].into()));
        assert!(policy.has(&policy.services[0].from, [198, 51, 100, 200].into()));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (text, problem) in [
            ("mod = 'stateful'", "unknown field `mod`"),
            ("mode = 'none'", "unknown variant `none`"),
            ("mode = 4", "invalid type: integer `4`, expected a string"),
            ("[services.ssh]\ntcp = [0]", "services.ssh: tcp: 0 is not a port: those are 1 to 65535"),
            ("[services.ssh]\nudp = [99999]", "services.ssh: udp: 99999 is not a port: those are 1 to 65535"),
            ("[services.ssh]\nudp = ['9-5']", "services.ssh: udp: \"9-5\": the last port is before the first"),
            ("[services.metrics]", "services.metrics: it has no ports"),
            ("[services.'x\"; flush ruleset']\ntcp = [1]", "is not a name"),
            ("[services.ssh]\nfrom = ['example.com']", "services.ssh: from: \"example.com\" is not an IP address"),
            ("[services.ssh]\nfrom = ['@office']", "services.ssh: from: there is no list \"office\""),
            ("[services.ssh]\nfrom = []", "services.ssh: from: there are no addresses"),
            ("[services.ssh]\ninterface = 'eth0; drop'", "is not the name of an interface"),
            ("[services.ssh]\ninterface = '-x'", "is not the name of an interface"),
            ("[services.ssh]\nhot = true", "hot is for mode hybrid"),
            ("send_all = true", "send_all needs tracking"),
            ("[services.ssh]\ndeny_text = 'x'", "services.ssh: deny_text is for services of UDP"),
            ("[services.dns]\ndeny_text = ''", "services.dns: deny_text: a text has 1 to 64 bytes, not 0"),
            ("[services.dns]\ndeny_text = { text = 'x', at = -1 }", "at is the number of a byte, 0 to 128, not -1"),
            ("[services.dns]\ndeny_text = 7", "deny_text is a text, or a table with text and at"),
            ("[services.ssh]\nlimit = 'often'", "services.ssh: limit: \"often\" is not a rate"),
            ("[services.ssh]\nlimit = { rate = '1/hour', v4 = 64 }", "v4 is the length of a prefix, 1 to 32, not 64"),
            ("[lists]\noffice = ['10.0.0.1/8']", "lists.office: 10.0.0.1 has bits beyond /8"),
            ("[lists]\noffice = 'missing'", "lists.office: cannot read /nowhere/missing"),
            ("[clients.ike]\nudp = [500]\nown_ports = [0]", "clients.ike: own_ports: 0 is not a port"),
            ("[lists]\noffice = 7", "a list is an array of addresses"),
            ("resolvers = []\n[clients.dns]", "clients.dns: /etc/resolv.conf names no resolver"),
            (
                "resolvers = ['127.0.0.53', '::1']\n[clients.dns]",
                "clients.dns: the resolver 127.0.0.53 is a program of this",
            ),
        ] {
            let refusal = read(text).unwrap_err();
            assert!(refusal.problem.contains(problem), "{text}: {refusal}");
        }
    }
}
