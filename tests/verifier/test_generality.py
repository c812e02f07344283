"""Which forms of a rule are instances of others: what cannot be shown of them cannot be shown of those."""

from __future__ import annotations

import pytest

from superopt.equations import format_equation, parse_equation
from superopt.verifier.generality import is_instance, with_bounded_ranks, with_matrix_axes

GENERAL = "concat[axis=a](relu(x), relu(y)) <=> relu(concat[axis=a](x, y))"
POOLS = "maxpool[kernel=k, stride=s](x) => maxpool[kernel=k, stride=s](relu(x))"


INSTANCES = [
    ("concat[axis=0](relu(x), relu(y)) <=> relu(concat[axis=0](x, y))", GENERAL),
    ("concat[axis=1](relu(u), relu(v)) <=> relu(concat[axis=1](u, v))", GENERAL),
    (GENERAL, GENERAL),
    ("maxpool[kernel=3](x) => maxpool[kernel=3](relu(x))", POOLS),
    ("maxpool[kernel=k](x) => maxpool[kernel=k](relu(x))", POOLS),
    ("softmax(x) => x", "softmax[axis=-1](x) => x"),
]
OTHERS = [
    ("concat[axis=0](relu(x), relu(y)) <=> relu(concat[axis=1](x, y))", GENERAL),
    ("concat[axis=0](relu(x), relu(x)) <=> relu(concat[axis=0](x, x))", GENERAL),
    ("concat[axis=0](relu(x), tanh(y)) <=> relu(concat[axis=0](x, y))", GENERAL),
    ("concat[axis=0](x, y) <=> relu(concat[axis=0](x, y))", GENERAL),
    (GENERAL, "concat[axis=0](relu(x), relu(y)) <=> relu(concat[axis=0](x, y))"),
    ("softmax(x) => x", "softmax[axis=a](x) => x where rank(x) = 2"),
]


@pytest.mark.parametrize(("special", "general"), INSTANCES)
def test_an_instance_has_values_for_attributes_and_other_names_for_tensors(
    special: str, general: str
) -> None:
    assert is_instance(parse_equation(special), parse_equation(general))


@pytest.mark.parametrize(("special", "general"), OTHERS)
def test_what_is_no_instance(special: str, general: str) -> None:
    assert not is_instance(parse_equation(special), parse_equation(general))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "split1[axis=1](matmul(x, concat[axis=1](y, identity_matrix()))) => x",
            "split1[axis=-1](matmul(x, concat[axis=-1](y, identity_matrix()))) => x",
        ),
        (
            "transpose(concat[axis=0](x, ones())) => concat[axis=1](transpose(x), ones())",
            "transpose(concat[axis=-2](x, ones())) => concat[axis=-1](transpose(x), ones())",
        ),
        ("transpose(concat[axis=0](x, y)) => concat[axis=1](transpose(x), transpose(y))", None),
        ("relu(concat[axis=1](x, y)) => concat[axis=1](relu(x), relu(y))", None),
        ("matmul(x, concat[axis=a](y, ones())) => concat[axis=a](matmul(x, y), matmul(x, ones()))", None),
    ],
)
def test_rules_about_matrices_count_axes_from_the_end(text: str, expected: str | None) -> None:
    form = with_matrix_axes(parse_equation(text))
    assert (None if form is None else format_equation(form)) == expected


def test_a_bound_holds_for_every_tensor_beside_other_conditions() -> None:
    equation = parse_equation("matmul(x, add(y, y)) <=> add(matmul(x, y), matmul(x, y)) where rank(y) >= 2")
    assert format_equation(with_bounded_ranks(equation, 4)).endswith(
        " where rank(y) >= 2, rank(x) <= 4, rank(y) <= 4"
    )
