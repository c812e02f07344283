"""Points of the program at which a process ends as ``kill -9`` ends it; the program does not know of them."""

from __future__ import annotations

import enum
import importlib
import itertools
import os
import signal
from dataclasses import dataclass
from typing import NoReturn


class When(enum.Enum):
    """On which side of a call."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True)
class Edge:
    """The ``count``-th call of ``module:name`` or ``module:class.name``."""

    when: When
    function: str
    count: int = 1

    def __str__(self) -> str:
        return f"{self.when.value} {self.function.rpartition(':')[2]}"


def arm(edge: Edge) -> None:
    """This process dies at that edge."""
    module, _, path = edge.function.partition(":")
    owner = importlib.import_module(module)
    *parents, name = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    original = getattr(owner, name)

    calls = itertools.count(1)

    def deadly(*arguments: object, **options: object) -> object:
        last = next(calls) == edge.count
        if last and edge.when is When.BEFORE:
            die()
        result = original(*arguments, **options)
        if last:
            die()
        return result

    setattr(owner, name, deadly)


def die() -> NoReturn:
    """Ends this process at once."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError
