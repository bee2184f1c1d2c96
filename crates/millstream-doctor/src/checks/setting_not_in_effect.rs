//! Check `setting-not-in-effect`: settings that were written and are not used.

use super::written_setting::{Line, Setting};
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::limits::OVERRIDDEN_SHOWN_MAX;
use crate::server::Server;
use millstream_model::{Class, Finding, Level, Restart};

pub(super) const CHECK: Check = Check {
    id: "setting-not-in-effect",
    about: "settings that were written and are not used: they wait for a restart or a reload, are wrong, or are overridden",
    class: Class::Fact,
    thresholds: &[],
    manual: include_str!("setting_not_in_effect.md"),
    looks: &[Look::Server(|server, task| Box::pin(look(server, task)))],
};

async fn look(server: &Server, task: Task) -> Looked {
    let client = &server.session.client;
    let allowed = "select has_table_privilege('pg_file_settings', 'select') \
                   and has_function_privilege('pg_show_all_file_settings()', 'execute')";
    let allowed: bool = client.query_one(allowed, &[]).await?.get(0);
    // This comes first: it also marks the settings of this session that wait for a restart, whether the files were loaded
    // again or not.
    let lines = match allowed {
        true => client.query("select * from pg_file_settings order by seqno", &[]).await?,
        false => Vec::new(),
    };
    let lines: Vec<Line> = lines.iter().map(Line::of).collect();
    let settings = client.query("select * from pg_settings order by name", &[]).await?;
    let settings: Vec<Setting> = settings.iter().map(Setting::of).collect();
    let why = "the configuration files; grant select on pg_file_settings and execute on pg_show_all_file_settings to this role";
    Ok(seen(&lines, &settings, &task).but((!allowed).then(|| why.to_owned())))
}

/// What the lines and the settings show together.
fn seen(lines: &[Line], settings: &[Setting], task: &Task) -> Seen {
    let mut found: Vec<Finding> =
        settings.iter().filter(|one| one.waits && !is_of_command_line(one)).map(|one| waiting(one, task)).collect();
    for line in lines {
        let setting = settings.iter().find(|setting| line.sets(setting));
        let error = line.error.as_ref().filter(|error| !waits(setting, settings, error));
        found.extend(error.map(|error| wrong(line, setting, error, task)));
    }
    let has_error = lines.iter().any(|line| line.error.is_some());
    let mut overridden = Vec::new();
    for setting in settings {
        let own: Vec<&Line> = lines.iter().filter(|line| line.sets(setting)).collect();
        let Some((last, earlier)) = own.split_last() else {
            // If the files have an error, nobody knows which lines count.
            let is_gone = setting.source == "configuration file" && !setting.waits && !lines.is_empty() && !has_error;
            found.extend(is_gone.then(|| unread(setting, None, task)));
            continue;
        };
        let loses =
            |line: &Line, winner: &str| setting.is_chosen(&line.written) && setting.differ(&line.written, winner);
        if is_of_command_line(setting) {
            let losing = own.iter().filter(|line| loses(line, &setting.now));
            overridden.extend(losing.map(|line| Overridden { setting, line, by: None }));
            continue;
        }
        let is_of_file = ["configuration file", "default"].contains(&setting.source.as_str());
        if last.applied && is_of_file && setting.differ(&last.written, &setting.now) {
            found.push(unread(setting, Some(last), task));
        } else if !setting.waits {
            let losing = earlier.iter().filter(|line| line.error.is_none() && loses(line, &last.written));
            overridden.extend(losing.map(|line| Overridden { setting, line, by: Some(last) }));
        }
    }
    found.extend((!overridden.is_empty()).then(|| lost(&overridden, task)));
    found.into_iter().collect()
}

/// The server was started with the setting. No file changes that.
fn is_of_command_line(setting: &Setting) -> bool {
    setting.source == "command line"
}

/// Whether an error only says that a setting waits for a restart. If its line was deleted, the error names it, in whatever
/// language.
fn waits(setting: Option<&Setting>, settings: &[Setting], error: &str) -> bool {
    match setting {
        Some(setting) => setting.waits,
        None => settings.iter().any(|one| one.waits && error.contains(&format!("\"{}\"", one.name))),
    }
}

fn waiting(setting: &Setting, task: &Task) -> Finding {
    let sentence = "its new value waits for a restart of the server";
    task.finding(Level::Warning, setting.name.clone(), sentence)
        .with("value now", setting.shown(&setting.now), "pg_settings")
        .with("waits for a restart", "yes", "pg_settings.pending_restart")
        .repaired("restart the server, or take the new value back", "a restart ends all sessions")
        .needs(Restart::Server)
}

fn wrong(line: &Line, setting: Option<&Setting>, error: &str, task: &Task) -> Finding {
    let place = line.place();
    let name = line.name.clone().unwrap_or_else(|| place.clone());
    let (then, command, restart) = match setting.is_some_and(|setting| setting.needs_restart) {
        true => ("restart the server", None, Restart::Server),
        false => ("reload", Some(RELOAD), Restart::Reload),
    };
    task.finding(Level::Warning, name, format!("the server cannot use {place}: {error}"))
        .with_known("written", setting.map(|setting| setting.shown(&line.written)), "pg_file_settings")
        .with_known("value now", setting.map(|setting| setting.shown(&setting.now)), "pg_settings")
        .with_known("error", setting.is_none().then_some(error), "pg_file_settings")
        .repaired(format!("correct {place}, then {then}"), "until you correct it, the server does not start again")
        .run(command)
        .needs(restart)
}

const RELOAD: &str = "select pg_reload_conf()";

/// The files have changed, and the server has not loaded them again. Without a line, the one that set it was deleted.
fn unread(setting: &Setting, line: Option<&Line>, task: &Task) -> Finding {
    let sentence = match line {
        Some(line) => format!("{} sets another value, and the server has not loaded the file since", line.place()),
        None => "no line of the configuration files sets it now, and the server has not loaded them since".to_owned(),
    };
    let written = line.map_or_else(|| "nothing".to_owned(), |line| setting.shown(&line.written));
    task.finding(Level::Warning, setting.name.clone(), sentence)
        .with("written", written, "pg_file_settings")
        .with("value now", setting.shown(&setting.now), "pg_settings")
        .unless("somebody is editing the file, and loads it when it is complete")
        .repaired("load the files again, or take the change back", "other changes of the files take effect, too")
        .run([RELOAD])
        .needs(Restart::Reload)
}

/// A line that does not count, because a later one does, or the command line of the server.
struct Overridden<'a> {
    setting: &'a Setting,
    line: &'a Line,
    by: Option<&'a Line>,
}

/// All such lines together: whoever uses `alter system` leaves many behind.
fn lost(all: &[Overridden<'_>], task: &Task) -> Finding {
    let sentence =
        format!("lines of the configuration files that do not count, because others override them: {}", all.len());
    let mut finding = task.finding(Level::Info, "overridden", sentence);
    for Overridden { setting, line, by } in all.iter().take(OVERRIDDEN_SHOWN_MAX) {
        let winner = match by {
            Some(by) => format!("{} sets {}", by.place(), setting.shown(&by.written)),
            None => "the command line of the server overrides it".to_owned(),
        };
        let shown = format!("{} sets {}, but {winner}", line.place(), setting.shown(&line.written));
        finding = finding.with(&setting.name, shown, "pg_file_settings");
    }
    finding.unless("it is meant so: postgresql.auto.conf, which alter system writes, is read last").repaired(
        "delete the lines that do not count, so that nobody relies on them; or take the later value back with alter \
         system reset",
        "none: they have no effect",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn subjects(lines: &[Line], settings: &[Setting]) -> Vec<String> {
        let found = seen(lines, settings, &Task::of(&CHECK, BTreeMap::new())).findings;
        found.into_iter().map(|finding| finding.subject).collect()
    }

    fn waiting_setting(now: &str, source: &str) -> Setting {
        let mut setting = Setting::pages("shared_buffers", now, source);
        setting.waits = true;
        setting
    }

    #[test]
    fn the_command_line_overrides_the_files_also_after_a_restart() {
        let setting = |now: &str| waiting_setting(now, "command line");
        let lines = [Line::good("shared_buffers", "64MB", 1)];
        assert_eq!(subjects(&lines, &[setting("16384")]), ["overridden"]);
        assert_eq!(subjects(&lines, &[setting("8192")]), [""; 0]);
        assert_eq!(subjects(&[Line::good("shared_buffers", "4MB", 1)], &[setting("8192")]), [""; 0], "as a new server");
    }

    #[test]
    fn a_line_that_waits_for_a_restart_has_one_finding() {
        let setting = [waiting_setting("16384", "configuration file")];
        let error = |name: Option<&str>, error: &str| {
            let mut line = Line::good("", "64MB", 9);
            (line.name, line.error, line.applied) = (name.map(str::to_owned), Some(error.to_owned()), false);
            line
        };
        let changed = error(Some("shared_buffers"), "setting could not be applied");
        let deleted = error(None, "Parameter \"shared_buffers\" kann nicht geändert werden");
        for line in [changed, deleted] {
            assert_eq!(subjects(&[Line::good("shared_buffers", "128MB", 1), line], &setting), ["shared_buffers"]);
        }
        let other = error(None, "could not open file");
        assert_eq!(subjects(&[other], &setting), ["shared_buffers", "line 9 of /c"]);
    }
}
