//! Ranks of values, doubled so that the ranks of ties are whole numbers.

/// The ranks of some values. Ties have the mean of their ranks (mid-ranks).
pub(super) struct Ranks {
    /// Twice the rank of each value, from the smallest value on.
    pub(super) doubled: Vec<usize>,
    /// Whether any two values are equal.
    pub(super) tied: bool,
}

impl Ranks {
    /// The ranks of these values, which must be finite.
    pub(super) fn of(values: &[f64]) -> Self {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_unstable_by(|&a, &b| values[a].total_cmp(&values[b]));
        let mut doubled = vec![0; values.len()];
        let (mut done, mut tied) = (0, false);
        for equal in order.chunk_by(|&a, &b| values[a] == values[b]) {
            // The ranks of these are `done + 1` to `done + equal.len()`.
            let rank = 2 * done + equal.len() + 1;
            for &at in equal {
                doubled[at] = rank;
            }
            done += equal.len();
            tied |= equal.len() > 1;
        }
        Self { doubled, tied }
    }

    /// The doubled ranks of `count` values without ties.
    pub(super) fn untied(count: usize) -> Vec<usize> {
        (1..=count).map(|rank| 2 * rank).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_share_the_mean_of_their_ranks() {
        let ranks = |values: &[f64]| (Ranks::of(values).doubled, Ranks::of(values).tied);
        assert_eq!(ranks(&[]), (vec![], false));
        assert_eq!(ranks(&[0.3, 0.1, 0.2]), (vec![6, 2, 4], false));
        assert_eq!(ranks(&[0.2, 0.1, 0.2, 0.2]), (vec![6, 2, 6, 6], true));
        assert_eq!(ranks(&[0.0, -0.0]), (vec![3, 3], true), "zeros of both signs are equal");
        assert_eq!(Ranks::untied(3), [2, 4, 6]);
    }
}
