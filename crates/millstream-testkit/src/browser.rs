//! Pages as a browser shows them.

use crate::limits::{BROWSER_TIME_MAX, PAGE_TIME_MAX};
use crate::need::{Need, machine_has};
use millstream_host::Command;
use std::path::Path;

/// What a browser makes of a page in a window of some width.
#[derive(Debug, PartialEq, Eq)]
pub struct Shown {
    /// Width that the page needs, in CSS pixels.
    pub width: u64,
    /// Files that the page asked for.
    pub fetched: u64,
    /// Its first heading.
    pub heading: String,
}

/// Shows a page in headless Chromium, in a window of each of these widths. `None`, after [`crate::skip`], without Chromium.
///
/// # Panics
/// If the browser shows nothing in time.
pub async fn shown(page: &Path, widths: &[u64]) -> Option<Vec<Shown>> {
    if !machine_has(&[Need::CHROMIUM]) {
        return None;
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    // The program sets no window narrower than 500 pixels, but a frame may be.
    let frames = dir.path().join("frames.html");
    std::fs::write(&frames, include_str!("browser.html")).expect("the page of frames");
    let widths: Vec<String> = widths.iter().map(u64::to_string).collect();

    let mut command = Command::new("chromium");
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom"]);
    // Otherwise one page of a file may not look into another.
    command.arg("--allow-file-access-from-files");
    command.arg(format!("--virtual-time-budget={}", PAGE_TIME_MAX.as_millis()));
    command.arg(format!("--user-data-dir={}", dir.path().join("profile").display())).env("HOME", dir.path());
    command.arg(format!("file://{}?{}#{}", frames.display(), widths.join(","), page.display()));
    let ended = command.run(BROWSER_TIME_MAX).await.expect("chromium ends");
    let title = ended.stdout.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>"));
    let (answer, _) = title.unwrap_or_else(|| panic!("{ended:?}"));
    let seen: Vec<(u64, u64, String)> =
        serde_json::from_str(answer).unwrap_or_else(|error| panic!("{error}: {answer}: {}", ended.stderr));
    Some(seen.into_iter().map(|(width, fetched, heading)| Shown { width, fetched, heading }).collect())
}
