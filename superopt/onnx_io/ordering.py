"""Topological ordering of the nodes to be written."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from superopt.ir.graph import CyclicGraphError

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def in_order(items: Iterable[T], reads: Callable[[T], Iterable[T]], name: Callable[[T], str]) -> Iterator[T]:
    """All items with everything that they read, in topological order; otherwise in the given order. Items are
    compared by identity. Raises CyclicGraphError, with the ``name``, for a cycle."""
    entered: set[int] = set()
    done: set[int] = set()
    for start in items:
        stack: list[tuple[T, bool]] = [(start, False)]
        while stack:
            item, ready = stack.pop()
            if id(item) in done:
                continue
            if ready:
                done.add(id(item))
                yield item
                continue
            if id(item) in entered:
                raise CyclicGraphError(f"the nodes to be written have a cycle: {name(item)}")
            entered.add(id(item))
            stack.append((item, True))
            stack.extend((before, False) for before in reversed([*reads(item)]) if id(before) not in done)


def stuck(sources: Mapping[K, Sequence[K]]) -> set[K]:
    """The items on a cycle or behind one; each waits for its ``sources``."""
    waiting = {item: len(set(needed)) for item, needed in sources.items()}
    followers: dict[K, list[K]] = {}
    for item, needed in sources.items():
        for source in set(needed):
            followers.setdefault(source, []).append(item)
    ready = [item for item, count in waiting.items() if not count]
    while ready:
        item = ready.pop()
        del waiting[item]
        for follower in followers.get(item, ()):
            waiting[follower] -= 1
            if not waiting[follower]:
                ready.append(follower)
    return set(waiting)
