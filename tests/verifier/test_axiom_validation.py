"""Every axiom agrees with what operators do, and a wrong one that is planted is found."""

# ruff: noqa: E501

from __future__ import annotations

import pytest

from axioms import load_axioms
from superopt.equations import parse_equation
from superopt.ir.terms import Equation
from verifier.axiom_validation import validate_axiom, validate_axioms
from verifier.refute import Effort

SMALL = Effort(schemes=8, per_scheme=2, stack=2)

PLANTED = {
    "activation is not linear (the dissertation's own example)": (
        "conv[stride=s, padding=p, activation=c](add(x, y), z) = "
        "add(conv[stride=s, padding=p, activation=c](x, z), conv[stride=s, padding=p, activation=c](y, z))"
    ),
    "enlarging under any padding": (
        "conv[stride=s, padding=p, activation=c](x, y) = conv[stride=s, padding=p, activation=c](x, enlarge[kernel=k](y))"
    ),
    "average pooling that ignores padding as a convolution": (
        "avgpool[kernel=k, stride=s, padding=p](x) = conv[stride=s, padding=p](x, avgpool_kernel[kernel=k])"
    ),
    "outputs of any convolution": ("concat[axis=1](conv(x, y), conv(x, z)) = conv(x, concat[axis=0](y, z))"),
    "blocks along one axis twice": (
        "concat[axis=a](concat[axis=b](x, y), concat[axis=b](z, w)) = concat[axis=b](concat[axis=a](x, z), concat[axis=a](y, w))"
    ),
    "relu and factors": "relu(scale(x, w)) = scale(relu(x), w)",
    "roots of squares": "sqrt(mul(x, x)) = x",
    "any two vectors": "channel_scale[axis=a](x, s) = channel_scale[axis=b](x, s)",
    "identity of any kernel": "conv(x, identity_kernel[kernel=k]) = x",
    "reshape is no transpose": "reshape[shape=s](transpose(x)) = reshape[shape=s](x)",
    "softmax along any axis": "softmax[axis=a](bias_add[axis=b](x, s)) = softmax[axis=a](x)",
    "a mean of a padded constant": (
        "avgpool[kernel=k, stride=s, padding=p, includes_padding=i](bias_add[axis=1](x, v)) = "
        "bias_add[axis=1](avgpool[kernel=k, stride=s, padding=p, includes_padding=i](x), v)"
    ),
    "one kernel after another": "conv(conv(x, y), z) = conv(x, conv(y, z))",
    "never well-typed": "matmul(x, scale(y, x)) = x",
}


@pytest.mark.parametrize("text", PLANTED.values(), ids=PLANTED)
def test_a_planted_wrong_axiom_is_found(text: str) -> None:
    validation = validate_axiom(parse_equation(text, "planted"))
    assert not validation.valid
    assert validation.reason


@pytest.mark.parametrize("axiom", load_axioms().equations, ids=lambda axiom: axiom.name)
def test_axiom_is_valid(axiom: Equation) -> None:
    (validation,) = validate_axioms([axiom], effort=SMALL, symbolic_instances=0)
    assert validation.valid, validation.reason


def test_symbolic_execution_decides_for_all_inputs() -> None:
    names = ("mul-over-add", "matmul-associative", "maxpool-of-relu", "conv-enlarge", "affine-definition")
    told: list[tuple[int, int]] = []
    axioms = [load_axioms().by_name[name] for name in names]
    results = list(validate_axioms(axioms, effort=SMALL, progress=lambda *counts: told.append(counts)))
    assert [(r.name, r.valid, r.symbolic > 0, r.reason) for r in results] == [
        (n, True, True, "") for n in names
    ]
    assert told[-1] == (5, 5)
