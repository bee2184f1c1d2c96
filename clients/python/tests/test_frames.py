"""Data frames: with pyarrow if it is there, and what is said if it is not."""

import importlib.util
import sys
import unittest
import uuid
from unittest import mock

from place import Place, interrupt, ms

HAS_ARROW = importlib.util.find_spec("pyarrow") is not None
HAS_PANDAS = importlib.util.find_spec("pandas") is not None
HAS_POLARS = importlib.util.find_spec("polars") is not None
HAS_DUCKDB = importlib.util.find_spec("duckdb") is not None


class Frame:
    """Anything with an Arrow stream."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


class Frames(Place):
    def test_a_frame_without_pyarrow_says_what_to_install(self):
        with mock.patch.dict(sys.modules, {"pyarrow": None}), self.assertRaisesRegex(ms.Error, "pip install pyarrow"):
            self.load(Frame(None))

    def test_an_index_is_for_pandas(self):
        with self.assertRaisesRegex(TypeError, "pandas"):
            self.load([{"id": 1}], index=True)

    def read(self):
        import pyarrow

        return pyarrow.ipc.open_stream(self.sent()).read_all()

    @unittest.skipUnless(HAS_ARROW, "pyarrow is not installed")
    def test_a_table_arrives_as_it_is(self):
        import pyarrow

        names = pyarrow.array(["a", "b", None] * 40_000).dictionary_encode()
        table = pyarrow.table({"id": range(120_000), "name": names, "x": ["x" * 100] * 120_000})
        for data in [table, Frame(table), table.to_reader(), Frame(table.slice(0, 0))]:
            self.plan()
            self.load(data, columns="all")
            self.assertEqual(self.read().to_pylist(), [] if data is not table and self.read().num_rows == 0 else table.to_pylist())
            self.assertTrue({"--format=arrow", "--columns=all"} <= set(self.called()["args"]))

    @unittest.skipUnless(HAS_ARROW, "pyarrow is not installed")
    def test_a_reader_that_breaks_off_commits_whole_batches(self):
        import pyarrow

        schema = pyarrow.schema([("id", pyarrow.int64())])

        def batches(error):
            for n in range(3):
                yield pyarrow.record_batch({"id": [n]}, schema=schema)
            error()
            yield pyarrow.record_batch({"id": [9]}, schema=schema)

        for name in [None, "s"]:
            self.plan()
            with self.assertRaises(KeyboardInterrupt):
                self.load(pyarrow.RecordBatchReader.from_batches(schema, batches(interrupt)), name=name)
            if name is None:
                self.assertEqual(self.read()["id"].to_pylist()[:3], [0, 1, 2])
            else:
                with self.assertRaises(pyarrow.ArrowInvalid):
                    self.read()

    @unittest.skipUnless(HAS_ARROW, "pyarrow is not installed")
    def test_a_program_that_fails_before_it_reads_costs_no_batch(self):
        import pyarrow

        batch = pyarrow.record_batch({"id": [1]})
        reader = pyarrow.RecordBatchReader.from_batches(batch.schema, iter([batch]))
        self.plan(error={"error": "no database", "code": 2})
        with self.assertRaisesRegex(ms.Error, "no database"):
            self.load(reader)
        self.assertEqual(reader.read_next_batch()["id"].to_pylist(), [1])

    @unittest.skipUnless(HAS_ARROW and HAS_PANDAS, "pandas is not installed")
    def test_the_index_of_pandas_is_a_column_only_if_asked_for(self):
        import pandas

        frame = pandas.DataFrame({"x": [1.5, float("nan")]}, index=pandas.Index([5, 6], name="id"))
        for index, expected in [(False, [{"x": 1.5}, {"x": None}]), (True, [{"x": 1.5, "id": 5}, {"x": None, "id": 6}])]:
            self.plan()
            self.load(frame, index=index)
            self.assertEqual(self.read().to_pylist(), expected)
        with self.assertRaisesRegex(ValueError, "has no name"):
            self.load(frame.reset_index(), index=True)
        with self.assertRaisesRegex(ValueError, "name of a column"):
            self.load(frame.assign(id=1), index=True)

        class Own(pandas.DataFrame):
            """A class of somebody's own, such as that of geopandas."""

        self.plan()
        self.load(Own(frame))
        self.assertEqual(self.read().column_names, ["x"])
        with self.assertRaisesRegex(TypeError, "'m' holds periods"):
            self.load(frame.assign(m=pandas.period_range("2026-01", periods=2, freq="M")))

    @unittest.skipUnless(HAS_ARROW and HAS_POLARS, "polars is not installed")
    def test_polars_arrives(self):
        import polars

        self.plan()
        self.load(polars.DataFrame({"id": [1, None], "name": ["a", "b"]}))
        self.assertEqual(self.read().to_pylist(), [{"id": 1, "name": "a"}, {"id": None, "name": "b"}])

    @unittest.skipUnless(HAS_ARROW and HAS_POLARS, "polars is not installed")
    def test_addresses_of_objects_are_not_sent(self):
        import polars

        frame = polars.DataFrame({"id": [1], "u": [uuid.UUID(int=5)]})
        with self.assertRaisesRegex(TypeError, "'u' holds objects of Python"):
            self.load(frame)

    @unittest.skipUnless(HAS_ARROW and HAS_DUCKDB, "duckdb is not installed")
    def test_a_query_of_duckdb_arrives(self):
        import duckdb

        self.plan()
        self.load(duckdb.sql("select n::int as id, null::text as name from range(3) t(n)"))
        self.assertEqual(self.read().to_pylist(), [{"id": n, "name": None} for n in range(3)])


if __name__ == "__main__":
    unittest.main()
