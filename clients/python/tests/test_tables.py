"""Tables of every Arrow type and nulls, through Arrow, pandas and Polars: what is sent and stored is what pyarrow has.

What is stored is seen with the real program, if it reads Arrow, and a database that MILLSTREAM_TEST_DB names.
"""

import importlib.util
import os
import random
import unittest

from place import Place, ms
from test_program import DB, knows_arrow

HAS_PANDAS = importlib.util.find_spec("pandas") is not None
HAS_POLARS = importlib.util.find_spec("polars") is not None

try:
    import pyarrow
    import arrow_tables as tables
except (ImportError, AttributeError):
    # There is none, or one that lacks some types.
    tables = None

#: Tables of each way.
TABLES = max(2, int(4 * float(os.environ.get("MILLSTREAM_TEST_SCALE", "1"))))

#: Types that pandas has only as Arrow's.
NOT_PANDAS = ("time64[ns]",)
#: Types that Polars does not take, or takes for others: a UUID for bytes, a date for a time. It dies of some decimals.
NOT_POLARS = (
    "decimal32(9, 2)",
    "decimal64(18, 0)",
    "decimal128(5, -2)",
    "decimal256(76, 38)",
    "date64",
    "month_day_nano",
    "uuid",
    "list_view",
    "large_list_view",
    "map of text",
    "map of numbers",
    "map of structs",
    "run_end_encoded",
    "sparse_union",
    "dense_union",
)


class Ways:
    """A table on each way, with the rows that it must have at the end. What becomes of them says `check`."""

    def each(self, frame_of):
        for _ in range(TABLES):
            seed = random.randrange(2**32)
            with self.subTest(seed=seed):
                self.check(*frame_of(seed))

    def test_arrow(self):
        def frame_of(seed):
            table = tables.table_of(seed)
            return random.choice([table, table.to_reader(7)]), tables.rows(table)

        self.each(frame_of)

    @unittest.skipUnless(HAS_PANDAS, "pandas is not installed")
    def test_pandas_with_types_of_arrow(self):
        import pandas

        def frame_of(seed):
            table = tables.table_of(seed)
            return table.to_pandas(types_mapper=pandas.ArrowDtype), tables.rows(table)

        self.each(frame_of)

    @unittest.skipUnless(HAS_PANDAS, "pandas is not installed")
    def test_pandas(self):
        def frame_of(seed):
            # Within lists and objects, pandas has no types.
            frame = tables.table_of(seed, without={*NOT_PANDAS, *tables.NESTED}).to_pandas()
            # Whole numbers beside a null are floats, for example.
            return frame, tables.rows(pyarrow.Table.from_pandas(frame, preserve_index=False))

        self.each(frame_of)

    @unittest.skipUnless(HAS_POLARS, "polars is not installed")
    def test_polars(self):
        import polars

        def frame_of(seed):
            table = tables.table_of(seed, depth=0, without=NOT_POLARS)
            return polars.from_arrow(table), tables.rows(table)

        self.each(frame_of)


@unittest.skipUnless(tables, "a pyarrow with all types is not installed")
class Sent(Ways, Place):
    def check(self, frame, rows):
        self.plan()
        self.load(frame)
        self.assertEqual(tables.rows(pyarrow.ipc.open_stream(self.sent()).read_all()), rows)


@unittest.skipUnless(DB, "MILLSTREAM_TEST_DB names no database")
@unittest.skipUnless(tables, "a pyarrow with all types is not installed")
class Stored(Ways, unittest.TestCase):
    def setUp(self):
        if not knows_arrow():
            self.skipTest("the program reads no Arrow")

    def check(self, frame, rows):
        into = {"into": f"public.tables_{random.randrange(2**64)}", "key": "id:bigint", "db": DB}
        receipt = ms.load(frame, **into)
        self.assertEqual((receipt.read, receipt.inserted), (len(rows), len(rows)), receipt.rejects(limit=1))
        found = ms.verify(iter(rows), exact=True, **into)
        expected = [rows[int(one["key"][0])] for one in found.findings[:1]]
        self.assertTrue(found, (found.findings[:1], expected))


if __name__ == "__main__":
    unittest.main()
