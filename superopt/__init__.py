"""superopt: a tensor-algebra superoptimizer. ``superopt.optimize(model)`` is the main job."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from superopt.api import Result
    from superopt.calling import optimize

__all__ = ["Result", "optimize"]


def __getattr__(name: str) -> object:
    """Loaded at first use: a lower room does not load the upper ones."""
    if name in __all__:
        return getattr(import_module("superopt.calling"), name)
    raise AttributeError(f"module 'superopt' has no attribute {name!r}")
