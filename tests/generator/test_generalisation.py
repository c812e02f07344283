"""Equations made as general as evaluation allows: attributes, variables, conditions."""

from __future__ import annotations

import pytest

from superopt.equations import canonical, format_equation, parse_equation
from superopt.generator.generalise.conditions import differs_at_other_ranks, under_conditions
from superopt.generator.generalise.generalisation import Generaliser
from superopt.generator.generalise.generic_sizes import generic_typing
from superopt.generator.generalise.sampling import Sampler, Shapes
from superopt.generator.generalise.shared_types import SharedTypes
from superopt.generator.generalise.shared_values import SharedValues
from superopt.ir.terms import Variable
from superopt.ops.base import operator_from_attributes

IMAGE, KERNEL, POINTWISE, MATRIX = (1, 2, 4, 5), (2, 2, 3, 3), (2, 2, 1, 1), (4, 4)

FORMS: dict[str, tuple[str, Shapes, str]] = {
    "stride, padding and dilation of a convolution": (
        "relu(conv[padding=same](x, y)) <=> conv[padding=same, activation=relu](x, y)",
        {"x": IMAGE, "y": KERNEL},
        (
            "relu(conv[stride=s, padding=p, dilation=dilation](x, y)) "
            "<=> conv[stride=s, padding=p, dilation=dilation, activation=relu](x, y)"
        ),
    ),
    "the axis of what works element by element": (
        "relu(concat[axis=0](x, y)) <=> concat[axis=0](relu(x), relu(y))",
        {"x": MATRIX, "y": MATRIX},
        "relu(concat[axis=a](x, y)) <=> concat[axis=a](relu(x), relu(y))",
    ),
    "not the axis of what does not": (
        "matmul(concat[axis=-2](x, y), z) <=> concat[axis=-2](matmul(x, z), matmul(y, z))",
        {"x": MATRIX, "y": MATRIX, "z": MATRIX},
        "matmul(concat[axis=-2](x, y), z) <=> concat[axis=-2](matmul(x, z), matmul(y, z))",
    ),
    "not the padding where only one fits": (
        "conv[padding=same](x, enlarge[kernel=3](y)) <=> conv[padding=same](x, y)",
        {"x": IMAGE, "y": POINTWISE},
        (
            "conv[stride=s, padding=same, dilation=dilation, activation=c](x, enlarge[kernel=3](y)) "
            "<=> conv[stride=s, padding=same, dilation=dilation, activation=c](x, y)"
        ),
    ),
    "numbers of different names": (
        (
            "lrn[size=5, alpha=1/10000, beta=3/4, bias=2](x) <=> div(x, power[exponent=3/4](bias_add[axis=1]"
            "(conv(mul(x, x), band_kernel[size=5, alpha=1/10000]), full[value=2])))"
        ),
        {"x": (1, 6, 1, 3)},
        (
            "lrn[size=size, alpha=alpha, beta=beta, bias=bias](x) <=> div(x, power[exponent=beta](bias_add"
            "[axis=1](conv(mul(x, x), band_kernel[size=size, alpha=alpha]), full[value=bias])))"
        ),
    ),
    "not numbers that matter": (
        "mul(x, hard_sigmoid[alpha=1/6, beta=1/2](x)) <=> hard_swish(x)",
        {"x": MATRIX},
        "mul(x, hard_sigmoid[alpha=1/6](x)) <=> hard_swish(x)",
    ),
}

CONDITIONS: dict[str, tuple[str, Shapes, str | None]] = {
    "outputs side by side need one group": (
        "concat[axis=1](conv(x, y), conv(x, z)) <=> conv(x, concat[axis=0](y, z))",
        {"x": IMAGE, "y": KERNEL, "z": KERNEL},
        "groups(x, z) = 1",
    ),
    "pooling moves past a kernel of one position": (
        "avgpool[kernel=3, padding=same](conv(x, y)) <=> conv(avgpool[kernel=3, padding=same](x), y)",
        {"x": IMAGE, "y": POINTWISE},
        "dim(y, 2) = 1, dim(y, 3) = 1",
    ),
    "no condition known helps": ("relu(conv(x, y)) <=> conv(relu(x), y)", {"x": IMAGE, "y": KERNEL}, None),
}

WIDER: dict[str, tuple[str, Shapes, str]] = {
    "a variable that was two": (
        "add(matmul(x, y), matmul(x, y)) <=> matmul(x, add(y, y))",
        {"x": MATRIX, "y": MATRIX},
        "add(matmul(x, y), matmul(x, z)) <=> matmul(x, add(z, y))",
    ),
    "the halves of a merge stay one term": (
        (
            "(matmul(x, y), matmul(x, y)) => (split0[axis=-1](matmul(x, concat[axis=-1](y, y))), "
            "split1[axis=-1](matmul(x, concat[axis=-1](y, y))))"
        ),
        {"x": MATRIX, "y": MATRIX},
        (
            "(matmul(x, y), matmul(x, z)) => (split0[axis=-1](matmul(x, concat[axis=-1](y, z))), "
            "split1[axis=-1](matmul(x, concat[axis=-1](y, z))))"
        ),
    ),
}


@pytest.mark.parametrize(("text", "shapes", "expected"), FORMS.values(), ids=FORMS)
def test_the_most_general_form(text: str, shapes: Shapes, expected: str) -> None:
    forms = Generaliser(Sampler()).attribute_forms(parse_equation(text), shapes)
    assert format_equation(canonical(forms[0])) == expected
    assert format_equation(forms[-1]) == format_equation(parse_equation(text))


@pytest.mark.parametrize(("text", "shapes", "expected"), CONDITIONS.values(), ids=CONDITIONS)
def test_conditions(text: str, shapes: Shapes, expected: str | None) -> None:
    equation = parse_equation(text)
    assert Sampler().holds(equation, shapes, samples=6) is False
    found = under_conditions(equation, shapes, Sampler())
    assert (format_equation(found).partition(" where ")[2] if found else None) == expected


@pytest.mark.parametrize(("text", "shapes", "expected"), WIDER.values(), ids=WIDER)
def test_more_variables(text: str, shapes: Shapes, expected: str) -> None:
    found = Generaliser(Sampler()).with_more_variables(parse_equation(text), shapes)
    assert found is not None
    assert format_equation(canonical(found[0])) == expected


def test_a_subterm_of_both_sides_becomes_a_variable() -> None:
    equation = parse_equation("add(relu(x), relu(matmul(x, y))) <=> add(relu(matmul(x, y)), relu(x))")
    found = Generaliser(Sampler()).without_common_subterms(equation, {"x": MATRIX, "y": MATRIX})
    assert found is not None
    assert format_equation(canonical(found[0])) == "add(relu(x), y) <=> add(y, relu(x))"


def test_a_value_at_which_the_sides_differ_in_size_is_no_instance() -> None:
    """Margins are exchanged as well when rows and columns are; with the same ones, both sides have a size."""
    turned = "transpose[perm=(0, 1, 3, 2)]"
    equation = parse_equation(
        f"conv[padding=p](x, y) <=> {turned}(conv[padding=p]({turned}(x), {turned}(y)))"
    )
    shapes, sampler = {"x": IMAGE, "y": KERNEL}, Sampler()
    assert sampler.holds(equation, shapes, {"p": (1, 0, 2, 1)}) is None
    assert sampler.differs_in_type(equation, shapes, {"p": (1, 0, 2, 1)})
    assert not sampler.differs_in_type(equation, shapes, {"p": "valid"})
    assert not sampler.differs_in_type(equation, {"x": IMAGE, "y": MATRIX}, {"p": (1, 0, 2, 1)})


def test_sizes_of_kernels_are_even_where_they_can_be() -> None:
    for padding, even in (("same_upper", True), ("same", False)):
        typing = generic_typing(
            parse_equation(f"conv[padding={padding}](x, y) = x"), {"x": IMAGE, "y": KERNEL}, {}
        )
        assert typing is not None
        rows, columns = typing.types[Variable("y")].shape[2:]
        assert isinstance(rows, int)
        assert isinstance(columns, int)
        assert (rows % 2 == 0, columns % 2 == 0) == (even, even)


def test_what_holds_only_at_equal_sizes() -> None:
    sampler = Sampler()
    assert sampler.equates_sizes(parse_equation("enlarge[kernel=3](x) = x"), {"x": KERNEL})
    assert not sampler.equates_sizes(parse_equation("transpose(transpose(x)) = x"), {"x": MATRIX})


def test_values_of_open_attributes_are_tested_as_written_ones() -> None:
    text = "conv[stride={}, padding={}](x, enlarge[kernel=3](y)) <=> conv[stride={}, padding={}](x, y)"
    opened, shapes = parse_equation(text.format(*"spsp")), {"x": IMAGE, "y": POINTWISE}
    sampler = Sampler()
    for stride, padding, expected in (((2, 2), "same", True), ((2, 1), "valid", None)):
        written = parse_equation(text.format(*(stride, padding) * 2))
        assert sampler.holds(opened, shapes, {"s": stride, "p": padding}) is expected
        assert sampler.holds(written, shapes) is Sampler().holds(written, shapes) is expected


def test_further_samples_decide_anew() -> None:
    """One sample has no groups, and says nothing about further ones."""
    text, shapes, _ = CONDITIONS["outputs side by side need one group"]
    sampler = Sampler()
    answers = [sampler.holds(parse_equation(text), shapes, samples=samples) for samples in (1, 3, 6, 1)]
    assert answers == [True, False, False, True]


def test_values_carry_what_their_own_operators_need() -> None:
    """Exponentials need exponents and comparisons an order, the same operator without them only residues."""
    plain, rectified, logistic = (
        operator_from_attributes("conv", {"activation": name}) for name in ("none", "relu", "sigmoid")
    )
    values, types = SharedValues(), SharedTypes()
    numbers = [types.operator_id(operator) for operator in (plain, rectified, logistic)]
    for number in numbers:
        found = None
        while found is None:
            carried = values.carried([number])
            inputs = _image_and_kernel(values, carried)
            found = values.applied(number, types.operator(number), inputs, carried)
            if found is None:
                values.need(number, carried + 1)
    assert [values.carried([number]) for number in numbers] == [0, 1, 2]
    assert values.carried([numbers[0], numbers[2]]) == 2


def _image_and_kernel(values: SharedValues, carried: int) -> tuple[int, int]:
    return values.variable("x", IMAGE, 0, carried), values.variable("y", KERNEL, 0, carried)


def test_blocks_that_only_align_in_squares_do_not_hold() -> None:
    left = "matmul(concat[axis=-1](x, y), concat[axis=-2](x, z))"
    right = "matmul(concat[axis=-1](y, x), concat[axis=-2](z, x))"
    shapes = dict.fromkeys("xyz", MATRIX)
    assert Sampler().holds(parse_equation(f"{left} = {right}"), shapes, samples=6) is False


@pytest.mark.parametrize("rank", [3, 4])
def test_batches_of_divided_products_need_equal_ranks(rank: int) -> None:
    """At ranks 2 and 3 the first axes are different ones: both sides are well-typed, divided differently."""
    batches = parse_equation(
        "matmul(pipeline[axis=0, degree=2](x), pipeline[axis=0, degree=2](y))"
        " = pipeline[axis=0, degree=2](matmul(x, y))"
    )
    columns = parse_equation("relu(matmul(relu(x), y)) = relu(matmul(relu(x), y))")
    shapes = {"x": (4,) * rank, "y": (4,) * rank}
    assert differs_at_other_ranks(batches, shapes, Sampler(), {})
    assert not differs_at_other_ranks(columns, shapes, Sampler(), {})
