"""Plans of a training step that differ in where states are updated: ZeRO's stages and parameter servers.

Samples are divided, as in data parallelism (``ddp``). ``zero1`` (Rajbhandari et al. 2020, ZeRO) reduces
gradients on all devices, each of which updates its part of every parameter and holds that part of the
moments; ``zero2`` reduces each part of a gradient only on the device that updates it; ``zero3`` divides as
``zero2`` and keeps parameters in these parts (``resident_states``). ``ps`` updates every
parameter on one device, its server (Li et al. 2014), the largest first, each on the server with the fewest
bytes. But for ``zero3`` the next parameters are sent to all devices, because all read them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from superopt.ir.graph import NodeId
from superopt.ir.types import TensorType
from superopt.optimizer.parallel.search.choices import ALONE, COPIED, Choice, Licence
from superopt.optimizer.parallel.search.mesh import Mesh
from superopt.optimizer.parallel.search.subject import Subject
from superopt.optimizer.parallel.tasks import shape_of
from superopt.optimizer.parallel.training_plans.derived import SampleDivision
from superopt.optimizer.parallel.training_plans.states import StateTensor, StepStates
from superopt.traversal import postorder

DDP, ZERO_1, ZERO_2, ZERO_3, SERVERS = "ddp", "zero1", "zero2", "zero3", "ps"
BY_SAMPLES = (DDP, ZERO_1, ZERO_2, ZERO_3, SERVERS)
"""The plans that divide nothing but samples and states."""

FSDP = "fsdp"
"""Another name of ZeRO's third stage: fully sharded data parallelism."""


@dataclass(frozen=True)
class Sharding:
    """Choices of a plan, and the device of operations that run on one device, by number."""

    name: str
    choices: tuple[Choice, ...]
    shares: Mapping[int, int]


@dataclass(frozen=True)
class ShardedStates:
    """The plans of one step on one machine. ``whole`` are operations that all devices run alike, though they
    could compute terms of gradients."""

    subject: Subject
    step: StepStates
    mesh: Mesh
    licence: Licence
    whole: frozenset[NodeId] = frozenset()

    def plans(self) -> Iterator[Sharding]:
        """Data parallelism first; the others where there is more than one device."""
        yield Sharding(DDP, tuple(self.replicated), {})
        if len(self.mesh.devices) > 1:
            for name, updates in ((ZERO_1, self._after_reduction), (ZERO_2, self.updates)):
                yield Sharding(name, tuple(self._divided(updates).choices()), {})
            yield self._served()

    @cached_property
    def replicated(self) -> list[Choice]:
        """Data parallelism."""
        return self._divided({}).choices()

    def _divided(self, updates: Mapping[NodeId, StateTensor]) -> SampleDivision:
        parts: dict[NodeId, int] = {}
        for node, parameter in updates.items():
            axis = self._axis(parameter)
            if axis is not None:
                parts[node] = axis
        return SampleDivision(self.subject, self.mesh, self.licence, self._axes, parts, self.whole)

    @cached_property
    def _axes(self) -> tuple[int, ...]:
        return self.sample_axes(range(len(self.mesh.sizes)))

    @property
    def repeats(self) -> int:
        """How many devices compute each sample: more than one where samples do not divide among all."""
        return len(self.mesh.devices) // self.mesh.parts(self._axes)

    def sample_axes(self, axes: Sequence[int]) -> tuple[int, ...]:
        """As many of some axes of the machine as divide the number of samples; others repeat the work."""
        batches = [self._sizes(node)[0] for node in self.step.data if self._sizes(node)]
        found: tuple[int, ...] = ()
        for axis in axes:
            count = self.mesh.parts((*found, axis))
            if all(samples % count == 0 for samples in batches):
                found = (*found, axis)
        return found

    def _served(self) -> Sharding:
        loads = [0] * len(self.mesh.devices)
        servers: dict[NodeId, int] = {}
        for parameter in sorted(self.parameters, key=self._elements, reverse=True):
            server = loads.index(min(loads))
            loads[server] += self._elements(parameter)
            servers[parameter.input] = server
        choices = list(self.replicated)
        shares: dict[int, int] = {}
        for node, parameter in self.updates.items():
            number = self.subject.numbers[node]
            choices[number] = (ALONE,) * len(self.mesh.sizes)
            shares[number] = servers[parameter.input]
        return Sharding(SERVERS, tuple(choices), shares)

    @cached_property
    def parameters(self) -> tuple[StateTensor, ...]:
        """The parameters that are no scalars."""
        return tuple(state for state in self.step.states if state.of is None and self._shape(state))

    @cached_property
    def updates(self) -> Mapping[NodeId, StateTensor]:
        """The operations that compute the next values of a parameter and its moments from the reduced
        gradient, element by element, and the parameter. What belongs to all parameters, as the norm of all
        gradients, is none of them."""
        found: dict[NodeId, StateTensor] = {}
        for parameter in self.parameters:
            shape = self._shape(parameter)
            nexts = [
                state.next.node
                for state in self.step.states
                if parameter.name in (state.name, state.of)
                and not state.role.is_sum
                and state.next.node in self.subject.numbers
            ]
            for node in postorder(nexts, partial(self._before, shape=shape)):
                if self.is_of_shape(node, shape):
                    found.setdefault(node, parameter)
        return found

    @cached_property
    def updates_of(self) -> Mapping[str, tuple[NodeId, ...]]:
        """The updates of each parameter that has any."""
        found: dict[str, list[NodeId]] = {}
        for node, parameter in self.updates.items():
            found.setdefault(parameter.name, []).append(node)
        return {name: tuple(nodes) for name, nodes in found.items()}

    @cached_property
    def _after_reduction(self) -> Mapping[NodeId, StateTensor]:
        """Those of the updates that do not read a gradient as it is computed."""
        return {
            node: parameter
            for node, parameter in self.updates.items()
            if all(value.node not in self.computed for value in self.subject.graph[node].inputs)
        }

    @cached_property
    def computed(self) -> frozenset[NodeId]:
        """The operations that are divided by samples, or compute terms of gradients."""
        operations = zip(self.subject.operations, self.replicated, strict=True)
        return frozenset(operation.node for operation, choice in operations if set(choice) != {COPIED})

    def _before(self, node: NodeId, shape: tuple[int, ...]) -> Sequence[NodeId]:
        """The operations that an operation reads, that run on all devices alike and make that shape."""
        return [
            value.node
            for value in self.subject.graph[node].inputs
            if value.node in self.subject.numbers
            and value.node not in self.computed
            and self.is_of_shape(value.node, shape)
        ]

    def is_of_shape(self, node: NodeId, shape: tuple[int, ...]) -> bool:
        """Whether an operation has one result, of that shape."""
        outputs = self.subject.operations[self.subject.numbers[node]].outputs
        return len(outputs) == 1 and shape_of(outputs[0]) == shape

    def _shape(self, state: StateTensor) -> tuple[int, ...]:
        return self._sizes(state.input)

    def _sizes(self, node: NodeId) -> tuple[int, ...]:
        (type_,) = self.subject.graph[node].types
        return shape_of(type_) if isinstance(type_, TensorType) else ()

    def _elements(self, state: StateTensor) -> int:
        return math.prod(self._shape(state))

    def _axis(self, parameter: StateTensor) -> int | None:
        """The first axis that can be divided among the devices that have different samples."""
        count = self.mesh.parts(self._axes)
        axes = (axis for axis, size in enumerate(self._shape(parameter)) if size % count == 0)
        return next(axes, None)
