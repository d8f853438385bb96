"""Many seeds, canaries or strategies one after the other or side by side, with their progress on standard error.

A terminal gets a bar; a file or a pipe gets a line a minute. Ctrl-C and SIGTERM end a campaign early, with the results
until then.
"""

from __future__ import annotations

import gc
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager
from types import FrameType
from typing import Final, Generic, TypeVar

import click
from rich.console import Console
from rich.progress import Progress

# New objects between two looks for garbage that refers to itself.
GARBAGE_THRESHOLD: Final = 50_000
# Seconds between two lines where standard error is no terminal.
LINE_S: Final = 60.0
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

Item = TypeVar("Item")
Result = TypeVar("Result")


class Campaign(Generic[Item, Result]):
    """Plays all items; `was_stopped` once a signal has ended it."""

    def __init__(self, items: Sequence[Item], jobs: int, noun: str, quiet: bool) -> None:
        self._items: Final = items
        self._jobs: Final = jobs
        self._noun: Final = noun
        self._quiet: Final = quiet
        self._done = 0
        self._failed = 0
        self._line_s = time.monotonic() + LINE_S
        self.was_stopped = False

    def play(
        self, play: Callable[[Item], Result], failure_of: Callable[[Result], str] = lambda _: ""
    ) -> Iterator[Result]:
        """The results in order. The text that `failure_of` makes of one is printed at once."""
        is_terminal = sys.stderr.isatty()
        bar = Progress(console=Console(stderr=True), disable=self._quiet or not is_terminal)
        with self._stopping(), bar, closing(self._results(play)) as results:
            task = bar.add_task(self._noun, total=len(self._items))
            for result in results:
                self._done += 1
                bar.advance(task)
                self._report(bar, failure_of(result), is_terminal)
                yield result
                if self.was_stopped:
                    return

    def _results(self, play: Callable[[Item], Result]) -> Generator[Result, None, None]:
        if self._jobs > 1:
            # Closing this generator cancels the items that have not begun.
            with ProcessPoolExecutor(self._jobs, initializer=_begin_worker) as pool:
                yield from pool.map(play, self._items)
            return
        usual = gc.get_threshold()
        _collect_seldom()
        try:
            yield from map(play, self._items)
        finally:
            gc.set_threshold(*usual)
            gc.unfreeze()

    def _report(self, bar: Progress, failure: str, is_terminal: bool) -> None:
        self._failed += bool(failure)
        if self._quiet:
            return
        if failure:
            bar.console.print(failure, markup=False, highlight=False, soft_wrap=True)
        if self.was_stopped:
            bar.console.print(f"stopped after {self._done} of {len(self._items)} {self._noun}", highlight=False)
        elif not is_terminal and time.monotonic() >= self._line_s:
            self._line_s = time.monotonic() + LINE_S
            click.echo(f"{self._done} of {len(self._items)} {self._noun}, {self._failed} failed", err=True)

    @contextmanager
    def _stopping(self) -> Iterator[None]:
        """The first signal ends the campaign after the items under way, a second one at once."""

        def stop(_number: int, _frame: FrameType | None) -> None:
            if self.was_stopped:
                raise KeyboardInterrupt
            self.was_stopped = True

        before = {number: signal.signal(number, stop) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _begin_worker() -> None:
    """The parent alone handles Ctrl-C, which a terminal sends to all processes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _collect_seldom()


def _collect_seldom() -> None:
    """A seed is over before much of it is garbage: looking for cycles again and again costs one part in twenty."""
    gc.freeze()
    gc.set_threshold(GARBAGE_THRESHOLD)
