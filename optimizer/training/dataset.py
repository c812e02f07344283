"""Samples to train on, and the order in which batches take them: shuffled anew in every epoch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from zipfile import BadZipFile

import numpy as np

from superopt.errors import InvalidFileError, InvalidOptionError
from superopt.optimizer.check.given import require_archive
from superopt.optimizer.cost.runtime.session import Array
from superopt.optimizer.training.description import Labels
from superopt.optimizer.training.running import DataInput, Step

if TYPE_CHECKING:
    from numpy.typing import NDArray

DEFAULT_BATCH_SIZE = 32
"""Samples in a batch, where the step accepts any number."""

Order: TypeAlias = "NDArray[np.int64]"


@dataclass(frozen=True, eq=False)
class Dataset:
    """An array for each data input of a step, with equal first axes: ``count`` samples."""

    arrays: Mapping[str, Array]
    count: int
    name: str

    @staticmethod
    def of(source: str | Path | Mapping[str, Array], ports: Sequence[DataInput]) -> Dataset:
        """The samples in a numpy archive (.npz) or in arrays, which may have others besides.

        Raises InvalidFileError for an unreadable archive, for an array that is missing or of a wrong type
        or shape, for different numbers of samples, for none, and InvalidOptionError for another argument.
        """
        if not isinstance(cast("object", source), str | Path | Mapping):
            raise InvalidOptionError(f"data: expected a path, or arrays by name, got {type(source).__name__}")
        if isinstance(source, Mapping):
            for port in ports:
                content = cast("object", source.get(port.name))
                if content is not None and not isinstance(content, np.ndarray | np.generic):
                    kind = type(content).__name__
                    raise InvalidOptionError(f"data: array {port.name!r}: expected a numpy array, got {kind}")
        name = str(source) if isinstance(source, str | Path) else "the data"
        given = source if isinstance(source, Mapping) else _read(Path(source), ports)
        arrays = {port.name: port.per_sample.require(given, name) for port in ports}
        counts = {port: len(array) for port, array in arrays.items()}
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"{port} has {count}" for port, count in counts.items())
            raise InvalidFileError(f"{name}: expected equal numbers of samples (first axes), got {listed}")
        count = next(iter(counts.values()), 0)
        if not count:
            raise InvalidFileError(f"{name}: expected at least one sample, got none")
        return Dataset(arrays, count, name)

    def require_labels(self, labels: Labels) -> None:
        """Raises InvalidFileError for numbers that are no classes, and where no position has a class."""
        given = self.arrays[labels.input]
        is_ignored = given == labels.ignored
        wrong = given[~is_ignored & ((given < 0) | (given >= labels.classes))]
        expected = f"expected classes from 0 to {labels.classes - 1}, or {labels.ignored} for none"
        if wrong.size:
            raise InvalidFileError(
                f"{self.name}: array {labels.input!r}: {expected}, got {wrong.flat[0]}"
                + (": classes count from 0" if wrong.min() == labels.classes and given.min() > 0 else "")
            )
        if is_ignored.all():
            raise InvalidFileError(f"{self.name}: array {labels.input!r}: {expected}, got no class at all")


def _read(path: Path, ports: Sequence[DataInput]) -> dict[str, Array]:
    """The arrays of the ports in an archive. Where one is missing, all are read, in order to list them."""
    require_archive(path)
    try:
        with np.load(path, allow_pickle=False) as archive:
            wanted = {port.name for port in ports}
            names = wanted if wanted.issubset(archive.files) else archive.files
            return {name: cast("np.ndarray[Any, np.dtype[Any]]", archive[name]) for name in names}
    except (OSError, ValueError, BadZipFile) as error:
        raise InvalidFileError(f"{path}: expected a numpy archive (.npz) of samples: {error}") from error


@dataclass(frozen=True, slots=True)
class Position:
    """Progress of training: ``step`` steps are done; ``epoch`` (from 0) has used ``offset`` samples."""

    step: int = 0
    epoch: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Batching:
    """How ``count`` samples become batches of ``size``. The last batch of an epoch is smaller where the step
    accepts that (``keeps_rest``), else the rest of the samples is left out. ``seed`` determines the order of
    samples in each epoch."""

    count: int
    size: int
    keeps_rest: bool
    seed: int

    @staticmethod
    def of(step: Step, dataset: Dataset, size: int | None, seed: int) -> Batching:
        """Batches of ``size`` samples, by default the step's number, else ``DEFAULT_BATCH_SIZE``.

        Raises InvalidOptionError for a size below 1, above the number of samples, or other than the step's,
        InvalidFileError where there are fewer samples than the step's number.
        """
        fixed = step.batch_size
        if size is not None and size < 1:
            raise InvalidOptionError(f"batch size: expected at least 1, got {size}")
        if fixed is not None and size not in (None, fixed):
            raise InvalidOptionError(f"batch size: expected {fixed}, which {step.name} fixes, got {size}")
        if fixed is not None and dataset.count < fixed:
            raise InvalidFileError(
                f"{dataset.name}: expected at least {fixed} samples, the batch size of {step.name}, "
                f"got {dataset.count}"
            )
        if fixed is None and size is not None and size > dataset.count:
            raise InvalidOptionError(
                f"batch size: expected at most {dataset.count}, the number of samples, got {size}"
            )
        return Batching(
            dataset.count, fixed or size or DEFAULT_BATCH_SIZE, keeps_rest=fixed is None, seed=seed
        )

    def batches(self, start: Position) -> Iterator[tuple[Order, Position]]:
        """The samples of each batch from a position on, without end, and the position after it."""
        position = start
        while True:
            order = np.random.default_rng((self.seed, position.epoch)).permutation(self.count)
            while self._has_batch(position.offset):
                chosen = order[position.offset : position.offset + self.size]
                position = Position(position.step + 1, position.epoch, position.offset + len(chosen))
                yield chosen, self._normal(position)
            position = Position(position.step, position.epoch + 1)

    def _has_batch(self, offset: int) -> bool:
        return offset < self.count and (self.keeps_rest or offset + self.size <= self.count)

    def _normal(self, position: Position) -> Position:
        """The position; the start of the next epoch where this one is used up."""
        return position if self._has_batch(position.offset) else Position(position.step, position.epoch + 1)


def fill(step: Step, dataset: Dataset, chosen: Order) -> None:
    """Copies the chosen samples into the memory from which the step reads its batch."""
    for port in step.data:
        array = dataset.arrays[port.name]
        memory = step.memory(port, (len(chosen), *array.shape[1:]))
        array.take(chosen, axis=0, out=memory, mode="clip")  # other modes copy twice
