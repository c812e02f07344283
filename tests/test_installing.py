"""What is installed, and what is said of what is not: the wheel, the extras, the two runtimes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from starlette.requests import Request

from superopt.axioms import load_axioms
from superopt.cli.commands.service import processes
from superopt.cli.main import run
from superopt.equations import parse_equation
from superopt.errors import MissingServiceError
from superopt.optimizer.cost.runtime import session
from superopt.optimizer.cost.runtime.installation import BOTH_RUNTIMES, has_both_runtimes
from superopt.server.page import routes
from superopt.substitution_db.store.remote import RemoteStore
from superopt.verifier import Status, verify
from superopt.verifier.prove import cvc5_prover
from tests.onnx_io.kit import model, node, value

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
FOLDERS = ("axioms", "generator", "optimizer", "server", "substitution_db", "superopt", "verifier")
FILES = ("LICENSE", "README.md", "pyproject.toml")

HOOKS = """
import sys
from setuptools import build_meta
print(build_meta.build_wheel("dist"), build_meta.build_sdist("dist"), file=sys.stderr)
"""


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel and a source distribution, built without network from a copy of the sources."""
    copy = tmp_path_factory.mktemp("sources")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, copy)
    (copy / "dist").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", HOOKS], cwd=copy, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return copy / "dist"


def test_the_wheel_has_all_code_and_data(distributions: Path) -> None:
    (wheel,) = distributions.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    expected = {
        path.relative_to(ROOT).as_posix().removeprefix("superopt/")
        for name in FOLDERS
        for path in (ROOT / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and "/" in path.relative_to(ROOT).as_posix()
    }
    assert {name for name in expected if f"superopt/{name}" not in names} == set()
    wanted = (
        "py.typed",
        "axioms/activation.axioms",
        "substitution_db/library.jsonl",
        "server/page/files/index.html",
    )
    assert {f"superopt/{name}" for name in wanted} <= names
    assert [name for name in names if name.endswith("licenses/LICENSE")]
    assert not [name for name in names if name.startswith(("tests", "benchmarks"))]


def test_the_source_distribution_has_what_the_wheel_is_built_from(distributions: Path) -> None:
    (source,) = distributions.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = (
        "py.typed",
        "axioms/activation.axioms",
        "substitution_db/library.jsonl",
        "server/page/files/index.html",
    )
    assert {"LICENSE", "pyproject.toml", *(f"superopt/{name}" for name in wanted)} <= names


def test_extras_keep_their_names_and_the_core_is_small() -> None:
    assert {"cpu", "gpu", "distributed", "postgres", "jax", "dev"} <= EXTRAS.keys()
    names = {re.match(r"[\w-]+", requirement)[0] for requirement in PROJECT["dependencies"]}  # pyright: ignore[reportOptionalSubscript]
    assert "onnxruntime" in names
    assert names.isdisjoint(
        {"cvc5", "fsspec", "netron", "onnx-ir", "sympy", "uvloop", "scipy", "dask", "jax"}
    )


def test_every_extra_is_explained() -> None:
    page = (ROOT / "docs" / "installing.md").read_text(encoding="utf-8")
    assert {extra for extra in EXTRAS if f"`{extra}`" not in page} == set()


@pytest.mark.parametrize("chosen", ["cpu", "gpu"])
def test_an_image_gets_one_runtime(chosen: str) -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    (command,) = re.findall(r"^RUN (python3 -c .*?) > requirements.txt", dockerfile, re.MULTILINE | re.DOTALL)
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=ROOT,
        env={**os.environ, "RUNTIME": chosen},
        capture_output=True,
        text=True,
        check=True,
    )
    runtimes = [line for line in done.stdout.splitlines() if line.startswith("onnxruntime")]
    assert runtimes == [{"cpu": "onnxruntime>=1.31", "gpu": "onnxruntime-gpu>=1.31"}[chosen]]
    assert any(line.startswith("psycopg") for line in done.stdout.splitlines())


@pytest.fixture
def without_runtime(tmp_path: Path) -> dict[str, str]:
    """An environment in which ONNX Runtime is not installed."""
    (tmp_path / "missing").mkdir()
    (tmp_path / "missing" / "onnxruntime.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'onnxruntime'\")"
    )
    path = os.pathsep.join([str(tmp_path / "missing"), str(ROOT)])
    return {**os.environ, "PYTHONPATH": path, "SUPEROPT_DATABASE_URL": f"sqlite:///{tmp_path / 'rules.db'}"}


@pytest.mark.parametrize(
    "words", [("optimize", "m.onnx", "-o", "o.onnx"), ("inspect", "m.onnx"), ("check", "m.onnx", "m.onnx")]
)
def test_without_a_runtime_there_is_one_sentence(
    words: tuple[str, ...], without_runtime: dict[str, str], tmp_path: Path
) -> None:
    made = model([node("Relu", "x", "y")], [value("x", [2])], [value("y", [2])])
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    done = subprocess.run(
        [sys.executable, "-m", "superopt", *words],
        cwd=tmp_path,
        env=without_runtime,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == MissingServiceError.exit_code, done.stderr
    (line,) = done.stderr.splitlines()
    assert "`pip install onnxruntime`" in line
    assert not (tmp_path / "o.onnx").exists()


@pytest.mark.parametrize("command", ["serve", "worker"])
def test_the_service_needs_the_runtime_for_its_workers(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(processes, "find_spec", lambda _: None)
    assert run([command]) == MissingServiceError.exit_code
    assert "`pip install onnxruntime`" in capsys.readouterr().err


def test_both_runtimes_together_are_named_where_the_device_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not has_both_runtimes()
    for name in ("onnxruntime", "onnxruntime_gpu"):
        information = tmp_path / f"{name}-1.0.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n"
        )
    monkeypatch.syspath_prepend(tmp_path)
    assert has_both_runtimes()
    with pytest.raises(MissingServiceError, match=re.escape(BOTH_RUNTIMES)):
        session._require(session.Provider.CUDA, ["CPUExecutionProvider"])


def test_without_the_second_prover_most_is_proved_and_the_rest_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cvc5_prover, "is_installed", lambda: False)
    verdict = verify(parse_equation("relu(relu(x)) => relu(x)"), load_axioms())
    assert (verdict.status, verdict.confirmed_by) == (Status.VERIFIED, "")
    goal = parse_equation("relu(x) => x")
    answer = cvc5_prover.ask(goal, (), cvc5_prover.Search.ENUMERATION, cvc5_prover.SolverLimits())
    assert (answer.proved, answer.reason) == (False, cvc5_prover.NOT_INSTALLED)


def test_without_the_viewer_its_frame_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "_viewer_names", dict)
    response = routes.show_viewer(Request({"type": "http", "headers": []}), "index.html")
    assert b"pip install 'superopt[page]'" in response.body


def test_a_remote_store_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(MissingServiceError, match="`pip install fsspec`"):
        RemoteStore("s3://bucket")
