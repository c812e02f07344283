"""Exports a scikit-learn pipeline as users have it: scaler, principal components and a perceptron, on digits.

    python -m venv build/exporters && build/exporters/bin/pip install scikit-learn skl2onnx
    build/exporters/bin/python benchmarks/exported_pipeline.py [--out DIR]

Runs apart from superopt, whose environment needs no scikit-learn. The digits are part of that package.
"""

# pyright: basic, reportMissingImports=false
# Neither package is in the environment that types are checked in.

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from skl2onnx import to_onnx
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def main() -> int:
    """Writes ``OUT/digits-mlp.onnx``."""
    parser = argparse.ArgumentParser(prog="exported_pipeline", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/bench/exported"))
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    digits = load_digits()
    perceptron = MLPClassifier((128, 64), max_iter=300, random_state=0)
    pipeline = make_pipeline(StandardScaler(), PCA(40, random_state=0), perceptron)
    pipeline.fit(digits.data, digits.target)
    model = to_onnx(pipeline, digits.data[:1].astype(np.float32), options={"zipmap": False}, target_opset=17)
    path = out / "digits-mlp.onnx"
    path.write_bytes(model.SerializeToString())
    sys.stdout.write(f"{path}: {path.stat().st_size / 1e6:.1f} MB, {len(model.graph.node)} nodes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
