"""Ctrl-C, exceptions of the iterable, kills and forks: what is committed, and that nothing is left."""

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
import unittest
import zlib

from place import HERE, Place, interrupt, ms


class Boom(Exception):
    pass


class Exceptions(Place):
    def test_an_exception_of_the_iterable_commits_what_it_gave_and_is_raised_again(self):
        for error in [Boom("x" * 20_000), KeyError(1), SystemExit(3), GeneratorExit()]:
            self.plan()

            def documents():
                for n in range(5_003):
                    yield {"id": n}
                raise error

            with self.assertRaises(type(error)) as caught:
                self.load(documents())
            self.assertIs(caught.exception, error)
            self.assertEqual(self.documents(), [{"id": n} for n in range(5_003)])
            self.assertEqual((ms.receipt_of(error).read, ms.receipt_of(error).finished), (5_003, True))

    def test_the_exception_says_that_the_load_failed_too(self):
        self.plan(fail_after=1)

        def documents():
            yield {"id": 1}
            while not self.record.exists():
                time.sleep(0.01)
            raise Boom

        with self.assertRaises(Boom) as caught:
            self.load(documents())
        if sys.version_info >= (3, 11):
            self.assertIn("disk full", "".join(caught.exception.__notes__))

    def test_an_exception_without_room_for_a_receipt_is_raised_too(self):
        class Small(Exception):
            __slots__ = ()

            def __setattr__(self, name, value):
                if name.startswith(("millstream", "__notes")):
                    raise AttributeError(name)
                super().__setattr__(name, value)

        self.plan()

        def documents():
            yield {"id": 1}
            raise Small

        with self.assertRaises(Small):
            self.load(documents())
        self.assertEqual(len(self.documents()), 1)

    def test_a_document_that_is_no_json_is_named(self):
        self.plan()
        documents = [{"id": n} for n in range(3_000)]
        documents[2_345] = {"id": object()}
        with self.assertRaisesRegex(TypeError, "document 2346: .*object is no type of JSON") as caught:
            self.load(iter(documents))
        self.assertEqual(self.documents(), documents[:2_345])
        self.assertEqual(ms.receipt_of(caught.exception).read, 2_345)

    def test_an_exception_of_the_callback_ends_the_load_in_the_same_way(self):
        self.plan()

        def progress(event):
            if event.name == "progress":
                raise Boom

        with self.assertRaises(Boom) as caught:
            self.load(({"id": n} for n in range(1_000_000)), progress=progress)
        self.assertEqual(len(self.documents()), ms.receipt_of(caught.exception).read)

    def test_blank_documents_do_not_hide_that_the_program_has_ended(self):
        self.plan(fail_after=1)

        def documents():
            yield {"id": 1}
            while True:
                yield ""

        with self.assertRaisesRegex(ms.Error, "disk full"):
            self.load(documents())

    def test_a_stream_with_a_name_has_no_end_when_it_breaks_off(self):
        def documents(count, error):
            for n in range(count):
                yield {"id": n}
            if error:
                raise error

        for count in [1, 2, 5_003]:
            self.plan()
            with self.assertRaises(Boom) as caught:
                self.load(documents(count, Boom()), name="s")
            receipt = ms.receipt_of(caught.exception)
            self.assertEqual((receipt.read, receipt.rejected, receipt.finished), (count, 0, False))
            stream = zlib.decompressobj(31)
            self.assertEqual(stream.decompress(self.record.read_bytes()).count(b"\n"), count)
            self.assertFalse(stream.eof, "the program sees that the end is missing")
            self.plan()
            self.assertEqual(self.load(documents(count, None), name="s").read, count)
            stream = zlib.decompressobj(31)
            stream.decompress(self.record.read_bytes())
            self.assertTrue(stream.eof and not stream.unused_data)
            self.assertIn("--source-name=s", self.called()["args"])


    def test_an_exception_before_the_first_document_starts_no_load(self):
        for name in [None, "s"]:
            self.plan(started=self.path("started"), end=self.path("never"))

            def documents():
                self.await_files("started")
                yield 1 / 0

            # With an end of its input, the program would record a load without documents.
            with self.assertRaises(ZeroDivisionError):
                self.load(documents(), name=name)
            self.assertEqual(self.called()["signal"], signal.SIGINT)
            os.remove(self.path("started"))


class Interrupts(Place):
    def test_ctrl_c_in_the_iterable_commits_what_was_read(self):
        for name in [None, "s"]:
            self.plan()

            def documents():
                for n in range(100_000):
                    yield {"id": n}
                    if n == 50_000:
                        interrupt()

            with self.assertRaises(ms.Interrupted) as caught:
                self.load(documents(), name=name)
            read = caught.exception.receipt.read
            self.assertEqual(self.documents(), [{"id": n} for n in range(read)])
            self.assertIn(read, [50_000, 50_001], "all but at most the document that was on its way")

    def test_ctrl_c_before_the_first_document_is_an_interrupt_like_others(self):
        for name in [None, "s"]:
            self.plan(started=self.path("started"), end=self.path("never"))

            def documents():
                self.await_files("started")
                interrupt()
                yield {"id": 1}

            with self.assertRaisesRegex(ms.Interrupted, "nothing was committed|1 document is committed"):
                self.load(documents(), name=name)
            os.remove(self.path("started"))

    def test_ctrl_c_before_the_program_reads_costs_no_document(self):
        self.plan(connected=self.path("never"))
        documents = iter([{"id": 1}])

        def watch():
            self.await_files("record.args")
            interrupt()

        watcher = threading.Thread(target=watch)
        watcher.start()
        with self.assertRaisesRegex(ms.Interrupted, "nothing was committed"):
            self.load(documents)
        watcher.join()
        self.assertEqual(next(documents), {"id": 1})

    def test_the_words_of_an_interrupt_count_right(self):
        for count, says in [(1, "1 document is committed"), (1_500, "1,500 documents are committed")]:
            self.plan()

            def documents():
                yield from ({"id": n} for n in range(count))
                raise KeyboardInterrupt

            with self.assertRaisesRegex(ms.Interrupted, says):
                self.load(documents())

    def test_ctrl_c_while_the_pipe_is_full_sends_nothing_twice(self):
        # The program reads only when the signal has come. Long documents: one does not fit into the pipe.
        for size in [10, 3_000_000]:
            for name in [None, "s"]:
                with self.subTest(size=size, name=name):
                    (self.folder / "go").unlink(missing_ok=True)
                    self.plan(go=self.path("go"))
                    given = []

                    def documents():
                        while True:
                            given.append(len(given))
                            yield {"id": given[-1], "x": "x" * size}

                    def watch():
                        before = -1
                        while before != len(given) or not given:
                            before = len(given)
                            time.sleep(0.2)
                        interrupt()
                        (self.folder / "go").touch()

                    watcher = threading.Thread(target=watch)
                    watcher.start()
                    with self.assertRaises(ms.Interrupted) as caught:
                        self.load(documents(), name=name)
                    watcher.join()
                    sent = [document["id"] for document in self.documents()]
                    self.assertEqual(sent, list(range(len(sent))))
                    self.assertIn(len(sent), [len(given), len(given) - 1])
                    self.assertEqual(caught.exception.receipt.read, len(sent))

    def test_an_exception_at_any_moment_loses_and_repeats_nothing(self):
        def handler(number, frame):
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, handler)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        for round in range(12):
            self.plan()
            self.record.unlink(missing_ok=True)
            given = []

            def documents():
                while True:
                    if round % 3 == 2 and given[-1:] == [999]:
                        # So long that the thread takes what there is.
                        time.sleep(0.3)
                    given.append(len(given))
                    yield {"id": given[-1], "x": "x" * (2_000 if round % 2 else 5)}

            # The moment is what differs; any will do.
            signal.setitimer(signal.ITIMER_REAL, random.uniform(0.1, 0.7))
            with self.assertRaises(KeyboardInterrupt) as caught:
                self.load(documents(), name="s" if round % 4 < 2 else None)
            receipt = ms.receipt_of(caught.exception)
            sent = [document["id"] for document in self.documents()] if self.record.exists() else []
            self.assertEqual(sent, list(range(len(sent))))
            if receipt is not None:
                self.assertEqual(receipt.read, len(sent))
                self.assertIn(len(sent), [len(given), len(given) - 1])

    def test_ctrl_c_ends_a_load_of_files(self):
        self.plan(started=self.path("started"), end=self.path("never"))

        def watch():
            while not os.path.exists(self.path("started")):
                time.sleep(0.01)
            interrupt()

        watcher = threading.Thread(target=watch)
        watcher.start()
        with self.assertRaises(ms.Interrupted) as caught:
            self.load("file")
        watcher.join()
        self.assertFalse(caught.exception.receipt.finished)

    def test_a_second_ctrl_c_ends_a_program_that_does_not_listen(self):
        self.plan(deaf=True, read=self.path("read"), end=self.path("never"))

        def documents():
            yield {"id": 1}
            interrupt()
            yield {"id": 2}

        def watch():
            # After the first one the call closes the input, and waits for the end. Two that come at once are one.
            self.await_files("read")
            interrupt()

        watcher = threading.Thread(target=watch)
        watcher.start()
        with self.assertRaises(KeyboardInterrupt):
            self.load(documents())
        watcher.join()

    def test_ctrl_c_reaches_the_program_through_python_alone(self):
        self.plan()
        self.load([{"id": 1}])
        self.plan(started=self.path("started"), end=self.path("never"))
        script = "import millstream as ms\ntry: ms.load('f', into='t', key='id')\nexcept ms.Interrupted as e: print(e.receipt.read if e.receipt else 0)"
        python = self.python(script)
        self.await_files("started")
        # As a terminal and a notebook do it: to the whole group.
        os.killpg(python.pid, signal.SIGINT)
        self.assertEqual(python.communicate()[0], b"0\n")

    def python(self, script):
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
        command = [sys.executable, "-c", textwrap.dedent(script)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, start_new_session=True)

    def test_a_killed_python_leaves_no_process_and_no_end(self):
        for name in [None, "s"]:
            self.plan()
            self.record.unlink(missing_ok=True)
            python = self.python(f"""
                import millstream as ms, os, time
                def documents():
                    yield {{"id": 1}}
                    while not os.path.exists({str(self.record)!r}) or b'"id":1' not in open({str(self.record)!r}, "rb").read():
                        time.sleep(0.01)
                    os.kill(os.getpid(), 9)
                ms.load(documents(), into="t", key="id", name={name!r})
            """)
            self.assertEqual(python.wait(), -9)
            python.stdout.close()
            pid = self.called()["pid"]
            while self.runs(pid):
                time.sleep(0.01)
            data = self.record.read_bytes()
            self.assertIn(b'{"id":1}\n', data)
            if name:
                stream = zlib.decompressobj(31)
                stream.decompress(data)
                self.assertFalse(stream.eof)


def load_in_process(count):
    receipt = ms.load(({"id": n} for n in range(count)), into="t", key="id")
    return receipt


def fail_in_process(_):
    ms.load("absent", into="t", key="id")


class Processes(Place):
    def test_worker_processes_load(self):
        for method in ["fork", "spawn"]:
            self.plan(record=None)
            with multiprocessing.get_context(method).Pool(2) as pool:
                receipts = pool.map(load_in_process, [10, 2_000])
                self.assertEqual([receipt.read for receipt in receipts], [10, 2_000])
                os.environ["FAKE"] = "{}"
            self.plan(record=None, error={"error": "no", "code": 2, "hint": "h"})
            with multiprocessing.get_context(method).Pool(1) as pool:
                with self.assertRaises(ms.Error) as caught:
                    pool.map(fail_in_process, [1])
                self.assertEqual((caught.exception.message, caught.exception.hint), ("no", "h"))
        # `multiprocessing` keeps files of its own.
        self.files = None

    def test_a_process_forked_during_a_load_does_not_hold_it(self):
        self.plan()
        forked = []

        def documents():
            yield {"id": 1}
            pid = os.fork()
            if pid == 0:
                signal.pause()
                os._exit(0)
            forked.append(pid)
            yield {"id": 2}

        try:
            self.assertEqual(self.load(documents()).read, 2)
        finally:
            for pid in forked:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)

    def test_a_forked_process_that_ends_leaves_the_load_alone(self):
        self.plan()

        def documents():
            yield {"id": 1}
            pid = os.fork()
            if pid == 0:
                raise SystemExit(0)
            os.waitpid(pid, 0)
            yield {"id": 2}

        owner = os.getpid()
        try:
            receipt = self.load(documents())
        except BaseException:
            if os.getpid() != owner:
                os._exit(0)
            raise
        self.assertEqual(receipt.read, 2)


if __name__ == "__main__":
    unittest.main()
