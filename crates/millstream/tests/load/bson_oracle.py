import base64
import datetime as dt
import decimal
import json
import random
import struct
import sys
import uuid

import bson
from bson import json_util
from bson.binary import Binary
from bson.code import Code
from bson.dbref import DBRef
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.regex import Regex
from bson.timestamp import Timestamp

r = random.Random(7)


def some(value):
    return None if r.random() < 0.2 else value()


def text(length=9):
    return "".join(r.choice('a"\\/\n\t\x01\x7f\u00e9\u2028\U0001f600$.') for _ in range(r.randint(0, length)))


def number():
    """A decimal number of up to 34 digits, and of any exponent: jsonb takes those that are not too long."""
    digits = tuple(r.randint(0, 9) for _ in range(r.randint(0, 33)))
    return Decimal128(decimal.Decimal((r.randint(0, 1), (r.randint(1, 9), *digits), r.choice([0, -2, -9, -40, 3, 40]))))


def instant():
    return dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(milliseconds=r.randint(-6 * 10**13, 2 * 10**14))


def document(n):
    return {
        "_id": ObjectId(struct.pack(">IQ", n, r.getrandbits(64))),
        "dec": number(),
        "double": some(lambda: r.choice([r.uniform(-1e9, 1e9), 0.1, 1e300, 5e-324, float(r.randint(-9, 9))])),
        "odd": some(lambda: r.choice([float("nan"), float("inf"), float("-inf")])),
        "i32": some(lambda: r.randint(-(2**31), 2**31 - 1)),
        "i64": some(lambda: Int64(r.randint(-(2**63), 2**63 - 1))),
        "text": some(text),
        "bool": some(lambda: r.random() < 0.5),
        "at": some(instant),
        "raw": some(lambda: r.randbytes(r.randint(0, 9))),
        "old": some(lambda: Binary(r.randbytes(r.randint(0, 9)), 2)),
        "legacy_uuid": some(lambda: Binary(r.randbytes(16), 3)),
        "uuid": some(lambda: Binary(r.randbytes(16), 4)),
        "user": some(lambda: Binary(r.randbytes(3), 128)),
        "list": some(lambda: [some(lambda: r.randint(0, 9)) for _ in range(r.randint(0, 12))]),
        "in": some(lambda: {text(3): some(lambda: {"deep": [ObjectId(struct.pack(">IQ", 1, n))]}), "n": {}}),
        "regex": some(lambda: Regex("^a/" + r.choice(["", "b"]), r.choice(["", "im"]))),
        "code": some(lambda: Code("f()")),
        "scope": some(lambda: Code("f(x)", {"x": ObjectId(struct.pack(">IQ", 2, n))})),
        "ts": some(lambda: Timestamp(r.randint(0, 2**32 - 1), r.randint(0, 2**32 - 1))),
        "ref": some(lambda: DBRef("c", ObjectId(struct.pack(">IQ", 3, n)), "d")),
        "least": MinKey(),
        "most": MaxKey(),
    }


def plain(value):
    """What a value should become."""
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if isinstance(value, ObjectId):
        return str(value)
    if isinstance(value, Decimal128):
        return str(value)
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    if isinstance(value, dt.datetime):
        return f"{value.year:04}" + value.strftime("-%m-%dT%H:%M:%S.%fZ")
    if isinstance(value, Binary) and value.subtype == 4:
        return str(uuid.UUID(bytes=bytes(value)))
    if isinstance(value, Code):
        scope = {} if value.scope is None else {"$scope": plain(dict(value.scope))}
        return {"$code": str(value)} | scope
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Regex):
        # The flags that "im" and "" stand for.
        return {"$regularExpression": {"pattern": value.pattern, "options": "im" if value.flags else ""}}
    if isinstance(value, Timestamp):
        return {"$timestamp": {"t": value.time, "i": value.inc}}
    if isinstance(value, DBRef):
        return {"$ref": value.collection, "$id": plain(value.id), "$db": value.database}
    if isinstance(value, MinKey):
        return {"$minKey": 1}
    if isinstance(value, MaxKey):
        return {"$maxKey": 1}
    return value


documents = [document(n) for n in range(400)]
with open(sys.argv[1] + ".bson", "wb") as file:
    file.writelines(bson.encode(one) for one in documents)
with open(sys.argv[1] + ".expected", "w") as file:
    file.writelines(json.dumps(plain(one)) + "\n" for one in documents)
forms = {
    "canonical": json_util.CANONICAL_JSON_OPTIONS,
    "relaxed": json_util.RELAXED_JSON_OPTIONS,
    "legacy": json_util.LEGACY_JSON_OPTIONS,
}
for form, options in forms.items():
    with open(f"{sys.argv[1]}.{form}.json", "w") as file:
        file.writelines(json_util.dumps(one, json_options=options) + "\n" for one in documents)
