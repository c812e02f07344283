"""E-graph engine: runs text commands through egglog's bindings; the only module that imports egglog."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from superopt.errors import MissingServiceError

if TYPE_CHECKING:
    from egglog.bindings import EGraph

_CHUNK = 8
"""Number of commands parsed at once: the parser's time is quadratic in the length of its text."""


class _Graphs(threading.local):
    """The e-graphs of a thread, by number: they must be freed by the thread that created them, which garbage
    collection does not ensure."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.open: dict[int, EGraph] = {}
        self.unused: list[int] = []


_GRAPHS = _Graphs()
_NUMBERS = itertools.count()


class Engine:
    """An e-graph with sorts, functions, rules and facts given as egglog text (Zhang et al., PLDI 2023).
    Raises MissingServiceError where egglog is not installed."""

    def __init__(self) -> None:
        self._number = next(_NUMBERS)
        unused = _GRAPHS.unused
        while unused:
            del _GRAPHS.open[unused.pop()]
        _GRAPHS.open[self._number] = _new_graph()
        weakref.finalize(self, _forget, self._number, _GRAPHS.thread, unused).atexit = False

    @property
    def _graph(self) -> EGraph:
        return _GRAPHS.open[self._number]

    def execute(self, commands: Sequence[str]) -> None:
        """Runs commands in order."""
        for start in range(0, len(commands), _CHUNK):
            text = "\n".join(commands[start : start + _CHUNK])
            self._graph.run_program(*self._graph.parse_program(text))

    def run(self, ruleset: str) -> None:
        """Applies every rule of a ruleset once to all its matches."""
        self.execute((f"(run-schedule (run {ruleset}))",))

    def saturate(self, ruleset: str) -> None:
        """Applies the rules of a ruleset until nothing changes."""
        self.execute((f"(run-schedule (saturate (run {ruleset})))",))

    def sizes(self) -> dict[str, int]:
        """The number of rows of every function and relation."""
        from egglog.bindings import PrintAllFunctionsSize

        (output,) = self._graph.run_program(*self._graph.parse_program("(print-size)"))
        assert isinstance(output, PrintAllFunctionsSize)
        return dict(output.sizes)

    def rows(self, relation: str, count: int) -> Iterable[tuple[int, ...]]:
        """The ``count`` rows of a relation between numbers."""
        from egglog.bindings import PrintFunctionOutput

        (output,) = self._graph.run_program(
            *self._graph.parse_program(f"(print-function {relation} {count})")
        )
        assert isinstance(output, PrintFunctionOutput)
        text = output.termdag.to_string
        for row, _ in output.terms:
            _, *numbers = text(row).strip("()").split()
            yield tuple(map(int, numbers))


def _forget(number: int, thread: int, unused: list[int]) -> None:
    if threading.get_ident() == thread:
        del _GRAPHS.open[number]
    else:
        unused.append(number)


def _new_graph() -> EGraph:
    try:
        from egglog.bindings import EGraph
    except ImportError as error:
        raise MissingServiceError(
            "equality saturation needs egglog, which is not installed: pip install 'superopt[discovery]'"
        ) from error
    return EGraph()
