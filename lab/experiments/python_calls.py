"""Puts documents and data frames into a table: by the package millstream, and as people do it without.

usage: python_calls.py call FORM FILE TABLE ROWS LANES    (the server: MILLSTREAM_DB, and PGHOST, PGPORT, ...)
       python_calls.py import CODE

FILE is NDJSON for documents, and Parquet for frames. It is read, and modules are imported, before the clock starts; the
forms `file` and `parquet` take the path. In place of FILE, `made` takes a number, and makes so many documents one by
one. The receipt of the package is written to receipt.json in LAB_DIR.

The rivals: to_sql with 1,000 rows a statement; a temporary table that is filled by the driver row by row, or with CSV
that pyarrow writes, and one upsert from there; ADBC through Polars; dlt as it comes.
"""

import gc
import importlib
import io
import json
import os
import subprocess
import sys
import time

COLUMNS = ["id", "n", "at", "ok", "kind", "zone", "load", "note"]
#: Keys of the documents that `made` makes.
KEYS = 1000
#: Rows of a statement of to_sql.
BATCH_ROWS = 1000
COPY_BYTES = 1 << 20
#: Processes that import something.
IMPORTS = 21
#: Text that makes the documents of `made` as long as others.
NOTE = "of water under the mill " * 4


def lines(file):
    with open(file, "rb") as opened:
        return opened.read().splitlines()


def documents(file):
    # As one text, so that equal names of members are one string, as in dicts that a program makes.
    return json.loads(b"[" + b",".join(lines(file)) + b"]")


def table_of(file):
    import pyarrow.parquet

    return pyarrow.parquet.read_table(file)


def pandas_of(file):
    return table_of(file).to_pandas()


def polars_of(file):
    import polars

    return polars.read_parquet(file)


def made(number):
    return ({"id": str(n % KEYS), "n": n, "at": "2026-01-02T03:04:05Z", "note": NOTE} for n in range(int(number)))


def ours(data, table, lanes):
    import millstream

    receipt = millstream.load(data, into=table, key="id:text", lanes=int(lanes), schema="lab_millstream", resume="off")
    with open(os.path.join(os.environ["LAB_DIR"], "receipt.json"), "w") as file:
        json.dump(receipt.raw, file)


def iterated(data, table, lanes):
    ours(iter(data), table, lanes)


def to_sql(frame, table, _):
    import sqlalchemy

    schema, name = table.split(".")
    engine = sqlalchemy.create_engine("postgresql+psycopg://")
    options = {"if_exists": "append", "index": False, "method": "multi", "chunksize": BATCH_ROWS}
    frame.to_sql(name, engine, schema=schema, **options)


def staged(frame, table, put):
    """Copies a frame into a temporary table, and upserts from there, in one transaction."""
    import psycopg

    names = ", ".join(COLUMNS)
    changes = ", ".join(f"{name} = excluded.{name}" for name in COLUMNS[1:])
    with psycopg.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"create temporary table stage (like {table}) on commit drop")
        put(frame, cursor, names)
        cursor.execute(
            f"insert into {table} ({names}) select {names} from stage on conflict (id) do update set {changes}"
        )


def staged_rows(frame, table, _):
    def put(frame, cursor, names):
        with cursor.copy(f"copy stage ({names}) from stdin") as copy:
            for row in frame.itertuples(index=False, name=None):
                copy.write_row(row)

    staged(frame, table, put)


def staged_csv(frame, table, _):
    import pyarrow.csv

    def put(frame, cursor, names):
        text = io.BytesIO()
        options = pyarrow.csv.WriteOptions(include_header=False)
        pyarrow.csv.write_csv(pyarrow.Table.from_pandas(frame, preserve_index=False), text, options)
        with cursor.copy(f"copy stage ({names}) from stdin (format csv)") as copy, text.getbuffer() as view:
            for at in range(0, len(view), COPY_BYTES):
                copy.write(view[at : at + COPY_BYTES])

    staged(frame, table, put)


def by_adbc(frame, table, _):
    from adbc_driver_postgresql import dbapi

    with dbapi.connect("postgresql://") as connection:
        frame.write_database(table, connection, engine="adbc", if_table_exists="append")
        connection.commit()


def by_dlt(rows, table, _):
    import dlt_pipeline

    dlt_pipeline.merge(rows, table)


#: What is made before the clock starts, what is measured, and the modules that it needs.
FORMS = {
    "file": (str, ours, "millstream"),
    "dicts": (documents, iterated, "millstream"),
    "plain": (documents, iterated, "millstream"),
    "bytes": (lines, iterated, "millstream"),
    "made": (made, ours, "millstream"),
    "parquet": (str, ours, "millstream"),
    "arrow": (table_of, ours, "millstream pyarrow"),
    "pandas": (pandas_of, ours, "millstream pyarrow"),
    "polars": (polars_of, ours, "millstream pyarrow"),
    "to_sql": (pandas_of, to_sql, "sqlalchemy psycopg"),
    "staged_rows": (pandas_of, staged_rows, "psycopg"),
    "staged_csv": (pandas_of, staged_csv, "psycopg pyarrow.csv"),
    "adbc": (polars_of, by_adbc, "pyarrow adbc_driver_postgresql.dbapi"),
    "dlt": (documents, by_dlt, "dlt_pipeline"),
}


def resident(name):
    """A number of this process, not of its children, in bytes."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(f"{name}:"))


def call(form, file, table, rows, lanes):
    if form == "plain":
        sys.modules["orjson"] = None
    make, put, modules = FORMS[form]
    for module in modules.split():
        # The package imports its parts when they are first used.
        getattr(importlib.import_module(module), "load", None)
    data = make(file)
    # What is there before is not looked through again and again.
    gc.collect()
    gc.freeze()
    # The highest resident memory begins anew.
    with open("/proc/self/clear_refs", "w") as references:
        references.write("5")
    before, start = resident("VmRSS"), time.monotonic()
    put(data, table, lanes)
    seconds = time.monotonic() - start
    peak = resident("VmHWM")
    numbers = {"rows_per_second": int(rows) / seconds, "python_peak_bytes": peak, "python_above_bytes": peak - before}
    print(json.dumps(numbers))


def imports(code):
    """Milliseconds that a statement takes in a new process, without the start of that process: the median."""
    script = f"import time\nstart = time.perf_counter()\n{code}\nprint(time.perf_counter() - start)"
    run = [sys.executable, "-c", script]
    times = sorted(float(subprocess.run(run, check=True, stdout=subprocess.PIPE).stdout) for _ in range(IMPORTS))
    print(json.dumps({"import_ms": times[IMPORTS // 2] * 1000}))


if __name__ == "__main__":
    {"import": imports, "call": call}[sys.argv[1]](*sys.argv[2:])
