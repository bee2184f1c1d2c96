//! `cargo xtask fuzz`: builds the fuzz targets and libFuzzer with the stable toolchain, and runs them.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Compiler flags by which libFuzzer sees which branches an input takes.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// The package, and its program.
const PROGRAM: &str = "millstream-fuzz";
/// The profile of the root's Cargo.toml with which it is built.
const PROFILE: &str = "fuzz";

/// How long each target runs unless `--seconds` says otherwise.
const SECONDS: u32 = 60;
/// Targets that run at the same time.
const PARALLEL: usize = 2;
/// The limits of every run.
const BOUNDS: &[&str] = &["-max_len=4096", "-timeout=20", "-rss_limit_mb=2048", "-print_final_stats=1"];

/// `cargo xtask fuzz [TARGET..] [--seconds N]`: 0 when no input broke a target, else 1.
pub(crate) fn command() -> Result<ExitCode, String> {
    let root = crate::workspace_root();
    let known = targets(&root)?;
    let (mut chosen, mut seconds) = (Vec::new(), SECONDS);
    let mut args = std::env::args().skip(2);
    while let Some(arg) = args.next() {
        if arg == "--seconds" {
            let text = args.next().unwrap_or_default();
            seconds = text.parse().map_err(|_| format!("--seconds takes a whole number, not \"{text}\""))?;
        } else if known.contains(&arg) {
            chosen.push(arg);
        } else {
            let known = known.join(", ");
            return Err(format!(
                "no fuzz target \"{arg}\"\n  hint: cargo xtask fuzz [TARGET..] [--seconds N], of {known}"
            ));
        }
    }
    let chosen = if chosen.is_empty() { known } else { chosen };
    let program = build(&root)?;
    crate::say(&format!("{seconds} seconds each, {PARALLEL} at a time: {}\n", chosen.join(", ")))?;
    let mut broken = 0;
    for some in chosen.chunks(PARALLEL) {
        let runs = some.iter().map(|target| start(&root, &program, target, seconds)).collect::<Result<Vec<_>, _>>()?;
        for (target, (run, log)) in some.iter().zip(runs) {
            broken += usize::from(!end(target, run, &log)?);
        }
    }
    Ok(ExitCode::from(u8::from(broken > 0)))
}

/// The targets: the folders of `fuzz/corpus/`. A test of `millstream-fuzz` compares them with its list.
fn targets(root: &Path) -> Result<Vec<String>, String> {
    let folder = root.join("fuzz/corpus");
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("cannot list {}: {error}", folder.display()))?;
    let mut names: Vec<String> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort_unstable();
    Ok(names)
}

/// Builds the program, which holds every target. Returns its path.
fn build(root: &Path) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let host = host()?;
    let folder = root.join("target/fuzz");
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--locked", "--package", PROGRAM, "--bin", PROGRAM])
        .args(["--features", "libfuzzer", "--profile", PROFILE, "--manifest-path"])
        .arg(root.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&folder)
        // With `--target`, cargo does not use the flags for build scripts, which lack the runtime.
        .args(["--target", &host])
        .env("RUSTFLAGS", COVERAGE)
        .status()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    match status.success() {
        true => Ok(folder.join(host).join(PROFILE).join(PROGRAM)),
        false => {
            Err("the fuzz targets do not build\n  hint: libFuzzer is compiled with g++, is that installed?".into())
        }
    }
}

fn host() -> Result<String, String> {
    let output = Command::new("rustc").arg("-vV").output().map_err(|error| format!("cannot run rustc: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc -vV does not name its host".into())
}

/// Starts a target. New inputs go to `target/fuzz/corpus`, inputs that break it to `target/fuzz/artifacts`.
fn start(root: &Path, program: &Path, target: &str, seconds: u32) -> Result<(std::process::Child, PathBuf), String> {
    let folder = root.join("target/fuzz");
    let (grown, artifacts) = (folder.join("corpus").join(target), folder.join("artifacts").join(target));
    for made in [&grown, &artifacts] {
        std::fs::create_dir_all(made).map_err(|error| format!("cannot make {}: {error}", made.display()))?;
    }
    let log = folder.join(format!("{target}.log"));
    let file = std::fs::File::create(&log).map_err(|error| format!("cannot write {}: {error}", log.display()))?;
    let run = Command::new(program)
        .env("MILLSTREAM_FUZZ_TARGET", target)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args(BOUNDS)
        .args([&grown, &root.join("fuzz/corpus").join(target)])
        .stderr(file)
        .spawn()
        .map_err(|error| format!("cannot run the fuzz target {target}: {error}"))?;
    Ok((run, log))
}

/// Waits for a target and reports how it went. True if nothing broke it.
fn end(target: &str, mut run: std::process::Child, log: &Path) -> Result<bool, String> {
    let status = run.wait().map_err(|error| format!("cannot wait for {target}: {error}"))?;
    let text = std::fs::read(log).map_err(|error| format!("cannot read {}: {error}", log.display()))?;
    let text = String::from_utf8_lossy(&text);
    if status.success() {
        let executions = text.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
        let covered = text.lines().rev().find_map(|line| line.split_once("cov: ")?.1.split(' ').next());
        let (executions, covered) = (executions.unwrap_or("?").trim(), covered.unwrap_or("?"));
        crate::say(&format!("{target}: {executions} inputs, {covered} branches reached\n"))?;
    } else {
        let input = match text.lines().rev().find_map(|line| line.split_once("Test unit written to ")) {
            Some((_, path)) => format!("keep the input in fuzz/corpus/{target}/: {path}"),
            None => "it wrote no input".to_owned(),
        };
        crate::say(&format!("{text}\n{target}: broken ({status}), {input}\n"))?;
    }
    Ok(status.success())
}
