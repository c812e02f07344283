"""How often a model is found faster than itself, and a real gain found, on a busy machine.

    python -m benchmarks null_races [--count 200] [--load 0 4 12] [--seconds 1 3 10] [--threads 1 2]
                                    [--model NAME ...] [--gains] [--optimize] [--out FILE.jsonl]

A race is what decides on a rewritten model: `compare_latency` with so many seconds. Most race a network
against its own bytes; with ``--gains`` a chain of products races one with fewer of them, whose gain is known;
with ``--optimize`` the whole command runs on a network that nothing makes faster (seconds are its budget).
The load is made here, by so many busy processes. Every race is a line of the file, with the load average at
its end; a race that the file has is not run again: an interrupted experiment goes on. Ends with a table.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np

from superopt import zoo
from superopt.onnx_io import lift, load_model
from superopt.optimizer.check import compare_latency, plan_inputs
from superopt.optimizer.check.interval import DOUBT
from superopt.optimizer.cost.runtime.session import Array, LoadedModel
from superopt.zoo.builder import GraphBuilder
from superopt.zoo.weights import normal

SPIN = "import os, sys\nwhile os.getppid() == int(sys.argv[1]):\n    for _ in range(100_000): pass\n"
MOVE = (
    "import os, sys, numpy\na = numpy.ones(4_000_000)\nb = a.copy()\n"
    "while os.getppid() == int(sys.argv[1]):\n    numpy.copyto(b, a)\n"
)
"""Busy processes, which end with the one that started them: of the processor alone, and of memory, too."""

TINY, SMALL, LARGE = "products-32x8", "products-96x8", "products-512x12"
NULLS = (TINY, SMALL, "light-squeezenet", "light-shufflenet", "nasrnn", "mobilenet-v3", LARGE, "resnet50")
GAINS = (
    (TINY, "products-32x5"),
    (SMALL, "products-96x7"),
    (SMALL, "products-96x5"),
    (LARGE, "products-512x10"),
    (LARGE, "products-512x8"),
)


@dataclass(frozen=True, slots=True)
class Setting:
    """One race: which models, how; ``after`` is the second model, or what is run."""

    model: str
    after: str
    threads: int
    load: int
    seconds: float
    seed: int

    @property
    def is_null(self) -> bool:
        """Whether there is nothing to gain."""
        return self.after in (self.model, "optimize")

    @property
    def name(self) -> str:
        """What is raced, in a table."""
        return "null" if self.is_null else f"{self.model} to {self.after}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a race said, and how busy the machine was."""

    setting: Setting
    accepted: bool
    undecided: bool
    ratio: float
    low: float
    high: float
    rounds: int
    runs: int
    share: float
    took: float
    load_average: float
    why: str = ""


def chain(size: int, count: int) -> bytes:
    """So many products of square matrices, one after another."""
    builder = GraphBuilder(f"products-{size}x{count}")
    value = builder.input("x", (size, size))
    for place in range(count):
        weight = builder.weight(f"w{place}", normal((size, size), size**-0.5))
        value = builder.node("MatMul", [value, weight], f"y{place}")
    builder.output(value, (size, size))
    return builder.blueprint().model(0).SerializeToString()


@cache
def content(name: str) -> bytes:
    """A model: a chain of products, a file, or a network of the zoo."""
    if name.startswith("products-"):
        size, count = map(int, name.removeprefix("products-").split("x"))
        return chain(size, count)
    return Path(name).read_bytes() if name.endswith(".onnx") else zoo.build(name).SerializeToString()


@cache
def feeds(name: str) -> Mapping[str, Array]:
    """Random inputs of a model."""
    lifted = lift(load_model(content(name)))
    plan = plan_inputs(lifted, LoadedModel(content(name), 1).inputs, {})
    return plan.draw(np.random.default_rng(0), next(plan.size_choices()), "normal")


@contextmanager
def busy(count: int) -> Generator[None]:
    """So many busy processes, of either kind in turn, for a ``with`` block."""
    parent = str(os.getpid())
    started = [
        subprocess.Popen([sys.executable, "-c", (SPIN, MOVE)[place % 2], parent]) for place in range(count)
    ]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def race(setting: Setting) -> Outcome:
    """A race as the first rewritten model has it; what is undecided takes half as long again."""
    first, second = content(setting.model), content(setting.after)
    given = feeds(setting.model)
    began = time.monotonic()
    found = compare_latency(
        first,
        second,
        given,
        threads=setting.threads,
        seconds=setting.seconds,
        longest=1.5 * setting.seconds,
        doubt=DOUBT / 2,
        seed=setting.seed,
    )
    return Outcome(
        setting=setting,
        accepted=found.is_faster,
        undecided=found.is_undecided,
        ratio=round(found.ratio, 4),
        low=round(found.low, 4),
        high=round(found.high, 4),
        rounds=found.rounds,
        runs=found.runs,
        share=round(found.share, 3),
        took=round(time.monotonic() - began, 2),
        load_average=os.getloadavg()[0],
    )


def optimized(setting: Setting) -> Outcome:
    """The whole command with a budget."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        model, report = Path(directory) / "model.onnx", Path(directory) / "report.json"
        model.write_bytes(content(setting.model))
        options = ("--budget", setting.seconds, "--seed", setting.seed, "--threads", setting.threads)
        command = ["optimize", model, "-o", Path(directory) / "out.onnx", "--report", report, *options]
        subprocess.run(
            [sys.executable, "-m", "superopt", *map(str, command)], check=True, capture_output=True
        )
        written = json.loads(report.read_text(encoding="utf-8"))
    measured = written["measured"]
    low, high = measured["interval"] if measured else (1.0, 1.0)
    return Outcome(
        setting=setting,
        accepted=written["returned"] == "optimized",
        undecided="undecided" in written["why"],
        ratio=measured["ratio"] if measured else 1.0,
        low=low,
        high=high,
        rounds=0,
        runs=measured["runs"] if measured else 0,
        share=1.0,
        took=round(time.monotonic() - began, 2),
        load_average=os.getloadavg()[0],
        why=written["why"],
    )


def settings(arguments: argparse.Namespace) -> Iterator[Setting]:
    """Count races for each load, over models, threads and seconds in turn."""
    if arguments.optimize:
        names = [(name, "optimize") for name in arguments.model or ("light-squeezenet",)]
    elif arguments.gains:
        names = list(GAINS)
    else:
        names = [(name, name) for name in arguments.model or NULLS]
    given: tuple[list[float], list[int]] = (arguments.seconds, arguments.threads)
    kinds = list(product(*given, names))
    for seed in range(arguments.count):
        seconds, threads, (model, after) = kinds[seed % len(kinds)]
        for load in arguments.load:
            yield Setting(model, after, threads, load, seconds, seed)


def recorded(path: Path) -> list[Outcome]:
    """The races of a file."""
    if not path.exists():
        return []
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [Outcome(Setting(**line.pop("setting")), **line) for line in lines]


def table(outcomes: Sequence[Outcome]) -> str:
    """For each load and kind of race: how many there were, were accepted, and stayed undecided."""
    rows = ["| load | race | races | accepted | undecided | median interval | median seconds |"]
    rows.append("|---|---|---|---|---|---|---|")
    for load, name in sorted({(outcome.setting.load, outcome.setting.name) for outcome in outcomes}):
        some = [o for o in outcomes if (o.setting.load, o.setting.name) == (load, name)]
        widths = np.median([outcome.high / outcome.low for outcome in some])
        rows.append(
            f"| {load} | {name} | {len(some)} | {sum(o.accepted for o in some)} | "
            f"{sum(o.undecided for o in some)} | ±{(widths**0.5 - 1) * 100:.1f} % | "
            f"{np.median([o.took for o in some]):.1f} |"
        )
    return "\n".join(rows)


def main() -> int:
    """Runs the races that the file does not have; 1 where more than 1 in 100 null races was accepted."""
    parser = argparse.ArgumentParser(prog="null_races", description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--load", type=int, nargs="+", default=[0, 4, 12])
    parser.add_argument("--seconds", type=float, nargs="+", default=[1.0, 3.0, 10.0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--model", nargs="+")
    parser.add_argument("--gains", action="store_true")
    parser.add_argument("--optimize", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("build/bench/null_races.jsonl"))
    arguments = parser.parse_args()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    run = optimized if arguments.optimize else race
    done = {outcome.setting for outcome in recorded(arguments.out)}
    for setting in settings(arguments):
        if setting in done:
            continue
        feeds(setting.model)
        with busy(setting.load):
            outcome = run(setting)
        with arguments.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(outcome)) + "\n")
        if sys.stderr.isatty() or outcome.accepted:
            sys.stderr.write(f"{setting}: {outcome.ratio} ({outcome.low} to {outcome.high})\n")
    outcomes = recorded(arguments.out)
    sys.stdout.write(table(outcomes) + "\n")
    nulls = [outcome for outcome in outcomes if outcome.setting.is_null]
    return int(sum(o.accepted for o in nulls) > 0.01 * len(nulls))


if __name__ == "__main__":
    sys.exit(main())
