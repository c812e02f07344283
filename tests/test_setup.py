"""Setting up on a fresh machine: what is installed for what, and what is said of what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import superopt

ROOT = Path(__file__).parent.parent


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """A checkout where nothing is installed."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def make(directory: Path, *words: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": path or os.environ["PATH"]}
    command = [shutil.which("make") or "make", "--no-print-directory", *words]
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False
    )


def installed(directory: Path, target: str) -> str:
    """What pip would be asked to install for a target."""
    planned = make(directory, "--dry-run", target)
    assert planned.returncode == 0, planned.stderr
    return "\n".join(line for line in planned.stdout.splitlines() if "pip install" in line)


def test_the_demo_installs_what_it_needs_and_tests_add_to_that(fresh: Path) -> None:
    demo, tests = installed(fresh, "demo"), installed(fresh, "test")
    assert "--editable '.[cpu]'" in demo
    for extra in ("dev", "jax", "postgres", "distributed", "discovery", "otel"):
        assert extra not in demo
        assert extra in tests
    assert tests.startswith(demo)
    (fresh / ".venv").mkdir()
    (fresh / ".venv" / "installed-cpu").touch()
    assert installed(fresh, "demo") == ""
    assert "dev" in installed(fresh, "test")


def test_the_first_line_of_the_demo_comes_before_anything_is_installed(fresh: Path) -> None:
    planned = make(fresh, "--dry-run", "demo").stdout
    assert planned.index('echo "Installing') < planned.index("pip install")


def test_an_old_python_is_one_clear_line(fresh: Path) -> None:
    done = make(fresh, "demo", "PYTHON=false")
    assert done.returncode == 2
    assert done.stderr.splitlines()[0].startswith("superopt needs Python 3.11 or newer")


def test_without_rights_nothing_is_installed_on_the_machine_and_tests_go_on(fresh: Path) -> None:
    programs = fresh / "programs"
    programs.mkdir()
    (programs / "bash").symlink_to("/bin/bash")
    done = make(fresh, "packages", "APT=no", path=str(programs))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_whole_check_is_make_test() -> None:
    commands = [
        line
        for line in (ROOT / ".ci" / "run").read_text().splitlines()
        if line and not line.startswith(("#", "set -", "cd "))
    ]
    assert commands == ["exec make --no-print-directory test"]


def test_the_end_of_a_run_says_once_how_to_get_what_was_missing(tmp_path: Path) -> None:
    test = tmp_path / "test_it.py"
    test.write_text(
        "import pytest\n"
        "from tests.machine import require_chromium, require_program\n"
        "@pytest.mark.parametrize('number', range(3))\n"
        "def test_a_program(number): require_program('no-such-program', 'the-package')\n"
        "def test_a_browser(): require_chromium()\n"
        "def test_nothing(): pass\n"
    )
    words = ("-q", "-n", "0", "-p", "no:cacheprovider", "-p", "tests.conftest", "--rootdir", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, str(test)],
        cwd=ROOT,
        env={**os.environ, "PATH": str(tmp_path), "HOME": str(tmp_path), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-3:-1] == [
        "skipped 3: no no-such-program: apt-get install the-package",
        "skipped 1: no Chromium: apt-get install chromium libatomic1, or playwright install chromium",
    ]
    assert "1 passed, 4 skipped" in done.stdout.splitlines()[-1]


def test_superopt_is_the_only_name_that_is_installed(tmp_path: Path) -> None:
    """Run in isolated mode from elsewhere, so that nothing but what is installed is found."""
    names = sorted(path.name for path in ROOT.iterdir() if (path / "__init__.py").exists())
    program = f"import importlib.util as u; print([n for n in {names} if u.find_spec(n)])"
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "optimizer" in names
    assert done.stdout.strip() == "['superopt']"


def test_what_the_package_offers_is_listed_and_there() -> None:
    assert set(superopt.__all__) <= set(dir(superopt))
    assert all(getattr(superopt, name) is not None for name in superopt.__all__)
    assert superopt.__version__ == metadata.version("superopt")
    assert (ROOT / "superopt" / "py.typed").exists()
