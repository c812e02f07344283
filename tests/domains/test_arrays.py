"""Arrays anywhere: the same residues on every device, and rearrangements as those of numpy."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from superopt.domains import arrays
from superopt.domains.arrays import HOST, Device
from superopt.domains.small_field import SmallArray, SmallFieldDomain, random_array
from superopt.errors import InvalidOptionError, MissingServiceError
from superopt.ops.elementwise.activation import logistic, rectified
from tests.devices import GPU, HAS_GPU, STRICT

Function = Callable[[SmallFieldDomain, SmallArray, SmallArray], SmallArray]

FUNCTIONS: dict[str, Function] = {
    "add": lambda f, x, y: f.add(x, y),
    "divide by a constant": lambda f, x, y: f.divide(f.add(x, y), f.rational(3)),
    "matmul": lambda f, x, y: f.matmul(x, f.transpose(y, (1, 0))),
    "sum": lambda f, x, y: f.sum(f.multiply(x, y), 1),
    "max_along": lambda f, x, y: f.max_along(f.concatenate((x, f.negate(y)), 0), 0),
    "relu": lambda f, x, y: rectified(f, f.subtract(x, y)),
    "exp of exp": lambda f, x, y: f.exp(f.multiply(f.exp(x), y)),
    "sigmoid": lambda f, x, y: f.matmul(logistic(f, x), f.reshape(y, (4, 3))),
    "sqrt": lambda f, x, _: f.sqrt(f.broadcast(f.slice(x, 1, 0, 1), (3, 4))),
    "erf": lambda f, x, _: f.apply("erf", x),
}


@pytest.mark.parametrize("device", [STRICT, GPU])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_residues_are_the_same_on_every_device(name: str, device: Device) -> None:
    full = SmallFieldDomain().rational(0)
    x, y = (random_array(np.random.default_rng(index), 3, (3, 4), like=full) for index in range(2))
    here = FUNCTIONS[name](SmallFieldDomain(), x, y)
    there = FUNCTIONS[name](SmallFieldDomain(device), x.each(device.put), y.each(device.put)).each(device.get)
    assert np.array_equal(here.residue, there.residue)
    assert here.exponent is not None
    assert there.exponent is not None
    assert np.array_equal(here.exponent, there.exponent, equal_nan=True)


@pytest.mark.parametrize("device", [HOST, STRICT, GPU])
@pytest.mark.parametrize("repeat_edge", [False, True])
def test_padding_and_windows(device: Device, *, repeat_edge: bool) -> None:
    image = np.arange(2 * 6 * 7, dtype=np.float32).reshape(2, 6, 7) + 1
    mode = "edge" if repeat_edge else "constant"
    around = np.pad(image, ((0, 0), (1, 2), (0, 3)), mode=mode)
    padded = arrays.padded(device.put(image), (1, 0, 2, 3), repeat_edge=repeat_edge)
    assert np.array_equal(device.get(padded), around)
    views = device.get(arrays.windows(padded, (3, 2), (2, 1), (2, 3)))
    assert views.shape == (2, 3, 7, 3, 2)
    for row, column, k, m in itertools.product(range(3), range(7), range(3), range(2)):
        assert np.array_equal(views[:, row, column, k, m], around[:, 2 * row + 2 * k, column + 3 * m])


def test_only_known_devices_can_be_named() -> None:
    with pytest.raises(InvalidOptionError, match="'tpu': expected one of cpu, cuda"):
        arrays.device("tpu")


@pytest.mark.skipif(HAS_GPU, reason="there is a GPU")
def test_a_gpu_that_is_not_there() -> None:
    with pytest.raises(MissingServiceError, match="device cuda: CuPy"):
        arrays.device("cuda")
