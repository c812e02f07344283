"""Traversal of anything whose items read others."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from typing import TypeVar

K = TypeVar("K", bound=Hashable)


def postorder(starts: Iterable[K], sources: Callable[[K], Iterable[K]]) -> Iterator[K]:
    """The starts and all that they read, directly or not, each once and after its sources (but for cycles):
    depth first, in the order of the starts and of the sources."""
    seen: set[K] = set()
    stack = [(start, False) for start in starts][::-1]
    while stack:
        item, is_done = stack.pop()
        if is_done:
            yield item
        elif item not in seen:
            seen.add(item)
            stack.append((item, True))
            stack.extend([(source, False) for source in sources(item)][::-1])


def acyclic(sources: Mapping[K, Iterable[K]]) -> Iterator[K]:
    """The keys, each after its ``sources``; those on a cycle or behind one never come."""
    sorter = TopologicalSorter(sources)
    with suppress(CycleError):
        sorter.prepare()
    while ready := sorter.get_ready():
        yield from ready
        sorter.done(*ready)
