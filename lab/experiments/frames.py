"""Parquet and Avro of the documents of the lab, and what people do with them in Python.

usage: frames.py parquet DOCUMENTS FILE [ROWS]    writes documents as Parquet of 8 columns, with ROWS in a row group
       frames.py avro PARQUET FILE CODEC          writes the rows of such Parquet as Avro
       frames.py cat FILE                         prints Parquet as NDJSON, by pyarrow and orjson
       frames.py cat-avro FILE                    prints Avro as NDJSON, by fastavro and orjson
       frames.py same DOCUMENTS FILE              compares NDJSON of 8 columns with the documents
       frames.py append FILE SCHEMA TABLE         appends Parquet to a table by ADBC (the server: PGHOST, PGPORT, ...)

The columns are the members of a document, without an object around some of them. Larger documents have a list, too,
which is left out.
"""

import itertools
import json
import sys

import pyarrow
import pyarrow.json
import pyarrow.parquet

DEVICE = pyarrow.struct({"kind": pyarrow.string(), "zone": pyarrow.int64(), "load": pyarrow.float64()})
DOCUMENT = pyarrow.schema(
    {
        "id": pyarrow.string(),
        "n": pyarrow.int64(),
        "at": pyarrow.timestamp("us", "UTC"),
        "ok": pyarrow.bool_(),
        "device": DEVICE,
        "note": pyarrow.string(),
    }
)
COLUMNS = ["id", "n", "at", "ok", "kind", "zone", "load", "note"]
#: The types of Avro that are not those of text.
MEMBERS = {
    "n": "long",
    "at": {"type": "long", "logicalType": "timestamp-micros"},
    "ok": "boolean",
    "zone": "long",
    "load": "double",
}
#: Characters of a time as far as its seconds. Parts of a second, and the zone, are written in more than one way.
TIME_CHARACTERS = 19


def parquet(documents, file, rows=None):
    options = pyarrow.json.ParseOptions(explicit_schema=DOCUMENT, unexpected_field_behavior="ignore")
    table = pyarrow.json.read_json(documents, parse_options=options).flatten().rename_columns(COLUMNS)
    pyarrow.parquet.write_table(table, file, compression="zstd", row_group_size=int(rows or table.num_rows))


def avro(source, file, codec):
    import fastavro

    fields = [{"name": name, "type": ["null", MEMBERS.get(name, "string")]} for name in COLUMNS]
    batches = pyarrow.parquet.ParquetFile(source).iter_batches()
    rows = (row for batch in batches for row in batch.to_pylist())
    with open(file, "wb") as made:
        fastavro.writer(made, {"type": "record", "name": "Row", "fields": fields}, rows, codec=codec)


def cat(file):
    import orjson

    for batch in pyarrow.parquet.ParquetFile(file).iter_batches():
        sys.stdout.buffer.write(b"\n".join(map(orjson.dumps, batch.to_pylist())) + b"\n")


def cat_avro(file):
    import fastavro
    import orjson

    with open(file, "rb") as source:
        sys.stdout.buffer.writelines(orjson.dumps(row) + b"\n" for row in fastavro.reader(source))


def same(documents, file):
    with open(documents, "rb") as given, open(file, "rb") as made:
        for number, (document, row) in enumerate(itertools.zip_longest(given, made, fillvalue=b"null"), 1):
            expected, found = json.loads(document), json.loads(row)
            if expected and found:
                expected = {name: {**expected, **expected["device"]}[name] for name in COLUMNS}
                for one in (expected, found):
                    one["at"] = one["at"][:TIME_CHARACTERS]
            if expected != found:
                sys.exit(f"error: line {number} is not the document")


def append(file, schema, table):
    from adbc_driver_postgresql import dbapi

    source = pyarrow.parquet.ParquetFile(file)
    batches = pyarrow.RecordBatchReader.from_batches(source.schema_arrow, source.iter_batches())
    with dbapi.connect("postgresql://") as connection, connection.cursor() as cursor:
        cursor.adbc_ingest(table, batches, mode="append", db_schema_name=schema)
        connection.commit()


if __name__ == "__main__":
    commands = {"parquet": parquet, "avro": avro, "cat": cat, "cat-avro": cat_avro, "same": same, "append": append}
    commands[sys.argv[1]](*sys.argv[2:])
