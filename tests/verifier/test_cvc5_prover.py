"""The second prover: its steps replay, it confirms, and what it does not know it does not claim."""

from __future__ import annotations

import pytest

from superopt.axioms import axioms_from_text, load_axioms
from superopt.equations import format_equation, parse_equation
from superopt.instances.sampler import InstanceSampler
from superopt.ir.terms import Application, AttributeVariable, Equation, Variable
from superopt.verifier import Status, verify
from superopt.verifier.certificates.certificate import Grade
from superopt.verifier.certificates.replay import replay
from superopt.verifier.prove.chain import instantiated
from superopt.verifier.prove.cvc5_prover import Search, ask, confirms, prover_version
from superopt.verifier.prove.explanation import explain
from superopt.verifier.prove.smtlib import Relevance
from superopt.verifier.prove.solver import SolverLimits
from superopt.verifier.seeds import seed_of
from tests.verifier.rules import RIGHT

LIMITS = SolverLimits(resources=2_000_000)


def steps_of(text: str, search: Search = Search.PATTERNS) -> list[str]:
    goal = parse_equation(text)
    answer = ask(goal, Relevance(load_axioms().equations, goal).within(1), search, LIMITS)
    assert answer.proved, answer.reason
    axioms = load_axioms().by_name
    steps = (step for step in answer.steps if step.terms)
    return [format_equation(instantiated(axioms[step.axiom], step)) for step in steps]


@pytest.mark.parametrize("text", RIGHT)
def test_what_it_proves_replays(text: str) -> None:
    goal = parse_equation(text)
    axioms = load_axioms()
    near, wide = (Relevance(axioms.equations, goal).within(rounds) for rounds in (0, 1))
    answer = ask(goal, near, Search.PATTERNS, LIMITS)
    if not answer.proved:
        answer = ask(goal, wide, Search.PATTERNS, LIMITS)
    assert answer.proved, answer.reason
    certificate = explain(goal, axioms.by_name, answer.steps)
    assert certificate is not None
    instances = list(InstanceSampler(goal, seed_of(goal, 0)).instances(schemes=3, per_scheme=1))
    assert instances
    assert replay(goal, axioms.by_name, certificate) == ""


def test_steps_are_read_with_terms_and_attribute_variables() -> None:
    assert steps_of("relu(transpose(matmul(x, y))) => relu(matmul(transpose(y), transpose(x)))") == [
        "transpose(matmul(x, y)) = matmul(transpose(y), transpose(x))"
    ]
    conv = "conv[stride=s, padding=(1, 0, 1, 0)](x, w)"
    assert steps_of(f"relu({conv}) => relu(relu({conv}))") == [f"relu(relu({conv})) = relu({conv})"]


def test_two_outputs_of_an_axiom_are_one_step() -> None:
    axioms = axioms_from_text({"f": "pair: (relu(x), tanh(y)) = (tanh(x), relu(y))"})
    goal = parse_equation("add(relu(x), tanh(y)) => add(tanh(x), relu(y))")
    answer = ask(goal, axioms.equations, Search.PATTERNS, LIMITS)
    assert answer.proved, answer.reason
    assert explain(goal, axioms.by_name, answer.steps) is not None


def test_enumeration_finds_terms_that_no_pattern_holds() -> None:
    axioms = axioms_from_text(
        {
            "f": "to-full: mul(x, y) = mul(x, full[value=1])\nfrom-full: mul(z, full[value=1]) = z\n"
            "any: relu(x) = tanh(y)"
        }
    )
    goal = parse_equation("relu(x) => relu(y)")
    assert not ask(goal, axioms.equations, Search.PATTERNS, LIMITS).proved
    answer = ask(goal, axioms.equations, Search.ENUMERATION, LIMITS)
    assert answer.proved, answer.reason
    assert {step.axiom for step in answer.steps} == {"any"}


def test_an_axiom_without_variables_is_a_step() -> None:
    axioms = axioms_from_text({"f": "unit: full[value=1] = relu(full[value=1])"})
    goal = parse_equation("tanh(full[value=1]) => tanh(relu(full[value=1]))")
    answer = ask(goal, axioms.equations, Search.PATTERNS, LIMITS)
    assert (answer.proved, [step.axiom for step in answer.steps]) == (True, ["unit"])


@pytest.mark.parametrize(
    ("text", "used", "expected"),
    [
        ("add(matmul(x, y), matmul(x, z)) => matmul(x, add(y, z))", ["matmul-over-add-right"], True),
        ("add(matmul(x, y), matmul(x, z)) => matmul(x, add(y, z))", ["add-commutative"], False),
        ("add(matmul(x, y), matmul(x, z)) => matmul(x, add(y, z))", [], False),
        ("matmul(x, y) => matmul(y, x)", ["matmul-associative", "transpose-of-matmul"], False),
    ],
)
def test_it_confirms_what_follows_and_nothing_else(text: str, used: list[str], *, expected: bool) -> None:
    axioms = load_axioms().by_name
    assert confirms(parse_equation(text), [axioms[name] for name in used if name in axioms]) is expected


ENDLESS = parse_equation("matmul(x, y) => matmul(y, x)")


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (SolverLimits(resources=1), "unknown: resourceout"),
        (LIMITS, "unknown: "),
    ],
)
def test_what_it_does_not_know_it_does_not_claim(limits: SolverLimits, reason: str) -> None:
    answer = ask(ENDLESS, Relevance(load_axioms().equations, ENDLESS).within(1), Search.ENUMERATION, limits)
    assert (answer.proved, answer.steps) == (False, ())
    assert answer.reason.startswith(reason)


def test_a_problem_that_it_cannot_read_is_no_proof() -> None:
    x = Variable("x|y")
    answer = ask(Equation((x,), (Application("relu", (), (x,)),)), (), Search.PATTERNS, LIMITS)
    assert (answer.proved, answer.reason[:19]) == (False, "the solver failed: ")


def test_names_of_attributes_and_tensors_are_kept_apart() -> None:
    x = Variable("s")
    conv = Application("conv", (("stride", AttributeVariable("s")),), (x, Variable("w")))
    goal = Equation(
        (Application("relu", (), (Application("relu", (), (conv,)),)),), (Application("relu", (), (conv,)),)
    )
    axioms = load_axioms()
    answer = ask(goal, axioms.early(axioms.usual), Search.PATTERNS, LIMITS)
    assert answer.proved
    assert [dict(step.terms) for step in answer.steps if step.terms] == [{"x": conv}]


def test_what_only_it_finds_in_time_is_verified_with_its_name() -> None:
    text = "softmax(matmul(x, transpose(y))) <=> transpose(softmax[axis=-2](matmul(y, transpose(x))))"
    verdict = verify(parse_equation(text), load_axioms())
    assert (verdict.status, verdict.grade) == (Status.VERIFIED, Grade.REPLAYED), verdict.reason
    assert (verdict.prover, verdict.version) == ("cvc5", prover_version())


def test_the_version_is_a_number() -> None:
    assert prover_version()[0].isdigit()
