"""The data source of Spark, with Spark, the real program and a real database. It needs pyspark and Java."""

import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

from place import HERE, Place, ms
from test_program import DB, knows_arrow, programs_of

HAS_SPARK = importlib.util.find_spec("pyspark") is not None
ROWS = 6_000
#: About half of a partition. The rows are so long that they are more than the buffers between two processes hold.
HALF = 1_000
TEXT = "x" * 500
#: A task is tried so often.
TRIES = 3


def runs_again(marker):
    """Whether this is not the first run of a task, which leaves a file."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return True
    return False


def schema_of(*names, **others):
    """Columns of whole numbers, and columns of other types."""
    from pyspark.sql import types

    fields = [types.StructField(name, types.LongType()) for name in names]
    return types.StructType([*fields, *(types.StructField(name, kind) for name, kind in others.items())])


@unittest.skipUnless(HAS_SPARK, "pyspark is not installed")
class Options(unittest.TestCase):
    def write(self, **options):
        from millstream.spark import MillstreamDataSource

        return MillstreamDataSource({"into": "t", "key": "id", **options}).writer(schema_of("id"), False)._write

    def test_options_are_parameters_in_the_spelling_of_spark(self):
        write = self.write(batchRows="5", ADOPT="True", check='["a > 1", "b > 2"]', max_rejects="0")
        expected = {"into": "t", "key": "id", "batch_rows": "5", "adopt": True, "check": ["a > 1", "b > 2"]}
        self.assertEqual(write.arguments, {**expected, "max_rejects": "0", "lanes": "1"})
        self.assertEqual((write.seats, write.receipt), (None, None))
        write = self.write(connections="7", lanes="3", receipt=os.devnull)
        self.assertEqual((write.seats, write.receipt, write.arguments["lanes"]), (2, os.devnull, "3"))
        self.assertNotEqual(write.name, self.write().name)

    def test_other_options_are_refused_with_what_to_do(self):
        refused = [
            ({"batchRow": "5"}, "no option batchRow.*\n.*batchRows"),
            ({"path": "/tmp/x"}, "no option path"),
            ({"data": "5"}, "no option data"),
            ({"skipLines": "5"}, "skipLines is no option for Spark: it is for files"),
            ({"delete_missing": "true"}, "deleteMissing is no option for Spark: a task has a part"),
            ({"mode": "sum:n"}, "mode sum .*twice.*\n.*sum with Spark"),
            ({"into": ""}, "option into is missing"),
            ({"adopt": "yes"}, "adopt is true or false, not yes"),
            ({"check": "[a"}, "check is no list of JSON"),
            ({"connections": "none"}, "connections is a number from 1, not none"),
            ({"connections": "1", "lanes": "2"}, "less than lanes=2"),
        ]
        for options, message in refused:
            with self.subTest(options), self.assertRaisesRegex(ms.Error, message):
                self.write(**options)

    def test_rows_that_are_no_documents_are_refused(self):
        from millstream.spark import MillstreamDataSource
        from pyspark.sql import types

        def check(schema, **options):
            source = MillstreamDataSource({"into": "t", "key": "id", **options})
            for writer in (source.writer, source.streamWriter):
                writer(schema, False)

        variants = types.ArrayType(types.StructType([types.StructField("v", types.VariantType())]))
        months = types.MapType(types.StringType(), types.YearMonthIntervalType())
        refused = [
            (schema_of("id", "n", "n"), {}, "two columns named n\n.*rename"),
            (schema_of("id"), {"key": "ID:bigint"}, "no column ID for the key\n.*did you mean id"),
            (schema_of("id"), {"key": "id,k=other.part:text"}, "no column other for the key\n.*columns are id"),
            (schema_of("id"), {"key": '["id", "b"]'}, "no column b "),
            (schema_of("id", v=types.VariantType()), {}, "column v holds .* variant\n.*to_json"),
            (schema_of("id", a=variants), {}, "column a holds .* variant"),
            (schema_of("id", m=months), {}, "column m holds .* interval year to month\n.*string"),
        ]
        for schema, options, message in refused:
            with self.subTest(message), self.assertRaisesRegex(ms.Error, message):
                check(schema, **options)
        nested = types.StructType([types.StructField("b", types.DayTimeIntervalType())])
        for key in ["id", "k=id:bigint", "a.b:text,id", '"x.y":text', "/x~1y", '["id", "a.b"]']:
            check(schema_of("id", a=nested), key=key)
        check(schema_of("id"), key="b", enrich="b from s as b")

    def test_every_parameter_of_load_is_an_option_or_has_a_reason(self):
        import inspect

        from millstream import spark

        files = {"format", "root", "encoding", "skip_lines", "delimiter", "quote", "null", "header", "trim", "types"}
        files |= {"extended_json", "with_source", "with_partitions", "skip_loaded"}
        known = {*spark.TAKEN, *spark.REFUSED, *files, "data"}
        self.assertEqual(set(inspect.signature(ms.load).parameters), known)

    def test_a_receipt_that_cannot_be_written_is_found_before_a_task_begins(self):
        with self.assertRaisesRegex(OSError, "/absent/receipt"):
            self.write(receipt="/absent/receipt")

    def test_only_connections_on_this_machine_may_be_that_with_spark(self):
        import socket

        from millstream.spark import _is_local

        for peer, local in [("127.0.0.1", True), ("127.3.2.1", True), ("192.0.2.1", False)]:
            self.assertEqual(_is_local(socket.AF_INET, (peer, 5432)), local, peer)
        for peer, local in [("::1", True), ("::ffff:127.0.0.1", True), ("2001:db8::1", False), ("fe80::1%2", False)]:
            self.assertEqual(_is_local(socket.AF_INET6, (peer, 5432, 0, 0)), local, peer)
        for family, peer, local in [(socket.AF_UNIX, "", True), (socket.AF_NETLINK, (0, 0), False)]:
            self.assertEqual(_is_local(family, peer), local)

    def test_nothing_is_emptied(self):
        from millstream.spark import MillstreamDataSource

        source = MillstreamDataSource({"into": "t", "key": "id"})
        for writer in (source.writer, source.streamWriter):
            with self.assertRaisesRegex(ms.Error, "append"):
                writer(None, True)


class WithDatabase(unittest.TestCase):
    def setUp(self):
        if not knows_arrow():
            self.skipTest("the program reads no Arrow")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.receipt = self.folder / "receipt"
        self.table = "public." + self.id().rsplit(".", 1)[1][:60]
        self.options = {"into": self.table, "key": "id:bigint", "db": DB, "receipt": str(self.receipt)}

    def receipts(self):
        return [json.loads(line) for line in self.receipt.read_text().splitlines()]

    def loads(self):
        """The loads into the table, oldest first."""
        run = subprocess.run(
            [ms.program(), "loads", "--output=json", "--limit=10000"],
            env={**os.environ, "MILLSTREAM_DB": DB},
            check=True,
            capture_output=True,
        )
        return [load for load in reversed(json.loads(run.stdout)) if load["collection"] in self.table]

    def assert_holds(self, documents):
        found = ms.verify(iter(documents), into=self.table, key="id:bigint", exact=True, db=DB)
        self.assertTrue(found, found)


@unittest.skipUnless(HAS_SPARK and DB, "it needs pyspark and MILLSTREAM_TEST_DB")
class Tasks(WithDatabase):
    """Runs of one task, without Spark around them."""

    SCRIPT = """
import json, socket, sys
from unittest import mock
import pyarrow
from millstream import spark
from pyspark.sql.types import LongType, StructField, StructType
options, half = json.loads(sys.argv[1]), sys.argv[2] == "half"
schema = StructType([StructField(name, LongType()) for name in ("id", "n")])
write = spark.MillstreamDataSource(options).writer(schema, False)._write
write.name = options["into"]
def batches():
    yield pyarrow.record_batch({"id": range(10), "n": [0] * 10})
    if half:
        print("half", flush=True)
        # What the test writes ends the wait.
        sys.stdin.readline()
    yield pyarrow.record_batch({"id": range(10), "n": [1] * 10})
looks, spark.LOOK_S = spark.loads_of, 0.05
def look(name, target):
    found = looks(name, target)
    print("looked", flush=True)
    return found
spark.loads_of = look
# Stands for the connection with Spark.
mine, others = socket.socketpair()
if sys.argv[2] == "broken":
    others.close()
with mock.patch.object(spark.TaskContext, "get", lambda: mock.Mock(partitionId=lambda: 0)):
    print(json.dumps(write.load(batches()).receipt), flush=True)
"""

    def begin(self, half=""):
        words = [sys.executable, "-c", self.SCRIPT, json.dumps(self.options), half]
        run = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(HERE.parent)},
        )
        self.addCleanup(run.communicate)
        self.addCleanup(run.kill)
        return run

    def await_half(self, run):
        while run.stdout.readline() != "half\n":
            pass
        while not any(load["state"] == "running" for load in self.loads()):
            time.sleep(0.01)

    def receipt_of(self, run):
        return json.loads(next(line for line in run.stdout if line.startswith("{")))

    def test_a_second_run_of_a_task_waits_and_returns_the_receipt_of_the_first(self):
        first = self.begin("half")
        self.await_half(first)
        second = self.begin()
        # It has looked, and found that the first one works.
        second.stdout.readline()
        first.stdin.write("go\n")
        first.stdin.flush()
        receipts = [self.receipt_of(run) for run in (first, second, self.begin())]
        self.assertEqual(receipts, [receipts[0]] * 3)
        self.assertEqual([(load["state"], load["read"]) for load in self.loads()], [("finished", 20)])
        self.assert_holds({"id": n, "n": 1} for n in range(10))

    def test_rows_that_break_off_are_not_all_rows(self):
        broken = self.begin("broken")
        self.assertIn("before their end", broken.communicate()[1])
        self.assertEqual([load["state"] for load in self.loads()], ["stopped"])
        self.assertEqual(self.receipt_of(self.begin())["read"], 20)

    def test_a_task_that_was_killed_ends_its_program_and_is_run_again(self):
        first = self.begin("half")
        self.await_half(first)
        programs = programs_of(first.pid)
        second = self.begin()
        first.kill()
        receipt = self.receipt_of(second)
        self.assertEqual((receipt["read"], receipt["finished"]), (20, True))
        self.assertEqual([load["state"] for load in self.loads()], ["stopped", "finished"])
        while any(Place.runs(program) for program in programs):
            time.sleep(0.01)
        self.assert_holds({"id": n, "n": 1} for n in range(10))

    def test_connections_are_seats_that_a_process_holds(self):
        from millstream import spark

        write = spark.MillstreamDataSource({**self.options, "connections": "2"}).writer(schema_of("id"), False)._write
        held = [spark._seat(write) for _ in range(2)]
        self.assertIsNone(spark._seat(write))
        held[0].close()
        held[0] = spark._seat(write)
        self.assertIsNotNone(held[0])
        for seat in held:
            seat.close()

    def test_a_machine_without_a_database_is_refused(self):
        from millstream import spark

        del self.options["db"]
        write = spark.MillstreamDataSource(self.options).writer(schema_of("id"), False)._write
        import pyarrow

        batch = pyarrow.record_batch({"id": [1]})
        with mock.patch.dict(os.environ), mock.patch.object(spark.TaskContext, "get", mock.Mock()):
            for name in ("MILLSTREAM_DB", "DATABASE_URL"):
                os.environ.pop(name, None)
            with self.assertRaisesRegex(ms.Error, "no database is named\n.*executorEnv"):
                write.load(iter([batch]))


@unittest.skipUnless(HAS_SPARK and DB, "it needs pyspark and MILLSTREAM_TEST_DB")
class Jobs(WithDatabase):
    @classmethod
    def setUpClass(cls):
        if not knows_arrow():
            raise unittest.SkipTest("the program reads no Arrow")
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["PYTHONPATH"] = f"{HERE.parent}:{HERE}"
        from pyspark.sql import SparkSession

        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        builder = SparkSession.builder.master(f"local[2,{TRIES}]")
        settings = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "3",
            # Spark collects so many rows before a task gets the first one.
            "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.local.dir": folder.name,
            "spark.sql.warehouse.dir": folder.name,
        }
        for name, value in settings.items():
            builder = builder.config(name, value)
        cls.spark = builder.getOrCreate()
        cls.addClassCleanup(cls.spark.stop)
        cls.spark.sparkContext.setLogLevel("OFF")

    def frame(self, rows=ROWS, n=1):
        from pyspark.sql.functions import lit

        return self.spark.range(rows).withColumn("n", lit(n)).withColumn("text", lit(TEXT))

    def documents(self, rows=ROWS, n=1):
        return ({"id": id, "n": n, "text": TEXT} for id in range(rows))

    def save(self, frame, **options):
        frame.write.format("millstream").options(**self.options, **options).mode("append").save()

    def failing(self, frame, how):
        """The frame, of which one partition fails when half of it was given, the first time."""
        marker = str(self.folder / "failed")

        def half(batches):
            from test_spark import runs_again

            given = 0
            for batch in batches:
                yield batch
                before, given = given, given + batch.num_rows
                if before < HALF <= given and not runs_again(marker):
                    how()

        return frame.mapInArrow(half, frame.schema)

    def assert_wrote_all(self):
        """The table is that of one run, and the receipts of the runs that count add up."""
        self.assert_holds(self.documents())
        (receipt,) = self.receipts()
        self.assertEqual((receipt["read"], receipt["rejected"], len(receipt["loads"])), (ROWS, 0, 3))
        loads = {load["load_id"]: load for load in self.loads()}
        self.assertEqual({loads[load_id]["state"] for load_id in receipt["loads"]}, {"finished"})
        return [load for load_id, load in loads.items() if load_id not in receipt["loads"]]

    def test_a_frame_is_upserted(self):
        self.save(self.frame().repartition(4, "id"), connections=1, batchRows=1000)
        self.save(self.frame(n=2).repartition("id"))
        self.assert_holds(self.documents(n=2))
        new, changed = self.receipts()
        self.assertEqual((new["read"], new["inserted"], len(new["loads"])), (ROWS, ROWS, 4))
        self.assertEqual((changed["read"], changed["updated"]), (ROWS, ROWS))

    def test_a_frame_without_rows_and_one_with_rejects(self):
        self.save(self.frame(0))
        self.options["key"] = "n:smallint"
        self.save(self.frame(10, n=70_000))
        self.assertEqual([(receipt["read"], receipt["rejected"]) for receipt in self.receipts()], [(0, 0), (10, 10)])
        with self.assertRaisesRegex(Exception, "could not be stored|rejected|reject"):
            self.save(self.frame(10, n=70_000), maxRejects=0)
        self.assertTrue(self.receipts()[-1]["failed"])

    def test_a_mistake_is_found_before_a_task_begins(self):
        for options, message in [({"lane": 1}, "lanes"), ({"mode": "sum:n"}, "repeats tasks")]:
            with self.subTest(options), self.assertRaisesRegex(Exception, message):
                self.save(self.frame(10), **options)
        self.assertEqual(self.loads(), [])

    def test_a_task_that_fails_half_way_is_repeated(self):
        def fail():
            end_a_child(is_program=None)
            raise RuntimeError("half of it was given")

        self.save(self.failing(self.frame().repartition(3, "id"), fail))
        (other,) = self.assert_wrote_all()
        self.assertEqual(other["state"], "stopped")

    def test_a_program_that_is_killed_is_started_again(self):
        self.save(self.failing(self.frame().repartition(3, "id"), lambda: end_a_child(is_program=True)))
        for other in self.assert_wrote_all():
            self.assertNotEqual(other["state"], "finished")

    def test_a_worker_of_python_that_is_killed_is_replaced(self):
        self.save(self.failing(self.frame().repartition(3, "id"), lambda: end_a_child(is_program=False)))
        for other in self.assert_wrote_all():
            self.assertNotEqual(other["state"], "finished")

    def test_a_stream_is_written_batch_by_batch(self):
        source, states = self.folder / "source", str(self.folder / "states")
        for n in range(2):
            self.frame(100, n).coalesce(1).write.mode("append").json(str(source))
        frame = self.spark.readStream.schema("id long, n int, text string").option("maxFilesPerTrigger", 1).json(str(source))
        stream = frame.repartition(2, "id").writeStream.format("millstream").options(**self.options)
        query = stream.option("mode", "newest:n").option("checkpointLocation", states).trigger(availableNow=True).start()
        query.awaitTermination()
        self.assert_holds(self.documents(100))
        self.assertEqual([(one["batch"], one["read"]) for one in self.receipts()], [(0, 100), (1, 100)])


def end_a_child(is_program):
    """Kills a program that loads for Spark, or the worker of Python that runs it, or only waits until they are there."""
    while True:
        # Spark has daemons, which have workers: this process is one of the workers of another daemon.
        for daemon in children(parent(os.getppid())):
            for worker in children(daemon):
                for program in programs_of(worker):
                    if is_program is not None:
                        os.kill(program if is_program else worker, signal.SIGKILL)
                    return
        time.sleep(0.01)


def parent(process):
    return int(pathlib.Path(f"/proc/{process}/stat").read_bytes().rsplit(b")", 1)[1].split()[1])


def children(process):
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if parent(int(folder.name)) == process:
                found.append(int(folder.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


if __name__ == "__main__":
    unittest.main()
