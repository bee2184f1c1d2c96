"""Where a call works, and how its options become words of a command line."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast


@dataclass(frozen=True)
class Target:
    """The database, as on the command line. Without `db`: MILLSTREAM_DB, then DATABASE_URL, then the local server."""

    db: str | None = None
    schema: str | None = None
    trust_owner: str | Sequence[str] | None = None

    def __post_init__(self) -> None:
        # The program takes an empty variable for none, and would use another database.
        if self.db == "":
            raise ValueError("db= is empty; leave it out for MILLSTREAM_DB, DATABASE_URL or the local server")

    def words(self) -> list[str]:
        return words({"schema": self.schema, "trust_owner": self.trust_owner})

    def environment(self) -> dict[str, str]:
        """The program's environment. The URL is passed there: other users of the machine can read command lines."""
        environment = dict(os.environ)
        if self.db is not None:
            environment["MILLSTREAM_DB"] = self.db
        return environment


def words(options: Mapping[str, object]) -> list[str]:
    """Options as words. None and False leave an option out, a list repeats it."""
    found: list[str] = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            found.append(option)
        elif isinstance(value, (list, tuple)):
            found += [f"{option}={one}" for one in cast("Sequence[object]", value)]
        elif isinstance(value, os.PathLike):
            found.append(f"{option}={os.fsdecode(cast('os.PathLike[str]', value))}")
        else:
            found.append(f"{option}={value}")
    return found


def joined(value: str | Sequence[str] | None) -> str | None:
    """A list whose option takes it with commas."""
    return value if value is None or isinstance(value, str) else ",".join(value)
