"""What the search derives step by step equals what it would compute from scratch."""

from __future__ import annotations

import random

import pytest

from superopt.ir import Graph
from superopt.ops.elementwise.activation import Erf, Relu, Sigmoid
from superopt.ops.elementwise.affine import Affine, BiasAdd, ChannelScale
from superopt.ops.elementwise.arithmetic import Add, Identity, Multiply, Scale, Subtract
from superopt.ops.images.convolution import Conv
from superopt.ops.matrix import Matmul
from superopt.ops.shape import Broadcast, Concat, Reshape
from superopt.optimizer.cost import Flops, GraphCost, Kernel, PeakMemory, Price, Sizes, Traffic
from superopt.optimizer.cost.objective import Objective
from superopt.optimizer.search.rules import RuleSet
from superopt.optimizer.search.state import FINGERPRINT_MASK, State
from superopt.rewriting import Match, find_matches
from tests.optimizer.graphs import Builder, dense_blocks, shared_products
from tests.optimizer.rules import ALL, rules


class LayoutSensitive:
    """Prices in which a convolution puts its result in the blocked layout, and some elementwise steps keep it
    while the others convert what they read."""

    unit = "us"
    source = "analytic"

    def known(self, kernel: Kernel) -> Price:
        names = [step.operator.name for step in kernel.steps]
        blocked = any(source.blocked for source in kernel.sources)
        keeps = "conv" in names or (blocked and names[-1] in ("relu", "affine", "add"))
        restoring = 0.0 if keeps else 4.0 * sum(source.blocked for source in kernel.sources)
        return Price(1.0 + len(names) + restoring, keeps, restoring)

    def bound(self, kernel: Kernel) -> float:
        return 0.0

    def price(self, kernel: Kernel) -> Price:
        return self.known(kernel)


def mixed_graph(seed: int) -> Graph:
    """Images through random layers, with a gate, shared sources and several outputs."""
    draw = random.Random(seed)
    b = Builder()
    values = [b.input("x", 1, 4, 6, 6), b.input("y", 1, 4, 6, 6)]
    for _ in range(14):
        x, y = draw.choice(values), draw.choice(values)
        match draw.randrange(10):
            case 0:
                v = b.add(Conv(padding="same"), x, b.weight(4, 4, 3, 3))
            case 1:
                v = b.add(Affine(1), x, b.weight(4), b.weight(4))
            case 2:
                v = b.add(ChannelScale(1), x, b.weight(4))
            case 3:
                v = b.add(BiasAdd(1), x, b.weight(4))
            case 4:
                v = b.add(draw.choice((Relu(), Sigmoid(), Identity())), x)
            case 5:
                v = b.add(Add(), x, y)
            case 6:
                v = b.add(Multiply(), x, y)
            case 7:
                v = b.add(Multiply(), x, b.add(Erf(), b.add(Scale(), x, b.weight())))
            case 8:
                v = b.add(Matmul(), x, b.weight(6, 6))
            case _:
                joined = b.add(Concat(1), x, y)
                v = b.add(Conv(padding="same"), b.add(Relu(), joined), b.weight(4, 8, 1, 1))
        values.append(v)
    return b.graph(*values[-3:])


def described(match: Match) -> tuple[object, ...]:
    return (
        match.substitution.rule_id,
        match.substitution.backwards,
        match.sites,
        sorted(match.values.items()),
        sorted((name, str(value)) for name, value in match.attributes.items()),
    )


@pytest.mark.parametrize(
    "objective", [Traffic(), Flops(), PeakMemory(), LayoutSensitive()], ids=lambda o: type(o).__name__
)
@pytest.mark.parametrize("seed", range(12))
def test_costs_matches_and_fingerprints_follow_any_walk(objective: Objective, seed: int) -> None:
    graph = (mixed_graph(seed), dense_blocks(3, 4, 4), shared_products(3), mixed_graph(seed))[seed % 4]
    draw = random.Random(seed)
    rule_set = RuleSet(rules(*ALL))
    state = State.start(GraphCost.of(graph, objective, Sizes(graph, {})))
    fingerprints: dict[int, tuple[float, int]] = {}
    for _ in range(12):
        state.find(rule_set)
        full = rule_set.matches(state.graph, state.cost.free)
        kept = {repr(described(o.match)) for o in state.found}
        for opportunity in state.found:
            opportunity.impossible = False
        assert kept == {repr(described(match)) for match in full}
        after = None
        for match in draw.sample(full, len(full)):
            rewrite = state.rewritten(match)
            if rewrite is not None:
                candidate = state.after(match, rewrite)
                assert candidate is not None
                after = candidate.build()
                assert (after.cost.total, after.digest.fingerprint) == (
                    candidate.cost.total,
                    candidate.digest.fingerprint,
                )
                break
        if after is None:
            break
        scratch = after.cost.refreshed()
        assert after.cost.total == scratch.total
        assert after.cost.free == set(after.graph.weight_only)
        assert {m: p.group for m, p in after.cost.owner.items()} == {
            m: p.group for m, p in scratch.owner.items()
        }
        assert 0 <= after.digest.fingerprint <= FINGERPRINT_MASK
        known = fingerprints.setdefault(after.digest.fingerprint, (after.cost.total, len(after.graph)))
        assert known == (after.cost.total, len(after.graph))
        state = after


def test_commuting_rewrites_reach_one_fingerprint() -> None:
    graph = dense_blocks(3, 4, 4)
    rule_set = RuleSet(rules(*ALL))
    start = State.start(GraphCost.of(graph, Traffic(), Sizes(graph, {})))
    start.find(rule_set)
    found: set[int] = set()
    for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
        state = start
        for index in order:
            match = start.found[index].match
            rewrite = state.rewritten(match)
            assert rewrite is not None
            candidate = state.after(match, rewrite)
            assert candidate is not None
            state = candidate.build()
        found.add(state.digest.fingerprint)
    assert len(found) == 1


@pytest.mark.parametrize("seed", range(8))
def test_the_net_lets_every_match_through(seed: int) -> None:
    graph = (mixed_graph(seed), shared_products(3))[seed % 2]
    substitutions = rules(*ALL, "mul(scale(x, ones[shape=()]), y) => mul(x, y)")
    rule_set, free = RuleSet(substitutions), graph.weight_only
    everywhere = [m for s in rule_set.substitutions for m in find_matches(graph, s)]
    running = [m for m in everywhere if any(value.node not in free for value in m.outputs)]
    assert [described(m) for m in rule_set.matches(graph, free)] == [described(m) for m in running]


def test_matching_ends_when_the_time_is_over() -> None:
    """Of a large graph with many rules, finding all matches alone may take longer than there is."""
    graph, rule_set = dense_blocks(40, 4, 4), RuleSet(rules(*ALL))
    state = State.start(GraphCost.of(graph, Flops(), Sizes(graph, {})))
    everything = rule_set.matches(graph, state.cost.free)
    assert rule_set.matches(graph, state.cost.free, lambda: False) == []
    answers = iter([True] * (len(graph.nodes) + 1))
    some = rule_set.matches(graph, state.cost.free, lambda: next(answers, False))
    assert len(some) < len(everything)
    assert [described(match) for match in some] == [described(match) for match in everything[: len(some)]]
    state.find(rule_set, lambda: False)
    assert state.found == []


@pytest.mark.parametrize("equation", ["add(x, y) => sum(x, y)", "mul(x, y) => add(x, y)"])
def test_another_operator_on_the_same_operands_is_another_graph(equation: str) -> None:
    b = Builder()
    graph = b.graph(b.add(Add() if "sum" in equation else Multiply(), b.input("x", 4, 4), b.input("y", 4, 4)))
    start = State.start(GraphCost.of(graph, Traffic(), Sizes(graph, {})))
    start.find(RuleSet(rules(equation)))
    rewrite = start.rewritten(start.found[0].match)
    assert rewrite is not None
    candidate = start.after(start.found[0].match, rewrite)
    assert candidate is not None
    assert candidate.digest.fingerprint != start.digest.fingerprint


def test_a_number_is_found_again_behind_what_repeats_it() -> None:
    """The sum is three edges from the change, farther than its rule is high; a higher rule is known, too."""
    b = Builder()
    v, x = b.input("v", 4, 6), b.input("x", 2, 3, 1)
    zeros = b.add(Broadcast((4, 6)), b.add(Reshape((6,)), b.add(Subtract(), x, x)))
    graph = b.graph(b.add(Add(), v, zeros))
    higher = "relu(relu(relu(relu(x)))) => relu(x)"
    cancelled, dropped, _ = known = rules("sub(x, x) => full[value=0]", "add(x, full[value=0]) => x", higher)
    state = State.start(GraphCost.of(graph, Traffic(), Sizes(graph, {})))
    state.find(RuleSet(known))
    (first,) = [o.match for o in state.found if o.match.substitution is cancelled]
    rewrite = state.rewritten(first)
    assert rewrite is not None
    after = state.after(first, rewrite)
    assert after is not None
    again = after.build()
    again.find(RuleSet(known))
    assert dropped in [o.match.substitution for o in again.found]
