"""Loads topics of Kafka by groups of loaders, and measures them.

usage: kafka_group.py start JARS PORT PROGRAM FILL [PERCENT]
       kafka_group.py fill PORT PROGRAM FILL PARTITIONS LOADERS PERCENT DOCUMENTS
       kafka_group.py move PORT PROGRAM FILL PARTITIONS JOINS RATE SECONDS

`start` starts a broker, and writes the number of its process into the file `broker.pid` in LAB_DIR. If something that
is needed is missing, it says so in the file `no-kafka`. FILL is a program that fills topics. `fill` holds each loader
to so many percent of a processor, and prints how many documents a second the group loads of a topic that is full.
`move` prints for how long partitions that stay pause while as many loaders join.
"""

import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

from processor_share import held, share, why_none

DIR = os.environ["LAB_DIR"]
# How often a member sends a heartbeat, as the broker says by default.
HEARTBEAT_SECONDS = 5

SETTINGS = """process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.quorum.voters=1@127.0.0.1:{controller}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
auto.create.topics.enable=false
log.segment.delete.delay.ms=1000
log.dirs={dir}/kafka
"""


def start(jars, port, program, fill, percent=None):
    missing = what_is_missing(jars, program, fill, percent)
    if missing:
        with open(os.path.join(DIR, "no-kafka"), "w") as file:
            json.dump({"skipped": missing}, file)
        return
    settings = os.path.join(DIR, "server.properties")
    with open(settings, "w") as file:
        file.write(SETTINGS.format(port=port, controller=int(port) + 1, dir=DIR))
    with open(os.path.join(DIR, "broker.txt"), "w") as log:
        tool = ["kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", settings]
        subprocess.run([*java(jars), *tool], stdout=log, stderr=log, check=True)
        # A session of its own: it stays when the command has ended.
        broker = subprocess.Popen(
            [*java(jars, "-Xmx1g"), "kafka.Kafka", settings],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    with open(os.path.join(DIR, "broker.pid"), "w") as file:
        file.write(str(broker.pid))
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", int(port))).close()
            return
        except OSError:
            if broker.poll() is not None:
                break
            time.sleep(0.1)
    sys.exit(f"the broker does not answer; see {DIR}/broker.txt")


def what_is_missing(jars, program, fill, percent):
    if not shutil.which("java"):
        return "no java"
    if not glob.glob(os.path.join(jars, "kafka-clients-*.jar")):
        return "no jars of a broker; --set jars=DIR names their directory"
    if not os.access(fill, os.X_OK):
        return "no program fill; --set fill=FILE names one"
    checked = subprocess.run([program, "self", "check", "--output", "json"], capture_output=True, text=True)
    if '"kafka"' not in checked.stdout:
        return "the program was built without the feature kafka"
    return why_none(int(percent)) if percent is not None else None


def java(jars, *options):
    return ["java", *options, "-cp", os.path.join(jars, "*")]


class Topic:
    """A topic that another program fills, as its options say."""

    def __init__(self, port, partitions, fill, *options):
        self.name = f"lab-{os.getpid()}"
        self.address = f"kafka://127.0.0.1:{port}/{self.name}"
        with open(os.path.join(DIR, "topic.txt"), "w") as said:
            self.process = subprocess.Popen(
                [fill, *options, f"{self.name}={partitions}"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True)
        self.hear("ready")

    def hear(self, word):
        line = self.process.stdout.readline()
        if not line.startswith(word):
            sys.exit(f"the topic is not filled; see {DIR}/topic.txt")
        return line

    def go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def done(self):
        """How many messages it has."""
        return int(self.hear("done").split()[1])

    def end(self):
        self.process.stdin.close()
        if self.process.wait() != 0:
            sys.exit(f"the topic is not deleted; see {DIR}/topic.txt")


class Database:
    def __init__(self):
        self.psql = subprocess.Popen(
            ["psql", "-qXAt", "-v", "ON_ERROR_STOP=1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def rows(self, query):
        self.psql.stdin.write(f"{query};\n\\echo .\n")
        self.psql.stdin.flush()
        rows = []
        for line in self.psql.stdout:
            if line == ".\n":
                return rows
            rows.append([int(field) for field in line.split("|")])
        sys.exit("psql has ended")

    def read(self):
        """How many documents are committed."""
        of_lanes = "(select coalesce(sum(read), 0) from lab_millstream.lane)"
        of_loads = "(select coalesce(sum(read), 0) from lab_millstream.load)"
        return self.rows(f"select ({of_lanes} + {of_loads})::bigint")[0][0]


class Loaders:
    """The members of a group, which has the name of the topic."""

    def __init__(self, program, topic):
        self.program, self.topic = program, topic
        self.processes, self.groups = [], []

    def start(self, percent=None):
        number = len(self.processes)
        command = [
            self.program, "load", self.topic.address, "--into", "lab_load.t", "--key", "id:text",
            "--schema", "lab_millstream", "--group", self.topic.name, "--progress", "none", "--output", "json"]
        if percent is not None:
            group = share(str(number), percent)
            self.groups.append(group)
            command = held(group, command)
        with open(self.said(number), "w") as said:
            self.processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said))

    def said(self, number):
        return os.path.join(DIR, f"loader-{number}.txt")

    def check(self):
        for number, process in enumerate(self.processes):
            if process.poll() is not None:
                with open(self.said(number)) as said:
                    sys.exit(f"a loader has ended: {said.read()[-1000:]}")

    def divided(self):
        """What is known of each partition, once all are loaded and each loader has some."""
        command = [
            self.program, "loads", "--group", self.topic.name, "--topic", self.topic.address,
            "--schema", "lab_millstream", "--output", "json"]
        while True:
            self.check()
            shown = subprocess.run(command, capture_output=True, text=True)
            partitions = json.loads(shown.stdout) if shown.returncode == 0 else []
            owners = {one["member"] for one in partitions}
            is_divided = len(owners) == len(self.processes) and None not in owners
            if is_divided and all(one["state"] == "running" for one in partitions):
                return partitions
            time.sleep(0.1)

    def wait_for(self, database, documents):
        while database.read() < documents:
            self.check()
            time.sleep(0.005)
        return time.monotonic()

    def end(self):
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.wait()
        for group in self.groups:
            os.rmdir(group)


class Sampler(threading.Thread):
    """Looks again and again how far each load is."""

    def __init__(self):
        super().__init__(daemon=True)
        self.database, self.is_over = Database(), False
        # Of each load: when it was last seen to move, how far it was, and the longest time between two moves.
        self.loads = {}

    def run(self):
        while not self.is_over:
            self.look()
            time.sleep(0.002)

    def look(self):
        now = time.monotonic()
        lanes = "select load_id, max(byte_offset) from lab_millstream.lane group by 1"
        for load_id, offset in self.database.rows(lanes):
            moved, seen, longest = self.loads.get(load_id, (now, None, 0))
            longest = max(longest, now - moved)
            self.loads[load_id] = (moved if offset == seen else now, offset, longest)

    def longest(self, load_ids):
        self.is_over = True
        self.join()
        return max(self.loads[load_id][2] for load_id in load_ids)


def fill(port, program, filler, partitions, loaders, percent, documents):
    file = os.path.join(DIR, "documents", "fresh.ndjson")
    topic = Topic(port, partitions, filler, "--held", f"127.0.0.1:{port}", file)
    group, database = Loaders(program, topic), Database()
    for _ in range(int(loaders)):
        group.start(int(percent))
    group.divided()
    # All of it can be read from here on.
    begun = time.monotonic()
    topic.go()
    seconds = group.wait_for(database, int(documents)) - begun
    if topic.done() != int(documents):
        sys.exit("the topic has other documents")
    group.end()
    topic.end()
    print(json.dumps({"rows_per_second": int(documents) / seconds}))


def move(port, program, filler, partitions, joins, rate, seconds):
    topic = Topic(port, partitions, filler, "--rate", rate, f"127.0.0.1:{port}")
    group, database = Loaders(program, topic), Database()
    group.start()
    before = {one["partition"]: one["member"] for one in group.divided()}
    group.wait_for(database, int(rate))
    sampler, begun = Sampler(), time.monotonic()
    sampler.start()
    for _ in range(int(joins)):
        group.start()
    after = group.divided()
    time.sleep(max(0, begun + int(seconds) - time.monotonic()))
    staying = [one["load_id"] for one in after if before[one["partition"]] == one["member"]]
    pause = sampler.longest(staying)
    topic.go()
    group.wait_for(database, topic.done())
    group.end()
    topic.end()
    print(json.dumps({"pause_ms": pause * 1000, "of_heartbeat": 100 * pause / HEARTBEAT_SECONDS}))


{"start": start, "fill": fill, "move": move}[sys.argv[1]](*sys.argv[2:])
