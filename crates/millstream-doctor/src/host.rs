//! The machine of the server, if the doctor runs there too.

use crate::limits::{DATA_FILE_BYTES_MIN, FILES_LOOKED_AT_MAX, LOOKS_APART};
use crate::server::Server;
use millstream_host::kernel::link::{self, NetLink};
use millstream_host::kernel::{BlockDevice, Cgroup, Mount, cgroup, file, mount, pressure};
use millstream_host::{DiskSpace, disk_space};
use millstream_model::MachineFacts;
use millstream_model::quantity::whole;
use millstream_pg::Error;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What the server may ask of its machine, as it is set.
#[derive(Debug, Clone, Default)]
pub(crate) struct Demands {
    /// `max_connections`.
    pub(crate) clients: u64,
    /// `max_files_per_process`.
    pub(crate) files_per_process: u64,
    /// `max_wal_size`.
    pub(crate) wal_bytes: u64,
    /// The settings that are on by which it reads the time at each step of its I/O.
    pub(crate) timed: Vec<String>,
}

impl Demands {
    async fn of(server: &Server) -> Result<Self, Error> {
        let row = server.session.client.query_one(include_str!("demands.sql"), &[]).await?;
        let number = |column: &str| u64::try_from(row.get::<_, i64>(column)).unwrap_or(0);
        let [clients, files_per_process, wal_bytes] = ["clients", "files_per_process", "wal_bytes"].map(number);
        Ok(Self { clients, files_per_process, wal_bytes, timed: row.get("timed") })
    }
}

/// The server's machine.
#[derive(Debug)]
pub(crate) struct Host {
    /// What the server may ask of it. `Err`: why that is not known.
    demands: Result<Demands, String>,
    /// Where `/proc`, `/sys` and `/etc` are.
    root: PathBuf,
    /// The directories of data, WAL and tablespaces, as far as this role may know them.
    dirs: Vec<(&'static str, PathBuf)>,
    mounts: Vec<Mount>,
    /// The directory in `/proc` of the process that serves our session.
    process: String,
    /// When the counters were read for the first time.
    begun: Instant,
    /// What files with counters held then.
    first: BTreeMap<PathBuf, String>,
    /// Below it are the same files for the second look: `root`, or `later` in it if `root` was made by a test.
    second: PathBuf,
}

/// Files with counters of the machine. Those of the server's control group come to them.
const COUNTERS: &[&str] =
    &["/proc/diskstats", "/proc/net/netstat", "/proc/net/stat/nf_conntrack", "/proc/stat", "/proc/vmstat"];

/// A file with counters at two moments.
#[derive(Debug)]
pub(crate) struct Twice {
    /// At the first look.
    pub(crate) before: String,
    /// Now.
    pub(crate) after: String,
    /// Seconds between the two.
    pub(crate) seconds: f64,
}

impl Twice {
    /// By how much the counter in a line such as `name 12` grew. `None` if it is missing, or began anew in between.
    pub(crate) fn growth(&self, name: &str) -> Option<f64> {
        let growth = file::number(&self.after, name)? - file::number(&self.before, name)?;
        (growth >= 0.0).then_some(growth)
    }
}

impl Host {
    /// The machine, with its kernel's files at `root`, or at `/` if the server is here.
    ///
    /// # Errors
    /// Why its machine cannot be examined.
    pub(crate) async fn of(server: &Server, root: Option<&Path>) -> Result<Self, String> {
        if root.is_none() && !is_here(server) {
            return Err("the server's machine; run the doctor there, too".to_owned());
        }
        let data = server.data_directory().await.map_err(|error| error.to_string())?;
        let wal = data.as_ref().map(|data| data.join("pg_wal"));
        let tablespaces = server.tablespaces().await.map_err(|error| error.to_string())?;
        let tablespaces = tablespaces.into_iter().map(|dir| ("tablespace", dir));
        let dirs = data.map(|dir| ("data", dir)).into_iter().chain(wal.map(|dir| ("WAL", dir))).chain(tablespaces);
        let demands = Demands::of(server).await.map_err(|why| format!("what the server asks of its machine: {why}"));
        let process = format!("/proc/{}", server.session.server.backend_pid);
        Ok(Self::at_first_look(root, dirs.collect(), process, demands))
    }

    /// The machine, its counters read for the first time.
    fn at_first_look(
        root: Option<&Path>,
        dirs: Vec<(&'static str, PathBuf)>,
        process: String,
        demands: Result<Demands, String>,
    ) -> Self {
        let second = root.map_or_else(|| PathBuf::from("/"), |root| root.join("later"));
        let root = root.unwrap_or(Path::new("/"));
        let mut host = Self {
            demands,
            dirs,
            mounts: mount::parsed(&file::text(root.join("proc/self/mountinfo")).unwrap_or_default()),
            root: root.to_owned(),
            process,
            begun: Instant::now(),
            first: BTreeMap::new(),
            second,
        };
        let group = host.cgroup("cpu").map(|group| group.dirs).unwrap_or_default();
        let files = COUNTERS.iter().map(|path| host.path(path)).chain(group.iter().map(|dir| dir.join("cpu.stat")));
        host.first = files.filter_map(|path| file::text(&path).map(|text| (path, text))).collect();
        host
    }

    /// What the server may ask of it, or why that is not known.
    pub(crate) fn demands(&self) -> Result<&Demands, String> {
        self.demands.as_ref().map_err(Clone::clone)
    }

    /// From when on a second look at the counters says something. A directory that stands for a machine needs no wait.
    pub(crate) fn second_look_at(&self) -> Instant {
        if self.second == self.root { self.begun + LOOKS_APART } else { self.begun }
    }

    /// One of the files with counters, as it was at the beginning and as it is now. `None` if it cannot be read.
    pub(crate) fn twice(&self, path: &Path) -> Option<Twice> {
        let before = self.first.get(path)?.clone();
        let now = path.strip_prefix(&self.root).ok().and_then(|inner| file::text(self.second.join(inner)));
        let seconds = self.begun.elapsed().max(LOOKS_APART).as_secs_f64();
        Some(Twice { before, after: now.or_else(|| file::text(path))?, seconds })
    }

    /// The share of the last minute, in percent, in which a task waited, from a file such as `/proc/pressure/io`.
    pub(crate) fn waited(path: &Path) -> Option<f64> {
        let text = file::text(path)?;
        let some = pressure::values(&text, "avg60").find(|(kind, _)| *kind == "some");
        some.map(|(_, percent)| percent)
    }

    /// The number in a line such as `name 12` of a file.
    pub(crate) fn line(path: &Path, name: &str) -> Option<f64> {
        file::number(&file::text(path)?, name)
    }

    /// Its network links. `None`: they cannot be read.
    pub(crate) fn links(&self) -> Option<Vec<NetLink>> {
        link::links(&self.root)
    }

    /// What a check does not see because a file of the kernel is missing or hidden.
    pub(crate) fn hidden(what: &str, path: &str) -> String {
        format!("{what}, because {path} cannot be read here")
    }

    /// A file by its whole path, such as `/proc/meminfo`.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The text of a file without the space around it.
    pub(crate) fn word(&self, path: &str) -> Option<String> {
        file::word(self.path(path))
    }

    /// The number in a file.
    pub(crate) fn number(&self, path: &str) -> Option<f64> {
        self.word(path)?.parse().ok()
    }

    /// Names of the files in a directory, sorted.
    pub(crate) fn entries(&self, dir: &str) -> Vec<String> {
        let files = std::fs::read_dir(self.path(dir)).into_iter().flatten().flatten();
        let mut names: Vec<String> = files.filter_map(|file| file.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// A line of `/proc/meminfo` in its own unit, kB or pages.
    pub(crate) fn memory(&self, name: &str) -> Option<f64> {
        Self::line(&self.path("/proc/meminfo"), name)
    }

    /// The file with the version of the kernel.
    pub(crate) const RELEASE: &str = "/proc/sys/kernel/osrelease";

    /// The first two numbers of the kernel's version.
    pub(crate) fn kernel(&self) -> Option<(u32, u32)> {
        let release = self.word(Self::RELEASE)?;
        let mut numbers = release.split(['.', '-']).map(|number| number.parse().ok());
        numbers.next().flatten().zip(numbers.next().flatten())
    }

    /// How many processors the machine has; at least 1.
    pub(crate) fn processors(&self) -> u32 {
        file::text(self.path("/proc/cpuinfo"))
            .map_or(1, |text| u32::try_from(text.matches("processor\t").count()).unwrap_or(1).max(1))
    }

    /// Seconds since the machine started.
    pub(crate) fn uptime(&self) -> Option<f64> {
        self.word("/proc/uptime")?.split_whitespace().next()?.parse().ok()
    }

    /// The directory in `/proc` of the server's first process, which is the parent of ours.
    pub(crate) fn postmaster(&self) -> Option<String> {
        let of = |process: &str| self.word(&format!("{process}/stat"));
        // A directory that stands for a machine has no process of ours.
        let text = of(&self.process).or_else(|| of("/proc/self"))?;
        // The name in field 2 may contain spaces and parentheses; proc(5).
        let parent: u32 = text.rsplit_once(") ")?.1.split_whitespace().nth(1)?.parse().ok()?;
        Some(format!("/proc/{parent}"))
    }

    /// What runs the container in which the server and the doctor are, or what shows that they are in one.
    pub(crate) fn container(&self) -> Option<String> {
        // A virtual machine that was made from an image of a container has its marks, but also the kernel's threads.
        if self.word("/proc/2/comm").as_deref() == Some("kthreadd") {
            return None;
        }
        let marks = [
            ("/run/secrets/kubernetes.io", "Kubernetes"),
            ("/var/run/secrets/kubernetes.io", "Kubernetes"),
            ("/.dockerenv", "Docker"),
            ("/run/.containerenv", "Podman"),
        ];
        let marked = marks.iter().find(|(file, _)| self.path(file).exists()).map(|(_, name)| (*name).to_owned());
        marked
            .or_else(|| self.word("/run/systemd/container"))
            .or_else(|| named_container(&file::text(self.path("/proc/1/environ"))?))
            .or_else(|| mount::of(&self.mounts, Path::new("/")).and_then(layered))
    }

    /// Memory in bytes that is free or caches files.
    pub(crate) fn available_bytes(&self) -> Option<f64> {
        self.memory("MemAvailable").map(|kilobytes| kilobytes * 1_024.0)
    }

    /// The control group of the server for a controller, such as `cpu`.
    pub(crate) fn cgroup(&self, controller: &str) -> Option<Cgroup> {
        let of = |process: &str| file::text(self.path(&format!("{process}/cgroup")));
        // A directory that stands for a machine has no process of ours.
        let text = of(&self.process).or_else(|| of("/proc/self"))?;
        let mut cgroup = cgroup::parsed(&text, controller, &self.mounts)?;
        cgroup.dirs = cgroup.dirs.iter().map(|dir| self.path(&dir.display().to_string())).collect();
        Some(cgroup.seen())
    }

    /// What the sizes of settings depend on.
    ///
    /// # Errors
    /// What is not known, and why.
    pub(crate) fn facts(&self) -> Result<MachineFacts, String> {
        let unknown = || "the memory of the machine, because /proc/meminfo cannot be read".to_owned();
        let memory_bytes = whole(self.memory("MemTotal").ok_or_else(unknown)? * 1_024.0);
        // If nothing is known of the disks, nothing is promised of them.
        let disks = self.disks();
        let rotates = |disk: &str| self.number(&format!("/sys/block/{disk}/queue/rotational")) != Some(0.0);
        Ok(MachineFacts {
            kernel: self.word(Self::RELEASE).unwrap_or_default(),
            processor: None,
            cores: self.processors(),
            memory_bytes,
            cgroup_bytes: self.cgroup("memory").and_then(|cgroup| cgroup.memory_bytes()),
            load_average: None,
            file_system: None,
            disk_free_bytes: self.wal_disk().map_or(0, |space| space.free),
            rotational: disks.is_empty() || disks.iter().any(|(_, disk)| rotates(disk)),
        })
    }

    /// The directories of data, WAL and tablespaces with their mounts, each mount once.
    pub(crate) fn mounts(&self) -> Vec<(&'static str, &Path, &Mount)> {
        let mut found: Vec<(&str, &Path, &Mount)> = Vec::new();
        for (role, dir) in &self.dirs {
            let Some(mount) = mount::of(&self.mounts, dir) else { continue };
            if !found.iter().any(|(_, _, other)| *other == mount) {
                found.push((role, dir, mount));
            }
        }
        found
    }

    /// The mount of the WAL.
    pub(crate) fn wal_mount(&self) -> Option<&Mount> {
        self.dirs.iter().find(|(role, _)| *role == "WAL").and_then(|(_, dir)| mount::of(&self.mounts, dir))
    }

    /// Space on the disk of the WAL, if this account may look there.
    pub(crate) fn wal_disk(&self) -> Option<DiskSpace> {
        self.dirs.iter().find(|(role, _)| *role == "WAL").and_then(|(_, dir)| disk_space(dir))
    }

    /// Names of the devices that carry the file systems of data, WAL and tablespaces, each once, with what it holds.
    pub(crate) fn devices(&self) -> Vec<(&'static str, String)> {
        self.names(|device| vec![device.name])
    }

    /// Names of the disks that hold data, WAL and tablespaces, each once, with what it holds.
    pub(crate) fn disks(&self) -> Vec<(&'static str, String)> {
        self.names(|device| device.disks)
    }

    fn names(&self, of: impl Fn(BlockDevice) -> Vec<String>) -> Vec<(&'static str, String)> {
        let mut found: Vec<(&str, String)> = Vec::new();
        for (role, _, mount) in self.mounts() {
            for name in BlockDevice::of(mount, &self.path("/sys")).into_iter().flat_map(&of) {
                if !found.iter().any(|(_, other)| *other == name) {
                    found.push((role, name));
                }
            }
        }
        found
    }

    /// The largest file of a table, of at most so many that are looked at. `None` if this account may not look, or all are
    /// small.
    pub(crate) fn data_file(&self) -> Option<PathBuf> {
        let (_, data) = self.dirs.iter().find(|(role, _)| *role == "data")?;
        let databases = std::fs::read_dir(data.join("base")).ok()?.flatten();
        let files = databases.filter_map(|dir| std::fs::read_dir(dir.path()).ok()).flat_map(|files| files.flatten());
        let sized = files.take(FILES_LOOKED_AT_MAX).filter_map(|file| Some((file.metadata().ok()?.len(), file.path())));
        let (size, file) = sized.max()?;
        (size >= DATA_FILE_BYTES_MIN).then_some(file)
    }

    /// What is not known of the devices below the file systems of data, WAL and tablespaces, and what would show it.
    pub(crate) fn blind_to_devices(&self) -> Option<String> {
        let nameless = || {
            let mounts = self.mounts();
            let (role, _, mount) =
                mounts.iter().find(|(_, _, mount)| BlockDevice::of(mount, &self.path("/sys")).is_none())?;
            Some(format!("the disk of the {role}, because its file system ({}) names no device", mount.file_system))
        };
        self.blind_to_disks().or_else(nameless)
    }

    /// What is not known of the file systems of data, WAL and tablespaces, and what would show it.
    pub(crate) fn blind_to_disks(&self) -> Option<String> {
        if !self.dirs.iter().any(|(role, _)| *role == "data") {
            return Some("the disks, because the data directory is hidden; grant pg_monitor to this role".to_owned());
        }
        if let Some((role, _)) = self.dirs.iter().find(|(_, dir)| dir.canonicalize().is_err()) {
            let why = "because this account may not enter its directory; run the doctor as root";
            return Some(format!("the disk of the {role}, {why}"));
        }
        let unknown = self.dirs.iter().find(|(_, dir)| mount::of(&self.mounts, dir).is_none());
        unknown.map(|(role, _)| format!("the disk of the {role}, which is on no mount that this process sees"))
    }
}

#[cfg(test)]
impl Host {
    /// A folder that stands for a machine, with data in it, and with what a server asks of it that nobody has changed.
    pub(crate) fn in_folder(root: &Path) -> Self {
        let data = root.join("data");
        let demands = Demands { clients: 100, files_per_process: 1_000, wal_bytes: 1 << 30, timed: Vec::new() };
        let dirs = vec![("data", data.clone()), ("WAL", data.join("pg_wal"))];
        Self::at_first_look(Some(root), dirs, "/proc/none".to_owned(), Ok(demands))
    }

    /// A machine with one mount, which has these directories.
    pub(crate) fn with_dirs(dirs: Vec<(&'static str, PathBuf)>) -> Self {
        Self {
            demands: Ok(Demands::default()),
            root: PathBuf::from("/"),
            dirs,
            mounts: mount::parsed("1 1 8:0 / / rw - ext4 /dev/sda rw\n"),
            process: String::new(),
            begun: Instant::now(),
            first: BTreeMap::new(),
            second: PathBuf::from("/"),
        }
    }
}

/// What runs a container, by the variable `container` of its first process. Source: systemd's Container Interface.
fn named_container(environment: &str) -> Option<String> {
    let value = environment.split('\0').find_map(|variable| variable.strip_prefix("container="))?;
    (!value.is_empty()).then(|| value.to_owned())
}

/// A root of layers is one that a container's runtime has made.
fn layered(root: &Mount) -> Option<String> {
    ["overlay", "aufs"].contains(&root.file_system.as_str()).then(|| "its root is made of layers".to_owned())
}

/// Whether the process that serves our session is one of this machine's.
pub(crate) fn is_here(server: &Server) -> bool {
    let comm = file::word(format!("/proc/{}/comm", server.session.server.backend_pid));
    server.db.is_local() && comm.as_deref() == Some("postgres")
}
