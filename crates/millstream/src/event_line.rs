//! What happens, as lines of JSON on stderr: the form of `--progress json`.

use crate::screen;
use crate::secret::masked;
use millstream_engine::Event;
use serde_json::{Value, json};
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether stderr gets nothing but lines of JSON. It is global, because messages come from everywhere.
static AS_LINES: AtomicBool = AtomicBool::new(false);

/// The events, each with what it means and with its members.
pub const EVENTS: &[(&str, &str)] = &[
    ("key", "the key, as inferred or given: `columns`, a text for each column"),
    ("columns", "the typed columns of the table, as inferred, given or found: `columns`, a text for each"),
    ("version", "the type of the versions that mode newest compares, and why: `text`"),
    ("created", "the load made the table: `ddl`"),
    ("resumed", "the load resumes: `load_id`, and `documents`, which earlier runs committed"),
    (
        "reading",
        "the load has connected and begins to read its sources; before that it reads nothing from standard input. It may \
         come again",
    ),
    ("started", "the load begins: `load_id`, `lanes`"),
    (
        "progress",
        "four times a second, and at the end: `seconds`; `input_bytes` and `input_bytes_total`, which is null where nobody \
         knows it; `text`, the same for people; and counts: of a load or verification `documents`, `rejected`, `bytes`, \
         `deleted_missing`, of which a load counts what this run has committed",
    ),
    ("missing", "--delete-missing deletes rows now: `rows`, and `of`, the rows of the table"),
    ("standstill", "nothing was committed for a while: `seconds`, `reason`"),
    ("retry", "a batch is sent again: `lane`, `attempt`, `after_seconds`, `error`"),
    ("again", "the load broke off, and resumes by itself: `attempt`, `after_seconds`, `error`"),
    ("lost", "the server crashed and lost batches, which are written again: `lane`, `batches`"),
    ("wal_free", "no WAL is written for documents, because wal_level is minimal"),
    ("warning", "nothing is wrong, but worth a line: `text`"),
    ("note", "any other message: `text`"),
];

/// Makes everything on stderr lines of JSON.
pub fn print_as_lines() {
    AS_LINES.store(true, Ordering::Relaxed);
}

/// Whether stderr gets lines of JSON.
pub fn prints_as_lines() -> bool {
    AS_LINES.load(Ordering::Relaxed)
}

/// Prints an event, whose members are an object. `false`: nobody reads stderr any more.
pub fn print(name: &'static str, members: Value) -> bool {
    let text = format!("{}\n", line(name, members));
    // Of other errors, such as a full disk, nobody can be told.
    !screen::stderr().write_all(text.as_bytes()).is_err_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// The name and the members of an event of a load. `None`: it is one of many that are alike.
pub fn of_load(event: Event) -> Option<(&'static str, Value)> {
    Some(match event {
        Event::Key(columns) => ("key", json!({ "columns": columns })),
        Event::Columns(columns) => ("columns", json!({ "columns": columns })),
        Event::Version(text) => ("version", json!({ "text": text })),
        Event::Created(ddl) => ("created", json!({ "ddl": ddl })),
        Event::Warning(text) => ("warning", json!({ "text": text })),
        Event::WalFree => ("wal_free", json!({})),
        Event::Resumed { load_id, documents } => ("resumed", json!({ "load_id": load_id, "documents": documents })),
        Event::Reading => ("reading", json!({})),
        Event::Started { load_id, lanes } => ("started", json!({ "load_id": load_id, "lanes": lanes })),
        Event::Missing { rows, of } => ("missing", json!({ "rows": rows, "of": of })),
        Event::Lost { lane, batches } => ("lost", json!({ "lane": lane, "batches": batches })),
        Event::Standstill { seconds, reason } => {
            ("standstill", json!({ "seconds": seconds, "reason": reason.to_string() }))
        }
        Event::Retry { attempt, .. } | Event::Again { attempt, .. } if !attempt.is_power_of_two() => return None,
        Event::Again { attempt, after, error } => {
            ("again", json!({ "attempt": attempt, "after_seconds": after.as_secs_f64(), "error": error }))
        }
        Event::Retry { lane, attempt, after, error } => {
            ("retry", json!({ "lane": lane, "attempt": attempt, "after_seconds": after.as_secs_f64(), "error": error }))
        }
        _ => return None,
    })
}

fn line(name: &'static str, mut event: Value) -> Value {
    debug_assert!(EVENTS.iter().any(|(known, _)| *known == name), "the list of events lacks {name}");
    mask(&mut event);
    event["event"] = name.into();
    event
}

fn mask(value: &mut Value) {
    match value {
        Value::String(text) => *text = masked(text).into_owned(),
        Value::Array(values) => values.iter_mut().for_each(mask),
        Value::Object(members) => members.values_mut().for_each(mask),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_event_is_one_line_without_passwords() {
        let event = line("note", json!({ "text": "a\nb", "columns": ["postgres://u:s3@h/db"] }));
        assert_eq!(event, json!({ "event": "note", "text": "a\nb", "columns": ["postgres://u:***@h/db"] }));
        assert!(!event.to_string().contains('\n'));
    }

    #[test]
    fn events_as_json_have_the_names_that_the_reference_lists() {
        let error = || "gone".to_owned();
        let after = Duration::from_millis(500);
        let events = [
            (Event::Key(vec!["id bigint".to_owned()]), "key", json!({ "columns": ["id bigint"] })),
            (Event::Columns(vec!["n bigint".to_owned()]), "columns", json!({ "columns": ["n bigint"] })),
            (Event::WalFree, "wal_free", json!({})),
            (Event::Reading, "reading", json!({})),
            (Event::Started { load_id: 7, lanes: 2 }, "started", json!({ "load_id": 7, "lanes": 2 })),
            (Event::Resumed { load_id: 7, documents: 9 }, "resumed", json!({ "load_id": 7, "documents": 9 })),
            (Event::Lost { lane: 1, batches: 3 }, "lost", json!({ "lane": 1, "batches": 3 })),
            (Event::Missing { rows: 1, of: 9 }, "missing", json!({ "rows": 1, "of": 9 })),
            (
                Event::Retry { lane: 1, attempt: 2, after, error: error() },
                "retry",
                json!({ "lane": 1, "attempt": 2, "after_seconds": 0.5, "error": "gone" }),
            ),
            (
                Event::Again { attempt: 1, after, error: error() },
                "again",
                json!({ "attempt": 1, "after_seconds": 0.5, "error": "gone" }),
            ),
        ];
        for (event, name, members) in events {
            assert_eq!(of_load(event), Some((name, members)));
            assert!(EVENTS.iter().any(|(known, _)| *known == name), "{name}");
        }
        assert_eq!(of_load(Event::Again { attempt: 3, after, error: error() }), None);
    }
}
