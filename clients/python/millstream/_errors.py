"""The exceptions, made of what the program reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._receipt import Receipt


class Error(Exception):
    """The program reported an error: change the call, the configuration or the database."""

    def __init__(
        self,
        message: str,
        *,
        causes: tuple[str, ...] = (),
        where: str | None = None,
        hint: str | None = None,
        code: int | None = None,
        load_id: int | None = None,
        receipt: Receipt | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        #: Why, the nearest cause first.
        self.causes = causes
        #: Where in the source: file and line.
        self.where = where
        #: What to do. Names options as on the command line.
        self.hint = hint
        #: The program's exit code; negative: the signal that killed it.
        self.code = code
        #: The load that failed.
        self.load_id = load_id
        #: What was committed nevertheless.
        self.receipt = receipt

    def __str__(self) -> str:
        lines = [self.message]
        lines += [f"caused by: {cause}" for cause in self.causes]
        if self.where:
            lines.append(f"where: {self.where}")
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)


class Bug(Error):
    """The program found a bug of its own. Please report it."""


class Died(Error):
    """The program ended without an answer: it was killed, or is not the program that this package needs.

    What it committed stays. The same call resumes if it loads files, or a stream with `name=`.
    """


class Stopped(Error):
    """Somebody else sent the program a signal, and it ended in good order."""


class Rejected(Error):
    """`Receipt.raise_for_rejects` found rejects."""


class ProgramMissing(Error):
    """The program `millstream` is not there."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a call. What the receipt counts is committed."""

    def __init__(self, message: str = "", receipt: Receipt | None = None) -> None:
        super().__init__(message)
        #: What was committed; None if nothing was.
        self.receipt = receipt


#: Name of the attribute that holds the receipt in an exception of the caller's own iterable.
_ATTRIBUTE = "millstream_receipt"


def committed(receipt: Receipt | None) -> str:
    """What a receipt says of a load that was ended, in words."""
    count = 0 if receipt is None else receipt.read
    if count == 0:
        return "nothing was committed"
    return "1 document is committed" if count == 1 else f"{count:,} documents are committed"


def attach(error: BaseException, receipt: Receipt | None, problem: Error | None) -> None:
    """Notes in an exception of the caller what the load that it ended has committed."""
    notes: list[str] = []
    if problem is not None:
        notes.append(f"millstream: the load also failed: {problem}")
    if receipt is not None:
        notes.append(f"millstream: {committed(receipt)} in load {receipt.load_id}")
    try:
        setattr(error, _ATTRIBUTE, receipt)
        # Since Python 3.11.
        add_note: Callable[[str], object] | None = getattr(error, "add_note", None)
        if add_note is not None:
            for note in notes:
                add_note(note)
    except Exception:
        # Some exceptions take no attributes. The exception itself counts for more.
        pass


def receipt_of(error: BaseException) -> Receipt | None:
    """The receipt of the load that an exception ended: one of this package, or one that your own iterable raised."""
    found: Receipt | None = getattr(error, "receipt", None) if isinstance(error, (Error, Interrupted)) else None
    return found or getattr(error, _ATTRIBUTE, None)


def made_of(report: dict[str, Any], code: int, receipt: Receipt | None) -> Error:
    """The exception for the program's JSON."""
    kind: type[Error] = Error
    if code == 70:
        kind = Bug
    elif code in SIGNALLED:
        kind = Stopped
    return kind(
        str(report.get("error", "the program failed")),
        causes=tuple(str(cause) for cause in report.get("causes") or ()),
        where=report.get("where"),
        hint=report.get("hint"),
        code=code,
        load_id=report.get("load_id"),
        receipt=receipt,
    )


#: Exit codes after SIGHUP, SIGINT and SIGTERM.
SIGNALLED = (129, 130, 143)
