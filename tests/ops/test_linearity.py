"""Operators are linear in the inputs that they declare: the sum of results is the result for the sum."""

from __future__ import annotations

import numpy as np

from superopt.domains import FloatDomain
from superopt.ops import OPERATORS
from superopt.ops.images.convolution import Conv
from superopt.ops.linearity import linear_inputs
from tests.ops.examples import every_operator, examples

TERMS = 3


@every_operator
def test_terms_of_inputs_give_terms_of_results(name: str) -> None:
    generator = np.random.default_rng(0)
    domain = FloatDomain()
    for example in examples(name):
        if OPERATORS[name].parallel:
            continue
        for slots in linear_inputs(example.operator, len(example.shapes)):
            arrays = [generator.uniform(0.5, 2, (2, *shape)) for shape in example.shapes]
            terms = [[generator.uniform(-1, 1, array.shape) for _ in range(TERMS)] for array in arrays]
            made = [
                example.evaluated(
                    domain,
                    *(terms[slot][term] if slot in slots else array for slot, array in enumerate(arrays)),
                )
                for term in range(TERMS)
            ]
            sums = [np.sum(terms[n], axis=0) if n in slots else array for n, array in enumerate(arrays)]
            for number, expected in enumerate(example.evaluated(domain, *sums)):
                total = np.sum([np.broadcast_to(results[number], expected.shape) for results in made], axis=0)
                np.testing.assert_allclose(total, expected, rtol=1e-9, atol=1e-9)


def test_a_fused_activation_is_not_linear() -> None:
    assert [linear_inputs(Conv(activation=name), 2) for name in ("none", "relu")] == [((0,), (1,)), ()]
