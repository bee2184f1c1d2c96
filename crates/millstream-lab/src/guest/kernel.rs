//! A kernel of a package: how it boots in a guest, and the record that comes back.

use super::tool::{self, QEMU};
use crate::core::{Build, record_file};
use crate::error::Error;
use crate::experiments::Record;
use crate::limits::{GUEST_DISK_BYTES, GUEST_MEMORY_MB, GUEST_TIME_MAX, GUEST_TOOL_TIME_MAX};
use millstream_host::{Command, make_folder, own_file, write_target};
use std::fs;
use std::path::{Path, PathBuf};

/// How a kernel's file begins. The rest is its release.
const FILE: &str = "vmlinuz-";

/// Takes only the kernel out of a package: all of its modules are many times as large.
const UNPACK: &str = "dpkg-deb --fsys-tarfile \"$1\" | tar -x -C \"$2\" --wildcards './boot/vmlinuz-*'";

/// Takes modules out of a package. One that the kernel holds itself is not there.
const UNPACK_MODULES: &str = "package=$1; dir=$2; shift 2
dpkg-deb --fsys-tarfile \"$package\" | tar -x -C \"$dir\" --transform 's,.*/,,' --wildcards \"$@\" 2>/dev/null || true";

/// Modules that a guest needs for its disk, in the order in which they are loaded. Kernels hold some of them themselves.
pub(super) const DISK_MODULES: &[&str] = &[
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "virtio_blk",
    "crc16",
    "crc32c_generic",
    "mbcache",
    "jbd2",
    "ext4",
];

/// What to do about a package without a kernel.
const OTHER_PACKAGE: &str =
    "name the package of the kernel itself, such as linux-image-6.1.0-53-cloud-amd64; others only depend on it";

/// A kernel that guests boot.
#[derive(Debug)]
pub(super) struct Kernel {
    /// Its release.
    pub(super) release: String,
    file: PathBuf,
}

/// A module of a kernel.
#[derive(Debug)]
pub(super) struct Module {
    /// Its file.
    pub(super) file: PathBuf,
    /// How it is loaded.
    pub(super) parameters: String,
}

impl Kernel {
    /// Takes the kernel out of a package, into a directory that is made.
    ///
    /// # Errors
    /// The file is not a package of Debian, or holds no kernel; the disk is full.
    pub(super) async fn unpack(package: &Path, dir: &Path) -> Result<Self, Error> {
        make_folder(dir).map_err(Error::io("make", dir))?;
        let none = |why: &str| Error::Guest {
            what: format!("cannot take a kernel out of {}", package.display()),
            why: why.to_owned(),
            hint: OTHER_PACKAGE.to_owned(),
        };
        let mut shell = Command::new("sh");
        shell.args(["-c", UNPACK, "sh"]).arg(package).arg(dir);
        match tool::run(&mut shell, GUEST_TOOL_TIME_MAX).await {
            Ok(_) => {}
            // What comes first is the cause.
            Err(millstream_host::Error::Failed { said, .. }) => return Err(none(said.lines().next().unwrap_or("?"))),
            Err(error) => return Err(none(&error.to_string())),
        }
        let boot = dir.join("boot");
        let files = fs::read_dir(&boot).map_err(Error::io("read", &boot))?.flatten();
        let mut releases = files.filter_map(|file| Some(file.file_name().to_str()?.strip_prefix(FILE)?.to_owned()));
        let release = releases.next().ok_or_else(|| none("its name is not UTF-8"))?;
        Ok(Self { file: boot.join(format!("{FILE}{release}")), release })
    }

    /// Takes modules out of the package, each of which is named with its parameters. One that is not there is in the kernel.
    ///
    /// # Errors
    /// The disk is full.
    pub(super) async fn modules(&self, package: &Path, named: &[&str]) -> Result<Vec<Module>, Error> {
        let named: Vec<(&str, &str)> = named.iter().map(|one| one.split_once(' ').unwrap_or((one, ""))).collect();
        let dir = self.file.with_file_name("modules");
        make_folder(&dir).map_err(Error::io("make", &dir))?;
        let mut shell = Command::new("sh");
        shell.args(["-c", UNPACK_MODULES, "sh"]).arg(package).arg(&dir);
        // Some distributions compress them.
        shell.args(named.iter().map(|(name, _)| format!("*/{name}.ko*")));
        if !named.is_empty() {
            tool::run(&mut shell, GUEST_TOOL_TIME_MAX).await.map_err(|error| Error::Asked(error.to_string()))?;
        }
        let module = |(name, parameters): (&str, &str)| {
            let endings = ["", ".xz", ".zst", ".gz"].into_iter();
            let file = endings.map(|ending| dir.join(format!("{name}.ko{ending}"))).find(|file| file.is_file())?;
            Some(Module { file, parameters: parameters.to_owned() })
        };
        Ok(named.into_iter().filter_map(module).collect())
    }

    /// Boots it once with an empty disk, and writes the record that the guest sends into a directory, beside the text of its
    /// console. `build`: the program that it measures, of which the guest does not know the commit.
    ///
    /// # Errors
    /// The guest does not end in time, or does not send a whole record; errors of the disk.
    pub(super) async fn boot(&self, image: &Path, disk: &Path, dir: &Path, build: &Build) -> Result<Record, Error> {
        make_folder(dir).map_err(Error::io("make", dir))?;
        // What is never written takes no room.
        let file = own_file(0o600).write(true).create(true).truncate(true).open(disk);
        file.and_then(|file| file.set_len(GUEST_DISK_BYTES)).map_err(Error::io("write", disk))?;
        let (console, sent) = (dir.join("console"), dir.join("sent"));
        for file in [&console, &sent] {
            // qemu would follow a link.
            write_target(file, "").map_err(Error::io("write", file))?;
        }
        let failed = |why: String| Error::Guest {
            what: format!("the guest with the kernel {} failed", self.release),
            why,
            hint: format!("{} shows what it printed", console.display()),
        };
        let ended = tool::run(&mut self.machine(image, disk, [&console, &sent]), GUEST_TIME_MAX).await;
        ended.map_err(|error| failed(error.to_string()))?;
        let mut record = received(&record_file::read(&sent)?).map_err(failed)?;
        if let Some(measured) = &mut record.conditions.build {
            (measured.commit, measured.dirty) = (build.commit.clone(), build.dirty);
        }
        record.write(dir)?;
        fs::remove_file(&sent).map_err(Error::io("remove", &sent))?;
        Ok(record)
    }

    /// A machine with a disk and without a network, whose serial ports write into files. A reboot ends it, a panic too.
    fn machine(&self, image: &Path, disk: &Path, ports: [&Path; 2]) -> Command {
        let mut machine = Command::new(QEMU);
        machine.args(["-accel", "tcg", "-cpu", "max", "-smp", "2", "-m", &GUEST_MEMORY_MB.to_string()]);
        machine.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
        machine.arg("-kernel").arg(&self.file).arg("-initrd").arg(image);
        machine.args(["-append", "console=ttyS0 loglevel=5 panic=-1 psi=1"]);
        // A comma in a name is written twice.
        let disk = disk.display().to_string().replace(',', ",,");
        machine.arg("-drive").arg(format!("file={disk},format=raw,if=virtio"));
        for port in ports {
            machine.arg("-serial").arg(format!("file:{}", port.display()));
        }
        machine
    }
}

/// The record in what came through a serial port, whose lines may end in a carriage return.
fn received(text: &str) -> Result<Record, String> {
    if text.trim().is_empty() {
        return Err("it sent no record".to_owned());
    }
    let mut record: Record = serde_json::from_str(text).map_err(|error| match error.is_eof() {
        true => "its record breaks off".to_owned(),
        false => format!("it sent something else than a record: {error}"),
    })?;
    record.conditions.emulated = true;
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::{Commands, Conditions, Request, Source};
    use millstream_host::Ended;
    use millstream_pg::Explained as _;
    use millstream_testkit::{Need, machine_has};
    use std::time::Duration;

    const LIMIT: Duration = Duration::from_secs(60);

    /// Makes a package that holds this file; `None` without Debian's tools.
    async fn package(dir: &Path, file: &str) -> Option<PathBuf> {
        if !machine_has(&[Need::DPKG_DEB]) {
            return None;
        }
        let (root, package) = (dir.join("root"), dir.join("a package.deb"));
        for (name, text) in [("DEBIAN/control", "Package: x\nVersion: 1\nArchitecture: all\n"), (file, "a kernel")] {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let mut build = Command::new("dpkg-deb");
        build.args(["--build", "-Znone"]).arg(&root).arg(&package);
        build.run(LIMIT).await.and_then(Ended::succeeded).unwrap();
        Some(package)
    }

    #[tokio::test]
    async fn a_kernel_is_taken_out_of_its_package() {
        let dir = tempfile::tempdir().unwrap();
        let Some(package) = package(dir.path(), "boot/vmlinuz-6.1.0-7-x").await else { return };
        let kernel = Kernel::unpack(&package, &dir.path().join("out")).await.unwrap();
        assert_eq!(kernel.release, "6.1.0-7-x");
        assert_eq!(fs::read_to_string(&kernel.file).unwrap(), "a kernel");
    }

    #[tokio::test]
    async fn modules_are_taken_out_of_their_package_in_order_and_what_is_not_there_is_in_the_kernel() {
        let dir = tempfile::tempdir().unwrap();
        let Some(package) = package(dir.path(), "lib/modules/6/kernel/net/bonding.ko.xz").await else { return };
        let kernel = Kernel { release: "6".to_owned(), file: dir.path().join("boot/vmlinuz-6") };
        let named = ["veth", "bonding max_bonds=0 miimon=1"];
        let modules = kernel.modules(&package, &named).await.unwrap();
        let [Module { file, parameters }] = modules.as_slice() else { panic!("{modules:?}") };
        assert_eq!(
            (fs::read_to_string(file).unwrap().as_str(), parameters.as_str()),
            ("a kernel", "max_bonds=0 miimon=1")
        );
        assert!(file.ends_with("bonding.ko.xz") && kernel.modules(&package, &[]).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_package_without_a_kernel_is_refused_and_so_is_a_file_that_is_no_package() {
        let dir = tempfile::tempdir().unwrap();
        let Some(package) = package(dir.path(), "boot/config-6.1.0-7-x").await else { return };
        let other = dir.path().join("other.deb");
        fs::write(&other, "text").unwrap();
        for package in [&package, &other, &dir.path().join("none.deb")] {
            let error = Kernel::unpack(package, &dir.path().join("out")).await.unwrap_err();
            let says = format!("cannot take a kernel out of {}: ", package.display());
            assert!(error.to_string().starts_with(&says) && !error.to_string().contains('\n'), "{error}");
            assert_eq!(error.hint().as_deref(), Some(OTHER_PACKAGE));
        }
    }

    #[test]
    fn a_record_survives_the_serial_port_and_is_marked_as_emulated() {
        let dir = tempfile::tempdir().unwrap();
        let source = Source::of_commands(&Commands::new("true", "false")).unwrap();
        let conditions = Conditions::planned(&source, &Request::default());
        let opened = Record::open(&source, &Request::default(), conditions, Some(dir.path()), Vec::new());
        let mut record = opened.unwrap().1;
        assert!(!record.conditions.emulated);
        let text = serde_json::to_string_pretty(&record).unwrap().replace('\n', "\r\n");
        record.conditions.emulated = true;
        assert_eq!(received(&format!("{text}\r\n")), Ok(record));

        let half = text.get(..text.len() / 2).unwrap();
        assert_eq!(received(half), Err("its record breaks off".to_owned()));
        assert_eq!(received("\r\n"), Err("it sent no record".to_owned()));
        assert!(received("Kernel panic").unwrap_err().starts_with("it sent something else than a record: "));
    }
}
