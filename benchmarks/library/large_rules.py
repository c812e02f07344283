"""Shipped rules of four and more operators that smaller ones do not give, and what they gain.

    python -m benchmarks large_rules [GRAPH ...] [--peers FILE ...] [--steps 4] [--graphs 200] [--budget 10]

A rule is looked at if one of its sides has at least four operators, if the run that found it enumerated terms
of at least four, if at most ``--steps`` steps by all shipped rules without such a side do not derive it
(``superopt.rewriting.derivability``; ``--graphs`` are expanded from either side), and if it is in none of the
peers' files, which are read as ``superopt library coverage`` reads them. Then the micrographs (or those that
are named, or ONNX files) are optimised by measured prices, and again without each such rule that was used.
Printed are both speed-ups over the original: all three models run in turn.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from benchmarks.models.interleaving import in_runtime, interleaved
from superopt.equations import parse_equation
from superopt.ir.terms import Equation
from superopt.journeys import in_process as api
from superopt.journeys.library.peers.derivation import identities, questions
from superopt.journeys.library.peers.files import format_of, read_rules
from superopt.journeys.library.peers.reading import Claim
from superopt.onnx_io import lift, load_model
from superopt.optimizer import Options
from superopt.optimizer.check import plan_inputs
from superopt.optimizer.check.interval import QUANTILE
from superopt.optimizer.cost.runtime.session import LoadedModel
from superopt.rewriting.derivability import Bounds, Theory
from superopt.rewriting.divisions import DIVIDING
from superopt.substitution_db.rules.exchange import read_shipped
from superopt.substitution_db.rules.shipped import SHIPPED_LIBRARY
from superopt.substitution_db.store.rows import NewRule
from superopt.zoo.micrographs import WITH_HEADROOM

LARGE = 4
SECONDS, PLACEMENTS, LEAST_SAMPLES = 3.0, 4, 12
"""Of timing, how often sessions are opened, and samples of each at least."""

_AT_MOST = re.compile(r"(\d+) operators$")


@dataclass(frozen=True)
class Row:
    """A rule and a graph: speed-ups over the original with all rules, and without this one."""

    rule: NewRule
    graph: str
    all_rules: float
    without: float

    def __str__(self) -> str:
        """The row in Markdown."""
        sizes = f"{len(self.rule.operators_source)}, {len(self.rule.operators_target)}"
        return (
            f"| `{self.rule.id}` | `{self.rule.equation.replace('|', chr(92) + '|')}` | {sizes} | "
            f"{self.rule.provenance} | {self.graph} | {self.all_rules:.2f} | {self.without:.2f} |"
        )


HEADER = (
    "| rule | equation | operators | found by | graph | all rules | without it |\n"
    "|---|---|---|---|---|---|---|\n"
)


def beyond(
    rules: Iterable[NewRule], peers: frozenset[str], bounds: Bounds
) -> tuple[Sequence[NewRule], Sequence[NewRule]]:
    """The large rules, and those of them that no peer has and that smaller ones do not give."""
    searched = [rule for rule in rules if not DIVIDING & rule.operators]
    small = Theory(parse_equation(rule.equation) for rule in searched if _size(rule) < LARGE)
    large = [rule for rule in searched if _size(rule) >= LARGE and _enumerated(rule) >= LARGE]
    return large, [rule for rule in large if _is_beyond(parse_equation(rule.equation), small, peers, bounds)]


def _is_beyond(equation: Equation, small: Theory, peers: frozenset[str], bounds: Bounds) -> bool:
    return not identities([equation]) & peers and small.derive(questions(equation), bounds) is None


def _size(rule: NewRule) -> int:
    return max(len(rule.operators_source), len(rule.operators_target))


def _enumerated(rule: NewRule) -> int:
    """The largest number of operators of the terms that the run enumerated; 0 for bilinear algorithms."""
    found = _AT_MOST.search(rule.provenance)
    return 0 if found is None else int(found[1])


def peers_rules(paths: Iterable[Path]) -> frozenset[str]:
    """The ids of all rules of peers' files, in general and as written."""
    claims = (rule.reading for path in paths for rule in read_rules(path, format_of(path)))
    return identities(form for one in claims if isinstance(one, Claim) for form in (one.general, one.written))


def gains(rules: Sequence[NewRule], graphs: Sequence[str], budget: float) -> Iterator[Row]:
    """The rules that optimising the graphs uses, with what each of them gains there."""
    known = {rule.id: rule for rule in rules}
    for name in graphs:
        original = onnx.load(name) if name not in WITH_HEADROOM else WITH_HEADROOM[name].original()
        used = api.optimize_with(original, Options(budget=budget, threads=1))
        for rule in sorted({step.rule for step in used.report.trace} & known.keys()):
            options = Options(budget=budget, threads=1, exclude_rules=(rule,))
            without = api.optimize_with(original, options)
            files = [original.SerializeToString(), used.to_bytes(), without.to_bytes()]
            first, second = _speedups(original, files)
            yield Row(known[rule], name, first, second)


def _speedups(original: onnx.ModelProto, files: Sequence[bytes]) -> Sequence[float]:
    """How many times as fast as the first file the others are."""
    inputs = LoadedModel(files[0], 1).inputs
    feeds = plan_inputs(lift(load_model(original)), inputs, {}).draw(np.random.default_rng(0), {}, "normal")
    opened = [in_runtime(file) for file in files]
    times = interleaved(opened, feeds, threads=1, seconds=SECONDS, rounds=PLACEMENTS, least=LEAST_SAMPLES)
    first, *others = (float(time) for time in np.quantile(times, QUANTILE, axis=(0, 1)))
    return [first / other for other in others]


def main() -> None:
    """Prints the counts, then a row for each rule and graph."""
    parser = argparse.ArgumentParser(prog="benchmarks large_rules", description=__doc__)
    parser.add_argument("graphs", nargs="*", default=[*WITH_HEADROOM])
    parser.add_argument("--peers", type=Path, nargs="+", default=[])
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--graphs", type=int, default=200, dest="expanded")
    parser.add_argument("--budget", type=float, default=10.0)
    given = parser.parse_args()
    bounds = Bounds(steps=given.steps, graphs=given.expanded)
    rules = [rule for rule, _ in read_shipped(SHIPPED_LIBRARY)]
    large, found = beyond(rules, peers_rules(given.peers), bounds)
    sys.stdout.write(f"{len(large)} rules of at least {LARGE} operators, {len(found)} that no others give\n")
    sys.stdout.write(f"\n{HEADER}")
    for row in gains(found, given.graphs, given.budget):
        sys.stdout.write(f"{row}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
