//! Sets of numbers, such as ports and addresses, as ranges in order.

/// Ranges that neither overlap nor touch, in order, each with its first and its last number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Spans(Vec<(u128, u128)>);

impl Spans {
    /// The numbers in these ranges.
    pub(super) fn of(ranges: impl IntoIterator<Item = (u128, u128)>) -> Self {
        let mut ranges: Vec<(u128, u128)> = ranges.into_iter().collect();
        ranges.sort_unstable();
        let mut merged: Vec<(u128, u128)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        Self(merged)
    }

    /// All numbers up to the last one.
    pub(super) fn up_to(last: u128) -> Self {
        Self(vec![(0, last)])
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u128, u128)> + '_ {
        self.0.iter().copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn has(&self, number: u128) -> bool {
        let after = self.0.partition_point(|(first, _)| *first <= number);
        after > 0 && number <= self.0[after - 1].1
    }

    /// The numbers that are in both.
    pub(super) fn and(&self, other: &Self) -> Self {
        let (mut ours, mut theirs) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut both = Vec::new();
        while let (Some(&&(first, last)), Some(&&(other_first, other_last))) = (ours.peek(), theirs.peek()) {
            let common = (first.max(other_first), last.min(other_last));
            if common.0 <= common.1 {
                both.push(common);
            }
            if last < other_last {
                ours.next();
            } else {
                theirs.next();
            }
        }
        Self(both)
    }

    /// Whether a number is in both.
    pub(super) fn meets(&self, other: &Self) -> bool {
        let (few, many) = if self.0.len() <= other.0.len() { (self, other) } else { (other, self) };
        few.0.iter().any(|(first, last)| {
            let next = many.0.partition_point(|(_, end)| end < first);
            many.0.get(next).is_some_and(|(start, _)| start <= last)
        })
    }

    /// The numbers of both.
    pub(super) fn or(&self, other: &Self) -> Self {
        Self::of(self.iter().chain(other.iter()))
    }

    /// The numbers that are not in the other one.
    pub(super) fn without(&self, other: &Self) -> Self {
        let (mut next, mut gaps) = (Some(0_u128), Vec::new());
        for (first, last) in &other.0 {
            if let Some(start) = next
                && start < *first
            {
                gaps.push((start, first - 1));
            }
            next = last.checked_add(1);
        }
        gaps.extend(next.map(|start| (start, u128::MAX)));
        self.and(&Self(gaps))
    }

    /// Whether all numbers of the other one are in this one.
    pub(super) fn covers(&self, other: &Self) -> bool {
        other.without(self).is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_numbers_are_joined_met_and_cut() {
        let ports = Spans::of([(80, 80), (20, 30), (31, 40), (35, 50)]);
        assert_eq!(ports, Spans(vec![(20, 50), (80, 80)]));
        assert_eq!(ports.and(&Spans::of([(0, 25), (50, 100)])), Spans(vec![(20, 25), (50, 50), (80, 80)]));
        assert_eq!(Spans::up_to(100).without(&ports), Spans(vec![(0, 19), (51, 79), (81, 100)]));
        assert_eq!(Spans::up_to(u128::MAX).without(&Spans::up_to(u128::MAX)), Spans::default());
        assert!(Spans::up_to(100).covers(&ports) && !ports.covers(&Spans::up_to(100)));
        assert!(ports.has(50) && !ports.has(51) && !ports.has(0));
        for (first, last, meets) in [(51, 79, false), (0, 20, true), (50, 60, true), (60, 90, true), (81, 99, false)] {
            let other = Spans::of([(first, last)]);
            assert_eq!((ports.meets(&other), other.meets(&ports)), (meets, meets), "{first} to {last}");
        }
        assert!(!ports.meets(&Spans::default()) && !Spans::default().meets(&ports));
        assert_eq!(ports.or(&Spans::of([(51, 79)])), Spans(vec![(20, 80)]));
    }
}
