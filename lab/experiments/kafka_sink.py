"""Loads a topic by Millstream, or by the sink for JDBC of the project Debezium, which runs in Kafka's own Connect.

usage: kafka_sink.py load PROGRAM BROKER TOPIC TABLE FILE
       kafka_sink.py sink JARS BROKER TOPIC TABLE FILE PARTITIONS TASKS BATCH    (the server: PGHOST, PGPORT, ...)

FILE holds the lines of the topic, which were written in turn into its partitions. `load` measures the whole process. The sink
keeps the text of a message as it is, in the column `doc`, and the key of the message in `id`. It upserts by arrays, a statement
for each batch, and takes only the last message of a key. Its clock runs from when the table has the first line of one
partition until it has the last line of each. So what Java, Connect and the group need to start is not measured, nor is the
first batch.
"""

import json
import os
import subprocess
import sys
import time

DIR = os.environ["LAB_DIR"]
#: How often it asks for the lines.
ASK_SECONDS = 0.01
#: How long it waits for the first line, and for the last one.
FIRST_SECONDS, LAST_SECONDS = 120, 600

WORKER = """bootstrap.servers={broker}
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
offset.storage.file.filename={dir}/connect.offsets
listeners=http://127.0.0.1:0
consumer.max.poll.records={batch}
"""

SINK = """name={name}
connector.class=io.debezium.connector.jdbc.JdbcSinkConnector
tasks.max={tasks}
topics={topic}
connection.url=jdbc:postgresql://{host}:{port}/{database}?currentSchema={schema}
connection.username={user}
connection.password={password}
collection.name.format={table}
schema.evolution=none
insert.mode=upsert
primary.key.mode=record_key
primary.key.fields=id
use.reduction.buffer=true
dialect.postgres.unnest.insert.enabled=true
batch.size={batch}
transforms=id,doc
transforms.id.type=org.apache.kafka.connect.transforms.HoistField$Key
transforms.id.field=id
transforms.doc.type=org.apache.kafka.connect.transforms.HoistField$Value
transforms.doc.field=doc
"""


def start(jars, broker, topic, table, tasks, batch):
    schema, table = table.split(".")
    host = os.environ["PGHOST"]
    asked = {
        "broker": broker, "topic": topic, "tasks": tasks, "batch": batch, "schema": schema, "table": table, "dir": DIR,
        # A name of its own is a group of its own: each run reads all of the topic.
        "name": f"{topic}-{os.getpid()}",
        # The driver knows no sockets of the file system.
        "host": "localhost" if host.startswith("/") else host, "port": os.environ["PGPORT"],
        "database": os.environ["PGDATABASE"], "user": os.environ["PGUSER"], "password": os.environ.get("PGPASSWORD", ""),
    }
    files = []
    for name, text in (("worker", WORKER), ("sink", SINK)):
        files.append(os.path.join(DIR, f"{name}.properties"))
        with open(files[-1], "w") as file:
            file.write(text.format(**asked))
    with open(os.path.join(DIR, "connect.txt"), "w") as said:
        return subprocess.Popen(
            ["java", "-Xmx2g", "-cp", os.path.join(jars, "*"), "org.apache.kafka.connect.cli.ConnectStandalone", *files],
            stdin=subprocess.DEVNULL, stdout=said, stderr=said)


class Table:
    """A table into which something else writes."""

    def __init__(self, name, writer):
        self.name, self.writer = name, writer
        self.psql = subprocess.Popen(
            ["psql", "-qXAt", "-v", "ON_ERROR_STOP=1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def holds(self, lines):
        """How many of these documents it holds."""
        rows = ", ".join("('{}', '{}')".format(json.loads(line)["id"], line.replace("'", "''")) for line in lines)
        self.psql.stdin.write(f"select count(*) from {self.name} where (id, doc) in ({rows});\n")
        self.psql.stdin.flush()
        return int(self.psql.stdout.readline())

    def wait(self, lines, count, seconds):
        """When it held so many of these documents."""
        until = time.monotonic() + seconds
        while self.holds(lines) < count:
            if self.writer.poll() is not None or time.monotonic() > until:
                sys.exit(f"the sink does not write; see {DIR}/connect.txt")
            time.sleep(ASK_SECONDS)
        return time.monotonic()


def load(program, broker, topic, table, file):
    begun = time.monotonic()
    subprocess.run(
        [program, "load", f"kafka://{broker}/{topic}", "--until", "end", "--into", table, "--key", "id:text",
         "--schema", "lab_millstream", "--resume", "off", "--progress", "none", "--output", "json"],
        stdout=subprocess.DEVNULL, check=True)
    seconds = time.monotonic() - begun
    return len(lines_of(file)) / seconds


def sink(jars, broker, topic, table, file, partitions, tasks, batch):
    lines = lines_of(file)
    first, last = lines[:int(partitions)], lines[-int(partitions):]
    connect = start(jars, broker, topic, table, tasks, batch)
    try:
        found = Table(table, connect)
        begun = found.wait(first, 1, FIRST_SECONDS)
        seconds = found.wait(last, len(last), LAST_SECONDS) - begun
    finally:
        connect.terminate()
        connect.wait()
    return len(lines) / seconds


def lines_of(file):
    with open(file) as documents:
        return documents.read().splitlines()


if __name__ == "__main__":
    rate = {"load": load, "sink": sink}[sys.argv[1]](*sys.argv[2:])
    print(json.dumps({"rows_per_second": rate}))
