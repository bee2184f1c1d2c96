//! `lab compare`: compares records of an experiment, two sides by verdicts, and any number beside each other.

use super::run::can_be_written;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note, write_page};
use crate::table::{Align, Table};
use millstream_lab::Spread;
use millstream_lab::experiments::report::{lineup, with_unit};
use millstream_lab::experiments::{Difference, Differences, Lineup, Record, Side};
use std::path::Path;

/// Most facts of the surroundings that a comparison prints.
const SURROUNDINGS_SHOWN: usize = 20;

/// Compares sides of records. The records of a side are separated by commas.
pub fn compare(
    sides: &[String],
    fail_above: Option<f64>,
    html: Option<&Path>,
    output: Output,
) -> Result<Exit, Failure> {
    if fail_above.is_some() && sides.len() > 2 {
        let why = "--fail-above compares two sides";
        return Err(Failure::user(why).hint("name two, with the records of each separated by commas"));
    }
    html.map_or(Ok(()), can_be_written)?;
    let found = Lineup::of(named(sides)?)?;
    let exit = match found.differences.as_slice() {
        [two] => of_two(two, fail_above, output)?,
        _ => beside_each_other(&found, output)?,
    };
    if let Some(file) = html {
        write_page(file, &lineup(&found))?;
    }
    Ok(exit)
}

/// The sides, each read and with a name of its own.
fn named(sides: &[String]) -> Result<Vec<Side>, Failure> {
    let short: Vec<String> = sides.iter().map(|paths| name(paths)).collect();
    let is_alone = |name: &String| short.iter().filter(|other| *other == name).count() == 1;
    let of = |(paths, name): (&String, &String)| {
        let read = |path: &str| Record::read(Path::new(path)).map_err(Failure::from);
        let records = paths.split(',').map(read).collect::<Result<Vec<Record>, Failure>>()?;
        let name = if is_alone(name) { name } else { paths };
        Ok(Side::new(name.clone(), records))
    };
    sides.iter().zip(&short).map(of).collect()
}

/// What the directories of a side's records have in common, without the number of the boot.
fn name(paths: &str) -> String {
    let dir = |path: &str| {
        let path = Path::new(path);
        let is_file = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("record.json"));
        let dir = path.parent().filter(|_| is_file).unwrap_or(path);
        dir.file_name().unwrap_or(dir.as_os_str()).to_string_lossy().into_owned()
    };
    let mut names = paths.split(',').map(dir);
    let first = names.next().unwrap_or_default();
    let common = names.fold(first.clone(), |common, other| {
        let same = common.chars().zip(other.chars()).take_while(|(a, b)| a == b);
        same.map(|(one, _)| one).collect()
    });
    if first.is_empty() {
        return paths.to_owned();
    }
    if common == first {
        return first;
    }
    let common = common.trim_end_matches(['-', '_', '.']);
    if common.is_empty() { paths.to_owned() } else { common.to_owned() }
}

/// The medians of an arm of all sides, and how many times that of the first each is. The names of records are long.
fn medians(found: &Lineup, arm: &str) -> Table {
    let mut table = Table::new(&[
        ("metric", Align::Left),
        ("median", Align::Right),
        ("vs first", Align::Right),
        ("record", Align::Wrap),
    ]);
    for row in found.rows.iter().filter(|row| row.arm == arm) {
        let median = |value: &Option<Spread>| value.map(|spread| spread.median);
        let first = row.values.first().and_then(median).filter(|first| *first > 0.0);
        for (side, own) in found.sides.iter().zip(row.values.iter().map(median)) {
            let shown = own.map_or_else(|| "-".to_owned(), |own| with_unit(own, &row.metric.unit));
            let ratio = own.zip(first).map_or_else(|| "-".to_owned(), |(own, first)| format!("{:.3}", own / first));
            table.row([row.metric.name.to_string(), shown, ratio, side.name.clone()]);
        }
    }
    table
}

fn of_two(found: &Differences, fail_above: Option<f64>, output: Output) -> Result<Exit, Failure> {
    if let (Some(why), Some(_)) = (&found.no_verdicts, fail_above) {
        return Err(Failure::user("--fail-above needs a verdict, and these records are too few for one").hint(why));
    }
    let Differences { arms, shown, multiplicity, surroundings, no_verdicts } = found;
    if output.is_json() {
        output.json(found)?;
    } else {
        // Without verdicts, the table says all that there is to say of what was compared.
        let says = |one: &&Difference| no_verdicts.is_none() || one.comparison.is_none();
        for one in arms.iter().filter(says) {
            output.line(&format!("{}: {}", one.arm, one.sentence))?;
        }
        for one in shown.iter().filter(says) {
            output.line(&format!("{}, {}: {}", one.arm, one.metric, one.sentence))?;
        }
        if let Some(why) = no_verdicts {
            output.line(&format!("no verdicts: {why}"))?;
        } else if multiplicity.comparisons > 1 {
            output.line(&multiplicity.to_string())?;
        }
        let all: Vec<&Difference> = arms.iter().chain(shown).filter(|one| one.comparison.is_some()).collect();
        if !all.is_empty() {
            output.table(&numbers(&all))?;
        }
        for one in surroundings.iter().take(SURROUNDINGS_SHOWN) {
            let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
            output.line(&format!("not the same: {} was {}, is {}", one.name, value(&one.a), value(&one.b)))?;
        }
        if surroundings.len() > SURROUNDINGS_SHOWN {
            output
                .line(&format!("and {} more facts; --output json has all", surroundings.len() - SURROUNDINGS_SHOWN))?;
        }
    }
    let Some(most) = fail_above else { return Ok(Exit::Done) };
    let failed: Vec<String> =
        arms.iter().filter_map(|one| Some(format!("{}: {}", one.arm, one.failure(most)?))).collect();
    for one in &failed {
        note(&format!("failed: {one}"));
    }
    Ok(if failed.is_empty() { Exit::Done } else { Exit::Findings })
}

/// The numbers of all, then what can be said of each compared with the first.
fn beside_each_other(found: &Lineup, output: Output) -> Result<Exit, Failure> {
    if output.is_json() {
        output.json(found)?;
        return Ok(Exit::Done);
    }
    if found.sides.iter().any(|side| side.records.iter().any(|record| record.conditions.emulated)) {
        output.line("emulated: the numbers say nothing about speed, so none is printed; --html draws them")?;
    } else {
        let mut arms: Vec<&str> = found.rows.iter().map(|row| row.arm.as_str()).collect();
        arms.dedup();
        for arm in arms {
            output.line(&format!("{arm}:"))?;
            output.table(&medians(found, arm))?;
            output.line("")?;
        }
    }
    for (side, differences) in found.sides.iter().skip(1).zip(&found.differences) {
        let says = |one: &&Difference| differences.no_verdicts.is_none() || one.comparison.is_none();
        for one in differences.arms.iter().filter(says) {
            output.line(&format!("{}, the second, {}: {}", side.name, one.arm, one.sentence))?;
        }
    }
    if let Some(why) = found.differences.iter().find_map(|one| one.no_verdicts.as_ref()) {
        output.line(&format!("no verdicts: {why}"))?;
    }
    for fact in found.facts.iter().take(SURROUNDINGS_SHOWN) {
        let values: Vec<&str> = fact.values.iter().map(|value| value.as_deref().unwrap_or("nothing")).collect();
        output.line(&format!("not the same: {}: {}", fact.name, values.join(", ")))?;
    }
    if found.facts.len() > SURROUNDINGS_SHOWN {
        output.line(&format!("and {} more facts; --output json has all", found.facts.len() - SURROUNDINGS_SHOWN))?;
    }
    Ok(Exit::Done)
}

/// The numbers behind the verdicts of a comparison.
fn numbers(all: &[&Difference]) -> Table {
    let mut table = Table::new(&[
        ("arm", Align::Left),
        ("metric", Align::Left),
        ("first", Align::Right),
        ("second", Align::Right),
        ("second / first", Align::Right),
        ("interval", Align::Right),
    ]);
    for one in all {
        let median =
            |side: Option<Spread>| side.map_or_else(|| "-".to_owned(), |spread| with_unit(spread.median, &one.unit));
        let ratio = one.comparison.map_or_else(|| "-".to_owned(), |found| format!("{:.3}", found.ratio));
        let interval = one.comparison.and_then(|found| found.interval);
        let interval = interval.map_or_else(|| "-".to_owned(), |ends| format!("{:.3}-{:.3}", ends.low, ends.high));
        table.row([one.arm.clone(), one.metric.clone(), median(one.first), median(one.second), ratio, interval]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_lab::core::Metric;
    use millstream_lab::experiments::Row;

    #[test]
    fn the_numbers_of_an_arm_fit_80_columns() {
        let metric = Metric::by_name("write_mb_per_second").unwrap().clone();
        let rows = ["copy/fresh", "base"].map(|arm| Row {
            arm: arm.to_owned(),
            metric: metric.clone(),
            values: vec![Spread::of([2.0]), Spread::of([3.0]), None],
        });
        let side = |n: u32| Side::new(format!("2026-11-22-16x-intel-xeon-ingest-sequential-{n}"), Vec::new());
        let sides = (1..=3).map(side).collect();
        let (statements, differences, facts) = (Vec::new(), Vec::new(), Vec::new());
        let found = Lineup { sides, rows: rows.to_vec(), statements, differences, facts };
        let text = medians(&found, "base").text(Some(80));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("1.500") && text.matches("write_mb_per_second").count() == 3, "{text}");
    }

    #[test]
    fn a_side_is_named_by_what_its_records_have_in_common() {
        assert_eq!(name("guests/6.1.0-53-cloud-1"), "6.1.0-53-cloud-1");
        assert_eq!(name("guests/6.1.0-1,guests/6.1.0-2/record.json.zst"), "6.1.0");
        assert_eq!([name("a/x,b/y"), name("."), name("record.json")], ["a/x,b/y", ".", "record.json"]);
    }
}
