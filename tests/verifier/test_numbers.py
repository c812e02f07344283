"""Rules with calculated numbers: true ones are proved, false ones never, forged proofs are refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

import pytest

from superopt.axioms import load_axioms
from superopt.equations import parse_equation, parse_number, parse_term
from superopt.ir.numbers import AttributeVariable, NumberCall, NumberExpression
from superopt.ir.terms import AttributeTerm, Equation, Term, Variable
from superopt.ops.terms import application
from superopt.verifier.certificates.certificate import Certificate, Link, certificate_object, read_certificate
from superopt.verifier.certificates.replay import replay
from superopt.verifier.verification import Status, Verdict, verify
from tests.verifier.number_oracle import difference, is_known
from tests.verifier.number_rules import FALSE, TRUE
from tests.verifier.second_checker import Answer, judge
from tests.verifier.second_checker.alterations import Proof, altered
from tests.verifier.second_checker.comparison import compared

AXIOMS = load_axioms()


def rules(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


@lru_cache
def verdict(text: str) -> Verdict:
    return verify(parse_equation(text), AXIOMS)


@pytest.mark.parametrize("text", rules(TRUE))
def test_true_rules_are_proved_and_both_checkers_accept_their_certificates(text: str) -> None:
    found = verdict(text)
    assert found.status is Status.VERIFIED, found.reason
    assert found.certificate is not None
    rule = parse_equation(text)
    stored = read_certificate(certificate_object(found.certificate))
    assert stored == found.certificate
    assert replay(rule, AXIOMS.by_name, stored) == ""
    assert judge(rule, AXIOMS.by_name, stored).answer is Answer.ACCEPTED


@pytest.mark.parametrize("text", rules(FALSE))
def test_false_rules_are_not_verified(text: str) -> None:
    assert verify(parse_equation(text), AXIOMS).status is not Status.VERIFIED


def test_the_rules_above_are_true_and_false_in_plain_numpy() -> None:
    wrong = [
        text
        for text in rules(TRUE)
        if is_known(parse_equation(text)) and difference(parse_equation(text)) is not None
    ]
    right = [
        text
        for text in rules(FALSE)
        if is_known(parse_equation(text)) and not difference(parse_equation(text), 2000)
    ]
    assert not wrong
    assert not right
    known = Counter(is_known(parse_equation(text)) for text in rules(TRUE + FALSE))
    assert known[True] > 90


def test_both_checkers_agree_on_altered_certificates_of_rules_with_numbers() -> None:
    proofs: list[Proof] = []
    for text in rules(TRUE):
        certificate = verdict(text).certificate
        assert certificate is not None
        proofs.append((parse_equation(text), certificate))
    results = [
        compared(change, proof, AXIOMS.by_name)
        for change, proof in altered(proofs, AXIOMS.by_name, 150, seed=3)
    ]
    assert not [str(result) for result in results if not result.agree]
    assert sum(result.ours.answer is Answer.REJECTED for result in results) > 50
    assert sum(result.ours.answer is Answer.ACCEPTED for result in results) > 10


def link(axiom: str, path: tuple[int, ...], values: Mapping[str, AttributeTerm], term: Term) -> Link:
    """A link from left to right; the axiom's tensors stand for those of the rule with the same names."""
    terms = tuple((name, Variable(name)) for name in AXIOMS.by_name[axiom].variables)
    return Link(axiom, False, path, 0, terms, tuple(values.items()), term)  # noqa: FBT003


def there_and_back(
    axiom: str, path: tuple[int, ...], values: Mapping[str, AttributeTerm], between: Term, end: Term
) -> tuple[Link, Link]:
    """The axiom from right to left, and then undone."""
    back = link(axiom, path, values, end)
    return replace(back, backwards=True, term=between), back


def numbers(**texts: str) -> Mapping[str, AttributeTerm]:
    return {name: parse_number(text) for name, text in texts.items()}


def answers(text: str, *links: Link) -> tuple[bool, bool]:
    """Whether the checkers accept one chain as a proof of the rule."""
    rule, certificate = parse_equation(text), Certificate((links,))
    first = replay(rule, AXIOMS.by_name, certificate) == ""
    return first, judge(rule, AXIOMS.by_name, certificate).answer is Answer.ACCEPTED


ACCEPTED, REFUSED = (True, True), (False, False)
SQUARE = numbers(v="c*c", w="1/c")

DIVIDING = {
    "": REFUSED,
    "where c != 0": ACCEPTED,
    "where 0 != c": ACCEPTED,
    "where c > 0": ACCEPTED,
    "where c < 0": ACCEPTED,
    "where 0 < c": ACCEPTED,
    "where c >= 0": REFUSED,
    "where c <= 0": REFUSED,
    "where c >= 1": REFUSED,
    "where c != 1": REFUSED,
    "where c*c != 0": REFUSED,
    "where c*c > 0": REFUSED,
    "where 2*c != 0": REFUSED,
    "where -c < 0": REFUSED,
    "where min(c, 1) > 0": REFUSED,
    "where d != 0": REFUSED,
    "where c = 1": REFUSED,
}


@pytest.mark.parametrize("where", DIVIDING)
def test_a_chain_divides_only_by_what_the_rule_says_not_to_be_zero(where: str) -> None:
    own = "add(scale(x, full[value=c]()), full[value=d]())"
    between = "add(scale(x, scale(full[value=c*c](), full[value=1/c]())), full[value=d]())"
    links = there_and_back("full-of-product", (0, 1), SQUARE, parse_term(between), parse_term(own))
    assert answers(f"{own} => {own} {where}", *links) == DIVIDING[where]


@pytest.mark.parametrize(("divided", "expected"), [("1/c", ACCEPTED), ("1/(c + d)", REFUSED), ("c", REFUSED)])
def test_a_number_of_the_rule_that_divides_says_what_is_not_zero(
    divided: str, expected: tuple[bool, bool]
) -> None:
    own = f"scale(scale(x, full[value=c]()), full[value={divided}]())"
    between = f"scale(scale(x, scale(full[value=c*c](), full[value=1/c]())), full[value={divided}]())"
    links = there_and_back("full-of-product", (0, 1), SQUARE, parse_term(between), parse_term(own))
    assert answers(f"{own} => {own}", *links) == expected


SIGNS = {
    "": REFUSED,
    "where a*b >= 0": ACCEPTED,
    "where b*a >= 0": ACCEPTED,
    "where a*b + 0*a >= 0": ACCEPTED,
    "where a*b >= 0, a != 0": ACCEPTED,
    "where a*b > 0": ACCEPTED,
    "where 0 <= a*b": REFUSED,
    "where a*b >= -1": REFUSED,
    "where 2*a*b >= 0": REFUSED,
    "where a*b != 0": REFUSED,
    "where a*b = 1": REFUSED,
    "where a >= 0": REFUSED,
    "where a >= 0, b >= 0": REFUSED,
    "where a + b >= 0": REFUSED,
    "where a/b >= 0": REFUSED,
    "where max(a*b, 0) >= 0": REFUSED,
    "where min(a, b) >= 0": REFUSED,
    "where a*b <= 0": REFUSED,
}


@pytest.mark.parametrize("where", SIGNS)
def test_a_step_that_needs_a_sign_needs_it_word_for_word(where: str) -> None:
    text = f"relu(scale(x, full[value=a*b]())) => scale(relu(x), full[value=a*b]()) {where}"
    step = link("relu-of-scale", (), numbers(v="a*b"), parse_equation(text).right[0])
    assert answers(text, step) == SIGNS[where]


PRODUCT = "full-of-product"
FORGED = {
    "a sum for a product": ("full[value=a], full[value=b]", "a + b", {"v": "a", "w": "b"}),
    "one operand twice": ("full[value=a], full[value=b]", "a*a", {"v": "a", "w": "a"}),
    "what does not stand there": ("full[value=a], full[value=b]", "a + b", {"v": "a + b", "w": "1"}),
    "max for min": ("full[value=min(a, b)], full[value=c]", "max(a, b)*c", {"v": "min(a, b)", "w": "c"}),
    "a product inside min": (
        "full[value=min(a, b)], full[value=c]",
        "min(a*c, b*c)",
        {"v": "min(a, b)", "w": "c"},
    ),
    "min times max": (
        "full[value=min(a, b)], full[value=max(a, b)]",
        "a*b",
        {"v": "min(a, b)", "w": "max(a, b)"},
    ),
    "a sum and its reciprocal": (
        "full[value=a + b], full[value=1/(a + b)]",
        "1",
        {"v": "a + b", "w": "1/(a + b)"},
    ),
    "a variable that the rule lacks": ("full[value=a], full[value=b]", "a*b", {"v": "a*e", "w": "b/e"}),
}


@pytest.mark.parametrize("what", FORGED)
def test_forged_products_are_refused(what: str) -> None:
    operands, product, values = FORGED[what]
    text = f"scale({operands}) => full[value={product}]"
    step = link(PRODUCT, (), numbers(**values), parse_equation(text).right[0])
    assert answers(text, step) == REFUSED


@pytest.mark.parametrize(
    ("text", "axiom", "values"),
    [
        ("add(full[value=a](), full[value=b]()) => full[value=a*b]()", "full-of-sum", {"v": "a", "w": "b"}),
        ("div(x, full[value=c]()) => scale(x, full[value=c]())", "div-by-full", {"v": "c"}),
        ("div(x, full[value=0]()) => scale(x, full[value=0]())", "div-by-full", {"v": "0"}),
        ("relu(scale(x, full[value=-2])) => scale(relu(x), full[value=-2])", "relu-of-scale", {"v": "-2"}),
    ],
)
def test_forged_steps_are_refused(text: str, axiom: str, values: Mapping[str, str]) -> None:
    assert answers(text, link(axiom, (), numbers(**values), parse_equation(text).right[0])) == REFUSED


@pytest.mark.parametrize(
    "text",
    [
        "full[value=a, shape=(2, 2)]() => full[value=a, shape=(4,)]()",
        "scale(x, full[value=a]()) => scale(x, full[value=a + 1/1000000]())",
        "scale(x, full[value=a]()) => scale(x, full[value=b]())",
        "scale(x, full[value=a*a]()) => scale(x, full[value=a]())",
        "scale(x, full[value=max(a, b)]()) => scale(x, full[value=a + b - min(a, b)]())",
    ],
)
def test_different_numbers_are_not_one_term(text: str) -> None:
    assert answers(text) == REFUSED


def divides_in_secret() -> tuple[Equation, Certificate]:
    """A chain that divides by min(a, b), which has a negative power: text cannot write such a number."""
    rule = parse_equation("scale(x, full[value=min(a, b)]()) => scale(x, full[value=min(a, b)]())")
    least = NumberCall("min", (AttributeVariable("a"), AttributeVariable("b")))
    inverse = NumberExpression(((((least, -1),), Fraction(1)),))
    square = parse_number("min(a, b)*min(a, b)")
    constants = [application("full", {"value": value}) for value in (square, inverse)]
    between = application("scale", {}, Variable("x"), application("scale", {}, *constants))
    links = there_and_back(PRODUCT, (1,), {"v": square, "w": inverse}, between, rule.right[0])
    return rule, Certificate((links,))


def degree_is_a_number(where: str) -> tuple[Equation, Certificate]:
    """A chain with n replicas in between, where the rule says only so much of the number n."""
    rule = parse_equation(f"scale(x, full[value=n]()) => scale(x, full[value=n]()) where {where}")
    between = parse_term("reduce[degree=n](replicate[degree=n](x))")
    links = there_and_back("reduce-of-replicate", (), numbers(d="n"), between, rule.right[0])
    return rule, Certificate((links,))


SECRETS = [divides_in_secret(), *map(degree_is_a_number, ("n*n > 1", "n > 1", "n >= 2", "n != 0"))]


@pytest.mark.parametrize(("rule", "certificate"), SECRETS)
def test_the_second_checker_refuses_chains_that_have_no_value_at_some_numbers(
    rule: Equation, certificate: Certificate
) -> None:
    assert judge(rule, AXIOMS.by_name, certificate).answer is Answer.REJECTED


@pytest.mark.parametrize(("rule", "certificate"), SECRETS[:-1])
def test_the_first_checker_refuses_them_too(rule: Equation, certificate: Certificate) -> None:
    assert replay(rule, AXIOMS.by_name, certificate) != ""
