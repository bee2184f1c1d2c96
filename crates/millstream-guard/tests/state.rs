//! The rules that a host has now: what a policy would change, what its lines have dropped, and what is denied at once.

use crate::host::{Host, load, shell};
use crate::policy::{SMALL, policy};
use millstream_guard::in_effect::{denied, deny, differences, drops, end_denial};
use millstream_guard::rules::Rules;
use millstream_guard::warning::{Facts, warnings};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3_600);

#[tokio::test]
async fn a_host_is_planned_for_watched_and_denies_at_once() {
    let Some(_host) = Host::of("state::a_host_is_planned_for_watched_and_denies_at_once") else { return };
    let policy = policy(SMALL);
    let rules = Rules::of(&policy);
    assert_eq!(drops().await.unwrap(), None);
    assert!(deny("203.0.113.7", HOUR).await.unwrap_err().problem.contains("no policy is in effect"));
    let planned = differences(&rules).await.unwrap();
    let loopback = "iifname \"lo\" accept comment \"loopback\"";
    assert!(planned.iter().all(|one| one.is_new) && planned.iter().any(|one| one.text == loopback), "{planned:?}");
    load(&rules.nft());
    let none = differences(&rules).await.unwrap();
    assert!(none.is_empty(), "these are in effect already: {none:?}");
    load("table ip other {\nchain in { type filter hook input priority 5; policy drop; }\n}\n");
    let warned = warnings(&policy, &Facts::read().await.unwrap()).join("\n");
    assert!(warned.contains("the chain ip other in drops packets too"), "{warned}");

    assert_eq!(deny("203.0.113.0/24", HOUR).await.unwrap(), "203.0.113.0/24");
    let again = deny("203.0.113.7", HOUR).await.unwrap_err();
    assert!(again.problem.contains("denied for a time already"), "{again}");
    let set = shell("nft list set inet millstream denied.4");
    assert!(set.contains("203.0.113.0/24 timeout 1h"), "{set}");
    let all = denied().await.unwrap();
    assert!(matches!(&all[..], [one] if one.what == "203.0.113.0/24" && one.seconds <= 3_600), "{all:?}");
    assert_eq!(end_denial("203.0.113.0/24").await.unwrap(), "203.0.113.0/24");
    let again = end_denial("203.0.113.0/24").await.unwrap_err();
    assert!(again.problem.contains("is not denied for a time"), "{again}");
    assert!(denied().await.unwrap().is_empty());
    let lines: Vec<String> = drops().await.unwrap().unwrap().into_iter().map(|one| one.line).collect();
    for line in ["everything-else", "service-ports"] {
        assert!(lines.iter().any(|one| one == line), "{line}: {lines:?}");
    }
}

#[tokio::test]
async fn nobody_denies_the_address_of_their_own_connection() {
    let connection = "export SSH_CONNECTION='198.51.100.7 50022 192.0.2.1 22'";
    let Some(_host) = Host::after("state::nobody_denies_the_address_of_their_own_connection", &[connection]) else {
        return;
    };
    load(&Rules::of(&policy(SMALL)).nft());
    let own = deny("198.51.100.0/24", HOUR).await.unwrap_err();
    assert!(own.problem.contains("your own ssh connection"), "{own}");
    assert_eq!(deny("203.0.113.7", HOUR).await.unwrap(), "203.0.113.7");
}
