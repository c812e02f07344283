"""The clients of ``benchmarks.jobs.load``: each submits, follows and downloads one model after the other."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from superopt.client import AsyncClient
from superopt.errors import SuperoptError

_JOB = {"budget": 5, "max_candidates": 4}


async def run(address: str, count: int, seconds: float) -> None:
    """Says the id of a first optimization on a line, and at the end what was done as JSON."""
    with tempfile.TemporaryDirectory(prefix="superopt-clients-") as name:
        model = Path(name) / "net.onnx"
        model.write_bytes(small_model())
        tally: Counter[str] = Counter()
        errors: Counter[str] = Counter()
        async with AsyncClient(address) as client:
            first = await client.submit(model, options={**_JOB, "seed": count})
            sys.stdout.write(f"{first.id}\n")
            sys.stdout.flush()
            deadline = time.monotonic() + seconds
            tasks = [
                _client(client, model, number, count, deadline, tally, errors) for number in range(count)
            ]
            await asyncio.gather(*tasks)
    sys.stdout.write(json.dumps({**tally, "errors": errors}) + "\n")


async def _client(
    client: AsyncClient,
    model: Path,
    number: int,
    count: int,
    deadline: float,
    tally: Counter[str],
    errors: Counter[str],
) -> None:
    seed = number
    while time.monotonic() < deadline:
        seed += count + 1
        try:
            async with asyncio.timeout_at(asyncio.get_running_loop().time() + deadline - time.monotonic()):
                job = await client.submit(model, options={**_JOB, "seed": seed})
                tally["submitted"] += 1
                ended = await client.wait(job.id)
                if not ended.succeeded:
                    errors[ended.state] += 1
                    continue
                await client.download_model(job.id, model.parent / f"{number}.onnx")
                tally["finished"] += 1
        except TimeoutError:
            return
        except SuperoptError as error:
            errors[f"{type(error).__name__}: {str(error)[:100]}"] += 1


def small_model() -> bytes:
    """Two products of matrices and what lies between."""
    random = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(random.normal(size=(64, 64)).astype(np.float32), f"w{i}") for i in (0, 1)
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "w1"], ["y"]),
    ]
    return chain(nodes, weights, 64).SerializeToString()


def chain(nodes: Sequence[onnx.NodeProto], weights: Sequence[TensorProto], width: int) -> onnx.ModelProto:
    """A model from x to y, both of a row of so many numbers."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, width]) for name in ("x", "y")]
    graph = helper.make_graph(list(nodes), "load", ends[:1], ends[1:], list(weights))
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17)])


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
