"""Device probe: the child process of ``server.worker.device``, which loads the runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from superopt.errors import SuperoptError
from superopt.ir.graph import Graph, Input
from superopt.ir.types import ElementType, TensorType
from superopt.onnx_io import build_model
from superopt.ops.elementwise.activation import Relu
from superopt.optimizer.cost import Provider
from superopt.optimizer.cost.runtime.devices import accelerator_name, physical_cores, processor_name
from superopt.optimizer.cost.runtime.session import LoadedModel, runtime_version

if TYPE_CHECKING:
    from collections.abc import Callable

    from superopt.substitution_db.store.records import JsonObject


def describe(arguments: JsonObject, progress: Callable[[JsonObject], None]) -> JsonObject:
    """``Device`` as JSON."""
    del arguments, progress
    name = [processor_name(), str(physical_cores()), accelerator_name(), runtime_version()]
    targets = [Provider.CPU.value, *([Provider.CUDA.value] if runs(Provider.CUDA) else [])]
    return {"name": name, "targets": targets}


def runs(provider: Provider) -> bool:
    """Whether the runtime can run a model on the device; nothing is measured."""
    editor = Graph.empty().edit()
    source = editor.add(Input("x", TensorType(ElementType.FLOAT, (1,))))
    editor.set_outputs(editor.add(Relu(), (source.value,)).values)
    try:
        LoadedModel(build_model(editor.build(), {}), 1, provider=provider).run({"x": np.ones(1, np.float32)})
    except SuperoptError:
        return False
    return True
