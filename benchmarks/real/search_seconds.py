"""How much of the predicted gain is found in how many seconds, and how much at once by prices remembered.

    python -m benchmarks search_seconds [--budgets 3 10 60] [--against CHECKOUT] [MODEL ...]

Each search runs in a process of its own, which starts without any price: its budget pays for reading the
model and the rules, measuring, and searching. A gain is what the original is predicted to take longer than
what was found; in brackets, the share of the gain of the longest budget. ``again`` is the shortest budget
with the prices that the longest one left. With ``--against``, the same budgets of another checkout of the
project are shown beside.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.real.listed import MODELS
from benchmarks.real.sizes import fixed
from superopt import zoo
from superopt.journeys import in_process as api
from superopt.onnx_io import LiftedModel, lift, load_model
from superopt.optimizer.canonical import canonicalise
from superopt.optimizer.cost import GraphCost, Latency, MemoryCostStore, Origin, Sizes
from superopt.optimizer.cost.store import CostStore
from superopt.optimizer.pipeline.selection import usable_rules
from superopt.optimizer.search import RuleSet, SearchLimits, Watch, search_named
from superopt.options import Options
from superopt.rewriting import Substitution
from superopt.substitution_db import open_database

NETWORKS = ("ocr-classifier", "ocr-recognizer", "ocr-detector", "squeezenet", "mobilenet-v3", "magika")
INSTALLED = Path("build/real")


def main() -> None:
    """Prints a line for each network."""
    parser = argparse.ArgumentParser(prog="benchmarks search_seconds", description=__doc__)
    parser.add_argument("models", nargs="*", default=list(NETWORKS))
    parser.add_argument("--budgets", type=float, nargs="+", default=[3.0, 10.0, 60.0])
    parser.add_argument("--against", type=Path, help="another checkout of the project")
    parser.add_argument("--cell", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--prices", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.cell is not None:
        sys.stdout.write(json.dumps(_found(Path(arguments.models[0]), arguments.cell, arguments.prices)))
        return
    budgets: list[float] = sorted(arguments.budgets)
    names = [f"{budget:g} s" for budget in budgets]
    others = [] if arguments.against is None else [f"{name}, other" for name in names]
    columns = ("model", "nodes", "us", *names, f"again {names[0]}", *others)
    sys.stdout.write(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n")
    with tempfile.TemporaryDirectory() as directory:
        for model in arguments.models:
            path = _model(model, Path(directory))
            sys.stdout.write(_row(model, path, budgets, arguments.against, Path(directory)) + "\n")
            sys.stdout.flush()


def _row(name: str, path: Path, budgets: Sequence[float], other: Path | None, directory: Path) -> str:
    """The gain of every search in percent, and its share of that of the longest one here."""
    prices = f"sqlite:///{directory / name}.db"
    found = [_run(path, budget, None) for budget in budgets[:-1]]
    found.append(_run(path, budgets[-1], None, prices))
    found.append(_run(path, budgets[0], None, prices))
    found += [] if other is None else [_run(path, budget, other) for budget in budgets]
    gains = [before / after - 1 for before, after in found]
    most = gains[len(budgets) - 1]
    cells = (f"{gain:.2%} ({gain / most:.0%})" if most > 0 else f"{gain:.2%}" for gain in gains)
    nodes = len(lift(load_model(path)).source.proto.graph.node)
    return f"| {' | '.join((name, str(nodes), f'{found[0][0]:,.0f}', *cells))} |"


def _run(path: Path, budget: float, checkout: Path | None, prices: str | None = None) -> tuple[float, float]:
    """What a new process predicts, before and after its search."""
    here = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": str(checkout.resolve() if checkout else here)}
    command = [sys.executable, __file__, str(path.resolve()), "--cell", str(budget)]
    command += [] if prices is None else ["--prices", prices]
    done = subprocess.run(command, env=environment, cwd=checkout or here, stdout=subprocess.PIPE, check=True)
    before, after = json.loads(done.stdout)
    return before, after


def _found(path: Path, budget: float, prices: str | None) -> tuple[float, float]:
    deadline = time.monotonic() + budget
    lifted, rules = _read(path)
    if prices is None:
        return _search(lifted, rules, MemoryCostStore(), deadline)
    with open_database(prices) as database:
        return _search(lifted, rules, database.costs, deadline)


def _search(
    lifted: LiftedModel, rules: Sequence[Substitution], store: CostStore, deadline: float
) -> tuple[float, float]:
    start = _priced(lifted, store)
    if isinstance(start.objective, Latency):
        start.objective.deadline = deadline
    limits = SearchLimits(deadline=deadline)
    result = search_named("auto").run(start, RuleSet(rules), Watch(limits))
    return start.total, result.best.total


def _read(path: Path) -> tuple[LiftedModel, list[Substitution]]:
    lifted = lift(load_model(path))
    with open_database(None) as database:
        rules = api.verified_substitutions(database)
    return lifted, list(usable_rules(rules, Options(), lifted.source.opset))


def _priced(lifted: LiftedModel, store: CostStore) -> GraphCost:
    """The canonical graph by measurements with one thread, the costliest kernels measured twice."""
    objective = Latency(store, threads=1)
    sizes = Sizes(lifted.graph, {}, Origin(lifted))
    start = GraphCost.of(canonicalise(lifted).graph, objective, sizes)
    objective.measure_again()
    return start.refreshed()


def _model(name: str, directory: Path) -> Path:
    target = directory / f"{name}.onnx"
    for model in MODELS:
        if model.name == name:
            return fixed(model.origin.install(INSTALLED), model.shapes, target)
    target.write_bytes(zoo.build(name).SerializeToString())
    return target


if __name__ == "__main__":
    main()
