"""Upserts a file of JSON documents, one a line, by dlt.

usage: dlt_upsert.py FILE TABLE    (the server: PGHOST, PGPORT, ...; the state of dlt is kept in LAB_DIR)

dlt makes the table. It gets the key and the document, which it stores as jsonb; by itself it would make a column of each
member. Each run merges by the strategy upsert, which is one MERGE from a staging table.
"""

import json
import os
import sys

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


def documents(path):
    with open(path, "rb") as file:
        for line in file:
            document = json.loads(line)
            yield {"id": document["id"], "doc": document}


def main(path, table):
    schema, name = table.split(".")
    pipeline = dlt.pipeline(
        "lab",
        pipelines_dir=STATE,
        destination=dlt.destinations.postgres(credentials=credentials()),
        dataset_name=schema,
    )
    load = pipeline.run(
        documents(path),
        table_name=name,
        write_disposition={"disposition": "merge", "strategy": "upsert"},
        primary_key="id",
        columns={"doc": {"data_type": "json"}},
    )
    load.raise_on_failed_jobs()


if __name__ == "__main__":
    main(*sys.argv[1:])
