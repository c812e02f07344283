"""Sampling of well-typed instances: deterministic, awkward, and obeying conditions."""

from __future__ import annotations

import pytest

from superopt.equations import parse_equation
from superopt.instances.instance import Instance
from superopt.instances.sampler import InstanceSampler


def _instances(text: str, seed: int = 1, schemes: int = 60) -> list[Instance]:
    return list(InstanceSampler(parse_equation(text), seed).instances(schemes, 2))


def test_the_same_seed_gives_the_same_instances() -> None:
    text = "concat[axis=a](relu(x), relu(y)) = relu(concat[axis=a](x, y))"
    assert [str(i) for i in _instances(text)] == [str(i) for i in _instances(text)]
    assert [str(i) for i in _instances(text)] != [str(i) for i in _instances(text, seed=2)]


def test_all_ranks_and_axes_are_met() -> None:
    instances = _instances("concat[axis=a](relu(x), relu(y)) = relu(concat[axis=a](x, y))", schemes=150)
    assert {i.types["x"].rank for i in instances} == {1, 2, 3, 4, 5}
    assert {i.attributes["a"] for i in instances} >= {-4, -3, -2, -1, 0, 1, 2, 3}


def test_convolutions_are_grouped_now_and_then() -> None:
    instances = _instances(
        "relu(conv[stride=s, padding=p](x, w)) = conv[stride=s, padding=p, activation=relu](x, w)"
    )
    groups = {i.types["x"].shape[1] // i.types["w"].shape[1] for i in instances}  # pyright: ignore[reportArgumentType]
    assert groups >= {1, 2, 3}
    assert {i.attributes["p"] for i in instances} >= {"valid", "same", "same_upper", "same_lower"}


def test_batched_and_plain_matrices_meet() -> None:
    instances = _instances("matmul(x, y) = matmul(x, identity(y))", schemes=100)
    assert {(i.types["x"].rank, i.types["y"].rank) for i in instances} >= {
        (2, 2),
        (2, 3),
        (3, 2),
        (3, 3),
        (4, 2),
    }


@pytest.mark.parametrize(
    ("text", "met"),
    [
        (
            "conv(x, w) = conv(x, identity(w)) where dim(w, 2) = 1, dim(w, 3) = 1",
            lambda t: t["w"].shape[2:] == (1, 1),
        ),
        ("add(x, y) = add(y, x) where rank(x) = 3", lambda t: t["x"].rank == 3),
        ("conv(x, w) = conv(x, identity(w)) where channels(w) = 1", lambda t: t["w"].shape[1] == 1),
        ("relu(x: f32[n, n]) = relu(x)", lambda t: t["x"].shape[0] == t["x"].shape[1]),
        (
            "conv(x, w) = conv(x, identity(w)) where groups(x, w) = 2",
            lambda t: t["x"].shape[1] == 2 * t["w"].shape[1],
        ),
    ],
)
def test_conditions_hold_in_every_instance(text: str, met: object) -> None:
    instances = _instances(text)
    assert instances
    assert all(met(instance.types) for instance in instances)  # pyright: ignore[reportArgumentType]


def test_an_equation_without_types_has_no_instance() -> None:
    assert _instances("matmul(x, scale(y, x)) = x") == []
