//! Kernels in guests: what the command does, with a script in place of qemu; and a kernel that boots, with qemu.

use crate::process::{assert_runs, command, millstream, run, send};
use millstream_lab::experiments::Record;
use millstream_testkit::{Feature, Need, build_with, kernel_package, machine_has, until_blocking};
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// An experiment that needs no server.
const EXPERIMENT: &str = "\
question = 'Does it work?'
expected = 'yes'
read = 'as it is'
metric = 'wall_seconds'
seconds = 1
server = false
[[arm]]
name = 'one'
about = 'does nothing'
run = { command = 'true' }
";

/// An experiment with a server, and an arm that needs cgroups and a setting of the kernel.
const WITH_SERVER: &str = "\
question = 'Does it work?'
expected = 'yes'
read = 'as it is'
seconds = 1
[data]
scale = 3
[run]
scripts = ['builtin:select-only']
settings = { shared_buffers = '32MB' }
[[arm]]
name = 'plain'
about = 'as it is'
[[arm]]
name = 'limited'
about = 'with less memory, and another scheduler'
run = { memory_mb = 256, host = { 'kernel.sched_autogroup_enabled' = '0' } }
";

/// Releases of kernels that hold nothing.
const KERNELS: [&str; 2] = ["6.1.0-1-x", "6.12.0-2-x"];

/// How the script begins: it writes down its arguments, and finds the file of the serial port for the record.
const SCRIPT: &str = "#!/bin/sh\nfor last; do :; done\nsent=${last#file:}\necho \"$*\" >>\"$PLACE/booted\"\n";

/// A guest that works.
const WORKS: &str = "cat \"$PLACE/guest/record.json\" >\"$sent\"";

/// A directory with an experiment, packages of kernels, and a script in place of qemu.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    /// `None`, after a skip, without Debian's tools.
    fn new() -> Option<Self> {
        if !machine_has(&[Need::DPKG_DEB]) {
            return None;
        }
        let place = Self { dir: tempfile::tempdir().unwrap() };
        for dir in ["bin", "tmp"] {
            fs::create_dir(place.at(dir)).unwrap();
        }
        place.qemu(WORKS);
        fs::write(place.at("bin/busybox"), "").unwrap();
        fs::write(place.at("own.toml"), EXPERIMENT).unwrap();
        for kernel in KERNELS {
            let root = place.at(kernel);
            fs::create_dir_all(root.join("DEBIAN")).unwrap();
            fs::create_dir(root.join("boot")).unwrap();
            fs::write(root.join("DEBIAN/control"), "Package: x\nVersion: 1\nArchitecture: all\n").unwrap();
            fs::write(root.join("boot").join(format!("vmlinuz-{kernel}")), "").unwrap();
            let mut build = Command::new("dpkg-deb");
            build.args(["--build", "-Znone"]).arg(&root).arg(place.package(kernel));
            assert!(build.output().unwrap().status.success());
        }
        Some(place)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn package(&self, kernel: &str) -> PathBuf {
        self.at(&format!("{kernel}.deb"))
    }

    /// Says what the script does.
    fn qemu(&self, script: &str) {
        let path = self.at("bin/qemu-system-x86_64");
        fs::write(&path, format!("{SCRIPT}{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Boots both kernels.
    fn boot(&self, more: &[&str]) -> Command {
        let mut boot = self.run(more);
        boot.arg("--guest").args(KERNELS.map(|kernel| self.package(kernel)));
        boot
    }

    /// Runs the experiment, with the script in place of qemu.
    fn run(&self, more: &[&str]) -> Command {
        let path = format!("{}:{}", self.at("bin").display(), std::env::var("PATH").unwrap());
        let mut boot = command(&["lab", "run"]);
        boot.arg(self.at("own.toml")).args(more).arg("--out").arg(self.at("out"));
        boot.env("PATH", path).env("PLACE", self.dir.path()).env("TMPDIR", self.at("tmp"));
        boot
    }

    /// The kernels in the order in which they were booted.
    fn booted(&self) -> Vec<&str> {
        let lines = fs::read_to_string(self.at("booted")).unwrap();
        let kernel = |line: &str| KERNELS.into_iter().find(|kernel| line.contains(&format!("vmlinuz-{kernel} ")));
        lines.lines().map(|line| kernel(line).unwrap()).collect()
    }
}

#[test]
fn kernels_boot_in_turn_and_only_what_is_missing_boots_again() {
    let Some(place) = Place::new() else { return };
    let mut guest = command(&["lab", "run", "--quick", "--seed", "7"]);
    run(guest.arg(place.at("own.toml")).arg("--out").arg(place.at("guest"))).ends(0);
    let more = ["--blocks", "2", "--seed", "7"];
    let first = run(&mut place.boot(&more)).ends(0);
    let booted = place.booted();
    for turns in booted.chunks(2) {
        assert!(KERNELS.iter().all(|kernel| turns.contains(kernel)), "{booted:?}");
    }
    assert_eq!((booted.len(), first.stdout.matches("2 of 2").count()), (4, 4), "{first:?}");
    assert!(first.stdout.contains("nothing about speed"), "{first:?}");
    let record = |kernel: &str, boot: u32| place.at(&format!("out/{kernel}-{boot}"));
    for (kernel, boot) in KERNELS.into_iter().flat_map(|kernel| [(kernel, 1), (kernel, 2)]) {
        assert!(Record::read(&record(kernel, boot)).unwrap().conditions.emulated);
    }

    fs::remove_dir_all(record(KERNELS[1], 2)).unwrap();
    let again = run(&mut place.boot(&more)).ends(0);
    assert_eq!((again.stdout, place.booted().split_off(4)), (first.stdout, vec![KERNELS[1]]));
    let boots = run(&mut place.boot(&[&more[..], &["--output", "json"]].concat())).ends(0).json();
    assert_eq!((boots["emulated"].as_bool(), boots["boots"].as_array().unwrap().len()), (Some(true), 4), "{boots}");
    let other = run(&mut place.boot(&["--blocks", "2", "--seed", "8"])).ends(2);
    assert!(other.stderr.contains("holds another run: another --seed"), "{other:?}");
    assert_eq!(place.booted().len(), 5);

    let report = millstream(&["lab", "report", record(KERNELS[0], 1).to_str().unwrap()]).ends(0);
    assert!(report.stdout.contains("no evidence of speed: emulated runs"), "{report:?}");
    let [a, b] = KERNELS.map(|kernel| record(kernel, 1).display().to_string());
    let compared = millstream(&["lab", "compare", &a, &b]).ends(0);
    assert!(compared.stdout.starts_with("one: works in both; emulated, so no verdict about speed\n"), "{compared:?}");
    assert_eq!(fs::read_dir(place.at("tmp")).unwrap().count(), 0, "nothing is left");
}

#[test]
fn the_kernels_of_a_directory_boot_with_a_disk_each_and_are_one_page() {
    let Some(place) = Place::new() else { return };
    let mut guest = command(&["lab", "run", "--quick", "--seed", "7"]);
    run(guest.arg(place.at("own.toml")).arg("--out").arg(place.at("guest"))).ends(0);
    fs::create_dir(place.at("debs")).unwrap();
    for kernel in KERNELS {
        fs::copy(place.package(kernel), place.at(&format!("debs/linux-image-{kernel}.deb"))).unwrap();
    }
    let (debs, page) = (place.at("debs"), place.at("kernels.html"));
    let options = ["--seed", "7", "--kernels", debs.to_str().unwrap(), "--html", page.to_str().unwrap()];
    run(&mut place.run(&options)).ends(0);
    assert_eq!(place.booted().len(), 2);
    let machines = fs::read_to_string(place.at("booted")).unwrap();
    assert_eq!(machines.matches(",format=raw,if=virtio ").count(), 2, "{machines}");
    let page = fs::read_to_string(&page).unwrap();
    assert!(page.contains("2 records beside each other") && page.contains("says nothing about speed"), "{page}");
    assert!(KERNELS.iter().all(|kernel| page.contains(kernel)), "{page}");
    let none = run(&mut place.run(&["--kernels", place.at("bin").to_str().unwrap()])).ends(2);
    assert!(none.stderr.contains("there is no package linux-image-*.deb in"), "{none:?}");
}

#[test]
fn a_guest_that_sends_no_whole_record_is_named_with_its_console() {
    let Some(place) = Place::new() else { return };
    for (script, why) in [
        (": >\"$sent\"", "it sent no record"),
        ("echo '{ \"format\": 3,' >\"$sent\"", "its record breaks off"),
        ("echo too little memory >&2; exit 1", "too little memory"),
    ] {
        place.qemu(script);
        let failed = run(&mut place.boot(&[])).ends(1);
        for kernel in KERNELS {
            let row = format!("{kernel}, boot 1: did not boot: ");
            let row = failed.stdout.lines().find_map(|line| line.strip_prefix(&row)).unwrap_or_default();
            assert!(row.contains(why) && row.ends_with("/console shows what it printed"), "{failed:?}");
        }
    }
    let mut twice = place.boot(&[]);
    let twice = run(twice.arg(place.package(KERNELS[0]))).ends(2);
    assert!(twice.stderr.contains("two packages hold the kernel 6.1.0-1-x"), "{twice:?}");
}

#[test]
fn after_a_kernel_that_does_not_boot_the_others_follow() {
    let Some(place) = Place::new() else { return };
    let seed = ["--blocks", "2", "--seed", "7"];
    let mut guest = command(&["lab", "run", "--quick", "--seed", "7"]);
    run(guest.arg(place.at("own.toml")).arg("--out").arg(place.at("guest"))).ends(0);
    let [bad, _] = KERNELS;
    place.qemu(&format!("case \"$*\" in *vmlinuz-{bad}\\ *) echo Kernel panic >&2; exit 1 ;; esac\n{WORKS}"));
    let first = run(&mut place.boot(&seed)).ends(1);
    // The second boot of the bad one is not tried.
    assert_eq!(place.booted().len(), 3, "{first:?}");
    for boot in [1, 2] {
        assert!(first.stdout.contains(&format!("{bad}, boot {boot}: did not boot: ")), "{first:?}");
    }
    let printed = |part| first.stdout.matches(part).count();
    assert_eq!((printed("2 of 2"), printed("Kernel panic")), (2, 1), "{first:?}");
    let boots = run(&mut place.boot(&[&seed[..], &["--output", "json"]].concat())).ends(1).json();
    let failed = boots["boots"].as_array().unwrap().iter().filter(|boot| boot["did_not_boot"].is_string());
    assert!(failed.count() == 2, "{boots}");

    // The same command boots only what has no record.
    place.qemu(WORKS);
    run(&mut place.boot(&seed)).ends(0);
    assert_eq!(place.booted().split_off(3), [bad; 3]);
}

#[test]
fn ctrl_c_ends_the_guest_and_leaves_nothing_behind() {
    let Some(place) = Place::new() else { return };
    place.qemu("echo $$ >\"$PLACE/new\"; mv \"$PLACE/new\" \"$PLACE/pid\"; exec sleep 600");
    let mut boot = place.boot(&[]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    until_blocking("the machine runs", || {
        assert_runs(&mut boot);
        place.at("pid").exists()
    });
    let pid = fs::read_to_string(place.at("pid")).unwrap();
    send("INT", boot.id());
    assert_eq!(boot.wait().unwrap().code(), Some(130));
    let mut said = String::new();
    boot.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("to resume, give the same command with --out"), "{said}");
    assert_eq!(fs::read_dir(place.at("tmp")).unwrap().count(), 0);
    // A zombie process has an empty command line.
    let line = PathBuf::from(format!("/proc/{}/cmdline", pid.trim()));
    until_blocking("the machine ends", || fs::read(&line).map_or(true, |line| line.is_empty()));
}

#[test]
fn a_relative_directory_of_packages_gives_the_guest_their_files_and_libraries() {
    let Some(place) = Place::new() else { return };
    let listed = Command::new("ldd").arg("/bin/sh").output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let library = listed.lines().find_map(|line| line.trim().strip_prefix("libc.so.6 => ")?.split(' ').next());
    fs::create_dir_all(place.at("unpacked/opt/lib")).unwrap();
    fs::copy("/bin/sh", place.at("unpacked/opt/tool")).unwrap();
    fs::copy(library.expect("the shell loads a library"), place.at("unpacked/opt/lib/libc.so.6")).unwrap();
    let guest = "[guest]\nfiles = ['/opt/tool', '/no/such/file']\npackages = ['some-package', 'other-package']\n";
    fs::write(place.at("own.toml"), EXPERIMENT.replace("[[arm]]", &format!("{guest}[[arm]]"))).unwrap();
    let root = ["--guest-root", "unpacked"];
    let missing = run(place.boot(&root).current_dir(place.dir.path())).ends(2);
    assert!(
        missing.stderr.contains(": there is no /no/such/file") && !missing.stderr.contains("/opt/tool"),
        "{missing:?}"
    );
    let hint = "on Debian: apt install some-package other-package; or fetch them";
    assert!(missing.stderr.contains(hint) && missing.stderr.contains("by --guest-root"), "{missing:?}");
    assert!(!place.at("out").exists(), "{missing:?}");

    fs::write(place.at("own.toml"), EXPERIMENT.replace("[[arm]]", "[guest]\nfiles = ['/opt/tool']\n[[arm]]")).unwrap();
    // A name in the image follows zeros.
    place.qemu(
        "image=$(echo \"$*\" | sed 's/.* -initrd \\([^ ]*\\) .*/\\1/')\n\
         for name in opt/tool opt/lib/libc.so.6; do grep -aq \"0$name\" \"$image\" && echo $name >>\"$PLACE/found\"; done\n\
         : >\"$sent\"",
    );
    let sent_nothing = run(place.boot(&root).current_dir(place.dir.path())).ends(1);
    let found = fs::read_to_string(place.at("found")).unwrap_or_default();
    assert!(found.starts_with("opt/tool\nopt/lib/libc.so.6\n"), "{found:?} {sent_nothing:?}");
}

#[test]
fn what_is_missing_and_what_cannot_run_in_a_guest_is_said_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut bare = command(&["lab", "run", "kernel", "--guest", "a.deb", "--out"]);
    let bare = run(bare.arg(dir.path()).env("PATH", dir.path())).ends(2);
    assert!(bare.stderr.contains("not in PATH: qemu-system-x86_64, busybox, dpkg-deb, tar, ldd"), "{bare:?}");
    assert!(bare.stderr.contains("hint: on Debian: apt install qemu-system-x86 busybox-static dpkg"), "{bare:?}");
    let two = millstream(&["lab", "run", "kernel", "ladder", "--guest", "a.deb"]).ends(2);
    assert!(two.stderr.contains("guests run one experiment"), "{two:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_boots_and_runs_an_experiment_with_a_server() {
    let Some(package) = kernel_package() else { return };
    let Some(build) = build_with(&[Feature::Pgbench]).await else { return };
    let dir = tempfile::tempdir().unwrap();
    let (experiment, out) = (dir.path().join("own.toml"), dir.path().join("out"));
    fs::write(&experiment, WITH_SERVER).unwrap();
    let mut boot = command(&["lab", "run"]);
    boot.arg(&experiment).arg("--postgres").arg(&build.installation.bin).arg("--out").arg(&out);
    let boot = run(boot.arg("--guest").arg(&package));
    let made = fs::read_dir(&out).into_iter().flatten().map(|entry| entry.unwrap().path()).next().unwrap_or_default();
    let console = fs::read_to_string(made.join("console")).unwrap_or_default();
    assert_eq!(boot.code, 0, "{boot:?}\n{console}");
    assert!(boot.stdout.contains("3 of 3") && boot.stdout.contains("nothing about speed"), "{boot:?}\n{console}");
    let record = Record::read(&made).unwrap();
    assert!(record.conditions.emulated && record.conditions.quick);
    let release = made.file_name().and_then(|name| name.to_str()?.strip_suffix("-1")).unwrap();
    assert_eq!(record.machine.kernel, format!("linux {release}"));
    for arm in ["plain", "limited", "again"] {
        let run = record.runs.iter().find(|run| run.arm == arm).unwrap();
        assert!(run.value("tps").is_some_and(|tps| tps > 0.0), "{run:?}\n{console}");
        let recorded = &run.measures().unwrap().recorded;
        for name in ["processor.busy_percent", "disk.data.write_mb_per_second"] {
            assert!(recorded.contains_key(name), "{name}: {run:?}\n{console}");
        }
    }
}

#[test]
fn more_kernels_than_a_page_has_are_refused_before_a_boot() {
    let dir = tempfile::tempdir().unwrap();
    for n in 1..=17 {
        fs::write(dir.path().join(format!("linux-image-6.{n}.0_amd64.deb")), "").unwrap();
    }
    let [kernels, page] = [dir.path().to_owned(), dir.path().join("page.html")].map(|path| path.display().to_string());
    let refused = millstream(&["lab", "run", "kernel", "--kernels", &kernels, "--html", &page]).ends(2);
    assert!(refused.stderr.contains("a page has at most 16 kernels, not 17"), "{refused:?}");
}
