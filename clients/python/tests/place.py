"""What the tests share: a place with a fake program, and a look at what is left."""

import json
import os
import pathlib
import shlex
import signal
import sys
import tempfile
import threading
import time
import unittest
import zlib

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import millstream as ms  # noqa: E402

# In the background of a shell it is ignored, and what ignores it cannot be interrupted.
signal.signal(signal.SIGINT, signal.default_int_handler)


class Place(unittest.TestCase):
    """A directory, in which the program is a fake."""

    version = ms.__version__

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.record = self.folder / "record"
        program = self.folder / "millstream"
        words = shlex.join([sys.executable, "-S", "-E", str(HERE / "fake_program.py")])
        version = f'[ "$1" = --version ] && exec echo millstream {self.version}'
        program.write_text(f'#!/bin/sh\n{version}\nexec {words} "$@"\n')
        program.chmod(0o755)
        for name, value in {"MILLSTREAM_PROGRAM": str(program), "FAKE": None, "MILLSTREAM_DB": None}.items():
            self.set(name, value)
        self.threads, self.files = threading.active_count(), self.open_files()
        self.addCleanup(self.nothing_is_left)

    def set(self, name, value):
        before = os.environ.get(name)
        self.addCleanup(lambda: os.environ.update({name: before}) if before is not None else os.environ.pop(name, None))
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value

    def plan(self, **plan):
        os.environ["FAKE"] = json.dumps({"record": str(self.record), **plan})

    def load(self, data, **options):
        return ms.load(data, into="t", key="id", **options)

    def path(self, name):
        return str(self.folder / name)

    def sent(self):
        """What the program has read, without its frame."""
        data = self.record.read_bytes()
        return zlib.decompressobj(31).decompress(data) if data[:2] == b"\x1f\x8b" else data

    def documents(self):
        return [json.loads(line) for line in self.sent().splitlines()]

    def called(self):
        return json.loads((self.folder / "record.args").read_text())

    def await_files(self, *names):
        while not all(os.path.exists(self.path(name)) for name in names):
            time.sleep(0.01)

    @staticmethod
    def open_files():
        return len(os.listdir("/proc/self/fd"))

    @staticmethod
    def runs(pid):
        try:
            state = pathlib.Path(f"/proc/{pid}/stat").read_bytes().rsplit(b")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            # The second one comes if it ends between the open and the read.
            return False
        return state != b"Z"

    def nothing_is_left(self):
        """No thread, no open file and no process."""
        self.assertEqual(threading.active_count(), self.threads, threading.enumerate())
        if self.files is not None:
            self.assertEqual(self.open_files(), self.files)
        if (self.folder / "record.args").exists():
            self.assertFalse(self.runs(self.called()["pid"]), "the program still runs")


def interrupt(pid=None):
    os.kill(os.getpid() if pid is None else pid, signal.SIGINT)
