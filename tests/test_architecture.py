"""The documentation names functions, files and layers that exist."""

from __future__ import annotations

import importlib
import re
import tomllib
from collections.abc import Iterator
from functools import reduce
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "architecture.md"
TEXT = PAGE.read_text(encoding="utf-8")
NAMES = sorted(set(re.findall(r"superopt(?:\.\w+)+:[\w.]+\w", TEXT)))
ROW_OF_CHANGES = r"^\| (?!change|---)"

PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
FOLDERS = "axioms|benchmarks|docs|examples|generator|optimizer|server|substitution_db|superopt|tests|verifier"
PATH = re.compile(rf"(?<![\w./-])(?:{FOLDERS})(?:/[\w.-]+)*/[\w*.-]*\w")
MODULE = re.compile(r"`(superopt(?:\.\w+)+)`")
BENCHMARK = re.compile(r"python -m benchmarks (\w+)")


@pytest.mark.parametrize("name", NAMES)
def test_a_name_in_the_architecture_exists(name: str) -> None:
    module, _, path = name.partition(":")
    reduce(getattr, path.split("."), importlib.import_module(module))


def test_the_architecture_says_where_to_start() -> None:
    table = TEXT.partition("## Where to start")[2].partition("\n## ")[0]
    rows = re.findall(ROW_OF_CHANGES + ".*", table, re.MULTILINE)
    assert len(rows) >= 10
    assert all(re.search(r"`superopt\.[\w.]+:\w+", row) for row in rows)


def test_the_layers_are_those_that_are_enforced() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (layers,) = (one["layers"] for one in contracts["contracts"] if one["type"] == "layers")
    block = TEXT.partition("```layers\n")[2].partition("```")[0]
    assert block.splitlines() == layers


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_paths_that_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    # ci.md checks this repository out as the folder superopt.
    missing = {p for p in PATH.findall(text) if not any(map(any, (ROOT.glob(p), _in_checkout(p))))}
    assert not missing
    benchmarks = set(BENCHMARK.findall(text))
    assert benchmarks <= {path.stem for path in (ROOT / "benchmarks").glob("*/*.py")}


def _in_checkout(path: str) -> Iterator[Path]:
    return ROOT.glob(path.removeprefix("superopt/"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_imports_of_a_page_exist(page: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    imports = re.findall(r"^from (\w[\w.]*) import (.+)", "\n".join(blocks), re.MULTILINE)
    for module, names in imports:
        for name in names.split(", "):
            if not hasattr(importlib.import_module(module), name):
                importlib.import_module(f"{module}.{name}")
    own = ("axioms", "generator", "optimizer", "server", "substitution_db", "verifier")
    assert not [module for module, _ in imports if module.partition(".")[0] in own]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_modules_that_exist(page: Path) -> None:
    for name in MODULE.findall(page.read_text(encoding="utf-8")):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            module, _, attribute = name.rpartition(".")
            assert hasattr(importlib.import_module(module), attribute), name


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([\w-]*[./][\w./-]*)[)#]", prose):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
