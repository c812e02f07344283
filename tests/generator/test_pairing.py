"""Pairs of equal terms: each equation once whatever its inputs are called, and of what it is an instance."""

from __future__ import annotations

from functools import cache

import pytest

from superopt.equations import canonical, format_equation
from superopt.generator import load_preset
from superopt.generator.enumerate.enumeration import Enumeration
from superopt.generator.enumerate.recorded import RecordedTerms
from superopt.generator.enumerate.rows import TermBuilder
from superopt.generator.pair.merging import merges
from superopt.generator.pair.pairing import Pairing, single_outputs
from superopt.generator.pair.pairs import PairSource
from superopt.generator.prune.audit import Audit
from superopt.generator.prune.pruning import Selection
from superopt.ir.terms import Equation


@cache
def _pairings() -> tuple[Pairing, Pairing]:
    stage = load_preset("matrix").stages_to(2)[0]
    enumeration = Enumeration(stage).complete()
    terms = RecordedTerms(enumeration)
    return single_outputs(terms, enumeration), merges(terms, enumeration)


def _texts(pairing: Pairing) -> list[str]:
    """Each equation, its variables renamed, read in the order that gives the smaller text."""
    builder = TermBuilder(pairing.terms)
    texts: list[str] = []
    for left, right in zip(pairing.left.tolist(), pairing.right.tolist(), strict=True):
        sides = (tuple(map(builder.term, left)), tuple(map(builder.term, right)))
        orders = (sides, sides[::-1]) if len(left) == 1 else (sides,)
        texts.append(min(format_equation(canonical(Equation(a, b))) for a, b in orders))
    return texts


def test_no_two_pairs_are_renamings_of_each_other() -> None:
    for pairing in _pairings():
        texts = _texts(pairing)
        assert len(set(texts)) == len(texts) > 0


INSTANCES = {
    "equal variables": (
        "matmul(scale(x, y), x) = scale(matmul(x, x), y)",
        "matmul(scale(x, y), z) = scale(matmul(x, z), y)",
    ),
    "what nothing depends on": (
        "split0[axis=-1](concat[axis=-1](x, x)) = x",
        "split0[axis=-1](concat[axis=-1](x, y)) = x",
    ),
}


@pytest.mark.parametrize(("instance", "general"), INSTANCES.values(), ids=INSTANCES)
def test_an_instance_comes_after_what_it_is_an_instance_of(instance: str, general: str) -> None:
    single, _ = _pairings()
    texts = _texts(single)
    found = single.reductions.first[single.reductions.instances == texts.index(instance)]
    assert texts.index(general) in found.tolist()
    assert texts.index(general) < texts.index(instance)


def test_dropped_equations_are_counted_and_sampled() -> None:
    samples: list[list[str]] = []
    for _ in range(2):
        audit = Audit(most=20, seed=1)
        selection = Selection("matrix, 2 operators", audit)
        selection.take(_pairings()[:1])
        assert len(audit.sample) == min(20, sum(selection.dropped.values()))
        assert {dropped.reason for dropped in audit.sample} <= set(selection.dropped)
        samples.append([format_equation(dropped.equation) for dropped in audit.sample])
    assert samples[0] == samples[1]


def test_pairs_of_untouched_classes_need_not_be_asked_about_again(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[list[str]] = []
    for _ in range(2):
        selection = Selection("matrix, 2 operators")
        selection.take(_pairings()[:1])
        kept.append([candidate.text for candidate in selection.candidates])
        monkeypatch.setattr(PairSource, "touched", lambda *_: True)
    assert kept[0] == kept[1]
