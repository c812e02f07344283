"""Keys by matrix products are the keys of values: every instance of every preset, evaluated both ways."""

from __future__ import annotations

import numpy as np
import pytest

from superopt.generator import load_preset, preset_names
from superopt.generator.enumerate.enumeration import Enumeration
from superopt.generator.enumerate.linear_maps import Form, form_of, products_of
from superopt.ops import operator_from_attributes

MATRIX = (3, 4), (4, 5)

DEEP = ("turned",)
"""Presets whose roles allow for no term of two operators."""


@pytest.mark.parametrize("name", preset_names())
def test_both_ways_give_the_same_keys(name: str) -> None:
    preset = load_preset(name)
    operators = preset.max_ops if name in DEEP else 2
    for stage in preset.stages_to(operators):
        enumeration = Enumeration(stage)
        compared = 0
        for drivers, piece in enumeration.last_pieces(0):
            functional = enumeration.evaluation.whole(piece.output)
            by_products = enumeration.evaluation.keys(piece, drivers, functional)
            by_values = enumeration.evaluation.evaluated_keys(piece, drivers, functional)
            assert (by_products == by_values).all(), stage.instances[piece.number]
            compared += piece.count
        assert compared


@pytest.mark.parametrize(
    ("name", "attributes", "shapes", "form"),
    [
        ("add", {}, ((2, 3), (2, 3)), Form.LINEAR),
        ("concat", {"axis": 0}, ((2, 3), (1, 3)), Form.LINEAR),
        ("transpose", {}, ((2, 3),), Form.LINEAR),
        ("avgpool", {"kernel": (3, 3), "padding": "same"}, ((1, 2, 4, 5),), Form.LINEAR),
        ("matmul", {}, MATRIX, Form.BILINEAR),
        ("mul", {}, ((2, 3), (2, 3)), Form.BILINEAR),
        ("conv", {"padding": "same"}, ((1, 2, 4, 5), (4, 1, 3, 3)), Form.BILINEAR),
        ("conv", {"padding": "same", "activation": "relu"}, ((1, 2, 4, 5), (4, 1, 3, 3)), Form.OTHER),
        ("bias_add", {"axis": 1}, ((2, 3), (3,)), Form.LINEAR),
        ("relu", {}, ((2, 3),), Form.OTHER),
        ("sigmoid", {}, ((2, 3),), Form.OTHER),
        ("affine", {"axis": 1}, ((2, 3), (3,), (3,)), Form.OTHER),
    ],
)
def test_what_an_operator_is_linear_in_is_found_out(
    name: str, attributes: dict[str, object], shapes: tuple[tuple[int, ...], ...], form: Form
) -> None:
    assert form_of(operator_from_attributes(name, attributes), shapes) is form


def test_the_products_of_a_matrix_product() -> None:
    products = products_of(operator_from_attributes("matmul", {}), MATRIX)
    assert products is not None
    found = sorted(
        zip(products.first.tolist(), products.second.tolist(), products.results.tolist(), strict=True)
    )
    assert found == sorted(
        (4 * i + k, 5 * k + j, 5 * i + j) for i in range(3) for k in range(4) for j in range(5)
    )
    assert np.all(products.coefficients == 1)
