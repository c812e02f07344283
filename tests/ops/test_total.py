"""``is_total`` against the definitions: a total operator is defined everywhere, another one is not."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from superopt.domains import PartialDomain
from superopt.ir.terms import AttributeVariable
from superopt.ops import OPERATORS, attribute_defaults
from superopt.ops.base import attributes_of, operator_from_attributes
from tests.ops.examples import every_operator, examples

PARTIAL = {"div", "log", "sqrt", "batchnorm_scale"}
DEPENDS = {"power", "rms_normalization", "layer_normalization", "lrn"}


@every_operator
def test_examples_are_undefined_somewhere_unless_total(name: str) -> None:
    domain, generator = PartialDomain(), np.random.default_rng(5)
    for example in examples(name):
        arrays = [generator.integers(-2, 3, (8, *shape)).astype(float) for shape in example.shapes]
        results = example.evaluated(domain, *map(domain.exactly, arrays))
        met = any(result.undefined.any() for result in results)
        assert met is not OPERATORS[name].is_total(attributes_of(example.operator)), example


CASES = [
    ("power", {"exponent": 2}, True),
    ("power", {"exponent": 0}, True),
    ("power", {"exponent": 9}, True),
    ("power", {"exponent": -1}, False),
    ("power", {"exponent": Fraction(1, 2)}, False),
    ("power", {"exponent": Fraction(1, 3)}, False),
    ("power", {"exponent": Fraction(9, 4)}, False),
    ("rms_normalization", {}, True),
    ("rms_normalization", {"epsilon": 0}, False),
    ("layer_normalization", {"epsilon": Fraction(-1, 2)}, False),
    ("lrn", {"size": 3}, True),
    ("lrn", {"size": 3, "bias": 0}, False),
    ("lrn", {"size": 3, "bias": 0, "beta": -2}, True),
    ("lrn", {"size": 3, "alpha": -9}, False),
    ("lrn", {"size": 3, "alpha": -3, "beta": 2}, False),
    ("batchnorm_scale", {"epsilon": 1}, False),
]
SHAPES = {"lrn": [(1, 3, 1, 2)], "power": [(6,)], "batchnorm_scale": [(3,), (3,)]}


@pytest.mark.parametrize(("name", "attributes", "total"), CASES)
def test_totality_depends_on_attributes(name: str, attributes: dict[str, object], *, total: bool) -> None:
    assert OPERATORS[name].is_total(attributes) is total
    domain, generator = PartialDomain(), np.random.default_rng(1)
    vectors = 2 if name == "layer_normalization" else 1
    shapes = SHAPES.get(name, [(4, 2), *[(2,)] * vectors])
    arrays = [domain.exactly(generator.integers(-2, 3, (200, *shape))) for shape in shapes]
    (result,) = operator_from_attributes(name, attributes).evaluate(domain, *arrays)
    assert not result.undefined.any() if total else result.undefined.any()
    assert result.defined.any()


def test_an_attribute_left_open_may_have_any_value() -> None:
    assert not OPERATORS["power"].is_total({"exponent": AttributeVariable("e")})
    assert not OPERATORS["rms_normalization"].is_total({"epsilon": AttributeVariable("e")})


def test_which_operators_are_partial_is_said_here() -> None:
    found = {name for name, operator in OPERATORS.items() if not operator.is_total(attribute_defaults(name))}
    assert found == PARTIAL | {"power"}
    assert {
        name for name, operator in OPERATORS.items() if "is_total" in operator.__dict__
    } <= PARTIAL | DEPENDS
