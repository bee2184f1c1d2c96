//! Seeds: one for each stream of random numbers of a run.

/// What a stream of random numbers is for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stream {
    /// The arrivals of a class.
    Arrivals,
    /// The values of a request of a class, by its number.
    Values(u64),
}

/// The seed of a stream. Streams of different classes and purposes are independent of each other, so that another class
/// in the file leaves the arrivals and values of this one as they are.
pub(super) fn derived(seed: u64, class: usize, stream: Stream) -> u64 {
    let (purpose, number) = match stream {
        Stream::Arrivals => (1, 0),
        Stream::Values(number) => (2, number),
    };
    [class as u64, purpose, number].into_iter().fold(mixed(seed), |seed, word| mixed(seed ^ mixed(word)))
}

/// The output function of SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA
/// 2014.
fn mixed(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_gives_its_published_numbers() {
        // The first outputs of SplitMix64 for the seed 0 are those of its counter's first values.
        assert_eq!(mixed(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mixed(0x9e37_79b9_7f4a_7c15), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn streams_have_seeds_of_their_own() {
        let mut seeds = Vec::new();
        for class in 0..3 {
            seeds.push(derived(7, class, Stream::Arrivals));
            seeds.extend((0..3).map(|number| derived(7, class, Stream::Values(number))));
        }
        assert_eq!(seeds[0], derived(7, 0, Stream::Arrivals));
        assert_ne!(seeds[0], derived(8, 0, Stream::Arrivals));
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 12);
    }
}
