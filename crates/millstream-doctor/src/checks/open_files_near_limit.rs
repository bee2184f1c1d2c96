//! Check `open-files-near-limit`: the server's first process, or the machine, can open hardly any more files.

use crate::check::{Check, Look, Looked, Seen, Task};
use crate::host::Host;
use crate::limits::OPEN_FILES_COUNTED_MAX;
use millstream_model::{Change, Class, Danger, Finding, Level, Restart};

pub(super) const CHECK: Check = Check {
    id: "open-files-near-limit",
    about: "hardly any more files can be opened, after which statements fail and clients are refused",
    class: Class::Arithmetic,
    thresholds: &[("percent", 80.0), ("critical_percent", 95.0)],
    manual: include_str!("open_files_near_limit.md"),
    looks: &[Look::Host(look)],
};

/// Open files of the machine: allocated, unused, most.
const MACHINE: &str = "/proc/sys/fs/file-nr";

fn look(host: &Host, task: &Task) -> Looked {
    let demands = host.demands()?;
    let server_may = demands.files_per_process.saturating_mul(demands.clients);
    let (process, unseen) = process(host, task);
    let (machine, hidden) = match machine(host) {
        Some((open, most)) => (machine_finding(task, open, most, server_may), None),
        None => (None, Some(Host::hidden("the open files of the machine", MACHINE))),
    };
    let seen: Seen = machine.into_iter().chain(process).collect();
    Ok(seen.but(unseen).but(hidden))
}

/// A level, if so many percent are worth a finding.
fn level(task: &Task, percent: f64) -> Option<Level> {
    let level = if percent >= task.threshold("critical_percent") { Level::Critical } else { Level::Warning };
    (percent >= task.threshold("percent")).then_some(level)
}

/// A finding if the server's first process has almost as many files open as it may, and what could not be seen.
fn process(host: &Host, task: &Task) -> (Option<Finding>, Option<String>) {
    let Some(process) = host.postmaster() else {
        return (None, Some("the server's first process, which this account does not see".to_owned()));
    };
    let limits = format!("{process}/limits");
    let Some(text) = host.word(&limits) else {
        return (None, Some(Host::hidden("how many files the server's first process may open", &limits)));
    };
    // Without a limit there is no number.
    let Some(most) = most_open(&text) else { return (None, None) };
    let files = format!("{process}/fd");
    let Ok(open) = std::fs::read_dir(host.path(&files)) else {
        let why = "run the doctor as root, or as the server's account";
        let what = Host::hidden("the files that the server's first process has open", &files);
        return (None, Some(format!("{what}; {why}")));
    };
    let open = open.take(OPEN_FILES_COUNTED_MAX).count();
    let percent = 100.0 * open as f64 / most;
    let Some(level) = level(task, percent) else { return (None, None) };
    let sentence = format!("the server's first process has {open} files open, and may open {most:.0}");
    let finding = task
        .finding(level, "postmaster", sentence)
        .endangers(Danger::Service)
        .with("open files", open, &files)
        .with("most", format!("{most:.0}"), &limits)
        .unless("it opens no more: with io_method = io_uring it opens one for each session when it starts")
        .repaired("give the service a higher limit, and start it again", "the server restarts")
        .run(["$ systemctl edit postgresql@.service  # [Service] LimitNOFILE=65536"])
        .needs(Restart::Server);
    (Some(finding), None)
}

/// The number of files that a process may open, from its `limits`.
fn most_open(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok().filter(|most| *most > 0.0)
}

/// Open files of the machine, and how many there may be.
fn machine(host: &Host) -> Option<(f64, f64)> {
    let text = host.word(MACHINE)?;
    let mut numbers = text.split_whitespace().map(|word| word.parse::<f64>().ok());
    let (open, _, most) = (numbers.next()??, numbers.next()??, numbers.next()??);
    (most > 0.0).then_some((open, most))
}

fn machine_finding(task: &Task, open: f64, most: f64, server_may: u64) -> Option<Finding> {
    let percent = 100.0 * open / most;
    let level = level(task, percent)?;
    let setting = "fs.file-max";
    let sentence = format!("{percent:.0} % of the files that all programs of the machine may open are open");
    let twice = format!("{:.0}", 2.0 * most);
    Some(
        task.finding(level, setting, sentence)
            .endangers(Danger::Service)
            .with("open", format!("{open:.0}"), MACHINE)
            .with("most", format!("{most:.0}"), MACHINE)
            .with("that the server may open", server_may, "max_files_per_process times max_connections")
            .unless("another program opens them and does not close them")
            .repaired(
                "let there be twice as many; or set max_files_per_process lower, so that sessions close files earlier",
                "each open file takes about a kilobyte of the kernel's memory",
            )
            .run([format!("$ sysctl -w {setting}={twice}")])
            .changes(Change::new("sysctl", setting, &twice)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_counts() {
        let line = |soft: &str| format!("Max processes  7 7 processes\nMax open files      {soft}   1048576   files\n");
        assert_eq!(most_open(&line("1024")), Some(1024.0));
        assert_eq!(most_open(&line("unlimited")), None);
        assert_eq!(most_open("Max processes  7 7 processes\n"), None);
    }
}
