"""Pruning loses no optimisation: what was dropped follows from what was kept, by rewriting of graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from benchmarks.library.audit import UNFOUNDED, dropped, underivable
from superopt.equations import format_equation, parse_equation
from superopt.generator.enumerate.structures import Rows
from superopt.generator.pair.pairs import PairSource, Portion, in_portions
from superopt.generator.prune import pruning
from superopt.generator.prune.questions import generic_question
from superopt.rewriting.derivability import Theory
from superopt.rewriting.egraph import SaturationLimits

AUDITED: Mapping[str, tuple[str, int, int]] = {
    "all of matrix": ("matrix", 2, 200),
    "all of elementwise": ("elementwise", 2, 200),
    "all of convolution, with conditions": ("convolution", 2, 200),
    "some of matrix with three operators": ("matrix", 3, 25),
}


@pytest.mark.parametrize(("preset", "max_ops", "sample"), AUDITED.values(), ids=AUDITED)
def test_every_dropped_equation_is_derived_from_what_was_kept(preset: str, max_ops: int, sample: int) -> None:
    selection, looked_at = dropped(preset, max_ops, sample, seed=0)
    assert len(looked_at) == min(sample, sum(selection.dropped.values()))
    assert any(one.reason not in UNFOUNDED for one in looked_at)
    assert [format_equation(one.equation) for one in underivable(selection, looked_at)] == []


def test_portions_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    portions: list[int] = []

    def counted(sources: Sequence[PairSource], batch: Sequence[Rows], most: int) -> list[Portion]:
        found = list(in_portions(sources, batch, most))
        portions.append(len(found))
        return found

    monkeypatch.setattr(pruning, "TERMS_AT_ONCE", 8)
    monkeypatch.setattr(pruning, "in_portions", counted)
    selection, looked_at = dropped("matrix", 2, 200, seed=0)
    assert max(portions) > 1
    assert underivable(selection, looked_at) == ()


def test_an_audit_finds_what_was_lost() -> None:
    selection, looked_at = dropped("matrix", 2, 200, seed=0)
    associativity = "matmul(matmul(x, y), z) <=> matmul(x, matmul(y, z))"
    lost = [c for c in selection.candidates if c.text == associativity]
    assert lost
    selection.candidates.remove(lost[0])
    assert underivable(selection, looked_at)


KEPT = (
    "add(x, y) <=> add(y, x)",
    "matmul(add(x, y), z) <=> add(matmul(x, z), matmul(y, z))",
    "split0[axis=a](concat[axis=a](x, y)) => x",
    "concat[axis=a](concat[axis=a](x, y), z) <=> concat[axis=a](x, concat[axis=a](y, z))",
    (
        "(matmul(x, y), matmul(x, z)) => (split0[axis=1](matmul(x, concat[axis=1](y, z))), "
        "split1[axis=1](matmul(x, concat[axis=1](y, z))))"
    ),
)

CONFIRMED: Mapping[str, tuple[str, bool]] = {
    "an instance": ("matmul(add(x, x), y) <=> add(matmul(x, y), matmul(x, y))", True),
    "two rules": ("matmul(add(x, y), z) <=> add(matmul(y, z), matmul(x, z))", True),
    "the other side of a product": ("matmul(x, add(y, z)) <=> add(matmul(x, y), matmul(x, z))", False),
    "a half of a nested concat": (
        "split0[axis=0](concat[axis=0](x, concat[axis=0](y, z))) => x",
        True,
    ),
    "a deeper merge": (
        (
            "(matmul(add(x, x), y), matmul(add(x, x), z)) => "
            "(split0[axis=1](matmul(add(x, x), concat[axis=1](y, z))), "
            "split1[axis=1](matmul(add(x, x), concat[axis=1](y, z))))"
        ),
        True,
    ),
    "a merge that only its own halves would give": (
        (
            "(add(x, y), add(z, y)) => (split0[axis=0](add(concat[axis=0](x, z), concat[axis=0](y, y))), "
            "split1[axis=0](add(concat[axis=0](x, z), concat[axis=0](y, y))))"
        ),
        False,
    ),
}


@pytest.mark.parametrize(("text", "expected"), CONFIRMED.values(), ids=CONFIRMED)
def test_equality_saturation_confirms_what_follows(text: str, *, expected: bool) -> None:
    question = generic_question(parse_equation(text), dict.fromkeys("xyz", (4, 4)))
    assert question is not None
    found = Theory(map(parse_equation, KEPT)).saturated([question], SaturationLimits())
    assert (0 in found.derived) is expected
    assert found.unfinished == 0
