"""The other commands, thin."""

from __future__ import annotations

import decimal
import json
import os
from collections.abc import Callable, Sequence
from typing import Any, Literal, cast, overload

from ._errors import Error
from ._program import program_for_call
from ._progress import Callback
from ._receipt import Reject, Verification, known, reject_from
from ._run import Run
from ._sources import Source, source_of
from ._target import Target, joined, words

Path = str | os.PathLike[str]
OneOrMore = str | Sequence[str]


def verify(
    data: Any,
    *,
    into: str,
    key: OneOrMore | None = None,
    mode: str = "replace",
    exact: bool = False,
    progress: bool | Callback | None = None,
    db: str | None = None,
    schema: str | None = None,
    trust_owner: OneOrMore | None = None,
    **options: object,
) -> Verification:
    """Compares a table with what it was loaded from: paths or documents, as for `load`.

    The result is true if the table holds what the documents say. Other options are those of `millstream verify`.
    """
    target = Target(db, schema, trust_owner)
    source = source_of(data, named=False)
    if source.format is not None:
        options["format"] = source.format
    own: dict[str, object] = {"into": into, "key": joined(key), "mode": mode, "exact": exact}
    command = ["verify", *words({**own, **options, "progress": "json"})]
    answer = _ask(command, target, source.names, source, progress)
    return Verification(raw=answer, **known(Verification, answer))


@overload
def get(
    collection: str,
    *keys: object,
    count: Literal[False] = False,
    numbers: Literal["float", "decimal"] = "float",
    db: str | None = None,
    schema: str | None = None,
    trust_owner: OneOrMore | None = None,
) -> list[dict[str, Any] | None]: ...


@overload
def get(
    collection: str,
    *keys: object,
    count: Literal[True],
    numbers: Literal["float", "decimal"] = "float",
    db: str | None = None,
    schema: str | None = None,
    trust_owner: OneOrMore | None = None,
) -> list[int]: ...


@overload
def get(
    collection: str,
    *keys: object,
    count: bool,
    numbers: Literal["float", "decimal"] = "float",
    db: str | None = None,
    schema: str | None = None,
    trust_owner: OneOrMore | None = None,
) -> list[dict[str, Any] | None] | list[int]: ...


def get(
    collection: str,
    *keys: object,
    count: bool = False,
    numbers: Literal["float", "decimal"] = "float",
    db: str | None = None,
    schema: str | None = None,
    trust_owner: OneOrMore | None = None,
) -> list[dict[str, Any] | None] | list[int]:
    """The documents of these keys, in their order, None for a key without one. A key of several columns is a tuple.

    A number with a fraction or an exponent becomes a float, which has about 16 digits. With `numbers="decimal"` it becomes
    a `Decimal` with all of them, and so does a whole number that is too long for Python's int.

    With `count`, a key may also be the first values of one, and the result is how many documents begin with them.
    """
    if not keys:
        return []
    command = ["get", *words({"count": count})]
    decoder = _decoder(numbers)
    answers = _ask(command, Target(db, schema, trust_owner), [collection, *map(_key, keys)], decoder=decoder)
    if count:
        return [int(answer["count"]) for answer in answers]
    return [answer["doc"] if answer["found"] else None for answer in answers]


def _decoder(numbers: str) -> json.JSONDecoder:
    """What reads documents with their numbers."""
    if numbers == "decimal":
        return json.JSONDecoder(parse_float=decimal.Decimal, parse_int=_exact)
    if numbers == "float":
        return json.JSONDecoder(parse_float=_float, parse_int=_int)
    raise ValueError(f'numbers= is "float" or "decimal", not {numbers!r}')


def _exact(digits: str) -> int | decimal.Decimal:
    try:
        return int(digits)
    except ValueError:
        # Python limits the digits of an int that is read.
        return decimal.Decimal(digits)


def _int(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:
        raise _too_large(digits, "an int") from None


def _float(digits: str) -> float:
    value = float(digits)
    if value - value != 0:
        raise _too_large(digits, "a float")
    return value


def _too_large(digits: str, kind: str) -> Error:
    begin = digits if len(digits) < 20 else f"{digits[:16]}.. of {len(digits):,} characters"
    return Error(f"the number {begin} is too large for {kind}", hint='numbers="decimal" reads every number')


def rejects(
    collection: str,
    *,
    load: int | None = None,
    reason: str | None = None,
    older_than: str | None = None,
    limit: int = 1000,
    db: str | None = None,
    schema: str | None = None,
    trust_owner: OneOrMore | None = None,
) -> list[Reject]:
    """The documents of a collection that could not be stored, at most `limit` of them."""
    command = ["rejects", *words({"load": load, "reason": reason, "older_than": older_than, "limit": limit})]
    answer = _ask(command, Target(db, schema, trust_owner), [collection])
    return [reject_from(record) for record in answer["rejects"]]


def publish(
    collection: str,
    model: str,
    *,
    index: OneOrMore | None = None,
    column: OneOrMore | None = None,
    where: str | None = None,
    select: str | None = None,
    materialized: bool = False,
    query: str | None = None,
    unique: OneOrMore | None = None,
    db: str | None = None,
    schema: str | None = None,
    trust_owner: OneOrMore | None = None,
) -> list[dict[str, Any]]:
    """Makes or changes a read model of a collection, and refreshes it. Returns what the refresh did."""
    options = {
        "as": model,
        "index": index,
        "column": column,
        "where": where,
        "select": select,
        "materialized": materialized,
        "query": query,
        "unique": joined(unique),
    }
    found: list[dict[str, Any]] = _ask(["publish", *words(options)], Target(db, schema, trust_owner), [collection])
    return found


def refresh(
    *models: str,
    way: Literal["incremental", "swap", "materialized"] | None = None,
    workers: int | None = None,
    wait: str | None = None,
    dry_run: bool = False,
    db: str | None = None,
    schema: str | None = None,
    trust_owner: OneOrMore | None = None,
) -> list[dict[str, Any]]:
    """Brings read models up to date, so that all show the same moment. Returns what was done for each."""
    command = ["refresh", *words({"way": way, "workers": workers, "wait": wait, "dry_run": dry_run})]
    found: list[dict[str, Any]] = _ask(command, Target(db, schema, trust_owner), list(models))
    return found


def loads_of(name: str, target: Target) -> list[dict[str, Any]]:
    """The recorded loads of a stream with this name, newest first."""
    found: list[dict[str, Any]] = _ask(["loads", *words({"source_name": name})], target, [])
    return found


def _ask(
    command: list[str],
    target: Target,
    names: list[str],
    source: Source | None = None,
    progress: bool | Callback | None = None,
    decoder: json.JSONDecoder | None = None,
) -> Any:
    """Runs a command, and returns its first answer."""
    run = Run([*command, "--output=json", *target.words(), "--", *names], target, source, program_for_call())
    return run(progress, decoder)[0]


def _key(key: object) -> str:
    """A key as the command line takes it."""
    if isinstance(key, (tuple, list)):
        values = cast("Sequence[object]", key)
        return _key(values[0]) if len(values) == 1 else json.dumps([_key(value) for value in values])
    if isinstance(key, bool):
        return str(key).lower()
    if key is None or isinstance(key, (bytes, bytearray, memoryview, dict)):
        raise TypeError(f"{type(cast(object, key)).__name__} is no type of a key")
    # Of a date or a time.
    moment: Callable[[], str] | None = getattr(key, "isoformat", None)
    return str(key) if moment is None else moment()
