//! Check `cpu-governor`: the kernel keeps the processors slow to save power.

use crate::check::{Check, Look, Looked, Seen, Task};
use crate::host::Host;
use millstream_model::{Class, Level, Repair};

pub(super) const CHECK: Check = Check {
    id: "cpu-governor",
    about: "the kernel keeps the processors slow, or lets them become fast only late, to save power",
    class: Class::Hypothesis,
    thresholds: &[],
    manual: include_str!("cpu_governor.md"),
    looks: &[Look::Host(look)],
};

const DIR: &str = "/sys/devices/system/cpu/cpufreq";

/// Drivers under which the processor itself chooses its frequency. `powersave` is then the name of what others call
/// `schedutil`, and a preference decides.
const CHOOSING: &[&str] = &["intel_pstate", "amd-pstate-epp", "amd_pstate_epp"];

/// How the frequency of some processors is chosen.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Policy {
    governor: String,
    driver: String,
    preference: String,
}

fn look(host: &Host, task: &Task) -> Looked {
    let names = host.entries(DIR);
    let policies = names.iter().filter(|name| name.starts_with("policy")).filter_map(|name| {
        let word = |file: &str| host.word(&format!("{DIR}/{name}/{file}"));
        let (driver, preference) = (word("scaling_driver"), word("energy_performance_preference"));
        Some(Policy {
            governor: word("scaling_governor")?,
            driver: driver.unwrap_or_default(),
            preference: preference.unwrap_or_default(),
        })
    });
    let mut policies: Vec<Policy> = policies.collect();
    if policies.is_empty() {
        let what = Host::hidden("how the frequency of the processors is chosen", DIR);
        return Err(format!("{what}; on a virtual machine the hypervisor chooses it").into());
    }
    policies.sort();
    let all = policies.len();
    let found = policies.iter().filter_map(|policy| Some((slow(policy)?, policy)));
    let Some(((level, why, set), worst)) = found.max_by_key(|((level, _, _), _)| *level) else {
        return Ok(Seen::default());
    };
    let alike = policies.iter().filter(|policy| *policy == worst).count();
    let mut finding = task
        .finding(level, "", why)
        .with("governor", &worst.governor, &format!("{DIR}/policy*/scaling_governor"))
        .with("driver", &worst.driver, &format!("{DIR}/policy*/scaling_driver"))
        .with("groups of processors with it", format!("{alike} of {all}"), DIR);
    if !worst.preference.is_empty() {
        let source = format!("{DIR}/policy*/energy_performance_preference");
        finding = finding.with("preference", &worst.preference, &source);
    }
    finding.alternative = Some("the processors are busy all the time, and so are fast already".to_owned());
    finding.repair = Some(
        Repair::new(
            "let the processors be fast, and measure latency before and after",
            "the machine takes more power and becomes warmer",
        )
        .run([set.to_owned()]),
    );
    Ok(finding.into())
}

/// Whether a policy keeps processors slow: how bad that is, why, and the command that changes it.
fn slow(policy: &Policy) -> Option<(Level, &'static str, &'static str)> {
    let Policy { governor, driver, preference } = policy;
    let governed = "$ cpupower frequency-set -g performance";
    match governor.as_str() {
        "powersave" if CHOOSING.contains(&driver.as_str()) => {
            let saves = ["power", "balance_power"].contains(&preference.as_str());
            let set = "$ echo performance | tee /sys/devices/system/cpu/cpufreq/policy*/energy_performance_preference";
            saves.then_some((Level::Info, "the processors save power rather than run fast", set))
        }
        "powersave" => Some((Level::Warning, "the kernel keeps the processors at their lowest frequency", governed)),
        "conservative" => Some((Level::Info, "the kernel makes the processors fast only step by step", governed)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powersave_means_two_things() {
        let level = |governor: &str, driver: &str, preference: &str| {
            let [governor, driver, preference] = [governor, driver, preference].map(str::to_owned);
            slow(&Policy { governor, driver, preference }).map(|(level, _, _)| level)
        };
        assert_eq!(level("powersave", "acpi-cpufreq", ""), Some(Level::Warning));
        assert_eq!(level("powersave", "intel_cpufreq", ""), Some(Level::Warning), "intel_pstate that is passive");
        assert_eq!(level("powersave", "intel_pstate", "balance_performance"), None);
        assert_eq!(level("powersave", "intel_pstate", ""), None);
        assert_eq!(level("powersave", "intel_pstate", "power"), Some(Level::Info));
        assert_eq!(level("schedutil", "acpi-cpufreq", ""), None);
    }
}
