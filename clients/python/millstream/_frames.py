"""Data frames, sent as an Arrow stream."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._errors import Error

if TYPE_CHECKING:
    from ._child import Child
    from ._sources import Look

#: Bytes that a batch should have. A wider row makes a larger one.
BATCH_BYTES = 1 << 22

#: What every message begins with, and the end of a stream. It is sent with the message before: a stream may end behind a
#: message without saying so, and one whose sender was killed there must not look as if it were whole.
BEGIN = b"\xff\xff\xff\xff"
#: The rest of the end.
END = b"\0\0\0\0"
#: The same of a message that has no end: a stream with a name that breaks off must not look whole either.
BROKEN = b"\x10"


def is_frame(data: Any) -> bool:
    """Whether it is a table of columns: of pandas, Polars, Arrow, DuckDB, or anything with an Arrow stream."""
    return hasattr(data, "__arrow_c_stream__") or _is_of(data, "pandas")


def _is_of(data: Any, library: str) -> bool:
    """Whether it is a frame of a library, or of a class that somebody has made from that."""
    kinds: list[type] = type(data).mro()
    return any(kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] == library for kind in kinds)


class Arrow:
    """A data frame. Its rows become documents, its columns their members."""

    def __init__(self, data: Any, *, named: bool, index: bool) -> None:
        self.feeds = True
        self.format: str | None = "arrow"
        self.names = ["-"]
        self._named = named
        try:
            self._arrow: Any = import_module("pyarrow")
        except ImportError as error:
            raise Error("a data frame needs pyarrow", hint="pip install pyarrow") from error
        self._reader = self._read(data, index)
        self._open: tuple[int, bytes] = (0, b"")

    def _read(self, data: Any, index: bool) -> Any:
        if _is_of(data, "pandas"):
            if index and None in data.index.names:
                raise ValueError("the index has no name, which its column needs; set df.index.name")
            if index and not set(data.index.names).isdisjoint(data.columns):
                raise ValueError("the index has the name of a column; rename one of them")
            # Without the index a range would be lost, and an index that was not asked for would be a column.
            table = self._arrow.Table.from_pandas(data, preserve_index=index)
            for column in table.schema:
                # They would arrive as bare numbers.
                if getattr(column.type, "extension_name", None) == "pandas.period":
                    raise TypeError(f"column {column.name!r} holds periods; make them strings, by .astype(str)")
            return table.to_reader()
        if index:
            raise TypeError("index=True is for data frames of pandas")
        if _is_of(data, "polars"):
            for name, kind in data.schema.items():
                # Polars would send the addresses of the objects.
                if str(kind) == "Object":
                    how = "make them strings, by .map_elements(str, return_dtype=pl.String)"
                    raise TypeError(f"column {name!r} holds objects of Python, such as UUIDs; {how}")
        if hasattr(data, "read_next_batch"):
            return data
        if isinstance(data, self._arrow.Table):
            # Its own stream does not take every type of column.
            return data.to_reader()
        return self._arrow.RecordBatchReader.from_stream(data)

    @property
    def taken(self) -> bool:
        """Whether a batch was taken."""
        number, piece = self._open
        return bool(number or piece)

    def feed(self, child: Child, look: Look) -> None:
        """Sends all batches, unless the program reads no more."""
        sink = _Parts()
        with self._arrow.ipc.new_stream(self._arrow.PythonFile(sink, mode="w"), self._reader.schema) as writer:
            for batch in self._reader:
                rows = max(1, BATCH_BYTES * batch.num_rows // max(batch.nbytes, 1))
                for at in range(0, batch.num_rows, rows):
                    writer.write_batch(batch.slice(at, rows))
                    # A batch is handed over as a whole or not at all.
                    if not self._send(child, sink, look):
                        return
        self._send(child, sink, look, is_last=True)
        child.close_input()

    def rest(self, child: Child, look: Look) -> None:
        """Sends the batch that is whole, and the end that fits."""
        number, piece = self._open
        if piece:
            child.send(number, piece, look)
        if self.taken:
            child.send(number + 1, BROKEN if self._named else END, look)
        child.close_input()

    def _send(self, child: Child, sink: _Parts, look: Look, *, is_last: bool = False) -> bool:
        number, _ = self._open
        piece = sink.take()
        self._open = (number, (piece[len(BEGIN) :] if number else piece) + (b"" if is_last else BEGIN))
        alive = child.send(number, self._open[1], look)
        look()
        self._open = (number + 1, b"")
        return alive


class _Parts:
    """A file in memory, which gives away what was written to it."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        return len(self._parts[-1])

    def take(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False
