//! The rules of a policy as a change of this host: they are loaded, last and come back.

use crate::host::{Host, etc, listed, load};
use crate::policy::{SMALL, WEB, policy};
use millstream_change::{Changes, Journal, Kind, Lasting, Number, Place, Proposal, Undone, WayOut};
use millstream_guard::in_effect::{deny, end_denial};
use millstream_guard::packet_filter::{PacketFilter, TARGET};
use millstream_guard::policy::Policy;
use millstream_guard::rules::Rules;
use millstream_guard::warning::{Facts, may_apply};
use millstream_host::Sandbox;
use millstream_model::{Change, Refusal};
use std::time::Duration;

const KINDS: &[&dyn Kind] = &[&PacketFilter];

/// Rules, the unit that loads them, and what starts it.
const LASTING: [&str; 3] = [
    "millstream/guard.nft",
    "systemd/system/millstream-guard.service",
    "systemd/system/sysinit.target.d/millstream-guard.conf",
];

const HOUR: Duration = Duration::from_secs(3_600);

/// Changes of a host, and their journal.
struct Scene {
    journal: Journal,
    place: Place,
}

impl Scene {
    fn new(host: &Host) -> Self {
        Self { journal: Journal::new(&host.dir.join("changes")), place: Place::default() }
    }

    fn changes(&self) -> Changes<'_> {
        Changes::new(&self.journal, KINDS, &self.place)
    }

    /// Applies a policy. Returns the number of the change.
    async fn apply(&self, policy: &Policy) -> Result<u32, Refusal> {
        let proposal = Proposal {
            change: Change::new(PacketFilter.name(), TARGET, Rules::of(policy).nft()),
            from: None,
            reason: "a test".to_owned(),
            confirm_within: Some(HOUR),
        };
        // Nothing is late in a test.
        let watch = async |_: u32| Ok::<(), Refusal>(());
        let made = proposal.make(&self.changes(), watch, Box::pin(async { Ok(()) }), &|_| {}).await?;
        Ok(made.number)
    }

    async fn undo(&self, number: u32) {
        assert_eq!(self.changes().undo(number).await.unwrap().1, Undone::Now);
    }
}

#[tokio::test]
async fn rules_are_applied_confirmed_and_taken_back() {
    let Some(host) = Host::of("change::rules_are_applied_confirmed_and_taken_back") else { return };
    let (scene, small, web) = (Scene::new(&host), policy(SMALL), policy(WEB));
    let facts = Facts::read().await.unwrap();
    let refused = may_apply(&policy("[services.http]\n"), &facts, false).unwrap_err();
    assert!(refused.problem.contains("ssh would not reach this host"), "{refused}");
    may_apply(&policy("[services.http]\n"), &facts, true).unwrap();
    assert_eq!(listed(), "");

    let first = scene.apply(&small).await.unwrap();
    let rules = listed();
    assert!(rules.contains("services.postgres") && etc(LASTING[0]).is_none());
    let second = scene.apply(&web).await.unwrap_err();
    assert_eq!(second.hint, Some(WayOut::End(Number("guard", first)).to_string()));
    let lasting = scene.changes().confirm(first).await.unwrap().1;
    assert!(matches!(lasting, Lasting::Files(files) if files.len() == LASTING.len()));
    let loaded = etc(LASTING[0]).unwrap();
    assert!(etc(LASTING[1]).unwrap().contains("Before=network-pre.target") && etc(LASTING[2]).is_some());
    // What is loaded at a start is what is in effect.
    let other = Sandbox::make(1).unwrap();
    other.feed(0, "nft", ["-f", "-"], loaded).unwrap();
    assert_eq!(other.run(0, "nft", ["--stateless", "list", "ruleset"]).unwrap().stdout, rules);

    // Denied sources stay denied, and rules of others stay.
    deny("203.0.113.7", 10 * HOUR).await.unwrap();
    load("add table ip other\n");
    let second = scene.apply(&web).await.unwrap();
    assert!(listed().contains("203.0.113.7 timeout 10h") && listed().contains("services.http"), "{}", listed());
    scene.undo(second).await;
    let now = listed();
    assert!(now.contains("table ip other") && now.contains("services.postgres"), "{now}");
    assert!(!now.contains("services.http"), "{now}");
    scene.undo(first).await;
    assert_eq!(listed().trim(), "table ip other {\n}");
    assert!(LASTING.iter().all(|file| etc(file).is_none()));
}

/// What is denied while a change waits must not stand in the way of the rules that come back.
#[tokio::test]
async fn rules_come_back_whatever_was_denied_meanwhile() {
    let Some(host) = Host::of("change::rules_come_back_whatever_was_denied_meanwhile") else { return };
    let (scene, small, web) = (Scene::new(&host), policy(SMALL), policy(WEB));
    // Nothing on this host remembers these rules: they were loaded by hand.
    load(&Rules::of(&small).nft());
    deny("10.0.0.5", 2 * HOUR).await.unwrap();
    let number = scene.apply(&web).await.unwrap();
    end_denial("10.0.0.5").await.unwrap();
    deny("10.0.0.0/24", HOUR).await.unwrap();
    scene.undo(number).await;
    let now = listed();
    assert!(now.contains("services.postgres") && now.contains("10.0.0.0/24 timeout 1h"), "{now}");
    assert!(!now.contains("10.0.0.5"), "{now}");
}

#[tokio::test]
async fn of_two_changes_the_later_one_is_undone_first() {
    let Some(host) = Host::of("change::of_two_changes_the_later_one_is_undone_first") else { return };
    let scene = Scene::new(&host);
    for (n, text) in [SMALL, WEB].into_iter().enumerate() {
        let number = scene.apply(&policy(text)).await.unwrap();
        assert_eq!(number as usize, n + 1);
        scene.changes().confirm(number).await.unwrap();
    }
    // Both changes wrote the same unit.
    for refused in [scene.changes().undo(1).await.unwrap_err(), scene.changes().keep(1).await.unwrap_err()] {
        assert_eq!(refused.hint, Some(WayOut::UndoFirst(Number("guard", 2)).to_string()), "{refused}");
    }
    assert!(etc(LASTING[0]).unwrap().contains("services.http"));
    assert!(LASTING.iter().all(|file| etc(file).is_some()));
    scene.undo(2).await;
    assert!(listed().contains("services.postgres"));
    scene.undo(1).await;
    assert_eq!(listed(), "");
    assert!(etc(LASTING[0]).is_none());
}
