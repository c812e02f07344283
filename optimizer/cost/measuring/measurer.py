"""Measure kernels: each is run as its own model at the runtime's full optimisation level.

Kernels that the runtime executes in the same form are measured once, so that their prices are equal.

A short kernel is replicated many times in one model, so that its price includes the runtime's overhead per
kernel but not its overhead per run. The runtime keeps images in a blocked layout; for kernels on images its
profile is used: converting an input for this kernel counts towards its price, converting its result does not.
Within a model the runtime's threads stay awake from kernel to kernel, so they do between runs of a kernel.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from superopt.errors import UnsupportedError
from superopt.ir.types import TensorType
from superopt.onnx_io.changes.copies import (
    BLOCKED,
    SPREAD_CHANNELS,
    TICK,
    copy_name,
    side_by_side,
    with_blocked_inputs,
)
from superopt.ops.shape import Reshape
from superopt.optimizer.cost.kernels.kernel import Kernel, KernelStep, Source, can_be_blocked
from superopt.optimizer.cost.machine import Residence, bytes_of
from superopt.optimizer.cost.measuring.kernel_model import can_be_built, input_of, kernel_model
from superopt.optimizer.cost.measuring.timing import Caches, fastest, timed, timed_if_long
from superopt.optimizer.cost.runtime.executed_kernels import load_and_list
from superopt.optimizer.cost.runtime.session import (
    Array,
    KernelTime,
    LoadedModel,
    Provider,
    RuntimeRefusedError,
    profiled_model,
)

LAUNCH_MICROSECONDS = 0.5
"""The runtime's overhead per kernel."""

LEAST_MICROSECONDS = 1 / 64
"""Price of kernels that the runtime eliminates."""

_LONG = 400.0
"""Microseconds above which the cost of a run, and profiling overhead, are negligible."""

_BUDGET_OF_LONG = 12_000.0
_BUDGET_OF_COPIES = 4_000.0
_FULL_RUN = 150.0
"""Target microseconds of a run of replicated kernels."""

_MOST_COPIES = 24
_MOST_COPIED_BYTES = 16 * 2**20
_OWN_WEIGHT = 2**10
"""Bytes above which a weight is not shared by the copies of a memory-bound kernel."""

_ALONE_BYTES = 32 * 2**20
"""Size of a kernel's model above which no copies are run, and the runtime is not asked what it executes: both
need several times as much memory."""

_WITHOUT = ("CommonSubexpressionElimination",)
"""Runtime optimisers that would merge the copies."""

_QUIET = 0.97
"""A run with this share of the wall time was not interrupted, so its profile is valid."""

_MIN_QUIET = 3
_REORDER_OUTPUT = "ReorderOutput"


@dataclass(frozen=True, slots=True)
class Measurement:
    """Microseconds of a kernel; whether its result is in the runtime's layout for images; and how many of the
    microseconds convert its inputs out of that layout. ``form``: a digest of what the runtime executes for
    it, "" if that is not known."""

    microseconds: float
    blocked: bool = False
    restoring: float = 0.0
    form: str = ""


@dataclass(frozen=True, slots=True)
class _Alone:
    """Results of running a single copy of a kernel. ``restored``: the number of tensors converted out of the
    runtime's layout, except its result."""

    microseconds: float
    blocked: bool = False
    restored: int = 0


class Measurer:
    """Measures kernels on a device of this machine: the CPU with a number of threads, or an accelerator."""

    def __init__(self, threads: int, provider: Provider = Provider.CPU) -> None:
        self._threads = threads
        self._provider = provider
        self._bases: dict[tuple[Residence, tuple[TensorType, ...]], float] = {}
        self._restoring: dict[TensorType, float] = {}

    def is_measurable(self, kernel: Kernel) -> bool:
        """Whether the kernel can be built as a model of reasonable size with concrete shapes."""
        return can_be_built(kernel)

    def measure(
        self, kernel: Kernel, known: Callable[[str], Measurement | None] | None = None
    ) -> Measurement | None:
        """The price of a measurable kernel: that of its form if it is ``known``. None when the runtime
        rejects it."""
        try:
            model = kernel_model(kernel)
            is_image = self._provider is Provider.CPU and _concerns_images(kernel)
            with self._opened(kernel, model, is_image=is_image) as (loaded, form):
                found = known(form) if known is not None and form else None
                if found is not None:
                    return found
                alone = (self._profiled if is_image else self._clocked)(kernel, model, loaded)
            if alone.microseconds >= _LONG or _is_large(model):
                return Measurement(max(alone.microseconds, LEAST_MICROSECONDS), alone.blocked, form=form)
            return dataclasses.replace(self._in_copies(kernel, model, alone), form=form)
        except (RuntimeRefusedError, UnsupportedError):
            return None

    @contextmanager
    def _opened(self, kernel: Kernel, model: bytes, *, is_image: bool) -> Generator[tuple[LoadedModel, str]]:
        """The kernel's model, profiled if it is about images, with the form in which it is executed; empty
        for a large kernel."""
        with tempfile.TemporaryDirectory(prefix="superopt-kernel-") as name:
            directory = Path(name)
            profile = directory / "run" if is_image else None
            if is_image:
                model = with_blocked_inputs(model, _blocked_inputs(kernel))
            without = _WITHOUT if is_image else ()
            if _is_large(model):
                yield LoadedModel(model, self._threads, profile, self._provider, without, spins=True), ""
                return
            loaded, executes = load_and_list(
                model, self._threads, self._provider, directory, profile, without, spins=True
            )
            yield loaded, "" if executes is None else f"{executes.digest[:32]}/{kernel.residence.value}"

    def _clocked(self, kernel: Kernel, model: bytes, loaded: LoadedModel) -> _Alone:
        """Wall-clock time of the kernel; approximate unless it is long or large."""
        feeds = _feeds(kernel, ())
        run, caches = loaded.bind(feeds), Caches(kernel, feeds)
        empty = self._base(kernel, model, ())
        return _Alone(fastest(timed_if_long(run, caches, _long(model, empty), _BUDGET_OF_LONG)) - empty)

    def _profiled(self, kernel: Kernel, model: bytes, loaded: LoadedModel) -> _Alone:
        """Profiled time of the kernel; approximate unless it is long or large."""
        blocked = _blocked_inputs(kernel)
        feeds = _feeds(kernel, blocked)
        empty = self._base(kernel, model, ())
        run, caches = loaded.bind(feeds), Caches(kernel, feeds)
        times = timed_if_long(run, caches, _long(model, empty), _BUDGET_OF_LONG)
        runs = loaded.end_profile()[-len(times) :]
        seen = [_without_makers(run) for run in runs]
        if not all(seen):
            return _Alone(0.0)
        is_blocked = seen[-1][-1].operator == _REORDER_OUTPUT
        own = [run[:-1] for run in seen] if is_blocked else seen
        quiet = [_total(run) for run, time in zip(own[1:], times[1:], strict=True) if time.share >= _QUIET]
        foreign = min(_total(run) - _total(mine) for run, mine in zip(runs, own, strict=True))
        restored = sum(kernel.operator == _REORDER_OUTPUT for kernel in own[0])
        return _Alone(
            min(quiet) if len(quiet) >= _MIN_QUIET else fastest(times) - empty - foreign,
            is_blocked,
            restored if blocked else 0,
        )

    def _in_copies(self, kernel: Kernel, model: bytes, alone: _Alone) -> Measurement:
        """The price of one of many copies. Their shared inputs are converted only once."""
        blocked = _blocked_inputs(kernel)
        own = _own_weights(kernel)
        size = sum(bytes_of(kernel.sources[index].type) for index in own)
        count = int(
            min(_MOST_COPIES, _FULL_RUN / max(alone.microseconds, 1.0), _MOST_COPIED_BYTES / max(size, 1))
        )
        count = max(count, 1)
        shares_inputs = not _concerns_images(kernel)
        shared = {
            name
            for index, (name, source) in enumerate(kernel.named_sources.items())
            if (index not in own if source.is_weight else shares_inputs)
        }
        copies = side_by_side(model, count, shared=shared, blocked=blocked)
        feeds = _feeds_of_copies(kernel, count, shared, blocked)
        restored = self._restored(copies, feeds, alone, count) if alone.restored else 0
        restoring = restored * sum(map(self._conversion, _types(kernel, blocked))) / max(len(blocked), 1)
        best = self._fastest(kernel, copies, feeds) - self._base(kernel, model, blocked)
        one = max((best - restoring) / count, LEAST_MICROSECONDS)
        return Measurement(one + restoring, alone.blocked, restoring)

    def _fastest(self, kernel: Kernel, model: bytes, feeds: Mapping[str, Array]) -> float:
        loaded = LoadedModel(model, self._threads, provider=self._provider, without=_WITHOUT, spins=True)
        return fastest(timed(loaded.bind(feeds), Caches(kernel, feeds), _BUDGET_OF_COPIES))

    def _restored(self, copies: bytes, feeds: Mapping[str, Array], alone: _Alone, count: int) -> int:
        """The number of blocked inputs of a kernel that are converted; once where copies share them."""
        if count == 1:
            return alone.restored
        with profiled_model(copies, self._threads, without=_WITHOUT) as loaded:
            loaded.bind(feeds).microseconds()
            (run,) = loaded.end_profile()
        seen = sum(kernel.operator == _REORDER_OUTPUT for kernel in run)
        return round((count * alone.restored - seen) / (count - 1))

    def _base(self, kernel: Kernel, model: bytes, blocked: Sequence[str]) -> float:
        """Microseconds of a run without any copy, from the same cache state."""
        types = _types(kernel, blocked)
        base = self._base_of(kernel, model, blocked, types)
        if types and kernel.residence is not Residence.CORE:
            base += self._base_of(kernel, model, (), ())
            base -= self._base_of(dataclasses.replace(kernel, residence=Residence.CORE), model, (), ())
        return base

    def _base_of(
        self, kernel: Kernel, model: bytes, blocked: Sequence[str], types: tuple[TensorType, ...]
    ) -> float:
        residence = Residence.CORE if types else kernel.residence
        if (residence, types) not in self._bases:
            feeds = _feeds_of_copies(kernel, 0, (), blocked)
            empty = side_by_side(model, 0, blocked=blocked)
            resident = dataclasses.replace(kernel, residence=residence)
            self._bases[residence, types] = self._fastest(resident, empty, feeds)
        return self._bases[residence, types]

    def _conversion(self, type_: TensorType) -> float:
        """Microseconds to convert an image out of the runtime's layout."""
        if type_ not in self._restoring:
            flat = type_.with_shape((type_.elements,))
            step = KernelStep(Reshape(flat.shape), ((-1, 0),), (flat,))
            kernel = Kernel((Source(type_, blocked=True),), (step,), ((0, 0),))
            model = kernel_model(kernel)
            blocked = tuple(kernel.named_sources)
            one = side_by_side(model, 1, blocked=blocked)
            taken = self._fastest(kernel, one, _feeds_of_copies(kernel, 1, (), blocked))
            taken -= self._base(kernel, model, blocked) + LAUNCH_MICROSECONDS
            self._restoring[type_] = max(taken, 0.0)
        return self._restoring[type_]


def _long(model: bytes, empty: float) -> float:
    """The microseconds of a run from which on the kernel is timed alone."""
    return 0.0 if _is_large(model) else _LONG + empty


def _is_large(model: bytes) -> bool:
    """Whether copies of the kernel would fill the memory."""
    return len(model) > _ALONE_BYTES


def _total(run: Sequence[KernelTime]) -> float:
    return sum(kernel.microseconds for kernel in run)


def _without_makers(run: Sequence[KernelTime]) -> tuple[KernelTime, ...]:
    """The profiled kernels without those that produce blocked inputs."""
    return tuple(kernel for kernel in run if not kernel.name.startswith(BLOCKED))


def _concerns_images(kernel: Kernel) -> bool:
    types = (*(s.type for s in kernel.sources if not s.is_weight), *kernel.output_types)
    return any(can_be_blocked(type_) for type_ in types)


def _blocked_inputs(kernel: Kernel) -> tuple[str, ...]:
    return tuple(
        name for name, source in kernel.named_sources.items() if source.blocked and not source.is_weight
    )


def _types(kernel: Kernel, inputs: Sequence[str]) -> tuple[TensorType, ...]:
    sources = kernel.named_sources
    return tuple(sources[name].type for name in inputs)


def _own_weights(kernel: Kernel) -> frozenset[int]:
    """The weights that are duplicated for each copy because it must read them from memory."""
    if kernel.residence is Residence.CORE:
        return frozenset()
    return frozenset(
        index
        for index, source in enumerate(kernel.sources)
        if source.is_weight and source.content is None and bytes_of(source.type) >= _OWN_WEIGHT
    )


def _feeds(kernel: Kernel, blocked: Sequence[str]) -> dict[str, Array]:
    feeds: dict[str, Array] = {}
    for index, (name, source) in enumerate(kernel.named_sources.items()):
        if not source.is_weight:
            array = input_of(kernel, index)
            feeds[name] = _made_from(array) if name in blocked else array
    return feeds


def _made_from(array: Array) -> Array:
    """The input from which a blocked tensor like the array is made."""
    samples, _, *sizes = array.shape
    return np.resize(array, (samples, SPREAD_CHANNELS, *sizes))


def _feeds_of_copies(
    kernel: Kernel, count: int, shared: Sequence[str] | set[str], blocked: Sequence[str]
) -> dict[str, Array]:
    found: dict[str, Array] = {TICK: np.ones(1, np.float32)}
    for name, array in _feeds(kernel, blocked).items():
        common = name in shared or name in blocked
        found.update((n, array) for n in ([name] if common else [copy_name(name, c) for c in range(count)]))
    return found


__all__ = ["LAUNCH_MICROSECONDS", "LEAST_MICROSECONDS", "Measurement", "Measurer"]
