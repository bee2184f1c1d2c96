"""Random tables of every Arrow type, with nulls, and their rows as pyarrow has them, written as JSON.

The JSON is that of "Columns and their JSON" in docs/guides/loading.md.
"""

import base64
import decimal
import json
import math
import random
import struct

import pyarrow as pa
from pyarrow import types

DAY_S = 86_400
#: Before and after 1970, within the years that Python knows.
SECONDS = (-30_000_000_000, 100_000_000_000)
#: Within what 64 bits of nanoseconds hold.
NANOSECONDS = 2**63 - 1
UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
#: jsonb has no NUL.
LETTERS = "aZ0 \"\\/\b\n\t\x01äß€\u2028\ufeff😀"
WORDS = ["", "a", "null", "0", "NaN", "{}"]
JSONS = ['{"a": [1, null]}', "1.50", '"x"', "null", "[]", "no JSON"]


def maybe(rng, value):
    return None if rng.random() < 0.2 else value()


def text(rng):
    return rng.choice(WORDS) if rng.random() < 0.3 else "".join(rng.choices(LETTERS, k=rng.randrange(20)))


def bits(rng, size):
    """An integer of so many bits with a sign, often a small or an extreme one."""
    low, high = -(2 ** (size - 1)), 2 ** (size - 1) - 1
    return rng.choice([low, high, 0, -1, rng.randint(low, high), rng.randint(max(low, -1000), min(high, 1000))])


def signed(size):
    return lambda rng: bits(rng, size)


def unsigned(size):
    return lambda rng: bits(rng, size) + 2 ** (size - 1)


def number(rng):
    few = [0.0, -0.0, 0.1, 1e300, 5e-324, math.nan, math.inf, -math.inf]
    return rng.choice([*few, rng.uniform(-1e6, 1e6), rng.random()])


def halves(rng):
    return struct.unpack("e", rng.randbytes(2))[0]


def singles(rng):
    return rng.choice([0.1, rng.uniform(-10, 10), struct.unpack("f", rng.randbytes(4))[0]])


def of_values(kind, value):
    return lambda rng, n: pa.array([maybe(rng, lambda: value(rng)) for _ in range(n)], kind)


def of_integers(kind, storage, value):
    """An array of a type that is stored as integers."""
    return lambda rng, n: pa.array([maybe(rng, lambda: value(rng)) for _ in range(n)], storage).view(kind)


def decimals(kind):
    def value(rng):
        digits = rng.randint(1, kind.precision)
        unscaled = rng.randrange(10**digits) * rng.choice([1, -1])
        return decimal.Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -kind.scale))

    return of_values(kind, value)


def instants(unit):
    low, high = (bound * UNITS[unit] for bound in SECONDS)
    low, high = max(low, -NANOSECONDS), min(high, NANOSECONDS)
    return lambda rng: rng.choice([0, -1, rng.randint(low, high), rng.randint(low, high) // UNITS[unit] * UNITS[unit]])


def clock(unit):
    return lambda rng: rng.randrange(DAY_S * UNITS[unit])


def month_day_nano(rng):
    return pa.MonthDayNano([bits(rng, 32), bits(rng, 32), bits(rng, 64)])


def extended(kind, storage):
    return lambda rng, n: pa.ExtensionArray.from_storage(kind, storage(rng, n))


#: Arrays of types without children, each of so many values.
FLAT = {
    "null": lambda _, n: pa.nulls(n),
    "bool": of_values(pa.bool_(), lambda rng: rng.random() < 0.5),
    **{str(kind): of_values(kind, signed(kind.bit_width)) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
    **{
        str(kind): of_values(kind, unsigned(kind.bit_width)) for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
    },
    "float16": lambda rng, n: of_values(pa.float64(), halves)(rng, n).cast(pa.float16()),
    "float32": of_values(pa.float32(), singles),
    "float64": of_values(pa.float64(), number),
    **{
        str(kind): decimals(kind)
        for kind in (
            pa.decimal32(9, 2),
            pa.decimal64(18, 0),
            pa.decimal128(38, 10),
            pa.decimal128(5, -2),
            pa.decimal256(76, 38),
        )
    },
    **{str(kind): of_values(kind, text) for kind in (pa.string(), pa.large_string(), pa.string_view())},
    **{
        str(kind): of_values(kind, lambda rng: rng.randbytes(rng.randrange(20)))
        for kind in (pa.binary(), pa.large_binary(), pa.binary_view())
    },
    "fixed_size_binary": of_values(pa.binary(5), lambda rng: rng.randbytes(5)),
    "date32": of_integers(pa.date32(), pa.int32(), lambda rng: rng.randint(-300_000, 1_000_000)),
    "date64": of_integers(pa.date64(), pa.int64(), lambda rng: rng.randint(-300_000, 1_000_000) * DAY_S * 1000),
    **{f"time32[{unit}]": of_integers(pa.time32(unit), pa.int32(), clock(unit)) for unit in ("s", "ms")},
    **{f"time64[{unit}]": of_integers(pa.time64(unit), pa.int64(), clock(unit)) for unit in ("us", "ns")},
    **{f"timestamp[{unit}]": of_integers(pa.timestamp(unit), pa.int64(), instants(unit)) for unit in UNITS},
    **{
        f"timestamp[{unit}, {zone}]": of_integers(pa.timestamp(unit, zone), pa.int64(), instants(unit))
        for unit, zone in (("us", "UTC"), ("ns", "Asia/Kolkata"), ("s", "-08:00"))
    },
    **{f"duration[{unit}]": of_integers(pa.duration(unit), pa.int64(), instants(unit)) for unit in UNITS},
    "month_day_nano": of_values(pa.month_day_nano_interval(), month_day_nano),
    "uuid": extended(pa.uuid(), of_values(pa.binary(16), lambda rng: rng.randbytes(16))),
    "json": extended(pa.json_(), of_values(pa.string(), lambda rng: rng.choice(JSONS))),
}


def missing(rng, n):
    return pa.array([rng.random() < 0.2 for _ in range(n)], pa.bool_())


def spans(rng, n):
    """Offsets of lists, and how many items they have in all."""
    offsets = [0]
    for _ in range(n):
        offsets.append(offsets[-1] + rng.randrange(4))
    return offsets, offsets[-1]


def lists(kind, offset):
    def make(rng, n, child):
        offsets, items = spans(rng, n)
        return kind.from_arrays(pa.array(offsets, offset), child(rng, items), mask=missing(rng, n))

    return make


def views(kind, offset):
    def make(rng, n, child):
        # Lists that overlap, in any order.
        items = n + 3
        sizes = [rng.randrange(4) for _ in range(n)]
        offsets = [rng.randint(0, items - size) for size in sizes]
        ends = pa.array(offsets, offset), pa.array(sizes, offset)
        return kind.from_arrays(*ends, child(rng, items), mask=missing(rng, n))

    return make


def fixed(rng, n, child):
    return pa.FixedSizeListArray.from_arrays(child(rng, n * 3), 3, mask=missing(rng, n))


def members(rng, n, child):
    return pa.StructArray.from_arrays([child(rng, n), child(rng, n)], ["a", 'b "c"'], mask=missing(rng, n))


def maps(keys):
    def make(rng, n, child):
        offsets, items = spans(rng, n)
        entries = keys(items), child(rng, items)
        return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), *entries, mask=missing(rng, n))

    return make


def coded(rng, n, child):
    indices = [maybe(rng, lambda: rng.randrange(5)) for _ in range(n)]
    kind = rng.choice([pa.int8(), pa.int32(), pa.uint16()])
    return pa.DictionaryArray.from_arrays(pa.array(indices, kind), child(rng, 5))


def runs(rng, n, child):
    ends = sorted({rng.randint(1, max(n, 1)) for _ in range(4)} | {n}) if n else []
    kind = rng.choice([pa.int16(), pa.int32(), pa.int64()])
    return pa.RunEndEncodedArray.from_arrays(pa.array(ends, kind), child(rng, len(ends)))


def sparse(rng, n, child):
    chosen = pa.array([rng.randrange(2) for _ in range(n)], pa.int8())
    return pa.UnionArray.from_sparse(chosen, [child(rng, n), child(rng, n)])


def dense(rng, n, child):
    chosen = [rng.randrange(2) for _ in range(n)]
    offsets = [chosen[:at].count(one) for at, one in enumerate(chosen)]
    children = [child(rng, chosen.count(one)) for one in (0, 1)]
    return pa.UnionArray.from_dense(pa.array(chosen, pa.int8()), pa.array(offsets, pa.int32()), children)


#: Arrays of types with children.
NESTED = {
    "list": lists(pa.ListArray, pa.int32()),
    "large_list": lists(pa.LargeListArray, pa.int64()),
    "list_view": views(pa.ListViewArray, pa.int32()),
    "large_list_view": views(pa.LargeListViewArray, pa.int64()),
    "fixed_size_list": fixed,
    "struct": members,
    "map of text": maps(lambda n: pa.array([f"k{at}" for at in range(n)], pa.string())),
    "map of numbers": maps(lambda n: pa.array(range(n), pa.int16())),
    "map of structs": maps(lambda n: pa.StructArray.from_arrays([pa.array(range(n), pa.int64())], ["k"])),
    "dictionary": coded,
    "run_end_encoded": runs,
    "sparse_union": sparse,
    "dense_union": dense,
}


def child_of(rng, depth, without):
    """A type for the children of another one."""
    if depth == 0 or rng.random() < 0.6:
        return FLAT[rng.choice([name for name in FLAT if name not in without])]
    return nested(rng, rng.choice([name for name in NESTED if name not in without]), depth - 1, without)


def nested(rng, name, depth, without):
    """A type of this kind, with random types in it."""
    # pyarrow does not read its own dictionaries of types that extend others, and dies of some run ends of them.
    if name in ("dictionary", "run_end_encoded"):
        without = {*without, "uuid", "json"}
    child = child_of(rng, 0 if name == "dictionary" else depth, without)
    return lambda rng, n: NESTED[name](rng, n, child)


def table_of(seed, *, depth=2, without=()):
    """A table with a key, and a column for each type. `depth` is how deep types stand in those with children."""
    rng = random.Random(seed)
    n = rng.choice([0, 1, 50, 50])
    columns = {"id": pa.array(range(n), pa.int64())}
    columns.update({name: array(rng, n) for name, array in FLAT.items() if name not in without})
    columns.update({name: nested(rng, name, depth, without)(rng, n) for name in NESTED if name not in without})
    return pa.table(columns)


def rows(table):
    """The rows as JSON, one text each."""
    columns = [(json.dumps(name), table.column(name)) for name in table.column_names]
    found = []
    for at in range(table.num_rows):
        found.append("{" + ",".join(f"{name}:{written(column[at])}" for name, column in columns) + "}")
    return found


def written(scalar):
    """A scalar of pyarrow as JSON."""
    kind = scalar.type
    if isinstance(kind, pa.BaseExtensionType):
        return embedded(scalar.value) if kind.extension_name == "arrow.json" else written_extended(scalar)
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind) or types.is_union(kind):
        return written(scalar.value) if scalar.value is not None else "null"
    if not scalar.is_valid:
        return "null"
    if types.is_map(kind):
        return written_map(kind, scalar.values)
    if types.is_struct(kind):
        fields = (f"{json.dumps(kind.field(at).name)}:{written(scalar[at])}" for at in range(kind.num_fields))
        return "{" + ",".join(fields) + "}"
    if types.is_nested(kind):
        return "[" + ",".join(map(written, scalar.values)) + "]"
    return written_flat(scalar, kind)


def written_extended(scalar):
    if scalar.type.extension_name == "arrow.uuid" and scalar.is_valid:
        return json.dumps(str(scalar.as_py()))
    return written(scalar.value) if scalar.is_valid else "null"


def embedded(scalar):
    """Text that is JSON stays, other text is a string."""
    if scalar is None or not scalar.is_valid:
        return "null"
    try:
        json.loads(scalar.as_py())
    except ValueError:
        return json.dumps(scalar.as_py())
    return scalar.as_py()


def written_map(kind, entries):
    pairs = list(zip(map(written, entries.field(0)), map(written, entries.field(1)), strict=True))
    if types.is_nested(kind.key_type):
        return "[" + ",".join(f"[{key},{value}]" for key, value in pairs) + "]"
    named = ((key if key.startswith('"') else f'"{key}"', value) for key, value in pairs)
    return "{" + ",".join(f"{name}:{value}" for name, value in named) + "}"


def written_flat(scalar, kind):
    if types.is_boolean(kind):
        return "true" if scalar.as_py() else "false"
    if types.is_floating(kind):
        return written_number(scalar.as_py(), kind)
    if types.is_decimal(kind):
        return format(scalar.as_py(), "f")
    if types.is_integer(kind):
        return str(scalar.as_py())
    if types.is_date(kind):
        return json.dumps(scalar.as_py().isoformat())
    if types.is_timestamp(kind):
        days, part = divmod(scalar.value, DAY_S * UNITS[kind.unit])
        date = pa.scalar(days, pa.int32()).cast(pa.date32()).as_py().isoformat()
        return f'"{date}T{clock_text(part, kind.unit)}{"Z" if kind.tz else ""}"'
    if types.is_time(kind):
        return f'"{clock_text(scalar.value, kind.unit)}"'
    if types.is_duration(kind):
        return f'"P{seconds_text(scalar.value, kind.unit)}"'
    if types.is_interval(kind):
        span = scalar.as_py()
        return f'"P{span.months}M{span.days}D{seconds_text(span.nanoseconds, "ns")}"'
    value = scalar.as_py()
    return json.dumps(value if isinstance(value, str) else base64.b64encode(value).decode())


def written_number(value, kind):
    if not math.isfinite(value):
        return "null"
    if kind == pa.float64():
        return repr(value)
    # As few digits as single precision needs.
    shortest = (format(value, f".{digits}g") for digits in range(1, 10))
    return next(one for one in shortest if struct.pack("f", float(one)) == struct.pack("f", value))


def fraction(part, unit):
    nanoseconds = part * (10**9 // UNITS[unit])
    return f".{nanoseconds:09}" if nanoseconds % 1000 else f".{nanoseconds // 1000:06}"


def clock_text(value, unit):
    seconds, part = divmod(value, UNITS[unit])
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction(part, unit)}"


def seconds_text(value, unit):
    seconds, part = divmod(abs(value), UNITS[unit])
    return f"T{'-' if value < 0 else ''}{seconds}{fraction(part, unit)}S"
