"""Export of PyTorch modules to ONNX in memory, without importing PyTorch where the caller does not."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from io import BytesIO
from typing import TYPE_CHECKING, Protocol, TypeGuard, cast

from superopt.errors import InvalidModelError, InvalidOptionError

if TYPE_CHECKING:
    import onnx_ir

_TORCH = "torch"
_TRANSLATOR = "onnxscript"
"""What PyTorch's present exporter needs besides PyTorch."""


class TorchModule(Protocol):
    """A ``torch.nn.Module``."""

    training: bool

    def modules(self) -> Iterable[TorchModule]:
        """The module and all in it."""
        ...

    def eval(self) -> object:
        """Switches to inference."""
        ...


class _ExportedProgram(Protocol):
    @property
    def model(self) -> onnx_ir.Model: ...


class _Exporter(Protocol):
    def export(
        self,
        model: TorchModule,
        args: tuple[object, ...],
        f: BytesIO | None = None,
        *,
        kwargs: dict[str, object],
        dynamo: bool,
        verbose: bool = False,
    ) -> _ExportedProgram: ...


class _Modules(Protocol):
    Module: type[object]


class _Torch(Protocol):
    nn: _Modules
    onnx: _Exporter


def is_torch_module(model: object) -> TypeGuard[TorchModule]:
    """Whether this is a PyTorch module; false where PyTorch was not imported."""
    modules = cast("_Modules | None", getattr(sys.modules.get(_TORCH), "nn", None))
    return modules is not None and isinstance(model, modules.Module)


def exported(module: TorchModule, example_inputs: object) -> onnx_ir.Model | bytes:
    """The module in inference mode as ONNX, for inputs of the shapes and types of the example.

    ``example_inputs`` are the arguments of the module's forward: a tuple or list of them, a mapping of them
    by name, or a single one. Raises InvalidOptionError without any, InvalidModelError for a module that
    PyTorch cannot export.
    """
    if example_inputs is None:
        raise InvalidOptionError(
            "example_inputs: expected the arguments of the module's forward (a tensor, a tuple of them, or a "
            "dict of them by name), got None"
        )
    args, kwargs = _arguments(example_inputs)
    torch = cast("_Torch", sys.modules[_TORCH])
    try:
        with _in_inference_mode(module):
            if find_spec(_TRANSLATOR) is not None:
                return torch.onnx.export(module, args, kwargs=kwargs, dynamo=True, verbose=False).model
            file = BytesIO()
            torch.onnx.export(module, args, file, kwargs=kwargs, dynamo=False)
            return file.getvalue()
    except (RuntimeError, TypeError, ValueError) as error:
        why = str(error.__cause__ or error).strip().partition("\n")[0]
        raise InvalidModelError(
            f"model: PyTorch cannot export {type(module).__name__} with these example_inputs: {why}"
        ) from error


def _arguments(example: object) -> tuple[tuple[object, ...], dict[str, object]]:
    if isinstance(example, Mapping):
        return (), dict(cast("Mapping[str, object]", example))
    if isinstance(example, tuple | list):
        return tuple(cast("tuple[object, ...]", example)), {}
    return (example,), {}


@contextmanager
def _in_inference_mode(module: TorchModule) -> Generator[None]:
    """The module in inference mode; afterwards each of its modules is in the mode in which it was."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode
