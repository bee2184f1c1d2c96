"""The account of a load, and what else the program answers."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, cast

from ._errors import Rejected

if TYPE_CHECKING:
    from ._target import Target

#: The counts of documents, each with its meaning. Their sum is `read`, without the rows of `deleted_missing`.
OUTCOMES = {
    "inserted": "new keys",
    "updated": "existing keys, written",
    "unchanged": "equal to the stored one, or nothing to delete",
    "superseded": "by a later one of the same key and batch",
    "stale": "older than the stored version",
    "kept": "existing keys, left as they were",
    "deleted": "keys removed",
    "appended": "for a compaction to merge",
    "rejected": "could not be stored",
}


@dataclass(frozen=True)
class Reject:
    """A document that could not be stored."""

    load_id: int
    source: str
    byte_offset: int
    #: Where it stands: the line of the file, or the number of the document in the iterable, from 1.
    line: int
    #: The code of the reason, such as `not_json`.
    reason: str
    detail: str
    #: The document as it came: text, or bytes if it is no text.
    document: str | bytes | None
    #: Length of the whole document in bytes. Of a long one only a part is kept.
    size: int
    truncated: bool
    rejected_at: str


@dataclass(frozen=True)
class Receipt:
    """The account of a load: every document that was read is in exactly one count."""

    collection: str = ""
    load_id: int = 0
    read: int = 0
    inserted: int = 0
    updated: int = 0
    unchanged: int = 0
    superseded: int = 0
    stale: int = 0
    kept: int = 0
    deleted: int = 0
    appended: int = 0
    rejected: int = 0
    bytes_read: int = 0
    rejected_lines: int = 0
    #: Rows that were deleted because no document has their key. `deleted` counts them too.
    deleted_missing: int = 0
    #: Files that were left out because an earlier load has read them.
    skipped_files: int = 0
    wal_bytes: int = 0
    wal_scope: str = "unknown"
    seconds: float = 0.0
    rows_per_second: float = 0.0
    lanes: int = 0
    durability: str = ""
    layout: str = ""
    writers: dict[str, int] = field(default_factory=dict[str, int])
    stages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    retries: int = 0
    deadlocks: int = 0
    #: Documents that earlier runs of the load had committed; None if it needed one run.
    resumed_from: int | None = None
    #: Whether every source was read to its end and committed.
    finished: bool = False
    #: What the refresh of the models did that `publish=` names.
    published: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    #: What a dry run found. Then the receipt counts `read` and `rejected` alone, and nothing was written.
    preview: dict[str, Any] | None = None
    #: The program's messages, such as warnings; the last hundred of them.
    notes: tuple[str, ...] = ()
    #: The receipt as the program printed it.
    raw: dict[str, Any] = field(default_factory=dict[str, Any], repr=False, compare=False)
    # Where to ask for the rejects. It may hold a password.
    _target: Target | None = field(default=None, repr=False, compare=False)

    def raise_for_rejects(self) -> Receipt:
        """Raises `Rejected` if documents could not be stored. Returns the receipt, so that calls can be chained."""
        if self.rejected == 0:
            return self
        things = "document" if self.rejected == 1 else "documents"
        message = f"{self.rejected:,} of {self.read:,} {things} could not be stored in {self.collection}"
        raise Rejected(message, hint="receipt.rejects() lists them", load_id=self.load_id, receipt=self)

    def rejects(self, limit: int = 1000) -> list[Reject]:
        """The documents of this load that could not be stored, at most `limit` of them, in the order of their source."""
        if self.rejected == 0:
            return []
        if self.preview is not None:
            return [reject_from({"source": "", "bytes": 0, **one}) for one in self.preview.get("first_rejects", [])[:limit]]
        from ._commands import rejects
        from ._target import Target

        target = self._target or Target()
        return rejects(
            self.collection,
            load=self.load_id,
            limit=limit,
            db=target.db,
            schema=target.schema,
            trust_owner=target.trust_owner,
        )

    def __str__(self) -> str:
        if self.preview is not None:
            lines = [f"dry run of {self.read:,} documents, {self.rejected:,} of which would be rejected"]
            return "\n".join([*lines, *(f"  {reason}" for reason in self.preview.get("reasons", []))])
        state = "" if self.finished else " (unfinished)"
        lines = [f"receipt of load {self.load_id} into {self.collection}{state}"]
        lines += [f"  {name:<10} {count:>15,}  {meaning}" for name, count, meaning in self._counts()]
        if self.resumed_from is not None:
            lines.append(f"  resumed after {self.resumed_from:,} documents of earlier runs")
        lines.append(f"  {self.seconds:.2f} s, {self.rows_per_second:,.0f} documents/s, {self.durability}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from html import escape

        title, *rest = str(self).split("\n")
        if self.preview is not None:
            return f"<b>{escape(title)}</b><br>" + "<br>".join(escape(line) for line in rest)
        rows = "".join(
            f"<tr><th style='text-align:left'>{name}</th><td style='text-align:right'>{count:,}</td>"
            f"<td style='text-align:left'>{escape(meaning)}</td></tr>"
            for name, count, meaning in self._counts()
        )
        foot = f"<caption style='caption-side:bottom'>{escape(rest[-1].strip())}</caption>"
        return f"<b>{escape(title)}</b><table>{foot}{rows}</table>"

    def _counts(self) -> list[tuple[str, int, str]]:
        counts = [(name, int(getattr(self, name)), meaning) for name, meaning in OUTCOMES.items()]
        return [("read", self.read, "documents"), *(one for one in counts if one[1])]


@dataclass(frozen=True)
class Verification:
    """How a table compares with what it was loaded from."""

    collection: str = ""
    mode: str = ""
    exact: bool = False
    read: int = 0
    rejected: int = 0
    keys: int = 0
    equal: int = 0
    missing: int = 0
    different: int = 0
    #: Rows without a document; None unless `exact=True`.
    extra: int | None = None
    seconds: float = 0.0
    #: The first differences, in key order.
    findings: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    warnings: list[str] = field(default_factory=list[str])
    raw: dict[str, Any] = field(default_factory=dict[str, Any], repr=False, compare=False)

    @property
    def differences(self) -> int:
        """Differences in all."""
        return self.missing + self.different + (self.extra or 0)

    def __bool__(self) -> bool:
        """Whether the table holds what the documents say."""
        return self.differences == 0


def known(kind: type[Receipt] | type[Verification], answer: dict[str, Any]) -> dict[str, Any]:
    """The members of an answer that a class has. A newer program may print more."""
    names = {one.name for one in fields(kind)} - {"raw", "notes", "preview", "published", "_target"}
    return {name: value for name, value in answer.items() if name in names}


def receipt_from(values: list[Any], notes: tuple[str, ...], target: Target) -> Receipt | None:
    """The receipt among what a load printed; None if there is none."""
    if not values or not isinstance(values[0], dict):
        return None
    answer = cast("dict[str, Any]", values[0])
    if "load_id" not in answer:
        read, rejected = int(answer.get("read", 0)), int(answer.get("rejected", 0))
        return Receipt(read=read, rejected=rejected, preview=answer, notes=notes, raw=answer, _target=target)
    lists = [cast("list[dict[str, Any]]", value) for value in values[1:] if isinstance(value, list)]
    published = [one for value in lists for one in value]
    return Receipt(published=published, notes=notes, raw=answer, _target=target, **known(Receipt, answer))


def reject_from(record: dict[str, Any]) -> Reject:
    """A reject as `millstream rejects` prints it."""
    document: str | bytes | None = record.get("document")
    encoded = record.get("document_base64")
    if encoded is not None:
        document = base64.b64decode(encoded)
    return Reject(
        load_id=int(record.get("load_id", 0)),
        source=str(record.get("source", "")),
        byte_offset=int(record.get("byte_offset", record.get("offset", 0))),
        line=int(record.get("line", 0)),
        reason=str(record.get("reason", "")),
        detail=str(record.get("detail", "")),
        document=document,
        size=int(record.get("bytes", 0)),
        truncated=bool(record.get("truncated", False)),
        rejected_at=str(record.get("rejected_at", "")),
    )
