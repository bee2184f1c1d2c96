//! Guests: small emulated machines, in each of which a kernel boots and an experiment runs.
//!
//! Kernels take turns, boot by boot. Because the processor is emulated, the numbers say nothing about speed. A guest
//! shows that every arm runs under a kernel, and that its records can be compared with those of other kernels.

mod archive;
mod image;
mod kernel;
mod tool;

use crate::core::{Build, Machine, blocks, record_file};
use crate::error::Error;
use crate::experiments::{Record, Selection, Source, scratch};
use crate::limits::GUEST_SCALE_MAX;
use image::Modules;
use kernel::{DISK_MODULES, Kernel};
use std::path::{Path, PathBuf};

/// What runs under which kernels.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Packages of Debian with a kernel each.
    pub packages: &'a [PathBuf],
    /// Boots of each kernel.
    pub boots: u32,
    /// Name of an experiment, or the path of its file.
    pub experiment: &'a str,
    /// Seed of the order of the boots, and of the experiment in each guest.
    pub seed: u64,
    /// The PostgreSQL in the guests: a major version, or the directory of its programs. `None`: the newest installed.
    pub postgres: Option<&'a str>,
    /// A directory in which packages are unpacked whose files the experiment needs. `None`: this machine has them. It may be
    /// relative.
    pub root: Option<&'a Path>,
    /// This program, which runs the experiment in the guests too.
    pub program: &'a Path,
}

/// A boot of a kernel, with what the guest has sent.
#[derive(Debug)]
pub struct Boot {
    /// Release of the kernel, such as `6.1.0-53-cloud-amd64`.
    pub kernel: String,
    /// Which boot of this kernel it is, from 1.
    pub number: u32,
    /// Directory of the record.
    pub dir: PathBuf,
    /// The record. The error of a kernel that did not boot, or whose guest sent no whole record, is an answer, too.
    pub record: Result<Record, Error>,
}

/// Guests that are ready to boot.
#[derive(Debug)]
pub struct Guests<'a> {
    request: Request<'a>,
    source: Source,
    busybox: PathBuf,
    /// Directory of PostgreSQL's programs, if the experiment needs a server.
    postgres: Option<PathBuf>,
    /// The unpacked packages, by the path from the root: only so are their files told from those of this machine.
    root: Option<PathBuf>,
    /// Directory of the records, one below it for each boot.
    pub dir: PathBuf,
}

impl<'a> Guests<'a> {
    /// Finds the programs and the experiment, and makes the directory of the records: the given one, else one named
    /// after the day, the machine and the experiment.
    ///
    /// # Errors
    /// [`Error::Missing`] with the packages of the programs that are not there, also of those that the experiment needs; what
    /// is wrong with the experiment; PostgreSQL is not installed; errors of the disk.
    pub fn new(request: Request<'a>, out: Option<&Path>) -> Result<Self, Error> {
        let busybox = tool::busybox()?;
        let mut source =
            Source::named(request.experiment, &Selection { quick: true, seed: request.seed, ..Selection::default() })?;
        source.experiment.limit_scale(GUEST_SCALE_MAX);
        let postgres = if source.experiment.server { Some(image::programs(request.postgres)?) } else { None };
        let root = request.root.map(|root| root.canonicalize().map_err(Error::io("find", root))).transpose()?;
        if let Some(needs) = &source.experiment.guest {
            image::needed(needs, root.as_deref())?;
        }
        let machine = Machine::look(None, &std::env::temp_dir()).slug();
        let date = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
        let dir = record_file::new_dir(out, &date, &format!("{machine}-{}-guests", source.experiment.name))?;
        Ok(Self { request, source, busybox, postgres, root, dir })
    }

    /// Boots every kernel as often as was asked. A boot that has a record already is not repeated. After a kernel that
    /// does not boot the others follow. If this future is dropped, the guest that runs is killed.
    ///
    /// # Errors
    /// A package without a kernel; errors of the disk.
    pub async fn run(&self, say: &mut (dyn FnMut(&str) + Send)) -> Result<Vec<Boot>, Error> {
        let files = scratch::on_disk()?;
        let mut kernels: Vec<Kernel> = Vec::new();
        let mut images = Vec::new();
        for (place, package) in self.request.packages.iter().enumerate() {
            let kernel = Kernel::unpack(package, &files.path().join(place.to_string())).await?;
            if kernels.iter().any(|one| one.release == kernel.release) {
                let why = format!("two packages hold the kernel {}; name each kernel once", kernel.release);
                return Err(Error::Asked(why));
            }
            let needs = self.source.experiment.guest.as_ref();
            let named: Vec<&str> = needs.iter().flat_map(|needs| &needs.modules).map(String::as_str).collect();
            let modules = Modules {
                disk: kernel.modules(package, DISK_MODULES).await?,
                experiment: kernel.modules(package, &named).await?,
            };
            images.push(image::make(self, &modules, &files.path().join(place.to_string())).await?);
            kernels.push(kernel);
        }
        let build = Build::ask(self.request.program, None).await?;
        let mut boots: Vec<Boot> = Vec::new();
        for (number, place) in order(kernels.len(), self.request.boots, self.request.seed) {
            let kernel = &kernels[place];
            let dir = self.dir.join(format!("{}-{number}", kernel.release));
            let failed = boots.iter().any(|boot| boot.kernel == kernel.release && boot.record.is_err());
            let record = match self.earlier(&dir)? {
                Some(record) => Ok(record),
                // A guest that hangs takes half an hour before it is given up.
                None if failed => Err(Error::Asked("not tried again, because an earlier boot failed".to_owned())),
                None => {
                    say(&format!("boot {number} of {}: {}", self.request.boots, kernel.release));
                    match kernel.boot(&images[place], &files.path().join("disk"), &dir, &build).await {
                        Err(error @ Error::Guest { .. }) => Err(error),
                        booted => Ok(booted?),
                    }
                }
            };
            boots.push(Boot { kernel: kernel.release.clone(), number, dir, record });
        }
        Ok(boots)
    }

    /// The record of a boot, if an earlier run has made it.
    fn earlier(&self, dir: &Path) -> Result<Option<Record>, Error> {
        let path = record_file::file_of(dir);
        if !path.exists() {
            return Ok(None);
        }
        let taken = |why: &str| Error::Taken { path: path.clone(), why: why.to_owned() };
        let record = Record::read(&path)?;
        let found = &record.conditions;
        let postgres = self.postgres.as_ref().map(|bin| bin.display().to_string());
        let same = [
            (found.emulated, "it was not made in a guest"),
            (found.experiment == self.source.experiment, "another experiment"),
            (found.files == self.source.files, "the scripts were different"),
            (found.seed == self.request.seed, "another --seed"),
            (found.postgres == postgres, "another --postgres"),
        ];
        match same.iter().find(|(same, _)| !same) {
            Some((_, why)) => Err(taken(why)),
            None => Ok(Some(record)),
        }
    }
}

/// The boots in their order: the number of each, and the place of its kernel in the list. With more boots, the first
/// ones are the same.
fn order(kernels: usize, boots: u32, seed: u64) -> impl Iterator<Item = (u32, usize)> {
    let turns = (1_u32..).zip(blocks(kernels, boots, seed));
    turns.flat_map(|(number, places)| places.into_iter().map(move |place| (number, place)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_take_turns_as_the_seed_decides_and_more_boots_follow() {
        let of = |boots, seed| order(3, boots, seed).collect::<Vec<_>>();
        let all = of(20, 7);
        assert_eq!(of(4, 7), all[..12]);
        assert_ne!(of(20, 8), all);
        for (number, turns) in (1..).zip(all.chunks(3)) {
            let mut turns = turns.to_vec();
            turns.sort_unstable();
            assert_eq!(turns, [(number, 0), (number, 1), (number, 2)]);
        }
    }
}
