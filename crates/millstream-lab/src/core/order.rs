//! The order of runs: blocks in which every arm has one turn, at a random position.

use fastrand::Rng;

/// For each block the arms in the order of their turns. The same seed gives the same order.
///
/// Arms that are measured one after the other for all of their runs differ by whatever the machine does meanwhile. In
/// randomised interleaved blocks they do not: Abedi and Brecht, "Conducting repeatable experiments in highly variable
/// cloud computing environments", ICPE 2017.
pub(crate) fn blocks(arms: usize, count: u32, seed: u64) -> Vec<Vec<usize>> {
    let mut rng = Rng::with_seed(seed);
    let mut order = || {
        let mut arms: Vec<usize> = (0..arms).collect();
        rng.shuffle(&mut arms);
        arms
    };
    (0..count).map(|_| order()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_arm_has_one_turn_in_each_block_and_the_seed_decides_which() {
        let order = blocks(5, 20, 7);
        assert_eq!(order, blocks(5, 20, 7));
        assert_ne!(order, blocks(5, 20, 8));
        for block in &order {
            let mut arms = block.clone();
            arms.sort_unstable();
            assert_eq!(arms, [0, 1, 2, 3, 4]);
        }
        assert!(order.iter().any(|block| block != &order[0]), "blocks differ");
    }
}
