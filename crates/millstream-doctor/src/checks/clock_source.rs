//! Check `clock-source`: reading the clock is slow.

use crate::check::{Check, Look, Looked, Seen, Task};
use crate::host::Host;
use millstream_model::{Class, Level, Repair};
use std::hint::black_box;
use std::time::Instant;

pub(super) const CHECK: Check = Check {
    id: "clock-source",
    about: "the kernel reads the time from a slow clock, which makes each measured step of a statement slower",
    class: Class::Fact,
    thresholds: &[],
    manual: include_str!("clock_source.md"),
    looks: &[Look::Host(look)],
};

const DIR: &str = "/sys/devices/system/clocksource/clocksource0";

/// Clocks that a program reads without entering the kernel.
const FAST: &[&str] = &["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"];

/// Clocks that are slow on every machine: devices outside the processor, and the timer's own count.
const SLOW: &[&str] = &["hpet", "acpi_pm", "jiffies", "refined-jiffies"];

/// The risk of another clock.
const RISK: &str =
    "if the counters of the processors differ, the time may jump; the kernel watches that, and changes back";

/// Readings by which the cost of one is measured.
const READINGS: u32 = 1_000;

fn look(host: &Host, task: &Task) -> Looked {
    let file = format!("{DIR}/current_clocksource");
    let current = host.word(&file).ok_or_else(|| Host::hidden("the clock of the kernel", &file))?;
    let available = host.word(&format!("{DIR}/available_clocksource")).unwrap_or_default();
    let has_tsc = available.split_whitespace().any(|one| one == "tsc");
    let is_known_slow = SLOW.contains(&current.as_str());
    if !is_known_slow && (FAST.contains(&current.as_str()) || !has_tsc) {
        return Ok(Seen::default());
    }
    let timed = &host.demands()?.timed;
    let level = if timed.is_empty() { Level::Info } else { Level::Warning };
    let sentence = match timed.is_empty() {
        true => format!("the kernel reads the time from {current}, so explain analyze takes long and measures wrong"),
        false => format!("the kernel reads the time from {current}, and {} needs it all the time", timed.join(" and ")),
    };
    let repair = match has_tsc {
        true => Repair::new("use the processor's counter; run pg_test_timing before and after", RISK).run([
            format!("$ echo tsc > {file}").as_str(),
            "-- to make it last, start the kernel with clocksource=tsc",
        ]),
        false => Repair::new(
            "see in the kernel's log why it does not trust the processor's counter; until that is solved, switch \
             track_io_timing and track_wal_io_timing off",
            RISK,
        )
        .run(["$ dmesg | grep -i -e tsc -e clocksource"]),
    };
    Ok(task
        .finding(level, "", sentence)
        .with("clock", &current, &file)
        .with("clocks that it could use", &available, &format!("{DIR}/available_clocksource"))
        .with("one reading", format!("{} ns", reading_nanoseconds()), "the mean of 1,000 readings by the doctor")
        .unless("the kernel found that the processor's counter is not reliable here")
        .repaired_by(repair)
        .into())
}

/// Nanoseconds that one reading of the clock takes here.
fn reading_nanoseconds() -> u128 {
    let begun = Instant::now();
    for _ in 0..READINGS {
        black_box(Instant::now());
    }
    begun.elapsed().as_nanos() / u128::from(READINGS)
}
