"""Cost of one task on one kind of device: from its estimator or cost profile if it has one, else from its
roofline."""

from __future__ import annotations

from dataclasses import dataclass, field

from superopt.ir.graph import GraphOperator
from superopt.ir.types import TensorType
from superopt.ops.base import Operator
from superopt.ops.opaque import Opaque
from superopt.ops.traits import ALIASES
from superopt.optimizer.cost.kernels.kernel import Kernel, KernelStep, Source
from superopt.optimizer.cost.kernels.spelling import respelled
from superopt.optimizer.cost.latency import Recorded
from superopt.optimizer.cost.machine import bytes_of, number_of
from superopt.optimizer.cost.objective import rounded
from superopt.optimizer.cost.store import MemoryCostStore
from superopt.optimizer.parallel.tasks import KernelTask, Task
from superopt.optimizer.parallel.topology import DeviceKind

_HALF_BYTES = 2
_MICRO = 1e6

Types = tuple[TensorType, ...]


@dataclass
class TaskCosts:
    """Microseconds of tasks, cached by operator, types and kind of device."""

    _known: dict[tuple[GraphOperator, Types, Types, DeviceKind, tuple[int, ...]], float] = field(
        default_factory=dict[tuple[GraphOperator, Types, Types, DeviceKind, tuple[int, ...]], float]
    )
    _recorded: dict[DeviceKind, Recorded] = field(default_factory=dict[DeviceKind, Recorded])

    def task_microseconds(
        self,
        operator: GraphOperator,
        inputs: Types,
        outputs: Types,
        kind: DeviceKind,
        weights: tuple[int, ...] = (),
    ) -> float:
        """The cost of the operator on parts of those types; ``weights`` are the slots that are constant.
        Sizes must be concrete. A multiple of 1/1024, so that sums do not depend on their order."""
        key = (operator, inputs, outputs, kind, weights)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = rounded(self._priced(operator, inputs, outputs, kind, weights))
        return found

    def _priced(
        self,
        operator: GraphOperator,
        inputs: Types,
        outputs: Types,
        kind: DeviceKind,
        weights: tuple[int, ...],
    ) -> float:
        if operator.name in ALIASES:
            return 0.0
        if isinstance(operator, Opaque) or not isinstance(operator, Operator):
            return roofline_microseconds(operator, inputs, outputs, kind, weights)
        if kind.estimator is not None:
            return kind.estimator.microseconds(KernelTask.of(Task(operator.task(outputs), inputs, outputs)))
        if kind.profile is not None:
            recorded = self._recorded.get(kind)
            if recorded is None:
                profile = kind.profile
                recorded = self._recorded[kind] = Recorded(MemoryCostStore(profile.costs()), profile.prefix)
            return recorded.price(_kernel(operator, inputs, outputs, weights)).cost
        return roofline_microseconds(operator, inputs, outputs, kind, weights)


def roofline_microseconds(
    operator: GraphOperator, inputs: Types, outputs: Types, kind: DeviceKind, weights: tuple[int, ...]
) -> float:
    """Kernel launch plus the larger of compute time and data movement time. An opaque operator is assumed to
    read as many bytes of its weights as it writes, as a look-up does."""
    if isinstance(operator, Opaque) or not isinstance(operator, Operator):
        flops = sum(number_of(type_.elements) for type_ in outputs)
        computed = [type_ for slot, type_ in enumerate(inputs) if slot not in weights]
        moved = sum(bytes_of(type_) for type_ in (*computed, *outputs))
    else:
        work = operator.work(inputs, outputs)
        flops, moved = number_of(work.flops), number_of(work.bytes)
    is_half = all(t.element.is_float and t.element.bytes_per_element <= _HALF_BYTES for t in outputs)
    rate = kind.half_flops if is_half else kind.flops
    return kind.launch + _MICRO * max(flops / rate, moved / kind.memory_bandwidth)


def _kernel(operator: Operator, inputs: Types, outputs: Types, weights: tuple[int, ...]) -> Kernel:
    task = respelled(operator.task(outputs), inputs)
    operands = tuple((-1 - slot, 0) for slot in range(len(inputs)))
    return Kernel(
        tuple(Source(type_, slot in weights) for slot, type_ in enumerate(inputs)),
        (KernelStep(task, operands, outputs),),
        tuple((0, port) for port in range(len(outputs))),
    )
