"""What a call loads: paths, which the program reads; documents; a data frame."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from ._json import Unwritable, lines

if TYPE_CHECKING:
    from ._child import Child

Look = Callable[[], None]


class Source(Protocol):
    """What a call reads."""

    #: Whether it is sent to the program.
    feeds: bool
    #: The files, as the program is to be given them; `-` if it is sent.
    names: list[str]
    #: The format in which it is sent.
    format: str | None

    @property
    def taken(self) -> bool:
        """Whether something of what is sent was taken from the caller."""
        ...

    def feed(self, child: Child, look: Look) -> None:
        """Sends all of it, unless the program reads no more."""

    def rest(self, child: Child, look: Look) -> None:
        """After an exception: sends what was taken and not sent."""


#: Bytes that a piece should have. Documents that are suddenly longer make a longer one.
PIECE_BYTES = 1 << 18
#: Most documents of a piece.
PIECE_DOCUMENTS_MAX = 4096

#: Stands behind the last document.
_END: Any = object()

#: Returns its second argument. Nothing is faster.
_second: Callable[[None, Any], Any] = dict[None, Any]().get


class Paths:
    """Files, which the program reads itself."""

    def __init__(self, paths: Iterable[Any]) -> None:
        self.feeds = False
        self.format: str | None = None
        self.names = [_path(path) for path in paths]

    @property
    def taken(self) -> bool:
        """Nothing is sent."""
        return False

    def feed(self, child: Child, look: Look) -> None:
        """The program reads the files."""

    def rest(self, child: Child, look: Look) -> None:
        """There is nothing left to send."""


class Documents:
    """Documents of an iterable, sent as lines.

    With a name, the lines are sent in a frame of gzip without compression. So a stream that breaks off, because this
    process was killed or the iterable raised, is known to have no end, and its load can be resumed.
    """

    def __init__(self, documents: Iterable[Any], *, framed: bool) -> None:
        self.feeds = True
        self.format: str | None = "ndjson"
        self.names = ["-"]
        self._documents = chain(documents, [_END])
        self._open = _Open(1, [], 0, 0)
        # Whether the thread has found a document that cannot be written. The caller finds it, too, and says so.
        self._is_stuck = False
        self._frame = Frame() if framed else None

    @property
    def taken(self) -> bool:
        """Whether the iterable has given a document."""
        return self._open.number > 1 or bool(self._rest())

    def feed(self, child: Child, look: Look) -> None:
        """Sends all documents, unless the program reads no more."""
        count = 1
        self._begin(child, look)
        while True:
            gate: list[None] = [None] * count
            self._is_stuck = False
            child.lend(gate, self._take)
            # Whatever raises, what the iterable has given stands in the list.
            self._open.documents.extend(map(_second, gate, self._documents))
            child.take_back()
            look()
            has_ended = self._has_ended()
            sent, size, alive = self._send(child, look)
            if not alive:
                return
            if has_ended:
                break
            # With an empty gate, the thread has called before there were so many.
            wanted = count * 2 if gate else count
            if sent:
                wanted = min(wanted, PIECE_BYTES * sent // size)
            count = max(1, min(wanted, PIECE_DOCUMENTS_MAX))
        if self._frame is not None:
            child.send(self._open.number, self._frame.end(), look)
        child.close_input()

    def rest(self, child: Child, look: Look) -> None:
        """Sends what the iterable has given before it raised, and leaves the frame without its end."""
        child.take_back()
        self._begin(child, look)
        self._send(child, look)
        child.close_input()

    def _begin(self, child: Child, look: Look) -> None:
        # Before the first document: a stream that breaks off there must not look like an empty one.
        if self._frame is not None:
            child.send(0, HEADER, look)

    def _rest(self) -> list[Any]:
        """The open documents that nobody has taken."""
        documents = self._open.documents[self._open.taken :]
        if documents and documents[-1] is _END:
            documents.pop()
        return documents

    def _has_ended(self) -> bool:
        return bool(self._open.documents) and self._open.documents[-1] is _END

    def _piece(self, text: bytes) -> bytes:
        return text if self._frame is None else self._frame.piece(self._open.number, text)

    def _take(self) -> tuple[int, bytes] | None:
        """What the iterable has given so far: the thread takes it while the caller waits for more."""
        documents = [] if self._is_stuck else self._rest()
        try:
            text = lines(documents) if documents else b""
        except Exception as error:
            # One document may be changed while it is written, or cannot be written at all. Those before it can.
            self._is_stuck = True
            at = error.at if isinstance(error, Unwritable) else 0
            documents = documents[:at]
            text = lines(documents) if documents else b""
        if not documents:
            return None
        number, piece = self._open.number, self._piece(text)
        self._open = self._open.after(len(documents))
        return number, piece

    def _send(self, child: Child, look: Look) -> tuple[int, int, bool]:
        """Sends the open documents. Returns how many they are, their bytes, and whether the program reads more."""
        documents = self._rest()
        unwritable: Unwritable | None = None
        try:
            text = lines(documents) if documents else b""
        except Unwritable as error:
            unwritable = error
            text = lines(documents[: error.at]) if error.at else b""
        alive = child.reads
        if text:
            alive = child.send(self._open.number, self._piece(text), look)
        first = self._open.first + self._open.taken
        self._open = _Open(self._open.number + bool(text), [], 0, first + len(documents))
        if unwritable is not None:
            # It is not to be sent again when the load ends for it.
            at = first + unwritable.at
            raise Unwritable(f"document {at + 1}: {unwritable}", at) from unwritable.__cause__
        return len(documents), len(text), alive


class _Open(NamedTuple):
    """The documents that are not known to be handed over. Together in one place, so that no exception can come between."""

    #: The number of their piece.
    number: int
    documents: list[Any]
    #: How many of them the thread has taken.
    taken: int
    #: How many came before them.
    first: int

    def after(self, count: int) -> _Open:
        """The same when the thread has taken more."""
        return _Open(self.number + 1, self.documents, self.taken + count, self.first)


#: The magic number of gzip, and a header without name and time (RFC 1952, 2.3).
HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"


class Frame:
    """A gzip member without compression. A piece that is asked for again is the same."""

    def __init__(self) -> None:
        # The last piece with its number, and the checksum and the length of all texts. Together, because an exception may
        # come at any place.
        self._state: tuple[int, bytes, int, int] = (-1, b"", 0, 0)

    def piece(self, number: int, text: bytes) -> bytes:
        """The next text, as stored blocks (RFC 1951, 3.2.4)."""
        made, piece, check, length = self._state
        if made == number:
            return piece
        blocks: list[bytes] = []
        for at in range(0, len(text), 0xFFFF):
            block = text[at : at + 0xFFFF]
            size = len(block)
            blocks += [b"\0", size.to_bytes(2, "little"), (size ^ 0xFFFF).to_bytes(2, "little"), block]
        piece = b"".join(blocks)
        self._state = (number, piece, zlib.crc32(text, check), (length + len(text)) & 0xFFFFFFFF)
        return piece

    def end(self) -> bytes:
        """The last, empty block, the checksum and the length."""
        _, _, check, length = self._state
        return b"\x01\0\0\xff\xff" + check.to_bytes(4, "little") + length.to_bytes(4, "little")


def source_of(data: Any, *, named: bool, index: bool = False) -> Source:
    """What to load."""
    from ._frames import Arrow, is_frame

    if is_frame(data):
        return Arrow(data, named=named, index=index)
    if index:
        raise TypeError("index=True is for data frames of pandas")
    if _is_path(data):
        return Paths([data])
    if isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError("bytes are neither a path nor a list of documents; for one document write [data]")
    if isinstance(data, Mapping):
        raise TypeError("a dict is one document; write [data]")
    if _are_paths(data):
        return Paths(data)
    if hasattr(data, "__aiter__"):
        raise TypeError("an asynchronous iterable cannot be loaded; collect it in parts, or load in a thread")
    if not isinstance(data, Iterable):
        raise TypeError(f"cannot load data of type {type(data).__name__}; give paths, documents or a data frame")
    documents: Iterable[Any] = cast(Any, data)
    return Documents(documents, framed=named)


def _are_paths(value: Any) -> bool:
    if not isinstance(value, (list, tuple)):
        return False
    values: Sequence[Any] = cast(Any, value)
    return bool(values) and all(map(_is_path, values))


def _is_path(value: object) -> bool:
    return isinstance(value, (str, os.PathLike))


def _path(path: Any) -> str:
    if not _is_path(path):
        raise TypeError(f"a path is a string or a Path, and not of type {type(path).__name__}")
    name = os.fsdecode(path)
    if name == "-":
        raise ValueError("standard input belongs to Python; load what you read from it, such as sys.stdin.buffer")
    if name.startswith("kafka://"):
        raise ValueError(f"topics are for the command line: python -m millstream load {name} ..")
    text = name.strip()
    # A pattern may begin with a bracket.
    is_document = text.startswith("{") or (text.startswith("[") and text.endswith("]"))
    if is_document and not os.path.exists(name):
        raise ValueError("a string or a list of strings names files; for strings that are documents write iter([..])")
    return name
