"""Rules about divided tensors in FlexFlow's format: what is said of each, against numpy on shards."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from superopt.journeys.library.peers.coverage import Answer, Covered, coverage
from superopt.journeys.library.peers.flexflow import read_flexflow
from superopt.rewriting.derivability import Bounds
from tests.samples import sample
from tests.substitution_db.peers.divided_oracle import Truth, truth
from tests.substitution_db.peers.divided_rules import WINDOW, samples, side, slips
from tests.substitution_db.peers.samples import Rule, flexflow_file

GROUPS = 12
EVERY = 6
"""Of the slips every sixth is judged."""

EXPECTED = {
    Truth.TRUE: {Answer.PROVED, Answer.UNDECIDED},
    Truth.FALSE: {Answer.REFUTED},
    Truth.NOWHERE: {Answer.REFUTED, Answer.MALFORMED},
}

RIGHT = samples()
SLIPS = tuple(slip for right in RIGHT for slip in slips(right))[::EVERY]


def judged(path: Path, rules: Sequence[Rule], library: Sequence[str] = (), steps: int = 0) -> list[Covered]:
    read = read_flexflow(flexflow_file(path / "rules.json", *rules))
    return list(coverage(read, library, bounds=Bounds(steps=steps), jobs=0))


def test_rules_are_what_they_are_said_to_be() -> None:
    assert len(RIGHT) >= 60
    assert [each.rule for each in RIGHT if truth(each) is not Truth.TRUE] == []
    found = Counter(map(truth, SLIPS))
    assert min(found[Truth.FALSE], found[Truth.NOWHERE]) >= 20


@pytest.mark.parametrize("group", sample(range(GROUPS), 3))
def test_true_rules_are_proved(group: int, tmp_path: Path) -> None:
    own = [each.rule for each in RIGHT[group::GROUPS]]
    answers = judged(tmp_path, own)
    assert [(a.verdict, a.equation, a.reason) for a in answers if a.verdict is not Answer.PROVED] == []


@pytest.mark.parametrize("group", range(GROUPS))
def test_slips_are_refuted_or_malformed(group: int, tmp_path: Path) -> None:
    """What is well-typed at none of the sizes that numpy tried may be refuted at others; where replicas are
    divided nothing is said."""
    own = SLIPS[group::GROUPS]
    answers = judged(tmp_path, [slip.rule for slip in own])
    for slip, answer in zip(own, answers, strict=True):
        assert answer.verdict in EXPECTED[truth(slip)] or (
            answer.verdict is Answer.UNDECIDED and answer.reason.endswith("that of its replicas")
        ), (slip.rule, answer)


OTHERWISE = {
    "RELU(-1)": "PARTITION(-1) @1/2; RELU(0)",
    "PARTITION(-1) @1/2; RELU(0)": "PARTITION(-1) @0/2; RELU(0)",
    "COMBINE(-1) @0/2": "COMBINE(-1) @1/2",
    "LINEAR(-1, -4) ACTI=0": "REPLICATE(-1) @2/2; REPLICATE(-4) @2/2; LINEAR(0, 1) ACTI=0",
    "PARTITION(-1) @0/2; COMBINE(0) @1/3": "COMBINE(-1) @1/3; PARTITION(0) @1/2",
}


@pytest.mark.parametrize("source", OTHERWISE)
def test_outputs_that_lie_otherwise_are_the_reason(source: str, tmp_path: Path) -> None:
    (answer,) = judged(tmp_path, [Rule(side(source), side(OTHERWISE[source]))])
    assert answer.verdict is Answer.REFUTED
    assert re.search(r": left has type f32\[.*, right has type f32\[", answer.reason)


REASONS = {
    "LINEAR(-1, -4) ACTI=0 | PARTITION(-1) @1/2; LINEAR(0, -4) ACTI=0; COMBINE(1) @1/2": (
        "the target is never well-typed: matmul(partition[axis=-2, degree=2](x), y): matmul: "
    ),
    "PARTITION(-1) @0/2; SOFTMAX(0) SOFTMAX_DIM=0 | SOFTMAX(-1) SOFTMAX_DIM=0; PARTITION(0) @0/2": (
        "the source is never well-typed: softmax(partition[axis=-1, degree=2](x)): "
        "softmax: an axis that is needed whole is divided"
    ),
    "RELU(-1) | RELU(-1); COMBINE(0) @1/2": (
        "the target is never well-typed: combine[axis=-2, degree=2](relu(x)): "
        "combine: an axis in 1 parts cannot be one in 2 fewer"
    ),
    f"POOL2D_MAX(-1) {WINDOW} PAD=1 ACTI=0 | PARTITION(-1) @1/2; POOL2D_MAX(0) {WINDOW} PAD=1 ACTI=0": (
        "the target is never well-typed: maxpool[kernel=3](partition[axis=2, degree=2](x)): "
        "maxpool: an axis that is needed whole is divided"
    ),
    "EW_ADD(-1, -2) | CONCAT(-1, -2) AXIS=0 NUMDIM=2; REDUCE(0) @0/2": (
        "the target is never well-typed: reduce[degree=2](concat[axis=-1](x, y)): "
        "reduce: 1 replicas are not sums of 2 each"
    ),
    "LINEAR(-1, -4) ACTI=0 | REPLICATE(-1) @2/2; PARTITION(-4) @3/2; LINEAR(0, 1) ACTI=0": (
        "dimension 3 is out of range for a tensor with 2"
    ),
    "RELU(-1) | PARTITION(-1) @16/2; RELU(0); COMBINE(1) @16/2": (
        "operator 0 of the target, PARTITION: expected PARALLEL_DIM from 0 to 15, got 16"
    ),
    "RELU(-1) | PARTITION(-1) @0/0; RELU(0); COMBINE(1) @0/0": (
        "operator 0 of the target, PARTITION: expected PARALLEL_DEGREE at least 1, got 0"
    ),
}


@pytest.mark.parametrize("rule", REASONS)
def test_malformed(rule: str, tmp_path: Path) -> None:
    source, target = map(side, rule.split(" | "))
    (answer,) = judged(tmp_path, [Rule(source, target)])
    assert answer.verdict is Answer.MALFORMED
    assert answer.reason.startswith(REASONS[rule])


LIBRARY = (
    "combine[axis=a, degree=d](partition[axis=a, degree=d](x)) => x",
    "partition[axis=a, degree=d](relu(x)) <=> relu(partition[axis=a, degree=d](x))",
    (
        "combine[axis=-2, degree=d](matmul(partition[axis=-2, degree=d](x), replicate[degree=d](y)))"
        " <=> matmul(x, y)"
    ),
)


@pytest.mark.parametrize(
    ("source", "target", "known", "steps"),
    [
        ("PARTITION(-1) @1/2; RELU(0)", "RELU(-1); PARTITION(0) @1/2", True, 1),
        (
            "PARTITION(-1) @1/2; REPLICATE(-4) @2/2; LINEAR(0, 1) ACTI=0; COMBINE(2) @1/2",
            "LINEAR(-1, -4) ACTI=0",
            True,
            1,
        ),
        ("PARTITION(-1) @1/2; RELU(0); COMBINE(1) @1/2", "RELU(-1)", False, 2),
        ("PARTITION(-1) @1/2; TANH(0); COMBINE(1) @1/2", "TANH(-1)", False, None),
    ],
)
def test_what_the_library_knows(
    source: str,
    target: str,
    known: bool,  # noqa: FBT001
    steps: int | None,
    tmp_path: Path,
) -> None:
    (answer,) = judged(tmp_path, [Rule(side(source), side(target))], LIBRARY, steps=3)
    assert (answer.verdict, answer.known, answer.derivable_steps) == (Answer.PROVED, known, steps)
