//! Numbers as a person reads them.

/// Units of an age, longest last, with their seconds.
pub const AGE_UNITS: &[(&str, u64)] = &[("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400), ("w", 604_800)];

/// A number without its fraction, 0 if it is negative, and the largest one if it is larger.
pub fn whole(number: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of floats saturates")]
    let whole = number as u64;
    whole
}

/// Seconds in the longest unit of which there are at least two, such as `95s`, `12m` or `30h`.
pub fn age(seconds: f64) -> String {
    let seconds = whole(seconds);
    let (name, unit) = AGE_UNITS.iter().rfind(|(_, unit)| seconds >= 2 * unit).unwrap_or(&AGE_UNITS[0]);
    format!("{}{name}", seconds / unit)
}

/// A count with its thousands set apart: `1,234,567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, c) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// A number of bytes in binary units: `512 B`, `1.5 MiB`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_print_in_a_fitting_unit() {
        let ages = [(-1.0, "0s"), (0.4, "0s"), (119.9, "119s"), (120.0, "2m"), (7_300.0, "2h"), (1e9, "1653w")];
        for (seconds, text) in ages {
            assert_eq!(age(seconds), text);
        }
    }

    #[test]
    fn counts_are_grouped() {
        for (n, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(n), text);
        }
    }

    #[test]
    fn sizes_have_one_decimal() {
        for (n, text) in [
            (0, "0 B"),
            (1_023, "1023 B"),
            (1_024, "1.0 KiB"),
            (1_536, "1.5 KiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (5 << 30, "5.0 GiB"),
        ] {
            assert_eq!(bytes(n), text);
        }
        assert!(bytes(u64::MAX).ends_with(" PiB"));
    }
}
