"""Measuring kernels: each runs as a model of its own at the runtime's full optimisation.

Kernels of images are timed one by one in the runtime's own profile, because the runtime keeps images in a
blocked layout: what converts a blocked tensor for this kernel alone belongs to its price, and what would
convert its result for nobody does not. All others are timed by the clock, less what an empty run costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from optimizer.cost.kernel import LARGE_WEIGHTS, Kernel, can_be_blocked
from optimizer.cost.machine import bytes_of, last_cache_bytes
from optimizer.cost.runtime import (
    Array,
    BoundRun,
    KernelTime,
    LoadedModel,
    Provider,
    RuntimeRefusedError,
    profiled_model,
)
from superopt.errors import UnsupportedError
from superopt.ir.graph import Graph, GraphEditor, Input, NodeId, Value
from superopt.ir.types import ElementType, TensorType
from superopt.onnx_io import build_model
from superopt.ops.activation import Relu
from superopt.ops.pooling import MaxPool

LAUNCH_MICROSECONDS = 1.0
"""What the runtime spends around a kernel."""

_OPSET = 17
_MAX_BYTES = 96 * 2**20
_DISTINCT = 10_007
_MIN_RUNS = 3
_MAX_RUNS = 120
_MAX_COLD_RUNS = 24
_MAX_FAR_RUNS = 8
_EVICTED = 8 * 2**20
"""More than a core keeps of data and of page addresses."""

_RECENT = 512 * 2**10
_BUDGET_MICROSECONDS = 12_000.0
_QUIET = 0.97
"""A run that got this share of the wall time was not interrupted, so that its profile is right."""

_RESOLVED = 50.0
"""Microseconds from which on the whole microseconds of a profile are fine enough."""

_REORDER_OUTPUT = "ReorderOutput"

_DTYPES = {
    ElementType.FLOAT: np.float32,
    ElementType.DOUBLE: np.float64,
    ElementType.FLOAT16: np.float16,
    ElementType.INT8: np.int8,
    ElementType.INT16: np.int16,
    ElementType.INT32: np.int32,
    ElementType.INT64: np.int64,
    ElementType.UINT8: np.uint8,
    ElementType.BOOL: np.bool_,
}


@dataclass(frozen=True, slots=True)
class Measurement:
    """Microseconds of a kernel, and whether its result comes out in the runtime's layout for images."""

    microseconds: float
    blocked: bool = False


class Measurer:
    """Measures kernels on a device of this machine, the processor with a number of threads."""

    def __init__(self, threads: int, provider: Provider = Provider.CPU) -> None:
        self._threads = threads
        self._provider = provider

    def is_measurable(self, kernel: Kernel) -> bool:
        """Whether the kernel can be built as a model of reasonable size with numbers in it."""
        if kernel.opaque and kernel.origin is None:
            return False
        types = [*(source.type for source in kernel.sources), *kernel.output_types]
        return all(t.element in _DTYPES for t in types) and sum(map(bytes_of, types)) <= _MAX_BYTES

    def measure(self, kernel: Kernel) -> Measurement | None:
        """The price of a measurable kernel; None when the runtime does not run it."""
        try:
            if self._provider is Provider.CPU and _concerns_images(kernel):
                return self._profiled(kernel)
            return Measurement(self._clocked(kernel))
        except (RuntimeRefusedError, UnsupportedError):
            return None

    @cached_property
    def empty_run(self) -> float:
        """Microseconds of a run that computes next to nothing."""
        editor = Graph.empty().edit()
        source = editor.add(Input("x0", TensorType(ElementType.FLOAT, (1,))))
        editor.set_outputs(editor.add(Relu(), (source.value,)).values)
        model = self._loaded(build_model(editor.build(), {}))
        run = model.bind({"x0": np.ones(1, np.float32)})
        return min(run.microseconds() for _ in range(200))

    def _loaded(self, model: bytes) -> LoadedModel:
        return LoadedModel(model, self._threads, provider=self._provider)

    def _clocked(self, kernel: Kernel) -> float:
        graph = kernel.to_graph()
        model = self._loaded(kernel_model(kernel, graph))
        feeds = _feeds(graph)
        best = _fastest(_timed(model.bind(feeds), _Caches(kernel, feeds)))
        return max(best - self.empty_run, 0.0) + LAUNCH_MICROSECONDS

    def _profiled(self, kernel: Kernel) -> Measurement:
        graph, pools = _with_blocked_inputs(kernel)
        feeds = _feeds(graph)
        with profiled_model(kernel_model(kernel, graph), self._threads) as model:
            timed = _timed(model.bind(feeds), _Caches(kernel, feeds))
            runs = model.end_profile()
        if not all(runs):
            return Measurement(LAUNCH_MICROSECONDS)
        own = [_own_kernels(run, pools) for run in runs]
        quiet = [
            sum(kernel.microseconds for kernel in kernels)
            for kernels, (_, share) in zip(own[1:], timed[1:], strict=True)
            if share >= _QUIET
        ]
        if len(quiet) >= _MIN_RUNS:
            best = min(quiet) if min(quiet) > _RESOLVED else _lower_mean(quiet)
        else:
            best = _fastest(timed) - self.empty_run - _foreign(runs, own)
        launches = len(own[0]) * LAUNCH_MICROSECONDS
        return Measurement(max(best, 0.0) + launches, runs[-1][-1].operator == _REORDER_OUTPUT)


def _foreign(runs: Sequence[Sequence[KernelTime]], own: Sequence[Sequence[KernelTime]]) -> float:
    """What the kernels of a run that do not belong to the price take."""
    totals = [
        sum(kernel.microseconds for kernel in run) - sum(kernel.microseconds for kernel in kernels)
        for run, kernels in zip(runs, own, strict=True)
    ]
    return min(totals)


def _fastest(timed: Sequence[tuple[float, float]]) -> float:
    """The time of a run that nothing disturbed: nearly the smallest, as a clock may once be wrong."""
    times = sorted(microseconds for microseconds, _ in timed)
    return times[len(times) // 16]


def _timed(run: BoundRun, caches: _Caches) -> list[tuple[float, float]]:
    """Many runs, fewer of a slow model: microseconds, and the share of wall time that they are."""

    def once() -> tuple[float, float]:
        caches.prepare()
        return run.microseconds_and_share()

    times = [once() for _ in range(2)]
    usual = max(min(times)[0], 1.0)
    count = int(min(caches.most_runs, max(_MIN_RUNS, _BUDGET_MICROSECONDS / usual)))
    return times + [once() for _ in range(count)]


class _Caches:
    """Puts the caches into the state that a kernel finds in the middle of a model: what it computes with was
    just made, its weights were last read when the model last ran."""

    def __init__(self, kernel: Kernel, feeds: Mapping[str, Array]) -> None:
        self._evicted: Array | None = None
        self.most_runs = _MAX_RUNS
        if kernel.far:
            self._evicted, self.most_runs = _scratch(2 * last_cache_bytes()), _MAX_FAR_RUNS
        elif kernel.weight_bytes >= LARGE_WEIGHTS:
            self._evicted, self.most_runs = _scratch(_EVICTED), _MAX_COLD_RUNS
        self._recent = [array for array in feeds.values() if 0 < array.nbytes <= _RECENT]

    def prepare(self) -> None:
        """Evicts the weights of a kernel that has many: from the core's own cache, or from all of them."""
        if self._evicted is not None:
            self._evicted.max()
            for array in self._recent:
                array.max()


@cache
def _scratch(size: int) -> Array:
    return np.arange(size // 8)


def _lower_mean(values: Sequence[float]) -> float:
    """The mean of the lower half: whole microseconds of short kernels average out, outliers do not count."""
    lower = sorted(values)[: max(1, len(values) // 2)]
    return sum(lower) / len(lower)


def _concerns_images(kernel: Kernel) -> bool:
    types = (*(s.type for s in kernel.sources if not s.is_weight), *kernel.output_types)
    return any(can_be_blocked(type_) for type_ in types)


def _with_blocked_inputs(kernel: Kernel) -> tuple[Graph, int]:
    """The kernel's graph; before each blocked source stands a pooling that changes nothing but the layout."""
    graph = kernel.to_graph()
    blocked = [i for i, source in enumerate(kernel.sources) if source.blocked and not source.is_weight]
    editor = graph.edit()
    for index in blocked:
        _insert_pool(editor, graph, NodeId(index))
    return editor.build(), len(blocked)


def _insert_pool(editor: GraphEditor, graph: Graph, source: NodeId) -> None:
    pool = editor.add(MaxPool(kernel=(1, 1)), (Value(source),))
    editor.redirect({Value(source): pool.value}, graph.users(source))


def _own_kernels(run: Sequence[KernelTime], pools: int) -> tuple[KernelTime, ...]:
    """The kernels of a run that belong to the price: without the inserted poolings and what they need, and
    without a last conversion of the result."""
    kept = list(run[:-1] if run[-1].operator == _REORDER_OUTPUT else run)
    for _ in range(pools):
        index = next(i for i, kernel in enumerate(kept) if kernel.operator == "MaxPool")
        del kept[index]
        if index and kept[index - 1].operator == "ReorderInput":
            del kept[index - 1]
    return tuple(kept)


def kernel_model(kernel: Kernel, graph: Graph) -> bytes:
    """A graph of the kernel as a model, of the oldest usual operator set that has all of its operators."""
    weights = {
        f"w{index}": _array(source.type) if source.content is None else _constant(source.type, source.content)
        for index, source in enumerate(kernel.sources)
        if source.is_weight
    }
    if kernel.origin is not None:
        return kernel.origin.model(graph, weights.__getitem__)
    forms = (step.operator.onnx for step in kernel.steps)
    return build_model(graph, weights, max((_OPSET, *(form.since for form in forms if form is not None))))


def _constant(type_: TensorType, content: bytes) -> Array:
    shape = tuple(size if isinstance(size, int) else 1 for size in type_.shape)
    return np.frombuffer(content, _DTYPES[type_.element]).reshape(shape)


def _feeds(graph: Graph) -> dict[str, Array]:
    feeds: dict[str, Array] = {}
    for node in graph:
        if isinstance(node.operator, Input) and isinstance(node.operator.type, TensorType):
            feeds[node.operator.label] = _array(node.operator.type)
    return feeds


def _array(type_: TensorType) -> Array:
    """Positive numbers of order one: neither denormal nor infinite after any operator."""
    shape = tuple(size if isinstance(size, int) else 1 for size in type_.shape)
    dtype = _DTYPES[type_.element]
    if not type_.element.is_float:
        return np.ones(shape, dtype)
    some = np.random.default_rng(0).uniform(0.05, 1.0, _DISTINCT).astype(dtype)
    return np.resize(some, shape)
