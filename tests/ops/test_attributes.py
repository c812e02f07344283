"""Attributes: one spelling, and values of the wrong kind are refused."""

from __future__ import annotations

from fractions import Fraction

import pytest

from superopt.errors import IllTypedError
from superopt.ops import attributes_of, normalise_attribute, operator_from_attributes
from superopt.ops.images.convolution import Conv


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("kernel", 3, (3, 3)),
        ("stride", (1, 2), (1, 2)),
        ("axis", -1, -1),
        ("alpha", 0.2, Fraction(1, 5)),
        ("alpha", 2.0, 2),
        ("alpha", Fraction(6, 3), 2),
        ("epsilon", 1e-5, Fraction(1, 100000)),
        ("epsilon", 1e-12, Fraction(1, 10**12)),
        ("beta", 1 / 3, Fraction(1, 3)),
    ],
)
def test_one_spelling(name: str, value: object, expected: object) -> None:
    assert normalise_attribute(name, value) == expected


@pytest.mark.parametrize("number", [0.1, 1e-12, 1e-300, 9.999999747378752e-06, 12345.678, -2.5])
def test_a_float_becomes_a_fraction_that_rounds_to_it(number: float) -> None:
    fraction = normalise_attribute("alpha", number)
    assert isinstance(fraction, Fraction)
    assert float(fraction) == number


@pytest.mark.parametrize(
    ("operator", "attributes", "message"),
    [
        ("conv", {"stride": 0}, "conv: expected stride to be two positive integers, got (0, 0)"),
        ("conv", {"stride": (1, 2, 3)}, "conv: expected stride to be two positive integers, got (1, 2, 3)"),
        (
            "conv",
            {"padding": "most"},
            "conv: expected padding to be valid, same, same_upper, same_lower or four",
        ),
        (
            "conv",
            {"padding": (1, 1)},
            "conv: expected padding to be valid, same, same_upper, same_lower or four",
        ),
        ("concat", {"axis": "same"}, "concat: expected axis to be an integer, got same"),
        ("concat", {}, "concat needs the attribute axis"),
        ("concat", {"axes": 1}, "concat has no attribute axes; it has: axis"),
        ("transpose", {"perm": 3}, "transpose: expected perm to be a tuple of axes, got 3"),
        ("hard_sigmoid", {"alpha": float("nan")}, "attribute alpha: expected a finite number, got nan"),
        ("hard_sigmoid", {"alpha": "relu"}, "hard_sigmoid: expected alpha to be a number, got relu"),
        ("gelu", {"approximate": "relu"}, "gelu: expected approximate to be none or tanh, got relu"),
        ("split", {"axis": 0, "sizes": (1, -1)}, "split: expected sizes to be a tuple of sizes, got (1, -1)"),
        ("rotate", {}, "unknown operator rotate; known: absolute, add, "),
    ],
)
def test_wrong_values_are_refused(operator: str, attributes: dict[str, object], message: str) -> None:
    with pytest.raises(IllTypedError) as error:
        operator_from_attributes(operator, attributes)
    assert str(error.value).startswith(message)


def test_attributes_there_and_back() -> None:
    conv = Conv((2, 1), (1, 0, 1, 0), (1, 1), "relu")
    assert operator_from_attributes("conv", attributes_of(conv)) == conv
