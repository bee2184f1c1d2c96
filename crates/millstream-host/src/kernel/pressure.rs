//! How long tasks wait for a processor, a disk or memory (PSI); the kernel's `Documentation/accounting/psi.rst`.

/// The numbers of one name in lines such as `some avg10=0.00 avg60=0.13 avg300=0.91 total=12`, by the line's first word.
///
/// `some`: at least one task waited; `full`: all tasks that are not idle did. `avg60` is a share of the last minute in
/// percent, `total` the time since the start in microseconds.
pub fn values<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
    text.lines().filter_map(move |line| {
        let mut words = line.split_whitespace();
        let kind = words.next()?;
        let value = words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))?;
        Some((kind, value.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_value_for_each_kind() {
        let text = "some avg10=33.50 avg60=20.63 avg300=17.45 total=1000\nfull avg10=0.00 total=7\nbroken\n";
        assert_eq!(values(text, "total").collect::<Vec<_>>(), [("some", 1000.0), ("full", 7.0)]);
        assert_eq!(values(text, "avg60").collect::<Vec<_>>(), [("some", 20.63)]);
        assert_eq!(values(text, "avg").count(), 0);
    }
}
