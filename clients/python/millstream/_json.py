"""Documents as lines of JSON, the same with and without `orjson`."""

from __future__ import annotations

import datetime
import decimal
import enum
import functools
import importlib
import json
import json.encoder
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, is_dataclass
from operator import methodcaller
from typing import Any, cast

try:
    _orjson: Any = importlib.import_module("orjson")
except ImportError:
    _orjson = None


class Unwritable(TypeError):
    """A document that cannot be written as JSON."""

    def __init__(self, message: str, at: int = 0) -> None:
        super().__init__(message)
        #: Its place among the documents that were to be written.
        self.at = at


def lines(documents: list[Any]) -> bytes:
    """Documents as lines: dicts and what is like them as JSON, strings and bytes as they are.

    An empty string is an empty line, which the program skips and counts: so the number of a line is that of a document.
    """
    kinds = set(map(type, documents))
    try:
        if kinds == {dict}:
            return b"\n".join(map(_dump, documents)) + b"\n"
        if kinds == {bytes}:
            return _joined(documents)
        if kinds == {str}:
            return _joined([text.encode() for text in documents])
    except (TypeError, ValueError, RecursionError):
        # One by one, to find it, or because only the slow way writes it.
        pass
    written: list[bytes] = []
    for at, document in enumerate(documents):
        try:
            written.append(_line(document))
        except (TypeError, ValueError, RecursionError) as error:
            raise Unwritable(f"the document cannot be written as JSON: {error}", at) from error
    return b"\n".join(written) + b"\n"


def _joined(documents: list[bytes]) -> bytes:
    """Documents that are bytes, as lines."""
    text = b"\n".join(documents)
    if b"\r" not in text:
        if text.count(b"\n") == len(documents) - 1:
            return text + b"\n"
        text = b"".join(documents)
        if text.count(b"\n") == len(documents) and all(map(methodcaller("endswith", b"\n"), documents)):
            return text
    return b"\n".join(map(_one_line, documents)) + b"\n"


#: Both ends of lines become tabs: all three are blanks of JSON, and none may stand in a string.
_ENDS = bytes.maketrans(b"\r\n", b"\t\t")


def _one_line(document: bytes) -> bytes:
    """A document without ends of lines. A carriage return alone may end a line, too."""
    return document.strip(b" \t\r\n").translate(_ENDS)


def _line(document: Any) -> bytes:
    if isinstance(document, str):
        # What is no text becomes a reject.
        return _one_line(document.encode("utf-8", "surrogatepass"))
    if isinstance(document, (bytes, bytearray, memoryview)):
        return _one_line(bytes(cast("bytes", document)))
    if not isinstance(document, dict):
        document = _object(document)
    try:
        return _dump(document)
    except (TypeError, ValueError) as error:
        if _orjson is None and not isinstance(error, ValueError):
            raise
    # Integers of more than 64 bits, keys that are no strings, halves of characters: only the standard library writes
    # them. It does not write what is no number.
    return _encode(_without_nan(document)).encode()


def _object(document: Any) -> Any:
    """A row of a driver, a mapping or a dataclass as a dict."""
    if isinstance(document, Mapping) or hasattr(document, "keys"):
        pairs: Mapping[Any, Any] = cast(Any, document)
        return dict(pairs)
    if is_dataclass(document) and not isinstance(document, type):
        return asdict(document)
    name = type(document).__name__
    if hasattr(document, "__fspath__"):
        raise TypeError("a path is no document; give paths as a list")
    raise TypeError(f"a document is a dict, a string or bytes, and not of type {name}")


def _plain(value: Any) -> Any:
    """A value of a type that JSON lacks."""
    if isinstance(value, decimal.Decimal):
        return _number(value)
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        # NaT of pandas is a time that equals nothing.
        return value.isoformat() if value == value else None
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, enum.Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        pairs: Mapping[Any, Any] = cast(Any, value)
        return dict(pairs)
    # A value or an array of numpy.
    if hasattr(value, "dtype") and hasattr(value, "tolist"):
        return _of_numpy(value)
    if type(value).__name__ == "NAType":
        return None
    raise TypeError(f"{type(value).__name__} is no type of JSON")


def _of_numpy(value: Any) -> Any:
    """A value or an array of numpy, which makes bare numbers of times in nanoseconds."""
    kind = str(value.dtype)
    if kind not in ("datetime64[ns]", "timedelta64[ns]") or type(value).__module__ != "numpy":
        return value.tolist()
    shorter = value.astype(kind.replace("[ns]", "[us]"))
    # NaT equals nothing.
    if not ((shorter == value) | (value != value)).all():
        raise TypeError(f"{kind} {value} has more digits than datetime; make it a string")
    return shorter.tolist()


def _number(value: decimal.Decimal) -> Any:
    """A number with all its digits."""
    if _orjson is not None and hasattr(_orjson, "Fragment") and value.is_finite():
        return _orjson.Fragment(format(value, "f"))
    return _equal(value)


def _equal(value: decimal.Decimal) -> Any:
    """An integer or a float that equals the number."""
    if not value.is_finite():
        return None
    if value == value.to_integral_value():
        return int(value)
    near = float(value)
    if decimal.Decimal(repr(near)) == value:
        return near
    raise TypeError(f"Decimal {value} has more digits than a float; install orjson, or make it a string")


def _without_nan(value: Any) -> Any:
    """The value with null for what is no number, as orjson writes it."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        members: dict[Any, Any] = cast(Any, value)
        return {name: _without_nan(member) for name, member in members.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(member) for member in cast("list[Any]", value)]
    if isinstance(value, decimal.Decimal):
        return _equal(value)
    if value is None or isinstance(value, (str, int)):
        return value
    # It may hold such a number, too.
    return _without_nan(_plain(value))


def _encoder() -> Callable[[Any], str]:
    """The standard library's encoder.

    Its `encode` makes an inner encoder for each document, which takes a third of the time. So one is made here, where this
    version of the library has it and it writes the same. A document that holds itself is a RecursionError then.
    """
    slow = json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=_plain).encode
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    try:
        inner = make(None, _plain, json.encoder.encode_basestring_ascii, None, ":", ",", False, False, False)
        join = "".join

        def fast(document: Any) -> str:
            return join(inner(document, 0))

        sample = {"a": [1, 1.5, None, True, "\u00e9\n", {}, []], 1: uuid.UUID(int=0)}
        if fast(sample) == slow(sample):
            return fast
    except Exception:  # It is not a part of the library that others may rely on.
        pass
    return slow


_encode: Callable[[Any], str] = _encoder()


def _encode_bytes(document: Any) -> bytes:
    return _encode(document).encode()


_dump: Callable[[Any], bytes]
if _orjson is None:
    _dump = _encode_bytes
else:
    _dump = functools.partial(_orjson.dumps, default=_plain)
