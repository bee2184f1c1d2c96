"""Merges rows into a table by dlt, for the scripts beside it that import this.

The server is that of PGHOST, PGPORT, ...; dlt keeps its state in LAB_DIR.
"""

import os

STATE = os.path.join(os.environ.get("LAB_DIR", "."), "dlt-state")
# They are read when dlt is imported.
os.environ.update(RUNTIME__DLTHUB_TELEMETRY="false", DLT_DATA_DIR=STATE)

import dlt  # noqa: E402


def credentials():
    host = os.environ["PGHOST"]
    return {
        # A socket is no host of a URL.
        "host": "localhost" if host.startswith("/") else host,
        "query": {"host": host} if host.startswith("/") else {},
        "port": int(os.environ["PGPORT"]),
        "username": os.environ["PGUSER"],
        "password": os.environ.get("PGPASSWORD", "none"),
        "database": os.environ["PGDATABASE"],
    }


def merge(rows, table, **options):
    """Merges rows by the key id. dlt makes the table. `options` are those of Pipeline.run."""
    schema, name = table.split(".")
    pipeline = dlt.pipeline(
        "lab",
        pipelines_dir=STATE,
        destination=dlt.destinations.postgres(credentials=credentials()),
        dataset_name=schema,
    )
    options = {"write_disposition": "merge", **options}
    pipeline.run(rows, table_name=name, primary_key="id", **options).raise_on_failed_jobs()
