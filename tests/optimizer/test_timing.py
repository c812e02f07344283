"""Runs of kernels: where their weights lie when they are timed."""

from __future__ import annotations

from typing import cast

import pytest

from superopt.optimizer.cost import Kernel
from superopt.optimizer.cost.machine import Residence
from superopt.optimizer.cost.measuring.timing import Caches, fastest, timed_if_long
from superopt.optimizer.cost.runtime.session import BoundRun


@pytest.mark.parametrize(("residence", "expected"), [(Residence.MEMORY, 750.0), (Residence.CORE, 600.0)])
def test_a_long_kernel_is_timed_with_its_weights_where_a_model_leaves_them(
    residence: Residence, expected: float
) -> None:
    """The first runs, which decide whether it is long, find the weights in the caches."""

    class Run:
        is_evicted = False

        def microseconds_and_share(self) -> tuple[float, float]:
            took, self.is_evicted = 750.0 if self.is_evicted else 600.0, False
            return took, 1.0

    class Evicting(Caches):
        def prepare(self) -> None:
            run.is_evicted = self.are_evicted

    run = Run()
    kernel = Kernel((), (), (), residence=residence)
    times = timed_if_long(cast("BoundRun", run), Evicting(kernel, {}), 400.0, 6000.0)
    assert fastest(times) == expected
    assert fastest(timed_if_long(cast("BoundRun", run), Evicting(kernel, {}), 900.0, 6000.0)) == 600.0
