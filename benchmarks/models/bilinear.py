"""Measures what convolutions by bilinear algorithms gain, on single layers and whole networks.

    python -m benchmarks bilinear [--layers] [NETWORK ...] [--budget 40] [--seconds 20] [--openvino]

Each model is optimised by ``superopt optimize --threads 1`` with and without ``--exact-rounding``, which
leaves these algorithms out; then all three models run in turn, on one thread, beside OpenVINO's CPU plugin if
asked for. Ratios are medians over pairs of runs with the original. ``form`` are the algorithms used,
``error`` is the distance of the optimised model's outputs from double precision, beside that of the original.
Networks are names of the zoo, such as ``resnet50``, or paths; ``resnet50@512`` has images of that height and
width, ``llama-block@512`` sequences of that many tokens. Without any, the layers alone are measured.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np
import onnx

from benchmarks.models.bilinear_layers import LAYERS, write_layers
from benchmarks.models.interleaving import in_runtime, interleaved
from benchmarks.models.openvino_runs import in_openvino
from benchmarks.models.peers import reference_of
from superopt import zoo
from superopt.equations import abbreviated
from superopt.optimizer.cost.runtime.session import Array

_STEP = re.compile(r"bilinear_(?:conv|matmul)\[(?P<attributes>[^]]*)\]\(")
_ALGORITHM = re.compile(r"(?:rows|columns)=F\(\d+,\d+\)|\d+x\d+x\d+:\d+")

HEADER = (
    "| model | original ms | exact rounding | bilinear | OpenVINO | error | original's | form |",
    "|---|---|---|---|---|---|---|---|",
)


def main() -> None:
    """Prints the table row by row and writes it to ``bilinear.md``."""
    parser = argparse.ArgumentParser(prog="benchmarks bilinear", description=__doc__)
    parser.add_argument("networks", nargs="*", help="names of the zoo, or paths of models")
    parser.add_argument("--layers", action="store_true", help="single layers, before the networks")
    parser.add_argument("--out", type=Path, default=Path("build/bilinear"))
    parser.add_argument("--budget", type=float, default=40.0, help="seconds of each optimization")
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds of timing for each model")
    parser.add_argument("--openvino", action="store_true", help="time OpenVINO, too (extra bench)")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    rows: list[str] = [*HEADER]
    sys.stdout.write("\n".join(HEADER) + "\n")
    for name, path in _models(arguments):
        rows.append(_row(name, path, arguments))
        sys.stdout.write(rows[-1] + "\n")
        sys.stdout.flush()
    (arguments.out / "bilinear.md").write_text("\n".join(rows) + "\n", encoding="utf-8")


def _models(arguments: argparse.Namespace) -> list[tuple[str, Path]]:
    found: list[tuple[str, Path]] = []
    if arguments.layers or not arguments.networks:
        for number, layer in enumerate(LAYERS):
            path = arguments.out / f"layer{number}.onnx"
            write_layers([layer], path)
            found.append((layer.name, path))
    for name in cast("list[str]", arguments.networks):
        path = Path(name)
        if not path.suffix:
            path = arguments.out / f"{name}.onnx"
            network, _, side = name.partition("@")
            has_tokens = zoo.describe(network).has_tokens
            tokens = ("--sequence", side) if side and has_tokens else ()
            _superopt("zoo", "build", network, "-o", str(path), *tokens)
            if side and not has_tokens:
                _resize_images(path, int(side))
        found.append((path.stem, path))
    return found


def _resize_images(path: Path, side: int) -> None:
    """Declares another height and width of images; for networks that pool over all positions at their end."""
    model = onnx.ModelProto.FromString(path.read_bytes())
    for given in model.graph.input:
        for dimension in given.type.tensor_type.shape.dim[2:]:
            dimension.dim_value = side
    path.write_bytes(model.SerializeToString())


def _row(name: str, path: Path, arguments: argparse.Namespace) -> str:
    exact, _ = _optimised(path, arguments, "--exact-rounding")
    best, report = _optimised(path, arguments)
    models = [in_runtime(path.read_bytes()), in_runtime(exact.read_bytes()), in_runtime(best.read_bytes())]
    if arguments.openvino:
        models.append(in_openvino(path))
    times = interleaved(
        models, _feeds(path, arguments.out), threads=1, seconds=arguments.seconds, rounds=3, least=5
    )
    ratios = np.median(times[..., :1] / times, axis=(0, 1))
    others = [f"{ratio:.2f}" for ratio in ratios[1:]] + ([] if arguments.openvino else [""])
    errors = cast("dict[str, dict[str, dict[str, float]]]", report)["equivalence"]
    shown = [f"{errors[key]['rms']:.1e}" if errors.get(key) else "" for key in ("error", "own_error")]
    columns = (name, f"{np.median(times[..., 0]) / 1000:.2f}", *others, *shown, _forms(report))
    return f"| {' | '.join(columns)} |"


def _optimised(path: Path, arguments: argparse.Namespace, *more: str) -> tuple[Path, dict[str, object]]:
    kind = "exact" if more else "bilinear"
    output, report = (path.with_name(f"{path.stem}-{kind}{suffix}") for suffix in (".onnx", ".json"))
    options = ("--threads", "1", "--budget", str(arguments.budget), "--report", str(report), "--quiet", *more)
    _superopt("optimize", str(path), "-o", str(output), *options)
    return output, json.loads(report.read_text("utf-8"))


def _forms(report: dict[str, object]) -> str:
    """The algorithms of the applied rules, with how often each was applied."""
    found: Counter[str] = Counter()
    for step in cast("list[dict[str, str]]", report["trace"]):
        written = _STEP.search(abbreviated(step["equation"]))
        if written is not None:
            found[", ".join(_ALGORITHM.findall(written["attributes"]))] += 1
    return ", ".join(f"{count} {form}" for form, count in found.most_common()) or "none"


def _feeds(path: Path, out: Path) -> Mapping[str, Array]:
    sample = reference_of(path, 1, out).first()
    if sample is None:
        raise SystemExit(f"{path.stem}: the original does not run on random inputs")
    return sample.feeds


def _superopt(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "superopt", *arguments], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
