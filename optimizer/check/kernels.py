"""The kernels that ONNX Runtime executes for a model, after its own graph optimisation."""

from __future__ import annotations

from pathlib import Path

from superopt.errors import InvalidModelError
from superopt.onnx_io import Executed, executed
from superopt.optimizer.cost.runtime import LoadedModel, ModelFile, Provider


def load_and_list(
    model: ModelFile, threads: int, provider: Provider, directory: Path
) -> tuple[LoadedModel, Executed | None]:
    """Loads a model and lists the kernels that the runtime executes; None where the runtime does not report
    them. Needs room in ``directory`` for the model while it loads. Raises RuntimeRefusedError when it does
    not load."""
    path = directory / "executed.onnx"
    try:
        loaded = LoadedModel(model, threads, provider=provider, optimized=path)
        return loaded, executed(path)
    except InvalidModelError:
        return LoadedModel(model, threads, provider=provider), None
    finally:
        for written in directory.glob(f"{path.name}*"):
            written.unlink()
