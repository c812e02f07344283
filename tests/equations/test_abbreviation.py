"""What people see of equations with algorithms: names in place of matrices."""

from __future__ import annotations

import pytest

from superopt.equations import abbreviated, parse_equation, picture
from superopt.equations.layout import layout

KARATSUBA = "(((1, -1, 0), (0, 1, 0), (0, 1, -1)), ((1, 0), (1, 1), (0, 1)), ((1, 0), (1, 1), (0, -1)))"
"""Two outputs of two taps."""

HALVES = "(((1, -1, 0), (0, 1/2, 0), (0, 1, -1)), ((1, 0), (2, 2), (0, 1)), ((1, 0), (1, 1), (0, -1)))"
"""The same with another scale."""

DEFINITION = "(((1, 0, 0), (0, 1, 0), (0, 0, 1)), ((1, 0, 0), (0, 1, 0), (0, 0, 1)), ((1,), (1,), (1,)))"
"""One output of three taps."""

SCALING = "(((2,),), ((1/2,),), ((1,),))"
"""One output of one tap."""


PRODUCT = "(((1, 0), (0, 1)), ((1, 0), (0, 1)), ((1,), (1,)))"
"""One times two by one: the same map as a filter with one output."""

BLOCKS = (
    "(((1, 0, 0, 1), (0, 0, 1, 1), (1, 0, 0, 0), (0, 0, 0, 1), (1, 1, 0, 0), (-1, 0, 1, 0), (0, 1, 0, -1)), "
    "((1, 0, 0, 1), (1, 0, 0, 0), (0, 1, 0, -1), (-1, 0, 1, 0), (0, 0, 0, 1), (1, 1, 0, 0), (0, 0, 1, 1)), "
    "((1, 0, 0, 1), (0, 0, 1, -1), (0, 1, 0, 1), (1, 0, 1, 0), (-1, 1, 0, 0), (0, 0, 0, 1), (1, 0, 0, 0)))"
)
"""Strassen's algorithm."""

OUTER = (
    "(((1, 0), (1, 0), (0, 1), (0, 1)), ((1, 0), (0, 1), (1, 0), (0, 1)), "
    "((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)))"
)
"""Two times one by two."""


def bilinear(rows: str, columns: str) -> str:
    """A convolution by algorithms along both axes."""
    both = f"rows={rows}, columns={columns}"
    return f"conv[padding=p](x, y) => bilinear_conv[{both}, padding=p](x, filter_transform[{both}](y))"


SHORT = bilinear("F(2,2)", "F(1,3)")
FULL = bilinear(KARATSUBA, DEFINITION)

CASES = {
    "": "",
    "relu(x) => x": "relu(x) => x",
    "F(2,3)": "F(2,3)",
    "transpose[perm=(0, 2, 1)](x)": "transpose[perm=(0, 2, 1)](x)",
    KARATSUBA: "F(2,2)",
    HALVES: "F(2,2)",
    SCALING: "F(1,1)",
    PRODUCT: "F(1,2)",
    BLOCKS: "2x2x2:7",
    OUTER: "2x1x2:4",
    f"matmul(x, y) => bilinear_matmul[algorithm={BLOCKS}](x, y)": (
        "matmul(x, y) => bilinear_matmul[algorithm=2x2x2:7](x, y)"
    ),
    FULL: SHORT,
    f"by {FULL}; by {FULL}": f"by {SHORT}; by {SHORT}",
    f"({KARATSUBA}, {HALVES})": "(F(2,2), F(2,2))",
    KARATSUBA[1:-1]: KARATSUBA[1:-1],
    KARATSUBA[:-1]: KARATSUBA[:-1],
    KARATSUBA.replace("1, -1, 0", "1, -1"): KARATSUBA.replace("1, -1, 0", "1, -1"),
    KARATSUBA.replace("(1, 0), ", "", 1): KARATSUBA.replace("(1, 0), ", "", 1),
    DEFINITION.replace("(1,)", "(1, 0)"): DEFINITION.replace("(1,)", "(1, 0)"),
    SCALING.replace("1/2", "a"): SCALING.replace("1/2", "a"),
    BLOCKS.replace("(1, 0, 0, 0), ", "", 2): BLOCKS.replace("(1, 0, 0, 0), ", "", 2),
    "((1, 2), (3, 4), (5, 6))": "((1, 2), (3, 4), (5, 6))",
}
"""Texts and their abbreviations; the last are matrices of no algorithm."""


@pytest.mark.parametrize("text", CASES, ids=range(len(CASES)))
def test_algorithms_are_named_by_outputs_and_taps(text: str) -> None:
    assert abbreviated(text) == CASES[text]
    assert abbreviated(CASES[text]) == CASES[text]


def test_pictures_name_algorithms() -> None:
    equation = parse_equation(FULL)
    assert picture(equation).splitlines() == [
        "conv[padding=p]  =>  bilinear_conv[rows=F(2,2), columns=F(1,3), padding=p]",
        "├─ x                 ├─ x",
        "└─ y                 └─ filter_transform[rows=F(2,2), columns=F(1,3)]",
        "                        └─ y",
    ]
    lines = {box.name: box.attributes for box in layout(equation.right).boxes}
    assert lines["filter_transform"] == ("rows=F(2,2),", "columns=F(1,3)")
