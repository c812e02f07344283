"""Congruence closure over fully resolved terms, independent of solvers.

A resolved term is an operator with every attribute, including sizes, applied to resolved terms, so ``ones``
of one shape differs from ``ones`` of another. Two resolved terms are equal if they are connected by given
equations and by applications of one operator to equal terms.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from superopt.ops.base import Operator

Head: TypeAlias = "str | Operator"


@dataclass
class Congruence:
    """Classes of equal terms; ``node`` assigns a number to each term."""

    _parent: list[int] = field(default_factory=list[int])
    _table: dict[tuple[object, ...], int] = field(default_factory=dict[tuple[object, ...], int])
    _nodes: list[tuple[Head, tuple[int, ...]]] = field(default_factory=list[tuple[Head, tuple[int, ...]]])
    _users: list[list[int]] = field(default_factory=list[list[int]])

    def node(self, head: Head, inputs: tuple[int, ...]) -> int:
        """Return the number of a variable (its name, no inputs) or of an operator applied to numbered
        terms."""
        signature = self._signature(head, inputs)
        found = self._table.get(signature)
        if found is not None:
            return found
        number = len(self._parent)
        self._parent.append(number)
        self._nodes.append((head, inputs))
        self._users.append([])
        for child in inputs:
            self._users[self.find(child)].append(number)
        self._table[signature] = number
        return number

    def find(self, number: int) -> int:
        """Return the representative of a term's class."""
        while self._parent[number] != number:
            self._parent[number] = self._parent[self._parent[number]]
            number = self._parent[number]
        return number

    def merge(self, left: int, right: int) -> None:
        """Make two terms equal, and all terms that become equal as a consequence."""
        pending = [(left, right)]
        while pending:
            a, b = (self.find(number) for number in pending.pop())
            if a == b:
                continue
            self._parent[a] = b
            users, self._users[a] = self._users[a], []
            for user in users:
                signature = self._signature(*self._nodes[user])
                other = self._table.setdefault(signature, user)
                if self.find(other) != self.find(user):
                    pending.append((user, other))
            self._users[b].extend(users)

    def equal(self, left: int, right: int) -> bool:
        """Whether the terms are known to be equal."""
        return self.find(left) == self.find(right)

    def _signature(self, head: Head, inputs: tuple[int, ...]) -> tuple[object, ...]:
        return (type(head), head, *(self.find(child) for child in inputs))
