"""Which distributions of ONNX Runtime are installed: two provide the same package."""

from __future__ import annotations

from importlib import metadata

BOTH_RUNTIMES = (
    "onnxruntime and onnxruntime-gpu are both installed and overwrite each other's files: run "
    "`pip uninstall onnxruntime onnxruntime-gpu`, then `pip install --no-deps onnxruntime-gpu`"
)


def has_both_runtimes() -> bool:
    """Whether the distributions for processors and for GPUs are both installed."""
    return all(_is_installed(name) for name in ("onnxruntime", "onnxruntime-gpu"))


def _is_installed(distribution: str) -> bool:
    try:
        metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True
