//! Comparisons that the runs do not decide: one sentence for all of them, with what would decide.

use super::first_of;
use crate::core::statistics::Verdict;
use crate::experiments::analysis::Compared;

/// The comparisons that say something of their own, and a sentence for the others.
pub(super) struct Sorted<'a> {
    /// Those with a verdict, those of which every block shows the same, and an undecided one that is the only one.
    pub(super) single: Vec<&'a Compared>,
    /// Those that cannot be told, if there are several.
    pub(super) together: Vec<&'a Compared>,
    /// What is said of them.
    pub(super) sentence: Option<String>,
}

impl<'a> Sorted<'a> {
    /// Sorts comparisons; their order stays.
    pub(super) fn of(all: impl IntoIterator<Item = &'a Compared>) -> Self {
        let (undecided, decided): (Vec<_>, Vec<_>) =
            all.into_iter().enumerate().partition(|(_, one)| tail(one).is_some());
        let count = undecided.len() + decided.len();
        let bare = |list: Vec<(usize, &'a Compared)>| list.into_iter().map(|(_, one)| one).collect::<Vec<_>>();
        if undecided.len() < 2 {
            let mut single = [decided, undecided].concat();
            single.sort_by_key(|(place, _)| *place);
            return Self { single: bare(single), together: Vec::new(), sentence: None };
        }
        let together = bare(undecided);
        let names: Vec<String> = together.iter().map(|one| format!("{} / {}", one.arm, one.with)).collect();
        let mut needs: Vec<&str> = Vec::new();
        for need in together.iter().filter_map(|one| tail(one)) {
            if !needs.contains(&need) {
                needs.push(need);
            }
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let sentence = format!("cannot tell {} of {count}: {}: {}", together.len(), first_of(&names), first_of(&needs));
        Self { single: bare(decided), together, sentence: Some(sentence) }
    }

    /// A line for each comparison that says something, and one for the others.
    pub(super) fn lines(&self) -> Vec<String> {
        let single = self.single.iter().map(|one| format!("{} / {}: {}", one.arm, one.with, one.sentence));
        single.chain(self.sentence.clone()).collect()
    }
}

/// What would decide a comparison that nothing is known of.
fn tail(one: &Compared) -> Option<&str> {
    let found =
        one.comparison.filter(|found| matches!(found.verdict, Verdict::CannotTell { .. }) && found.every.is_none());
    found.and_then(|_| one.sentence.strip_prefix("cannot tell: "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::statistics::{Comparison, Criteria};

    fn compared(arm: &str, ratios: &[f64]) -> Compared {
        let comparison = Comparison::paired(&vec![1.0; ratios.len()], ratios, Criteria::default()).unwrap();
        let metric = crate::core::Metric::by_name("tps").unwrap();
        let arms = crate::core::statistics::Arms { a: "base", b: arm, metric };
        let sentence = comparison.sentence(arms).to_string();
        let (arm, with, metric) = (arm.to_owned(), "base".to_owned(), "tps".to_owned());
        Compared { arm, with, metric, comparison: Some(comparison), sentence }
    }

    #[test]
    fn what_cannot_be_told_is_one_sentence_with_what_would_decide() {
        let unsure = [0.5, 2.0, 0.7, 1.4];
        let all = ["a", "b", "c"].map(|arm| compared(arm, &unsure));
        let thirty = compared("fast", &[30.0, 31.0, 29.0]);
        let sorted = Sorted::of(all.iter().take(2).chain([&thirty]).chain(&all[2..]));
        let lines = sorted.lines();
        assert!(lines[0].starts_with("fast / base: in each of 3 blocks, fast is 29.0-31.0 times as fast as base; "));
        assert_eq!(lines[1..], ["cannot tell 3 of 4: a / base, b / base, c / base: needs at least 9 blocks"]);
        let one = Sorted::of([&all[0], &thirty]);
        assert!(one.sentence.is_none() && one.lines()[0].starts_with("a / base: cannot tell: "), "{:?}", one.lines());
    }
}
