"""Upserts a file of JSON documents, one a line, into MongoDB by bulk writes; prints and drops what it holds.

usage: mongo_upsert.py bulkwrite DATABASE COLLECTION durable|async FILE    (the server: MONGO_URI)
       mongo_upsert.py state DATABASE COLLECTION
       mongo_upsert.py server DATABASE COLLECTION
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

# What is read of the answers. The rest may hold addresses and paths, and values that are no JSON.
READ = {
    "buildInfo": ["version"],
    "getCmdLineOpts": ["parsed.storage.journal.enabled"],
    "serverStatus": [
        "storageEngine.name",
        "wiredTiger.cache.maximum bytes configured",
        "extra_info.user_time_us",
        "extra_info.system_time_us",
    ],
    "collStats": ["storageSize", "totalIndexSize"],
}


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


def state(database, collection):
    # As decimals: the sum does not fit 64 bits.
    total = {"$group": {"_id": None, "rows": {"$sum": 1}, "sum": {"$sum": {"$toDecimal": "$n"}}}}
    with client() as server:
        found = list(server[database][collection].aggregate([total]))
    rows, number = (found[0]["rows"], found[0]["sum"].to_decimal()) if found else (0, 0)
    print(json.dumps({"rows": rows, "sum": str(int(number))}))


def server(database, collection):
    """Prints what the server says of itself and of a collection; an answer that it refuses is null.

    In between it makes a checkpoint: only then are all of the collection's bytes on disk.
    """
    answers = {}
    with client() as mongo:

        def ask(name, where, command, value=1):
            try:
                answer = mongo[where].command(command, value)
                answers[name] = {path: pick(answer, path) for path in READ.get(command, [])}
            except pymongo.errors.OperationFailure:
                answers[name] = None

        ask("buildInfo", "admin", "buildInfo")
        ask("getCmdLineOpts", "admin", "getCmdLineOpts")
        ask("serverStatus", "admin", "serverStatus")
        ask("fsync", "admin", "fsync")
        ask("collStats", database, "collStats", collection)
        ask("serverStatus after fsync", "admin", "serverStatus")
    print(json.dumps(answers))


def pick(answer, path):
    for name in path.split("."):
        answer = answer.get(name) if isinstance(answer, dict) else None
    return answer


def drop(database):
    with client() as server:
        server.drop_database(database)


if __name__ == "__main__":
    try:
        {"bulkwrite": bulkwrite, "state": state, "server": server, "drop": drop}[sys.argv[1]](*sys.argv[2:])
    except pymongo.errors.PyMongoError as error:
        # Without the settings and the documents that the driver adds.
        sys.exit("error: " + str(error).split(" (configured")[0].split(", full error")[0])
