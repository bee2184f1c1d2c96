import base64
import datetime as dt
import decimal
import json
import random
import re
import struct
import sys
import uuid

import fastavro

r = random.Random(7)
EPOCH = dt.datetime(1970, 1, 1)
UTC = dt.timezone.utc
decimal.getcontext().prec = 60


def nullable(described):
    return ["null", described]


def named(kind, name, **more):
    return {"type": kind, "name": name, **more}


def long(meaning):
    return {"type": "long", "logicalType": meaning}


TYPES = {
    "i32": "int",
    "i64": "long",
    "f32": "float",
    "f64": "double",
    "odd": "double",
    "bool": "boolean",
    "text": "string",
    "raw": "bytes",
    "fixed": named("fixed", "four", size=4),
    "enum": named("enum", "lab.Colour", symbols=["RED", "GREEN"]),
    "colours": {"type": "array", "items": "lab.Colour"},
    "date": {"type": "int", "logicalType": "date"},
    "time_millis": {"type": "int", "logicalType": "time-millis"},
    "time_micros": long("time-micros"),
    "at_millis": long("timestamp-millis"),
    "at_micros": long("timestamp-micros"),
    "at_nanos": long("timestamp-nanos"),
    "local_millis": long("local-timestamp-millis"),
    "local_micros": long("local-timestamp-micros"),
    "dec": {"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 4},
    "dec_fixed": named("fixed", "money", size=12, logicalType="decimal", precision=20, scale=2),
    "dec_whole": {"type": "bytes", "logicalType": "decimal", "precision": 9},
    "uuid": {"type": "string", "logicalType": "uuid"},
    "uuid_fixed": named("fixed", "identity", size=16, logicalType="uuid"),
    "span": named("fixed", "span", size=12, logicalType="duration"),
    "unknown": {"type": "int", "logicalType": "from-elsewhere"},
    "list": {"type": "array", "items": ["null", "int"]},
    "lists": {"type": "array", "items": {"type": "array", "items": "string"}},
    "map": {"type": "map", "values": ["null", "double"]},
    "record": named("record", "inner.Pair", fields=[{"name": "a", "type": nullable("int")}, {"name": "b", "type": "string"}]),
    "again": "inner.Pair",
    "none": "null",
}
SCHEMA = named(
    "record",
    "lab.Every",
    fields=[
        {"name": "id", "type": "long"},
        *({"name": name, "type": of if name == "none" else nullable(of)} for name, of in TYPES.items()),
        {"name": "union", "type": ["long", "null", "string", {"type": "array", "items": "boolean"}, "inner.Pair"]},
        {"name": "tree", "type": nullable(named("record", "Tree", fields=[
            {"name": "n", "type": "int"}, {"name": "children", "type": {"type": "array", "items": "Tree"}}]))},
    ],
)


def some(value):
    return None if r.random() < 0.2 else value()


def text(length=9):
    return "".join(r.choice('a"\\/\n\t\x01\x7f\u00e9\u2028\U0001f600') for _ in range(r.randint(0, length)))


def pair():
    return {"a": some(lambda: r.randint(0, 9)), "b": text()}


def tree(depth=0):
    return {"n": r.randint(0, 9), "children": [tree(depth + 1) for _ in range(r.randint(0, 3 - depth))]}


def moment(unit):
    return EPOCH + dt.timedelta(**{unit: r.randint(-(10**15), 10**15) // (1_000 if unit == "milliseconds" else 1)})


def number(digits, scale):
    return decimal.Decimal(r.randint(-(10**digits), 10**digits)).scaleb(-scale)


def clock(micros):
    return (EPOCH + dt.timedelta(microseconds=micros)).time()


MAKERS = {
    "i32": lambda: r.choice([r.randint(-(2**31), 2**31 - 1), -1, 0, 64]),
    "i64": lambda: r.choice([r.randint(-(2**63), 2**63 - 1), -(2**63), 2**63 - 1]),
    "f32": lambda: r.randint(-(10**6), 10**6) / 8,
    "f64": lambda: r.choice([r.uniform(-1e9, 1e9), 0.1, 1e300, 5e-324, -0.0]),
    "odd": lambda: r.choice([float("nan"), float("inf"), float("-inf")]),
    "bool": lambda: r.random() < 0.5,
    "text": text,
    "raw": lambda: r.randbytes(r.randint(0, 9)),
    "fixed": lambda: r.randbytes(4),
    "enum": lambda: r.choice(["RED", "GREEN"]),
    "colours": lambda: [r.choice(["RED", "GREEN"]) for _ in range(r.randint(0, 3))],
    "date": lambda: dt.date(1970, 1, 1) + dt.timedelta(r.randint(-20_000, 50_000)),
    "time_millis": lambda: clock(r.randint(0, 86_399_999) * 1_000),
    "time_micros": lambda: clock(r.randint(0, 86_399_999_999)),
    "at_millis": lambda: moment("milliseconds").replace(tzinfo=UTC),
    "at_micros": lambda: moment("microseconds").replace(tzinfo=UTC),
    "at_nanos": lambda: r.randint(-(10**18), 10**18),
    "local_millis": lambda: moment("milliseconds"),
    "local_micros": lambda: moment("microseconds"),
    "dec": lambda: number(r.choice([1, 4, 18, 38, 49]), 4),
    "dec_fixed": lambda: number(r.choice([1, 19]), 2),
    "dec_whole": lambda: number(8, 0),
    "uuid": lambda: uuid.UUID(int=r.getrandbits(128)),
    "uuid_fixed": lambda: r.randbytes(16),
    "span": lambda: struct.pack("<3I", *(r.randint(0, 2**32 - 1) for _ in range(3))),
    "unknown": lambda: r.randint(0, 9),
    "list": lambda: [some(lambda: r.randint(-9, 9)) for _ in range(r.randint(0, 200))],
    "lists": lambda: [[text() for _ in range(r.randint(0, 3))] for _ in range(r.randint(0, 3))],
    "map": lambda: {text(3): some(lambda: r.uniform(-9, 9)) for _ in range(r.randint(0, 3))},
    "record": pair,
    "again": pair,
    "none": lambda: None,
}


def record(n):
    return {
        "id": n,
        **{name: some(maker) for name, maker in MAKERS.items()},
        "union": some(lambda: r.choice([r.randint(0, 9), text(), [True, False], pair()])),
        "tree": some(tree),
    }


def nanoseconds(value):
    seconds, rest = divmod(value, 10**9)
    at = EPOCH + dt.timedelta(seconds=seconds)
    part = f"{rest // 1_000:06}" if rest % 1_000 == 0 else f"{rest:09}"
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + part + "Z"


def span(value):
    months, days, milliseconds = struct.unpack("<3I", value)
    return f"P{months}M{days}DT{milliseconds // 1_000}.{milliseconds % 1_000:03}000S"


def plain(value, name=None):
    """What a value should become."""
    if value is None:
        return None
    if name == "at_nanos":
        return nanoseconds(value)
    if name == "span":
        return span(value)
    if name == "uuid_fixed":
        return str(uuid.UUID(bytes=value))
    if isinstance(value, dict):
        return {inner: plain(one) for inner, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    if isinstance(value, decimal.Decimal):
        return "decimal " + format(value, "f")
    if isinstance(value, dt.datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.%f") + ("Z" if value.tzinfo else "")
    if isinstance(value, dt.time):
        return value.strftime("%H:%M:%S.%f")
    if isinstance(value, (dt.date, uuid.UUID)):
        return value.isoformat() if isinstance(value, dt.date) else str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value


records = [record(n) for n in range(400)]
schema = fastavro.parse_schema(SCHEMA)
for codec in ["null", "deflate", "snappy", "zstandard"]:
    path = f"{sys.argv[1]}.{codec}.avro"
    with open(path, "wb") as file:
        fastavro.writer(file, schema, records, codec=codec, sync_interval=r.choice([1, 5_000, 10**9]))
    # What fastavro reads again is what is expected, and not what it was given.
    with open(path, "rb") as file, open(f"{sys.argv[1]}.{codec}.expected", "w") as expected:
        for one in fastavro.reader(file):
            line = json.dumps({name: plain(value, name) for name, value in one.items()})
            # JSON's own writer has no numbers with so many digits.
            print(re.sub(r'"decimal ([-0-9.]+)"', r"\1", line), file=expected)
