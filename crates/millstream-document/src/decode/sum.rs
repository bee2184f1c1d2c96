//! Whether a document can hold a sum at a path.

use crate::members::{is_object, member, nothing};
use millstream_model::{Fault, Reason, path_text};

/// There must be a number or nothing (missing or null) at the path, and objects or nothing around it.
pub(super) fn check(path: &[String], document: &str) -> Result<(), Fault> {
    let mut value = Some(document);
    for name in path {
        value = match value {
            Some(object) if is_object(object) => member(object, name),
            _ if nothing(value) => return Ok(()),
            _ => return Err(misfit("an object around it", path)),
        };
    }
    let number =
        value.is_some_and(|value| value.trim_ascii_start().starts_with(|c: char| c == '-' || c.is_ascii_digit()));
    if number || nothing(value) { Ok(()) } else { Err(misfit("a number", path)) }
}

#[cold]
fn misfit(expected: &str, path: &[String]) -> Fault {
    Fault::new(Reason::NotNumber, format!("sum: expected {expected}, found another value at {}", path_text(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_that_cannot_hold_a_sum_are_refused() {
        let path = ["a", "n"].map(str::to_owned);
        for (document, taken) in [
            (r#"{"a":{"n":1}}"#, true),
            (r#"{"a":{"n":null}}"#, true),
            (r#"{"a":{}}"#, true),
            (r#"{"a":null}"#, true),
            ("{}", true),
            (r#"{"a":{"n":"x"},"a":{"n":-1.5}}"#, true),
            (r#"{"a":{"n":"1"}}"#, false),
            (r#"{"a":{"n":true}}"#, false),
            (r#"{"a":{"n":[1]}}"#, false),
            (r#"{"a":[1]}"#, false),
            (r#"{"a":5}"#, false),
        ] {
            let fault = check(&path, document).err();
            assert_eq!(fault.is_none(), taken, "{document}");
            assert!(fault.is_none_or(|fault| fault.reason == Reason::NotNumber));
        }
    }
}
