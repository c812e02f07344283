"""Sessions for models with a memory plan: nodes run in the order of the file and none is merged with another.

The metadata property ``superopt.memory`` of a model says that its nodes are in an order, with repetitions,
that keeps its tensors within a limit. ONNX Runtime would choose another order and merge equal nodes.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# ONNX Runtime ships no types.

from __future__ import annotations

import ctypes
import enum
import json
import mmap
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from superopt.defects import first_defect
from superopt.errors import InvalidModelError
from superopt.protobuf_wire import WireError, metadata_of

PROPERTY = "superopt.memory"
"""The key of the metadata property."""

_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1
"""Parameters of ``mallopt``."""

_RETURNED_FROM = 1 << 16
"""Bytes from which the allocator returns freed memory to the system at once."""


class Allocator(enum.StrEnum):
    """Where tensors get their memory: the runtime's arena, which keeps what is freed and is faster, or the
    system, which needs exactly what is alive."""

    ARENA = "arena"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """What a model's nodes were arranged for: bytes that were allowed and that are predicted, the allocator
    with which they are kept, names of nodes that run again, and whether nodes are in another order than
    without a limit."""

    limit: int
    predicted: int
    allocator: Allocator
    recomputed: tuple[str, ...] = ()
    reordered: bool = False
    format: Literal[1] = 1

    def to_text(self) -> str:
        """The value of the metadata property."""
        return json.dumps(asdict(self), ensure_ascii=False)


def plan_in(model: bytes | Path) -> MemoryPlan | None:
    """The memory plan of a model file; None if it has none. Raises InvalidModelError for one that is
    damaged."""
    try:
        if isinstance(model, bytes):
            text = metadata_of(model).get(PROPERTY)
        else:
            with model.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                text = metadata_of(content).get(PROPERTY)
    except (OSError, ValueError, WireError):
        return None
    return None if text is None else plan_from(text)


def plan_from(text: str) -> MemoryPlan:
    """The memory plan in the value of the metadata property; raises InvalidModelError."""
    from pydantic import TypeAdapter, ValidationError  # most models have no plan

    try:
        return TypeAdapter(MemoryPlan).validate_json(text)
    except ValidationError as error:
        raise InvalidModelError(f"metadata {PROPERTY!r}: {first_defect(error, 'value')}") from error


def realise(plan: MemoryPlan | None, options: Any, runtime: Any) -> None:
    """Sets the options of a session of the ``runtime`` for a model with a plan."""
    if plan is None:
        return
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.execution_order = runtime.ExecutionOrder.PRIORITY_BASED
    options.enable_mem_pattern = False
    options.enable_mem_reuse = False
    options.enable_cpu_mem_arena = plan.allocator is Allocator.ARENA
    if plan.allocator is Allocator.SYSTEM:
        return_freed_memory()


def return_freed_memory() -> None:
    """Makes the C library of this process return large freed blocks to the system at once, where it can."""
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, _RETURNED_FROM)
        library.mallopt(_TRIM_THRESHOLD, _RETURNED_FROM)
