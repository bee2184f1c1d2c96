//! Pages as a browser shows them.

use crate::limits::{BROWSER_TIME_MAX, PAGE_BYTES_MAX, PAGE_TIME_MAX};
use crate::need::{Need, machine_has};
use millstream_host::Command;

/// Widths of a telephone and of a desk, in CSS pixels.
const WIDTHS: [u64; 2] = [400, 1280];

/// Shows a page in headless Chromium, on a telephone and on a desk: nothing is cut off or has to be scrolled sideways, nothing
/// else is fetched, and its first heading begins like this. Not without Chromium, after [`crate::skip`].
///
/// # Panics
/// If the page is shown otherwise, or very large; if the browser shows nothing in time.
pub async fn assert_shown_whole(page: &str, heading: &str) {
    assert!(page.len() < PAGE_BYTES_MAX, "{heading}: {} bytes", page.len());
    if !machine_has(&[Need::CHROMIUM]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    // The program sets no window narrower than 500 pixels, but a frame may be.
    let frames = dir.path().join("frames.html");
    std::fs::write(&frames, include_str!("browser.html")).expect("the page of frames");
    let file = dir.path().join("page.html");
    std::fs::write(&file, page).expect("the page");
    let widths = WIDTHS.map(|width| width.to_string()).join(",");

    let mut command = Command::new("chromium");
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom"]);
    // Otherwise one page of a file may not look into another.
    command.arg("--allow-file-access-from-files");
    command.arg(format!("--virtual-time-budget={}", PAGE_TIME_MAX.as_millis()));
    command.arg(format!("--user-data-dir={}", dir.path().join("profile").display())).env("HOME", dir.path());
    command.arg(format!("file://{}?{}#{}", frames.display(), widths, file.display()));
    let ended = command.run(BROWSER_TIME_MAX).await.expect("chromium ends");
    let title = ended.stdout.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>"));
    let (answer, _) = title.unwrap_or_else(|| panic!("{ended:?}"));
    let seen: Vec<(u64, u64, String)> =
        serde_json::from_str(answer).unwrap_or_else(|error| panic!("{error}: {answer}: {}", ended.stderr));
    assert_eq!(seen.len(), WIDTHS.len(), "{seen:?}");
    for ((width, fetched, begin), asked) in seen.iter().zip(WIDTHS) {
        assert!(*width <= asked && *fetched == 0 && begin.starts_with(heading), "{heading}: {seen:?}");
    }
}
