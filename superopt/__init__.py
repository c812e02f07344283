"""superopt: a tensor-algebra superoptimizer. ``superopt.optimize(model)`` is the main job.

Also here: ``inspect``, ``check``, ``replay``, ``prove``, ``write_shards``, ``write_timeline``, and the
modules ``training`` (training steps), ``client`` (of a service), ``zoo`` (networks), ``errors``.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from superopt import client, errors, training, zoo
    from superopt.journeys.in_process import Inspection, check, inspect
    from superopt.journeys.proving import Judgement, prove
    from superopt.journeys.python import optimize
    from superopt.journeys.recorded import replay, write_shards, write_timeline
    from superopt.journeys.result import Result, WrittenModel
    from superopt.optimizer import Progress, Report
    from superopt.optimizer.check import Equivalence

    __version__: str

__all__ = [
    "Equivalence",
    "Inspection",
    "Judgement",
    "Progress",
    "Report",
    "Result",
    "WrittenModel",
    "__version__",
    "check",
    "client",
    "errors",
    "inspect",
    "optimize",
    "prove",
    "replay",
    "training",
    "write_shards",
    "write_timeline",
    "zoo",
]

_HOMES = {
    "Equivalence": "superopt.optimizer.check",
    "Inspection": "superopt.journeys.in_process",
    "Judgement": "superopt.journeys.proving",
    "Progress": "superopt.optimizer",
    "Report": "superopt.optimizer",
    "Result": "superopt.journeys.result",
    "WrittenModel": "superopt.journeys.result",
    "check": "superopt.journeys.in_process",
    "inspect": "superopt.journeys.in_process",
    "optimize": "superopt.journeys.python",
    "prove": "superopt.journeys.proving",
    "replay": "superopt.journeys.recorded",
    "write_shards": "superopt.journeys.recorded",
    "write_timeline": "superopt.journeys.recorded",
}
"""The modules that define what is offered here; the other names are modules or the version."""


def __getattr__(name: str) -> object:
    """Loaded at first use: a lower package does not load the upper ones."""
    if name == "__version__":
        from importlib.metadata import version

        return version("superopt")
    if name in _HOMES:
        return getattr(_import_module(_HOMES[name]), name)
    if name in __all__:
        return _import_module(f"superopt.{name}")
    raise AttributeError(f"module 'superopt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
