"""Mutants of proved rules: one is accepted only if evaluation over all small shapes agrees with it."""

# ruff: noqa: E501

from __future__ import annotations

import itertools

import numpy as np

from axioms import load_axioms
from superopt.domains import PrimeFieldDomain
from superopt.equations import format_equation, parse_equation
from superopt.errors import IllTypedError
from superopt.ir.terms import Equation, attribute_variables, variables
from superopt.ir.types import ElementType, TensorType
from superopt.rewriting.conditions import holds
from superopt.rewriting.evaluation import evaluate_terms
from superopt.rewriting.typing import infer_terms
from tests.verifier.mutations import mutations
from tests.verifier.rules import RIGHT
from verifier import Options, Status, verify
from verifier.refute import Effort
from verifier.solver import Limits

QUICK = Options(Effort(schemes=10, per_scheme=2, stack=2), Limits(milliseconds=250))
PER_RULE = 9
SHAPES = {
    0: [()],
    1: [(1,), (2,), (3,)],
    2: list(itertools.product((1, 2, 3), repeat=2)),
    4: [(1, c, 3, k) for c in (1, 2, 4) for k in (2, 3)]
    + [(o, i, 1, k) for o in (2, 4) for i in (1, 2) for k in (1, 3)],
}
VALUES = {"s": ((1, 1), (2, 2)), "p": ("valid", "same", "same_upper", "same_lower"), "k": ((1, 1), (3, 3), (2, 2)), "c": ("none", "relu"), "a": (0, 1, -1)}  # fmt: skip


def _agrees_on_all_small_shapes(equation: Equation) -> bool:
    """Brute force that shares nothing with the verifier's sampling; needs one well-typed instance at least."""
    names = variables(*equation.left, *equation.right)
    open_names = sorted(attribute_variables(*equation.left, *equation.right))
    ranks = [(2, 4, 1, 0) for _ in names]
    generator = np.random.default_rng(0)
    agreed = 0
    for chosen in itertools.product(*ranks):
        space = [SHAPES[rank] for rank in chosen]
        if np.prod([len(shapes) for shapes in space]) > 3000:
            space = [shapes[::3] or shapes for shapes in space]
        for shapes in itertools.islice(itertools.product(*space), 800):
            types = {n: TensorType(ElementType.FLOAT, s) for n, s in zip(names, shapes, strict=True)}
            for values in itertools.product(*(VALUES[name] for name in open_names)):
                outcome = _agrees(equation, types, dict(zip(open_names, values, strict=True)), generator)
                if outcome is False:
                    return False
                agreed += outcome is True
    return agreed > 0


def _agrees(
    equation: Equation,
    types: dict[str, TensorType],
    attributes: dict[str, object],
    generator: np.random.Generator,
) -> bool | None:
    sides = (*equation.left, *equation.right)
    try:
        typing = infer_terms(sides, types, attributes, equal=())
        if typing.unresolved:
            typing = infer_terms(
                sides, types, attributes, equal=list(zip(equation.left, equation.right, strict=True))
            )
    except IllTypedError:
        return None
    if typing.unresolved or not all(holds(c, types, attributes) for c in equation.conditions):
        return None
    half = len(equation.left)
    if [typing.types[t] for t in sides[:half]] != [typing.types[t] for t in sides[half:]]:
        return False
    domain = PrimeFieldDomain()
    arrays = {n: domain.random(generator, 2, t.shape) for n, t in types.items()}  # pyright: ignore[reportArgumentType]
    with np.errstate(all="ignore"):
        values = evaluate_terms(sides, typing, domain, arrays)
    return all(
        np.array_equal(a.residue, b.residue) for a, b in zip(values[:half], values[half:], strict=True)
    )


def test_no_wrong_mutant_is_accepted() -> None:
    axioms = load_axioms()
    tried = accepted = 0
    wrong: list[str] = []
    for seed, text in enumerate(RIGHT):
        for mutant in mutations(parse_equation(text), PER_RULE, seed):
            tried += 1
            if verify(mutant, axioms, options=QUICK).status is Status.VERIFIED:
                accepted += 1
                if not _agrees_on_all_small_shapes(mutant):
                    wrong.append(format_equation(mutant))
    assert wrong == []
    assert tried >= 200
    assert accepted < tried / 4
    print(f"{tried} mutants, {accepted} accepted")  # noqa: T201
