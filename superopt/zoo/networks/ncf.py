"""Neural collaborative filtering (He et al. 2017): NeuMF, a product of embeddings beside dense layers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from superopt.zoo import weights
from superopt.zoo.blueprint import Blueprint
from superopt.zoo.builder import GraphBuilder
from superopt.zoo.networks.language.transformer import linear

__all__ = ["light_ncf", "ncf"]


@dataclass(frozen=True)
class Sizes:
    """Rows of the tables, columns of the embeddings whose product is taken, and widths of the dense layers,
    of which the first is the width of a user's and an item's embedding together."""

    users: int
    items: int
    factors: int
    layers: tuple[int, ...]


MOVIELENS = Sizes(users=138_493, items=26_744, factors=64, layers=(256, 256, 128, 64))
"""MovieLens-20M, with the sizes of MLPerf Training v0.5."""

LIGHT = Sizes(users=200, items=100, factors=8, layers=(32, 16, 8))


def ncf(batch: int) -> Blueprint:
    """int64 users [batch] and items [batch] -> the probability of an interaction [batch, 1]."""
    return _neumf("ncf", MOVIELENS, batch)


def light_ncf(batch: int) -> Blueprint:
    """The same for 200 users and 100 items, with predictive factor 8 as in the paper's experiments."""
    return _neumf("light-ncf", LIGHT, batch)


def _neumf(name: str, sizes: Sizes, batch: int) -> Blueprint:
    graph = GraphBuilder(name, 13)
    user = graph.input("user", (batch,), np.int64)
    item = graph.input("item", (batch,), np.int64)

    def embedded(branch: str, columns: int) -> tuple[str, str]:
        return (
            _rows(graph, f"{branch}_embed_user", (sizes.users, columns), user),
            _rows(graph, f"{branch}_embed_item", (sizes.items, columns), item),
        )

    factors = graph.node("Mul", embedded("mf", sizes.factors), "mf")
    x = graph.node("Concat", embedded("mlp", sizes.layers[0] // 2), "mlp", {"axis": 1})
    for index, widths in enumerate(pairwise(sizes.layers)):
        x = linear(graph, f"mlp.{index}", x, widths, math.sqrt(2.0) if index else 1.0)
        x = graph.node("Relu", [x], f"mlp.{index}.relu")
    both = graph.node("Concat", [factors, x], "both", {"axis": 1})
    score = linear(graph, "final", both, (sizes.factors + sizes.layers[-1], 1))
    graph.output(graph.node("Sigmoid", [score], "probability"), (batch, 1))
    return graph.blueprint()


def _rows(graph: GraphBuilder, name: str, shape: tuple[int, int], indices: str) -> str:
    table = graph.weight(f"{name}.weight", weights.normal(shape, 1.0))
    return graph.node("Gather", [table, indices], f"{name}.out", {"axis": 0})
