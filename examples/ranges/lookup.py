"""Finds the range of an address in a store of `millstream ranges build`. Needs `lmdb` from PyPI.

    ranges = Ranges("/var/lib/millstream/ranges")
    ranges.get("1.0.128.7")     # the stored value as a dict, or None

As a program it reads addresses, one a line, and prints each with the value of its range:

    python3 lookup.py STORE <ADDRESSES
"""

import ipaddress
import json
import os
import sys

import lmdb


class Ranges:
    """A store. Nothing is opened before the first question. Not for several threads at once."""

    def __init__(self, store):
        self._store = store
        self._name = self._env = self._cursors = None

    def get(self, address):
        """The value of the range that the address lies in, or None."""
        # Keys are the bytes of first addresses, the most significant first.
        wanted = ipaddress.ip_address(address).packed
        self._refresh()
        cursor = self._cursors[len(wanted)]
        # set_range goes to the first key that is not below the address.
        if cursor.set_range(wanted):
            # If that key is not the address itself, the address can lie only in the range before.
            found = cursor.key() == wanted or cursor.prev()
        else:
            # All keys are below the address. That is no miss: it may lie in the last range.
            found = cursor.last()
        if not found:
            return None
        value = json.loads(cursor.value())
        return value if wanted <= bytes.fromhex(value["end"]) else None

    def _refresh(self):
        """Opens the generation that the link `current` leads to, if it is another one than before."""
        env = None
        try:
            name = os.readlink(os.path.join(self._store, "current"))
            if name == self._name:
                return
            # A generation is one file (no subdir) that never changes, so it is read without a lock file.
            path = os.path.join(self._store, name)
            env = lmdb.open(path, subdir=False, readonly=True, lock=False, max_dbs=2)
            # Each family has its own database. Among keys of the other, one step back would end at the wrong entry.
            databases = {4: env.open_db(b"v4", create=False), 16: env.open_db(b"v6", create=False)}
            # One transaction for as long as the file is open: nobody writes it, so there is nothing newer to see.
            txn = env.begin()
        except (OSError, lmdb.Error):
            if env:
                env.close()
            # The old generation answers, and the next question tries again.
            if self._env:
                return
            raise
        if self._env:
            self._env.close()
        self._name, self._env = name, env
        self._cursors = {size: txn.cursor(database) for size, database in databases.items()}


def main():
    ranges = Ranges(sys.argv[1])
    for line in sys.stdin:
        address = line.strip()
        try:
            value = ranges.get(address)
        except ValueError:
            value = None  # It is no address.
        print(address, "" if value is None else json.dumps(value), sep="\t", flush=True)


if __name__ == "__main__":
    main()
