//! What the processors did since the start, from `/proc/stat`.

/// Fields of the line `cpu`; proc(5). Guests' time is contained in `user` and `nice`.
const FIELDS: &[&str] = &["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];

/// Clock ticks of all processors together, by what they did. They add up to all of the time.
pub fn ticks(text: &str) -> impl Iterator<Item = (&'static str, f64)> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
    FIELDS.iter().copied().zip(line.split_whitespace().map_while(|word| word.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_those_of_all_processors() {
        let text = "cpu  100 10 50 800 20 1 4 15 7 0\ncpu0 1 1 1 1\nctxt 500\n";
        assert_eq!(ticks(text).map(|(_, ticks)| ticks).sum::<f64>(), 1000.0);
        assert_eq!(ticks(text).last(), Some(("steal", 15.0)));
        assert_eq!(ticks("cpu0 1 1 1 1\n").count(), 0);
    }
}
