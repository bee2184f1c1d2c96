"""Documents become the same JSON with `orjson` and without."""

import datetime
import decimal
import enum
import importlib.util
import json
import unittest
import uuid
from collections import OrderedDict, UserDict, namedtuple
from dataclasses import dataclass
from unittest import mock

from place import ms  # noqa: F401

from millstream import _json


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Row:
    id: int
    at: datetime.date


@dataclass
class Point:
    x: float


class NAType:
    """As pandas spells a missing value."""


class NaT(datetime.datetime):
    """As pandas spells a missing time."""

    def __eq__(self, other):
        return False

    __hash__ = None


class Scalar:
    """As numpy spells a number."""

    dtype = "int64"

    def tolist(self):
        return 5


Pair = namedtuple("Pair", "a b")
UTC = datetime.timezone.utc
DIGITS = decimal.Decimal("0.1234567890123456789")

CASES = [
    ({"id": 1, "name": "ä\u2028\n\0"}, {"id": 1, "name": "ä\u2028\n\0"}),
    ({"a": float("nan"), "b": [float("inf"), 1.5]}, {"a": None, "b": [None, 1.5]}),
    ({"a": 2**70, "b": -(2**70)}, {"a": 2**70, "b": -(2**70)}),
    ({1: "a", 2.5: "b", True: "c", None: "d"}, {"1": "c", "2.5": "b", "null": "d"}),
    ({1: float("nan")}, {"1": None}),
    ({"a": Point(float("nan")), "b": [UserDict(c=float("inf"))]}, {"a": {"x": None}, "b": [{"c": None}]}),
    ({"a": 2**70, "b": Point(float("nan"))}, {"a": 2**70, "b": {"x": None}}),
    ({"a": datetime.datetime(2026, 1, 2, 3, 4, 5, 6, UTC)}, {"a": "2026-01-02T03:04:05.000006+00:00"}),
    ({"a": datetime.date(2026, 1, 2), "b": datetime.time(3, 4)}, {"a": "2026-01-02", "b": "03:04:00"}),
    ({"a": decimal.Decimal("1.50"), "b": decimal.Decimal("NaN"), "c": decimal.Decimal("1e3")}, {"a": 1.5, "b": None, "c": 1000}),
    ({1: decimal.Decimal("1.5")}, {"1": 1.5}),
    ({"a": uuid.UUID(int=5)}, {"a": "00000000-0000-0000-0000-000000000005"}),
    ({"a": Colour.RED, "b": Pair(1, 2), "c": (3,)}, {"a": "red", "b": [1, 2], "c": [3]}),
    ({"a": Scalar(), "b": NAType(), "c": NaT(2026, 1, 1)}, {"a": 5, "b": None, "c": None}),
    ({"a": UserDict(b=1), "c": Row(1, datetime.date(2026, 1, 2))}, {"a": {"b": 1}, "c": {"id": 1, "at": "2026-01-02"}}),
    (OrderedDict(a=1), {"a": 1}),
    (UserDict(a=1), {"a": 1}),
    (Row(1, datetime.date(2026, 1, 2)), {"id": 1, "at": "2026-01-02"}),
    ({"a": "\ud800"}, {"a": "\ud800"}),
]


class Json(unittest.TestCase):
    def check(self):
        for document, expected in CASES:
            with self.subTest(document=document):
                # Alone, and beside another of its kind and one of another.
                for documents in [[document], [document, {"x": 1}], [document, b"{}"]]:
                    text = _json.lines(documents)
                    self.assertEqual((text.count(b"\n"), text[-1:]), (len(documents), b"\n"))
                    self.assertEqual(json.loads(text.split(b"\n")[0]), expected)
        for bad in [{"a": object()}, {object(): 1}, 5, None, [1]]:
            with self.assertRaises(_json.Unwritable) as caught:
                _json.lines([{"id": 1}, bad, {"id": 2}])
            self.assertEqual(caught.exception.at, 1)
        deep: dict = {}
        for _ in range(100_000):
            deep = {"a": deep}
        with self.assertRaises(_json.Unwritable):
            _json.lines([deep])

    def test_the_standard_library_writes_them(self):
        with mock.patch.multiple(_json, _orjson=None, _dump=_json._encode_bytes):
            self.check()
            with self.assertRaisesRegex(_json.Unwritable, "more digits than a float"):
                _json.lines([{"a": DIGITS}])

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
    def test_times_of_numpy_are_no_numbers(self):
        import numpy

        for unit in ["s", "us", "ns"]:
            times = numpy.array(["2026-01-02T03:04:05", "NaT"], dtype=f"datetime64[{unit}]")
            expected = ["2026-01-02T03:04:05", None]
            for value in [times, list(times)]:
                self.assertEqual(json.loads(_json.lines([{"a": value}])), {"a": expected})
            with self.assertRaisesRegex(_json.Unwritable, "timedelta is no type"):
                _json.lines([{"a": times[0] - times[0]}])
        with self.assertRaisesRegex(_json.Unwritable, "more digits than datetime"):
            _json.lines([{"a": numpy.datetime64("2026-01-02T03:04:05.000000001")}])

    @unittest.skipIf(_json._orjson is None, "orjson is not installed")
    def test_orjson_writes_them(self):
        self.check()
        if hasattr(_json._orjson, "Fragment"):
            self.assertEqual(_json.lines([{"a": DIGITS}]), b'{"a":0.1234567890123456789}\n')


if __name__ == "__main__":
    unittest.main()
