"""Trains a scikit-learn pipeline on digits, exports it, optimises it for batches, compares its answers."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from skl2onnx import to_onnx
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import superopt


def main() -> int:
    """Writes ``digits.onnx`` and ``digits-optimised.onnx`` into the output directory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True, help="directory for the models")
    parser.add_argument("--batch", type=int, default=256, help="rows for which the model is to be fast")
    parser.add_argument("--budget", type=float, default=30.0, help="seconds for the optimization")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)

    images, labels = load_digits(return_X_y=True)
    train, test, wanted, right = train_test_split(images.astype(np.float32), labels, random_state=0)
    network = MLPClassifier((128, 64), max_iter=100, random_state=0, early_stopping=True)
    pipeline = make_pipeline(StandardScaler(), PCA(40, random_state=0), network).fit(train, wanted)
    exported = to_onnx(pipeline, train[:1], options={"zipmap": False}, target_opset=17)
    (arguments.output / "digits.onnx").write_bytes(exported.SerializeToString())

    result = superopt.optimize(exported, dims=rows(exported, arguments.batch), budget=arguments.budget)
    result.save(arguments.output / "digits-optimised.onnx")
    print(result)

    session = onnxruntime.InferenceSession(result.to_bytes(), providers=["CPUExecutionProvider"])
    (answers, *_) = session.run(None, {session.get_inputs()[0].name: test})
    same = (answers == pipeline.predict(test)).mean()
    print(f"accuracy {(answers == right).mean():.3f}; {same:.1%} of the answers are scikit-learn's")
    return 0 if same > 0.99 else 1


def rows(model: onnx.ModelProto, batch: int) -> dict[str, int]:
    """The size of the model's symbolic dimension, the number of rows."""
    return {name: batch for name, _, _ in superopt.inspect(model).dimensions}


if __name__ == "__main__":
    sys.exit(main())
