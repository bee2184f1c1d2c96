//! Networks of their own, for what must not touch this machine's network.

use crate::child::Child;
use crate::command::{Command, Ended};
use crate::error::Error;
use crate::limits::{SANDBOX_POLL, SANDBOX_READY_MAX};
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

/// What holds a namespace: it waits for the end of its input, which this process has open. So the namespace is gone when
/// this process is, however that ended.
const HOLDER: &str = "cat";

/// Network namespaces without names, which end with this value, and with this process even if it is killed. Each has its
/// own loopback device, filters and connections.
///
/// Without root, they lie in a user namespace, in which a program may do what root may do to a network. Loading an XDP
/// program is not among that.
#[derive(Debug)]
pub struct Sandbox {
    holders: Vec<Child>,
    in_user_namespace: bool,
    /// Ends of cables in the network of this machine. The kernel removes them with the other end, but a little later.
    own_devices: Vec<String>,
}

/// One end of a cable between two networks.
#[derive(Debug, Clone, Copy)]
pub struct End<'a> {
    /// The network's place in the sandbox; `None`: the network of this machine, which only root can change.
    pub network: Option<usize>,
    /// The name that the device gets there, at most 15 bytes.
    pub device: &'a str,
    /// Its addresses, with the length of the prefix.
    pub addresses: &'a [&'a str],
}

impl Sandbox {
    /// Makes as many networks, with nothing but a loopback device that is up.
    ///
    /// # Errors
    /// A program is missing (`unshare`, `nsenter` of util-linux; `ip` of iproute2), or the system lets this account have
    /// no namespaces.
    pub fn make(networks: usize) -> Result<Self, Error> {
        let mut made = Self {
            holders: Vec::new(),
            in_user_namespace: !rustix::process::geteuid().is_root(),
            own_devices: Vec::new(),
        };
        for network in 0..networks {
            let mut holder = made.unshare().start()?;
            made.wait_for(&mut holder)?;
            made.holders.push(holder);
            made.run(network, "ip", ["link", "set", "lo", "up"])?;
        }
        Ok(made)
    }

    /// A program in one of the networks. Paths, users and processes are those of this machine.
    pub fn command(&self, network: usize, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        self.enter(&mut command, network);
        command.arg("--net").arg("--").arg(program);
        // Otherwise iptables wants to write below /run, which is root's.
        command.env("XTABLES_LOCKFILE", "/dev/null");
        command
    }

    /// The file that stands for one of the networks: a process in the same user namespace can enter it by this.
    pub fn path(&self, network: usize) -> PathBuf {
        PathBuf::from(format!("/proc/{}/ns/net", self.holders[network].id()))
    }

    /// Runs a program that ends at once, which must succeed.
    ///
    /// # Errors
    /// It is missing, or fails; the message holds what it printed.
    pub fn run<A: AsRef<OsStr>>(
        &self,
        network: usize,
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = A>,
    ) -> Result<Ended, Error> {
        self.command(network, program).args(args).run_blocking().and_then(Ended::succeeded)
    }

    /// The same for a program that reads this input.
    ///
    /// # Errors
    /// As [`Sandbox::run`].
    pub fn feed<A: AsRef<OsStr>>(
        &self,
        network: usize,
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = A>,
        input: impl Into<Vec<u8>>,
    ) -> Result<Ended, Error> {
        self.command(network, program).args(args).input(input).run_blocking().and_then(Ended::succeeded)
    }

    /// Connects two networks by a virtual cable (`veth`). Both ends are up afterwards, and their addresses can be used at
    /// once. The cable goes with either network.
    ///
    /// # Errors
    /// As [`Sandbox::run`]; a name is taken, or too long.
    pub fn join(&mut self, ends: [End<'_>; 2]) -> Result<(), Error> {
        let [here, there] = ends;
        let mut link = self.ip(here.network);
        link.args(["link", "add", here.device, "type", "veth", "peer", "name", there.device]);
        let pid = there.network.map_or_else(std::process::id, |network| self.holders[network].id());
        link.args(["netns", &pid.to_string()]);
        link.run_blocking().and_then(Ended::succeeded)?;
        let own = ends.iter().filter(|end| end.network.is_none()).map(|end| end.device.to_owned());
        self.own_devices.extend(own);
        for end in ends {
            for address in end.addresses {
                let mut add = self.ip(end.network);
                add.args(["address", "add", address, "dev", end.device]);
                if address.contains(':') {
                    // Otherwise it cannot be used before the kernel has looked for a twin.
                    add.arg("nodad");
                }
                add.run_blocking().and_then(Ended::succeeded)?;
            }
            let mut up = self.ip(end.network);
            up.args(["link", "set", end.device, "up"]).run_blocking().and_then(Ended::succeeded)?;
        }
        Ok(())
    }

    fn ip(&self, network: Option<usize>) -> Command {
        match network {
            Some(network) => self.command(network, "ip"),
            None => Command::new("ip"),
        }
    }

    /// A holder of one more namespace. All lie in the user namespace of the first one.
    fn unshare(&self) -> Command {
        let mut command;
        if self.in_user_namespace && self.holders.is_empty() {
            command = Command::new("unshare");
            command.args(["--user", "--map-root-user"]);
        } else if self.in_user_namespace {
            command = Command::new("nsenter");
            self.enter(&mut command, 0);
            command.args(["--", "unshare"]);
        } else {
            command = Command::new("unshare");
        }
        command.args(["--net", "--", HOLDER]);
        command
    }

    fn enter(&self, command: &mut Command, network: usize) {
        command.arg("--target").arg(self.holders[network].id().to_string());
        if self.in_user_namespace {
            command.args(["--user", "--preserve-credentials"]);
        }
    }

    /// Waits until the namespace is there.
    fn wait_for(&self, holder: &mut Child) -> Result<(), Error> {
        let begun = Instant::now();
        let name = format!("/proc/{}/comm", holder.id());
        while begun.elapsed() < SANDBOX_READY_MAX && holder.ended().is_none() {
            if fs::read_to_string(&name).is_ok_and(|name| name.trim_end() == HOLDER) {
                return Ok(());
            }
            std::thread::sleep(SANDBOX_POLL);
        }
        // The holder's output is dropped. Without an input it ends at once, and says why it cannot begin.
        let program = self.unshare().run_blocking().and_then(Ended::succeeded)?.program;
        Err(Error::NotReady { program })
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        for device in &self.own_devices {
            let _ = Command::new("ip").args(["link", "del", device]).run_blocking();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Account;
    use millstream_testkit::{Need, machine_has};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn networks_of_a_sandbox_reach_each_other_and_end_with_it() {
        if !machine_has(&[Need::Networks]) {
            return;
        }
        let mut sandbox = Sandbox::make(2).unwrap();
        let addresses = [&["10.9.0.1/24", "fd09::1/64"], &["10.9.0.2/24", "fd09::2/64"]];
        let end = |network| End { network: Some(network), device: "cable", addresses: addresses[network] };
        sandbox.join([end(0), end(1)]).unwrap();
        for (network, address) in [(0, "10.9.0.2"), (1, "10.9.0.1"), (0, "fd09::2"), (1, "fd09::1"), (0, "127.0.0.1")] {
            let shown = sandbox.run(network, "ip", ["route", "get", address]).unwrap().stdout;
            assert!(shown.contains(address), "{shown}");
        }
        let devices = sandbox.run(1, "ip", ["-brief", "link"]).unwrap().stdout;
        assert!(devices.lines().count() == 2 && devices.contains("cable@"), "{devices}");
        let other = Sandbox::make(1).unwrap();
        assert!(!other.run(0, "ip", ["-brief", "link"]).unwrap().stdout.contains("cable"));

        let taken = sandbox.join([end(0), end(1)]).unwrap_err();
        assert!(taken.to_string().contains("File exists"), "{taken}");
        let pids: Vec<u32> = sandbox.holders.iter().map(Child::id).collect();
        drop(sandbox);
        for pid in pids {
            assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
        }
    }

    #[test]
    fn what_holds_a_network_ends_when_nobody_holds_its_input() {
        if !machine_has(&[Need::Networks]) {
            return;
        }
        let mut sandbox = Sandbox::make(1).unwrap();
        // The same happens when this process is killed: its end of the pipe closes.
        let mut holder = sandbox.holders.remove(0);
        holder.finish();
        assert!(holder.ended().is_some_and(|status| status.success()));
    }

    /// Runs the first test again as another user, in a process of its own.
    #[test]
    fn a_normal_user_has_sandboxes_too() {
        if !machine_has(&[Need::Root, Need::Networks]) {
            return;
        }
        let nobody = Account::named("nobody").unwrap();
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let copy = dir.path().join("tests");
        // A child that another thread starts now would hold a file that this process writes, and could not run it.
        let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&copy).run_blocking().unwrap();
        assert!(copied.status.success(), "{copied:?}");
        let test = "sandbox::tests::networks_of_a_sandbox_reach_each_other_and_end_with_it";
        let ended = nobody.command(&copy).args(["--exact", test]).run_blocking().unwrap();
        assert!(ended.status.success() && ended.stdout.contains("1 passed"), "{ended:?}");
    }
}
