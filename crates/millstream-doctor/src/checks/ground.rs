//! What findings rest on that another check may find wrong.

use millstream_model::Finding;

/// Findings that say nothing if another check finds that what they rest on is wrong.
pub(crate) struct Ground {
    /// The check of these findings.
    of: &'static str,
    /// Their subjects. Empty: all.
    subjects: &'static [&'static str],
    /// The check that may find their ground wrong. It runs before, also if nobody asked for it.
    pub(crate) check: &'static str,
    /// What it then finds wrong.
    pub(crate) what: &'static str,
    /// Whether a finding of that check is about the ground of this one.
    meets: fn(&Finding, &Finding) -> bool,
}

/// The kernel's flag of a disk.
const FLAG: &str = "whether the disk rotates";

/// Every such dependency.
pub(crate) const GROUNDS: &[Ground] = &[
    Ground {
        of: "default-setting",
        subjects: &["effective_io_concurrency", "random_page_cost"],
        check: "rotational-flag",
        what: FLAG,
        meets: |_, _| true,
    },
    Ground {
        of: "disk-scheduler",
        subjects: &[],
        check: "rotational-flag",
        what: FLAG,
        meets: |finding, flag| finding.subject == flag.subject,
    },
    Ground {
        of: "few-reads-ahead",
        subjects: &["effective_io_concurrency"],
        check: "rotational-flag",
        what: FLAG,
        meets: |_, _| true,
    },
    Ground {
        of: "foreign-key-without-index",
        subjects: &[],
        check: "never-analyzed",
        what: "how many rows the table has",
        meets: |key, table| {
            let rest = key.subject.strip_prefix(table.subject.as_str());
            key.database == table.database && rest.is_some_and(|constraint| constraint.starts_with('.'))
        },
    },
];

impl Ground {
    /// Whether findings of a check rest on it.
    pub(crate) fn is_of(&self, check: &str) -> bool {
        self.of == check
    }

    /// The finding that takes the ground from another one, if there is one.
    pub(crate) fn lost<'a>(&self, finding: &Finding, others: &'a [Finding]) -> Option<&'a Finding> {
        let subject = finding.subject.as_str();
        let rests = self.is_of(&finding.check) && (self.subjects.is_empty() || self.subjects.contains(&subject));
        others.iter().find(|other| rests && other.check == self.check && (self.meets)(finding, other))
    }
}

#[cfg(test)]
mod tests {
    use super::super::CHECKS;
    use super::*;
    use millstream_model::{Class, Level};

    #[test]
    fn every_ground_is_one_of_a_check_that_rests_on_nothing_itself() {
        let is_check = |id: &str| CHECKS.iter().any(|check| check.id == id);
        for ground in GROUNDS {
            assert!(is_check(ground.of) && is_check(ground.check), "{} on {}", ground.of, ground.check);
            assert!(!GROUNDS.iter().any(|other| other.is_of(ground.check)), "{}", ground.check);
        }
    }

    #[test]
    fn a_finding_loses_its_ground_only_by_one_about_the_same_thing() {
        let one = |check: &str, subject: &str| Finding::new(check, Class::Fact, Level::Info, subject, "x");
        let lost = |finding: &Finding, other: &Finding| {
            let others = [other.clone()];
            GROUNDS.iter().any(|ground| ground.lost(finding, &others).is_some())
        };
        let flag = one("rotational-flag", "sda");
        assert!(lost(&one("default-setting", "random_page_cost"), &flag));
        assert!(!lost(&one("default-setting", "shared_buffers"), &flag));
        assert!(lost(&one("disk-scheduler", "sda"), &flag) && !lost(&one("disk-scheduler", "sdb"), &flag));
        let (table, key) = (one("never-analyzed", "public.t"), "foreign-key-without-index");
        let of_shop = |finding: Finding| finding.of_database("shop");
        assert!(lost(&of_shop(one(key, "public.t.t_fkey")), &of_shop(table.clone())));
        assert!(!lost(&of_shop(one(key, "public.t2.t_fkey")), &of_shop(table.clone())));
        assert!(!lost(&of_shop(one(key, "public.t.t_fkey")), &table.of_database("other")));
    }
}
