"""Writes a dump as mongodump does, and loads one as people do by hand: MongoDB's package decodes it, psycopg 3 upserts it.

usage: dump_upsert.py write FILE.ndjson FILE.bson
       dump_upsert.py upsert FILE.bson TABLE    (the server: PGHOST, PGPORT, ...)

Processes, not threads, because decoding is bound by the interpreter's lock. RawCursor ($1), because psycopg would parse the
two thousand placeholders of a %s statement anew for each batch.
"""

import itertools
import json
import multiprocessing
import struct
import sys
import time

import bson
import psycopg

CONNECTIONS = 8
BATCH_ROWS = 1000


def write(source, dump):
    with open(source, "rb") as lines, open(dump, "wb") as file:
        for line in lines:
            file.write(bson.encode(json.loads(line)))


def documents(path, part):
    """Yields key and text of every CONNECTIONS-th batch of the dump. The others are passed over by their lengths."""
    with open(path, "rb") as file:
        for number in itertools.count():
            head = file.read(4)
            if len(head) < 4:
                return
            (length,) = struct.unpack("<i", head)
            if number // BATCH_ROWS % CONNECTIONS != part:
                file.seek(length - 4, 1)
                continue
            row = bson.decode(head + file.read(length - 4))
            # Times, numbers and keys of MongoDB are no JSON; here is none of them.
            yield row["id"], json.dumps(row, default=str)


def statement(table, rows):
    """An upsert of that many rows."""
    values = ", ".join(f"(${2 * n + 1}, ${2 * n + 2})" for n in range(rows))
    return f"insert into {table} (id, doc) values {values} on conflict (id) do update set doc = excluded.doc"


def work(path, table, part):
    read = 0
    rows = documents(path, part)
    whole = statement(table, BATCH_ROWS)
    with psycopg.connect(autocommit=True) as connection:
        cursor = psycopg.RawCursor(connection)
        while batch := list(itertools.islice(rows, BATCH_ROWS)):
            read += len(batch)
            text = whole if len(batch) == BATCH_ROWS else statement(table, len(batch))
            cursor.execute(text, list(itertools.chain.from_iterable(batch)), prepare=True)
    return read


def upsert(path, table):
    start = time.monotonic()
    with multiprocessing.Pool(CONNECTIONS) as pool:
        read = sum(pool.starmap(work, [(path, table, part) for part in range(CONNECTIONS)], chunksize=1))
    print(json.dumps({"read": read, "rows_per_second": read / (time.monotonic() - start)}))


if __name__ == "__main__":
    try:
        {"write": write, "upsert": upsert}[sys.argv[1]](*sys.argv[2:])
    except psycopg.Error as error:
        # Its first line: the others hold values.
        sys.exit("error: " + str(error).splitlines()[0])
