//! What the commands of `ip` make of a topology is what the kernel then has.

use millstream_host::{End, Sandbox};
use millstream_network::lint::lint;
use millstream_network::output::{Form, Words};
use millstream_network::topology::Topology;
use millstream_testkit::{Need, machine_has};

/// A network with cards, whose cables end in another one. The topology was made there by `ip`. `None`, after a skip, where none
/// can be made.
fn made(text: &str, cards: &[[&str; 2]]) -> Option<Sandbox> {
    let topology = Topology::parse(text).unwrap();
    assert!(lint(&topology).is_empty(), "{:?}", lint(&topology));
    let commands = Form::Ip.text(&topology, Words::OLD);
    assert!(commands.contains("ip sets no name servers; write \"nameserver 192.0.2.53\""), "{commands}");
    if !machine_has(&[Need::Networks]) {
        return None;
    }
    let mut sandbox = Sandbox::make(2).unwrap();
    for &[card, other] in cards {
        let end = |network, device| End { network: Some(network), device, addresses: &[] };
        sandbox.join([end(0, card), end(1, other)]).unwrap();
    }
    sandbox.run(0, "sh", ["-ec", &commands]).unwrap();
    Some(sandbox)
}

fn shown(sandbox: &Sandbox, args: &[&str]) -> String {
    sandbox.run(0, "ip", args).unwrap().stdout
}

/// A bridge with an address.
const BRIDGE: &str = include_str!("bridge.toml");

#[test]
fn what_ip_makes_is_what_the_topology_says() {
    let Some(sandbox) = made(BRIDGE, &[["card0", "card1"]]) else { return };
    let addresses = shown(&sandbox, &["-brief", "address", "show", "dev", "br0"]);
    assert!(addresses.contains("192.0.2.5/24") && addresses.contains("2001:db8::5/64"), "{addresses}");
    let card = shown(&sandbox, &["-details", "link", "show", "dev", "card0"]);
    assert!(card.contains("mtu 1400") && card.contains("master br0"), "{card}");
    assert!(shown(&sandbox, &["-details", "link", "show", "dev", "br0"]).contains("stp_state 0"));
    let routes = shown(&sandbox, &["route", "show"]);
    assert!(routes.contains("default via 192.0.2.1 dev br0"), "{routes}");
    assert!(routes.contains("198.51.100.0/24 via 192.0.2.9 dev br0 metric 50"), "{routes}");
}

/// Two ways out, a router behind a host route, and addresses that several links may have.
const UPLINKS: &str = "\
[cards.card0]
addresses = ['203.0.113.7/32', '2001:db8::7/128', 'fe80::1/64']
gateway = [{ via = '172.31.1.1', metric = 50 }, '2001:db8:1::1']
routes = [{ to = '10.0.0.0/8', via = '172.31.1.1' }, { to = '172.31.1.1/32' }, { to = '2001:db8:1::1/128' }]
dns = ['192.0.2.53']
[cards.card1]
addresses = ['203.0.113.7/32', '198.51.100.5/24', 'fe80::1/64']
gateway = { via = '198.51.100.1', metric = 60 }
routes = [{ to = '198.51.100.0/24', via = '198.51.100.9', metric = 70 }]
";

#[test]
fn the_kernel_takes_two_ways_out_and_routers_behind_host_routes() {
    let Some(sandbox) = made(UPLINKS, &[["card0", "other0"], ["card1", "other1"]]) else { return };
    let routes = shown(&sandbox, &["route", "show"]);
    for route in [
        "default via 172.31.1.1 dev card0 metric 50",
        "default via 198.51.100.1 dev card1 metric 60",
        "10.0.0.0/8 via 172.31.1.1 dev card0",
        "198.51.100.0/24 via 198.51.100.9 dev card1 metric 70",
    ] {
        assert!(routes.contains(route), "{route}: {routes}");
    }
    let routes = shown(&sandbox, &["-6", "route", "show"]);
    assert!(routes.contains("default via 2001:db8:1::1 dev card0"), "{routes}");
}
