"""`load`: puts documents into a collection."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal

from ._program import program_for_call
from ._progress import Callback
from ._receipt import Receipt, receipt_from
from ._run import Run
from ._sources import source_of
from ._target import Target, joined, words

Path = str | os.PathLike[str]
OneOrMore = str | Sequence[str]

#: Parameters that have another name on the command line.
OPTIONS = {"name": "source_name"}


def load(
    data: Any,
    *,
    into: str,
    key: OneOrMore | None = None,
    mode: str = "replace",
    columns: Literal["all"] | Sequence[str] | None = None,
    name: str | None = None,
    index: bool = False,
    progress: bool | Callback | None = None,
    # How files are written.
    format: str | None = None,
    root: str | None = None,
    encoding: str | None = None,
    skip_lines: int | None = None,
    delimiter: str | None = None,
    quote: str | None = None,
    null: str | None = None,
    header: OneOrMore | None = None,
    trim: bool = False,
    types: Literal["text", "infer"] | None = None,
    nan: Literal["null", "reject", "string"] | None = None,
    extended_json: bool = False,
    # What becomes of documents on their way.
    enrich: OneOrMore | None = None,
    enrich_missing: Literal["keep", "null", "reject"] | None = None,
    enrich_existing: Literal["keep", "replace", "reject"] | None = None,
    with_source: str | None = None,
    with_partitions: bool = False,
    delete_when: str | None = None,
    forget_deletes: str | None = None,
    delete_missing: bool = False,
    delete_missing_max: float | str | None = None,
    skip_loaded: bool = False,
    check: OneOrMore | None = None,
    # How they are written.
    durability: Literal["durable", "async", "unlogged"] | None = None,
    layout: Literal["table", "log"] | None = None,
    doc: Literal["whole", "without-key"] | None = None,
    skip_unchanged: Literal["auto", "on", "off"] | None = None,
    adopt: bool = False,
    distribute: bool = False,
    lanes: int | None = None,
    batch_rows: int | None = None,
    memory: int | str | None = None,
    # What cannot be stored, and how a load ends.
    rejects: Path | None = None,
    max_rejects: int | None = None,
    strict: bool = False,
    publish: OneOrMore | None = None,
    resume: Literal["auto", "off"] | None = None,
    dry_run: bool = False,
    # Where.
    db: str | None = None,
    schema: str | None = None,
    trust_owner: OneOrMore | None = None,
) -> Receipt:
    """Loads documents into a collection, and returns the receipt.

    `data` is a path or a list of paths, which the program reads: NDJSON, JSON, CSV and so on, plain or compressed, also
    a pattern such as "dump/*.json.gz". Or an iterable of documents: dicts, or strings or bytes of one JSON object each.
    Or a data frame: of pandas, Polars, Arrow or DuckDB.

    The options are those of `millstream load`, with the same names and defaults. But:

    - `key` can be left out only for dumps and exports of MongoDB;
    - `name` is `--source-name`: with it, a load of an iterable or a frame that was interrupted resumes when you give the
      same data under the same name again;
    - `columns` is `--columns all`, or a list of `--column`;
    - `index=True` makes the index of a pandas frame columns;
    - `progress` is True for a line in a terminal or a bar in a notebook, or a function that is called with each `Event`
      in your thread. Nothing is printed without it.

    The iterable is read in your thread, once the program has connected. Ctrl-C commits what was read, and raises
    `Interrupted` with the receipt. An exception of the iterable ends the load in the same way, and is raised again;
    `receipt_of(error)` has the receipt.
    Documents that cannot be stored are no error; see `Receipt.rejects` and `Receipt.raise_for_rejects`.
    """
    target = Target(db, schema, trust_owner)
    source = source_of(data, named=name is not None, index=index)
    if source.format is not None:
        if format not in (None, source.format):
            raise ValueError(f"documents and frames are sent as {source.format}; format= is for paths")
        format = source.format
    options: dict[str, object] = {
        "into": into,
        "key": joined(key),
        "mode": mode,
        "columns": columns if isinstance(columns, str) else None,
        "column": None if isinstance(columns, str) else columns,
        "source_name": name,
        "format": format,
        "root": root,
        "encoding": encoding,
        "skip_lines": skip_lines,
        "delimiter": delimiter,
        "quote": quote,
        "null": null,
        "header": joined(header),
        "trim": trim,
        "types": types,
        "nan": nan,
        "extended_json": extended_json,
        "enrich": enrich,
        "enrich_missing": enrich_missing,
        "enrich_existing": enrich_existing,
        "with_source": with_source,
        "with_partitions": with_partitions,
        "delete_when": delete_when,
        "forget_deletes": forget_deletes,
        "delete_missing": delete_missing,
        "delete_missing_max": delete_missing_max,
        "skip_loaded": skip_loaded,
        "check": check,
        "durability": durability,
        "layout": layout,
        "doc": doc,
        "skip_unchanged": skip_unchanged,
        "adopt": adopt,
        "distribute": distribute,
        "lanes": lanes,
        "batch_rows": batch_rows,
        "memory": memory,
        "rejects": rejects,
        "max_rejects": max_rejects,
        "strict": strict,
        "publish": publish,
        "resume": resume,
        "dry_run": dry_run,
        "output": "json",
        "progress": "json",
    }
    command = ["load", *words(options), *target.words(), "--", *source.names]
    run = Run(command, target, source, program_for_call(), says_when=not dry_run)
    receipt = receipt_from(run(progress), run.notes(), target)
    if receipt is None:
        raise run.died()
    return receipt
