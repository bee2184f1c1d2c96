"""Upserts a file of JSON documents, one a line, through psycopg 3 in one of the forms that people use.

usage: psycopg_upsert.py FORM FILE TABLE    (the server: PGHOST, PGPORT, ...)

The forms are as fast as the driver makes them: text is sent as it is, never parsed twice; processes, not
threads, because executemany is bound by the interpreter's lock; RawCursor ($1), because psycopg would
parse the two thousand placeholders of a %s statement anew for each batch. Binary parameters were not faster.
"""

import contextlib
import itertools
import json
import multiprocessing
import os
import select
import sys
import time

import psycopg

CONNECTIONS = 8
BATCH_ROWS = 1000


def documents(path, part):
    """Yields key and text of the documents that begin in one of CONNECTIONS equal parts of the file."""
    size = os.path.getsize(path)
    begin, end = size * part // CONNECTIONS, size * (part + 1) // CONNECTIONS
    with open(path, "rb") as file:
        if begin > 0:
            # A line that begins at the border belongs to this part; its newline is the byte before.
            file.seek(begin - 1)
            file.readline()
        at = file.tell()
        for line in file:
            if at >= end:
                break
            at += len(line)
            yield json.loads(line)["id"], line.decode().rstrip("\n")


def batches(rows):
    """Yields lists of at most BATCH_ROWS rows."""
    while batch := list(itertools.islice(rows, BATCH_ROWS)):
        yield batch


def upsert(table, rows):
    """An upsert of that many rows."""
    values = ", ".join(f"(${2 * n + 1}, ${2 * n + 2})" for n in range(rows))
    return f"insert into {table} (id, doc) values {values} on conflict (id) do update set doc = excluded.doc"


def send(pgconn):
    """Sends what is queued, as libpq's manual asks for. The driver leaves what the socket does not take at once, and
    when it later waits for answers only, the server waits for the rest of a large statement: both for ever."""
    while pgconn.flush():
        readable, _, _ = select.select([pgconn.socket], [pgconn.socket], [])
        if readable:
            pgconn.consume_input()


def recipe(table, rows, pipeline=False):
    """Statements of many rows, each its own transaction; pipelined, none waits for the answer of the one before."""
    read = 0
    whole = upsert(table, BATCH_ROWS)
    with psycopg.connect(autocommit=True) as connection:
        cursor = psycopg.RawCursor(connection)
        with connection.pipeline() if pipeline else contextlib.nullcontext() as pipe:
            for batch in batches(rows):
                read += len(batch)
                statement = whole if len(batch) == BATCH_ROWS else upsert(table, len(batch))
                cursor.execute(statement, list(itertools.chain.from_iterable(batch)), prepare=True)
                if pipe:
                    send(connection.pgconn)
                    # Ends the transaction. It does not wait for the answer.
                    pipe.sync()
    return read


def pipelined(table, rows):
    return recipe(table, rows, pipeline=True)


def executemany(table, rows):
    """One executemany a transaction. The driver prepares and pipelines it."""
    read = 0
    statement = upsert(table, 1)
    with psycopg.connect() as connection:
        cursor = psycopg.RawCursor(connection)
        for batch in batches(rows):
            read += len(batch)
            cursor.executemany(statement, batch)
            connection.commit()
    return read


def single(table, rows):
    """One row a transaction, each answer awaited."""
    read = 0
    statement = upsert(table, 1)
    with psycopg.connect(autocommit=True) as connection:
        cursor = psycopg.RawCursor(connection)
        for row in rows:
            read += 1
            cursor.execute(statement, row, prepare=True)
    return read


FORMS = {form.__name__: form for form in (recipe, pipelined, executemany, single)}


def work(form, path, table, part):
    return FORMS[form](table, documents(path, part))


def main(form, path, table):
    start = time.monotonic()
    with multiprocessing.Pool(CONNECTIONS) as pool:
        parts = [(form, path, table, part) for part in range(CONNECTIONS)]
        read = sum(pool.starmap(work, parts, chunksize=1))
    print(json.dumps({"read": read, "rows_per_second": read / (time.monotonic() - start)}))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except psycopg.Error as error:
        # Its first line: the others hold values.
        sys.exit("error: " + str(error).splitlines()[0])
