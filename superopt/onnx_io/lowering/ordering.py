"""Topological ordering of the nodes to be written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from superopt.ir.graph import CyclicGraphError

T = TypeVar("T")


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
