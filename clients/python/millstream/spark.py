"""The data source `millstream` of Spark 4: puts data frames into a collection, as a batch or as a stream.

    options = {"into": "events", "key": "id:bigint"}
    df.repartition(8, "id").write.format("millstream").options(**options).mode("append").save()

Each task runs the program, and sends it the rows of its partition. The driver adds up their receipts.

Spark may run a task again, also while its first run still works or when that has ended, and kill any of its runs at any
moment. A run that is killed has written a part of its rows: were it the last one, older rows of a key would stay. So a task
is a load with a name. One run of it writes at a time, and after one that is complete, none does.
"""

from __future__ import annotations

import errno
import inspect
import ipaddress
import json
import os
import socket
import stat
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import chain
from typing import Any, NoReturn

import pyarrow  # type: ignore[import-untyped, unused-ignore]
from pyspark import TaskContext
from pyspark.sql import datasource

from ._commands import loads_of
from ._errors import Error
from ._load import load
from ._receipt import OUTCOMES
from ._target import Target

#: Spark 4.0 has no streams of Arrow.
_StreamBase: Any = getattr(datasource, "DataSourceStreamArrowWriter", object)

#: Seconds between two looks whether a task may begin.
LOOK_S = 1.0

#: Options of this data source alone.
OWN = ("connections", "receipt")
#: Parameters of `load` that are options.
TAKEN = (
    *("into", "key", "mode", "columns", "nan", "delete_when", "forget_deletes", "check", "durability", "layout", "doc"),
    *("enrich", "enrich_missing", "enrich_existing", "skip_unchanged", "adopt", "lanes", "batch_rows", "memory"),
    *("max_rejects", "db", "schema", "trust_owner"),
)
#: Why others are none. The rest is for files.
REFUSED = {
    "delete_missing": "a task has a part of the rows, and would delete those of the other tasks",
    "delete_missing_max": "a task has a part of the rows, and would delete those of the other tasks",
    "name": "each task names its own load",
    "resume": "a task that is repeated begins at its first row",
    "publish": "the tasks end one after the other; call millstream.refresh after the write",
    "rejects": "each task would write a file of its own; millstream.rejects lists them",
    "strict": "each task would check only its own rows; maxRejects=0 ends a task at the first one that is refused",
    "progress": "Spark shows how far it is",
    "index": "frames of Spark have no index",
    "dry_run": "a write that writes nothing is of no use",
    "distribute": "a table that Citus distributes is not for Spark, because each of its tasks would load every shard",
}


#: Types of columns that Arrow does not hand over as what they are, and what to write in their place.
REFUSED_TYPES = {
    "variant": "to_json makes it a text",
    "interval year": "cast it to string",
    "interval month": "cast it to string",
    "interval year to month": "cast it to string",
}


class MillstreamDataSource(datasource.DataSource):  # type: ignore[misc, unused-ignore]
    """`format("millstream")`. Its options are the parameters of `millstream.load`, and `connections` and `receipt`."""

    @classmethod
    def name(cls) -> str:
        return "millstream"

    def schema(self) -> NoReturn:
        raise Error("the data source millstream only writes", hint='read the table with format("jdbc")')

    def writer(self, schema: Any, overwrite: bool) -> Writer:
        if overwrite:
            hint = 'write mode("append"); option("mode", ..) says what becomes of rows with the same key'
            raise Error("millstream does not empty a table", hint=hint)
        write = _write_of(self.options)
        _require_documents(schema, write.arguments)
        return Writer(write)

    def streamWriter(self, schema: Any, overwrite: bool) -> StreamWriter:
        if _StreamBase is object:
            raise Error("streams need Spark 4.1 or later", hint="write each batch with foreachBatch")
        if overwrite:
            hint = 'write outputMode("append") or outputMode("update")'
            raise Error("millstream does not empty a table for each batch", hint=hint)
        write = _write_of(self.options)
        _require_documents(schema, write.arguments)
        return StreamWriter(write)


@dataclass
class Loaded(datasource.WriterCommitMessage):  # type: ignore[misc, unused-ignore]
    """What a task has done."""

    #: The receipt as the program printed it; empty if the task had no rows.
    receipt: dict[str, Any]


class Writer(datasource.DataSourceArrowWriter):  # type: ignore[misc, unused-ignore]
    """Writes a frame."""

    def __init__(self, write: Write) -> None:
        self._write = write

    def write(self, iterator: Iterator[Any]) -> Loaded:
        return self._write.load(iterator)

    def commit(self, messages: list[Any]) -> None:
        self._write.account(messages, {})

    def abort(self, messages: list[Any]) -> None:
        self._write.account(messages, {"failed": True})


class StreamWriter(_StreamBase):  # type: ignore[misc, unused-ignore]
    """Writes the batches of a stream, each as a frame."""

    def __init__(self, write: Write) -> None:
        self._write = write

    def write(self, iterator: Iterator[Any]) -> Loaded:
        return self._write.load(iterator)

    def commit(self, messages: list[Any], batchId: int) -> None:
        self._write.account(messages, {"batch": batchId})

    def abort(self, messages: list[Any], batchId: int) -> None:
        self._write.account(messages, {"batch": batchId, "failed": True})


@dataclass
class Write:
    """A frame to be written. The driver makes it, and each task gets it."""

    #: Names the loads of its tasks.
    name: str
    #: What `load` is called with.
    arguments: dict[str, Any]
    #: How many tasks of a machine load at once; None: all that Spark runs.
    seats: int | None
    #: File of the driver to which the sum of the receipts is added.
    receipt: str | None

    def load(self, batches: Iterator[Any]) -> Loaded:
        """Loads the rows of a task."""
        # Types of a new table come from documents. A task without any knows none, and nobody needs it.
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return Loaded({})
        context = TaskContext.get()
        assert context is not None
        if "db" not in self.arguments and not (os.environ.get("MILLSTREAM_DB") or os.environ.get("DATABASE_URL")):
            # The program would start a server of its own on each machine.
            hint = 'option("db", URL), or MILLSTREAM_DB where the executors run: spark.executorEnv.MILLSTREAM_DB'
            raise Error("no database is named", hint=hint)
        name = f"spark {self.name} {context.partitionId()}"
        with _turn(self, name) as receipt:
            if receipt is not None:
                return Loaded(receipt)
            reader = pyarrow.RecordBatchReader.from_batches(first.schema, chain([first], _whole(batches)))
            # Another run may have had the rows in another order, so its load cannot be resumed.
            return Loaded(load(reader, name=name, resume="off", **self.arguments).raw)

    def account(self, messages: list[Any], about: dict[str, Any]) -> None:
        """Adds up receipts. The driver prints the sum, and adds it to the file of the option `receipt`."""
        receipts = [message.receipt for message in messages if message is not None and message.receipt]
        counts = ["read", *OUTCOMES, "rejected_lines", "bytes_read", "wal_bytes", "retries", "deadlocks"]
        total = {name: sum(int(receipt.get(name, 0)) for receipt in receipts) for name in counts}
        into = self.arguments["into"]
        said = [f"{total[name]:,} {name}" for name in OUTCOMES if total[name]]
        text = f"millstream: {total['read']:,} documents into {into}: {', '.join(said) or 'nothing to load'}"
        if about.get("failed"):
            text = f"{text}, by tasks that ended; the write failed, and what its tasks committed stays: repeat it"
        if total["rejected"]:
            text = f"{text}; `millstream rejects {into}` lists the rejects"
        print(text, file=sys.stderr, flush=True)
        if self.receipt is not None:
            whole = {"collection": into, **about, "loads": [receipt.get("load_id") for receipt in receipts], **total}
            with open(self.receipt, "a", encoding="utf-8") as file:
                file.write(json.dumps(whole) + "\n")


@contextmanager
def _turn(write: Write, name: str) -> Iterator[dict[str, Any] | None]:
    """Waits until a task may load under this name. Gives the receipt if another run of the task has loaded all its rows."""
    target = Target(*(write.arguments.get(name) for name in ("db", "schema", "trust_owner")))
    while True:
        seat = _seat(write)
        if seat is not None:
            with seat:
                runs = loads_of(name, target)
                finished = [run["receipt"] for run in runs if run["state"] == "finished"]
                # The program itself refuses one of two runs that begin in the same moment.
                if finished or all(run["state"] != "running" for run in runs):
                    yield finished[0] if finished else None
                    return
        time.sleep(LOOK_S)


def _whole(batches: Iterator[Any]) -> Iterator[Any]:
    """All rows of a task, or an error. If Spark fails to make them, its connection ends, and so the rows seem to."""
    yield from batches
    if not _is_connected():
        raise Error("Spark ended the rows of the task before their end", hint="its own error says why")


def _is_connected() -> bool:
    """Whether this process has a connection with Spark that has not ended."""
    found = False
    for name in os.listdir("/proc/self/fd"):
        try:
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            connection = socket.socket(fileno=os.dup(int(name)))
        except OSError:
            # The list itself, which is closed by now.
            continue
        with connection:
            try:
                if not _is_local(connection.family, connection.getpeername()):
                    continue
                if not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
                    return False
            except BlockingIOError:
                # It is open, and silent.
                pass
            except OSError:
                # It listens.
                continue
        found = True
    return found


def _is_local(family: int, peer: Any) -> bool:
    """Whether a connection may be the one with Spark. An earlier task of this process may have left others behind, to servers
    that have ended them since."""
    if family not in (socket.AF_INET, socket.AF_INET6):
        return family == socket.AF_UNIX
    address = ipaddress.ip_address(peer[0])
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _seat(write: Write) -> AbstractContextManager[object] | None:
    """What a task holds while it loads, if one is free on this machine: a socket's name. It is free again when its
    process ends, however it does."""
    if write.seats is None:
        return nullcontext()
    for number in range(write.seats):
        held = socket.socket(socket.AF_UNIX)
        try:
            held.bind(f"\0millstream {write.name} {number}")
            return held
        except OSError as error:
            held.close()
            if error.errno != errno.EADDRINUSE:
                raise
    return None


def _write_of(options: Mapping[str, str]) -> Write:
    """A write with the options of Spark, which ignores case in their names, and hands over strings."""
    parameters = inspect.signature(load).parameters
    names = {name.replace("_", ""): name for name in (*parameters, *OWN) if name != "data"}
    arguments: dict[str, Any] = {}
    for option, value in options.items():
        if option.lower() == "checkpointlocation":
            # Spark's own.
            continue
        name = names.get(option.lower().replace("_", "").replace("-", ""))
        if name is None:
            raise Error(f"millstream has no option {option}", hint=_near(option, names))
        if name not in (*TAKEN, *OWN):
            raise Error(f"{_spelled(name)} is no option for Spark: {REFUSED.get(name, 'it is for files')}")
        kind = "" if name in OWN else str(parameters[name].annotation)
        arguments[name] = _value(name, value, kind)
    connections, receipt = _count(arguments, "connections"), arguments.pop("receipt", None)
    for name in ("into", "key"):
        if not arguments.get(name):
            raise Error(f"the option {name} is missing", hint='option("into", "events").option("key", "id:bigint")')
    if str(arguments.get("mode", "")).partition(":")[0] == "sum":
        hint = "sum with Spark, and write the sums; or write files, and load those"
        raise Error("mode sum is not for Spark: it repeats tasks, and what they add would count twice", hint=hint)
    # Spark has more tasks in place of more lanes.
    arguments.setdefault("lanes", "1")
    lanes = _count({**arguments}, "lanes") or 1
    if connections is not None and connections < lanes:
        raise Error(f"connections={connections} is less than lanes={lanes}, which one task needs")
    seats = None if connections is None else connections // lanes
    if receipt is not None:
        # An error after the commits would let Spark say that the write has failed.
        with open(receipt, "a", encoding="utf-8"):
            pass
    return Write(uuid.uuid4().hex, arguments, seats, receipt)


def _require_documents(schema: Any, arguments: Mapping[str, Any]) -> None:
    """Requires that rows with this schema are documents with the key. Else each row would be rejected or stored in another
    form, and the write would succeed."""
    names: list[str] = schema.names
    doubled = next((name for number, name in enumerate(names) if name in names[:number]), None)
    if doubled is not None:
        # Spark would give both another name.
        raise Error(f"the frame has two columns named {doubled}", hint="drop or rename one of them")
    key = arguments["key"] if isinstance(arguments["key"], str) else ",".join(arguments["key"])
    # An enrichment may add the key. Paths in quotes and pointers are for the program.
    paths = [] if "enrich" in arguments or set(key) & set('"/') else key.split(",")
    for path in paths:
        column = (path.partition("=")[2] or path).partition(":")[0].partition(".")[0].strip()
        if column not in names:
            like = [name for name in names if name.lower() == column.lower()]
            hint = f"did you mean {like[0]}? Case matters in documents" if like else f"its columns are {', '.join(names)}"
            raise Error(f"the frame has no column {column} for the key", hint=hint)
    for field in schema.jsonValue()["fields"]:
        for kind in _types(field["type"]):
            if kind in REFUSED_TYPES:
                raise Error(f"column {field['name']} holds values of type {kind}", hint=REFUSED_TYPES[kind])


def _types(kind: Any) -> Iterator[str]:
    """The types of which a column consists, as Spark writes them in JSON."""
    if isinstance(kind, str):
        yield kind
        return
    for field in kind.get("fields", ()):
        yield from _types(field["type"])
    for part in ("elementType", "keyType", "valueType", "sqlType"):
        if part in kind:
            yield from _types(kind[part])


def _value(name: str, value: str, kind: str) -> Any:
    """What an option stands for. A list is written as JSON."""
    if kind == "bool":
        if value.lower() not in ("true", "false"):
            raise Error(f"{_spelled(name)} is true or false, not {value}")
        return value.lower() == "true"
    if value.startswith("[") and ("Sequence" in kind or "OneOrMore" in kind):
        try:
            return [str(one) for one in json.loads(value)]
        except ValueError as error:
            raise Error(f"{_spelled(name)} is no list of JSON: {error}") from None
    return value


def _count(arguments: dict[str, Any], name: str) -> int | None:
    value = arguments.pop(name, None)
    if value is None:
        return None
    if not value.isdecimal() or int(value) == 0:
        raise Error(f"{name} is a number from 1, not {value}")
    return int(value)


def _spelled(name: str) -> str:
    """A parameter in Spark's spelling of options."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _near(option: str, names: Mapping[str, str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(option.lower(), names, 1)
    taken = [_spelled(names[one]) for one in near if names[one] in (*TAKEN, *OWN)]
    return f"did you mean {taken[0]}?" if taken else f"the options are {', '.join(map(_spelled, (*TAKEN, *OWN)))}"
