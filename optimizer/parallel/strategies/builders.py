"""AutoDist's eight strategy builders (petuum/autodist, 2020; described in section 3.1 of the paper).

| builder | variables |
|---|---|
| PS | all on the first server |
| PSLoadBalancing | each on the server with the fewest bytes so far |
| PartitionedPS | along the first axis in as many parts as its smallest divisor, on servers as before |
| UnevenPartitionedPS | the same with the smallest number that is no divisor |
| AllReduce | all-reduces, ``chunk`` variables merged into one |
| PartitionedAR | in parts as PartitionedPS, all-reduced, ``chunk`` parts merged into one |
| RandomAxisPartitionAR | the same along a random axis |
| Parallax | sparse ones as PSLoadBalancing, dense ones as AllReduce (Kim et al. 2018) |

Unlike the published builders, which cut an axis of prime length into single rows, these do not divide a
variable whose axis has no divisor up to ``MOST_PARTS``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from superopt.optimizer.parallel.strategies.model import (
    Collective,
    Server,
    Strategy,
    Synchronizer,
    VariableSync,
)
from superopt.optimizer.parallel.strategies.variables import DeviceNames, ServerLoads, Variable
from superopt.optimizer.parallel.topology import Cluster

CHUNK = 128
"""Variables merged into one all-reduce, by default."""

MOST_PARTS = 64
"""The largest divisor that builders of even parts divide an axis by."""


@dataclass(frozen=True)
class Setting:
    """What builders know: the cluster, the size of chunks, and the seed of random axes."""

    cluster: Cluster
    chunk: int = CHUNK
    seed: int = 0


Build: TypeAlias = Callable[[Sequence[Variable], Setting], Sequence[VariableSync]]


def build(name: str, variables: Sequence[Variable], setting: Setting) -> Strategy:
    """The strategy of that builder, one of ``BUILDERS``."""
    replicas = DeviceNames(setting.cluster).accelerators
    return Strategy(tuple(BUILDERS[name](variables, setting)), replicas, identity=name)


def _loads(setting: Setting) -> ServerLoads:
    return ServerLoads(DeviceNames(setting.cluster).servers)


def _server(loads: ServerLoads, size: float) -> Server:
    """The server of one variable of that size."""
    (found,) = loads.least(size)
    return Server(found)


def _all_on_one(variables: Sequence[Variable], setting: Setting) -> Sequence[VariableSync]:
    server = DeviceNames(setting.cluster).servers[0]
    return [VariableSync(variable.name, Server(server)) for variable in variables]


def _balanced(variables: Sequence[Variable], setting: Setting) -> Sequence[VariableSync]:
    loads = _loads(setting)
    return [VariableSync(one.name, _server(loads, one.bytes)) for one in variables]


def _served_parts(
    variables: Sequence[Variable], setting: Setting, count: Callable[[int], int]
) -> Sequence[VariableSync]:
    loads = _loads(setting)
    found: list[VariableSync] = []
    for variable in variables:
        parts = count(variable.shape[0]) if variable.shape and len(loads.servers) > 1 else 1
        servers = loads.least(variable.bytes, parts)
        found.append(divided(variable, 0, [Server(server) for server in servers]))
    return found


def _even_servers(variables: Sequence[Variable], setting: Setting) -> Sequence[VariableSync]:
    return _served_parts(variables, setting, smallest_divisor)


def _uneven_servers(variables: Sequence[Variable], setting: Setting) -> Sequence[VariableSync]:
    return _served_parts(variables, setting, smallest_non_divisor)


def _merged(variables: Sequence[Variable], setting: Setting) -> Sequence[VariableSync]:
    return [
        VariableSync(variable.name, Collective(number // setting.chunk))
        for number, variable in enumerate(variables)
    ]


def _reduced_parts(
    variables: Sequence[Variable], setting: Setting, axis_of: Callable[[Variable], int]
) -> Sequence[VariableSync]:
    found: list[VariableSync] = []
    first = 0
    for variable in variables:
        axis = axis_of(variable)
        parts = smallest_divisor(variable.shape[axis]) if variable.shape else 1
        groups = range(first, first + parts)
        found.append(divided(variable, axis, [Collective(number // setting.chunk) for number in groups]))
        first += parts
    return found


def _first_axis_reduced(variables: Sequence[Variable], setting: Setting) -> Sequence[VariableSync]:
    return _reduced_parts(variables, setting, lambda _: 0)


def _random_axis_reduced(variables: Sequence[Variable], setting: Setting) -> Sequence[VariableSync]:
    draw = random.Random(setting.seed)

    def axis_of(variable: Variable) -> int:
        axes = [axis for axis, size in enumerate(variable.shape) if size > 1]
        return draw.choice(axes) if axes and not variable.is_sparse else 0

    return _reduced_parts(variables, setting, axis_of)


def _by_sparsity(variables: Sequence[Variable], setting: Setting) -> Sequence[VariableSync]:
    loads = _loads(setting)
    return [
        VariableSync(
            variable.name,
            _server(loads, variable.bytes) if variable.is_sparse else Collective(number // setting.chunk),
        )
        for number, variable in enumerate(variables)
    ]


BUILDERS: Mapping[str, Build] = MappingProxyType(
    {
        "PS": _all_on_one,
        "PSLoadBalancing": _balanced,
        "PartitionedPS": _even_servers,
        "UnevenPartitionedPS": _uneven_servers,
        "AllReduce": _merged,
        "PartitionedAR": _first_axis_reduced,
        "RandomAxisPartitionAR": _random_axis_reduced,
        "Parallax": _by_sparsity,
    }
)
"""The builders by name."""


def divided(variable: Variable, axis: int, synchronizers: Sequence[Synchronizer]) -> VariableSync:
    """A variable in as many parts along the axis as there are synchronisers; whole with one."""
    parts = len(synchronizers)
    degrees = tuple(parts if own == axis else 1 for own in range(len(variable.shape)))
    return VariableSync.divided(variable.name, degrees, synchronizers)


def smallest_divisor(size: int) -> int:
    """The smallest divisor from 2 on, the number itself if it is prime; 1 above ``MOST_PARTS``."""
    return next((n for n in range(2, min(size, MOST_PARTS) + 1) if size % n == 0), 1)


def smallest_non_divisor(size: int) -> int:
    """The smallest number from 2 on that does not divide it; the number itself if it is below 3."""
    return next((n for n in range(2, size) if size % n), size)
