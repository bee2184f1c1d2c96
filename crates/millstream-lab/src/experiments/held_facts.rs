//! Facts that held while arms were run: what all arms on a server have in common, and what an arm has besides.

use super::conditions::{ArmFacts, Conditions};
use crate::core::Environment;
use std::collections::BTreeSet;

impl Conditions {
    /// Keeps what was found of a server and its machine, as they are for the runs of an arm.
    pub(super) fn hold(&mut self, server: &str, arm: &str, found: &Environment) {
        let others = self.arm_facts.iter_mut().filter(|(name, held)| *name != arm && held.server == server);
        let mut others: Vec<&mut ArmFacts> = others.map(|(_, held)| held).collect();
        // Without others, what there may be is of this arm, or of an earlier version, which looked before any setting.
        let before = self.environments.remove(server).filter(|_| !others.is_empty());
        let common = before.as_ref().map_or_else(|| found.clone(), |before| before.common(found));
        let lost = before.map(|before| before.without(&common)).unwrap_or_default();
        for other in &mut others {
            other.own.extend(&lost);
        }
        let held = ArmFacts { server: server.to_owned(), own: found.without(&common) };
        self.arm_facts.insert(arm.to_owned(), held);
        self.environments.insert(server.to_owned(), common);
    }

    /// The facts that held while an arm was run. `None` if it was not run on a server, or by an earlier version.
    pub fn facts_of(&self, arm: &str) -> Option<Environment> {
        let held = self.arm_facts.get(arm)?;
        let mut facts = self.environments.get(&held.server).cloned().unwrap_or_default();
        facts.extend(&held.own);
        Some(facts)
    }

    /// Names of the facts in which arms differ.
    pub(super) fn varying_facts(&self) -> BTreeSet<String> {
        self.arm_facts.values().flat_map(|held| held.own.names()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn facts(list: &[(&str, &str)]) -> Environment {
        let settings = list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Environment { sections: BTreeMap::from([("settings".to_owned(), settings)]) }
    }

    #[test]
    fn facts_of_all_arms_of_a_server_are_kept_once_and_those_of_an_arm_beside_it() {
        let mut conditions = Conditions::default();
        // What an earlier version has found says nothing about a run.
        conditions.environments.insert("18".to_owned(), facts(&[("work_mem", "1MB")]));
        let [a, b, c] = [
            facts(&[("ssl", "on"), ("work_mem", "4MB")]),
            facts(&[("ssl", "on"), ("work_mem", "8MB")]),
            facts(&[("ssl", "on"), ("jit", "off")]),
        ];
        conditions.hold("18", "a", &a);
        assert_eq!((&conditions.environments["18"], conditions.varying_facts()), (&a, BTreeSet::new()));
        conditions.hold("18", "b", &b);
        conditions.hold("18", "c", &c);
        conditions.hold("15", "old", &facts(&[("work_mem", "2MB")]));
        assert_eq!(conditions.environments["18"], facts(&[("ssl", "on")]));
        assert_eq!(conditions.arm_facts["b"].own, facts(&[("work_mem", "8MB")]));
        assert_eq!(["a", "b", "c"].map(|arm| conditions.facts_of(arm)), [a.clone(), b, c.clone()].map(Some));
        assert_eq!(conditions.facts_of("old").unwrap(), facts(&[("work_mem", "2MB")]));
        assert_eq!(conditions.facts_of("nobody"), None);
        assert!(conditions.varying_facts().iter().eq(["settings.jit", "settings.work_mem"]));
        // A resumed arm is looked at again.
        conditions.hold("18", "b", &a);
        assert_eq!(["a", "b", "c"].map(|arm| conditions.facts_of(arm)), [a.clone(), a, c].map(Some));
        let json = serde_json::to_string(&conditions.arm_facts).unwrap();
        assert_eq!(serde_json::from_str::<BTreeMap<String, ArmFacts>>(&json).unwrap(), conditions.arm_facts);
    }
}
