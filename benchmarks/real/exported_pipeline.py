"""Exports estimators of scikit-learn as users have them, trained on data that this package ships.

    python -m venv build/exporters && build/exporters/bin/pip install scikit-learn skl2onnx
    build/exporters/bin/python benchmarks/real/exported_pipeline.py NAME [--out DIR]

Runs apart from superopt, whose environment needs no scikit-learn. ``digits-mlp`` is a scaler, principal
components and a perceptron on digits; ``digits-forest`` and ``digits-neighbors`` are a scaler, then a random
forest or the nearest neighbours; ``diabetes-process`` is a Gaussian process on diabetes.
"""

# pyright: basic, reportMissingImports=false
# Neither package is in the environment that types are checked in.

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from skl2onnx import to_onnx
from sklearn.datasets import load_diabetes, load_digits
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Bunch

OPSET = 17


def perceptron() -> Pipeline:
    """Scaler, 40 principal components, two hidden layers."""
    hidden = MLPClassifier((128, 64), max_iter=300, random_state=0)
    return make_pipeline(StandardScaler(), PCA(40, random_state=0), hidden)


def forest() -> Pipeline:
    """Scaler, 100 trees."""
    return make_pipeline(StandardScaler(), RandomForestClassifier(100, random_state=0))


def neighbors() -> Pipeline:
    """Scaler, the five nearest neighbours."""
    return make_pipeline(StandardScaler(), KNeighborsClassifier(5))


def process() -> Pipeline:
    """A Gaussian process with a radial kernel and noise."""
    return make_pipeline(GaussianProcessRegressor(RBF(1.0) + WhiteKernel(0.1), normalize_y=True))


ESTIMATORS: dict[str, tuple[Callable[[], Pipeline], Callable[[], Bunch]]] = {
    "digits-mlp": (perceptron, load_digits),
    "digits-forest": (forest, load_digits),
    "digits-neighbors": (neighbors, load_digits),
    "diabetes-process": (process, load_diabetes),
}


def main() -> int:
    """Writes ``OUT/NAME.onnx``."""
    parser = argparse.ArgumentParser(prog="exported_pipeline", description=__doc__)
    parser.add_argument("name", choices=ESTIMATORS)
    parser.add_argument("--out", type=Path, default=Path("build/bench/exported"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    build, load = ESTIMATORS[given.name]
    data = load()
    pipeline = build()
    pipeline.fit(data.data, data.target)
    options = {"options": {"zipmap": False}} if hasattr(pipeline, "predict_proba") else {}
    model = to_onnx(pipeline, data.data[:1].astype(np.float32), target_opset=OPSET, **options)
    path = given.out / f"{given.name}.onnx"
    path.write_bytes(model.SerializeToString())
    sys.stdout.write(f"{path}: {path.stat().st_size / 1e6:.1f} MB, {len(model.graph.node)} nodes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
