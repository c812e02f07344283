"""Certificates: chains that a person can read, in text and in JSON, and shortest ones."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from superopt.axioms import axioms_from_text, load_axioms
from superopt.equations import parse_equation, parse_term
from superopt.errors import InvalidFileError
from superopt.ir.terms import AttributeTerm, AttributeVariable, Equation, Term
from superopt.verifier.certificates.certificate import (
    Certificate,
    certificate_text,
    format_certificate,
    read_certificate,
)
from superopt.verifier.prove.explanation import explain
from superopt.verifier.prove.solver import AxiomInstance


def step(axiom: str, attributes: dict[str, AttributeTerm] | None = None, **terms: str) -> AxiomInstance:
    """An instance of an axiom."""
    bound: list[tuple[str, Term]] = [(name, parse_term(text)) for name, text in terms.items()]
    return AxiomInstance(axiom, tuple(bound), tuple((attributes or {}).items()))


THIRD = '{"fraction":[1,3]}'
DISTRIBUTED = parse_equation("matmul(x, add(matmul(y, z), w)) = add(matmul(matmul(x, y), z), matmul(x, w))")
DISTRIBUTED_STEPS = (
    step("matmul-associative", x="x", y="y", z="z"),
    step("matmul-over-add-right", x="x", y="matmul(y, z)", z="w"),
)


def explained(goal: Equation, *steps: AxiomInstance, axioms: str = "") -> Certificate:
    """The certificate, which there is."""
    known = axioms_from_text({"f": axioms}) if axioms else load_axioms()
    certificate = explain(goal, known.by_name, steps)
    assert certificate is not None
    return certificate


def test_a_person_can_read_it() -> None:
    certificate = explained(DISTRIBUTED, *DISTRIBUTED_STEPS)
    assert format_certificate(DISTRIBUTED, certificate) == (
        "  matmul(x, add(matmul(y, z), w))\n"
        "= add(matmul(x, matmul(y, z)), matmul(x, w))  by matmul-over-add-right\n"
        "= add(matmul(matmul(x, y), z), matmul(x, w))  by matmul-associative, at input 1"
    )
    assert certificate.axioms_used == ("matmul-associative", "matmul-over-add-right")
    assert certificate.links == 2


def test_each_output_has_a_chain() -> None:
    goal = parse_equation("(relu(transpose(transpose(x))), y) = (relu(x), y)")
    certificate = explained(goal, step("transpose-involutive", x="x"))
    assert format_certificate(goal, certificate) == (
        "  relu(transpose(transpose(x)))\n"
        "= relu(x)                        by transpose-involutive, at input 1\n"
        "\n"
        "  y\n"
        "= y  the same term"
    )


def test_right_to_left_and_deep_inside() -> None:
    goal = parse_equation("relu(tanh(x)) = relu(tanh(transpose(transpose(x))))")
    certificate = explained(goal, step("transpose-involutive", x="x"))
    assert format_certificate(goal, certificate).splitlines()[1] == (
        "= relu(tanh(transpose(transpose(x))))  by transpose-involutive, right to left, at input 1 of input 1"
    )


def test_equal_subterms_take_a_link_each() -> None:
    goal = parse_equation("add(relu(relu(x)), relu(relu(x))) = add(relu(x), relu(x))")
    certificate = explained(goal, step("idempotent", x="x"), axioms="idempotent: relu(relu(x)) = relu(x)")
    assert [link.path for link in certificate.chains[0]] == [(0,), (1,)]


def test_there_are_no_detours() -> None:
    """Three steps lead round, one leads straight; and a step under an operator is shared by congruence."""
    axioms = (
        "ab: relu(x) = tanh(x)\nbc: tanh(x) = sigmoid(x)\ncd: sigmoid(x) = sqrt(x)\nad: relu(x) = sqrt(x)"
    )
    steps = [step(name, x="x") for name in ("ab", "bc", "cd", "ad")]
    goal = parse_equation("erf(relu(x)) = erf(sqrt(x))")
    assert [link.axiom for link in explained(goal, *steps, axioms=axioms).chains[0]] == ["ad"]
    assert [link.axiom for link in explained(goal, *steps[:3], axioms=axioms).chains[0]] == ["ab", "bc", "cd"]


def test_congruence_of_congruence() -> None:
    """f(a) = b and a = f(a) give a = b only over f(a); f(f(a)) is a too."""
    axioms = "grow: relu(x) = x\nb: relu(x) = tanh(x)"
    goal = parse_equation("relu(relu(relu(x))) = tanh(x)")
    certificate = explained(goal, step("grow", x="x"), step("b", x="x"), axioms=axioms)
    assert [(link.axiom, link.path) for link in certificate.chains[0]][-1][0] == "b"
    assert certificate.links == 3


def test_an_axiom_with_two_outputs_gives_two_equations() -> None:
    axioms = "swap: (relu(x), tanh(y)) = (tanh(x), relu(y))"
    goal = parse_equation("add(relu(u), tanh(v)) = add(tanh(u), relu(v))")
    certificate = explained(goal, step("swap", x="u", y="v"), axioms=axioms)
    assert [(link.output, link.path) for link in certificate.chains[0]] == [(0, (0,)), (1, (1,))]


def test_steps_that_do_not_connect_give_no_certificate() -> None:
    assert explain(DISTRIBUTED, load_axioms().by_name, DISTRIBUTED_STEPS[:1]) is None
    assert explain(DISTRIBUTED, load_axioms().by_name, ()) is None


@pytest.mark.parametrize(
    ("axiom", "goal", "attributes", "written"),
    [
        ("power[exponent=e](x) = x", "power[exponent=1/3](x) = x", {"e": Fraction(1, 3)}, THIRD),
        ("concat[axis=a](x, x) = x", "concat[axis=-1](x, x) = x", {"a": -1}, "-1"),
        ("conv[padding=p](x, x) = x", "conv[padding=same](x, x) = x", {"p": "same"}, '"same"'),
        ("transpose[perm=p](x) = x", "transpose[perm=(1, 0)](x) = x", {"p": (1, 0)}, "[1,0]"),
        (
            "concat[axis=a](x, x) = x",
            "concat[axis=b](x, x) = x",
            {"a": AttributeVariable("b")},
            '{"variable":"b"}',
        ),
    ],
)
def test_json_gives_back_what_was_written(
    axiom: str, goal: str, attributes: dict[str, AttributeTerm], written: str
) -> None:
    certificate = explained(parse_equation(goal), step("f", attributes, x="x"), axioms=f"f: {axiom}")
    text = certificate_text(certificate)
    assert f'"attributes":{{"{next(iter(attributes))}":{written}}}' in text
    assert read_certificate(json.loads(text)) == certificate


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("schema", 2, "expected schema 1, got 2"),
        ("chains", {}, "chains: expected a list, got dict"),
        ("chains", [1], "certificate: expected a list, got int"),
        ("chains", [[1]], "output 0, link 1: expected a JSON object, got int"),
        ("axiom", 3, "expected an axiom and a direction, got 3 and False"),
        ("backwards", 0, "expected an axiom and a direction"),
        ("path", [-1], "expected positions"),
        ("path", [True], "expected positions"),
        ("output", "0", "expected positions"),
        ("terms", [], "terms: expected a JSON object, got list"),
        ("terms", {"x": "relu("}, "ends too early"),
        ("terms", {"x": 3}, "expected a term, got 3"),
        ("attributes", {"a": 0.5}, "expected an attribute, got 0.5"),
        ("attributes", {"a": {"fraction": [1, 0]}}, "expected an attribute"),
        ("attributes", {"a": {"variable": "s", "more": 1}}, "expected an attribute"),
        ("attributes", {"a": None}, "expected an attribute, got None"),
        ("term", None, "expected a term, got None"),
        ("term", "nothing(x)", "unknown operator nothing"),
    ],
)
def test_damaged_json_is_one_sentence(place: str, value: object, message: str) -> None:
    content = json.loads(certificate_text(explained(DISTRIBUTED, *DISTRIBUTED_STEPS)))
    (content if place in content else content["chains"][0][0])[place] = value
    with pytest.raises(InvalidFileError, match=message.replace("(", r"\(")):
        read_certificate(content)


def test_text_that_is_no_certificate() -> None:
    with pytest.raises(InvalidFileError, match="expected a JSON object, got NoneType"):
        read_certificate(None)
