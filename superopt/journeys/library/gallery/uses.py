"""Number of sites at which rules apply, by zoo network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from superopt import zoo
from superopt.ir import Graph
from superopt.onnx_io import lift, load_model
from superopt.ops.traits import HALVES
from superopt.rewriting import Substitution, apply_match, find_matches

NETWORKS = ("squeezenet", "resnext50", "bert-base", "nasrnn", "light-inception_v2", "light-shufflenet")
_MOST_SITES = 20


def sites(rules: Iterable[Substitution], networks: Sequence[str]) -> Mapping[str, Counter[str]]:
    """Number of sites by rule and network, at most 20 each, not counting sites on weights only."""
    found: dict[str, Counter[str]] = {}
    chosen = tuple(rules)
    for name in networks:
        graph = _graph(name)
        present = frozenset(node.operator.name for node in graph)
        for rule in chosen:
            count = _sites(graph, rule) if _needed(rule) <= present else 0
            if count:
                found.setdefault(rule.rule_id, Counter())[name] += count
    return found


@cache
def _graph(name: str) -> Graph:
    return lift(load_model(zoo.build(name))).graph


def _needed(rule: Substitution) -> frozenset[str]:
    """The operators that a graph must contain for the rule to match; halves count as splits."""
    return frozenset(term.operator for term in rule.source_applications if term.inputs).difference(HALVES)


def _sites(graph: Graph, rule: Substitution) -> int:
    count = 0
    for match in find_matches(graph, rule):
        beside_weights = any(value.node not in graph.weight_only for value in match.outputs)
        if beside_weights and apply_match(graph, match) is not None:
            count += 1
            if count == _MOST_SITES:
                break
    return count


__all__ = ["NETWORKS", "sites"]
