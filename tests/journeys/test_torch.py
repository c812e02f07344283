"""PyTorch modules are optimised as they are, and trained; nothing of PyTorch is needed for anything else."""
# pyright: reportUnknownMemberType=false, reportMissingImports=false
# PyTorch is not among the development packages.

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import superopt
from superopt.errors import InvalidModelError, InvalidOptionError
from superopt.journeys import torch_export
from superopt.journeys.torch_export import is_torch_module
from superopt.training import StepSettings, UpdateSettings
from superopt.zoo import datasets
from tests.onnx_io.kit import session

QUICK: dict[str, Any] = {"objective": "flops", "budget": 60.0, "max_candidates": 20, "threads": 1}


class Looks:
    """As a module has them."""

    training = True

    def modules(self) -> list[Looks]:
        return [self]

    def eval(self) -> None:
        raise AssertionError("nobody may call this")


def test_what_only_looks_like_a_module_is_none() -> None:
    assert not is_torch_module(Looks())
    with pytest.raises(InvalidModelError, match=r"^model: expected a path, bytes, an .*, got Looks$"):
        superopt.optimize(Looks())
    with pytest.raises(InvalidOptionError, match=r"^example_inputs: expected None for a model that is no "):
        superopt.optimize(Looks(), example_inputs=(1,))


def test_pytorch_is_not_imported_to_find_out(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise AssertionError('imported')")
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import superopt; superopt.optimize(3)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, text=True)
    assert done.stderr.splitlines()[-1].startswith(
        "superopt.errors.InvalidModelError: model: expected a path"
    )


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="no PyTorch: pip install torch onnxscript")


@pytest.fixture
def network(torch: Any) -> Any:
    """Two inputs, batch normalisation and dropout: inference differs from training."""

    class Network(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Linear(8, 16)
            self.norm = torch.nn.BatchNorm1d(16)
            self.drop = torch.nn.Dropout(0.5)
            self.second = torch.nn.Linear(16, 4)

        def forward(self, x: Any, y: Any) -> Any:
            return self.second(self.drop(torch.relu(self.norm(self.first(x) + self.first(y)))))

    torch.manual_seed(0)
    network = Network()
    network.norm.running_mean.fill_(0.25)
    return network.train()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("exporter", ["dynamo", "legacy"])
@pytest.mark.parametrize("given", ["tuple", "by name"])
def test_a_module_is_optimised(
    network: Any, torch: Any, exporter: str, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if exporter == "legacy":
        monkeypatch.setattr(torch_export, "_TRANSLATOR", "no_such_package")
    elif find_spec("onnxscript") is None:
        pytest.skip("no onnxscript: pip install onnxscript")
    network.drop.eval()
    arguments = (torch.randn(3, 8), torch.randn(3, 8))
    example = {"x": arguments[0], "y": arguments[1]} if given == "by name" else arguments
    result = superopt.optimize(network, example_inputs=example, **QUICK)
    assert (network.training, network.norm.training, network.drop.training) == (True, True, False)
    ports = [port.name for port in result.model.graph.input]
    feeds = {name: value.numpy() for name, value in zip(ports, arguments, strict=True)}
    (got,) = session(result.to_bytes()).run(None, feeds)
    with torch.no_grad():
        wanted = network.eval()(*arguments).numpy()
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_what_cannot_be_exported_is_said(network: Any, torch: Any) -> None:
    with pytest.raises(InvalidOptionError, match=r"^example_inputs: expected the arguments of .*, got None"):
        superopt.optimize(network)
    with pytest.raises(InvalidModelError, match=r"^model: PyTorch cannot export Network with these example_"):
        superopt.optimize(network, example_inputs=(torch.randn(3, 9), torch.randn(3, 9)), **QUICK)


@pytest.mark.filterwarnings("ignore")
def test_a_module_is_trained_and_gets_its_weights_back(torch: Any, tmp_path: Path) -> None:
    """Export, training step, optimised step, training, weights in the ONNX model and in the module."""
    pytest.importorskip("onnxscript", reason="no onnxscript: pip install onnxscript")
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    model, trained = tmp_path / "model.onnx", tmp_path / "trained.onnx"
    torch.onnx.export(network.eval(), (torch.zeros(32, 64),), model, dynamo=True, input_names=["input"])
    built = superopt.training.train_graph(model, StepSettings(update=UpdateSettings("adam")))
    optimised = superopt.optimize(built.step.model.to_bytes(), **{**QUICK, "objective": "latency"})
    step = superopt.training.Step(optimised.to_bytes(), threads=1)
    assert set(built.parameters()) == set(network.state_dict())
    superopt.training.train(step, datasets.digits(4000), steps=600)
    step.save_into(model, trained)
    unseen = datasets.digits(32, seed=1)
    (logits,) = session(trained.read_bytes()).run(None, {"input": unseen["input"]})
    assert (logits.argmax(axis=1) == unseen["labels"]).mean() > 0.9
    network.load_state_dict({name: torch.from_numpy(array) for name, array in step.parameters().items()})
    with torch.no_grad():
        again = network(torch.from_numpy(unseen["input"])).numpy()
    np.testing.assert_allclose(logits, again, rtol=1e-4, atol=1e-4)
