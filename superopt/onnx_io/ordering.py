"""Putting what is to be written in order: everything after what it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from superopt.ir.graph import CyclicGraphError

T = TypeVar("T")


def in_order(items: Iterable[T], reads: Callable[[T], Iterable[T]], name: Callable[[T], str]) -> Iterator[T]:
    """Every item, and what it reads, after what it reads; otherwise in the given order.

    Items are told apart by identity. Raises CyclicGraphError, with the ``name``, for one that needs itself.
    """
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
                raise CyclicGraphError(f"what would be written depends on itself: {name(item)}")
            entered.add(id(item))
            stack.append((item, True))
            stack.extend((before, False) for before in reversed([*reads(item)]) if id(before) not in done)
