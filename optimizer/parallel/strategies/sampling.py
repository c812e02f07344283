"""Guided sampler of strategies (AutoDist, section 2.4).

Three constraints direct the random choices: small variables stay whole and large ones are always divided;
the parts on servers are placed so that all servers hold about as many bytes; groups of all-reduces are
ranges of neighbouring gradients with about as many bytes each.
"""

from __future__ import annotations

import enum
import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from superopt.optimizer.parallel.strategies.model import (
    Collective,
    Server,
    Strategy,
    Synchronizer,
    VariableSync,
)
from superopt.optimizer.parallel.strategies.variables import DeviceNames, ServerLoads, Variable

_MEGABYTE = 1 << 20
_SMALL = (_MEGABYTE // 16, _MEGABYTE // 4, _MEGABYTE)
_LARGE = (2 * _MEGABYTE, 8 * _MEGABYTE, 32 * _MEGABYTE)
"""Sizes below which a variable stays whole, and from which on it is divided."""

_BETWEEN = 0.3
"""Probability that a variable between these sizes is divided."""

_SHARES = (0.0, 0.1, 0.5, 0.9, 1.0)
"""Probabilities that a dense variable is on a server."""

_SPARSE_SHARE = 0.8
"""Probability that a sparse variable is on a server."""

_MOST_PARTS = 16
_MOST_GROUPS = 64
_CHANGED = (0.02, 0.1, 0.3)
"""Shares of the variables that a variation draws again."""


class Aspect(enum.StrEnum):
    """What the sampler may choose."""

    PARTITION = "partition"
    SERVERS = "servers"
    GROUPS = "groups"


EVERY_ASPECT = frozenset(Aspect)


@dataclass(frozen=True, slots=True)
class Decision:
    """Of one variable: whether it is on servers, and its partition, empty if it is whole."""

    is_served: bool
    partition: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Draft:
    """The choices of a sample, from which the strategy follows: one decision for each variable, the servers,
    and the number of groups of all-reduces; None for a group of its own for each."""

    decisions: tuple[Decision, ...]
    servers: tuple[str, ...]
    groups: int | None


@dataclass
class Sampler:
    """Draws strategies for the variables on the cluster. Only the given aspects vary: without PARTITION
    variables stay whole, without SERVERS all are reduced on all devices, without GROUPS each by itself."""

    variables: Sequence[Variable]
    names: DeviceNames
    random: random.Random
    aspects: frozenset[Aspect] = field(default=EVERY_ASPECT)

    def draft(self) -> Draft:
        """New choices."""
        share = self.random.choice(_SHARES) if Aspect.SERVERS in self.aspects else 0.0
        small, large = self.random.choice(_SMALL), self.random.choice(_LARGE)
        columns = self._columns()
        decisions = tuple(
            self._sparse_decision(variable, columns)
            if variable.is_sparse
            else self._decision(variable, share, small, large)
            for variable in self.variables
        )
        servers = self._servers() if columns <= len(self.names.hosts) else self.names.by_place
        return Draft(decisions, servers, self._groups())

    def draft_like(self, strategy: Strategy) -> Draft:
        """Choices whose strategy is similar to the given one: the same partitions, on servers or not."""
        configs = [strategy.by_name[variable.name] for variable in self.variables]
        parts = [one for config in configs for one in config.synchronizers]
        groups = {one.group for one in parts if isinstance(one, Collective)}
        decisions = tuple(
            Decision(isinstance(config.synchronizers[0], Server), config.partition) for config in configs
        )
        return Draft(decisions, self.names.servers, len(groups) or 1)

    def variation(self, draft: Draft) -> Draft:
        """A similar draft: other decisions for some variables, other servers, or other groups."""
        match self.random.choice(("decisions", "servers", "groups")):
            case "servers":
                return replace(draft, servers=self._servers())
            case "groups":
                return replace(draft, groups=self._groups())
            case _:
                share, fresh = self.random.choice(_CHANGED), self.draft()
                return replace(
                    draft,
                    decisions=tuple(
                        new if self.random.random() < share else old
                        for old, new in zip(draft.decisions, fresh.decisions, strict=True)
                    ),
                )

    def _decision(self, variable: Variable, share: float, small: int, large: int) -> Decision:
        is_served = self.random.random() < share
        chance = 0.0 if variable.bytes < small else 1.0 if variable.bytes >= large else _BETWEEN
        if Aspect.PARTITION not in self.aspects or self.random.random() >= chance:
            return Decision(is_served)
        return Decision(is_served, self._partition(variable))

    def _columns(self) -> int:
        """The largest number of parts of the columns of sparse variables."""
        if Aspect.PARTITION not in self.aspects:
            return 1
        most = min(_MOST_PARTS, len(self.names.accelerators))
        return self.random.choice([2**power for power in range(most.bit_length())])

    def _sparse_decision(self, variable: Variable, columns: int) -> Decision:
        """On servers that look up rows, whole or with equal parts of the columns on each."""
        if Aspect.SERVERS not in self.aspects or self.random.random() >= _SPARSE_SHARE:
            return Decision(is_served=False)
        parts = max(count for count in range(1, columns + 1) if variable.shape[-1] % count == 0)
        partition = (*(1 for _ in variable.shape[1:]), parts) if parts > 1 else ()
        return Decision(is_served=True, partition=partition)

    def _partition(self, variable: Variable) -> tuple[int, ...]:
        """Along one axis, in parts of equal size where that is possible; empty where no axis is long
        enough."""
        most = min(_MOST_PARTS, len(self.names.accelerators))
        options = [
            (axis, parts)
            for axis, size in enumerate(variable.shape)
            for parts in range(2, min(most, size) + 1)
        ]
        even = [(axis, parts) for axis, parts in options if variable.shape[axis] % parts == 0]
        if not options:
            return ()
        chosen, parts = self.random.choice(even or options)
        return tuple(parts if axis == chosen else 1 for axis in range(len(variable.shape)))

    def _servers(self) -> tuple[str, ...]:
        return self.random.choice((self.names.hosts, self.names.by_place))

    def _groups(self) -> int | None:
        if Aspect.GROUPS not in self.aspects:
            return None
        counts = [2**power for power in range(int(math.log2(_MOST_GROUPS)) + 1)]
        return self.random.choice([*counts, None])

    def strategy(self, draft: Draft) -> Strategy:
        """The strategy of a draft."""
        pieces = [
            _Piece(number, place, size)
            for number, (variable, decision) in enumerate(zip(self.variables, draft.decisions, strict=True))
            for place, size in enumerate(_weights(variable, decision))
        ]
        served = [piece for piece in pieces if draft.decisions[piece.variable].is_served]
        reduced = [piece for piece in pieces if not draft.decisions[piece.variable].is_served]
        chosen: dict[_Piece, Synchronizer] = {
            piece: Server(server) for piece, server in _balanced(served, draft.servers)
        }
        chosen |= {piece: Collective(group) for piece, group in _grouped(reduced, draft.groups)}
        by_variable = [
            [chosen[piece] for piece in found]
            for _, found in itertools.groupby(pieces, key=lambda piece: piece.variable)
        ]
        return Strategy(
            tuple(
                VariableSync.divided(variable.name, decision.partition, synchronizers)
                for variable, decision, synchronizers in zip(
                    self.variables, draft.decisions, by_variable, strict=True
                )
            ),
            self.names.accelerators,
        )


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of a variable: both by number, and its bytes."""

    variable: int
    place: int
    bytes: int


def _balanced(pieces: Sequence[_Piece], servers: Sequence[str]) -> list[tuple[_Piece, str]]:
    """Each piece on the server with the fewest bytes, the largest pieces first, equal pieces of a variable on
    different servers as far as there are."""
    loads = ServerLoads(servers)
    found: list[tuple[_Piece, str]] = []
    ordered = sorted(pieces, key=lambda piece: (-piece.bytes, piece.variable))
    for _, own in itertools.groupby(ordered, key=lambda piece: (piece.variable, piece.bytes)):
        parts = list(own)
        found += zip(parts, loads.least(parts[0].bytes * len(parts), len(parts)), strict=True)
    return found


def _weights(variable: Variable, decision: Decision) -> list[int]:
    """The bytes of each part that count for a server or a group."""
    sizes = variable.part_bytes(decision.partition)
    if not decision.is_served or variable.traffic == variable.bytes:
        return sizes
    return variable.row_parts(len(sizes))


def _grouped(pieces: Sequence[_Piece], count: int | None) -> list[tuple[_Piece, int]]:
    """Neighbouring pieces in so many groups of about equal bytes."""
    if count is None:
        return [(piece, number) for number, piece in enumerate(pieces)]
    total, before = max(1, sum(piece.bytes for piece in pieces)), 0
    found: list[tuple[_Piece, int]] = []
    for piece in pieces:
        found.append((piece, min(count - 1, (before + piece.bytes // 2) * count // total)))
        before += piece.bytes
    return found
