"""The kernels that ONNX Runtime executes for a model, after its own graph optimisation."""

from __future__ import annotations

from pathlib import Path

from superopt.errors import InvalidModelError
from superopt.onnx_io import Executed, executed
from superopt.optimizer.cost.runtime import LoadedModel, ModelFile, Provider


def load_and_list(
    model: ModelFile, threads: int, provider: Provider, directory: Path
) -> tuple[LoadedModel, Executed | None]:
    """The model opened, and what the runtime executes of it; None where the runtime does not write that down.

    Needs room in ``directory`` for the model while it opens. Raises RuntimeRefusedError when it does not.
    """
    path = directory / "executed.onnx"
    try:
        loaded = LoadedModel(model, threads, provider=provider, optimized=path)
        return loaded, executed(path)
    except InvalidModelError:
        return LoadedModel(model, threads, provider=provider), None
    finally:
        for written in directory.glob(f"{path.name}*"):
            written.unlink()
