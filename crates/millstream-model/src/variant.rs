//! Reads one of several words, so that an error about something else says what it is: `mode = 4` is an integer.

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, IntoDeserializer};

/// One of the words of a type.
///
/// # Errors
/// It is not a text, or not one of these words.
pub fn variant<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<T, D::Error> {
    T::deserialize(String::deserialize(deserializer)?.into_deserializer())
}

/// The same, where it may be left out. This needs `#[serde(default)]`, too.
///
/// # Errors
/// As [`variant`].
pub fn optional_variant<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    variant(deserializer).map(Some)
}
