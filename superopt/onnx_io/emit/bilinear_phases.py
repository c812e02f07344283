"""Write a convolution with a dilation as one of phases: every d-th row and column is an image.

Phases are samples of a batch. Those of a sequence are columns of an image instead, where no element moves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from superopt.errors import UnsupportedError
from superopt.ir.dimensions import Dimension, floor_divide
from superopt.onnx_io.emit.runtime_shapes import Size
from superopt.onnx_io.emit.tensor_nodes import TensorNodes
from superopt.ops.bilinear.convolution import BilinearConv
from superopt.ops.bilinear.filter_algorithms import Tiling, by_definition

_APART, _TOGETHER = (0, 3, 5, 1, 2, 4), (0, 3, 4, 1, 5, 2)
"""Between [n, c, rows of a phase, phases down, columns of a phase, phases across] and phases as samples."""


@dataclass(frozen=True, slots=True)
class PhasedAxis:
    """An axis of an image in ``step`` phases. ``before`` and ``behind`` are zeros that are put around the
    image, ``inner`` those around each phase, which its convolution has as padding; ``extent`` are the taps.
    """

    size: Dimension
    step: int
    extent: int
    before: int
    behind: int
    inner: tuple[int, int]

    @staticmethod
    def of(size: Dimension, step: int, extent: int, before: int, behind: int) -> PhasedAxis:
        """With as many zeros in all; around each phase, if all phases have equally many."""
        if before % step == 0 and behind % step == 0:
            return PhasedAxis(size, step, extent, 0, 0, (before // step, behind // step))
        return PhasedAxis(size, step, extent, before, behind, (0, 0))

    @property
    def length(self) -> Dimension:
        """Elements of a phase."""
        return floor_divide(self.size + (self.before + self.behind + self.step - 1), self.step)

    @property
    def computed(self) -> Dimension:
        """Outputs of a phase."""
        return self.length + sum(self.inner) - (self.extent - 1)

    @property
    def outputs(self) -> Dimension:
        """Outputs of the convolution."""
        inner = self.step * (sum(self.inner) - (self.extent - 1))
        return self.size + (self.before + self.behind + inner)

    @property
    def after(self) -> int:
        """Zeros that are put behind the image: as many as complete its phases, or as many as may do so."""
        if isinstance(self.size, int) and isinstance(self.length, int):
            return self.length * self.step - self.size - self.before
        return self.behind + self.step - 1


@dataclass(frozen=True, slots=True)
class Phases:
    """Phases along rows and columns. ``sequence`` is the axis of a sequence, 0 for rows and 1 for columns."""

    axes: tuple[PhasedAxis, PhasedAxis]
    sequence: int | None

    @staticmethod
    def of(
        operator: BilinearConv, sizes: tuple[Dimension, Dimension], weight: tuple[int, ...]
    ) -> Phases | None:
        """Those of a convolution, None without a dilation. Raises UnsupportedError for the phases of an image
        of open height or width."""
        if operator.dilation == (1, 1):
            return None
        extents, margins = operator.extents(weight), operator.margins((1, 1, 1, 1), weight)
        rows, columns = (
            PhasedAxis.of(size, step, extent, margins[axis], margins[axis + 2])
            for axis, (size, step, extent) in enumerate(zip(sizes, operator.dilation, extents, strict=True))
        )
        if _is_single(rows) and not operator.rows:
            return Phases((replace(rows, step=1), columns), 1)
        if _is_single(columns) and not operator.columns:
            return Phases((rows, replace(columns, step=1)), 0)
        if not all(isinstance(size, int) for size in sizes):
            raise UnsupportedError(f"{operator.name}: expected an image of known size for a dilation")
        return Phases((rows, columns), None)

    @property
    def count(self) -> int:
        """Phases that are samples."""
        return self.axes[0].step * self.axes[1].step if self.sequence is None else 1

    @property
    def sizes(self) -> tuple[Dimension, Dimension]:
        """Height and width of the image of a phase, or of all of a sequence."""
        if self.sequence is None:
            return self.axes[0].length, self.axes[1].length
        along = self.axes[self.sequence]
        return along.length, along.step

    @property
    def computed(self) -> tuple[Dimension, Dimension]:
        """Height and width of the result."""
        if self.sequence is None:
            return self.axes[0].computed, self.axes[1].computed
        along = self.axes[self.sequence]
        return along.computed, along.step

    def tilings(self, operator: BilinearConv) -> tuple[Tiling, Tiling]:
        """How tiles lie along the height and the width of that image; its size is not theirs."""
        algorithms = (operator.rows, operator.columns)
        tilings = [
            Tiling(algorithm or by_definition(axis.extent), axis.extent, 1, *axis.inner)
            for algorithm, axis in zip(algorithms, self.axes, strict=True)
        ]
        if self.sequence is None:
            return tilings[0], tilings[1]
        return tilings[self.sequence], Tiling(by_definition(1), 1, 1, 0, 0)

    def transformed(self, operator: BilinearConv) -> tuple[bool, bool]:
        """Whether there are algorithms along the height and the width of that image."""
        algorithms = (bool(operator.rows), bool(operator.columns))
        return algorithms if self.sequence is None else (algorithms[self.sequence], False)

    def open_shapes(self, samples: Dimension, channels: int, outputs: int) -> dict[str, Sequence[Size]]:
        """The shapes of a sequence of open length, by the names that ``apart`` and ``together`` use."""
        if self.sequence is None:
            return {}
        along = self.axes[self.sequence]
        whole: list[Size] = [samples, outputs, 1, 1]
        whole[2 + self.sequence] = (along.computed, along.step)
        return {
            "completed": ((along.length, along.step),),
            "apart": (samples, channels, along.length, along.step),
            "together": tuple(whole),
            "kept": (along.outputs,),
        }

    def apart(
        self, nodes: TensorNodes, image: str, samples: int, channels: int, shape: Callable[[str], str] | None
    ) -> str:
        """The image of the phases."""
        rows, columns = self.axes
        zeros = (rows.before, columns.before, rows.after, columns.after)
        image = nodes.padded(image, zeros) if any(zeros) else image
        if self.sequence is not None and shape is not None:
            operands = [image, nodes.sizes([0]), shape("completed"), nodes.sizes([2 + self.sequence])]
            return nodes.node("Reshape", [nodes.node("Slice", operands), shape("apart")])
        height, width = map(_known, self.sizes)
        if self.sequence is not None:
            return nodes.reshaped(image, (samples, channels, height, width))
        image = nodes.reshaped(image, (samples, channels, height, rows.step, width, columns.step))
        return nodes.reshaped(
            nodes.transposed(image, _APART), (_times(samples, self.count), channels, height, width)
        )

    def together(
        self,
        nodes: TensorNodes,
        image: str,
        samples: int,
        outputs: int,
        result: str,
        shape: Callable[[str], str] | None,
    ) -> None:
        """The result out of those of the phases, without the outputs that are too many."""
        if self.sequence is not None and shape is not None:
            whole = nodes.node("Reshape", [image, shape("together")])
            operands = [whole, nodes.sizes([0]), shape("kept"), nodes.sizes([2 + self.sequence])]
            nodes.node("Slice", operands, output=result)
            return
        height, width = map(_known, self.computed)
        if self.sequence is None:
            rows, columns = self.axes
            image = nodes.reshaped(image, (samples, rows.step, columns.step, outputs, height, width))
            image = nodes.transposed(image, _TOGETHER)
            sizes = [height * rows.step, width * columns.step]
        else:
            sizes = [1, 1]
            sizes[self.sequence] = height * width
        kept = [_known(axis.outputs) for axis in self.axes]
        cut = [axis for axis in range(2) if kept[axis] != sizes[axis]]
        image = nodes.reshaped(image, (samples, outputs, *sizes), None if cut else result)
        for axis in cut:
            image = nodes.piece(image, 2 + axis, 0, kept[axis], result if axis == cut[-1] else None)


def _is_single(axis: PhasedAxis) -> bool:
    """Whether it has a single element, which alone makes the single output along it."""
    return axis.size == axis.extent == 1 and not (axis.before or axis.behind or any(axis.inner))


def _known(size: Dimension) -> int:
    assert isinstance(size, int), "sizes of phases of images are known"
    return size


def _times(samples: int, count: int) -> int:
    return -1 if samples == -1 else samples * count


__all__ = ["PhasedAxis", "Phases"]
