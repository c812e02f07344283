"""The metadata property that makes a model a training step; its meaning is in ``description``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

PROPERTY = "superopt.training"
"""The key of the metadata property."""


def is_step(model: onnx.ModelProto) -> bool:
    """Whether the model has a description of a training step."""
    return any(entry.key == PROPERTY for entry in model.metadata_props)
