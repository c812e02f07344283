"""Recomputation against the optimum, and published baselines against what they promise."""

from __future__ import annotations

from dataclasses import replace

import pytest

from superopt.errors import UnsupportedError
from superopt.optimizer.memory.baselines import chen, raf_recompute
from superopt.optimizer.memory.exact import optimal
from superopt.optimizer.memory.liveness import Program, liveness
from superopt.optimizer.memory.recompute import recompute
from tests.optimizer.memory.programs import LAYER_BYTES, layers, random_program


def plain(program: Program) -> Program:
    """The program without views, overwritten operands and workspaces."""
    operations = tuple(replace(one, is_view=False, overwrites=(), workspace=0) for one in program.operations)
    return replace(program, operations=operations)


CASES = [(layers(6), share) for share in (9, 7, 6)] + [
    (plain(random_program(seed, count=9)), share) for seed in range(12) for share in (9, 8)
]


def test_recomputation_is_close_to_the_optimum() -> None:
    """Never below the optimum; where both meet the limit, at most a few per cent above it on average."""
    pytest.importorskip("scipy")
    ratios: list[float] = []
    for program, share in CASES:
        limit = liveness(program).peak * share // 10
        best, found = optimal(program, limit), recompute(program, program.order, limit)
        if best is None:
            assert found.peak > limit
            continue
        assert liveness(program, best.schedule).peak <= limit
        if found.peak <= limit:
            assert found.cost >= best.cost - 1e-6
            ratios.append(found.cost / best.cost)
        else:
            ratios.append(float("inf"))
    met = [ratio for ratio in ratios if ratio < float("inf")]
    assert len(met) >= 0.9 * len(ratios)
    assert sum(met) / len(met) <= 1.02


def test_the_optimum_is_for_small_plain_programs() -> None:
    with pytest.raises(UnsupportedError, match="at most 40 operations, got 60"):
        optimal(layers(30), 1000)
    with pytest.raises(UnsupportedError, match="without views"):
        optimal(random_program(1), 1000)


@pytest.mark.parametrize("share", [9, 7, 5])
def test_raf_keeps_within_the_limit_at_no_less_cost(share: int) -> None:
    program = layers(16)
    limit = liveness(program).peak * share // 10
    baseline = raf_recompute(program, program.order, limit)
    assert baseline is not None
    assert baseline.peak <= limit
    assert recompute(program, program.order, limit).cost <= baseline.cost


def test_raf_gives_up_where_chains_are_deep() -> None:
    program = layers(16)
    limit = liveness(program).peak * 4 // 10
    assert raf_recompute(program, program.order, limit) is None
    assert recompute(program, program.order, limit).peak <= limit


def test_segments_need_the_root() -> None:
    """Of 36 layers, Chen's six segments keep six tensors and one segment, and run the others again."""
    program = layers(36)
    found = chen(program, program.order, last_forward=35)
    assert found.peak <= (6 + 6 + 2) * LAYER_BYTES
    assert found.cost <= 1.5 * program.cost(program.order)
    assert recompute(program, program.order, found.peak).cost <= found.cost
