//! What block devices did since the start, from `/proc/diskstats`; the kernel's `Documentation/admin-guide/iostats.rst`.

/// Names of the fields behind the device's name. Sectors have 512 bytes, whatever the device has. `weighted_ms` adds up
/// the time of all requests. Flushes are counted since Linux 5.5.
const FIELDS: &[&str] = &[
    "reads",
    "reads_merged",
    "read_sectors",
    "read_ms",
    "writes",
    "writes_merged",
    "write_sectors",
    "write_ms",
    "in_flight",
    "busy_ms",
    "weighted_ms",
    "discards",
    "discards_merged",
    "discard_sectors",
    "discard_ms",
    "flushes",
    "flush_ms",
];

/// The devices and their numbers, by name. Older kernels have fewer of them.
pub fn devices(text: &str) -> impl Iterator<Item = (&str, Vec<(&'static str, f64)>)> {
    text.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(2);
        let name = words.next()?;
        let numbers = FIELDS.iter().copied().zip(words);
        Some((name, numbers.filter_map(|(what, word)| Some((what, word.parse().ok()?))).collect()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_names() {
        let text = " 254 0 vda 100 5 8000 50 200 10 4000 400 0 900 850 7 0 0 0 10 30\n 8 1 sda1 1 2\nbroken\n";
        let found: Vec<_> = devices(text).collect();
        assert_eq!(found.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["vda", "sda1"]);
        let of = |at: usize, name: &str| found[at].1.iter().find(|(what, _)| *what == name).map(|(_, number)| *number);
        assert_eq!((of(0, "read_ms"), of(0, "weighted_ms"), of(0, "flush_ms")), (Some(50.0), Some(850.0), Some(30.0)));
        assert_eq!((of(1, "reads_merged"), of(1, "flushes")), (Some(2.0), None));
    }
}
