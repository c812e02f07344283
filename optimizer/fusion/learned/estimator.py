"""The learned estimator of kernels: fitted to measured kernels, written to and read from a file.

DisCo's estimator (Yi et al. 2022, section 4.3) learns the same from operators, sizes and edges.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from superopt.defects import first_defect
from superopt.errors import InvalidFileError
from superopt.files import write_atomically
from superopt.optimizer.fusion.learned.features import KernelFeatures
from superopt.optimizer.learning.documents import NetworkDocument
from superopt.optimizer.learning.network import Floats
from superopt.optimizer.learning.trained import TrainedNetwork
from superopt.optimizer.parallel.tasks import KernelTask

KIND: Literal["superopt kernel estimator"] = "superopt kernel estimator"
_DATA = "superopt.optimizer.fusion.learned.data"


@dataclass(frozen=True)
class Origin:
    """Where times were measured: the device, the versions of JAX and superopt's method, the date, and the
    training steps whose kernels were timed."""

    device: str
    jax: str
    date: str
    steps: tuple[str, ...]


@dataclass(frozen=True)
class ErrorDistribution:
    """Errors |predicted - measured| / measured of unseen kernels: how many, the shares within 10 and 14 %,
    and quantiles by percent."""

    kernels: int
    within_10: float
    within_14: float
    quantiles: dict[str, float]

    @staticmethod
    def of(predicted: Floats, measured: Floats) -> ErrorDistribution:
        """The errors of predictions, both in microseconds."""
        errors = np.abs(predicted / measured - 1)
        return ErrorDistribution(
            len(errors),
            round(float((errors <= 0.1).mean()), 4),
            round(float((errors <= 0.14).mean()), 4),
            {str(percent): round(float(np.percentile(errors, percent)), 4) for percent in (50, 75, 90, 99)},
        )


@dataclass(frozen=True)
class _Document:
    """The file."""

    __pydantic_config__: ClassVar[Mapping[str, str]] = {"extra": "forbid"}

    kind: Literal["superopt kernel estimator"]
    origin: Origin
    errors: dict[str, ErrorDistribution]
    operators: tuple[str, ...]
    network: NetworkDocument


@dataclass(frozen=True)
class KernelEstimator:
    """Times of kernels of one device. ``errors`` are those of unseen kernels: ``all``; ``groups`` of several
    operators; ``long`` ones, of 20 us and more."""

    origin: Origin
    errors: Mapping[str, ErrorDistribution]
    features: KernelFeatures
    trained: TrainedNetwork
    _known: dict[KernelTask, float] = field(
        default_factory=dict[KernelTask, float], compare=False, repr=False
    )

    def microseconds(self, kernel: KernelTask) -> float:
        """The time of a kernel."""
        found = self._known.get(kernel)
        if found is None:
            (value,) = self.trained.values([self.features.graph(kernel)])
            found = self._known[kernel] = math.exp(value)
        return found

    def write(self, path: Path) -> None:
        """Writes the estimator atomically, as JSON."""
        document = _Document(
            KIND, self.origin, dict(self.errors), self.features.names, NetworkDocument.of(self.trained)
        )
        write_atomically(path, (json.dumps(asdict(document), separators=(",", ":")) + "\n").encode())


def read_estimator(path: Path) -> KernelEstimator:
    """The estimator in a file; raises InvalidFileError."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidFileError(f"{path}: cannot be read as an estimator: {error.strerror}") from None
    return _parsed(content, str(path))


def estimator_names() -> tuple[str, ...]:
    """The names of the estimators that ship."""
    return tuple(
        sorted(
            entry.name.removesuffix(".json")
            for entry in resources.files(_DATA).iterdir()
            if entry.name.endswith(".json")
        )
    )


@cache
def named_estimator(name: str) -> KernelEstimator:
    """An estimator that ships."""
    return _parsed(resources.files(_DATA).joinpath(f"{name}.json").read_bytes(), name)


def _parsed(content: bytes, where: str) -> KernelEstimator:
    from pydantic import TypeAdapter, ValidationError  # most clusters have no estimator

    try:
        found = TypeAdapter(_Document).validate_json(content)
    except ValidationError as error:
        raise InvalidFileError(f"{where}: estimator: {first_defect(error)}") from None
    features = KernelFeatures(found.operators)
    trained = found.network.network(features.count, f"{where}: estimator")
    return KernelEstimator(found.origin, found.errors, features, trained)
