"""What a running call reports: to a callback, as a line in a terminal, or as a bar in a notebook."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._child import Child


@dataclass(frozen=True)
class Event:
    """Something that happened. `progress` comes four times a second; docs/reference/loads.md lists the others."""

    name: str
    #: All members, as the program printed them.
    data: dict[str, Any]

    @property
    def text(self) -> str:
        """The same for people."""
        for member in ("text", "ddl", "reason", "error"):
            if member in self.data:
                return str(self.data[member])
        return ", ".join(f"{name} {value}" for name, value in self.data.items() if name != "event")

    @property
    def documents(self) -> int:
        """Documents that this run has committed so far."""
        return int(self.data.get("documents", 0))

    @property
    def share(self) -> float | None:
        """Share of the input that is done, from 0 to 1; None if its size is not known."""
        total = self.data.get("input_bytes_total")
        return min(1.0, self.data.get("input_bytes", 0) / total) if total else None


Callback = Callable[[Event], object]


class Reporter:
    """Passes on what a child reports, in the thread of the caller."""

    def __init__(self, progress: bool | Callback | None) -> None:
        self._show: Callback | None = None
        self._end: Callable[[], None] | None = None
        self._last: dict[str, Any] | None = None
        if callable(progress):
            self._show = progress
        elif progress:
            self._show, self._end = _display()

    def look(self, child: Child) -> None:
        """Passes on what is new."""
        if self._show is None:
            return
        while child.events:
            event = child.events.popleft()
            self._show(Event(str(event.get("event")), event))
        if child.progress is not None and child.progress is not self._last:
            self._last = child.progress
            self._show(Event("progress", self._last))

    def close(self) -> None:
        """Removes what is shown only while the call runs."""
        if self._end is not None:
            self._end()


def _display() -> tuple[Callback | None, Callable[[], None] | None]:
    if "ipykernel" in sys.modules:
        try:
            return _notebook()
        except ImportError:
            pass
    # Under a daemon there is no stderr at all.
    if sys.stderr is not None and sys.stderr.isatty():
        return _terminal()
    return None, None


def _terminal() -> tuple[Callback, Callable[[], None]]:
    import shutil

    def write(text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()

    def show(event: Event) -> None:
        room = max(shutil.get_terminal_size().columns - 1, 10)
        if event.name == "progress":
            share = "" if event.share is None else f"{event.share:4.0%} "
            write("\r\x1b[K" + _visible(share + event.text)[:room])
        elif event.name in ("warning", "standstill", "retry", "again"):
            write("\r\x1b[K" + _visible(f"{event.name}: {event.text}") + "\n")

    return show, lambda: write("\r\x1b[K")


def _notebook() -> tuple[Callback, Callable[[], None]]:
    from html import escape
    from importlib import import_module

    display: Any = import_module("IPython.display")
    handle = display.display(display.HTML(""), display_id=True)

    def show(event: Event) -> None:
        if event.name != "progress":
            return
        value = "" if event.share is None else f" value='{event.share:.3f}'"
        handle.update(display.HTML(f"<progress max='1'{value}></progress> {escape(event.text)}"))

    return show, lambda: handle.update(display.HTML(""))


def _visible(text: str) -> str:
    """The text without characters that steer a terminal."""
    return "".join(character if character.isprintable() else "?" for character in text)
