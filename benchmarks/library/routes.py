"""Counts the modules that a whole task passes through: a proof, a discovery, an optimization.

    python -m benchmarks routes [prove] [discover] [optimize]

``modules``: those in which a function was called. ``given``: those in which a function got the subject itself
(an equation; a graph or a lifted model). ``returns``: between how many pairs of modules such a call led back
to one of ``given`` that had been left; a loop counts once. Imports, other threads, child processes and the
module that defines the subject are not counted.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType

from superopt.equations import format_equation, parse_equation
from superopt.generator import load_preset
from superopt.ir import Equation, Graph
from superopt.journeys.in_process import optimize_with
from superopt.journeys.library.discovery import generate
from superopt.journeys.library.judging import judge_equation
from superopt.onnx_io import LiftedModel
from superopt.optimizer import Options
from superopt.substitution_db import open_database
from superopt.zoo.micrographs import WITH_HEADROOM

EQUATION = "relu(relu(x)) => relu(x)"
MODEL = "x W1 + x W2"


@dataclass
class Route:
    """Modules by their first call; ``given`` those of calls with a subject among the arguments, in order."""

    subjects: tuple[type[object], ...]
    modules: dict[str, None] = field(default_factory=dict[str, None])
    given: list[str] = field(default_factory=list[str])
    names: dict[CodeType, str] = field(default_factory=dict[CodeType, str])

    @property
    def own(self) -> frozenset[str]:
        """The modules that define the subjects."""
        return frozenset(subject.__module__ for subject in self.subjects)

    def trace(self, frame: FrameType, event: str, _argument: object) -> None:
        """A profile function (``sys.setprofile``)."""
        if event != "call":
            return
        code = frame.f_code
        name = self.names.get(code)
        if name is None:
            module = str(frame.f_globals.get("__name__", ""))
            is_counted = (
                module.startswith("superopt.")
                and not code.co_name.startswith("<module")
                and module not in self.own
            )
            name = self.names[code] = module if is_counted else ""
        if not name:
            return
        self.modules.setdefault(name)
        if self.given and self.given[-1] == name:
            return
        arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if arguments and any(type(frame.f_locals.get(argument)) in self.subjects for argument in arguments):
            self.given.append(name)

    @property
    def row(self) -> str:
        """The counts as cells."""
        return f"{len(self.modules)} | {len(set(self.given))} | {len(self._returns())}"

    def _returns(self) -> set[tuple[str, str]]:
        seen, returns = set[str](), set[tuple[str, str]]()
        for left, entered in zip(["", *self.given], self.given, strict=False):
            if entered in seen:
                returns.add((left, entered))
            seen.add(entered)
        return returns


@contextmanager
def traced(*subjects: type[object]) -> Generator[Route]:
    """Traces the calls of this thread."""
    route = Route(subjects)
    sys.setprofile(route.trace)
    try:
        yield route
    finally:
        sys.setprofile(None)


def prove() -> Route:
    """What ``superopt prove`` does with an equation."""
    with traced(Equation) as route:
        format_equation(parse_equation(EQUATION))
        judge_equation(parse_equation(EQUATION))
    return route


def run_discovery() -> Route:
    """Candidates from enumeration to the database; proving one is another route."""
    with (
        tempfile.TemporaryDirectory() as directory,
        open_database(f"sqlite:///{directory}/rules.db") as database,
    ):
        preset = load_preset("elementwise").restricted_to(["add", "relu"])
        with traced(Equation) as route:
            generate(database, preset, max_ops=2)
    return route


def optimize() -> Route:
    """A small model, with the shipped library."""
    with tempfile.TemporaryDirectory() as directory, traced(Graph, LiftedModel) as route:
        url = f"sqlite:///{directory}/rules.db"
        result = optimize_with(WITH_HEADROOM[MODEL].original(), Options(budget=15.0, threads=1), database=url)
        result.save(Path(directory) / "optimized.onnx")
    return route


ROUTES: dict[str, Callable[[], Route]] = {"prove": prove, "discover": run_discovery, "optimize": optimize}


def main() -> None:
    """Prints a row for each route, then its modules of ``given`` in order of their first call."""
    parser = argparse.ArgumentParser(prog="benchmarks routes", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    names: list[str] = parser.parse_args().names or list(ROUTES)
    found = {name: ROUTES[name]() for name in names}
    sys.stdout.write("| route | modules | given | returns |\n|---|---|---|---|\n")
    for name, route in found.items():
        sys.stdout.write(f"| {name} | {route.row} |\n")
    for name, route in found.items():
        sys.stdout.write(f"\n{name}\n" + "".join(f"  {module}\n" for module in dict.fromkeys(route.given)))


if __name__ == "__main__":
    main()
