"""Upserts a file of JSON documents, one a line, by dlt.

usage: dlt_upsert.py FILE TABLE    (the server: PGHOST, PGPORT, ...; the state of dlt is kept in LAB_DIR)

dlt makes the table. It gets the key and the document, which it stores as jsonb; by itself it would make a column of each
member. Each run merges by the strategy upsert, which is one MERGE from a staging table.
"""

import json
import sys

from dlt_pipeline import merge


def documents(path):
    with open(path, "rb") as file:
        for line in file:
            document = json.loads(line)
            yield {"id": document["id"], "doc": document}


def main(path, table):
    upsert = {"disposition": "merge", "strategy": "upsert"}
    merge(documents(path), table, write_disposition=upsert, columns={"doc": {"data_type": "json"}})


if __name__ == "__main__":
    main(*sys.argv[1:])
