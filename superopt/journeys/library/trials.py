"""Trial searches with a set of rules over zoo networks and micrographs, under analytic costs.

Searches are limited by candidates, never by time, and use a fixed seed, so that results depend only on the
rules and this software.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from superopt import zoo
from superopt.equations import parse_equation
from superopt.ir.graph import Graph
from superopt.onnx_io import lift, load_model
from superopt.optimizer.canonical import canonicalise
from superopt.optimizer.cost import GraphCost, Nominal, Sizes
from superopt.optimizer.pipeline.selection import is_safe_with_infinities
from superopt.optimizer.search import RuleSet, SearchLimits, Watch, search_named
from superopt.rewriting import Substitution, substitutions_of
from superopt.zoo.micrographs import WITH_HEADROOM, WITHOUT_HEADROOM

NETWORKS = (
    "bert-base",
    "light-densenet121",
    "light-inception_v1",
    "light-inception_v2",
    "light-shufflenet",
    "llama-block",
    "mobilenet-v3",
    "nasrnn",
    "repvgg",
    "resnext50",
    "squeezenet",
)
"""Networks that differ in their operators: images by plain, grouped, depthwise and merged convolutions,
attention, recurrence."""

MICROGRAPHS = {**WITH_HEADROOM, **WITHOUT_HEADROOM}

CANDIDATES = 5_000
"""Graphs that the search of a network looks at: enough for all but the last per cent of what it finds in any
time. A small graph gets a quarter of that."""

_SHARE_OF_SMALL = 4


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a search: cost in microseconds before and after, and the rules applied."""

    before: float
    after: float
    rules: frozenset[str]


def searched(
    rules: Mapping[str, str], names: Iterable[str], candidates: int = CANDIDATES
) -> Mapping[str, Trial]:
    """Searches each of the named graphs with these rules (equations by id)."""
    usable = _rule_set(tuple(rules.items()))
    return {name: _trial(_graph(name), usable, _allowed(name, candidates)) for name in names}


def graphs() -> Sequence[str]:
    """The names of all graphs: networks of the zoo, then micrographs."""
    return (*NETWORKS, *MICROGRAPHS)


def applied(rules: Mapping[str, str]) -> tuple[Substitution, ...]:
    """The directions that a search applies: none that divide tensors or may turn finite numbers infinite."""
    return tuple(way for rule, equation in rules.items() for way in _directions(rule, equation))


@cache
def _directions(rule: str, equation: str) -> tuple[Substitution, ...]:
    ways = substitutions_of(parse_equation(equation), rule)
    return tuple(way for way in ways if not way.divides and is_safe_with_infinities(way))


@lru_cache(maxsize=4)
def _rule_set(rules: tuple[tuple[str, str], ...]) -> RuleSet:
    return RuleSet(applied(dict(rules)))


def _allowed(name: str, candidates: int) -> int:
    return max(1, candidates // _SHARE_OF_SMALL) if name in MICROGRAPHS else candidates


def _trial(graph: Graph, rules: RuleSet, candidates: int) -> Trial:
    start = GraphCost.of(graph, Nominal(), Sizes(graph, {}))
    watch = Watch(SearchLimits(deadline=math.inf, max_candidates=candidates))
    found = search_named("auto").run(start, rules, watch)
    return Trial(start.total, found.best.total, frozenset(step.rule for step in found.trace))


@lru_cache(maxsize=1)
def _graph(name: str) -> Graph:
    model = MICROGRAPHS[name].original() if name in MICROGRAPHS else zoo.build(name)
    return canonicalise(lift(load_model(model))).graph


__all__ = ["CANDIDATES", "MICROGRAPHS", "NETWORKS", "Trial", "applied", "graphs", "searched"]
