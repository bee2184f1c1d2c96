"""What is sent, and what comes back."""

import io
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading
import time
import types
import unittest
from unittest import mock

from place import HERE, Place, ms


class Load(Place):
    def test_documents_come_back_as_a_receipt(self):
        self.plan()
        documents = [{"id": n, "name": "ä\n"} for n in range(10_000)]
        receipt = self.load((document for document in documents), db="postgres://me:s3cret@h/db", schema="s")
        self.assertEqual(self.documents(), documents)
        self.assertEqual((receipt.read, receipt.inserted, receipt.load_id, receipt.finished), (10_000, 10_000, 7, True))
        self.assertIs(receipt.raise_for_rejects(), receipt)
        self.assertEqual(receipt.raw["new"], [1], "what a newer program prints is kept")
        self.assertIn("target: postgres://somewhere", receipt.notes)
        called = self.called()
        self.assertEqual(called["db"], "postgres://me:s3cret@h/db")
        self.assertNotIn("s3cret", str(called["args"]) + repr(receipt) + str(receipt) + receipt._repr_html_())
        self.assertIn("--schema=s", called["args"])

    def test_paths_are_read_by_the_program(self):
        for data, names in [
            ("a*.gz", ["a*.gz"]),
            ("[ab]*.gz", ["[ab]*.gz"]),
            (pathlib.Path("-x"), ["-x"]),
            (["a", pathlib.Path("b")], ["a", "b"]),
            ((pathlib.Path("c"), "d"), ["c", "d"]),
        ]:
            self.plan()
            self.load(data)
            args = self.called()["args"]
            self.assertEqual(args[args.index("--") + 1 :], names)
            self.assertFalse([arg for arg in args if arg.startswith("--format")])

    def test_what_cannot_be_meant_is_refused(self):
        async def later():
            yield {}

        for data, says in [
            ({"id": 1}, "write [data]"),
            (b'{"id":1}', "write [data]"),
            ('{"id":1}', "iter([..])"),
            (['{"id":1}', '{"id":2}'], "iter([..])"),
            (['[{"id":1}]'], "iter([..])"),
            ("-", "standard input"),
            (7, "type int"),
            (later(), "asynchronous"),
            (["a", 7], "not of type int"),
            (iter([pathlib.Path("a")]), "give paths as a list"),
            ("kafka://h/t", "millstream load kafka://h/t"),
        ]:
            with self.subTest(data=data), self.assertRaises((TypeError, ValueError)) as caught:
                self.plan()
                self.load(data)
            self.assertIn(says, str(caught.exception))
        with self.assertRaisesRegex(ValueError, "format= is for paths"):
            self.load([{}], format="csv")
        with self.assertRaisesRegex(ValueError, "db= is empty"):
            self.load([{}], db="")
        with self.assertRaisesRegex(ms.Error, "too many or too long names"):
            ms.get("t", "x" * 200_000)

    def test_strings_and_bytes_are_documents_as_they_are(self):
        texts = ['{"a":"\u2028\x85"}', ' {"b":\n1}\n', "", "\n", '{"c":"x\ny"}', '{\r\n"d":\r1}\r\n', "no"]
        lines = b'{"a":"\xe2\x80\xa8\xc2\x85"}\n{"b":\t1}\n\n\n{"c":"x\ty"}\n{\t\t"d":\t1}\nno\n'
        for documents in [texts, [text.encode() for text in texts], [bytearray(texts[0].encode()), *texts[1:]]]:
            self.plan()
            self.load(iter(documents))
            self.assertEqual(self.sent(), lines)
        self.plan()
        self.load(iter(['{\r"a":1}']))
        self.assertEqual(self.sent(), b'{\t"a":1}\n', "a line may end in a carriage return alone")
        self.plan()
        self.load(io.BytesIO(lines))
        self.assertEqual(self.sent(), lines, "an open file is an iterable of its lines")

    def test_an_iterable_without_documents_is_loaded(self):
        self.plan()
        self.assertEqual(self.load([]).read, 0)

    def test_rejects_are_listed_and_raised(self):
        self.plan(rejected=2)
        receipt = self.load([{"id": 1}, {"id": 2}, {"id": 3}])
        with self.assertRaises(ms.Rejected) as caught:
            receipt.raise_for_rejects()
        self.assertIs(ms.receipt_of(caught.exception), receipt)
        record = {"load_id": 7, "source": "-", "byte_offset": 3, "line": 2, "reason": "not_json", "detail": "d"}
        record |= {"bytes": 4, "truncated": False, "rejected_at": "2026-01-01T00:00:00Z"}
        rejects = [{**record, "document": "text"}, {**record, "document_base64": "AP8="}]
        self.plan(answer={"reasons": [], "rejects": rejects})
        found = receipt.rejects()
        self.assertEqual([(x.line, x.reason, x.document) for x in found], [(2, "not_json", "text"), (2, "not_json", b"\0\xff")])
        self.assertEqual(self.called()["args"][:3], ["rejects", "--load=7", "--limit=1000"])

    def test_a_dry_run_is_a_receipt_of_what_was_read(self):
        reject = {"offset": 3, "line": 2, "reason": "not_json", "detail": "d", "document": "x"}
        self.plan(answer={"key": [], "read": 3, "rejected": 1, "reasons": ["id bigint"], "first_rejects": [reject]}, code=1)
        receipt = self.load("a", dry_run=True)
        self.assertEqual((receipt.read, receipt.rejected, receipt.finished), (3, 1, False))
        self.assertEqual([x.line for x in receipt.rejects()], [2])
        self.assertIn("id bigint", str(receipt))

    def test_the_receipt_of_a_refresh_follows(self):
        self.plan(answer={"load_id": 7, "read": 1, "finished": True})
        self.assertEqual(self.load("a", publish=["m", "n"]).published, [])
        self.assertEqual([arg for arg in self.called()["args"] if "publish" in arg], ["--publish=m", "--publish=n"])

    def test_html_shows_no_code_of_others(self):
        self.assertNotIn("<script", ms.Receipt(collection="<script>", read=1)._repr_html_())

    def test_receipts_and_exceptions_pass_between_processes(self):
        self.plan()
        receipt = self.load([{"id": 1}])
        error = ms.Died("m", causes=("c",), hint="h", code=-9, load_id=7, receipt=receipt)
        for one in [receipt, error, ms.Interrupted("i", receipt)]:
            again = pickle.loads(pickle.dumps(one))
            self.assertEqual((type(again), str(again)), (type(one), str(one)))
            self.assertEqual(ms.receipt_of(again) if again is not one and isinstance(again, BaseException) else again, receipt)


class Errors(Place):
    def test_the_error_of_the_program_is_the_exception(self):
        report = {"error": "no database", "causes": ["refused"], "where": "a:1", "hint": "start it", "load_id": None}
        for code, kind in [(2, ms.Error), (70, ms.Bug), (143, ms.Stopped)]:
            self.plan(error={**report, "code": code})
            for data in ["file", [{"id": n} for n in range(100_000)]]:
                with self.assertRaises(kind) as caught:
                    self.load(data)
                error = caught.exception
                self.assertEqual((error.message, error.causes, error.hint, error.code), ("no database", ("refused",), "start it", code))
                self.assertEqual(str(error), "no database\ncaused by: refused\nwhere: a:1\nhint: start it")

    def test_a_program_that_fails_before_it_reads_costs_no_document(self):
        self.plan(error={"error": "no database", "code": 2})
        for name in [None, "s"]:
            documents = iter([{"id": 1}, {"id": 2}])
            with self.assertRaisesRegex(ms.Error, "no database"):
                self.load(documents, name=name)
            self.assertEqual(next(documents), {"id": 1})

    def test_a_program_that_does_not_say_that_it_reads_gets_documents_too(self):
        self.plan(silent=True)
        with mock.patch("millstream._child.READER_WAIT_S", 0.1):
            self.assertEqual(self.load([{"id": 1}]).read, 1)

    def test_a_program_that_ends_early_is_no_broken_pipe(self):
        self.plan(fail_after=100)

        def endless():
            while True:
                yield {"id": 1}

        with self.assertRaises(ms.Error) as caught:
            self.load(endless())
        self.assertEqual(caught.exception.message, "disk full")
        self.assertGreaterEqual(ms.receipt_of(caught.exception).read, 100)

    def test_a_program_that_is_killed_is_an_exception(self):
        for data in [({"id": n} for n in range(1_000_000)), (b"{}" for _ in range(1_000_000))]:
            self.plan(kill_after=100)
            with self.assertRaisesRegex(ms.Died, "SIGKILL"):
                self.load(data)

    def test_another_program_is_an_exception(self):
        for script in ["exit 0", "echo hello", "echo no >&2; exit 3"]:
            pathlib.Path(self.path("millstream")).write_text(f"#!/bin/sh\n{script}\n")
            with self.assertRaises(ms.Died):
                self.load("a")

    def test_a_program_that_is_missing_is_named(self):
        os.environ["MILLSTREAM_PROGRAM"] = self.path("absent")
        with self.assertRaisesRegex(ms.ProgramMissing, "absent"):
            self.load("a")

    def test_an_exit_code_that_nobody_knows_is_not_needed(self):
        before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        try:
            self.plan()
            self.assertEqual(self.load([{"id": 1}]).read, 1)
            self.plan(error={"error": "no", "code": 2})
            with self.assertRaisesRegex(ms.Error, "no"):
                self.load("a")
            self.plan()

            def documents():
                yield {"id": 1}
                while not self.record.exists() or b"}" not in self.sent():
                    time.sleep(0.01)
                os.kill(self.called()["pid"], signal.SIGTERM)
                while True:
                    yield ""

            with self.assertRaisesRegex(ms.Stopped, "ended the program before it had read everything") as caught:
                self.load(documents())
            self.assertEqual((caught.exception.load_id, caught.exception.receipt.finished), (7, False))
        finally:
            signal.signal(signal.SIGCHLD, before)


class Pipes(Place):
    def test_no_pipe_waits_for_another(self):
        self.plan(noise=1 << 20)
        self.assertEqual(self.load({"id": n, "x": "x" * 1000} for n in range(5_000)).read, 5_000)

    def test_a_process_that_the_program_leaves_does_not_hold_the_call(self):
        self.plan(leaves=True)
        self.assertEqual(self.load([{"id": 1}]).read, 1)
        os.kill(int((self.folder / "record.left").read_text()), signal.SIGKILL)

    def test_memory_is_bounded(self):
        self.plan()
        given, most = 0, 0

        def documents():
            nonlocal given, most
            for _ in range(4_000):
                given += 8_000
                most = max(most, given - received)
                yield b"{%b}" % (b" " * 7_998)

        received = 0

        def progress(event):
            nonlocal received
            if event.name == "progress":
                received = event.data["bytes"]

        self.load(documents(), progress=progress)
        self.assertLess(most, 8 << 20, "of 32 MB")

    def test_a_slow_iterable_is_loaded_as_it_comes(self):
        def documents():
            for n in range(6_000):
                yield {"id": n}
                # If a document were held back until the next one comes, this would never end.
                while n in (0, 1, 50, 4_999, 5_000) and b'{"id":%d}' % n not in self.seen():
                    time.sleep(0.01)

        for name in [None, "s"]:
            self.plan()
            self.record.unlink(missing_ok=True)
            self.assertEqual(self.load(documents(), name=name).read, 6_000)
            self.assertEqual(self.documents(), [{"id": n} for n in range(6_000)])

    def test_a_document_of_a_slow_iterable_that_is_no_json_is_named(self):
        def documents():
            for n in range(5_000):
                yield {"id": n}
            yield bad
            while b'{"id":4999}' not in self.seen():
                time.sleep(0.01)
            yield {"id": 5_001}

        for bad in [object(), {"x": object()}]:
            self.plan()
            self.record.unlink(missing_ok=True)
            with self.assertRaisesRegex(TypeError, "document 5001: ") as caught:
                self.load(documents())
            self.assertEqual(self.documents(), [{"id": n} for n in range(5_000)])
            self.assertEqual(ms.receipt_of(caught.exception).read, 5_000)

    def seen(self):
        """What the program has read so far."""
        return self.record.read_bytes() if self.record.exists() else b""

    def test_the_iterable_and_the_callback_run_in_the_thread_of_the_caller(self):
        self.plan()
        threads, names = set(), set()

        def documents():
            threads.add(threading.current_thread())
            yield {"id": 1}

        def progress(event):
            threads.add(threading.current_thread())
            names.add(event.name)

        caught = []

        def run():
            caught.append(self.load(documents(), progress=progress))

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        self.assertEqual((threads, caught[0].read), ({thread}, 1))
        self.assertEqual(names, {"note", "reading", "started", "progress"})

    def test_many_threads_load_at_once(self):
        self.plan()
        receipts = []
        threads = [
            threading.Thread(target=lambda: receipts.append(ms.load([{"id": 1}] * 5_000, into="t", key="id")))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([receipt.read for receipt in receipts], [5_000] * 8)


class Silence(Place):
    def test_nothing_is_printed_unless_asked(self):
        out, err = sys.stdout, sys.stderr
        for progress, stderr in [(None, io.StringIO()), (True, io.StringIO()), (True, None)]:
            self.plan(noise=100)
            sys.stdout, sys.stderr = io.StringIO(), stderr
            try:
                self.load([{"id": 1}], progress=progress)
                said = sys.stdout.getvalue() + (stderr.getvalue() if stderr else "")
            finally:
                sys.stdout, sys.stderr = out, err
            self.assertEqual(said, "")

    def test_a_daemon_without_files_of_its_own_loads(self):
        self.plan()
        script = "import millstream as ms; ms.load([{'id': 1}], into='t', key='id', progress=True)"
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
        closed = ["sh", "-c", 'exec "$@" 0<&- 1>&- 2>&-', "sh", sys.executable, "-c", script]
        self.assertEqual(subprocess.run(closed, env=environment).returncode, 0)
        self.assertEqual(self.documents(), [{"id": 1}])

    def test_a_terminal_gets_one_line_that_goes_away(self):
        class Terminal(io.StringIO):
            def isatty(self):
                return True

        self.plan()
        err, sys.stderr = sys.stderr, Terminal()
        try:
            self.load([{"id": 1}], progress=True)
            said = sys.stderr.getvalue()
        finally:
            sys.stderr = err
        self.assertIn("1 documents", said)
        self.assertTrue(said.endswith("\r\x1b[K"), repr(said))
        self.assertNotIn("\n", said)

    def test_a_notebook_gets_a_bar_that_goes_away(self):
        shown = []

        class Handle:
            def update(self, html):
                shown.append(html)

        display = types.ModuleType("IPython.display")
        display.HTML, display.display = str, lambda html, display_id: Handle()
        modules = {"ipykernel": types.ModuleType("ipykernel"), "IPython": types.ModuleType("IPython")}
        self.plan()
        with mock.patch.dict(sys.modules, {**modules, "IPython.display": display}):
            self.load([{"id": 1}], progress=True)
        self.assertIn("<progress max='1'></progress> 1 documents", shown)
        self.assertEqual(shown[-1], "")


if __name__ == "__main__":
    unittest.main()
