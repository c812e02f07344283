"""Proofs: what the solver suggests counts only when every step is well-typed and its condition holds."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from superopt.axioms import AxiomSet, axioms_from_text, load_axioms
from superopt.equations import format_equation, parse_equation
from superopt.instances.instance import Instance
from superopt.instances.sampler import InstanceSampler
from superopt.ir.terms import Equation
from superopt.ir.types import ElementType, TensorType
from superopt.rewriting.typing import type_equation
from superopt.verifier import Status, verify
from superopt.verifier.goal import Options
from superopt.verifier.prove import proof_search
from superopt.verifier.prove.chain import ChainChecker, instantiated
from superopt.verifier.prove.congruence import Congruence
from superopt.verifier.prove.proof_search import PATIENT, QUICK, Proof, prove
from superopt.verifier.prove.smtlib import Relevance, Vocabulary, axiom_command
from superopt.verifier.prove.solver import SolverLimits, Strategy, ask, least
from superopt.verifier.refute.refutation import Effort, refute
from superopt.verifier.verification import decide


def _prove(text: str, axioms: AxiomSet) -> Proof:
    goal = parse_equation(text)
    return prove(goal, axioms.equations, refute(goal, Effort(10, 2, 2)).instances[:6])


def test_steps_are_instances_of_axioms() -> None:
    proof = _prove(
        "matmul(x, add(matmul(y, z), w)) => add(matmul(matmul(x, y), z), matmul(x, w))", load_axioms()
    )
    by_name = load_axioms().by_name
    steps = sorted(f"{s.axiom}: {format_equation(instantiated(by_name[s.axiom], s))}" for s in proof.steps)
    assert steps == [
        "matmul-associative: matmul(x, matmul(y, z)) = matmul(matmul(x, y), z)",
        "matmul-over-add-right: matmul(x, add(matmul(y, z), w)) = add(matmul(x, matmul(y, z)), matmul(x, w))",
    ]


def test_a_failed_search_is_not_repeated_with_lower_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, object, SolverLimits]] = []

    def told(
        _: Equation, axioms: Sequence[Equation], __: object, question: object, limits: SolverLimits
    ) -> tuple[None, str]:
        asked.append((question, tuple(axioms), limits))
        return None, "nothing was tried"

    monkeypatch.setattr(proof_search, "_search", told)
    goal = parse_equation("matmul(x, y) => transpose(matmul(y, x))")
    instances = list(InstanceSampler(goal, 1).instances(1, 1))
    for limits in (SolverLimits(), PATIENT, QUICK):
        asked.clear()
        assert not prove(goal, load_axioms().equations, instances, limits=limits).proved
        for number, (question, axioms, own) in enumerate(asked):
            earlier = [each for *same, each in asked[:number] if same == [question, axioms]]
            assert not [each for each in earlier if least(own, each) == own]
        assert len({question for question, _, _ in asked}) == 3


def test_an_inconsistent_axiom_proves_nothing_that_is_typed() -> None:
    """Associativity of concat, with halves whose size is not written down, says x = concat(x, y).

    The goal is well-typed on both sides, of one type, and false.
    """
    associative = parse_equation(
        "concat-associative: "
        "concat[axis=a](x, concat[axis=a](y, z)) = concat[axis=a](concat[axis=a](x, y), z)"
    )
    planted = load_axioms().with_equations(associative)
    goal = parse_equation(
        "global_avgpool(split0[axis=2](concat[axis=2](x, concat[axis=2](y, z))))"
        " = global_avgpool(concat[axis=2](x, y))"
    )
    instances = list(InstanceSampler(goal, 1).instances(8, 2))
    assert instances
    assert ask(goal, Relevance(planted.equations, goal).within(0), Strategy.PATTERNS, SolverLimits()).proved
    proof = prove(goal, planted.equations, instances, limits=SolverLimits(resources=1_000_000))
    assert not proof.proved
    assert verify(goal, planted).status is Status.REFUTED


def test_a_constant_of_two_shapes_is_not_one_constant() -> None:
    """Shapeless, ones() is one symbol; typed, the ones of a scalar are not those of a matrix."""
    axioms = axioms_from_text(
        {"f": "by-ones: mul(x, ones()) = x\nwrong-at-other-ranks: scale(x, ones()) = mul(x, ones())"}
    )
    proof = _prove("scale(x, full[value=1]()) = mul(x, ones())", axioms)
    assert not proof.proved


def test_a_conditional_axiom_is_used_only_where_its_condition_holds() -> None:
    axioms = axioms_from_text(
        {
            "f": "square: transpose(x) = relu(x) where dim(x, -1) = dim(x, -2)\n"
            "idempotent: relu(relu(x)) = relu(x)"
        }
    )
    goal = parse_equation("relu(transpose(x)) = transpose(x)")
    square = Instance(
        {"x": TensorType(ElementType.FLOAT, (2, 2))},
        {},
        type_equation(goal, {"x": TensorType(ElementType.FLOAT, (2, 2))}),
    )
    oblong = Instance(
        {"x": TensorType(ElementType.FLOAT, (2, 3))},
        {},
        type_equation(goal, {"x": TensorType(ElementType.FLOAT, (2, 3))}),
    )
    assert prove(goal, axioms.equations, [square]).axioms_used == ("idempotent", "square")
    unproved = prove(goal, axioms.equations, [square, oblong])
    assert not unproved.proved
    assert unproved.reason == "no well-typed chain: square"


def test_no_instance_no_proof() -> None:
    assert not prove(parse_equation("add(x, y) = add(y, x)"), load_axioms().equations, []).proved


def test_an_ill_typed_step_is_struck_out() -> None:
    goal = parse_equation("matmul(x, y) = matmul(x, y)")
    types = {"x": TensorType(ElementType.FLOAT, (2, 3)), "y": TensorType(ElementType.FLOAT, (3, 4))}
    instance = Instance(types, {}, type_equation(goal, types))
    axioms = {"swap": parse_equation("swap: matmul(x, y) = matmul(y, x)")}
    answer = ask(
        parse_equation("matmul(x, y) = matmul(y, x)"),
        tuple(axioms.values()),
        Strategy.PATTERNS,
        SolverLimits(),
    )
    assert answer.proved
    assert ChainChecker(goal, axioms, instance).check(answer.steps).sound == ()


def test_attributes_of_different_kinds_have_different_sorts() -> None:
    vocabulary = Vocabulary()
    command = axiom_command(load_axioms().by_name["conv-relu"], vocabulary)
    assert "(|?s| P-stride)" in command
    assert "(|?p| P-padding)" in command
    assert ":qid |conv-relu|" in command


def test_congruence_follows_from_equal_inputs() -> None:
    closure = Congruence()
    a, b, c = (closure.node(name, ()) for name in "abc")
    fa, fb, ffa, ffc = (closure.node("f", (a,)), closure.node("f", (b,)), 0, 0)
    ffa, ffc = closure.node("f", (fa,)), closure.node("f", (closure.node("f", (c,)),))
    assert not closure.equal(fa, fb)
    closure.merge(a, b)
    assert closure.equal(fa, fb)
    assert not closure.equal(ffa, ffc)
    closure.merge(b, c)
    assert closure.equal(ffa, ffc)
    assert not closure.equal(a, fa)


@pytest.mark.parametrize(
    "goal",
    [
        "add(add(x, y), scale(y, full[value=-1]())) = x",
        "replicate[degree=d](add(add(x, y), scale(y, full[value=-1]()))) = replicate[degree=d](x)",
    ],
)
def test_a_number_that_is_no_degree_makes_no_instance_of_an_axiom_about_degrees(goal: str) -> None:
    """reduce(replicate(x)) = scale(x, full[value=d]()) says nothing for -1; the rest is a proof."""
    verdict = verify(parse_equation(goal), load_axioms())
    assert verdict.axioms_used == ("sub-is-negated-add", "sub-of-add"), verdict.reason


@pytest.mark.parametrize("limits", [SolverLimits(resources=50_000), SolverLimits(resources=400_000)])
def test_a_limit_of_the_search_is_one_whatever_the_solver_calls_it(limits: SolverLimits) -> None:
    """Z3 says that it was cancelled, cvc5 that its resources are spent."""
    rule = parse_equation("mul(power[exponent=a](x), power[exponent=b](x)) => power[exponent=a+b](x)")
    verdict = decide(rule, load_axioms(), options=Options(limits=limits))
    assert verdict.status is Status.UNPROVED
    assert "canceled" not in verdict.reason
