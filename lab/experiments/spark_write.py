"""Writes a Parquet file into a table by Spark: by its data source millstream, or by its own writer for JDBC.

usage: spark_write.py FORM FILE TABLE ROWS CORES JAR    (the server: MILLSTREAM_DB, and PGHOST, PGPORT, ...)

The rows are in memory, divided by their key into as many partitions as cores, and a small frame of as many partitions was
written in the same way before the clock starts: what Spark needs for its first write of a kind is not measured. `jdbc` is the writer as it
comes, and `batched` has the driver make statements of many rows. Both append, and fail at a key that is there.
"""

import json
import os
import sys
import time

from pyspark.sql import SparkSession

#: Rows that are written before the clock starts.
WARM_ROWS = 1000
#: Rows of a statement of `batched`.
BATCH_ROWS = 10_000


def ours(frame, table):
    options = {"into": table, "key": "id:text", "schema": "lab_millstream", "db": os.environ["MILLSTREAM_DB"]}
    frame.write.format("millstream").options(**options).mode("append").save()


def jdbc(frame, table, **more):
    host = os.environ["PGHOST"]
    # The driver knows no sockets of the file system.
    host = "localhost" if host.startswith("/") else host
    options = {
        "url": f"jdbc:postgresql://{host}:{os.environ['PGPORT']}/{os.environ['PGDATABASE']}",
        "user": os.environ["PGUSER"],
        "password": os.environ.get("PGPASSWORD", ""),
        "driver": "org.postgresql.Driver",
        "dbtable": table,
    }
    frame.write.format("jdbc").options(**options, **more).mode("append").save()


def batched(frame, table):
    jdbc(frame, table, reWriteBatchedInserts=True, batchsize=BATCH_ROWS)


FORMS = {"millstream": ours, "jdbc": jdbc, "batched": batched}


def main(form, file, table, rows, cores, jar):
    builder = SparkSession.builder.master(f"local[{cores}]").config("spark.ui.enabled", False)
    builder = builder.config("spark.ui.showConsoleProgress", False).config("spark.driver.memory", "4g")
    builder = builder.config("spark.local.dir", os.environ["LAB_DIR"]).config("spark.driver.host", "127.0.0.1")
    spark = (builder.config("spark.jars", jar) if form != "millstream" else builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    frame = spark.read.parquet(file).repartition(int(cores), "id").cache()
    frame.count()
    write = FORMS[form]
    # A partition for each core: each of them starts a Python of its own for the first one.
    write(frame.limit(WARM_ROWS).repartition(int(cores)), f"{table}_warm")
    start = time.monotonic()
    write(frame, table)
    print(json.dumps({"rows_per_second": int(rows) / (time.monotonic() - start)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
