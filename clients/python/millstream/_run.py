"""A call of the program, from its start to its answer."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from json import JSONDecoder
from typing import Any, NoReturn

from ._child import Child
from ._errors import SIGNALLED, Died, Error, Interrupted, Stopped, attach, committed, made_of
from ._progress import Callback, Reporter
from ._receipt import Receipt, receipt_from
from ._sources import Source
from ._target import Target


class Run:
    """A call of the program."""

    def __init__(
        self, words: Sequence[str], target: Target, source: Source | None, program: str, *, says_when: bool = False
    ) -> None:
        self._command = [program, *words]
        self._target = target
        self._source = source
        # Whether this command says when it reads.
        self._says_when = says_when
        self._child: Child | None = None

    def __call__(self, progress: bool | Callback | None = None, decoder: JSONDecoder | None = None) -> list[Any]:
        """Runs the program, and returns the values that it printed."""
        feeds = self._source is not None and self._source.feeds
        reporter = Reporter(progress)
        try:
            child = self._child = Child(self._command, self._target.environment(), feeds=feeds)
        except KeyboardInterrupt as error:
            raise Interrupted(f"interrupted: {committed(None)}") from error
        try:

            def look() -> None:
                reporter.look(child)

            try:
                if feeds and self._says_when:
                    child.wait_for_reader(look)
                if self._source is not None and child.reads:
                    self._source.feed(child, look)
                child.wait(look)
                look()
            except BaseException as error:
                self._end_for(error, child)
            return self._answer(child, decoder)
        finally:
            child.kill()
            reporter.close()

    def notes(self) -> tuple[str, ...]:
        """The messages of the program."""
        return () if self._child is None else tuple(self._child.notes)

    def died(self) -> Error:
        """The exception for an end without an answer."""
        assert self._child is not None
        return self._child.died()

    def receipt(self) -> Receipt | None:
        """The receipt that the program has printed."""
        child = self._child
        if child is None or not child.ended:
            return None
        try:
            return receipt_from(child.values(), tuple(child.notes), self._target)
        except Died:
            return None

    def _answer(self, child: Child, decoder: JSONDecoder | None) -> list[Any]:
        if child.problem is not None:
            raise child.problem
        if child.error is not None:
            raise made_of(child.error, child.code, self.receipt())
        hint = "the same call resumes if it loads files, or a stream with name="
        if child.code in SIGNALLED:
            message = f"somebody sent the program {signal.Signals(child.code - 128).name}"
            raise made_of({"error": message, "hint": hint}, child.code, self.receipt())
        values = child.values() if decoder is None else child.values(decoder)
        if child.code not in (0, 1) or not values:
            raise child.died()
        # A process that ignores SIGCHLD, as Spark's do, never learns the exit code, so the answer counts.
        if isinstance(values[0], dict) and values[0].get("finished") is False:
            message = "somebody ended the program before it had read everything"
            raise Stopped(message, hint=hint, load_id=values[0].get("load_id"), receipt=self.receipt())
        return values

    def _end_for(self, error: BaseException, child: Child) -> NoReturn:
        """Ends the program in good order for an exception, and raises that."""
        interrupts = isinstance(error, KeyboardInterrupt)

        def look() -> None:
            """What the caller's own code is not asked any more."""

        if not child.ended:
            if self._source is not None and self._source.taken:
                self._source.rest(child, look)
            else:
                # A stream that has given nothing is no load.
                child.signal(signal.SIGINT)
            # Another exception comes from a second Ctrl-C: then `kill` ends the program.
            child.wait(look)
        receipt, problem = self.receipt(), None
        if child.error is not None and child.code not in SIGNALLED:
            problem = made_of(child.error, child.code, receipt)
            if receipt is not None and _is_break(problem):
                # The place where the stream breaks off counts as a reject until the load is resumed.
                receipt, problem = _without_break(receipt), None
        if interrupts:
            raise Interrupted(f"interrupted: {committed(receipt)}", receipt) from problem
        attach(error, receipt, problem)
        raise error


def _is_break(problem: Error) -> bool:
    return problem.code == 2 and problem.message.startswith("the source is damaged: ")


def _without_break(receipt: Receipt) -> Receipt:
    from dataclasses import replace

    return replace(receipt, read=max(receipt.read - 1, 0), rejected=max(receipt.rejected - 1, 0))
