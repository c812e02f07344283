"""Sizes of open dimensions for pricing, checking and timing: requested, from given inputs, or guessed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import numpy as np

from superopt.errors import UnsupportedError
from superopt.onnx_io import LiftedModel
from superopt.onnx_io.sizes.concrete import sizes_inside
from superopt.optimizer.check.given import check_agreement, load_inputs
from superopt.optimizer.check.inputs import SCALES, InputPlan, declared_ports, plan_inputs
from superopt.optimizer.cost.runtime.session import Array, LoadedModel, RuntimeRefusedError


def _nothing() -> Mapping[str, int]:
    return {}


@dataclass(frozen=True, slots=True)
class Sizing:
    """Sizes of a model's open dimensions. ``sizes`` are those of the inputs, ``guessed`` the names without a
    given size, ``inside`` the sizes that follow for intermediate tensors. ``runs``: whether the model runs at
    them; None where that was not tried. ``refused``: why it did not run at the last ones that were tried."""

    plan: InputPlan
    sizes: Mapping[str, int]
    guessed: tuple[str, ...] = ()
    inside: Mapping[str, int] = field(default_factory=_nothing)
    runs: bool | None = None
    refused: str = ""

    @property
    def assignment(self) -> Mapping[str, int]:
        """The size of every symbol that is known."""
        return {**self.inside, **self.sizes, **self.plan.given}


def guess_sizes(lifted: LiftedModel, dims: Mapping[str, int]) -> Sizing:
    """The usual sizes, without running the model."""
    plan = plan_inputs(lifted, declared_ports(lifted), dims)
    return _sizing(lifted, plan, next(plan.usual_sizes()))


def given_inputs(lifted: LiftedModel, plan: InputPlan, path: Path | None) -> tuple[dict[str, Array], ...]:
    """Loads the inputs in a numpy archive; none without a path, and for a model whose inputs no archive can
    hold. Raises InvalidFileError where they do not fit the model, InvalidOptionError where they contradict a
    requested size."""
    if path is None or plan.unsupported:
        return ()
    arrays = load_inputs(path, declared_ports(lifted))
    check_agreement(plan.given, plan.sizes_of(arrays), str(path))
    return (arrays,)


def settle_sizes(
    lifted: LiftedModel,
    plan: InputPlan,
    given: Sequence[Mapping[str, Array]],
    open_model: Callable[[], LoadedModel],
    deadline: float,
) -> Sizing:
    """The sizes of the first given inputs, else the first usual ones at which the model runs, tried until the
    deadline (monotonic clock). A model without open dimensions is not loaded. Raises RuntimeRefusedError
    where it cannot be."""
    if given:
        sizes = plan.sizes_of(given[0])
        shapes = {name: array.shape for name, array in given[0].items()}
        return Sizing(plan.at(sizes), sizes, (), sizes_inside(lifted, shapes) if sizes else {})
    first = next(plan.usual_sizes())
    if not plan.dimensions:
        return _sizing(lifted, plan, first)
    refused = ""
    for sizes, found in _runs(plan, open_model(), deadline):
        if not isinstance(found, str):
            return _sizing(lifted, plan, sizes, found)
        refused = found
    return replace(_sizing(lifted, plan, first, runs=False), refused=refused)


def _runs(
    plan: InputPlan, model: LoadedModel, deadline: float
) -> Iterator[tuple[dict[str, int], Mapping[str, Sequence[int]] | str]]:
    """Sizes and the shapes of the outputs, or why the model does not run at them."""
    random = np.random.default_rng(0)
    for sizes in plan.usual_sizes():
        try:
            outputs = model.run(plan.draw(random, sizes, SCALES[0]))
        except (RuntimeRefusedError, UnsupportedError, MemoryError) as error:
            yield sizes, str(error) or "not enough memory"
        else:
            named = zip(model.outputs, outputs, strict=True)
            yield (
                sizes,
                {
                    port.name: cast("Array", output).shape
                    for port, output in named
                    if isinstance(output, np.ndarray)
                },
            )
        if time.monotonic() >= deadline:
            return


def _sizing(
    lifted: LiftedModel,
    plan: InputPlan,
    sizes: Mapping[str, int],
    outputs: Mapping[str, Sequence[int]] | None = None,
    *,
    runs: bool | None = None,
) -> Sizing:
    guessed = tuple(name for name in sizes if name not in plan.given)
    shapes = {
        port.name: tuple(sizes[size] if isinstance(size, str) else size or 0 for size in port.shape)
        for port in plan.ports
        if port.dtype is not None
    }
    inside = sizes_inside(lifted, shapes, outputs) if plan.dimensions else {}
    return Sizing(plan.at(sizes), sizes, guessed, inside, runs if outputs is None else True)
