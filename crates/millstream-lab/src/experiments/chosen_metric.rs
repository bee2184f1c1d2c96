//! A metric as an experiment names it: one that the lab knows, or one of its own with its unit and direction.

use crate::core::word::unknown;
use crate::core::{Better, METRICS, Metric};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A metric that an experiment has chosen. In a file it is the name of one that the lab knows, or a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenMetric(Metric);

/// A metric that the lab does not know, as the table of a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Own {
    name: String,
    #[serde(default)]
    unit: String,
    better: Better,
    #[serde(default)]
    about: String,
}

impl ChosenMetric {
    /// The metric of that name, if the lab knows it.
    ///
    /// # Errors
    /// It does not: the nearest name.
    pub fn known(name: &str) -> Result<Self, String> {
        let known: Vec<&str> = METRICS.iter().map(|one| one.name.as_ref()).collect();
        Metric::by_name(name).map(|one| Self(one.clone())).ok_or_else(|| unknown("metric", name, &known))
    }

    /// A metric of the experiment's own, which its commands print.
    ///
    /// # Errors
    /// The lab knows a metric of that name, or the name has other characters than letters, digits and `_`.
    pub fn own(name: &str, unit: &str, better: Better, about: &str) -> Result<Self, String> {
        let is_plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_plain {
            return Err(format!("the name of a metric has letters, digits and _, not: {name:?}"));
        }
        if Metric::by_name(name).is_some() {
            return Err(format!("the lab knows the metric {name}; give its name alone, as a text"));
        }
        let about = if about.is_empty() { "As the command prints it." } else { about };
        let [name, unit, about] = [name, unit, about].map(|text| text.to_owned().into());
        Ok(Self(Metric { name, unit, better, about }))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0.name
    }

    /// The metric.
    pub fn metric(&self) -> &Metric {
        &self.0
    }

    /// Whether the lab does not know it.
    pub(super) fn is_own(&self) -> bool {
        Metric::by_name(self.as_str()).is_none()
    }

    /// Whether the lab measures it of the process of a command, which then need not print it.
    pub(super) fn is_of_the_process(&self) -> bool {
        ["wall_seconds", "client_cpu_seconds", "client_peak_bytes"].contains(&self.as_str())
    }
}

impl Default for ChosenMetric {
    /// Transactions per second.
    fn default() -> Self {
        Self(METRICS[0].clone())
    }
}

impl Serialize for ChosenMetric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !self.is_own() {
            return serializer.serialize_str(self.as_str());
        }
        let Metric { name, unit, better, about } = &self.0;
        let [name, unit, about] = [name, unit, about].map(ToString::to_string);
        Own { name, unit, better: *better, about }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ChosenMetric {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Chosen;
        impl<'de> Visitor<'de> for Chosen {
            type Value = ChosenMetric;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a metric, or a table with name, unit and better")
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Self::Value, E> {
                ChosenMetric::known(name).map_err(|why| {
                    E::custom(format!("{why}; a metric of your own is a table with name, unit and better"))
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                let Own { name, unit, better, about } = Own::deserialize(MapAccessDeserializer::new(map))?;
                ChosenMetric::own(&name, &unit, better, &about).map_err(A::Error::custom)
            }
        }
        deserializer.deserialize_any(Chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_of_an_experiment_is_written_as_it_is_read() {
        for text in ["\"tps\"", r#"{"name":"requests","unit":"req/s","better":"higher","about":"Requests."}"#] {
            let one: ChosenMetric = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&one).unwrap(), text);
        }
        let refused = |text: &str| serde_json::from_str::<ChosenMetric>(text).unwrap_err().to_string();
        assert!(refused("\"tsp\"").starts_with("unknown metric \"tsp\": did you mean \"tps\"?"));
        assert!(refused(r#"{"name":"tps","better":"lower"}"#).contains("give its name alone"));
        assert!(refused(r#"{"name":"a b","better":"lower"}"#).contains("letters, digits and _"));
        assert!(refused("3").contains("expected the name of a metric, or a table"));
    }
}
