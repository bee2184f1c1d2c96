//! A report as Markdown, for an issue or a document.

use super::super::analysis::Analysis;
use super::super::record::Record;
use super::article::Repeated;
use super::undecided::Sorted;
use super::{
    cell, client_counts, columns, dials, first_of, groups, in_common, length, limiters, noise, nothing_compared,
    plain_name, planted, shown_verdicts, spread, standing, verdicts, with_first,
};
use std::fmt::Write;

/// The report of a record as Markdown.
pub fn markdown(record: &Record, analysis: &Analysis) -> String {
    let mut text = format!("## {}\n\n", literal(&format!("{}: {}", analysis.experiment, analysis.question)));
    let servers = record.conditions.servers.values().map(|version| format!("; {version}")).collect::<String>();
    let _ = writeln!(text, "{}\n", literal(&format!("{}{}{servers}", standing(analysis), length(record))));
    for (words, disk) in &record.conditions.slow_disks {
        let _ = writeln!(text, "{}\n", literal(&format!("Disk {words}: {}", disk.sentence())));
    }
    for (label, said) in [("All arms", in_common(&analysis.common)), ("Values", dials(analysis))] {
        text.extend(said.into_iter().map(|said| format!("{label}: {}\n\n", literal(&said))));
    }
    let columns = columns(analysis);
    for (group, arms) in groups(analysis) {
        if !group.is_empty() {
            let _ = writeln!(text, "### {}\n", literal(group));
        }
        let headings: Vec<String> = columns.iter().map(|metric| literal(&metric.name.replace('_', " "))).collect();
        let _ = writeln!(text, "| arm | {} | vs first |", headings.join(" | "));
        let _ = writeln!(text, "|---|{}---:|", "---:|".repeat(columns.len()));
        for arm in arms {
            let cells: Vec<String> = columns.iter().enumerate().map(|column| cell(arm, column)).collect();
            let first = with_first(arm).unwrap_or_else(|| "-".to_owned());
            let mark = arm.promise.as_ref().map(|promise| format!(" ({promise})")).unwrap_or_default();
            let about = if arm.about.is_empty() { String::new() } else { format!(": {}", arm.about) };
            let name = literal(&format!("{}{about}{mark}", arm.name));
            let _ = writeln!(text, "| {name} | {} | {first} |", cells.join(" | "));
        }
        text.push('\n');
    }
    let mut said = analysis.missing();
    said.extend(analysis.no_verdicts.iter().map(|why| format!("no verdicts: {why}")));
    said.extend(nothing_compared(record, analysis).map(|why| format!("nothing is compared: {why}")));
    said.extend(Repeated::of(record, analysis).into_iter().flat_map(|one| [one.conclusions(), one.lines()].concat()));
    said.extend(Sorted::of(verdicts(analysis)).lines());
    said.extend(shown_verdicts(analysis, plain_name).iter().map(|one| format!("other metrics, {one}")));
    said.extend(noise(analysis).map(|one| format!("noise, {} against itself: {}", one.with, one.sentence)));
    said.extend(client_counts(analysis).iter().map(|one| format!("how many clients: {one}")));
    said.extend(
        limiters(analysis)
            .iter()
            .map(|(by, arms, evidence)| format!("limiter {}: {}. {}: {evidence}", by.name(), first_of(arms), arms[0])),
    );
    said.extend(planted(analysis).map(|one| format!("planted limiter, {one}")));
    said.extend(analysis.splits.iter().map(|one| format!("{}: {} ms", one.name, spread(one.milliseconds))));
    said.extend((analysis.multiplicity.comparisons > 1).then(|| analysis.multiplicity.to_string()));
    said.extend(analysis.notes.iter().cloned());
    text.extend(said.iter().map(|line| format!("- {}\n", literal(line))));
    text
}

/// A text on one line of Markdown, of which nothing is taken for markup, HTML or the end of a cell.
fn literal(text: &str) -> String {
    let mut literal = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => literal.push_str("&amp;"),
            '<' => literal.push_str("&lt;"),
            '>' => literal.push_str("&gt;"),
            '\n' | '\r' => literal.push(' '),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' => literal.extend(['\\', c]),
            '#' if literal.trim_start().is_empty() => literal.push_str("\\#"),
            c => literal.push(c),
        }
    }
    literal
}

#[cfg(test)]
mod tests {
    use super::super::fixture::record;
    use super::super::text;
    use super::*;

    #[test]
    fn verdicts_are_the_same_as_in_the_text_and_only_of_finished_evidence() {
        let reports = |record: &Record| {
            let analysis = Analysis::of(record);
            (text(record, &analysis).split_whitespace().collect::<Vec<_>>().join(" "), markdown(record, &analysis))
        };
        let finished = record(4, 8, 5);
        let (text, marked) = reports(&finished);
        assert!(text.contains("Verdicts:") && text.contains("Noise:") && marked.contains("- noise, "), "{marked}");
        assert!(marked.contains("8 blocks; runs of 5 s; PostgreSQL"), "{marked}");
        let mut quick = record(4, 1, 1);
        quick.conditions.quick = true;
        let mut unfinished = record(4, 8, 5);
        unfinished.conditions.blocks = 10;
        for (record, why) in [(quick, "a quick run only shows what works"), (unfinished, "8 of 10 blocks are finished")]
        {
            let (text, marked) = reports(&record);
            assert!(text.contains(&format!("No verdicts: {why}")), "{text}");
            assert!(marked.contains(&format!("- no verdicts: {why}")), "{marked}");
            for absent in ["is faster", "cannot tell", "false verdicts", "Noise:", "- noise"] {
                assert!(!text.contains(absent) && !marked.contains(absent), "{absent}: {text} {marked}");
            }
        }
    }

    #[test]
    fn a_report_says_that_more_steal_than_usual_was_accepted() {
        let mut record = record(2, 8, 5);
        assert!(!markdown(&record, &Analysis::of(&record)).contains("hypervisor"));
        record.conditions.steal_percent_max = 5.0;
        let crate::core::Outcome::Measured(measures) = &mut record.runs[0].outcome else { panic!("it is measured") };
        measures.recorded.insert("processor.steal_percent".to_owned(), 3.06);
        let marked = markdown(&record, &Analysis::of(&record));
        let note = format!("1 of them lost more than usual, the worst of {} 3.1 %", record.runs[0].arm);
        assert!(marked.contains(&literal(&note)), "{marked}");
        record.conditions.quick = true;
        assert!(!markdown(&record, &Analysis::of(&record)).contains("hypervisor"), "no quick run is void");
    }

    #[test]
    fn settings_in_which_servers_differ_are_told_unless_every_arm_sets_them() {
        let mut record = record(2, 8, 5);
        let environment = |settings: &[(&str, &str)]| {
            let facts = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            crate::core::Environment { sections: [("settings".to_owned(), facts)].into() }
        };
        let old = environment(&[("wal_compression", "lz4"), ("max_wal_size", "1GB"), ("jit", "off")]);
        let new = environment(&[("max_wal_size", "2GB"), ("jit", "off")]);
        record.conditions.environments = [("15".to_owned(), old), ("18".to_owned(), new)].into();
        for arm in &mut record.conditions.experiment.arms {
            arm.run.settings.insert("max_wal_size".to_owned(), "4GB".to_owned());
        }
        let marked = markdown(&record, &Analysis::of(&record));
        let note = "besides what the arms set, 15 and 18 differ: wal_compression is lz4 and not set";
        assert!(marked.contains(&(literal(note) + "\n")), "{marked}");
        record.conditions.experiment.arms[1].run.settings.clear();
        let marked = markdown(&record, &Analysis::of(&record));
        assert!(marked.contains("differ: max\\_wal\\_size is 1GB and 2GB, wal\\_compression"), "{marked}");
    }

    #[test]
    fn texts_of_a_record_are_no_markup() {
        assert_eq!(
            literal("a_b *c* [d](e) `f` | g\\ <h> &amp;\r\ni"),
            "a\\_b \\*c\\* \\[d\\](e) \\`f\\` \\| g\\\\ &lt;h&gt; &amp;amp;  i"
        );
        assert_eq!(["# a", " # a #", "a #1"].map(literal), ["\\# a", " \\# a #", "a #1"].map(str::to_owned));
        let mut record = record(3, 8, 5);
        let evil = "<script>x</script> | [y](javascript:z)\n# `w`";
        record.conditions.experiment.question = evil.to_owned();
        record.conditions.servers.insert("<b>".to_owned(), evil.to_owned());
        for arm in &mut record.conditions.experiment.arms {
            (arm.about, arm.group) = (evil.to_owned(), evil.to_owned());
        }
        let marked = markdown(&record, &Analysis::of(&record));
        assert!(marked.matches(&literal(evil)).count() >= 6, "{marked}");
        assert!(!marked.contains("<script") && !marked.contains("\n# ") && !marked.contains("[y]"), "{marked}");
        let rows = marked.lines().filter(|line| line.starts_with('|')).map(|line| line.replace("\\|", ""));
        let cells: std::collections::BTreeSet<usize> = rows.map(|row| row.matches('|').count()).collect();
        assert_eq!(cells.len(), 1, "{marked}");
    }
}
