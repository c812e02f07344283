"""Rules in text that the optimizer's tests apply; all are true over the reals."""

from __future__ import annotations

from superopt.equations import parse_equation, rule_id
from superopt.rewriting import Substitution, substitutions_of

SCALE_INTO_AFFINE = (
    "channel_scale[axis=1](affine[axis=1](x, a, b), c) => affine[axis=1](x, mul(a, c), mul(b, c))"
)
BIAS_INTO_AFFINE = "bias_add[axis=1](affine[axis=1](x, a, b), c) => affine[axis=1](x, a, add(b, c))"
SHARED_RIGHT = (
    "(matmul(x, w), matmul(y, w)) => (split0[axis=-2](matmul(concat[axis=-2](x, y), w)), "
    "split1[axis=-2](matmul(concat[axis=-2](x, y), w)))"
)
SHARED_LEFT = (
    "(matmul(x, v), matmul(x, w)) => (split0[axis=-1](matmul(x, concat[axis=-1](v, w))), "
    "split1[axis=-1](matmul(x, concat[axis=-1](v, w))))"
)
ASSOCIATIVE = "matmul(matmul(x, y), z) <=> matmul(x, matmul(y, z))"
DISTRIBUTIVE = "add(matmul(x, y), matmul(x, z)) <=> matmul(x, add(y, z))"
COMMUTED_RELU = "relu(concat[axis=1](x, y)) <=> concat[axis=1](relu(x), relu(y))"
SUM_OF_PRODUCTS = "add(mul(x, y), mul(x, z)) <=> mul(x, add(y, z))"
AS_TRANSPOSED = (
    "conv[padding=same](x, y) => conv_transpose[padding=same](x, transpose[perm=(1, 0, 2, 3)](flip(y)))"
)
IDEMPOTENT = "relu(relu(x)) => relu(x)"
IDENTITY = "identity(x) => x"


def rules(*texts: str) -> tuple[Substitution, ...]:
    """The substitutions that the equations give."""
    found: list[Substitution] = []
    for text in texts:
        equation = parse_equation(text)
        found.extend(substitutions_of(equation, rule_id(equation)))
    return tuple(found)


ALL = (
    SCALE_INTO_AFFINE,
    BIAS_INTO_AFFINE,
    SHARED_RIGHT,
    SHARED_LEFT,
    ASSOCIATIVE,
    DISTRIBUTIVE,
    COMMUTED_RELU,
    SUM_OF_PRODUCTS,
    IDENTITY,
)
