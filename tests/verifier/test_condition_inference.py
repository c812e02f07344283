"""Inferred conditions, each compared with both sides at every small shape, in plain numpy."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from superopt.axioms import load_axioms
from superopt.equations import format_condition, format_equation, parse_equation
from superopt.ir import ElementType, TensorType
from superopt.ir.terms import AttributeVariable, Equation, Term, Variable, subterms
from superopt.rewriting import holds, substitutions_of
from superopt.verifier import Options
from superopt.verifier.conditions.inference import InferenceOptions, infer_condition, with_fixed_attributes
from superopt.verifier.prove.solver import SolverLimits
from superopt.verifier.refute.refutation import Effort
from tests.verifier.brute.basics import IllTyped, Real
from tests.verifier.brute.meaning import SHAPES, VALUES

Shape = tuple[int, ...]


def shapes(*axes: Iterable[int]) -> list[Shape]:
    return list(itertools.product(*axes))


QUICK = InferenceOptions(
    first=200, further=60, verification=Options(effort=Effort(schemes=10, per_scheme=2, stack=2))
)
IMAGES = shapes((1, 2), (1, 2), (1, 2, 3, 4), (1, 3))
CHANNELS = shapes((1,), range(1, 7), (2,), (1,))
KERNELS = shapes(range(1, 7), (1, 2, 3), (1,), (1,))
POINTS = shapes((1, 2), (1, 2), (1, 2, 3), (1, 2, 3))


@dataclass(frozen=True)
class Case:
    """A refuted equation, the condition, whether that says exactly where it holds, and all small shapes."""

    text: str
    where: str
    shapes: Mapping[str, list[Shape]]
    attributes: Mapping[str, tuple[object, ...]] = field(default_factory=dict[str, tuple[object, ...]])
    exact: bool = True


def convolutions(text: str, where: str, names: str) -> Case:
    """A rule about grouped convolutions: data in x and y, kernels in w and v."""
    return Case(text, where, {name: CHANNELS if name in "xy" else KERNELS for name in names})


STRIDES = ((1, 1), (2, 2), (1, 2))
PADDINGS = ("valid", "same", "same_upper", "same_lower", (1, 1, 1, 1), (0, 1, 2, 1))

SUMS = "groups(x, w) = 1, groups(y, v) = 1"
SHARED = "groups(x, w) = 1"
SIDE_BY_SIDE = "outputs_per_group(x, w) = outputs_per_group(y, v)"

# The rules about grouped convolution among those published with TASO, by index; 105, 130 and 131 are 98, 99
# and 100 with their steps in another order.
TASO = {
    98: convolutions(
        "add(conv[padding=same](x, w), conv[padding=same](y, v))"
        " => conv[padding=same](concat[axis=1](x, y), concat[axis=1](w, v))",
        SUMS,
        "xwyv",
    ),
    99: convolutions(
        "concat[axis=1](conv[padding=same](x, w), conv[padding=same](y, v))"
        " => conv[padding=same](concat[axis=1](x, y), concat[axis=0](w, v))",
        SIDE_BY_SIDE,
        "xwyv",
    ),
    100: convolutions(
        "concat[axis=1](conv[padding=same, activation=relu](x, w), conv[padding=same, activation=relu](y, v))"
        " => conv[padding=same, activation=relu](concat[axis=1](x, y), concat[axis=0](w, v))",
        SIDE_BY_SIDE,
        "xwyv",
    ),
    125: convolutions(
        "concat[axis=1](conv[padding=same](x, w), conv[padding=same](x, v))"
        " => conv[padding=same](x, concat[axis=0](w, v))",
        SHARED,
        "xwv",
    ),
    126: convolutions(
        "concat[axis=1](conv[padding=same, activation=relu](x, w), conv[padding=same, activation=relu](x, v))"
        " => relu(conv[padding=same](x, concat[axis=0](w, v)))",
        SHARED,
        "xwv",
    ),
    127: convolutions(
        "(conv[padding=same](x, w), conv[padding=same](x, v))"
        " => (split0[axis=1](conv[padding=same](x, concat[axis=0](w, v))),"
        " split1[axis=1](conv[padding=same](x, concat[axis=0](w, v))))",
        SHARED,
        "xwv",
    ),
    128: convolutions(
        "concat[axis=1](conv[padding=same, activation=relu](x, w), conv[padding=same, activation=relu](x, v))"
        " => conv[padding=same, activation=relu](x, concat[axis=0](w, v))",
        SHARED,
        "xwv",
    ),
    129: convolutions(
        "(relu(conv[padding=same](x, w)), conv[padding=same, activation=relu](x, v))"
        " => (split0[axis=1](conv[padding=same, activation=relu](x, concat[axis=0](w, v))),"
        " split1[axis=1](conv[padding=same, activation=relu](x, concat[axis=0](w, v))))",
        SHARED,
        "xwv",
    ),
}

OTHERS = {
    "blocks that are aligned": Case(
        "matmul(concat[axis=-1](a, b), concat[axis=-2](a, c))"
        " => matmul(concat[axis=-1](b, a), concat[axis=-2](c, a))",
        "dim(a, -1) = dim(a, -2)",
        dict.fromkeys("abc", shapes(range(1, 5), range(1, 5))),
    ),
    "a kernel of one position": Case(
        "avgpool[kernel=2, stride=2](conv(x, w)) => conv(avgpool[kernel=2, stride=2](x), w)",
        "dim(w, 2) = 1, dim(w, 3) = 1",
        {"x": shapes((1,), (1, 2), (2, 3, 4), (2, 4)), "w": POINTS},
    ),
    "odd kernels": Case(
        "conv[padding=same_upper](x, w) => conv[padding=same_lower](x, w)",
        "odd(dim(w, 2)), odd(dim(w, 3))",
        {"x": IMAGES, "w": POINTS},
    ),
    "no activation": Case(
        "conv[activation=c](x, add(y, z)) => add(conv[activation=c](x, y), conv[activation=c](x, z))",
        "c = none",
        {"x": shapes((1,), (1, 2), (2,), (1,)), **dict.fromkeys("yz", shapes((1, 2), (1, 2), (1, 2), (1,)))},
        {"c": ("none", "relu", "sigmoid", "tanh")},
    ),
    "no padding": Case(
        "avgpool[kernel=3, padding=p, includes_padding=1](x) => avgpool[kernel=3, padding=p](x)",
        "p = valid",
        {"x": shapes((1,), (1, 2), (1, 2, 3, 4), (1, 3, 4))},
        {"p": PADDINGS},
    ),
    "ungrouped and of one position": Case(
        "conv(conv(x, y), z) => conv(x, conv(z, transpose[perm=(1, 0, 2, 3)](y)))",
        "dim(y, 2) = 1, dim(y, 3) = 1, groups(x, y) = 1",
        {
            "x": shapes((1,), (1, 2, 4), (3,), (2,)),
            "y": shapes((1, 2), (1, 2), (1, 2), (1, 2)),
            "z": shapes((1, 2), (1, 2), (1, 2), (1,)),
        },
    ),
    "stride 1, or sizes that happen to fit": Case(
        "conv[stride=s, padding=same](x, w) => conv[stride=s, padding=same_upper](x, w)",
        "s = (1, 1)",
        {"x": IMAGES, "w": shapes((1,), (1, 2), (1, 3), (1, 3))},
        {"s": STRIDES},
        exact=False,
    ),
    "no padding, or a kernel of one position": Case(
        "conv[padding=p](bias_add[axis=1](x, b), w)"
        " => bias_add[axis=1](conv[padding=p](x, w), kernel_response(w, b))",
        "p = valid",
        {"x": IMAGES, "b": shapes((1, 2)), "w": shapes((1, 2), (1, 2), (1, 2), (1,))},
        {"p": ("valid", "same_upper", (1, 1, 1, 1))},
        exact=False,
    ),
}
CASES = {**{f"TASO {index}": case for index, case in sorted(TASO.items())}, **OTHERS}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_condition_is_found_and_proved_and_right_at_every_small_shape(case: Case) -> None:
    equation = parse_equation(case.text)
    found = infer_condition(equation, load_axioms(), options=QUICK)
    assert found is not None
    assert ", ".join(map(format_condition, found.conditions)) == case.where
    assert found.proved, found.verdict.reason
    assert found.exact is case.exact
    assert found.equation == with_fixed_attributes(parse_equation(f"{case.text} where {case.where}"))
    assert substitutions_of(found.equation, "rule")
    counts = {(said, true): 0 for said in (False, True) for true in (False, True)}
    for types, attributes, agrees in instances(equation, case):
        said = all(holds(condition, types, attributes) for condition in found.conditions)
        counts[said, agrees] += 1
        assert agrees or not said, (types, attributes)
        assert said or not agrees or not case.exact, (types, attributes)
    assert counts[True, True] > 5
    assert counts[False, False] > 5
    assert (counts[False, True] == 0) is case.exact


def instances(
    equation: Equation, case: Case
) -> Iterator[tuple[dict[str, TensorType], dict[str, object], bool]]:
    """Every assignment of the case at which both sides are well-typed, and whether they agree there."""
    order = tuple(subterms(*equation.terms))
    names = [term.name for term in order if isinstance(term, Variable)]
    choices = list(itertools.product(*case.attributes.values()))
    for chosen in itertools.product(*(case.shapes[name] for name in names)):
        shapes_by_name = dict(zip(names, chosen, strict=True))
        types = {name: TensorType(ElementType.FLOAT, shape) for name, shape in shapes_by_name.items()}
        for values in choices:
            attributes = dict(zip(case.attributes, values, strict=True))
            agrees = agree(equation, order, shapes_by_name, attributes)
            if agrees is not None:
                yield types, attributes, agrees


def agree(
    equation: Equation,
    order: Sequence[Term],
    given: Mapping[str, Shape],
    attributes: Mapping[str, object],
) -> bool | None:
    """Whether the sides are equal in shape, and in value for three inputs; None when a term is ill-typed.

    What is cut here is cut where the outputs of the first kernel end: elsewhere types of outputs differ.
    """
    found: dict[Term, Shape] = {}
    operators: dict[Term, dict[str, object]] = {}
    for term in order:
        if isinstance(term, Variable):
            found[term] = given[term.name]
            continue
        operators[term] = {
            name: attributes[value.name] if isinstance(value, AttributeVariable) else value
            for name, value in term.attributes
        }
        if term.operator in ("split0", "split1"):
            operators[term]["size"] = given["w"][0]
        try:
            found[term] = SHAPES[term.operator](operators[term], *(found[child] for child in term.inputs))
        except IllTyped:
            return None
    pairs = list(zip(equation.left, equation.right, strict=True))
    if any(found[left] != found[right] for left, right in pairs):
        return False
    generator = np.random.default_rng(0)
    for _ in range(3):
        values: dict[Term, Real] = {}
        for term in order:
            values[term] = (
                generator.normal(size=found[term])
                if isinstance(term, Variable)
                else VALUES[term.operator](operators[term], *(values[child] for child in term.inputs))
            )
        if not all(np.allclose(values[left], values[right], rtol=1e-9, atol=1e-9) for left, right in pairs):
            return False
    return True


@pytest.mark.parametrize(
    "text",
    [
        "add(x, y) => add(y, x)",
        "relu(x) => sigmoid(x)",
        "sub(x, x) => sub(y, y)",
        "matmul(x, scale(y, x)) => matmul(x, y)",
        "transpose(x) => transpose[perm=(1, 0)](x)",
    ],
    ids=["true everywhere", "false everywhere", "always 0", "never well-typed", "true where well-typed"],
)
def test_where_no_condition_tells_anything_apart_there_is_none(text: str) -> None:
    assert infer_condition(parse_equation(text), load_axioms()) is None


def test_a_condition_that_is_not_proved_is_only_a_suggestion() -> None:
    few = Options(limits=SolverLimits(resources=200_000))
    found = infer_condition(
        parse_equation("matmul(x, y) => matmul(y, x)"),
        load_axioms(),
        options=InferenceOptions(verification=few),
    )
    assert found is not None
    assert not found.proved
    assert found.exact
    assert format_equation(found.equation) == (
        "matmul(x, y) => matmul(y, x) where dim(x, -1) = 1, dim(x, -2) = 1"
    )


def test_a_condition_that_the_equation_has_is_kept() -> None:
    equation = parse_equation(f"{CASES['odd kernels'].text} where dim(w, 2) = 3")
    found = infer_condition(equation, load_axioms())
    assert found is not None
    assert found.proved
    assert found.exact
    assert [format_condition(c) for c in found.equation.conditions] == ["dim(w, 2) = 3", "odd(dim(w, 3))"]


def test_kernels_of_one_constant_need_as_many_channels() -> None:
    """The constant has one shape, and nothing but the convolutions says which."""
    pools = "avgpool[kernel=3, padding=same, includes_padding=1]"
    convs = "conv[padding=same](x, avgpool_kernel[kernel=3]), conv[padding=same](y, avgpool_kernel[kernel=3])"
    found = infer_condition(parse_equation(f"({pools}(x), {pools}(y)) => ({convs})"), load_axioms())
    assert found is not None
    assert found.proved
    assert [format_condition(c) for c in found.conditions] == ["channels(x) = channels(y)"]


@pytest.mark.parametrize(
    "text",
    ["log(reduce_sum[axis=a](exp(x))) => x", "sqrt(reduce_sum[axis=a](mul(x, x))) => absolute(x)"],
)
def test_real_numbers_decide_where_functions_are_arbitrary_in_a_field(text: str) -> None:
    found = infer_condition(parse_equation(text), load_axioms(), options=QUICK)
    assert found is not None
    assert found.proved
    assert [format_condition(c) for c in found.conditions] == ["dim(x, a) = 1"]


def test_a_law_of_logarithms_does_not_hold_for_one_exponent_only() -> None:
    """It holds for 1, and for all others that are no even number."""
    equation = parse_equation("log(power[exponent=v](x)) => scale(log(x), full[value=v])")
    found = infer_condition(equation, load_axioms())
    assert found is None or not found.exact


def test_it_is_the_same_every_time() -> None:
    equation = parse_equation(CASES["odd kernels"].text)
    first, second = (infer_condition(equation, load_axioms(), options=QUICK) for _ in range(2))
    assert first is not None
    assert second is not None
    assert (first.equation, first.exact, first.checked) == (second.equation, second.exact, second.checked)


def test_it_evaluates_no_more_than_it_may() -> None:
    options = InferenceOptions(few=10, first=30, further=10, most=40)
    found = infer_condition(parse_equation(TASO[98].text), load_axioms(), options=options)
    assert found is None or found.checked <= 40
