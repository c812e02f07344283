"""JAX devices: shards are JAX arrays, sums use JAX collectives.

Without an accelerator, JAX simulates N devices on the CPU if the environment variable
``XLA_FLAGS=--xla_force_host_platform_device_count=N`` is set before JAX is first imported.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# JAX's own annotations leave much open.

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from superopt.domains import Array
from superopt.errors import MissingServiceError
from superopt.onnx_io.files.source import SourceModel
from superopt.ops import Opaque, Operator
from superopt.optimizer.parallel.boxes import Region
from superopt.optimizer.parallel.execution.host import HostMachine
from superopt.optimizer.parallel.execution.jax_domain import JaxDomain
from superopt.optimizer.parallel.tasks import KernelTask, Task

VIRTUAL_DEVICES = "--xla_force_host_platform_device_count"
"""The flag of XLA that sets the number of devices on the CPU."""


def load_jax() -> Any:
    """The module; raises MissingServiceError where it is not installed."""
    try:
        import jax
    except ImportError as error:
        raise MissingServiceError(f"JAX is not installed ({error}); install the extra [jax]") from None
    return jax


class JaxMachine:
    """The devices visible to JAX. Opaque nodes run in ONNX Runtime; a kernel of several operators is one
    ``jit``, and ``compiled`` are those. Raises MissingServiceError when JAX is
    not installed or sees too few devices."""

    def __init__(self, devices: int, source: SourceModel | None = None) -> None:
        self._jax: Any = load_jax()
        self._devices = self._jax.devices()
        if len(self._devices) < devices:
            raise MissingServiceError(
                f"the plan needs {devices} devices, and JAX sees {len(self._devices)}; for virtual ones set "
                f"XLA_FLAGS={VIRTUAL_DEVICES}={devices}"
            )
        self._numpy = self._jax.numpy
        self._domain = JaxDomain(self._jax)
        self._host = HostMachine(source)
        self.compiled: dict[KernelTask, Any] = {}

    def put(self, array: Array, device: int) -> Any:
        """The array on that device."""
        return self._jax.device_put(array, self._devices[device])

    def get(self, shard: Any) -> Array:
        """The shard as a numpy array."""
        return np.asarray(shard)

    def zeros(self, shape: tuple[int, ...], like: Any, device: int) -> Any:
        """Zeros on that device."""
        return self._jax.device_put(self._numpy.zeros(shape, like.dtype), self._devices[device])

    def move(self, shard: Any, device: int) -> Any:
        """Copies between devices."""
        return self._jax.device_put(shard, self._devices[device])

    def add(self, left: Any, right: Any) -> Any:
        """Sum."""
        return left + right

    def part(self, shard: Any, region: Region) -> Any:
        """A box of the shard."""
        return shard[tuple(slice(start, stop) for start, stop in region)]

    def joined(self, pieces: Sequence[tuple[Region, Any]], shape: tuple[int, ...]) -> Any:
        """The boxes side by side."""
        device = next(iter(pieces[0][1].devices()))
        whole = self._jax.device_put(self._numpy.zeros(shape, pieces[0][1].dtype), device)
        for region, piece in pieces:
            whole = whole.at[tuple(slice(start, stop) for start, stop in region)].set(piece)
        return whole

    def copied(self, shard: Any) -> Any:
        """A copy."""
        return self._numpy.array(shard)

    def storage(self, shard: Any) -> tuple[int, int]:
        """The shard itself: JAX has no views."""
        return id(shard), shard.nbytes

    def all_reduced(self, shards: Sequence[Any]) -> Sequence[Any]:
        """``jax.lax.psum`` over the devices of the shards."""
        devices = [next(iter(shard.devices())) for shard in shards]
        mesh = self._jax.sharding.Mesh(np.array(devices), ("term",))
        spec = self._jax.sharding.PartitionSpec("term")
        terms = self._jax.make_array_from_single_device_arrays(
            (len(shards), *shards[0].shape),
            self._jax.sharding.NamedSharding(mesh, spec),
            [shard[None] for shard in shards],
        )

        def summed(term: Any) -> Any:
            return self._jax.lax.psum(term, "term")

        mapped = self._jax.shard_map(summed, mesh=mesh, in_specs=spec, out_specs=spec)
        placed = {part.device: part.data[0] for part in self._jax.jit(mapped)(terms).addressable_shards}
        return [placed[device] for device in devices]

    def packed(self, shards: Sequence[Any]) -> Any:
        """The elements one after the other."""
        return self._numpy.concatenate([shard.ravel() for shard in shards])

    def unpacked(self, flat: Any, shapes: Sequence[tuple[int, ...]]) -> Sequence[Any]:
        """Arrays of those shapes."""
        ends = np.cumsum([math.prod(shape) for shape in shapes])
        pieces = self._numpy.split(flat, ends[:-1].tolist())
        return [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]

    def run_kernel(self, kernel: KernelTask, shards: Sequence[Any], device: int) -> Sequence[Any]:
        """Runs the tasks as one compiled function."""
        compiled = self.compiled.get(kernel)
        if compiled is None:

            def evaluated(*given: Any) -> list[Any]:
                return kernel.evaluated(self._values, given)

            compiled = self.compiled[kernel] = self._jax.jit(evaluated)
        with self._jax.default_device(self._devices[device]):
            return compiled(*shards)

    def run(self, task: Task, shards: Sequence[Any], device: int) -> Sequence[Any]:
        """Evaluates the operator on the device."""
        if isinstance(task.operator, Opaque) or not isinstance(task.operator, Operator):
            results = self._host.run(task, [self.get(shard) for shard in shards], device)
            return [self.put(result, device) for result in results]
        with self._jax.default_device(self._devices[device]):
            return self._values(task, shards)

    def _values(self, task: Task, shards: Sequence[Any]) -> Sequence[Any]:
        assert isinstance(task.operator, Operator), "opaque nodes run in ONNX Runtime"
        results = task.operator.evaluate(self._domain, *(shard[None] for shard in shards))
        return [
            self._numpy.broadcast_to(
                result[0], tuple(int(size) for size in type_.shape if isinstance(size, int))
            ).astype(np.float32 if type_.element.is_float else result.dtype)
            for result, type_ in zip(results, task.outputs, strict=True)
        ]
