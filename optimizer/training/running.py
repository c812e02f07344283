"""A training step that can be run: its present states, batches, learning rate, trained models."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from superopt.errors import InvalidFileError, InvalidModelError, InvalidOptionError
from superopt.onnx_io import LoweredModel, ModelSource, SourceModel, load_model
from superopt.onnx_io.changes.replacing import with_tensors
from superopt.optimizer.cost.runtime.devices import physical_cores
from superopt.optimizer.cost.runtime.session import Array
from superopt.optimizer.pipeline.runnable import why_refused
from superopt.optimizer.training.description import (
    ConstantRate,
    RateInput,
    Role,
    ScheduledRate,
    StepDescription,
    read_description,
)
from superopt.optimizer.training.session import ElementKind, StepSession
from superopt.options import require_threads

if TYPE_CHECKING:
    import onnx

TRAINED = (Role.PARAMETER, Role.STATISTIC)
"""The roles of states that are weights of the inference model."""


@dataclass(frozen=True, slots=True)
class DataInput:
    """An input that each batch supplies. Sizes in ``shape`` are None where any size is accepted; the shape is
    None where the model declares none. The first axis counts samples."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | None, ...] | None

    @property
    def batch_size(self) -> int | None:
        """The number of samples that every batch must have, None if it is free."""
        return self.shape[0] if self.shape else None

    @property
    def per_sample(self) -> DataInput:
        """The same input with any number of samples."""
        return DataInput(self.name, self.dtype, (None, *self.shape[1:]) if self.shape else None)

    def require(self, arrays: Mapping[str, Array], where: str) -> Array:
        """The array of this input; raises InvalidFileError if it is missing, or of another type or shape."""
        if self.name not in arrays:
            held = ", ".join(arrays) or "no arrays"
            raise InvalidFileError(f"{where}: expected an array {self.name!r}, got {held}")
        array = arrays[self.name]
        if array.dtype != self.dtype:
            raise InvalidFileError(f"{where}: array {self.name!r}: expected {self.dtype}, got {array.dtype}")
        if not self._accepts(array.shape):
            expected = "any with a first axis" if self.shape is None else _shown(self.shape)
            raise InvalidFileError(
                f"{where}: array {self.name!r}: expected shape {expected}, got {_shown(array.shape)}"
            )
        return array

    def _accepts(self, shape: Sequence[int]) -> bool:
        if self.shape is None:
            return len(shape) > 0
        return len(shape) == len(self.shape) and all(
            own in (None, size) for own, size in zip(self.shape, shape, strict=True)
        )


class Step:
    """A training step with its present states; ``run`` replaces them by the next ones.

    ``model`` is a path, bytes, a ModelProto or an onnx-ir model with a description
    (``superopt.optimizer.training.description``); ``threads`` defaults to all cores. Raises InvalidModelError
    for a model that is no training step, RuntimeRefusedError if ONNX Runtime rejects it, InvalidOptionError
    for a number of threads below 1, or above four for each logical core.
    """

    def __init__(self, model: ModelSource, *, threads: int | None = None) -> None:
        require_threads(threads)
        source = load_model(model, why_refused)
        self.name = source.name
        self.sha256 = source.sha256
        self.description = read_description(source.proto, self.name)
        self.data = _data_inputs(source, self.description)
        self._scalars = _scalars(source, self.description)
        self._session = StepSession(
            source,
            self.description,
            _kinds(source, (*self.description.data, *self._scalars)),
            threads or physical_cores(),
        )
        self._rate = self._initialise(source)

    @property
    def states(self) -> Mapping[str, Array]:
        """The present states by name, in memory that later runs overwrite."""
        return self._session.states

    @property
    def batch_size(self) -> int | None:
        """The number of samples that every batch must have, None if it is free."""
        return next((port.batch_size for port in self.data if port.batch_size is not None), None)

    @property
    def learning_rate(self) -> float | None:
        """The learning rate of the next run; None if it is no input of the step, or has no value yet."""
        return self._rate

    def run(
        self, batch: Mapping[str, Array], *, learning_rate: float | None = None, seed: int | None = None
    ) -> float:
        """Runs one step on a batch and returns its loss; the states are then the next ones.

        ``batch`` holds an array for each data input. ``learning_rate`` and ``seed`` stay set for later runs.
        Raises InvalidFileError for an array that is missing, or of a wrong type or shape,
        InvalidOptionError if the learning rate is missing, or not an input of the step.
        """
        self.set_learning_rate(learning_rate)
        if seed is not None:
            self.set_seed(seed)
        for port in self.data:
            array = port.require(batch, "the batch")
            self.memory(port, array.shape)[...] = array
        return self.advance()

    def memory(self, port: DataInput, shape: tuple[int, ...]) -> Array:
        """The memory from which runs read a data input, to be filled; valid until it is asked for with
        another shape."""
        return self._session.memory(port.name, shape)

    def advance(self) -> float:
        """Runs one step on what is in ``memory``; returns the loss."""
        return self._session.advance()

    def set_learning_rate(self, rate: float | None) -> None:
        """Sets the learning rate of later runs, or keeps it where ``rate`` is None.

        Raises InvalidOptionError if it is no positive number, or no input of the step, or has no value.
        """
        given = self.description.learning_rate
        if rate is None:
            if self.description.rate_input is not None and self._rate is None:
                raise InvalidOptionError(f"learning rate: expected one, because {self.name} has it as input")
            return
        if not isinstance(given, RateInput):
            raise InvalidOptionError(
                f"learning rate: expected none, because {self.name} has {_own_rate(given)}, got {rate:g}"
            )
        if not (math.isfinite(rate) and rate > 0):
            raise InvalidOptionError(f"learning rate: expected a positive number, got {rate:g}")
        self._scalar(given.input)[...] = rate
        self._rate = rate

    def set_seed(self, seed: int) -> None:
        """Sets the seed of random masks in later runs, if the step draws any; an int64."""
        if self.description.seed is not None:
            self._scalar(self.description.seed)[...] = seed

    def parameters(self) -> dict[str, Array]:
        """Copies of the present parameters, by name."""
        return self._copies(Role.PARAMETER)

    def trained(self, model: ModelSource) -> LoweredModel:
        """An inference model with the present parameters and statistics as its initialisers and Constants
        of these names.

        Raises InvalidModelError if it lacks one, or has one of another type or shape.
        """
        return with_tensors(load_model(model, why_refused), self._copies(*TRAINED))

    def save_into(self, model: ModelSource, path: str | Path) -> None:
        """Writes an inference model with the present parameters and statistics (``trained``), atomically."""
        self.trained(model).save(path)

    def _initialise(self, source: SourceModel) -> float | None:
        """Sets everything to the values in the model; returns the learning rate, if there is one."""
        for state in self.description.states:
            self.states[state.name][...] = source.tensors[state.input].numpy()
        for name in self._scalars:
            memory = self._scalar(name)
            if name in source.tensors:
                memory[...] = source.tensors[name].numpy().reshape(memory.shape)
        rate = self.description.rate_input
        return (
            float(self._scalar(rate).reshape(())[()]) if rate is not None and rate in source.tensors else None
        )

    def _scalar(self, name: str) -> Array:
        return self._session.memory(name, self._scalars[name])

    def _copies(self, *roles: Role) -> dict[str, Array]:
        states = self.states
        return {state.name: states[state.name].copy() for state in self.description.with_role(*roles)}


def _values(model: SourceModel) -> Mapping[str, onnx.TypeProto.Tensor]:
    graph = model.proto.graph
    return {value.name: value.type.tensor_type for value in (*graph.input, *graph.output)}


def _kinds(model: SourceModel, names: Sequence[str]) -> Mapping[str, ElementKind]:
    values = _values(model)
    return {name: ElementKind(values[name].elem_type) for name in names}


def _scalars(model: SourceModel, description: StepDescription) -> Mapping[str, tuple[int, ...]]:
    """The shapes of the loss, the learning rate and the seed, as far as there are such inputs."""
    names = (description.loss, description.rate_input, description.seed)
    values = _values(model)
    return {name: (1,) * len(values[name].shape.dim) for name in names if name is not None}


def _data_inputs(model: SourceModel, description: StepDescription) -> tuple[DataInput, ...]:
    """The data inputs; raises InvalidModelError if they fix different numbers of samples."""
    values, kinds = _values(model), _kinds(model, description.data)
    found: list[DataInput] = []
    for name in description.data:
        shape = None
        if values[name].HasField("shape"):
            sizes = values[name].shape.dim
            shape = tuple(size.dim_value if size.HasField("dim_value") else None for size in sizes)
        found.append(DataInput(name, kinds[name].dtype, shape))
    fixed = {port.batch_size: port.name for port in found if port.batch_size is not None}
    if len(fixed) > 1:
        listed = ", ".join(f"{name} has {size}" for size, name in fixed.items())
        raise InvalidModelError(f"{model.name}: expected one number of samples in all data inputs: {listed}")
    return tuple(found)


def _own_rate(rate: ConstantRate | ScheduledRate) -> str:
    if isinstance(rate, ConstantRate):
        return f"the constant {rate.constant:g}"
    return f"the schedule {rate.schedule}"


def _shown(shape: Sequence[int | None]) -> str:
    return f"[{', '.join('?' if size is None else str(size) for size in shape)}]"
