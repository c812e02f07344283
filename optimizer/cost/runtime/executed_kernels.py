"""The kernels that ONNX Runtime executes for a model, after its own graph optimisation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from superopt.errors import InvalidModelError
from superopt.onnx_io import Executed, executed
from superopt.optimizer.cost.runtime.session import LoadedModel, ModelFile, Provider


def load_and_list(
    model: ModelFile,
    threads: int,
    provider: Provider,
    directory: Path,
    profile: Path | None = None,
    without: Sequence[str] = (),
    *,
    spins: bool = False,
) -> tuple[LoadedModel, Executed | None]:
    """Loads a model and lists the kernels that the runtime executes; None where the runtime does not report
    them. Needs room in ``directory`` for the model while it loads; ``profile``, ``without`` and ``spins`` are
    those of ``LoadedModel``. A model on disk, whose weights are large, is loaded once more for its list:
    writing what the runtime executes copies the weights, which must not come on top of those prepared for the
    kernels. Raises RuntimeRefusedError when it does not load."""
    path = directory / "executed.onnx"
    try:
        if not isinstance(model, Path):
            loaded = LoadedModel(model, threads, profile, provider, without, path, spins=spins)
            return loaded, executed(path)
        LoadedModel(model, threads, None, provider, without, path)
        kernels = executed(path)
    except InvalidModelError:
        kernels = None
    finally:
        for written in directory.glob(f"{path.name}*"):
            written.unlink()
    return LoadedModel(model, threads, profile, provider, without, spins=spins), kernels
