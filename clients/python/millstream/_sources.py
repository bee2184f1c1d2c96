"""What a call loads: paths, which the program reads; documents; a data frame."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Protocol

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

    def feed(self, child: Child, look: Look) -> None:
        """Sends all of it, unless the program reads no more."""

    def rest(self, child: Child, look: Look) -> None:
        """After an exception: sends what was taken and not sent."""


#: Bytes that a piece should have. Documents that are suddenly longer make a longer one.
PIECE_BYTES = 1 << 18
#: Most documents of a piece.
PIECE_DOCUMENTS_MAX = 4096
#: Collecting a piece should not take longer, so that a slow iterable is loaded as it comes.
PIECE_S = 0.2


class Paths:
    """Files, which the program reads itself."""

    def __init__(self, paths: Iterable[Any]) -> None:
        self.feeds = False
        self.format: str | None = None
        self.names = [_path(path) for path in paths]

    def feed(self, child: Child, look: Look) -> None:
        """The program reads the files."""

    def rest(self, child: Child, look: Look) -> None:
        """There is nothing left to send."""


class Documents:
    """Documents of an iterable, sent as lines.

    With a name, the lines are sent in a frame of gzip without compression. So a stream that breaks off, because this
    process was killed or the iterable raised, is known to have no end, and its load can be resumed.
    """

    def __init__(self, documents: Iterator[Any], *, framed: bool) -> None:
        self.feeds = True
        self.format: str | None = "ndjson"
        self.names = ["-"]
        self._documents = documents
        # The documents that are not known to be handed over, and the number of their piece. Together in one place, so
        # that no exception can come between them.
        self._open: tuple[int, list[Any]] = (1, [])
        self._frame = Frame() if framed else None
        self._first = 0

    def feed(self, child: Child, look: Look) -> None:
        """Sends all documents, unless the program reads no more."""
        count = 1
        self._begin(child, look)
        while True:
            number, documents = self._open
            begun = time.monotonic()
            # Whatever raises, what the iterable has given stands in the list.
            documents.extend(islice(self._documents, count - len(documents)))
            seconds = time.monotonic() - begun
            look()
            if not documents:
                break
            size, alive = self._send(child, number, documents, look)
            has_ended = len(documents) < count
            self._first += len(documents)
            self._open = (number + 1, [])
            if not alive:
                return
            if has_ended:
                break
            wanted = count * 2 if seconds < PIECE_S / 2 else int(count * PIECE_S / seconds)
            count = max(1, min(wanted, PIECE_BYTES * count // max(size, 1), PIECE_DOCUMENTS_MAX))
        number, _ = self._open
        if self._frame is not None:
            child.send(number, self._frame.end(), look)
        child.close_input()

    def rest(self, child: Child, look: Look) -> None:
        """Sends what the iterable has given before it raised, and leaves the frame without its end."""
        self._begin(child, look)
        number, documents = self._open
        if documents:
            self._send(child, number, documents, look)
        child.close_input()

    def _begin(self, child: Child, look: Look) -> None:
        # Before the first document: a stream that breaks off there must not look like an empty one.
        if self._frame is not None:
            child.send(0, HEADER, look)

    def _send(self, child: Child, number: int, documents: list[Any], look: Look) -> tuple[int, bool]:
        unwritable: Unwritable | None = None
        try:
            text = lines(documents)
        except Unwritable as error:
            unwritable = error
            text = lines(documents[: error.at]) if error.at else b""
        alive = child.reads
        if text:
            piece = text if self._frame is None else self._frame.piece(number, text)
            alive = child.send(number, piece, look)
        if unwritable is not None:
            at = self._first + unwritable.at
            # It is not to be sent again when the load ends for it.
            self._open = (number + 1, [])
            raise Unwritable(f"document {at + 1}: {unwritable}", at) from unwritable.__cause__
        return len(text), alive


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
    if isinstance(data, (str, os.PathLike)):
        return Paths([data])
    if isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError("bytes are neither a path nor a list of documents; for one document write [data]")
    if isinstance(data, Mapping):
        raise TypeError("a dict is one document; write [data]")
    if isinstance(data, (list, tuple)) and data and all(isinstance(one, (str, os.PathLike)) for one in data):
        return Paths(data)
    if hasattr(data, "__aiter__"):
        raise TypeError("an asynchronous iterable cannot be loaded; collect it in parts, or load in a thread")
    if not isinstance(data, Iterable):
        raise TypeError(f"cannot load data of type {type(data).__name__}; give paths, documents or a data frame")
    documents = iter(data)
    first = list(islice(documents, 1))
    if first and isinstance(first[0], os.PathLike):
        return Paths(chain(first, documents))
    return Documents(chain(first, documents), framed=named)


def _path(path: Any) -> str:
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"a path is a string or a Path, and not of type {type(path).__name__}")
    name = os.fsdecode(path)
    if name == "-":
        raise ValueError("standard input belongs to Python; load what you read from it, such as sys.stdin.buffer")
    text = name.strip()
    # A pattern may begin with a bracket.
    is_document = text.startswith("{") or (text.startswith("[") and text.endswith("]"))
    if is_document and not os.path.exists(name):
        raise ValueError("a string or a list of strings names files; for strings that are documents write iter([..])")
    return name
