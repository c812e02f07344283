"""Plants semantic changes in models and rewrites them by proved rules: which of both the check tells apart.

    python -m benchmarks equivalence MODEL.onnx|NETWORK ... [--places 4] [--rewrites 5] [--dim batch=2]

A planted change counts where it moves an output, or what saturates to one, by more than the floor in double
precision on some sample; others are counted apart. True rewrites are what searches under random prices find.
Exit code 1 if a change that counts was accepted, or a true rewrite refused.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from superopt import zoo
from superopt.errors import SuperoptError
from superopt.ir import NodeId, Plan
from superopt.journeys.in_process import verified_substitutions
from superopt.onnx_io import LiftedModel, lift, load_model, lower
from superopt.optimizer import Options
from superopt.optimizer.canonical import canonicalise
from superopt.optimizer.check import Reference, Sampling, check_equivalence, plan_inputs
from superopt.optimizer.check.distance import distance
from superopt.optimizer.check.precise import PreciseModel
from superopt.optimizer.cost import GraphCost, Sizes
from superopt.optimizer.cost.runtime.session import LoadedModel, RuntimeRefusedError
from superopt.optimizer.pipeline.runnable import runnable_original
from superopt.optimizer.pipeline.selection import usable_rules
from superopt.optimizer.search import Backtracking, RuleSet, SearchLimits, Watch
from superopt.rewriting import Substitution
from superopt.substitution_db import open_database
from tests.fuzz.journey import Whim
from tests.optimizer.plants import all_planted

_SEARCH_SECONDS = 60.0
_CANDIDATES = 200


@dataclass(frozen=True, slots=True)
class Tally:
    """Changes that count and how many were refused, others, rewrites and how many were accepted."""

    planted: int
    refused: int
    beneath: int
    rewrites: int
    accepted: int


def main() -> int:
    """Prints a line per model, and one per mistake."""
    parser = argparse.ArgumentParser(prog="benchmarks equivalence", description=__doc__)
    parser.add_argument("models", nargs="+", help="files, or networks of the zoo")
    parser.add_argument("--places", type=int, default=4)
    parser.add_argument("--rewrites", type=int, default=5)
    parser.add_argument("--dim", action="append", default=[])
    arguments = parser.parse_args()
    dims = {name: int(size) for name, _, size in (text.rpartition("=") for text in arguments.dim)}
    with open_database(None) as opened:
        rules = verified_substitutions(opened)
    wrong = 0
    for name in arguments.models:
        began = time.process_time()
        tally = _tried(name, dims, arguments.places, arguments.rewrites, rules)
        wrong += tally.planted - tally.refused + tally.rewrites - tally.accepted
        sys.stdout.write(
            f"{Path(name).stem}: {tally.refused} of {tally.planted} changes refused, {tally.beneath} below "
            f"the floor; {tally.accepted} of {tally.rewrites} rewrites accepted; "
            f"{time.process_time() - began:.0f} s of processor time\n"
        )
        sys.stdout.flush()
    return int(wrong > 0)


def _tried(
    name: str, dims: Mapping[str, int], places: int, rewrites: int, rules: Sequence[Substitution]
) -> Tally:
    source = Path(name) if Path(name).is_file() else zoo.build(name)
    lifted = lift(load_model(source))
    with tempfile.TemporaryDirectory() as directory:
        loaded = LoadedModel(runnable_original(lifted, Path(directory)), threads=1)
    reference = Reference(loaded, plan_inputs(lifted, loaded.inputs, dims), Sampling(), lifted.source)
    samples = tuple(reference.samples())
    if not samples:
        raise SystemExit(f"{name}: the original does not run on random inputs")
    planted = refused = beneath = accepted = made = 0
    for kind, where, content in all_planted(lifted.source.as_given.proto, places):
        try:
            changed = LoadedModel(content, threads=1)
            changed.run(samples[0].feeds)
        except RuntimeRefusedError:
            continue
        if check_equivalence(reference, changed).passed:
            if _moves(reference, content):
                planted += 1
                sys.stdout.write(f"  accepted: {kind}, {where}\n")
            else:
                beneath += 1
        else:
            planted, refused = planted + 1, refused + 1
    for seed in range(rewrites):
        content = _rewritten(lifted, rules, seed)
        verdict = check_equivalence(reference, LoadedModel(content, threads=1))
        made, accepted = made + 1, accepted + verdict.passed
        if not verdict.passed:
            sys.stdout.write(f"  refused: rewrite {seed}: {verdict.why}\n")
    return Tally(planted, refused, beneath, made, accepted)


def _moves(reference: Reference, content: bytes) -> bool:
    """Whether a change is seen in double precision."""
    changed = PreciseModel(load_model(content), threads=1)
    operands = reference.baseline.operands
    for sample in reference.samples():
        own = reference.baseline.precise(sample)
        try:
            other = changed.run(sample.feeds, math.inf, operands).tensors
        except SuperoptError:
            continue
        for name, array in own.tensors.items() if own is not None else ():
            if array.dtype.kind == "f" and distance(other[name], array).largest > reference.tolerance:
                return True
    return False


def _rewritten(lifted: LiftedModel, rules: Sequence[Substitution], seed: int) -> bytes:
    graph = canonicalise(lifted, frozenset[NodeId]()).graph
    start = GraphCost.of(graph, Whim(seed), Sizes(graph, {}))
    usable = RuleSet(tuple(usable_rules(rules, Options(), lifted.source.opset)))
    limits = SearchLimits(
        deadline=time.monotonic() + _SEARCH_SECONDS, alpha=1.2, max_candidates=_CANDIDATES, seed=seed
    )
    found = Backtracking().run(start, usable, Watch(limits))
    return lower(lifted, found.best.graph, Plan()).to_bytes()


if __name__ == "__main__":
    sys.exit(main())
