"""Synchronisation strategy of a training step, as AutoDist defines it (Zhang et al., section 2.2).

At the level of the graph a strategy names the devices that replicate it. At the level of nodes it states for
each variable into how many parts each axis is divided, and how the gradient of each part is synchronised:
by a parameter server, which sums the gradients and updates the part, or by an all-reduce. All-reduces of one
group are merged into one.
"""

from __future__ import annotations

import enum
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, ClassVar, Literal, TypeAlias, cast

from pydantic import ConfigDict, Discriminator, Tag, TypeAdapter, ValidationError

from superopt.defects import first_defect
from superopt.errors import InvalidFileError, InvalidOptionError

FORMAT = 1

_STRICT = ConfigDict(extra="forbid")


class Spec(enum.StrEnum):
    """Who implements a collective: the runtime's choice, NCCL, or rings of the runtime."""

    AUTO = "auto"
    NCCL = "nccl"
    RING = "ring"


class Compressor(enum.StrEnum):
    """Encoding of gradients in an all-reduce: none, in half precision, and that with the rounding error added
    to the next gradient."""

    NONE = "none"
    CAST = "cast"
    CAST_WITH_FEEDBACK = "cast-with-feedback"


@dataclass(frozen=True, slots=True)
class Server:
    """Synchronisation by a parameter server. ``destination`` is the device that sums and updates; with
    ``local_replication`` all devices hold a copy to read from. Without ``sync`` nobody waits for the others;
    ``staleness`` is the number of steps by which the fastest replica may be ahead of the slowest."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    destination: str
    local_replication: bool = False
    sync: bool = True
    staleness: int = 0
    kind: Literal["ps"] = "ps"


@dataclass(frozen=True, slots=True)
class Collective:
    """Synchronisation by an all-reduce, merged with those of the same ``group``."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    group: int = 0
    spec: Spec = Spec.AUTO
    compressor: Compressor = Compressor.NONE
    kind: Literal["allreduce"] = "allreduce"


def _kind(value: object) -> object:
    """Which of both is meant, also where values do not say it: defects of the other are not reported then."""
    if isinstance(value, Mapping):
        named = cast("Mapping[str, object]", value)
        return named.get("kind", "ps" if "destination" in named else "allreduce")
    return getattr(value, "kind", None)


Synchronizer: TypeAlias = Annotated[
    Annotated[Server, Tag("ps")] | Annotated[Collective, Tag("allreduce")],
    Discriminator(
        _kind, custom_error_type="kind", custom_error_message="expected an object of kind ps or allreduce"
    ),
]


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a variable."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    name: str
    synchronizer: Synchronizer


@dataclass(frozen=True, slots=True)
class VariableSync:
    """The configuration of one variable: a synchroniser, or a ``partition`` with the number of parts along
    each axis and the configurations of the ``parts``, row-major."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    name: str
    synchronizer: Synchronizer | None = None
    partition: tuple[int, ...] = ()
    parts: tuple[Part, ...] = ()

    @staticmethod
    def divided(name: str, partition: Sequence[int], synchronizers: Sequence[Synchronizer]) -> VariableSync:
        """A variable in parts, row-major, with the synchroniser of each; whole with one."""
        if len(synchronizers) == 1:
            return VariableSync(name, synchronizers[0])
        parts = (Part(part_name(name, number), one) for number, one in enumerate(synchronizers))
        return VariableSync(name, None, tuple(partition), tuple(parts))

    @property
    def synchronizers(self) -> tuple[Synchronizer, ...]:
        """Those of the parts, or the only one."""
        if self.parts:
            return tuple(part.synchronizer for part in self.parts)
        return () if self.synchronizer is None else (self.synchronizer,)

    @property
    def is_partitioned(self) -> bool:
        """Whether there are several parts."""
        return math.prod(self.partition) > 1


@dataclass(frozen=True)
class Strategy:
    """A complete strategy. ``replicas`` are the devices that run the graph, ``identity`` is any name,
    ``path`` the file in which a peer stored it."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    variables: tuple[VariableSync, ...]
    replicas: tuple[str, ...]
    identity: str = ""
    path: str = ""
    format: Literal[1] = FORMAT

    @cached_property
    def by_name(self) -> Mapping[str, VariableSync]:
        """The configurations by the variable's name."""
        return {variable.name: variable for variable in self.variables}

    def devices(self) -> Iterator[str]:
        """All devices that are named."""
        yield from self.replicas
        for variable in self.variables:
            for synchronizer in variable.synchronizers:
                if isinstance(synchronizer, Server):
                    yield synchronizer.destination

    def to_json(self) -> dict[str, object]:
        """The strategy as JSON values, which ``strategy_from_json`` reads."""
        return _STRATEGY.dump_python(self, mode="json")


_STRATEGY = TypeAdapter(Strategy)


def strategy_from_json(content: bytes, where: str) -> Strategy:
    """The strategy in a JSON document; raises InvalidFileError with the place of the first defect."""
    return _validated(lambda: _STRATEGY.validate_json(content), where)


def strategy_of(values: object, where: str) -> Strategy:
    """The strategy in JSON values; raises InvalidFileError with the place of the first defect."""
    return _validated(lambda: _STRATEGY.validate_python(values), where)


def _validated(validate: Callable[[], Strategy], where: str) -> Strategy:
    try:
        return validate()
    except ValidationError as error:
        raise InvalidFileError(f"{where}: strategy: {first_defect(error)}") from None


def strategy_to_text(strategy: Strategy) -> str:
    """The strategy as an indented JSON document."""
    return json.dumps(strategy.to_json(), indent=1) + "\n"


def bare(name: str) -> str:
    """The name of a variable without the number of an output: ``w`` for ``w:0``."""
    head, colon, port = name.rpartition(":")
    return head if colon and port.isdecimal() else name


def part_name(variable: str, number: int) -> str:
    """The name of a part, as AutoDist forms it."""
    return f"{bare(variable)}/part_{number}"


def _words(name: str) -> list[str | int]:
    """The texts and numbers of which a name consists, in turn."""
    return [int(word) if place % 2 else word for place, word in enumerate(re.split(r"(\d+)", name))]


def renamed_nodes(strategy: Strategy, count: int) -> Strategy:
    """The strategy with the names of nodes in devices, ``10.0.0.1`` in ``10.0.0.1:GPU:0``, replaced by those
    of a cluster with so many nodes, ``node0`` and so on, in the order of the names, in which numbers are
    compared by value: ``node10`` follows ``node9``. Raises InvalidOptionError where there are more."""
    nodes = sorted({name.partition(":")[0] for name in strategy.devices()}, key=_words)
    if len(nodes) > count:
        raise InvalidOptionError(
            f"strategy: expected at most the {count} nodes of the cluster, got {len(nodes)}"
        )
    names = {node: f"node{number}" for number, node in enumerate(nodes)}

    def device(name: str) -> str:
        node, colon, rest = name.partition(":")
        return f"{names[node]}{colon}{rest}"

    def moved(one: Synchronizer) -> Synchronizer:
        return replace(one, destination=device(one.destination)) if isinstance(one, Server) else one

    variables = tuple(
        replace(
            variable,
            synchronizer=None if variable.synchronizer is None else moved(variable.synchronizer),
            parts=tuple(replace(part, synchronizer=moved(part.synchronizer)) for part in variable.parts),
        )
        for variable in strategy.variables
    )
    return replace(strategy, variables=variables, replicas=tuple(map(device, strategy.replicas)))
