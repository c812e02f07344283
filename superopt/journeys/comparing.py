"""Whether two models give the same outputs on random inputs."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from superopt.errors import InvalidModelError
from superopt.onnx_io import LiftedModel, SourceModel, lift
from superopt.onnx_io.changes.freezing import declared_sizes, sizes_at
from superopt.optimizer.check import (
    Equivalence,
    Reference,
    Sampling,
    check_dims,
    check_equivalence,
    declared_ports,
    load_inputs,
    names_apart,
    plan_inputs,
)
from superopt.optimizer.cost import physical_cores
from superopt.optimizer.cost.runtime.session import LoadedModel, RuntimeRefusedError
from superopt.optimizer.pipeline.runnable import runnable_original


def compared_sources(
    source: SourceModel,
    compared_with: SourceModel,
    *,
    samples: int = 4,
    seed: int = 0,
    tolerance: float | None = None,
    inputs: Path | None = None,
    dims: Mapping[str, int] | None = None,
    deadline: float = math.inf,
) -> Equivalence:
    """Whether the second model gives the outputs of the first; ``dims`` gives symbolic dimensions. Where the
    second has a size and the first none, inputs have that size. Samples are drawn until the deadline
    (monotonic clock). Raises InvalidModelError for a model that does not run, InvalidOptionError for an
    unknown dimension."""
    asked = dims or {}
    dims = {**sizes_at(source, declared_sizes(compared_with)), **asked}
    lifted = lift(replace(source, apart=names_apart(source, dims, inputs)))
    check_dims(asked, lifted)
    other = lift(compared_with)
    with tempfile.TemporaryDirectory(prefix="superopt-") as directory:
        loaded, compared = (_loaded(model, Path(directory)) for model in (lifted, other))
        plan = plan_inputs(lifted, loaded.inputs, dims)
        given = () if inputs is None or plan.unsupported else (load_inputs(inputs, declared_ports(lifted)),)
        plan = plan.at(plan.sizes_of(given[0])) if given else plan
        sampling = Sampling(samples, seed, tolerance, given, deadline)
        return check_equivalence(Reference(loaded, plan, sampling, lifted.source), compared)


def _loaded(lifted: LiftedModel, directory: Path) -> LoadedModel:
    try:
        return LoadedModel(runnable_original(lifted, directory), physical_cores())
    except RuntimeRefusedError as error:
        raise InvalidModelError(f"{lifted.source.name} does not run: {error}") from None


__all__ = ["compared_sources"]
