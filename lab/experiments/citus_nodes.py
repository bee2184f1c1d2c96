"""Loads documents into a cluster of Citus whose workers are held to a share of a processor, and measures that.

usage: citus_nodes.py start BIN PORT PERCENT SHARDS
       citus_nodes.py prepare PROGRAM ARM
       citus_nodes.py load PROGRAM ARM DOCUMENTS
       citus_nodes.py stop

`start` starts a coordinator and three workers with the programs in BIN, and holds each worker to so many percent of a
processor. If something that is needed is missing, it says so in the file `no-citus` in LAB_DIR. An arm is a database:
`plain` lies at the first worker and has no Citus, the others are clusters of their own, with so many shards for each
worker. `prepare` gives an arm an empty table. `load` loads into it, compares the table with the documents, and prints
the rate of the load alone. `stop` ends the servers.
"""

import json
import os
import pwd
import resource
import shutil
import subprocess
import sys
import time

from processor_share import held, share, why_none

DIR = os.environ["LAB_DIR"]
# What is known of the servers, for the commands after `start`.
FACTS = os.path.join(DIR, "nodes.json")
# The account of the servers where this is root, as which no server of PostgreSQL runs.
ACCOUNT = "postgres"
COORDINATOR = "coordinator"
# The workers of each arm.
WORKERS = {
    "plain": ["worker-1"],
    "workers-1": ["worker-1"],
    "workers-3": ["worker-1", "worker-2", "worker-3"],
}

# No load waits for a checkpoint or for autovacuum.
SETTINGS = """
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = ''
shared_preload_libraries = 'citus'
citus.node_conninfo = 'sslmode=disable'
wal_level = logical
max_prepared_transactions = 100
max_connections = 200
shared_buffers = 1GB
max_wal_size = 16GB
checkpoint_timeout = 1h
autovacuum = off
"""


def start(bin_dir, port, percent, shards):
    missing = what_is_missing(bin_dir) or why_none(int(percent))
    if missing:
        with open(os.path.join(DIR, "no-citus"), "w") as file:
            json.dump({"skipped": missing}, file)
        return
    names = [COORDINATOR, *WORKERS["workers-3"]]
    nodes = {name: {"port": int(port) + n} for n, name in enumerate(names)}
    for name in WORKERS["workers-3"]:
        nodes[name]["group"] = share(name, int(percent))
    with open(FACTS, "w") as file:
        json.dump({"bin": bin_dir, "shards": int(shards), "nodes": nodes}, file)
    cluster = Cluster()
    try:
        for name in names:
            cluster.start(name)
        for arm in WORKERS:
            cluster.make(arm)
    except BaseException:
        cluster.stop()
        raise


def what_is_missing(bin_dir):
    if not os.access(os.path.join(bin_dir, "pg_ctl"), os.X_OK):
        return "no server that has Citus; --set bin=DIR names the directory of its programs"
    found = subprocess.run([os.path.join(bin_dir, "pg_config"), "--sharedir"], capture_output=True, text=True)
    if not os.path.exists(os.path.join(found.stdout.strip(), "extension", "citus.control")):
        return f"the server in {bin_dir} has no Citus; --set bin=DIR names another"
    if os.geteuid() == 0 and ACCOUNT not in [one.pw_name for one in pwd.getpwall()]:
        return f"no account {ACCOUNT} under which root could run a server"
    return None


class Cluster:
    def __init__(self):
        with open(FACTS) as file:
            facts = json.load(file)
        self.bin, self.shards, self.nodes = facts["bin"], facts["shards"], facts["nodes"]

    def program(self, name, *args):
        """A program of the server, as the account of the servers."""
        as_account = ["setpriv", f"--reuid={ACCOUNT}", f"--regid={ACCOUNT}", "--init-groups"]
        return [*(as_account if os.geteuid() == 0 else []), os.path.join(self.bin, name), *args]

    def data(self, name):
        return os.path.join(DIR, name, "data")

    def start(self, name):
        node, home = self.nodes[name], os.path.join(DIR, name)
        os.mkdir(home)
        if os.geteuid() == 0:
            shutil.chown(home, ACCOUNT, ACCOUNT)
        data, said = self.data(name), os.path.join(home, "log")
        # The servers take connections from this machine alone.
        make = self.program("initdb", "-D", data, "-U", ACCOUNT, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        self.run(make)
        with open(os.path.join(data, "postgresql.conf"), "a") as file:
            file.write(SETTINGS.format(port=node["port"]))
        begin = self.program("pg_ctl", "-D", data, "-l", said, "-w", "-t", "120", "start")
        self.run(held(node["group"], begin) if "group" in node else begin)

    def run(self, command):
        """Runs a command in a directory that the account of the servers can read."""
        subprocess.run(command, cwd=DIR, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)

    def stop(self):
        for name, node in self.nodes.items():
            if os.path.exists(os.path.join(self.data(name), "postmaster.pid")):
                self.run(self.program("pg_ctl", "-D", self.data(name), "-m", "immediate", "-w", "stop"))
            if "group" in node:
                remove(node["group"])

    def url(self, name, database):
        return f"postgres://{ACCOUNT}@127.0.0.1:{self.nodes[name]['port']}/{database}"

    def sql(self, name, database, *statements):
        psql = [os.path.join(self.bin, "psql"), "-qXAt", "-v", "ON_ERROR_STOP=1", self.url(name, database)]
        for statement in statements:
            psql += ["-c", statement]
        return subprocess.run(psql, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()

    def door(self, arm):
        """The node that an arm is loaded through."""
        return "worker-1" if arm == "plain" else COORDINATOR

    def all_of(self, arm):
        return [name for name in self.nodes if name in [self.door(arm), *WORKERS[arm]]]

    def make(self, arm):
        """Makes the database of an arm, and the cluster in it."""
        for name in self.all_of(arm):
            self.sql(name, "postgres", f'create database "{arm}"')
            if arm != "plain":
                self.sql(name, arm, "create extension citus")
        if arm == "plain":
            return
        shards = self.shards * len(WORKERS[arm])
        self.sql(
            COORDINATOR, arm, f'alter database "{arm}" set citus.shard_count = {shards}',
            f"select citus_set_coordinator_host('127.0.0.1', {self.nodes[COORDINATOR]['port']})",
            *(f"select citus_add_node('127.0.0.1', {self.nodes[name]['port']})" for name in WORKERS[arm]))

    def load(self, program, arm, file, *options):
        said = os.path.join(DIR, "receipt.json")
        command = [
            program, "load", file, "--into", "lab_load.t", "--key", "id:text", "--schema", "lab_millstream",
            "--progress", "none", "--output", "json", "--db", self.url(self.door(arm), arm), *options]
        with open(said, "w") as receipt:
            subprocess.run(command, stdin=subprocess.DEVNULL, stdout=receipt, check=True)

    def seconds_of_workers(self, arm):
        """The processor time that the workers of an arm have had, with that of their processes that have ended."""
        ticks = 0
        for name in WORKERS[arm]:
            with open(os.path.join(self.nodes[name]["group"], "cgroup.procs")) as file:
                processes = file.read().split()
            for process in processes:
                try:
                    with open(f"/proc/{process}/stat") as file:
                        # Its own time and that of its children that have ended, each of user and system.
                        ticks += sum(int(field) for field in file.read().rsplit(")", 1)[1].split()[11:15])
                except FileNotFoundError:
                    pass
        return ticks / os.sysconf("SC_CLK_TCK")


def remove(group):
    """Removes a control group as soon as the last process in it has ended."""
    for _ in range(100):
        try:
            return os.rmdir(group)
        except OSError:
            time.sleep(0.1)
    sys.exit(f"processes remain in {group}")


def prepare(program, arm):
    cluster = Cluster()
    cluster.sql(cluster.door(arm), arm, "drop schema if exists lab_load cascade")
    for name in cluster.all_of(arm):
        # Each node has tables of the loads for itself.
        alone = [] if arm == "plain" else ["set citus.enable_ddl_propagation = off"]
        cluster.sql(name, arm, *alone, "drop schema if exists lab_millstream cascade")
    cluster.sql(cluster.door(arm), arm, "create schema lab_load")
    none = os.path.join(DIR, "none.ndjson")
    open(none, "w").close()
    cluster.load(program, arm, none, *([] if arm == "plain" else ["--distribute"]))
    for name in cluster.all_of(arm):
        cluster.sql(name, arm, "checkpoint")


def load(program, arm, documents):
    cluster, lanes = Cluster(), []
    if arm == "plain":
        lanes = ["--lanes", str(cluster.shards)]
    with open(os.path.join(DIR, "documents", "fresh.json")) as file:
        expected = json.load(file)["all"]
    before, begun = cluster.seconds_of_workers(arm), time.monotonic()
    cluster.load(program, arm, os.path.join(DIR, "documents", "fresh.ndjson"), *lanes)
    seconds = time.monotonic() - begun
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    # The server ends the sessions of the load a little later. Only then their time counts to that of a parent.
    time.sleep(0.5)
    of_workers = cluster.seconds_of_workers(arm) - before
    found = cluster.sql(
        cluster.door(arm), arm, "select count(*) || ' and ' || sum((doc ->> 'n')::bigint) from lab_load.t")
    wanted = f"{expected['rows']} and {expected['sum']}"
    if found != wanted:
        sys.exit(f"error: the check failed: rows and their sum are {found} instead of {wanted}")
    print(json.dumps({
        "rows_per_second": int(documents) / seconds,
        "client_cpu_seconds": usage.ru_utime + usage.ru_stime,
        "server_cpu_seconds": of_workers,
    }))


def stop():
    Cluster().stop()


{"start": start, "prepare": prepare, "load": load, "stop": stop}[sys.argv[1]](*sys.argv[2:])
