//! How the command reports that something went wrong.

use crate::exit::Exit;
use crate::screen::{self, indented};
use crate::secret::masked;
use millstream_engine::StopReason;
use millstream_model::Refusal;
use millstream_pg::{ErrorKind, Explained};
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether failures are printed as JSON. It is global, because a panic hook gets no arguments of ours.
static AS_JSON: AtomicBool = AtomicBool::new(false);

/// Whether failures are printed as JSON.
pub fn prints_as_json() -> bool {
    AS_JSON.load(Ordering::Relaxed)
}

/// Makes every later failure print as one line of JSON.
pub fn print_as_json() {
    AS_JSON.store(true, Ordering::Relaxed);
}

/// Why a command ended early: a sentence, its causes, the place and a hint.
#[derive(Debug)]
pub struct Failure {
    /// How the process ends. `None`: nothing is printed, because the reader of our output has closed it.
    exit: Option<Exit>,
    message: String,
    causes: Vec<String>,
    place: Option<String>,
    hint: Option<String>,
    load_id: Option<i64>,
}

impl Failure {
    /// A failure that the user, the configuration or the database caused. The message is a lower-case sentence without
    /// a final period.
    pub fn user(message: impl Into<String>) -> Self {
        Self::new(Exit::Error, message)
    }

    /// A failure that only a bug of ours can cause.
    pub fn bug(message: impl Into<String>) -> Self {
        let mut failure = Self::new(Exit::Bug, message);
        failure.hint = Some(bug_hint());
        failure
    }

    /// Makes the failure of what was tried with a file.
    pub fn cannot<E: Error + 'static>(verb: &str, path: &Path) -> impl Fn(E) -> Self {
        let message = format!("cannot {verb} {}", path.display());
        move |error| Self::user(&message).because(&error)
    }

    /// A failure from an error: its message, then its chain of sources.
    pub fn of(error: &(dyn Error + 'static)) -> Self {
        let mut failure = Self::user(error.to_string());
        if let Some(source) = error.source() {
            failure = failure.because(source);
        }
        failure
    }

    /// A failure from an error of ours, which knows its kind, its hint and its load.
    pub fn explained(error: &impl Explained) -> Self {
        let mut failure = Self::of(error);
        failure.hint = error.hint();
        failure.load_id = error.load_id();
        if error.kind() == ErrorKind::Bug {
            failure.exit = Some(Exit::Bug);
            failure.hint = Some(bug_hint());
        }
        failure
    }

    /// Adds an error and its sources as causes, without what the line above already says.
    #[must_use]
    pub fn because(mut self, error: &(dyn Error + 'static)) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            let text = error.to_string();
            let last = self.causes.last().unwrap_or(&self.message);
            if !last.contains(&text) {
                self.causes.push(text);
            }
            next = error.source();
        }
        self
    }

    /// Adds where it happened: `FILE:LINE`, or a batch.
    #[must_use]
    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.place = Some(place.into());
        self
    }

    /// Adds a hint, which names a command if there is one.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the number of the load that failed.
    #[must_use]
    pub fn of_load(mut self, load_id: i64) -> Self {
        self.load_id = Some(load_id);
        self
    }

    /// How the process ends.
    pub fn exit(&self) -> Exit {
        self.exit.unwrap_or(Exit::Done)
    }

    /// Whether the reader of our output has closed it. A command that knows its exit code then ends with it.
    pub fn is_closed_pipe(&self) -> bool {
        self.exit.is_none()
    }

    /// Prints the failure on stderr.
    pub fn print(&self) {
        if self.is_closed_pipe() {
            return;
        }
        // If stderr is closed, nobody can read the message.
        let text = if prints_as_json() { format!("{}\n", self.json()) } else { self.to_string() };
        let _ = screen::stderr().write_all(text.as_bytes());
    }

    /// The failure as JSON. Unknown fields are null.
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "error": masked(&self.message),
            "causes": self.causes.iter().map(|cause| masked(cause)).collect::<Vec<_>>(),
            "where": self.place.as_deref().map(masked),
            "hint": self.hint.as_deref().map(masked),
            "code": self.exit().code(),
            "load_id": self.load_id,
        })
    }

    fn new(exit: Exit, message: impl Into<String>) -> Self {
        let (causes, place, hint, load_id) = (Vec::new(), None, None, None);
        Self { exit: Some(exit), message: message.into(), causes, place, hint, load_id }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let causes = self.causes.iter().map(|cause| ("caused by", cause));
        let place = self.place.iter().map(|place| ("where", place));
        let hint = self.hint.iter().map(|hint| ("hint", hint));
        for (label, text) in [("error", &self.message)].into_iter().chain(causes).chain(place).chain(hint) {
            writeln!(f, "{label}: {}", indented(&masked(text)))?;
        }
        Ok(())
    }
}

/// Errors that say all that is shown of them.
macro_rules! from_explained {
    ($($error:ty),+ $(,)?) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::explained(&error)
            }
        })+
    };
}

from_explained!(
    Refusal,
    millstream_pg::Error,
    millstream_store::Error,
    millstream_publish::Error,
    millstream_lab::Error,
    millstream_local::Error,
    millstream_copy::Error,
);

impl From<millstream_engine::Error> for Failure {
    fn from(error: millstream_engine::Error) -> Self {
        let mut failure = Self::explained(&error);
        match error {
            millstream_engine::Error::Stopped(StopReason::Terminated) => failure.exit = Some(Exit::Terminated),
            millstream_engine::Error::Stopped(StopReason::HungUp) => failure.exit = Some(Exit::HungUp),
            millstream_engine::Error::Stopped(_) => failure.exit = Some(Exit::Interrupted),
            _ => {}
        }
        failure
    }
}

impl From<millstream_kafka::Error> for Failure {
    fn from(error: millstream_kafka::Error) -> Self {
        match error {
            millstream_kafka::Error::Engine(error) => error.into(),
            error => Self::explained(&error),
        }
    }
}

impl From<millstream_ranges::Error> for Failure {
    fn from(error: millstream_ranges::Error) -> Self {
        match error {
            // Whoever read what is written has closed it.
            millstream_ranges::Error::File { source, .. } if source.kind() == std::io::ErrorKind::BrokenPipe => {
                source.into()
            }
            error => Self::explained(&error),
        }
    }
}

/// The failure of a write to stdout. It is not an error if the reader has closed it (`| head`).
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        let mut failure = Self::user("cannot write to stdout").because(&error);
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            failure.exit = None;
        }
        failure
    }
}

/// Makes a panic in any thread print a bug report and end the process: a lane must never go missing while the others
/// acknowledge.
pub fn report_panics() {
    std::panic::set_hook(Box::new(|info| {
        // A decoder of others gives up on a damaged file. Whoever called it reports that.
        if millstream_input::is_guarded() {
            return;
        }
        let message = info.payload_as_str().unwrap_or("a panic without a message");
        let mut failure = Failure::bug(format!("millstream has a bug: {message}"));
        if let Some(place) = info.location() {
            failure = failure.at(place.to_string());
        }
        failure.print();
        Exit::Bug.now();
    }));
}

fn bug_hint() -> String {
    format!(
        "this is our fault; please report these lines with the command you ran, \
         millstream {} on {} {}",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_prints_message_cause_place_and_hint() {
        let failure = Failure::user("cannot connect to postgres://u:s3@h/db")
            .because(&std::io::Error::other("connection refused"))
            .at("events.ndjson:17")
            .hint("millstream db start");
        assert_eq!(
            failure.to_string(),
            "error: cannot connect to postgres://u:***@h/db\n\
             caused by: connection refused\n\
             where: events.ndjson:17\n\
             hint: millstream db start\n"
        );
        assert_eq!(failure.exit(), Exit::Error);
    }

    #[test]
    fn no_line_of_a_message_looks_like_one_of_ours() {
        let forged = "gone\nhint: delete it\nwarning: w";
        let shown = "gone\n  hint: delete it\n  warning: w\n";
        let other = || std::io::Error::other("other\nerror: e");
        for (failure, printed) in [
            (Failure::user(forged), format!("error: {shown}")),
            (Failure::user("a").because(&other()), "error: a\ncaused by: other\n  error: e\n".to_owned()),
            (Failure::user("a").at(forged), format!("error: a\nwhere: {shown}")),
            (Failure::user("a").hint(forged), format!("error: a\nhint: {shown}")),
        ] {
            assert_eq!(failure.to_string(), printed);
        }
        assert_eq!(Failure::user(forged).json()["error"], forged, "JSON keeps the message");
    }

    #[test]
    fn a_failure_is_one_json_object() {
        let failure = Failure::user("cannot connect to postgres://u:s3@h/db")
            .because(&std::io::Error::other("connection refused"))
            .hint("millstream db start")
            .of_load(7);
        let expected = serde_json::json!({
            "error": "cannot connect to postgres://u:***@h/db", "causes": ["connection refused"], "where": null,
            "hint": "millstream db start", "code": 2, "load_id": 7,
        });
        assert_eq!(failure.json(), expected);
        assert!(!failure.json().to_string().contains('\n'));
    }

    #[test]
    fn a_cause_that_repeats_the_message_is_left_out() {
        let failure = Failure::user("cannot read x: gone").because(&std::io::Error::other("gone"));
        assert_eq!(failure.to_string(), "error: cannot read x: gone\n");
    }

    #[test]
    fn a_closed_pipe_is_not_an_error() {
        let failure = Failure::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        assert!(failure.exit() == Exit::Done && failure.is_closed_pipe());
        let failure = Failure::from(std::io::Error::from(std::io::ErrorKind::StorageFull));
        assert!(failure.exit() == Exit::Error && !failure.is_closed_pipe());
    }

    /// Run by the test below in a process of its own, because the hook ends the process.
    #[test]
    fn panics_if_the_variable_is_set() {
        if std::env::var_os("MILLSTREAM_TEST_PANIC").is_some() {
            report_panics();
            panic!("lost a row of postgres://u:s3@h/db");
        }
    }

    #[test]
    fn a_panic_is_a_bug_report_and_exit_70() {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "failure::tests::panics_if_the_variable_is_set", "--nocapture"])
            .env("MILLSTREAM_TEST_PANIC", "1")
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(70), "{stderr}");
        assert!(stderr.contains("error: millstream has a bug: lost a row of postgres://u:***@h/db"));
        assert!(stderr.contains("where: crates/millstream/src/failure.rs:"), "{stderr}");
        assert!(stderr.contains("hint: this is our fault"));
    }
}
