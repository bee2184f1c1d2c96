//! The file system of a guest: busybox, this program, PostgreSQL, their libraries, and the experiment.

use super::Guests;
use super::archive::Archive;
use super::kernel::Module;
use super::tool;
use crate::error::Error;
use crate::experiments::GuestNeeds;
use crate::limits::{GUEST_SCALE_MAX, GUEST_TIME_MAX, GUEST_TOOL_TIME_MAX};
use millstream_host::{Command, check_ours, own_file, shell_word};
use millstream_local::{installed, server_account};
use std::collections::BTreeSet;
use std::fs;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// The first program of a guest.
const INIT: &str = include_str!("init.sh");

/// Files of a guest that are the same for all.
const TEXTS: &[(&str, &str)] = &[
    ("init", INIT),
    ("etc/passwd", "root:x:0:0::/:/bin/sh\npostgres:x:70:70::/data:/bin/sh\n"),
    ("etc/group", "root:x:0:\npostgres:x:70:\n"),
    ("etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"),
    ("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
];

/// Files of this machine that a guest needs if they are there: where libraries are, and the time zone of our sessions.
const OF_THIS_MACHINE: &[&str] = &["/etc/ld.so.cache", "/usr/share/zoneinfo/UTC"];

/// Programs of PostgreSQL that experiments use, if they are there.
const PROGRAMS: &[&str] = &["initdb", "pg_ctl", "postgres", "pgbench", "psql"];

/// Parts of PostgreSQL that are large and not needed. Without its library, the server does not compile queries.
const LEFT_OUT: &[&str] = &["bitcode", "llvmjit.so", "pgxs", "doc", "man", "include"];

/// Where the files of a user's experiment are.
const EXPERIMENT: &str = "/experiment";

/// Where the modules of the kernel are.
const MODULES: &str = "/lib/modules";

/// Modules of a kernel.
#[derive(Debug, Default)]
pub(super) struct Modules {
    /// Those of the disk. A guest works without them, too.
    pub(super) disk: Vec<Module>,
    /// Those that the experiment needs.
    pub(super) experiment: Vec<Module>,
}

/// Makes the image in a directory, with modules of the kernel, and returns its path.
///
/// # Errors
/// PostgreSQL is not complete; a file or a library is missing or cannot be read; the disk is full.
pub(super) async fn make(guests: &Guests<'_>, modules: &Modules, dir: &Path) -> Result<PathBuf, Error> {
    let Guests { request, source, busybox, postgres, root, .. } = guests;
    let (busybox, root) = (busybox.as_path(), root.as_deref());
    let mut files: Vec<PathBuf> = Vec::new();
    if let Some(bin) = postgres {
        files.extend(PROGRAMS.iter().map(|name| bin.join(name)).filter(|file| file.is_file()));
    }
    let needs = source.experiment.guest.clone().unwrap_or_default();
    let needed = needed(&needs, root)?;
    let programs = [request.program, busybox].into_iter().chain(files.iter().chain(&needed).map(PathBuf::as_path));
    let libraries = libraries(programs, root, &needs).await?;
    files.extend(needed);
    files.extend(libraries);
    if let Some(bin) = postgres {
        for directory in directories(bin).await? {
            below(&directory, &mut files)?;
        }
    }
    files.extend(OF_THIS_MACHINE.iter().map(PathBuf::from).filter(|file| file.is_file()));

    let own = Path::new(request.experiment).extension().is_some_and(|extension| extension == "toml");
    let experiment = match own {
        true => format!("{EXPERIMENT}/{}.toml", source.experiment.name),
        false => request.experiment.to_owned(),
    };
    let mut copies = vec![(request.program, Path::new("/millstream")), (busybox, Path::new("/bin/busybox"))];
    let inside = |file| root.and_then(|root| Path::strip_prefix(file, root).ok()).unwrap_or(file);
    copies.extend(files.iter().map(|file| (file.as_path(), inside(file.as_path()))));
    let all = || modules.disk.iter().chain(&modules.experiment);
    let places: Vec<PathBuf> = all().map(place_of).collect();
    copies.extend(all().zip(&places).map(|(module, place)| (module.file.as_path(), place.as_path())));
    if own {
        copies.push((Path::new(request.experiment), Path::new(&experiment)));
    }

    let image = dir.join("image");
    let failed = |error| Error::io("write", &image)(error);
    let file = own_file(0o644).write(true).create(true).truncate(true).open(&image);
    let mut archive = Archive::new(BufWriter::new(file.map_err(failed)?));
    for (path, text) in TEXTS {
        archive.text(Path::new(path), text).map_err(failed)?;
    }
    let work = work(&experiment, request.seed, postgres.as_deref(), &needs.setup, modules);
    archive.text(Path::new("/work.sh"), &work).map_err(failed)?;
    for (name, text) in source.files.iter().filter(|_| own) {
        archive.text(&Path::new(EXPERIMENT).join(name), text).map_err(failed)?;
    }
    for (from, path) in copies {
        archive.copy(from, path).map_err(Error::io("copy", from))?;
    }
    archive.end().map_err(failed)?;
    Ok(image)
}

/// Where a module is in the guest.
fn place_of(module: &Module) -> PathBuf {
    Path::new(MODULES).join(module.file.file_name().unwrap_or_default())
}

/// The files that an experiment needs: each that of the unpacked packages, else that of this machine.
///
/// # Errors
/// [`Error::Missing`] with all that are not there, and the packages to install or to unpack.
pub(super) fn needed(needs: &GuestNeeds, root: Option<&Path>) -> Result<Vec<PathBuf>, Error> {
    let (mut found, mut absent) = (Vec::new(), Vec::new());
    for file in &needs.files {
        let unpacked = root.map(|root| root.join(file.strip_prefix("/").unwrap_or(file)));
        match unpacked.into_iter().chain([file.clone()]).find(|file| file.is_file()) {
            Some(file) => found.push(file),
            None => absent.push(file.display().to_string()),
        }
    }
    if absent.is_empty() { Ok(found) } else { Err(missing(&absent, needs)) }
}

fn missing(absent: &[String], needs: &GuestNeeds) -> Error {
    let hint = match needs.packages.join(" ") {
        none if none.is_empty() => {
            "unpack the packages that hold them below a directory, and name it by --guest-root".to_owned()
        }
        packages => format!(
            "on Debian: apt install {packages}; or fetch them and the packages that they need with apt-get install \
             --download-only, unpack each with dpkg -x FILE.deb DIRECTORY, and name the directory by --guest-root"
        ),
    };
    Error::Missing { tool: "the experiment in a guest", why: format!("there is no {}", absent.join(", and no ")), hint }
}

/// What `init.sh` reads: the seconds that the guest has, the programs' directories, what comes before the command, and the
/// command.
fn work(experiment: &str, seed: u64, postgres: Option<&Path>, setup: &str, modules: &Modules) -> String {
    let (mut path, mut more) = ("/usr/sbin:/usr/bin:/bin".to_owned(), String::new());
    if let Some(bin) = postgres {
        let bin = shell_word(&bin.display());
        path = format!("{path}:{bin}");
        more = format!(" --postgres {bin}");
    }
    let seconds = GUEST_TIME_MAX.as_secs();
    let run = format!("--quick --seed {seed} --scale-max {GUEST_SCALE_MAX} --change-host --in-guest --out /out{more}");
    let experiment = shell_word(experiment);
    let load = |module: &Module, end: &str| {
        let file = shell_word(&place_of(module).display());
        format!("    insmod {file} {}{end}\n", module.parameters)
    };
    let disk: String = modules.disk.iter().map(|module| load(module, "")).collect();
    let prepare: String = modules.experiment.iter().map(|module| load(module, " || return")).collect();
    format!(
        "seconds={seconds}\nPATH={path}\ndisk() {{\n{disk}    :\n}}\nprepare() {{\n{prepare}    :\n{setup}\n}}\n\
         work() {{\n    /millstream lab run {experiment} {run}\n}}\n"
    )
}

/// The directory of PostgreSQL's programs, without links: the given one, or that of a major version or of the newest.
///
/// # Errors
/// It is not installed.
pub(super) fn programs(postgres: Option<&str>) -> Result<PathBuf, Error> {
    let major = match postgres.map(|text| (text, text.parse::<u32>())) {
        Some((dir, Err(_))) => return fs::canonicalize(dir).map_err(Error::io("find", Path::new(dir))),
        Some((_, Ok(major))) => Some(major),
        None => None,
    };
    let mut all = installed(&server_account()?).into_iter();
    let found = all.find(|one| major.is_none_or(|major| one.major == major)).map(|one| one.bin);
    let which = || major.map_or_else(|| "none".to_owned(), |major| major.to_string());
    found.ok_or_else(|| no_postgres(format!("{} is not installed", which())))
}

/// The directories of a PostgreSQL's libraries and shared files.
async fn directories(bin: &Path) -> Result<Vec<PathBuf>, Error> {
    let config = bin.join("pg_config");
    check_ours(&config)?;
    let mut config = Command::new(config);
    let ended = tool::run(config.args(["--pkglibdir", "--sharedir"]), GUEST_TOOL_TIME_MAX).await;
    let printed = ended.map_err(|error| no_postgres(error.to_string()))?.stdout;
    Ok(printed.lines().map(PathBuf::from).collect())
}

fn no_postgres(why: String) -> Error {
    let hint = "on Debian: apt install postgresql; or name another by --postgres".to_owned();
    Error::Missing { tool: "PostgreSQL", why, hint }
}

/// The libraries that programs load, and the loader. A program that is linked statically has none.
/// `root`: where unpacked packages are, whose libraries come first.
///
/// # Errors
/// [`Error::Missing`] if a library is nowhere: its program would not start in the guest.
async fn libraries<'a>(
    programs: impl Iterator<Item = &'a Path>,
    root: Option<&Path>,
    needs: &GuestNeeds,
) -> Result<Vec<PathBuf>, Error> {
    let mut ldd = Command::new("ldd");
    if let Some(root) = root {
        let mut unpacked = Vec::new();
        below(root, &mut unpacked)?;
        let is_library = |file: &&PathBuf| file.to_string_lossy().contains(".so");
        let dirs: BTreeSet<&Path> = unpacked.iter().filter(is_library).filter_map(|file| file.parent()).collect();
        ldd.env("LD_LIBRARY_PATH", std::env::join_paths(dirs).map_err(|error| Error::Asked(error.to_string()))?);
    }
    // Its exit code says whether one of the programs is linked statically.
    let measured = ldd.args(programs).measure(GUEST_TOOL_TIME_MAX).await;
    let printed = measured.map_err(|error| Error::Asked(error.to_string()))?.ended.stdout;
    let absent = absent(&printed);
    if absent.is_empty() { Ok(loaded(&printed).collect()) } else { Err(missing(&absent, needs)) }
}

/// The libraries that are nowhere, each once, in what `ldd` prints.
fn absent(printed: &str) -> Vec<String> {
    let names = printed.lines().filter_map(|line| line.trim().strip_suffix(" => not found"));
    names.collect::<BTreeSet<_>>().into_iter().map(str::to_owned).collect()
}

/// The paths in what `ldd` prints. A line that is not indented names a program.
fn loaded(printed: &str) -> impl Iterator<Item = PathBuf> {
    let lines = printed.lines().filter(|line| line.starts_with(char::is_whitespace));
    lines.filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from))
}

/// Adds the files below a directory, without [`LEFT_OUT`]. Links to files are followed, those to directories are not,
/// so that this ends.
fn below(dir: &Path, files: &mut Vec<PathBuf>) -> Result<(), Error> {
    for entry in fs::read_dir(dir).map_err(Error::io("read", dir))? {
        let entry = entry.map_err(Error::io("read", dir))?;
        let path = entry.path();
        if LEFT_OUT.iter().any(|name| path.ends_with(name)) {
            continue;
        }
        if entry.file_type().map_err(Error::io("read", &path))?.is_dir() {
            below(&path, files)?;
        } else if path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Request, archive::members};
    use super::*;
    use crate::experiments::{Selection, Source};
    use millstream_pg::Explained as _;
    use std::os::unix::fs::symlink;

    #[test]
    fn libraries_and_the_loader_are_read_and_what_is_no_file_is_not() {
        let printed = "/usr/bin/one:\n\tlinux-vdso.so.1 (0x00007ffd)\n\
            \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\tlibgone.so => not found\n\
            /usr/bin/two:\n\tnot a dynamic executable\n/usr/bin/three:\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        assert_eq!(absent(printed), ["libgone.so"]);
        let found: Vec<PathBuf> = loaded(printed).collect();
        assert_eq!(found, ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from));
    }

    #[test]
    fn all_files_that_are_missing_are_named_with_the_packages_to_unpack() {
        let mut needs = GuestNeeds { files: vec!["/no/one".into(), "/no/two".into()], ..GuestNeeds::default() };
        let said = |needs: &GuestNeeds, root| {
            let error = needed(needs, root).unwrap_err();
            (error.to_string(), error.hint().unwrap())
        };
        let (why, hint) = said(&needs, None);
        assert!(why.ends_with("there is no /no/one, and no /no/two"), "{why}");
        assert!(hint.starts_with("unpack the packages that hold them"), "{hint}");
        needs.packages = ["one", "two"].map(str::to_owned).to_vec();
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("no")).unwrap();
        fs::write(root.path().join("no/one"), "").unwrap();
        let (why, hint) = said(&needs, Some(root.path()));
        assert!(why.ends_with("there is no /no/two"), "{why}");
        assert!(hint.starts_with("on Debian: apt install one two; or fetch them"), "{hint}");
        fs::write(root.path().join("no/two"), "").unwrap();
        assert_eq!(needed(&needs, Some(root.path())).unwrap(), ["no/one", "no/two"].map(|file| root.path().join(file)));
    }

    #[test]
    fn files_are_listed_without_what_is_left_out_and_links_that_lead_back_end() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["a/b/one", "a/bitcode/two", "a/llvmjit.so", "a/manual"] {
            fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            fs::write(at(name), "").unwrap();
        }
        symlink(at("a"), at("a/b/back")).unwrap();
        symlink(at("nothing"), at("a/dangling")).unwrap();
        symlink(at("a/manual"), at("a/link")).unwrap();
        let mut files = Vec::new();
        below(dir.path(), &mut files).unwrap();
        files.sort();
        assert_eq!(files, ["a/b/one", "a/link", "a/manual"].map(at));
    }

    #[test]
    fn names_with_spaces_and_quotes_reach_the_guest() {
        let bonding = Module { file: "/tmp/bonding.ko.xz".into(), parameters: "max_bonds=0".to_owned() };
        let blk = Module { file: "/tmp/virtio_blk.ko".into(), parameters: String::new() };
        let modules = Modules { disk: vec![blk], experiment: vec![bonding] };
        let work = work("/experiment/it's mine.toml", 7, Some(Path::new("/opt/a b/bin")), "", &modules);
        let run = "/millstream lab run \"/experiment/it's mine.toml\" --quick --seed 7 --scale-max 1";
        assert!(
            work.contains(&format!("\n    {run} --change-host --in-guest --out /out --postgres '/opt/a b/bin'\n")),
            "{work}"
        );
        assert!(work.contains("\nPATH=/usr/sbin:/usr/bin:/bin:'/opt/a b/bin'\n"), "{work}");
        let load = "prepare() {\n    insmod /lib/modules/bonding.ko.xz max_bonds=0 || return\n    :\n";
        assert!(work.contains(load), "{work}");
        // A guest without its disk works, too.
        assert!(work.contains("disk() {\n    insmod /lib/modules/virtio_blk.ko \n    :\n}\n"), "{work}");
        assert!(!super::work("ladder", 1, None, "", &Modules::default()).contains("--postgres"));
    }

    #[tokio::test]
    async fn an_image_has_what_the_experiment_of_a_user_needs() {
        let dir = tempfile::tempdir().unwrap();
        let (busybox, program) = (dir.path().join("busybox"), std::env::current_exe().unwrap());
        fs::write(&busybox, "static").unwrap();
        let experiment = dir.path().join("own.toml");
        let text = "question = 'q?'\nexpected = ''\nread = ''\nseconds = 1\nserver = false\n\
            run = { command = 'true' }\n[[arm]]\nname = 'a'\nabout = ''\n";
        fs::write(&experiment, text).unwrap();
        let experiment = experiment.to_str().unwrap();
        let mut source = Source::named(experiment, &Selection::default()).unwrap();
        source.files.insert("a.sql".to_owned(), "select 1;\n".to_owned());
        let request =
            Request { packages: &[], boots: 1, experiment, seed: 1, postgres: None, root: None, program: &program };
        let guests = Guests { request, source, busybox, postgres: None, root: None, dir: dir.path().to_owned() };
        let image = make(&guests, &Modules::default(), dir.path()).await.unwrap();
        let members = members(&fs::read(image).unwrap());
        let content = |name: &str| members.iter().find(|(one, ..)| one == name).map(|(.., content)| content.as_slice());
        assert_eq!(content("init"), Some(INIT.as_bytes()));
        assert_eq!(content("bin/busybox"), Some(&b"static"[..]));
        assert_eq!(content("experiment/own.toml"), Some(text.as_bytes()));
        assert_eq!(content("experiment/a.sql"), Some(&b"select 1;\n"[..]));
        assert_eq!(content("millstream").map(<[u8]>::len), Some(fs::read(&program).unwrap().len()));
        assert!(members.iter().any(|(name, ..)| name.contains("/ld-linux")), "the loader of {}", program.display());
        assert!(content("work.sh").unwrap().starts_with(b"seconds="));
    }
}
