"""Asks whether layouts pay: of matrices, product by product, and of images, searched jointly with rewrites.

    python -m benchmarks layouts [--networks NAME ...] [--seconds 20] [--out docs]

Products: x (m by k) times a constant W (k by n), each operand or the result row-major or column-major (stored
transposed), through flags of ``Gemm`` or a ``Transpose``; all variants interleaved. Networks, as in section
2.9.5 of TASO's dissertation: searched with prices that see in which layout each image lies (joint), with
prices that do not and layouts chosen by the runtime afterwards (sequential), and not at all (layout only).
Results go to ``layouts.md``.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from superopt import zoo
from superopt.journeys import in_process as api
from superopt.onnx_io import LiftedModel, lift, load_model, lower
from superopt.optimizer import plan_of
from superopt.optimizer.check import compare_latency, plan_inputs
from superopt.optimizer.cost import GraphCost, Kernel, Latency, MemoryCostStore, Origin, Price, Sizes
from superopt.optimizer.cost.runtime.session import Array, LoadedModel, device_name, runtime_version
from superopt.optimizer.search import Backtracking, RuleSet, SearchLimits, Watch
from superopt.rewriting import Substitution
from superopt.substitution_db import open_database

ROWS = (1, 8, 128, 512)
SIDES = ((512, 512), (1024, 4096), (4096, 1024))
NETWORKS = ("light-densenet121", "light-inception_v1", "light-shufflenet", "squeezenet")
_ROUNDS = 9
_RUNS = 3


@dataclass(frozen=True)
class Variant:
    """A way to multiply: its name, the ONNX nodes, and whether x comes and y leaves transposed."""

    name: str
    nodes: tuple[onnx.NodeProto, ...]
    takes_transposed: bool = False
    gives_transposed: bool = False
    stores_transposed: bool = False


VARIANTS = (
    Variant("x W", (helper.make_node("MatMul", ["x", "w"], ["y"]),)),
    Variant(
        "W stored transposed",
        (helper.make_node("Gemm", ["x", "w"], ["y"], transB=1),),
        stores_transposed=True,
    ),
    Variant(
        "x comes transposed: Gemm",
        (helper.make_node("Gemm", ["x", "w"], ["y"], transA=1),),
        takes_transposed=True,
    ),
    Variant(
        "x comes transposed: Transpose",
        (
            helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
            helper.make_node("MatMul", ["t", "w"], ["y"]),
        ),
        takes_transposed=True,
    ),
    Variant(
        "y leaves transposed: Gemm",
        (helper.make_node("Gemm", ["w", "x"], ["y"], transB=1),),
        gives_transposed=True,
        stores_transposed=True,
    ),
    Variant(
        "y leaves transposed: Transpose",
        (
            helper.make_node("MatMul", ["x", "w"], ["t"]),
            helper.make_node("Transpose", ["t"], ["y"], perm=[1, 0]),
        ),
        gives_transposed=True,
    ),
)


IMAGES = (
    "",
    "## Images",
    "",
    "The runtime keeps images in its own blocked layout between operators that have kernels for it. Prices",
    "take that into account: a source of a kernel is blocked or not, and its price includes the conversion.",
    "Speed-up over the original: after the search with layouts (joint), after the search without them",
    "(sequential), and by the runtime's layouts alone.",
    "",
)


def main() -> int:
    """Prints and writes both tables."""
    parser = argparse.ArgumentParser(prog="benchmarks layouts", description=__doc__)
    parser.add_argument("--networks", nargs="*", default=NETWORKS)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each search, and of each comparison")
    parser.add_argument("--out", type=Path, default=Path("docs"))
    arguments = parser.parse_args()
    lines = [
        "| m | k | n | " + " | ".join(v.name for v in VARIANTS) + " |",
        "|---" * (3 + len(VARIANTS)) + "|",
    ]
    gains: list[float] = []
    for rows in ROWS:
        for inner, columns in SIDES:
            times = products(rows, inner, columns)
            gains.extend((times[0] / times[1], times[3] / times[2], times[5] / times[4]))
            lines.append(f"| {rows} | {inner} | {columns} | " + " | ".join(f"{t:.0f}" for t in times) + " |")
            sys.stdout.write(lines[-1] + "\n")
            sys.stdout.flush()
    matrices = (
        "Times are in microseconds. Speed-up of transposing by flags of `Gemm` over the plain form next to "
        f"it: geometric mean {math.exp(np.mean(np.log(gains))):.3f}x, best {max(gains):.2f}x, "
        f"worst {min(gains):.2f}x."
    )
    images = ["| network | joint | sequential | layout only |", "|---|---|---|---|"]
    with open_database(None) as database:
        rules = api.verified_substitutions(database)
    for name in arguments.networks if rules else ():
        images.append(searched(name, rules, arguments.seconds))
        sys.stdout.write(images[-1] + "\n")
        sys.stdout.flush()
    _write(arguments.out / "layouts.md", matrices, lines, images)
    return 0


def products(rows: int, inner: int, columns: int) -> list[float]:
    """Microseconds of each variant of one product."""
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(s).astype(np.float32) for s in ((rows, inner), (inner, columns)))
    runs = [LoadedModel(_model(v, x, w), 1).bind({"x": _stored(x, v.takes_transposed)}) for v in VARIANTS]
    for run in runs:
        run.microseconds()
    rounds = [[min(run.microseconds() for _ in range(_RUNS)) for run in runs] for _ in range(_ROUNDS)]
    return [float(t) for t in np.quantile(rounds, 0.2, axis=0)]


def _stored(array: Array, transposed: object) -> Array:
    return np.ascontiguousarray(array.T) if transposed else array


def _model(variant: Variant, x: Array, w: Array) -> bytes:
    shape = [x.shape[0], w.shape[1]]
    given = _stored(x, variant.takes_transposed).shape
    result = shape[::-1] if variant.gives_transposed else shape
    graph = helper.make_graph(
        list(variant.nodes),
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, given)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, result)],
        [numpy_helper.from_array(_stored(w, variant.stores_transposed), "w")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return made.SerializeToString()


class Blind:
    """Latency that does not see layouts: every image is taken to lie as ONNX has it."""

    unit = "us"
    source = "measured"

    def __init__(self, latency: Latency) -> None:
        self._latency = latency

    def known(self, kernel: Kernel) -> Price | None:
        """The known price of the kernel on plain images."""
        price = self._latency.known(_plain(kernel))
        return None if price is None else Price(price.cost)

    def bound(self, kernel: Kernel) -> float:
        """What the price is at least."""
        return self._latency.bound(_plain(kernel))

    def price(self, kernel: Kernel) -> Price:
        """The price of the kernel on plain images."""
        return Price(self._latency.price(_plain(kernel)).cost)


def _plain(kernel: Kernel) -> Kernel:
    return replace(kernel, sources=tuple(replace(source, blocked=False) for source in kernel.sources))


def searched(name: str, rules: Sequence[Substitution], seconds: float) -> str:
    """The row of a network: how much faster it runs after each search, measured."""
    content = zoo.build(name).SerializeToString()
    lifted = lift(load_model(content))
    loaded = LoadedModel(content, 1)
    inputs = plan_inputs(lifted, loaded.inputs, {})
    feeds = inputs.draw(np.random.default_rng(0), next(inputs.size_choices()), "normal")
    latency = Latency(MemoryCostStore(), threads=1)
    cells = [
        _ratio(lifted, content, objective, rules, feeds, seconds) for objective in (latency, Blind(latency))
    ]
    return f"| {name} | {' | '.join(cells)} | 1 |"


def _ratio(
    lifted: LiftedModel,
    content: bytes,
    objective: Latency | Blind,
    rules: Sequence[Substitution],
    feeds: Mapping[str, Array],
    seconds: float,
) -> str:
    start = GraphCost.of(lifted.graph, objective, Sizes(lifted.graph, {}, Origin(lifted)))
    limits = SearchLimits(deadline=time.monotonic() + seconds)
    best = Backtracking().run(start, RuleSet(rules), Watch(limits)).best.graph
    if best is lifted.graph:
        return "1 (nothing found)"
    rewritten = lower(lifted, best, plan_of(best)).to_bytes()
    compared = compare_latency(content, rewritten, feeds, threads=1, seconds=seconds)
    return f"{compared.ratio:.3f} ({compared.low:.3f} to {compared.high:.3f})"


def _write(path: Path, matrices: str, products: Sequence[str], images: Sequence[str]) -> None:
    text = (
        "# Effect of layouts on latency",
        "",
        f"Written by `python -m benchmarks layouts`; {device_name()}, {runtime_version()}, one thread.",
        "",
        "## Matrices",
        "",
        "The runtime packs a constant operand when it opens a model, however the operand was stored, and",
        "turns a `Transpose` beside a product into flags.",
        "",
        matrices,
        "",
        *products,
        *(IMAGES if len(images) > 2 else ()),
        *(images if len(images) > 2 else ()),
    )
    path.write_text("\n".join(text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
