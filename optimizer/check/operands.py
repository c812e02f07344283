"""Inputs that hold sizes, axes or scale factors of an operator: values that the declared shapes permit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from superopt.onnx_io.readers import Reader

Shape = Sequence[int | str | None]
ShapeOf = Callable[[str], Shape]
Numbers = tuple[int | float, ...]


def operand_values(reader: Reader, shape_of: ShapeOf) -> Numbers | None:
    """Valid values of an input for the operator that reads it; None for other operands, or where the declared
    shapes do not determine them."""
    rule = _RULES.get((reader.op_type, reader.slot))
    return None if rule is None else rule(reader, shape_of)


def _known(shape: Shape) -> tuple[int, ...] | None:
    sizes = tuple(size for size in shape if isinstance(size, int))
    return sizes if len(sizes) == len(shape) else None


def _shape_of_output(reader: Reader, shape_of: ShapeOf) -> Numbers | None:
    return _known(shape_of(reader.outputs[0]))


def _shape_of_data(reader: Reader, shape_of: ShapeOf) -> Numbers | None:
    return _known(shape_of(reader.inputs[0]))


def _parts(reader: Reader, shape_of: ShapeOf) -> Numbers | None:
    axis = reader.integer("axis", 0)
    shapes = [shape_of(output) for output in reader.outputs]
    if not all(-len(shape) <= axis < len(shape) for shape in shapes):
        return None
    return _known([shape[axis] for shape in shapes])


def _factors(reader: Reader, shape_of: ShapeOf) -> Numbers | None:
    """The scale factor of the output along each axis."""
    before, after = _known(shape_of(reader.inputs[0])), _known(shape_of(reader.outputs[0]))
    if before is None or after is None or len(before) != len(after) or 0 in before:
        return None
    return tuple(new / old for old, new in zip(before, after, strict=True))


def _single_axes(reader: Reader, shape_of: ShapeOf) -> Numbers:
    return tuple(axis for axis, size in enumerate(shape_of(reader.inputs[0])) if size == 1)


def _all_axes(reader: Reader, shape_of: ShapeOf) -> Numbers:
    return tuple(range(len(shape_of(reader.inputs[0]))))


def _first_axis(_: Reader, _shape_of: ShapeOf) -> Numbers:
    return (0,)


def _ones(reader: Reader, shape_of: ShapeOf) -> Numbers:
    return (1,) * max(1, len(shape_of(reader.inputs[0])))


_RULES: Mapping[tuple[str, int], Callable[[Reader, ShapeOf], Numbers | None]] = {
    ("Reshape", 1): _shape_of_output,
    ("Expand", 1): _shape_of_output,
    ("ConstantOfShape", 0): _shape_of_output,
    ("AffineGrid", 1): _shape_of_output,
    ("MaxUnpool", 2): _shape_of_output,
    ("Resize", 3): _shape_of_output,
    ("Resize", 2): _factors,
    ("Upsample", 1): _factors,
    ("Tile", 1): _factors,
    ("Split", 1): _parts,
    ("Squeeze", 1): _single_axes,
    ("Slice", 2): _shape_of_data,
    ("Slice", 3): _all_axes,
    ("Slice", 4): _ones,
    ("CumSum", 1): _first_axis,
    ("CumProd", 1): _first_axis,
}
