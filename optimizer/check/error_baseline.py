"""Numerical error of the original model: its float64 outputs, and its sensitivity to rounding."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from superopt.errors import SuperoptError
from superopt.onnx_io.changes.probing import Saturation, perturbed, saturations, with_outputs
from superopt.onnx_io.files.source import SourceModel
from superopt.optimizer.check.distance import NONE, Distance
from superopt.optimizer.check.precise import PreciseModel
from superopt.optimizer.check.sampling import Sample, with_nudged_inputs
from superopt.optimizer.cost.runtime.session import Array, LoadedModel, ModelFile, RuntimeRefusedError

PROBED_BYTES = 1 << 26
"""Maximum size of a model file for which variants are made in memory."""

_SHARE, _FIRST_SHARE = 0.3, 0.6
"""Maximum share of the time until the deadline that is spent on one measurement, and on the first sample in
double precision, by which others can be judged."""

_PATIENCE = 60.0
"""Maximum seconds to spend, where there is no deadline."""

_PERTURBED_MODELS = 2
_PERTURBED_INPUTS = 2


@dataclass(frozen=True, slots=True)
class Precise:
    """Tensors in double precision, by name, and the number of nodes that ran in single precision."""

    tensors: Mapping[str, Array]
    nodes: int
    single: int


class ErrorBaseline:
    """Measures the original's own error on samples, on demand. Tensors are its outputs and the operands that
    saturate to one. ``model`` is the model in memory, None after its release, and ``file`` the content of a
    small one. ``own_errors`` are the largest errors of outputs against double precision on the samples that
    were run in it. ``why`` says why there is no double precision."""

    def __init__(self, model: LoadedModel, source: SourceModel | None, deadline: float) -> None:
        self.model: LoadedModel | None = model
        self.deadline = deadline
        self.why = "" if source is not None else "its nodes are unknown"
        self._threads = model.threads
        self.file = _in_memory(model.file)
        self._names = tuple(port.name for port in model.outputs)
        self._source = source
        self._precise_model: PreciseModel | None = None
        self._precise: dict[int, Precise | None] = {}
        self._was_too_slow = False
        self.own_errors: dict[str, Distance] = {}
        self._perturbed: dict[int, tuple[Mapping[str, Array], ...]] = {}
        self._variants: dict[int, LoadedModel | None] = {}
        self.saturations: Mapping[str, Saturation] = {} if self.file is None else saturations(self.file)
        self._inside: LoadedModel | None = None

    def precise(self, sample: Sample) -> Precise | None:
        """The tensors in double precision; None where that is not possible or takes too long."""
        if id(sample) not in self._precise:
            share = _SHARE if self.own_errors else _FIRST_SHARE
            self._precise[id(sample)] = self._run_precisely(sample, self.until(share))
        return self._precise[id(sample)]

    def precise_soon(self, sample: Sample, share: float) -> Precise | None:
        """Return the same if it takes at most a share of the remaining time; the attempt does not affect
        later calls."""
        if id(sample) in self._precise or self._was_too_slow:
            return self._precise.get(id(sample))
        before = self.why
        found = self._run_precisely(sample, self.until(share))
        if found is not None:
            self._precise[id(sample)] = found
        self._was_too_slow = found is None
        self.why = before
        return found

    def note_own_error(self, output: str, error: Distance) -> None:
        """Keep the error of an output against double precision on a sample."""
        self.own_errors[output] = error.worst(self.own_errors.get(output, NONE))

    def perturbed(self, sample: Sample) -> tuple[Mapping[str, Array], ...]:
        """Return the tensors of runs of the original with inputs, and weights of a small model, moved by one
        unit in the last place."""
        if id(sample) not in self._perturbed:
            self._perturbed[id(sample)] = tuple(self._run_perturbed(sample, self.until()))
        return self._perturbed[id(sample)]

    def inside(self) -> LoadedModel | None:
        """Return the original with saturating operands as additional outputs; None if there are none."""
        if self._inside is None and self.file is not None and self.saturations:
            self._inside = LoadedModel(with_outputs(self.file, self.operands), self._threads)
        return self._inside

    @property
    def operands(self) -> tuple[str, ...]:
        """Return the tensors of which outputs are saturating functions."""
        return tuple(dict.fromkeys(saturation.operand for saturation in self.saturations.values()))

    def until(self, share: float = _SHARE) -> float:
        """Return the deadline (monotonic clock) of one measurement."""
        now = time.monotonic()
        return now + min(share * max(self.deadline - now, 0.0), _PATIENCE)

    def _run_precisely(self, sample: Sample, deadline: float) -> Precise | None:
        if self.why or self._source is None:
            return None
        if self._precise_model is None:
            self._precise_model = PreciseModel(self._source, self._threads)
        try:
            run = self._precise_model.run(sample.feeds, deadline, self.operands)
        except (SuperoptError, MemoryError, ValueError) as error:
            self.why = str(error) or "there was not enough memory"
            return None
        return Precise(run.tensors, run.nodes, run.single)

    def _run_perturbed(self, sample: Sample, deadline: float) -> list[Mapping[str, Array]]:
        random = np.random.default_rng(0)
        found: list[Mapping[str, Array]] = []
        for number in range(_PERTURBED_MODELS):
            if found and time.monotonic() >= deadline:
                break
            model = self._perturbed_model(number)
            if model is None:
                continue
            for _ in range(_PERTURBED_INPUTS):
                if found and time.monotonic() >= deadline:
                    return found
                try:
                    outputs = model.run(with_nudged_inputs(sample.feeds, random))
                except RuntimeRefusedError:
                    continue
                names = (port.name for port in model.outputs)
                pairs = zip(names, outputs, strict=True)
                found.append({name: np.asarray(output) for name, output in pairs if _is_array(output)})
        return found

    def _perturbed_model(self, number: int) -> LoadedModel | None:
        if self.file is None:
            return self.model
        if number not in self._variants:
            variant = perturbed(with_outputs(self.file, self.operands), number)
            try:
                self._variants[number] = LoadedModel(variant, self._threads)
            except RuntimeRefusedError:
                self._variants[number] = None
        return self._variants[number]


def _is_array(output: object) -> bool:
    return isinstance(output, np.ndarray | np.generic)


def _in_memory(file: ModelFile) -> bytes | None:
    """Return the content of a small model file without external data; None for others."""
    if isinstance(file, bytes) and len(file) <= PROBED_BYTES:
        return file
    return None
