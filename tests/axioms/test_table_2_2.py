"""Table 2.2 of the dissertation: each of its 43 properties is an axiom here, or follows from the axioms."""

# ruff: noqa: E501

from __future__ import annotations

import pytest

from superopt.axioms import load_axioms
from superopt.equations import parse_equation
from superopt.verifier.prove.attempt import representative
from superopt.verifier.prove.proof_search import prove
from superopt.verifier.refute.refutation import Effort, refute

C = "conv[stride=s, padding=p, activation=c]"
L = "conv[stride=s, padding=p]"
A = "avgpool[kernel=k, stride=s, padding=p, includes_padding=1]"
M = "maxpool[kernel=k, stride=s, padding=p]"

TABLE = f"""
add(x, add(y, z)) = add(add(x, y), z)
add(x, y) = add(y, x)
mul(x, mul(y, z)) = mul(mul(x, y), z)
mul(x, y) = mul(y, x)
mul(add(x, y), z) = add(mul(x, z), mul(y, z))
scale(scale(x, y), w) = scale(x, scale(y, w))
scale(add(x, y), w) = add(scale(x, w), scale(y, w))
scale(mul(x, y), w) = mul(x, scale(y, w))
transpose(transpose(x)) = x
transpose(add(x, y)) = add(transpose(x), transpose(y))
transpose(mul(x, y)) = mul(transpose(x), transpose(y))
scale(transpose(x), w) = transpose(scale(x, w))
matmul(x, matmul(y, z)) = matmul(matmul(x, y), z)
scale(matmul(x, y), w) = matmul(x, scale(y, w))
matmul(x, add(y, z)) = add(matmul(x, y), matmul(x, z))
transpose(matmul(x, y)) = matmul(transpose(y), transpose(x))
{C}(scale(x, w), y) = {C}(x, scale(y, w))
scale({L}(x, y), w) = {L}(scale(x, w), y)
{L}(x, add(y, z)) = add({L}(x, y), {L}(x, z))
{L}(add(x, y), z) = add({L}(x, z), {L}(y, z))
conv[stride=s, padding=same, activation=c](x, y) = conv[stride=s, padding=same, activation=c](x, enlarge[kernel=k](y))
conv[stride=s, padding=p, activation=relu](x, y) = relu({L}(x, y))
relu(transpose(x)) = transpose(relu(x))
{L}(x, avgpool_kernel[kernel=k]) = {A}(x)
conv[padding=same](x, identity_kernel[kernel=k]) = x
matmul(x, identity_matrix()) = x
mul(x, ones()) = x
split0[axis=a](concat[axis=a](x, y)) = x
split1[axis=a](concat[axis=a](x, y)) = y
concat[axis=0](concat[axis=1](x, y), concat[axis=1](z, w)) = concat[axis=1](concat[axis=0](x, z), concat[axis=0](y, w))
concat[axis=a](scale(x, w), scale(y, w)) = scale(concat[axis=a](x, y), w)
concat[axis=a](add(x, y), add(z, w)) = add(concat[axis=a](x, z), concat[axis=a](y, w))
concat[axis=a](mul(x, y), mul(z, w)) = mul(concat[axis=a](x, z), concat[axis=a](y, w))
concat[axis=a](relu(x), relu(y)) = relu(concat[axis=a](x, y))
concat[axis=-1](transpose(x), transpose(y)) = transpose(concat[axis=-2](x, y))
concat[axis=-1](matmul(x, y), matmul(x, z)) = matmul(x, concat[axis=-1](y, z))
matmul(concat[axis=-1](x, z), concat[axis=-2](y, w)) = add(matmul(x, y), matmul(z, w))
concat[axis=0]({C}(x, z), {C}(y, z)) = {C}(concat[axis=0](x, y), z)
concat[axis=1]({C}(x, y), {C}(x, z)) = {C}(x, concat[axis=0](y, z)) where groups(x, y) = 1
{L}(concat[axis=1](x, z), concat[axis=1](y, w)) = add({L}(x, y), {L}(z, w)) where groups(x, y) = 1, groups(z, w) = 1
concat[axis=1]({A}(x), {A}(y)) = {A}(concat[axis=1](x, y))
concat[axis=0]({M}(x), {M}(y)) = {M}(concat[axis=0](x, y))
concat[axis=1]({M}(x), {M}(y)) = {M}(concat[axis=1](x, y))
""".strip().splitlines()


def test_the_table_has_43_properties() -> None:
    assert len(TABLE) == 43


@pytest.mark.parametrize("text", TABLE)
def test_property_holds_and_follows_from_the_axioms(text: str) -> None:
    equation = parse_equation(text)
    refutation = refute(equation, Effort(schemes=8, per_scheme=2, stack=2))
    assert refutation.counterexample is None
    assert refutation.suspicious is None
    proof = prove(equation, load_axioms().equations, representative(refutation.instances, 3))
    assert proof.proved, proof.reason
