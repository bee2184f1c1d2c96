"""Upserts a file of JSON documents, one a line, by sling.

usage: sling_upsert.py prepare FILE CSV    writes the key and the document of each line as CSV
       sling_upsert.py load CSV TABLE      (the server: PGHOST, PGPORT, ...; sling keeps its state in LAB_DIR)

sling makes the table, with the document as jsonb. Of documents as they are, it would make a column of each member, or of all
of them one column without a key. So it gets CSV, which is made before the clock starts.
"""

import csv
import importlib
import json
import os
import platform
import subprocess
import sys
from urllib.parse import quote

SLING = importlib.import_module("sling_linux_arm64" if platform.machine() == "aarch64" else "sling_linux_amd64").SLING_BIN


def prepare(path, target):
    with open(path, encoding="utf-8") as file, open(target, "w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["id", "doc"])
        writer.writerows([json.loads(line)["id"], line.rstrip("\n")] for line in file)


def address():
    """The server as a URL. A socket is no host of a URL, so the host stands behind it."""
    names = ["PGHOST", "PGPORT", "PGUSER", "PGPASSWORD", "PGDATABASE"]
    host, port, user, password, database = (quote(os.environ.get(name, ""), safe="") for name in names)
    account = f"{user}:{password}" if password else user
    return f"postgresql://{account}@/{database}?host={host}&port={port}&sslmode=disable"


def load(path, table):
    state = os.path.join(os.environ.get("LAB_DIR", "."), "sling-state")
    environment = {**os.environ, "LAB_TARGET": address(), "SLING_DISABLE_TELEMETRY": "TRUE", "SLING_HOME_DIR": state}
    command = [
        SLING,
        "run",
        *["--src-stream", f"file://{path}"],
        *["--tgt-conn", "LAB_TARGET"],
        *["--tgt-object", table],
        *["--mode", "incremental"],
        *["--primary-key", "id"],
        # With the types of both columns it sometimes takes one for the other.
        *["--columns", '{"doc": "json"}'],
    ]
    result = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode != 0:
        # Its last line: the others may hold values.
        sys.exit("error: " + (result.stdout.strip().splitlines() or ["sling says nothing"])[-1][:200])


if __name__ == "__main__":
    {"prepare": prepare, "load": load}[sys.argv[1]](*sys.argv[2:])
