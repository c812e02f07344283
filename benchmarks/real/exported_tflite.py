"""Converts a network of TensorFlow Lite, as people have them in packages, to ONNX by tf2onnx.

    build/real/tensorflow-environment/bin/python benchmarks/real/exported_tflite.py --weights FILE [--out DIR]

Runs apart from superopt, whose environment needs no TensorFlow.
"""

# pyright: basic, reportMissingImports=false
# tf2onnx is not in the environment that types are checked in.

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import tf2onnx

OPSET = 17


def main() -> int:
    """Writes ``OUT/NAME.onnx`` for ``NAME.tflite``."""
    parser = argparse.ArgumentParser(prog="exported_tflite", description=__doc__)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("build/bench/exported"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / f"{given.weights.stem}.onnx"
    model, _ = tf2onnx.convert.from_tflite(str(given.weights), opset=OPSET, output_path=str(path))
    sys.stdout.write(f"{path}: {path.stat().st_size / 1e6:.1f} MB, {len(model.graph.node)} nodes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
