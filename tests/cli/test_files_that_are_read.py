"""No command replaces a file that it reads by what it writes, but a model by the one that is made of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from superopt.cli.main import run

READ = ("s.onnx", "c.yaml", "r.json", "p.json", "d.npz")


@pytest.fixture(autouse=True)
def _in_a_folder_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them is read before that what is written is one of them."""
    monkeypatch.chdir(tmp_path)
    for name in READ:
        Path(name).write_text(f"the content of {name}")


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        (
            "strategy build PS s.onnx --cluster c.yaml -o s.onnx",
            "output: expected a file of its own, and s.onnx",
        ),
        ("strategy build PS s.onnx --cluster c.yaml -o ./c.yaml", "c.yaml is the cluster"),
        ("strategy auto s.onnx --cluster c.yaml -o s.onnx", "s.onnx is the training step"),
        ("strategy auto s.onnx --cluster c.yaml -o c.yaml", "c.yaml is the cluster"),
        ("strategy apply p.json s.onnx --cluster c.yaml -o s.onnx", "s.onnx is the training step"),
        ("strategy apply p.json s.onnx --cluster c.yaml -o p.json", "p.json is the strategy"),
        (
            "strategy apply p.json s.onnx --cluster c.yaml --data d.npz -o d.npz",
            "d.npz is the file of samples",
        ),
        ("strategy import p.json --cluster c.yaml -o c.yaml", "c.yaml is the cluster"),
        ("strategy import p.json -o p.json", "p.json is the strategy"),
        ("strategy export p.json -o p.json", "p.json is the strategy"),
        ("timeline s.onnx r.json --cluster c.yaml -o s.onnx", "s.onnx is the model"),
        ("timeline s.onnx r.json --cluster c.yaml -o r.json", "r.json is the report"),
        ("timeline s.onnx r.json --cluster c.yaml -o c.yaml", "c.yaml is the cluster"),
        ("optimize s.onnx -o c.yaml --cluster c.yaml", "c.yaml is the cluster"),
        ("optimize s.onnx -o d.npz --inputs d.npz", "d.npz is the file of inputs"),
        (
            "optimize s.onnx -o o.onnx --cluster c.yaml --strategy p.json --report p.json",
            "p.json is the strategy",
        ),
        (
            "optimize s.onnx -o o.onnx --cluster c.yaml --plan r.json --report r.json",
            "report: expected a file of",
        ),
        ("submit s.onnx --server http://127.0.0.1:9 -o c.yaml --cluster c.yaml", "c.yaml is the cluster"),
        ("replay s.onnx r.json -o r.json", "r.json is the report"),
        ("report r.json -o r.json", "r.json is the report"),
        ("train-graph s.onnx -o s.onnx", "s.onnx is the inference model"),
    ],
)
def test_what_is_read_is_kept(command: str, refusal: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command.split()) == 2
    assert refusal in capsys.readouterr().err
    assert [Path(name).read_text() for name in READ] == [f"the content of {name}" for name in READ]


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        (
            "strategy build PS s.onnx --cluster c.yaml -o q.txt",
            "expected a path that ends in .json or .pb, got q.txt",
        ),
        (
            "strategy auto s.onnx --cluster c.yaml -o q.JSON",
            "expected a path that ends in .json or .pb, got q.JSON",
        ),
        ("strategy import p.json -o q.pb", "expected a path that ends in .json, got q.pb"),
        ("strategy export p.json -o q.json", "expected a path that ends in .pb, got q.json"),
    ],
)
def test_strategies_have_names_by_which_they_are_read(
    command: str, refusal: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command.split()) == 2
    assert refusal in capsys.readouterr().err
