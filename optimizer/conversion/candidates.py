"""Converted forms of a model, made by tools that ONNX Runtime ships: float16, and fused operators of its own
domain."""

from __future__ import annotations

import io
import logging
import math
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

FLOAT16, FUSED = "float16", "onnxruntime"
"""The kinds of conversions: weights and computation in half precision; operators of ONNX Runtime's domain."""

_ARCHITECTURES = ("bert", "gpt2", "vit", "t5", "bart", "clip", "swin")
"""The kinds of transformers whose patterns are tried, by the names that ONNX Runtime's tool has for them."""

_DOMAIN = "com.microsoft"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A converted model: its kind, the variant of the conversion, and its file."""

    kind: str
    variant: str
    content: bytes
    nodes: int


class _Node(Protocol):
    @property
    def domain(self) -> str: ...


class _Graph(Protocol):
    @property
    def node(self) -> Sequence[_Node]: ...


class _Proto(Protocol):
    @property
    def graph(self) -> _Graph: ...

    def SerializeToString(self) -> bytes: ...  # noqa: N802 - protobuf's name


def candidates(kind: str, model: Path, variant: str = "", ends: float = math.inf) -> Sequence[Candidate]:
    """The forms of the model in a file, without external data, that a kind of conversion gives, those with
    the fewest nodes first; one variant alone if it is named. Empty where nothing in the model can be
    converted. Variants that would not be done when the time ``ends`` (monotonic clock) are left out. What
    ONNX Runtime's tools raise is passed on, what they print is dropped."""
    architectures = (variant,) if variant else _ARCHITECTURES
    different: dict[bytes, Candidate] = {}
    with redirect_stdout(io.StringIO()), _warnings_disabled():
        for one in [_float16(model)] if kind == FLOAT16 else _fused(model, architectures, ends):
            different.setdefault(one.content, one)
    return sorted(different.values(), key=lambda one: one.nodes)


@contextmanager
def _warnings_disabled() -> Generator[None]:
    """Without log messages below errors: the tools' loggers are called after their modules, without a common
    parent."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def _float16(model: Path) -> Candidate:
    """The model with float32 weights and tensors in float16. Inputs and outputs keep their types; operators
    that have no float16 form, or lose too much in it, stay in float32 (``DEFAULT_OP_BLOCK_LIST``)."""
    from onnxruntime.transformers.float16 import (
        convert_float_to_float16,  # pyright: ignore[reportUnknownVariableType]
    )

    try:
        converted = cast("_Proto", convert_float_to_float16(str(model), keep_io_types=True))
    except (RuntimeError, ValueError):  # ONNX infers no types of operators of other domains
        converted = cast(
            "_Proto", convert_float_to_float16(str(model), keep_io_types=True, disable_shape_infer=True)
        )
    return Candidate(FLOAT16, "", converted.SerializeToString(), len(converted.graph.node))


def _fused(model: Path, architectures: Sequence[str], ends: float) -> Iterator[Candidate]:
    """The model after ONNX Runtime's fusions for each kind of transformer, where these fuse anything."""
    from onnxruntime.transformers.optimizer import (
        optimize_model,  # pyright: ignore[reportUnknownVariableType]
    )

    longest = 0.0
    for architecture in architectures:
        began = time.monotonic()
        if began + longest > ends:
            return
        try:
            fused = cast("_Proto", optimize_model(str(model), architecture, opt_level=0).model)
        except Exception:
            logging.getLogger(__name__).debug("%s as %s", model.name, architecture, exc_info=True)
            continue
        longest = max(longest, time.monotonic() - began)
        if any(node.domain == _DOMAIN for node in fused.graph.node):
            yield Candidate(FUSED, architecture, fused.SerializeToString(), len(fused.graph.node))


__all__ = ["FLOAT16", "FUSED", "Candidate", "candidates"]
