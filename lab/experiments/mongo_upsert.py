"""Upserts a file of JSON documents, one a line, into MongoDB by bulk writes; checks and drops what it holds.

usage: mongo_upsert.py bulkwrite DATABASE COLLECTION durable|async FILE    (the server: MONGO_URI)
       mongo_upsert.py check DATABASE COLLECTION EXPECTED
       mongo_upsert.py drop DATABASE

The key of a document is its _id, so that there is one index, as in PostgreSQL's table.
"""

import itertools
import json
import multiprocessing
import os
import sys
import time

import pymongo

PROCESSES = 8
BATCH_ROWS = 1000

def client():
    return pymongo.MongoClient(os.environ["MONGO_URI"])


def documents(path, part):
    """Yields the documents that begin in one of PROCESSES equal parts of the file."""
    size = os.path.getsize(path)
    begin, end = size * part // PROCESSES, size * (part + 1) // PROCESSES
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
            yield json.loads(line)


def work(database, collection, durability, path, part):
    read = 0
    rows = documents(path, part)
    concern = pymongo.WriteConcern(w=1, j=durability == "durable")
    with client() as server:
        target = server[database].get_collection(collection, write_concern=concern)
        while batch := list(itertools.islice(rows, BATCH_ROWS)):
            read += len(batch)
            target.bulk_write([pymongo.ReplaceOne({"_id": row["_id"]}, row, upsert=True) for row in batch], ordered=False)
    return read


def bulkwrite(database, collection, durability, path):
    start = time.monotonic()
    with multiprocessing.Pool(PROCESSES) as pool:
        parts = [(database, collection, durability, path, part) for part in range(PROCESSES)]
        read = sum(pool.starmap(work, parts, chunksize=1))
    print(json.dumps({"read": read, "rows_per_second": read / (time.monotonic() - start)}))


def check(database, collection, path):
    """Compares a collection with what `lab documents` expects, and prints its bytes on disk."""
    # As decimals: the sum does not fit 64 bits.
    total = {"$group": {"_id": None, "rows": {"$sum": 1}, "sum": {"$sum": {"$toDecimal": "$n"}}}}
    with open(path) as file:
        expected = json.load(file)["all"]
    with client() as server:
        found = list(server[database][collection].aggregate([total]))
        # Only after a checkpoint are all bytes on disk.
        server.admin.command("fsync")
        facts = server[database].command("collStats", collection)
    stored = {"rows": found[0]["rows"], "sum": str(int(found[0]["sum"].to_decimal()))} if found else {}
    if stored != expected:
        sys.exit(f"error: the collection holds {stored} instead of {expected}")
    print(json.dumps({"store_bytes": float(facts["storageSize"] + facts["totalIndexSize"])}))


def drop(database):
    with client() as server:
        server.drop_database(database)


if __name__ == "__main__":
    try:
        {"bulkwrite": bulkwrite, "check": check, "drop": drop}[sys.argv[1]](*sys.argv[2:])
    except pymongo.errors.PyMongoError as error:
        # Without the settings and the documents that the driver adds.
        sys.exit("error: " + str(error).split(" (configured")[0].split(", full error")[0])
