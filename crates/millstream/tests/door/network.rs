//! `network`: how its commands end, what they print, and the files that they write.

use crate::process::{command, millstream, run};
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// A bridge with an address.
const BRIDGE: &str = include_str!("../../../millstream-network/tests/bridge.toml");

fn file(text: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("host.toml");
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (dir, path)
}

#[test]
fn mistakes_are_printed_with_their_reason_and_errors_refuse_a_plan() {
    let (_dir, good) = file(BRIDGE);
    let checked = millstream(&["network", "check", &good]).ends(0);
    assert_eq!(checked.stdout, "2 links: 0 errors, 0 warnings, 0 notes\n");
    let (_dir, wrong) = file(&BRIDGE.replace("'192.0.2.1'", "'192.0.3.1'"));
    let checked = millstream(&["network", "check", &wrong]).ends(1);
    assert!(checked.stdout.contains("the gateway 192.0.3.1 is in none of its networks"), "{checked:?}");
    let json = millstream(&["network", "check", &wrong, "--output", "json"]).ends(1).json();
    assert_eq!((json[0]["lint"].as_str(), json[0]["place"].as_str()), (Some("gateway-outside"), Some("bridges.br0")));
    let refused = millstream(&["network", "plan", &wrong]).ends(2);
    assert!(refused.stdout.is_empty() && refused.stderr.contains("nothing is planned: 1 error"), "{refused:?}");
    let planned = millstream(&["network", "plan", &good, "--as", "ip"]).ends(0);
    assert!(planned.stdout.contains("ip link set card0 master br0"), "{planned:?}");
    let missing = millstream(&["network", "plan", "/nowhere/host.toml"]).ends(2);
    assert!(missing.stderr.contains("cannot read /nowhere/host.toml"), "{missing:?}");
    let (_dir, broken) = file("[vlans.v]\nparent = 'eth0'\nid = 4095\n");
    let refused = millstream(&["network", "check", &broken]).ends(2);
    assert!(refused.stderr.contains("vlans.v: id: 4095 is not the number of a VLAN"), "{refused:?}");
}

#[test]
fn keyfiles_are_written_for_their_owner_alone() {
    let (dir, topology) = file(BRIDGE);
    let to = dir.path().join("keyfiles");
    let to_text = to.to_str().unwrap();
    let written = millstream(&["network", "plan", &topology, "--as", "keyfile", "--to", to_text]).ends(0);
    assert_eq!(written.stdout.lines().count(), 2, "{written:?}");
    let bridge = to.join("br0.nmconnection");
    assert!(fs::read_to_string(&bridge).unwrap().contains("address1=192.0.2.5/24,192.0.2.1\n"));
    assert_eq!(fs::metadata(&bridge).unwrap().permissions().mode() & 0o777, 0o600);
    let refused = millstream(&["network", "plan", &topology, "--to", to_text]).ends(2);
    assert!(refused.stderr.contains("--as keyfile"), "{refused:?}");
    let refused = millstream(&["network", "plan", &topology, "--version", "new"]).ends(2);
    assert!(refused.stderr.contains("is not a version"), "{refused:?}");
}

#[test]
fn without_networkmanager_nothing_is_applied_and_the_plan_is_printed() {
    let (dir, host) = file("[bridges.br9]\naddresses = ['192.0.2.5/24']\n");
    let apply = |host: &str| {
        let mut apply = command(&["network", "apply", host, "--yes"]);
        // A bus that is not there.
        apply.env("DBUS_SYSTEM_BUS_ADDRESS", format!("unix:path={}/bus", dir.path().display()));
        apply.env("MILLSTREAM_HOME", dir.path().join("home"));
        run(&mut apply).ends(2)
    };
    let refused = apply(&host);
    assert!(refused.stdout.starts_with("nmcli connection add type bridge con-name br9 ifname br9"), "{refused:?}");
    assert!(
        refused.stderr.contains("NetworkManager does not run here") && refused.stderr.contains("nothing was changed")
    );
    let (_dir, other) = file("[cards.no-such-card]\nipv4 = 'auto'\n");
    let refused = apply(&other);
    assert!(
        refused.stderr.contains("there is no card no-such-card on this machine; nothing was changed"),
        "{refused:?}"
    );
    assert_eq!(refused.stdout, "");
    assert!(!dir.path().join("home").exists(), "no change was planned");
    let none = run(command(&["network", "confirm"]).env("MILLSTREAM_HOME", dir.path().join("home"))).ends(2);
    assert!(none.stderr.contains("no change waits"), "{none:?}");
}
