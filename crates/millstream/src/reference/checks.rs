//! `docs/reference/checks.md`: what the doctor looks for, and from which numbers on it reports.

use super::commands::fill;
use super::{Page, table};
use millstream_doctor::{CHECKS, Check, preset};
use millstream_model::Class;

pub(super) const PAGE: Page = Page { file: "checks.md", heading: "Checks of the doctor", text };

fn text() -> String {
    let mut page = String::new();
    fill(
        &mut page,
        "",
        "What `millstream doctor` looks for. `millstream doctor explain CHECK` prints a check's manual page: what a finding \
         means, how it is found, and what to do. [doctor.md](../guides/doctor.md) says how to read a finding.",
    );
    page.push('\n');
    fill(
        &mut page,
        "",
        "A check reports from its thresholds on. The manual page says what each threshold means and where its default comes \
         from; [doctor.toml](../guides/doctor.md#thresholds-and-silence) changes it. The last column names the presets \
         (`--preset`) with the check.",
    );
    page.push('\n');
    let rows: Vec<Vec<String>> = CHECKS.iter().map(row).collect();
    page + &table(&["check", "finds", "how sure", "thresholds", "presets"], &rows)
}

fn row(check: &Check) -> Vec<String> {
    let class = match check.class {
        Class::Fact => "fact",
        Class::Arithmetic => "arithmetic",
        Class::Hypothesis => "hypothesis",
    };
    let thresholds = check.thresholds.iter().map(|(name, value)| format!("`{name}` {value}"));
    let weekly = preset::weekly();
    let presets = [("triage", preset::TRIAGE), ("deploy", preset::DEPLOY), ("weekly", &weekly[..])];
    let presets = presets.iter().filter(|(_, checks)| checks.contains(&check.id)).map(|(name, _)| (*name).to_owned());
    vec![
        format!("`{}`", check.id),
        check.about.to_owned(),
        class.to_owned(),
        thresholds.collect::<Vec<_>>().join(", "),
        presets.collect::<Vec<_>>().join(", "),
    ]
}
