//! A series: values at equal distances in time.

use serde::{Deserialize, Serialize};

/// Values at equal distances in time, from the start of the measured time on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Seconds between two values.
    pub step_seconds: f64,
    /// The values; `None` where one is missing.
    pub values: Vec<Option<f64>>,
}

impl Series {
    /// A series of one value a second.
    pub fn each_second(values: impl IntoIterator<Item = Option<f64>>) -> Self {
        Self { step_seconds: 1.0, values: values.into_iter().collect() }
    }

    /// Standard deviation of the values that are there; `None` for fewer than two.
    pub fn deviation(&self) -> Option<f64> {
        let there: Vec<f64> = self.values.iter().copied().flatten().collect();
        let n = f64::from(u32::try_from(there.len()).ok()?);
        if there.len() < 2 {
            return None;
        }
        let mean = there.iter().sum::<f64>() / n;
        let squares: f64 = there.iter().map(|value| (value - mean).powi(2)).sum();
        Some((squares / (n - 1.0)).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_seconds_do_not_count() {
        let series = Series::each_second([Some(2.0), None, Some(4.0), Some(6.0)]);
        assert_eq!(series.deviation(), Some(2.0));
        assert_eq!(Series::each_second([Some(1.0), None]).deviation(), None);
    }
}
