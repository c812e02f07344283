"""The checker of certificates: real proofs replay, and nothing that was tampered with does."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from superopt.axioms import axioms_from_text, load_axioms
from superopt.equations import parse_equation, parse_term
from superopt.ir.dimensions import Dimension
from superopt.ir.terms import Application, AttributeTerm, AttributeVariable, Equation, Term, Variable
from superopt.rewriting.typing import infer_terms, type_equation
from superopt.verifier.certificates.certificate import Certificate, Link
from superopt.verifier.certificates.replay import replay, replay_in
from superopt.verifier.instances.instance import Instance
from superopt.verifier.prove.explanation import explain
from superopt.verifier.prove.proof_search import prove
from superopt.verifier.prove.solver import AxiomInstance
from superopt.verifier.refute.refutation import Effort, refute
from tests.verifier.shapes import shapes

PROVED = tuple(
    """
matmul(x, add(matmul(y, z), w)) => add(matmul(matmul(x, y), z), matmul(x, w))
matmul(concat[axis=-1](x, y), concat[axis=-2](z, w)) => add(matmul(y, w), matmul(x, z))
(relu(x), relu(y)) => (split0[axis=a](relu(concat[axis=a](x, y))), split1[axis=a](relu(concat[axis=a](x, y))))
relu(conv[stride=s, padding=p, activation=relu](x, y)) => conv[stride=s, padding=p, activation=relu](x, y)
concat[axis=1](conv(x, y), relu(conv(x, z))) => concat[axis=1](conv(x, y), conv[activation=relu](x, z))
""".strip().splitlines()
)


@functools.cache
def certified(text: str) -> tuple[Equation, Certificate]:
    """A rule proved for real."""
    goal = parse_equation(text)
    instances = refute(goal, Effort(12, 2, 2)).instances[:8]
    proof = prove(goal, load_axioms().equations, instances)
    assert proof.proved, proof.reason
    certificate = explain(goal, load_axioms().by_name, proof.steps)
    assert certificate is not None
    return goal, certificate


@pytest.mark.parametrize("text", PROVED)
def test_a_real_proof_replays(text: str) -> None:
    goal, certificate = certified(text)
    assert replay(goal, load_axioms().by_name, certificate) == ""
    assert certificate.links > 0
    for index, chain in enumerate(certificate.chains):
        assert chain[-1].term == goal.right[index]


@pytest.mark.parametrize("text", PROVED)
def test_a_certificate_tampered_with_does_not_replay(text: str) -> None:
    goal, certificate = certified(text)
    tampered = {change: kind for kind, change in changes(certificate) if change != certificate}
    assert set(tampered.values()) >= {"axiom", "direction", "path", "output", "term", "the chain ends early"}
    axioms = load_axioms().by_name
    accepted = [kind for change, kind in tampered.items() if not replay(goal, axioms, change)]
    assert accepted == []
    assert len(tampered) > 50


def changes(certificate: Certificate) -> Iterator[tuple[str, Certificate]]:
    """Every field of every link changed, links left out, repeated, exchanged; chains left out, exchanged."""
    for number, chain in enumerate(certificate.chains):

        def put(*links: Link, number: int = number) -> Certificate:
            chains = certificate.chains
            return Certificate((*chains[:number], links, *chains[number + 1 :]))

        for index, link in enumerate(chain):
            before, after = chain[:index], chain[index + 1 :]
            for kind, changed in changed_links(link):
                yield kind, put(*before, changed, *after)
            yield "a link is missing", put(*before, *after)
            yield "a link twice", put(*before, link, *chain[index:])
            if before:
                yield "two links exchanged", put(*before[:-1], link, before[-1], *after)
            yield "the chain ends early", put(*before)
    yield "a chain is missing", Certificate(certificate.chains[1:])
    yield "a chain too many", Certificate((*certificate.chains, ()))
    yield "chains exchanged", Certificate(tuple(reversed(certificate.chains)))


def changed_links(link: Link) -> Iterator[tuple[str, Link]]:
    for name in (*sorted(load_axioms().by_name)[::9], "no-such-axiom"):
        yield "axiom", replace(link, axiom=name)
    yield "direction", replace(link, backwards=not link.backwards)
    for path in ((), (*link.path, 0), (*link.path, 1), link.path[:-1], (7,), (-1,), (*link.path[:-1], 1)):
        yield "path", replace(link, path=path)
    for output in (-1, 1, 2):
        yield "output", replace(link, output=output)
    for index, (name, term) in enumerate(link.terms):
        others = (
            *map(Variable, "xyzw"),
            Application("relu", (), (term,)),
            *(other for _, other in link.terms),
        )
        for other in others:
            yield (
                "binding",
                replace(link, terms=(*link.terms[:index], (name, other), *link.terms[index + 1 :])),
            )
        yield "a binding is missing", replace(link, terms=link.terms[:index] + link.terms[index + 1 :])
    yield "a binding too many", replace(link, terms=(*link.terms, ("more", Variable("x"))))
    values: tuple[AttributeTerm, ...] = (0, -1, -2, (2, 2), (3, 3), "same", "none", "relu")
    for index, (name, _) in enumerate(link.attributes):
        for value in (*values, AttributeVariable("q")):
            yield (
                "attribute",
                replace(
                    link, attributes=(*link.attributes[:index], (name, value), *link.attributes[index + 1 :])
                ),
            )
        yield "an attribute is missing", replace(link, attributes=link.attributes[:index])
    yield "term", replace(link, term=Application("relu", (), (link.term,)))
    yield "term", replace(link, term=Variable("x"))


def step(axiom: str, **terms: str) -> AxiomInstance:
    return AxiomInstance(axiom, tuple((name, parse_term(text)) for name, text in terms.items()), ())


def instance(goal: Equation, **given: tuple[int | str, ...]) -> Instance:
    return Instance(shapes(**given), {}, type_equation(goal, shapes(**given)))


def replayed(axioms: str, text: str, *steps: AxiomInstance, **given: tuple[int | str, ...]) -> str:
    """What the checker says of the shortest chain of the steps."""
    goal, known = parse_equation(text), axioms_from_text({"f": axioms}).by_name
    certificate = explain(goal, known, steps)
    assert certificate is not None
    return replay_in(goal, known, certificate, instance(goal, **given))


CONDITIONAL = "c: relu(x) = tanh(x) where rank(x) = 3"
DECLARED = "d: relu(x: f32[n, n]) = tanh(x)"
THROUGH_A_PRODUCT = "a: add(x, y) = matmul(x, y)\nb: matmul(x, y) = sub(x, y)"
WINDOW = "maxpool[kernel=(3, 1)](x)"
OVER_A_WINDOW = (
    f"grow: relu(x) = split0[axis=2](concat[axis=2](relu(x), {WINDOW}))\n"
    f"shrink: split0[axis=2](concat[axis=2](relu(x), {WINDOW})) = tanh(x)"
)
ONES = "one: mul(x, ones()) = x\ntwo: matmul(mul(x, z), mul(y, z)) = matmul(relu(x), y)"
TURNED = "t: relu(x) = transpose(relu(x))"


@pytest.mark.parametrize(
    ("axioms", "goal", "steps", "given", "reason"),
    [
        (CONDITIONAL, "relu(x) = tanh(x)", [step("c", x="x")], {"x": (2, 3, 2)}, ""),
        (CONDITIONAL, "relu(x) = tanh(x)", [step("c", x="x")], {"x": (2, 3)}, "the axiom needs rank(x) = 3"),
        (DECLARED, "relu(x) = tanh(x)", [step("d", x="x")], {"x": (3, 3)}, ""),
        (DECLARED, "relu(x) = tanh(x)", [step("d", x="x")], {"x": (2, 3)}, "not as the axiom declares"),
        (DECLARED, "relu(x) = tanh(x)", [step("d", x="x")], {"x": ("n", "n")}, ""),
        (DECLARED, "relu(x) = tanh(x)", [step("d", x="x")], {"x": ("n", "m")}, "not as the axiom declares"),
        (TURNED, "relu(x) = transpose(relu(x))", [step("t", x="x")], {"x": ("n", "n")}, ""),
        (
            THROUGH_A_PRODUCT,
            "add(x, y) = sub(x, y)",
            [step("a", x="x", y="y"), step("b", x="x", y="y")],
            {"x": (2, 2), "y": (2, 2)},
            "",
        ),
        (
            THROUGH_A_PRODUCT,
            "add(x, y) = sub(x, y)",
            [step("a", x="x", y="y"), step("b", x="x", y="y")],
            {"x": (2, 3), "y": (2, 3)},
            "link 1 (a): matmul",
        ),
        (
            THROUGH_A_PRODUCT,
            "add(x, y) = sub(x, y)",
            [step("a", x="x", y="y"), step("b", x="x", y="y")],
            {"x": ("n", "m"), "y": ("n", "m")},
            "link 1 (a): matmul",
        ),
        (
            OVER_A_WINDOW,
            "relu(x) = tanh(x)",
            [step("grow", x="x"), step("shrink", x="x")],
            {"x": (1, 1, 3, 1)},
            "",
        ),
        (
            OVER_A_WINDOW,
            "relu(x) = tanh(x)",
            [step("grow", x="x"), step("shrink", x="x")],
            {"x": (1, 1, 2, 1)},
            "link 1 (grow): maxpool: a window of 3 does not fit in 2",
        ),
        (
            OVER_A_WINDOW,
            "relu(x) = tanh(x)",
            [step("grow", x="x"), step("shrink", x="x")],
            {"x": ("n", "c", "h", "w")},
            "may be empty",
        ),
        (
            OVER_A_WINDOW,
            "add(relu(x), y) = add(tanh(x), y)",
            [step("grow", x="x"), step("shrink", x="x")],
            {"x": ("n", "c", "h", "w"), "y": ("n", "c", "h", "w")},
            "may be empty",
        ),
        (
            OVER_A_WINDOW,
            f"concat[axis=2](relu(x), {WINDOW}) = concat[axis=2](tanh(x), {WINDOW})",
            [step("grow", x="x"), step("shrink", x="x")],
            {"x": ("n", "c", "h", "w")},
            "",
        ),
        (
            ONES,
            "matmul(x, y) = matmul(relu(x), y)",
            [step("one", x="x"), step("one", x="y"), step("two", x="x", y="y", z="ones()")],
            {"x": (2, 2), "y": (2, 2)},
            "",
        ),
        (
            ONES,
            "matmul(x, y) = matmul(relu(x), y)",
            [step("one", x="x"), step("one", x="y"), step("two", x="x", y="y", z="ones()")],
            {"x": (2, 3), "y": (3, 2)},
            "z stands for two terms, whose sizes differ",
        ),
        (
            "i: relu(x) = tanh(add(x, y))\nj: tanh(add(x, y)) = sigmoid(x)",
            "relu(x) = sigmoid(x)",
            [step("i", x="x", y="q"), step("j", x="x", y="q")],
            {"x": (2, 3)},
            "there is no variable q",
        ),
    ],
)  # fmt: skip
def test_every_term_is_typed_and_every_condition_is_checked(
    axioms: str, goal: str, steps: list[AxiomInstance], given: dict[str, tuple[int | str, ...]], reason: str
) -> None:
    said = replayed(axioms, goal, *steps, **given)
    assert (reason in said) if reason else said == ""


HALVES = "concat[axis=0](split0[axis=0](x), split1[axis=0](x)) = x"


def test_a_cut_that_nothing_determines_is_no_step() -> None:
    """As an axiom ``halves`` holds for every cut, but a chain must say which one it means."""
    axioms = f"halves: {HALVES}\nback: relu({HALVES.replace(' = x', ')')} = tanh(x)"
    steps = (step("halves", x="x"), step("back", x="x"))
    assert "may be any" in replayed(axioms, "relu(x) = tanh(x)", *steps, x=(5,))
    assert replayed(
        axioms, "add(relu(x), split0[axis=0](y)) = add(tanh(x), split0[axis=0](y))", *steps, x=(5,), y=(9,)
    )
    goal = "concat[axis=0](relu(x), split0[axis=0](x)) = concat[axis=0](tanh(x), split0[axis=0](x))"
    known = axioms_from_text({"f": axioms}).by_name
    parsed = parse_equation(goal)
    certificate = explain(parsed, known, steps)
    assert certificate is not None
    given = shapes(x=(5,))
    cuts: Mapping[tuple[Term, int], Dimension] = {(Variable("x"), 0): 2}
    typing = infer_terms(parsed.terms, given, cuts=cuts)
    assert replay_in(parsed, known, certificate, Instance(given, {}, typing)) == ""


def test_a_concat_that_comes_apart_does_so_between_its_operands() -> None:
    axioms = f"halves: {HALVES}\nback: relu({HALVES.replace(' = x', ')')} = tanh(x)"
    whole = "concat[axis=0](x, y)"
    steps = (step("halves", x=whole), step("back", x=whole))
    for sizes in ((2, 5), ("n", "m")):
        assert not replayed(axioms, f"relu({whole}) = tanh({whole})", *steps, x=sizes[:1], y=sizes[1:])


def test_halves_of_a_concat_are_its_operands() -> None:
    """Cut elsewhere both sides have one type, but the axiom does not speak of that."""
    text = "split0[axis=0](concat[axis=0](x, y)) = split1[axis=0](concat[axis=0](y, x))"
    goal, axioms = parse_equation(text), axioms_from_text({"f": f"ends: {text}"}).by_name
    certificate = explain(goal, axioms, [step("ends", x="x", y="y")])
    assert certificate is not None
    assert replay_in(goal, axioms, certificate, instance(goal, x=(2, 3), y=(4, 3))) == ""
    given = shapes(x=(2, 3), y=(4, 3))
    wholes = [side.inputs[0] for side in goal.terms if isinstance(side, Application)]
    cuts: Mapping[tuple[Term, int], Dimension] = {(wholes[0], 0): 1, (wholes[1], 0): 5}
    elsewhere = Instance(given, {}, infer_terms(goal.terms, given, cuts=cuts))
    assert replay_in(goal, axioms, certificate, elsewhere).startswith("output 0, link 1 (ends): ")


def test_an_instance_must_be_one_of_the_rule() -> None:
    axioms = axioms_from_text({"f": "r: relu(x) = tanh(x)"}).by_name
    free = parse_equation("relu(x) = tanh(x)")
    certificate = explain(free, axioms, [step("r", x="x")])
    assert certificate is not None
    oblong = instance(free, x=(2, 3))
    assert replay_in(free, axioms, certificate, oblong) == ""
    conditional = parse_equation("relu(x) = tanh(x) where rank(x) = 3")
    assert "breaks rank(x) = 3" in replay_in(conditional, axioms, certificate, oblong)
    declared = parse_equation("relu(x: f32[n, n]) = tanh(x)")
    assert "not as the rule declares" in replay_in(declared, axioms, certificate, oblong)


def test_where_a_replay_ends_is_said() -> None:
    goal, certificate = certified(PROVED[0])
    short = Certificate((certificate.chains[0][:-1],))
    axioms = load_axioms().by_name
    end = "add(matmul(matmul(x, y), z), matmul(x, w))"
    assert replay(goal, axioms, short) == f"output 0: the chain does not end at {end}"
    first = certificate.chains[0][0]
    missing = Certificate(((replace(first, axiom="gone"), *certificate.chains[0][1:]),))
    assert replay(goal, axioms, missing) == "output 0, link 1 (gone): there is no such axiom"


def test_a_term_that_sizes_may_make_ill_typed_is_no_step() -> None:
    """That two groups divide the outputs is assumed of the rule's own convolutions, not of others."""
    axioms = "in: relu(z) = tanh(add(z, conv(x, y)))\nout: tanh(add(z, conv(x, y))) = sigmoid(z)"
    steps = (step("in", x="x", y="y", z="z"), step("out", x="x", y="y", z="z"))
    goal, other = "(relu(z), relu(x), relu(y), {}) = (sigmoid(z), relu(x), relu(y), {})", "tanh(y)"
    sizes: dict[str, tuple[int | str, ...]] = {
        "x": ("n", 4, "h", "w"),
        "y": ("o", 2, 1, 1),
        "z": ("n", "o", "h", "w"),
    }
    said = replayed(axioms, goal.format(other, other), *steps, **sizes)
    assert said.startswith("output 0, link 1 (in): conv may be ill-typed, depending on sizes (under ")
    assert replayed(axioms, goal.format("conv(x, y)", "conv(x, y)"), *steps, **sizes) == ""
    assert (
        replayed(
            axioms, goal.format(other, other), *steps, **sizes | {"y": (6, 2, 1, 1), "z": ("n", 6, "h", "w")}
        )
        == ""
    )
