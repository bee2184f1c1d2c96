"""The program as a child process.

One thread moves bytes between the pipes of the program and the caller. So no pipe is ever full while the other side
waits, and no exception of the caller, such as Ctrl-C, can come between a write and its count. What the caller hands
over has a number, and a number that was handed over before is dropped: after an exception, the caller hands over again
what it is not sure about. While the caller waits for its iterable, the thread takes what that has given so far.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import queue
import selectors
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, cast

from ._errors import Died, Error

#: Bytes that one call reads.
READ_BYTES = 1 << 16
#: Size of the pipe to the program, where the system allows it.
PIPE_BYTES = 1 << 20
#: Bytes kept of a line of stderr that does not end.
LINE_BYTES_MAX = 1 << 20
#: Messages and events kept.
NOTES_MAX = 100
#: Most seconds without a look whether the program still runs, and whether documents wait.
LOOK_S = 0.2
#: A piece should not be open longer, so that a slow iterable is loaded as it comes.
PIECE_S = 0.2
#: Longest wait for a program to say that it reads. Older ones do not say it.
READER_WAIT_S = 10
#: Events after which a program reads.
READS = ("reading", "started")
#: How long the program may take to end after each of two signals. It takes one that follows sooner for the same.
KILL_WAITS_S = (0.2, 2.0)

#: Gives the next piece and its number, if there is one.
Take = Callable[[], tuple[int, bytes] | None]

_DECODER = json.JSONDecoder()

#: Children of this process, by identity. A process that is forked off closes their pipes.
_living: dict[int, Child] = {}


class Child:
    """A running program."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], *, feeds: bool) -> None:
        self._owner = os.getpid()
        self._inbox: deque[tuple[int, bytes]] = deque()
        self._closing = False
        self._taken = -1
        # What the caller collects: it goes on while the gate has members, and the thread may take what there is.
        self._gate: list[None] = []
        self._take_open: Take | None = None
        self._opened = 0.0
        self._lock = threading.Lock()
        #: Number of the last piece that is in the pipe as a whole.
        self.written = -1
        #: Whether the program reads no more.
        self.refused = not feeds
        #: Whether the program has said that it reads.
        self.begun = False
        #: Whether the program has ended and all that it printed is here.
        self.ended = False
        #: What went wrong in moving bytes.
        self.problem: BaseException | None = None
        #: The last event with counts.
        self.progress: dict[str, Any] | None = None
        #: Other events that nobody has taken yet.
        self.events: deque[dict[str, Any]] = deque(maxlen=NOTES_MAX)
        self.notes: deque[str] = deque(maxlen=NOTES_MAX)
        self.error: dict[str, Any] | None = None
        self._stdout: list[bytes] = []
        self._line = b""
        self._tokens: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._wake_read, self._wake_write = os.pipe()
        try:
            for end in (self._wake_read, self._wake_write):
                os.set_blocking(end, False)
            # Of its own session: Ctrl-C in a terminal or a notebook reaches Python alone, which decides what to send first.
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE if feeds else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env=dict(environment),
                start_new_session=True,
            )
        except BaseException as error:
            self._close_wake()
            if isinstance(error, OSError) and error.errno == errno.E2BIG:
                hint = "name files by a pattern, or make several calls"
                raise Error("too many or too long names for one call", hint=hint) from None
            raise
        _living[id(self)] = self
        self._thread = threading.Thread(target=self._run, name="millstream", daemon=True)
        try:
            for pipe in self._pipes():
                os.set_blocking(pipe.fileno(), False)
            self._thread.start()
        except BaseException:
            self._process.kill()
            self._process.wait()
            self._forget()
            self._close_wake()
            raise

    # What the caller does.

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def code(self) -> int:
        """The exit code; negative: the signal that killed it."""
        return -1 if self._process.returncode is None else self._process.returncode

    def wait_for_reader(self, look: Callable[[], None]) -> None:
        """Waits until the program reads, or has ended. What it cannot do before it reads costs the caller no document."""
        latest = time.monotonic() + READER_WAIT_S
        while self.reads and not self.begun and time.monotonic() < latest:
            self.tick()
            look()

    def send(self, number: int, piece: bytes, look: Callable[[], None]) -> bool:
        """Hands over a piece, and waits until the one before is in the pipe. False: the program reads no more."""
        self._inbox.append((number, piece))
        self._wake()
        while self.written < number - 1 and self.reads:
            self.tick()
            look()
        return self.reads

    def lend(self, gate: list[None], take: Take) -> None:
        """Lets the thread take what the caller collects, when that lasts, and call the caller back by emptying the gate."""
        self._opened = time.monotonic()
        self._gate, self._take_open = gate, take
        if not self.reads:
            gate.clear()

    def take_back(self) -> None:
        """What the caller has collected is its own again."""
        with self._lock:
            self._take_open = None

    @property
    def reads(self) -> bool:
        """Whether the program may read more."""
        return not self.refused and not self.ended

    def close_input(self) -> None:
        """Ends the input after what was handed over."""
        self._closing = True
        self._wake()

    def wait(self, look: Callable[[], None]) -> None:
        """Waits for the end of the program."""
        while not self.ended:
            self.tick()
            look()
        self._join()

    def tick(self) -> None:
        """Waits until something has happened, for a moment at most."""
        try:
            self._tokens.get(timeout=LOOK_S)
        except queue.Empty:
            pass

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal, unless the program has ended."""
        if os.getpid() == self._owner:
            self._process.send_signal(number)

    def kill(self) -> None:
        """Ends the program if it runs, and the thread. Does nothing in a process that was forked off.

        Two signals let the program cancel what its sessions do. A program that does not listen is killed.
        """
        if os.getpid() != self._owner:
            return
        try:
            for wait_s in KILL_WAITS_S:
                if not self.ended:
                    self._process.send_signal(signal.SIGINT)
                    self._thread.join(wait_s)
        finally:
            if not self.ended:
                self._process.kill()
                self._wake()
            self._join()

    def values(self, decoder: json.JSONDecoder = _DECODER) -> list[Any]:
        """The JSON values on stdout."""
        values: list[Any] = []
        try:
            text, at = b"".join(self._stdout).decode(), 0
            while text[at:].strip():
                at += len(text[at:]) - len(text[at:].lstrip())
                value, at = decoder.raw_decode(text, at)
                values.append(value)
        except ValueError as error:
            raise self.died() from error
        return values

    def died(self) -> Error:
        """The exception for an end without an answer."""
        code = self.code
        if code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = str(-code)
            message = f"the program was killed by {name}"
        else:
            message = f"the program ended with exit code {code} and without an answer"
        causes = tuple(list(self.notes)[-3:])
        return Died(message, causes=causes, hint="what it committed stays", code=code)

    # What the thread does.

    def _run(self) -> None:
        try:
            self._move()
        except BaseException as error:  # The caller raises it.
            self.problem = error
            self._process.kill()
        finally:
            # Without its pipes the program ends, if it has not.
            self._forget()
            self._process.wait()
            self.refused = self.ended = True
            self._gate.clear()
            self._tokens.put(None)

    def _move(self) -> None:
        stdin, stdout, stderr = self._process.stdin, self._process.stdout, self._process.stderr
        assert stdout is not None and stderr is not None
        if stdin is not None:
            _enlarge(stdin.fileno())
        with selectors.DefaultSelector() as selector:
            for source in (stdout, stderr, self._wake_read):
                selector.register(source, selectors.EVENT_READ)
            reading, piece, number, is_waiting = 2, memoryview(b""), -1, False
            while reading:
                while stdin is not None and not is_waiting:
                    if not piece:
                        # Order matters: what is handed over before the input is closed must not be missed.
                        is_closing = self._closing
                        taken = self._take()
                        if taken is None:
                            if is_closing:
                                stdin.close()
                                stdin = None
                            break
                        number, piece = taken[0], memoryview(taken[1])
                    try:
                        piece = piece[os.write(stdin.fileno(), piece) :]
                    except BlockingIOError:
                        selector.register(stdin, selectors.EVENT_WRITE)
                        is_waiting = True
                    except OSError:
                        stdin.close()
                        stdin = None
                        self.refused = True
                        self._call()
                    else:
                        if not piece:
                            self.written = number
                            self._token()
                ready = selector.select(LOOK_S)
                if time.monotonic() - self._opened >= PIECE_S:
                    self._gate.clear()
                has_ended = self._process.poll() is not None
                for key, _ in ready:
                    if key.fileobj is stdin and stdin is not None:
                        selector.unregister(stdin)
                        is_waiting = False
                    elif key.fileobj == self._wake_read:
                        _drain(self._wake_read, None)
                if has_ended and stdin is not None:
                    if is_waiting:
                        selector.unregister(stdin)
                    stdin.close()
                    stdin = None
                    self.refused = True
                    self._call()
                for pipe in (stdout, stderr):
                    take = self._stdout.append if pipe is stdout else self._read_stderr
                    if pipe.closed:
                        continue
                    # A process that the program has left may hold the pipe: then it has no end.
                    if not _drain(pipe.fileno(), take) or has_ended:
                        selector.unregister(pipe)
                        pipe.close()
                        reading -= 1

    def _take(self) -> tuple[int, bytes] | None:
        """The next piece that was not taken before, or what the caller has collected so far."""
        while True:
            while self._inbox:
                number, piece = self._inbox.popleft()
                if number > self._taken:
                    self._taken = number
                    return number, piece
            with self._lock:
                if self._inbox:
                    # It came before what the caller collects now.
                    continue
                if self._take_open is None or time.monotonic() - self._opened < PIECE_S:
                    return None
                self._opened = time.monotonic()
                self._gate.clear()
                taken = self._take_open()
                if taken is not None:
                    self._taken = taken[0]
                return taken

    def _read_stderr(self, data: bytes) -> None:
        *lines, rest = (self._line + data).split(b"\n")
        self._line = rest[-LINE_BYTES_MAX:]
        for line in lines:
            self._read_line(line)
        self._call()

    def _read_line(self, line: bytes) -> None:
        try:
            found: Any = json.loads(line)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            self.notes.append(line.decode(errors="replace"))
            return
        report = cast("dict[str, Any]", found)
        if "error" in report and "event" not in report:
            self.error = report
        elif report.get("event") == "progress":
            self.progress = report
        else:
            self.begun = self.begun or report.get("event") in READS
            if report.get("event") in ("note", "warning"):
                self.notes.append(str(report.get("text")))
            self.events.append(report)

    def _call(self) -> None:
        """Something has happened at which the caller should look."""
        self._gate.clear()
        self._token()

    def _token(self) -> None:
        if self._tokens.empty():
            self._tokens.put(None)

    def _wake(self) -> None:
        try:
            os.write(self._wake_write, b".")
        except OSError:
            # It is full, and so wakes anyway; or the thread has ended.
            pass

    def _pipes(self) -> list[IO[bytes]]:
        pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        return [pipe for pipe in pipes if pipe is not None and not pipe.closed]

    def _close_wake(self) -> None:
        ends, self._wake_read, self._wake_write = (self._wake_read, self._wake_write), -1, -1
        for end in ends:
            if end >= 0:
                os.close(end)

    def _join(self) -> None:
        self._thread.join()
        # Not before: a number of a file that is closed may soon be that of another one.
        self._close_wake()

    def _forget(self) -> None:
        """Closes the pipes of the program."""
        _living.pop(id(self), None)
        for pipe in self._pipes():
            pipe.close()

    def forget_in_fork(self) -> None:
        """In a process that was forked off: closes the pipes, so that the program sees their end when its own caller
        closes them."""
        self._forget()
        self._close_wake()
        # So that nothing here waits for a thread that is not there, or for a process that is no child.
        self._lock, self._take_open = threading.Lock(), None
        self.refused = self.ended = True
        self._gate.clear()
        self._process.returncode = 0


def _drain(pipe: int, take: Callable[[bytes], None] | None) -> bool:
    """Reads what is there. False: the pipe has ended."""
    while True:
        try:
            data = os.read(pipe, READ_BYTES)
        except BlockingIOError:
            return True
        if not data:
            return False
        if take is not None:
            take(data)


def _enlarge(pipe: int) -> None:
    try:
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    except (OSError, AttributeError):
        # Users have a limit, and a small pipe works too.
        pass


def _forked() -> None:
    for child in list(_living.values()):
        child.forget_in_fork()


os.register_at_fork(after_in_child=_forked)
