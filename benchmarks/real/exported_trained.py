"""Exports trained networks of packages that ship weights of PyTorch and no ONNX file.

    build/real/torch-environment/bin/python benchmarks/real/exported_trained.py speaker|crepe --weights FILE
        [--exporter legacy|dynamo] [--out DIR]

Runs apart from superopt, whose environment needs no PyTorch. ``speaker`` is the encoder of Resemblyzer (three
LSTM layers), ``crepe`` the tiny network of torchcrepe (six convolutions); both are built here as there:
these packages need more than PyTorch. The batch is open.
"""

# pyright: basic, reportMissingImports=false
# PyTorch is not in the environment that types are checked in.

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import torch


class Speaker(torch.nn.Module):
    """An utterance's mel spectrogram, shape [batch, frames, 40], to its speaker's embedding, [batch, 256]."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(40, 256, 3, batch_first=True)
        self.linear = torch.nn.Linear(256, 256)

    def forward(self, mels: torch.Tensor) -> torch.Tensor:
        """The embedding, of length 1."""
        _, (hidden, _) = self.lstm(mels)
        raw = torch.relu(self.linear(hidden[-1]))
        return raw / torch.norm(raw, dim=1, keepdim=True)


class Crepe(torch.nn.Module):
    """Audio at 16 kHz, shape [batch, 1024], to probabilities of 360 pitches."""

    def __init__(self) -> None:
        super().__init__()
        widths = (1, 128, 16, 16, 16, 32, 64)
        for number, (before, after) in enumerate(pairwise(widths), start=1):
            size, stride = ((512, 1), (4, 1)) if number == 1 else ((64, 1), (1, 1))
            self.add_module(f"conv{number}", torch.nn.Conv2d(before, after, size, stride))
            self.add_module(f"conv{number}_BN", torch.nn.BatchNorm2d(after, eps=0.001))
        self.classifier = torch.nn.Linear(256, 360)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        """The probabilities, shape [batch, 360]."""
        x = frames[:, None, :, None]
        for number in range(1, 7):
            padded = torch.nn.functional.pad(x, (0, 0, 254, 254) if number == 1 else (0, 0, 31, 32))
            x = torch.relu(self.get_submodule(f"conv{number}")(padded))
            x = torch.nn.functional.max_pool2d(self.get_submodule(f"conv{number}_BN")(x), (2, 1), (2, 1))
        return torch.sigmoid(self.classifier(x.permute(0, 2, 1, 3).reshape(-1, 256)))


Build = Callable[[], torch.nn.Module]

NETWORKS: dict[str, tuple[Build, str, torch.Tensor]] = {
    "speaker": (Speaker, "mels", torch.rand(2, 160, 40)),
    "crepe": (Crepe, "frames", torch.randn(2, 1024)),
}


def main() -> int:
    """Writes ``OUT/NAME-EXPORTER.onnx``."""
    parser = argparse.ArgumentParser(prog="exported_trained", description=__doc__)
    parser.add_argument("name", choices=NETWORKS)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--exporter", choices=["legacy", "dynamo"], default="legacy")
    parser.add_argument("--out", type=Path, default=Path("build/bench/exported"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    build, name, example = NETWORKS[given.name]
    stored = torch.load(given.weights, map_location="cpu", weights_only=True)
    network = build()
    # Resemblyzer's file has two more numbers, which only its training used.
    network.load_state_dict(stored.get("model_state", stored), strict="model_state" not in stored)
    path = given.out / f"{given.name}-{given.exporter}.onnx"
    axes = (
        {"dynamo": False, "opset_version": 17, "dynamic_axes": {name: {0: "batch"}, "out": {0: "batch"}}}
        if given.exporter == "legacy"
        else {"dynamo": True, "external_data": False, "dynamic_shapes": ({0: torch.export.Dim("batch")},)}
    )
    with torch.no_grad():
        torch.onnx.export(network.eval(), (example,), path, input_names=[name], output_names=["out"], **axes)
    sys.stdout.write(f"{path}: {path.stat().st_size / 1e6:.1f} MB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
