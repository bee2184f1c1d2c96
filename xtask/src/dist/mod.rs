//! `cargo xtask wheel`, `deb` and `dist`: packages for people who build nothing themselves.

mod components;
mod contents;
mod deb;
mod linked;
mod notices;
mod options;
mod programs;
mod python;
mod release;
mod sdist;
mod spdx;
mod tarball;
mod tools;
mod wheel;

use components::Components;
use options::Options;
use programs::{cannot, printed};
use release::{Release, SUMS};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tools::Tools;

/// `cargo xtask wheel`: the program and the Python package as one wheel.
pub(crate) fn wheel() -> Result<ExitCode, String> {
    let (release, components) = begun()?;
    let wheel = wheel::make(&release, &components)?;
    report(&[&wheel.file])?;
    say_program(&wheel)
}

/// `cargo xtask deb`: a Debian package of the program that is in the wheel.
pub(crate) fn deb() -> Result<ExitCode, String> {
    let (release, components) = begun()?;
    let wheel = wheel::make(&release, &components)?;
    report(&[&deb::make(&release, &components, &wheel)?])?;
    say_program(&wheel)
}

/// `cargo xtask dist`: all packages, the list of components, and checksums.
pub(crate) fn dist() -> Result<ExitCode, String> {
    let (release, components) = begun()?;
    let wheel = wheel::make(&release, &components)?;
    let mut files = vec![
        wheel.file.clone(),
        sdist::make(&release)?,
        deb::make(&release, &components, &wheel)?,
        tarball::make(&release, &components, &wheel)?,
        spdx::write(&release, &components)?,
    ];
    files.sort();
    let sums = release.packages.join(SUMS);
    let names: Vec<_> = files.iter().filter_map(|file| file.file_name()).collect();
    let text = printed(release.command("sha256sum").args(names).current_dir(&release.packages))?;
    fs::write(&sums, text).map_err(cannot("write", &sums))?;
    files.push(sums);
    report(&files.iter().map(PathBuf::as_path).collect::<Vec<_>>())?;
    say_program(&wheel)
}

fn begun() -> Result<(Release, Components), String> {
    let options = Options::read(std::env::args().skip(2))?;
    let mut components = Components::read(&crate::workspace_root(), &options)?;
    let release = Release::of(&options, &components)?;
    components.linked = linked::read(&Tools::ready(&release)?)?;
    Ok((release, components))
}

/// Prints the files with their sizes.
fn report(files: &[&Path]) -> Result<(), String> {
    for file in files {
        crate::say(&format!("{:>12} bytes  {}\n", size(file)?, file.display()))?;
    }
    Ok(())
}

fn say_program(wheel: &wheel::Wheel) -> Result<ExitCode, String> {
    let (major, minor) = wheel.glibc;
    let (program, packed) = (size(&wheel.program)?, size(&wheel.file)?);
    crate::say(&format!(
        "the program has {program} bytes and needs glibc {major}.{minor} or later; the wheel has {:.2} of its size\n",
        packed as f64 / program as f64
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn size(file: &Path) -> Result<u64, String> {
    fs::metadata(file).map(|facts| facts.len()).map_err(cannot("look at", file))
}
