"""superopt: a tensor-algebra superoptimizer. ``superopt.optimize(model)`` is the main job."""

from __future__ import annotations

from importlib import import_module, metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from superopt.journeys.in_process import Result
    from superopt.journeys.python import optimize

    __version__: str

__all__ = ["Result", "__version__", "optimize"]


def __getattr__(name: str) -> object:
    """Loaded at first use: a lower package does not load the upper ones."""
    if name == "__version__":
        return metadata.version("superopt")
    if name in __all__:
        return getattr(import_module("superopt.journeys.python"), name)
    raise AttributeError(f"module 'superopt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
