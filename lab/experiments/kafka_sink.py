"""Loads a topic by Millstream, or by the sink for JDBC of the project Debezium, which runs in Kafka's own Connect.

usage: kafka_sink.py load PROGRAM BROKER TOPIC TABLE DOCUMENTS
       kafka_sink.py sink JARS BROKER TOPIC TABLE DOCUMENTS FILE PARTITIONS TASKS BATCH    (the server: PGHOST, PGPORT, ...)

`load` measures the whole process, and writes its receipt into LAB_DIR. The sink keeps the text of a message as it is, in the
column `doc`, and the key of the message in `id`. It upserts by arrays, a statement for each batch, and takes only the last
message of a key. FILE holds the lines of the topic, which were written in turn into its partitions. The sink's clock runs from
when a quarter of each partition is in the table until all of it is. So what Java, Connect and the group need to start is not
measured, nor how slow Java is before it has compiled.
"""

import itertools
import json
import os
import subprocess
import sys
import time

DIR = os.environ["LAB_DIR"]
#: How often it asks for the lines.
ASK_SECONDS = 0.01
#: How long it waits for a quarter, and for all.
QUARTER_SECONDS, ALL_SECONDS = 300, 600

WORKER = """bootstrap.servers={broker}
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
offset.storage.file.filename={dir}/connect.offsets
listeners=http://127.0.0.1:0
consumer.max.poll.records={batch}
consumer.max.partition.fetch.bytes=33554432
consumer.fetch.max.bytes=67108864
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

    def wait(self, lines, seconds):
        """When it held all of these documents."""
        until = time.monotonic() + seconds
        while self.holds(lines) < len(lines):
            if self.writer.poll() is not None or time.monotonic() > until:
                sys.exit(f"the sink does not write; see {DIR}/connect.txt")
            time.sleep(ASK_SECONDS)
        return time.monotonic()


def load(program, broker, topic, table, documents):
    begun = time.monotonic()
    with open(os.path.join(DIR, "receipt.json"), "w") as receipt:
        subprocess.run(
            [program, "load", f"kafka://{broker}/{topic}", "--until", "end", "--into", table, "--key", "id:text",
             "--schema", "lab_millstream", "--resume", "off", "--progress", "none", "--output", "json"],
            stdout=receipt, check=True)
    return int(documents) / (time.monotonic() - begun)


def sink(jars, broker, topic, table, documents, file, partitions, tasks, batch):
    documents, partitions = int(documents), int(partitions)
    quarter = documents // 4 // partitions * partitions
    first, last = lines_of(file, quarter, partitions), lines_of(file, documents - partitions, partitions)
    connect = start(jars, broker, topic, table, tasks, batch)
    try:
        found = Table(table, connect)
        begun = found.wait(first, QUARTER_SECONDS)
        seconds = found.wait(last, ALL_SECONDS) - begun
    finally:
        connect.terminate()
        connect.wait()
    return (documents - quarter) / seconds


def lines_of(file, begin, count):
    """A line of each partition."""
    with open(file) as documents:
        return [line.rstrip("\n") for line in itertools.islice(documents, begin, begin + count)]


if __name__ == "__main__":
    rate = {"load": load, "sink": sink}[sys.argv[1]](*sys.argv[2:])
    print(json.dumps({"rows_per_second": rate}))
