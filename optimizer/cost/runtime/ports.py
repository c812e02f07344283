"""Inputs and outputs of a loaded model, as it declares them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# ONNX Runtime ships no types.

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

_DTYPES: Mapping[str, str] = {
    "float": "float32",
    "double": "float64",
    "float16": "float16",
    "int8": "int8",
    "int16": "int16",
    "int32": "int32",
    "int64": "int64",
    "uint8": "uint8",
    "uint16": "uint16",
    "uint32": "uint32",
    "uint64": "uint64",
    "bool": "bool",
    "string": "object",
    "complex64": "complex64",
    "complex128": "complex128",
}


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of a loaded model. ``dtype`` is a numpy name, None for types without a numpy array;
    dimensions are sizes, names, or None. The shape is meaningless where the model does not declare one."""

    name: str
    dtype: str | None
    shape: tuple[int | str | None, ...]
    has_shape: bool = True

    @property
    def is_one_number(self) -> bool:
        """Whether it has one element, as far as is declared."""
        return all(size == 1 for size in self.shape)


def ports_of(infos: Iterable[Any]) -> Iterator[Port]:
    """The inputs or outputs that the runtime describes so."""
    for info in infos:
        text = str(info.type)
        element = text.removeprefix("tensor(").removesuffix(")") if text.startswith("tensor(") else ""
        shape = tuple(cast("Sequence[int | str | None]", info.shape)) if element else ()
        yield Port(str(info.name), _DTYPES.get(element), shape)


def misdeclared(ports: Sequence[Port], outputs: Sequence[object]) -> tuple[str, ...]:
    """Declared output shapes that a run contradicts; () may stand for an unknown rank."""
    found: list[str] = []
    for port, output in zip(ports, outputs, strict=True):
        got = output.shape if isinstance(output, np.ndarray) else ()
        fits = len(got) == len(port.shape) and all(
            not isinstance(size, int) or size == own for size, own in zip(port.shape, got, strict=True)
        )
        if port.shape and not fits:
            found.append(f"output {port.name!r} is declared as {_shown(port.shape)}, but is {_shown(got)}")
    return tuple(found)


def _shown(shape: Sequence[int | str | None]) -> str:
    return f"[{', '.join('?' if size is None else str(size) for size in shape)}]"
