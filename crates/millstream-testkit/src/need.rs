//! What a test needs of the machine, besides PostgreSQL.

use crate::skip;
use millstream_host::{Sandbox, in_path};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Something that a test needs and a machine may lack.
#[derive(Debug, Clone, Copy)]
pub enum Need {
    /// The tests run as root.
    Root,
    /// The account may make network namespaces, as root always may, and `ip` is installed.
    Networks,
    /// A program in `PATH`, which the tests and Millstream run by its name.
    Program {
        /// Its name.
        name: &'static str,
        /// The Debian package that brings it.
        package: &'static str,
    },
    /// A server. The tests run it by its path, which a normal user's `PATH` may lack.
    Daemon {
        /// Its name.
        name: &'static str,
        /// The Debian package that brings it.
        package: &'static str,
    },
}

impl Need {
    /// A browser.
    pub const CHROMIUM: Self = Self::Program { name: "chromium", package: "chromium" };
    /// The program that reads and writes the kernel's packet filter.
    pub const NFT: Self = Self::Program { name: "nft", package: "nftables" };
    /// The older one.
    pub const IPTABLES: Self = Self::Program { name: "iptables-restore", package: "iptables" };
    /// Sets of addresses for iptables.
    pub const IPSET: Self = Self::Program { name: "ipset", package: "ipset" };
    /// What copies are compared with, and what carries them between machines.
    pub const RSYNC: Self = Self::Program { name: "rsync", package: "rsync" };
    /// The client of ssh.
    pub const SSH: Self = Self::Program { name: "ssh", package: "openssh-client" };
    /// The server of ssh.
    pub const SSHD: Self = Self::Daemon { name: "sshd", package: "openssh-server" };
    /// What makes certificates.
    pub const OPENSSL: Self = Self::Program { name: "openssl", package: "openssl" };
    /// A pooler of connections.
    pub const PGBOUNCER: Self = Self::Daemon { name: "pgbouncer", package: "pgbouncer" };
    /// What runs a broker of Kafka.
    pub const JAVA: Self = Self::Program { name: "java", package: "openjdk-17-jre-headless" };
    /// A machine in software.
    pub const QEMU: Self = Self::Program { name: "qemu-system-x86_64", package: "qemu-system-x86" };
    /// The programs of a guest.
    pub const BUSYBOX: Self = Self::Program { name: "busybox", package: "busybox-static" };
    /// What packs Debian's packages.
    pub const DPKG_DEB: Self = Self::Program { name: "dpkg-deb", package: "dpkg" };

    /// The file of a daemon.
    ///
    /// # Panics
    /// If the machine lacks it, or if it is none.
    pub fn file(self) -> PathBuf {
        match self {
            Self::Daemon { name, .. } => daemon(name).unwrap_or_else(|| panic!("{name} is not installed")),
            _ => panic!("{self:?} is run by its name"),
        }
    }

    /// What to say of it where it is missing; `None` where it is not.
    fn missing(self) -> Option<String> {
        let program = |found: bool, name: &str, package: &str| {
            let of = if name == package { String::new() } else { format!(" (Debian: {package})") };
            (!found).then(|| format!("{name}{of}"))
        };
        match self {
            Self::Root => {
                let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
                (!is_root).then(|| "root".to_owned())
            }
            Self::Networks if in_path("ip").is_none() => program(false, "ip", "iproute2"),
            Self::Networks => Sandbox::make(1).is_err().then(|| "network namespaces".to_owned()),
            Self::Program { name, package } => program(in_path(name).is_some(), name, package),
            Self::Daemon { name, package } => program(daemon(name).is_some(), name, package),
        }
    }
}

fn daemon(name: &str) -> Option<PathBuf> {
    let places = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(|dir| Path::new(dir).join(name));
    in_path(name).or_else(|| places.into_iter().find(|file| file.is_file()))
}

/// Whether the machine has all that a test needs; if not, after [`skip`].
pub fn machine_has(needs: &[Need]) -> bool {
    let missing: Vec<String> = needs.iter().filter_map(|need| need.missing()).collect();
    if !missing.is_empty() {
        skip(&format!("it needs {}", missing.join(", ")));
    }
    missing.is_empty()
}
