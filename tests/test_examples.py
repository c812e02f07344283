"""The examples, run as their READMEs say, with short budgets."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import onnx
import pytest

from superopt import zoo
from tests.conftest import WithLibrary
from tests.e2e.conftest import serving

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
OCR_MODELS = ROOT / "build" / "real" / "rapidocr-onnxruntime" / "rapidocr_onnxruntime" / "models"
"""Where ``python -m benchmarks real`` puts them."""


@pytest.fixture
def environment(tmp_path: Path, with_library: WithLibrary) -> dict[str, str]:
    """Commands find this Python's superopt, and a database of their own."""
    commands = tmp_path / "commands"
    commands.mkdir()
    command = commands / "superopt"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m superopt "$@"\n')
    command.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", ""))),
        "SUPEROPT_DATABASE_URL": with_library(tmp_path / "superopt.db"),
    }


def done(words: list[str | Path], environment: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, words)), env=environment, cwd=cwd, capture_output=True, text=True, check=False
    )


def test_every_example_is_listed_and_fits_a_screen() -> None:
    index = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    folders = [path.name for path in sorted(EXAMPLES.iterdir()) if path.is_dir()]
    assert len(folders) == 5
    for folder in folders:
        assert f"({folder}/README.md)" in index
        text = (EXAMPLES / folder / "README.md").read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 45, folder


def test_an_ocr_pipeline_reads_the_same(environment: dict[str, str], tmp_path: Path) -> None:
    words: list[str | Path] = ["-o", tmp_path / "out", "--budget", "5", "--threads", "1"]
    if find_spec("rapidocr_onnxruntime") is None:
        if not OCR_MODELS.is_dir():
            pytest.skip("no OCR networks: pip install rapidocr-onnxruntime, or python -m benchmarks real")
        words += ["--models", OCR_MODELS]
    ran = done([sys.executable, EXAMPLES / "ocr" / "ocr.py", *words], environment, tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert [line.partition(":")[0] for line in ran.stdout.splitlines()[:3]] == ["det", "cls", "rec"]
    assert len(list((tmp_path / "out").glob("*.onnx"))) == 3


def test_a_pipeline_of_scikit_learn_answers_the_same(environment: dict[str, str], tmp_path: Path) -> None:
    for package in ("sklearn", "skl2onnx"):
        pytest.importorskip(package, reason="no scikit-learn: pip install scikit-learn skl2onnx")
    words = [sys.executable, EXAMPLES / "scikit-learn" / "digits.py", "-o", tmp_path, "--budget", "10"]
    ran = done(words, environment, tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("Result(")
    onnx.checker.check_model(str(tmp_path / "digits-optimised.onnx"))


def test_rules_are_gated(environment: dict[str, str], tmp_path: Path) -> None:
    """The README's session, in a copy of its folder."""
    folder = tmp_path / "repository"
    shutil.copytree(EXAMPLES / "ci-gate", folder)
    passing = done(["./check-rules.sh"], environment, folder)
    assert (passing.returncode, passing.stdout) == (0, "4 of 4 rules pass\n"), passing.stderr
    with (folder / "rules" / "activations.txt").open("a") as file:
        file.write("relu(add(x, y)) => add(relu(x), relu(y))\n")
    failing = done(["./check-rules.sh"], environment, folder)
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert failing.returncode == 1
    assert failing.stdout in readme
    assert failing.stderr.splitlines()[-1] in readme


def test_a_model_is_optimised_at_a_service(environment: dict[str, str], tmp_path: Path) -> None:
    onnx.save(zoo.build("light-mlp"), tmp_path / "mlp.onnx")
    with serving(environment, tmp_path / "log") as address:
        words = [EXAMPLES / "service" / "submit.py", address, "mlp.onnx", "-o", "results", "--budget", "5"]
        ran = done([sys.executable, *words], environment, tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "state: succeeded" in ran.stdout
    onnx.checker.check_model(str(tmp_path / "results" / "mlp-optimised.onnx"))
    report = json.loads((tmp_path / "results" / "mlp-report.json").read_text(encoding="utf-8"))
    assert ran.stdout.splitlines()[-2] == f"{report['returned']}: {report['why']}"


def test_a_plan_is_made_for_a_cluster(environment: dict[str, str], tmp_path: Path) -> None:
    ran = done([EXAMPLES / "cluster" / "plan.sh", tmp_path / "plan", "30"], environment, tmp_path)
    assert ran.returncode == 0, ran.stderr
    report = json.loads((tmp_path / "plan" / "plan.json").read_text(encoding="utf-8"))
    assert report["parallel"]["cluster"]["devices"] == 8
    manifest = json.loads((tmp_path / "plan" / "shards" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest
    assert json.loads((tmp_path / "plan" / "timeline.json").read_text(encoding="utf-8"))
