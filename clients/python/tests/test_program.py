"""The package with the real program and a real database, which MILLSTREAM_TEST_DB and MILLSTREAM_PROGRAM name."""

import gzip
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
import urllib.parse

from place import HERE, Place, interrupt, ms

DB = os.environ.get("MILLSTREAM_TEST_DB")
HAS_ARROW = importlib.util.find_spec("pyarrow") is not None


class Boom(Exception):
    pass


def programs_of(parent):
    """Process numbers of the programs that a process runs."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_bytes().rsplit(b")", 1)[1].split()
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if fields[0] != b"Z" and int(fields[1]) == parent and b"load" in words[1:2]:
            found.append(int(folder.name))
    return found


def knows_arrow():
    """Whether the program was built with the feature that reads Arrow."""
    # A program without it names the feature. The help lists the format in either case.
    run = subprocess.run([ms.program(), "cat", "-"], input=b"ARROW1\0\0", capture_output=True)
    return b"columnar" not in run.stderr


@unittest.skipUnless(DB, "MILLSTREAM_TEST_DB names no database")
class Program(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.table = "public." + self.id().rsplit(".", 1)[1][:60]
        self.addCleanup(lambda: self.assertEqual(programs_of(os.getpid()), []))

    def load(self, data, key="id", **options):
        return ms.load(data, into=self.table, key=key, db=DB, **options)

    def assert_holds(self, documents, key="id", **options):
        found = ms.verify(iter(documents), into=self.table, key=key, exact=True, db=DB, **options)
        self.assertTrue(found, found)

    def test_documents_are_upserted(self):
        documents = [{"id": n, "name": f"ä{n}"} for n in range(20_000)]
        receipt = self.load(iter(documents))
        self.assertEqual((receipt.read, receipt.inserted, receipt.finished), (20_000, 20_000, True))
        self.assertEqual(receipt.collection.split(".")[-1], self.table.split(".")[-1])
        documents[5] = {"id": 5, "name": "other"}
        receipt = self.load([json.dumps(document).encode() for document in documents])
        self.assertEqual((receipt.inserted, receipt.updated + receipt.unchanged + receipt.superseded), (0, 20_000))
        self.assert_holds(documents)
        self.assertEqual(ms.get(self.table, 5, -1, db=DB), [documents[5], None])
        self.assertEqual(ms.get(self.table, 5, 6, count=True, db=DB), [1, 1])

    def test_files_patterns_models_and_events(self):
        documents = [{"id": n, "name": str(n)} for n in range(3_000)]
        for part in range(3):
            lines = "".join(json.dumps(document) + "\n" for document in documents[part::3])
            with gzip.open(self.folder / f"{part}.gz", "wt") as file:
                file.write(lines)
        events = []
        self.load(str(self.folder / "*.gz"), progress=events.append)
        names = [event.name for event in events]
        self.assertTrue({"key", "created", "started", "progress"} <= set(names), names)
        last = [event for event in events if event.name == "progress"][-1]
        self.assertEqual((last.documents, last.share), (3_000, 1.0))
        self.assert_holds(documents)
        model = f"{self.table}_m"
        self.assertEqual(ms.publish(self.table, model, index="lower(doc->>'name')", db=DB)[0]["rows"], 3_000)
        receipt = self.load([{"id": 1, "name": "x"}], publish=model)
        self.assertEqual(len(receipt.published), 1)
        self.assertEqual(len(ms.refresh(model, db=DB)), 1)

    def test_rejects_have_the_number_of_their_document(self):
        receipt = self.load(iter(['{"id":1}', "no", '{"id":null}', b'{"id":3,"a":"\xff"}', '{"id":\n2}']))
        self.assertEqual((receipt.read, receipt.rejected), (5, 3))
        with self.assertRaisesRegex(ms.Rejected, "3 of 5"):
            receipt.raise_for_rejects()
        self.assertEqual([(x.line, x.reason) for x in receipt.rejects()], [(2, "not_json"), (3, "key_null"), (4, "invalid_utf8")])
        self.assertEqual([x.document for x in receipt.rejects()], ["no", '{"id":null}', b'{"id":3,"a":"\xff"}'])
        self.assertEqual(len(receipt.rejects(limit=1)), 1)

    def test_a_document_may_have_ends_of_lines(self):
        receipt = self.load(iter(['{\r\n"id":\r1}', "", b'{\n"id":2}\n', '{"id":3,"a":"\n"}']))
        self.assertEqual((receipt.read, receipt.inserted, receipt.rejected), (3, 2, 1))
        self.assertEqual([x.line for x in receipt.rejects()], [4])

    def test_a_dry_run_writes_nothing(self):
        receipt = self.load([{"id": 1}, {}], dry_run=True)
        self.assertEqual((receipt.read, receipt.rejected), (2, 1))
        with self.assertRaises(ms.Error):
            ms.get(self.table, 1, db=DB)

    def test_too_many_rejects_are_an_error_with_a_receipt(self):
        with self.assertRaisesRegex(ms.Error, "rejected") as caught:
            self.load(({} for _ in range(1_000_000)), key="id:bigint", max_rejects=10)
        self.assertGreaterEqual(ms.receipt_of(caught.exception).rejected, 10)

    def test_ctrl_c_commits_what_was_read(self):
        for count in [50, 30_000]:
            with self.subTest(count=count):
                given = []

                def documents():
                    for n in range(100_000):
                        given.append({"id": n})
                        yield given[-1]
                        if n == count:
                            interrupt()

                with self.assertRaises(ms.Interrupted) as caught:
                    self.load(documents())
                receipt = caught.exception.receipt
                self.assertIn(receipt.read, [len(given), len(given) - 1])
                self.assert_holds([{"id": n} for n in range(max(receipt.read, 51))])

    def counted(self, count, end=None):
        """Documents that add up, so that one that is lost or sent twice shows."""
        for n in range(count):
            yield {"id": n % 100, "n": 1}
        if end is not None:
            end()

    def assert_counted(self, count):
        sums = ms.get(self.table, *range(100), db=DB)
        self.assertEqual([one["n"] for one in sums], [count // 100] * 100)

    def resume(self, count):
        receipt = self.load(self.counted(count), mode="sum:n", name="s")
        self.assertEqual((receipt.read, receipt.rejected, receipt.finished), (count, 0, True))
        self.assert_counted(count)
        # Once more adds nothing.
        self.load(self.counted(count), mode="sum:n", name="s")
        self.assert_counted(count)
        return receipt

    def test_a_stream_with_a_name_resumes_after_an_exception(self):
        def boom():
            raise Boom

        for count in [50, 20_000]:
            with self.assertRaises(Boom) as caught:
                self.load(self.counted(count, boom), mode="sum:n", name="s")
            receipt = ms.receipt_of(caught.exception)
            self.assertEqual((receipt.read, receipt.rejected, receipt.finished), (count, 0, False))
        self.assertIsNotNone(self.resume(30_000).resumed_from)

    def test_a_stream_with_a_name_resumes_after_ctrl_c(self):
        with self.assertRaises(ms.Interrupted) as caught:
            self.load(self.counted(20_000, interrupt), mode="sum:n", name="s")
        self.assertEqual((caught.exception.receipt.read, caught.exception.receipt.finished), (20_000, False))
        self.resume(30_000)

    def test_a_stream_with_a_name_resumes_after_a_kill_of_the_program(self):
        def progress(event):
            if event.documents:
                for pid in programs_of(os.getpid()):
                    os.kill(pid, signal.SIGKILL)

        given = 0

        def documents():
            nonlocal given
            for document in self.counted(10_000_000):
                given += 1
                if given > 20_000:
                    # The call must notice the death of the program nevertheless.
                    time.sleep(0.005)
                yield document

        with self.assertRaisesRegex(ms.Died, "SIGKILL"):
            self.load(documents(), mode="sum:n", name="s", progress=progress)
        self.resume((given // 100 + 1) * 100)

    def test_a_stream_with_a_name_resumes_after_a_kill_of_python(self):
        script = f"""
import millstream as ms, os, time
from test_program import programs_of
given = 19_999
def documents():
    global given
    for n in range(10_000_000):
        if n >= 20_000:
            time.sleep(0.005)
            given = n
        yield {{"id": n % 100, "n": 1}}
def progress(event):
    if event.documents:
        print(given, *programs_of(os.getpid()), flush=True)
        os.kill(os.getpid(), 9)
ms.load(documents(), into={self.table!r}, key="id", mode="sum:n", name="s", db={DB!r}, progress=progress)
"""
        run = self.python(script)
        said = run.communicate()[0].split()
        self.assertEqual((run.returncode, len(said)), (-9, 2))
        given, mine = map(int, said)
        while Place.runs(mine):
            time.sleep(0.01)
        receipt = self.resume((given // 100 + 1) * 100)
        self.assertIsNotNone(receipt.resumed_from)

    @unittest.skipUnless(HAS_ARROW, "pyarrow is not installed")
    def test_a_frame_with_a_name_is_not_whole_after_a_kill_of_python_between_batches(self):
        if not knows_arrow():
            self.skipTest("the program reads no Arrow")
        script = f"""
import millstream as ms, os, pyarrow, signal
from test_program import programs_of
def batches(given):
    for n in range(3):
        if n == given:
            # One batch is in the pipe as a whole, and another one at most.
            print(*programs_of(os.getpid()), flush=True)
            signal.pause()
        yield pyarrow.record_batch({{"id": range(10), "n": [1] * 10}}, schema=schema)
schema = pyarrow.schema([("id", pyarrow.int64()), ("n", pyarrow.int64())])
def load(given):
    reader = pyarrow.RecordBatchReader.from_batches(schema, batches(given))
    return ms.load(reader, into={self.table!r}, key="id:bigint", mode="sum:n", name="s", db={DB!r})
"""
        run = self.python(script + "load(2)")
        mine = int(run.stdout.readline())
        run.kill()
        run.communicate()
        while Place.runs(mine):
            time.sleep(0.01)
        names = {}
        exec(script, names)
        receipt = names["load"](None)
        self.assertEqual((receipt.read, receipt.finished), (30, True))
        self.assertGreaterEqual(receipt.resumed_from, 10)
        self.assertEqual(ms.get(self.table, 7, db=DB), [{"id": 7, "n": 3}])

    def python(self, script):
        """Python with a script, which may use what stands here."""
        # Others may be where the variable says.
        paths = [str(HERE.parent), str(HERE), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": ":".join(filter(None, paths))}
        return subprocess.Popen([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE)

    def test_a_killed_python_ends_a_load_of_files(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        script = f"""
import millstream as ms, os
from test_program import programs_of
def progress(event):
    if event.documents:
        print(*programs_of(os.getpid()), flush=True)
        os.kill(os.getpid(), 9)
ms.load({str(pipe)!r}, into={self.table!r}, key="id:bigint", format="ndjson", db={DB!r}, progress=progress)
"""
        # For both, so that this does not wait for the program.
        with open(os.open(pipe, os.O_RDWR), "wb", buffering=0) as file:
            run = self.python(script)
            file.write(b'{"id":1}\n')
            mine = run.communicate()[0].split()
            self.assertEqual((run.returncode, len(mine)), (-9, 1))
            # Its file has no end yet: it ends because nobody reads its events.
            while Place.runs(int(mine[0])):
                time.sleep(0.01)
        self.assert_holds([{"id": 1}])

    def test_what_fails_before_the_program_reads_costs_no_document(self):
        self.load([{"id": 1}])
        absent = urllib.parse.urlsplit(DB)._replace(path="/absent").geturl()
        unreachable = "postgres://me:s3cret@127.0.0.1:1/x"
        for db, key, says in [(unreachable, "id", ""), (absent, "id", "absent"), (DB, "other:text", "other")]:
            documents = ({"id": n} for n in range(1_000_000))
            with self.subTest(db=db), self.assertRaises(ms.Error) as caught:
                ms.load(documents, into=self.table, key=key, db=db)
            self.assertEqual(caught.exception.code, 2)
            self.assertIn(says, str(caught.exception))
            self.assertNotIn("s3cret", str(caught.exception))
            self.assertEqual(next(documents), {"id": 0})

    @unittest.skipUnless(HAS_ARROW, "pyarrow is not installed")
    def test_a_frame_is_loaded(self):
        if not knows_arrow():
            self.skipTest("the program reads no Arrow")
        import pyarrow

        table = pyarrow.table({"id": range(1_000), "name": [str(n) for n in range(1_000)]})
        self.assertEqual(self.load(table).inserted, 1_000)
        self.assert_holds(table.to_pylist())


if __name__ == "__main__":
    unittest.main()
