"""Put dicts, files and data frames into PostgreSQL under a key, and get a receipt that accounts for every document.

    import millstream as ms

    receipt = ms.load("dump/*.ndjson.gz", into="events", key="id")
    receipt.raise_for_rejects()

The work is done by the program `millstream`, which runs beside Python and talks to it through pipes.
"""

__version__ = "0.1.0"

# Type checkers take every variable of this name as true.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from ._commands import get as get
    from ._commands import publish as publish
    from ._commands import refresh as refresh
    from ._commands import rejects as rejects
    from ._commands import verify as verify
    from ._errors import Bug as Bug
    from ._errors import Died as Died
    from ._errors import Error as Error
    from ._errors import Interrupted as Interrupted
    from ._errors import ProgramMissing as ProgramMissing
    from ._errors import Rejected as Rejected
    from ._errors import Stopped as Stopped
    from ._errors import receipt_of as receipt_of
    from ._load import load as load
    from ._program import program as program
    from ._progress import Event as Event
    from ._receipt import Receipt as Receipt
    from ._receipt import Reject as Reject
    from ._receipt import Verification as Verification

# Modules are imported when a name of theirs is first used: `import millstream` costs next to nothing.
_PLACES = {
    "get": "_commands",
    "publish": "_commands",
    "refresh": "_commands",
    "rejects": "_commands",
    "verify": "_commands",
    "Bug": "_errors",
    "Died": "_errors",
    "Error": "_errors",
    "Interrupted": "_errors",
    "ProgramMissing": "_errors",
    "Rejected": "_errors",
    "Stopped": "_errors",
    "receipt_of": "_errors",
    "load": "_load",
    "program": "_program",
    "Event": "_progress",
    "Receipt": "_receipt",
    "Reject": "_receipt",
    "Verification": "_receipt",
}

__all__ = [
    "Bug",
    "Died",
    "Error",
    "Event",
    "Interrupted",
    "ProgramMissing",
    "Receipt",
    "Reject",
    "Rejected",
    "Stopped",
    "Verification",
    "get",
    "load",
    "program",
    "publish",
    "receipt_of",
    "refresh",
    "rejects",
    "verify",
]


def __getattr__(name: str) -> object:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{place}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_PLACES])
