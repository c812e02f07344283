"""Whatever goes wrong is unproved, with the reason: never verified, never lost, never a traceback.

Nothing here is played: limits are too small, equations too big, and processes die.
"""

from __future__ import annotations

import os
import re
from functools import partial

import pytest

from superopt.axioms import axioms_from_text, load_axioms
from superopt.cli.main import run
from superopt.equations import parse_equation
from superopt.ir.terms import Application, Equation, Term, Variable
from superopt.verifier import Options, Status, Verdict, verify, verify_many
from superopt.verifier.pool import Allowance, judge_alone
from superopt.verifier.prove.solver import SolverLimits
from superopt.verifier.refute.refutation import Effort
from tests.verifier.rules import NEEDS_PETABYTES

QUICK = Effort(schemes=6, per_scheme=2, stack=2)
NEEDS_A_PROOF = "matmul(x, add(matmul(y, z), w)) => add(matmul(matmul(x, y), z), matmul(x, w))"
RIGHT = "relu(transpose(x)) => transpose(relu(x))"
WRONG = "relu(x) => x"
NEEDS_SECONDS = (
    "conv[stride=s, padding=p, activation=c](add(x, add(x, x)), y)"
    " => conv[stride=s, padding=p, activation=c](x, add(y, add(y, y)))"
)


def nested(depth: int) -> Equation:
    term: Term = Variable("x")
    for _ in range(depth):
        term = Application("relu", (), (term,))
    return Equation((term,), (Application("relu", (), (Variable("x"),)),))


class Deadly(Equation):
    """An equation that ends every process that reads it, as a solver that crashes would."""

    def __reduce__(self) -> tuple[object, ...]:
        return (os.abort, ())


TOO_BIG = {
    "more stack than there is": (nested(2000), "RecursionError: "),
    "a number that no float holds": (
        parse_equation("x => scale(x, full[value=1e999])"),
        "a number is too large: ",
    ),
}


@pytest.mark.parametrize(("equation", "reason"), TOO_BIG.values(), ids=TOO_BIG)
def test_what_is_too_big_is_unproved(equation: Equation, reason: str) -> None:
    verdict = verify(equation, load_axioms(), options=Options(QUICK))
    assert (verdict.status, verdict.reason[: len(reason)]) == (Status.UNPROVED, reason)


def test_what_lacks_memory_has_no_verdict() -> None:
    with pytest.raises(MemoryError):
        verify(parse_equation(NEEDS_PETABYTES), load_axioms(), options=Options(QUICK))


def test_a_solver_at_its_limit_is_unproved_and_the_next_equation_is_proved() -> None:
    limits = SolverLimits(resources=1)
    verdict = verify(parse_equation(NEEDS_SECONDS), load_axioms(), options=Options(QUICK, limits))
    assert verdict.status is Status.UNPROVED
    assert verdict.reason.startswith("no proof: ")
    assert verdict.certificate is None
    verdict = verify(parse_equation(NEEDS_A_PROOF), load_axioms(), options=Options(QUICK))
    assert verdict.status is Status.VERIFIED


def test_what_the_solver_does_not_know_is_unproved() -> None:
    few = axioms_from_text({"f": "add-commutative: add(x, y) = add(y, x)"})
    verdict = verify(parse_equation("mul(x, y) => mul(y, x)"), few, options=Options(QUICK))
    assert verdict.status is Status.UNPROVED
    assert re.match("no proof: the (axioms do not give it|search ended)", verdict.reason)


def test_a_dead_process_costs_its_own_equation_and_no_other() -> None:
    right = parse_equation(RIGHT)
    deadly = Deadly(right.left, right.right)
    texts = [RIGHT, WRONG, NEEDS_A_PROOF, RIGHT]
    equations = [parse_equation(text) for text in texts]
    equations[2:2] = [deadly, nested(2000)]
    told: list[tuple[int, int]] = []
    verdicts = list(
        verify_many(
            [[equation] for equation in equations],
            load_axioms(),
            jobs=2,
            options=Options(QUICK),
            progress=lambda *counts: told.append(counts),
        )
    )
    assert [equation for equation, _ in verdicts] == equations
    assert [verdict.status for _, verdict in verdicts] == [
        Status.VERIFIED,
        Status.REFUTED,
        Status.UNPROVED,
        Status.UNPROVED,
        Status.VERIFIED,
        Status.VERIFIED,
    ]
    assert verdicts[2][1].reason == "the process was killed by signal 6 (Aborted)"
    assert verdicts[3][1].reason.startswith("RecursionError: ")
    assert told == [(done, 6) for done in range(1, 7)]


def lost(_: Equation, reason: str) -> Verdict:
    return Verdict(Status.UNPROVED, reason=reason)


@pytest.mark.parametrize(
    ("allowance", "reason"),
    [(Allowance(megabytes=1), ""), (Allowance(seconds=0.001), "took longer than 0.001 s")],
    ids=["memory", "time"],
)
def test_a_process_at_its_limit_is_unproved(allowance: Allowance, reason: str) -> None:
    """How a process without memory ends is up to what asks for it first: an error, or a crash."""
    judge = partial(verify, axioms=load_axioms(), options=Options(QUICK))
    verdict = judge_alone(judge, parse_equation(NEEDS_A_PROOF), lost=lost, allowance=allowance)
    assert verdict.status is Status.UNPROVED
    assert verdict.reason
    assert verdict.reason.startswith(reason)


def test_prove_ends_with_its_process(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["prove", "--timeout", "0.001", RIGHT]) == 3
    assert "unproved: took longer than 0.001 s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("x => scale(x, full[value=1e999])", 3, "unproved: a number is too large: "),
        (
            "softmax[axis=99999999999999999999](x) => x",
            3,
            "unproved: expected numbers that ask for ranks up to",
        ),
        ("conv(x) => x", 3, "unproved: malformed: conv: expected 2 inputs, got 1"),
        (
            "split[axis=0, sizes=(1, 2)](x) => x",
            3,
            "unproved: malformed: split has several outputs: write split0",
        ),
        ("relu(" * 200 + "x" + ")" * 200 + " => relu(x)", 2, "superopt: line 1, column 501: nested"),
    ],
    ids=["error", "unknown", "operands", "outputs", "nested"],
)
def test_prove_says_what_it_cannot_do(
    text: str, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["prove", text]) == code
    printed = capsys.readouterr()
    assert said in printed.out + printed.err
    assert "Traceback" not in printed.out + printed.err
