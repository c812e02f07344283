"""The examples of docs/python.md run in their order, as one program."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import superopt
from superopt.zoo import datasets
from tests.conftest import WithLibrary
from tests.onnx_io.kit import session

PAGE = (Path(__file__).parent.parent / "docs" / "python.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
TORCH = "import torch"


@pytest.fixture(autouse=True)
def _own_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_library: WithLibrary) -> None:
    monkeypatch.setenv("SUPEROPT_DATABASE_URL", with_library(tmp_path / "rules.db"))


def run_examples(examples: list[str], directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(directory)
    program = "\n".join(examples).replace("budget=60", "budget=10, max_candidates=20")
    exec(compile(program, "docs/python.md", "exec"), {})


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_examples([block for block in BLOCKS if TORCH not in block], tmp_path, monkeypatch)
    assert (tmp_path / "shards" / "manifest.json").exists()
    unseen = datasets.digits(32, seed=1)
    runtime = session((tmp_path / "trained.onnx").read_bytes())
    (logits,) = runtime.run(None, {"input": unseen["input"]})
    assert (logits.argmax(axis=1) == unseen["labels"]).mean() > 0.8


@pytest.mark.filterwarnings("ignore")
def test_the_example_with_pytorch_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="no PyTorch: pip install torch onnxscript")
    run_examples(["import superopt", *(block for block in BLOCKS if TORCH in block)], tmp_path, monkeypatch)
    assert (tmp_path / "network.onnx").exists()


def test_everything_that_is_offered_is_described() -> None:
    assert [name for name in superopt.__all__ if f"`{name}`" not in PAGE] == ["__version__"]
