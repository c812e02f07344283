"""Models and kernels whose weights may fill the memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnx
import pytest

from superopt.ir import Graph
from superopt.ops.elementwise.arithmetic import Add
from superopt.ops.matrix import Matmul
from superopt.optimizer.check import check_equivalence
from superopt.optimizer.cost import GraphCost, MemoryCostStore, Sizes, objective_of
from superopt.optimizer.cost.measuring.measurer import LEAST_MICROSECONDS, Measurer
from superopt.optimizer.cost.runtime.executed_kernels import load_and_list
from superopt.optimizer.cost.runtime.session import Array, BoundRun, LoadedModel, Provider
from tests.optimizer.equivalence_models import NETWORKS
from tests.optimizer.graphs import Builder
from tests.optimizer.models import lifted, run
from tests.optimizer.plants import PLANTS, planted
from tests.optimizer.test_equivalence import reference_of


def heavy_products() -> Graph:
    """Two products, faster in the other order, whose weights are large enough to be outside a model file."""
    b = Builder()
    x = b.add(Matmul(), b.input("x", 512, 512), b.weight(512, 512))
    return b.graph(b.add(Matmul(), x, b.weight(512, 4)))


def test_the_kernels_of_a_model_on_disk_are_those_of_its_bytes(tmp_path: Path) -> None:
    content = NETWORKS["image"].SerializeToString()
    model, path = onnx.load_from_string(content), tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights", size_threshold=256)
    _, of_bytes = load_and_list(content, 1, Provider.CPU, tmp_path)
    loaded, of_file = load_and_list(path, 1, Provider.CPU, tmp_path)
    assert of_bytes is not None
    assert of_file is not None
    assert of_file.digest == of_bytes.digest
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.onnx", "weights"]
    assert loaded.outputs


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("is_changed", [False, True])
def test_a_model_that_is_closed_before_it_is_judged_gets_the_same_verdict(
    name: str, *, is_changed: bool
) -> None:
    reference = reference_of(NETWORKS[name])
    content = NETWORKS[name].SerializeToString()
    if is_changed:
        _, content = next(found for kind in PLANTS if (found := planted(NETWORKS[name], kind, 0)) is not None)
    kept = check_equivalence(reference, LoadedModel(content, 1))
    other = LoadedModel(content, 1)
    assert check_equivalence(reference, other, closes=True) == kept
    assert kept.passed != is_changed
    with pytest.raises(AttributeError):
        other.run(next(reference.samples()).feeds)


def test_a_large_kernel_is_timed_alone() -> None:
    """Copies of it, and a list of what the runtime executes for it, would need several times its memory."""
    b = Builder()
    product = b.add(Matmul(), b.input("x", 1, 3000), b.weight(3000, 3000))
    graph = b.graph(b.add(Add(), product, product))
    cost = GraphCost.of(graph, objective_of("flops", MemoryCostStore(), 1), Sizes(graph, {}))
    kernel = next(group.kernel for group in cost.groups if any(s.is_weight for s in group.kernel.sources))
    found = Measurer(threads=1).measure(kernel)
    assert found is not None
    assert found.microseconds > LEAST_MICROSECONDS
    assert not found.form


def test_large_models_are_timed_with_weights_in_a_file(
    costs: MemoryCostStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runtime maps them, so that a round of timing does not consist of loading."""
    timed: list[bool] = []

    class Noted(LoadedModel):
        def bind(self, feeds: Mapping[str, Array]) -> BoundRun:
            timed.append(isinstance(self.file, Path) and self.file.with_name("model.onnx.data").is_file())
            return super().bind(feeds)

    monkeypatch.setattr("superopt.optimizer.pipeline.original._LARGE", 1 << 10)
    monkeypatch.setattr("superopt.optimizer.check.latency.LoadedModel", Noted)
    result = run(lifted(heavy_products()), costs, budget=20.0)
    assert result.report.returned == "optimized"
    assert len(timed) >= 6
    assert all(timed)
