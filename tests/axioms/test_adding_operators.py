"""docs/adding-an-operator.md followed in a copy of the source: its operators get axioms and derived tests."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import pytest

from superopt.axioms import load_axioms
from superopt.equations import format_equation

ROOT = Path(__file__).parents[2]
PACKAGES = ("superopt", "axioms", "generator", "verifier", "substitution_db", "optimizer", "server", "tests")
BLOCK = re.compile(r"```(?:python)?\n# ((?:superopt/ops|axioms)/\S+)\n(.*?)```", re.DOTALL)
DERIVED = ("tests/ops", "tests/onnx_io/test_operators.py", "tests/axioms/test_loader.py")
"""Test files that go over the registry."""

LAWS = {
    "softsign": {
        "concat-of-softsign": "concat[axis=a](softsign(x), softsign(y)) = softsign(concat[axis=a](x, y))",
        "transpose-of-softsign": "transpose[perm=p](softsign(x)) = softsign(transpose[perm=p](x))",
        "enlarge-of-softsign": "enlarge[kernel=k](softsign(x)) = softsign(enlarge[kernel=k](x))",
        "replicate-of-softsign": "replicate[degree=d](softsign(x)) = softsign(replicate[degree=d](x))",
    },
    "reduce_product": {
        "reduce-product-of-one": "reduce_product[axis=a](x) = x where dim(x, a) = 1",
        "reduce-product-axis": (
            "reduce_product[axis=a](x) = reduce_product[axis=b](x) where axis(x, a) = axis(x, b)"
        ),
        "split0-of-reduce-product": (
            "split0[axis=b](reduce_product[axis=a](x)) = reduce_product[axis=a](split0[axis=b](x)) "
            "where axis(x, a) != axis(x, b)"
        ),
    },
    "minpool": {
        "minpool-concat-batch": (
            "concat[axis=0](minpool[kernel=e, stride=f, padding=g](x), "
            "minpool[kernel=e, stride=f, padding=g](y)) "
            "= minpool[kernel=e, stride=f, padding=g](concat[axis=0](x, y))"
        ),
        "minpool-same-is-upper": (
            "minpool[kernel=k, padding=same](x) = minpool[kernel=k, padding=same_upper](x)"
        ),
    },
}


class Checkout:
    """A copy of the source in which the document was followed."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def run(self, *arguments: str) -> str:
        """What ``python -m ...`` prints there; it must succeed."""
        done = subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": str(self.root)},
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
        return done.stdout

    @cached_property
    def axioms(self) -> Mapping[str, Mapping[str, str]]:
        """Each axiom as ``superopt axioms list`` gives it."""
        listed = json.loads(self.run("superopt.cli", "axioms", "list", "--json"))
        return {entry["name"]: entry for entry in listed}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    root = tmp_path_factory.mktemp("checkout")
    for name in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, root / name, symlinks=True, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", root)
    touched: dict[str, list[str]] = {}
    for path, text in BLOCK.findall((ROOT / "docs/adding-an-operator.md").read_text("utf-8")):
        touched.setdefault(path, []).append(text)
    assert len(touched) == 2 * len(LAWS)
    for path, texts in touched.items():
        with (root / path).open("a", encoding="utf-8") as file:
            file.writelines(f"\n\n{text}" for text in texts)
    return Checkout(root)


@pytest.mark.parametrize("operator", LAWS)
def test_the_laws_of_its_traits_are_axioms(operator: str, checkout: Checkout) -> None:
    axioms = checkout.axioms
    for name, equation in LAWS[operator].items():
        assert axioms[name]["equation"] == equation
        assert axioms[name]["schema"].startswith("for f in ")


def test_other_axioms_stay_as_they_are(checkout: Checkout) -> None:
    axioms = checkout.axioms
    assert {name: axioms[name]["equation"] for name in load_axioms().by_name} == {
        axiom.name: format_equation(axiom) for axiom in load_axioms().equations
    }


def test_its_axioms_hold(checkout: Checkout) -> None:
    known = {**load_axioms().by_name, **load_axioms().adjoints_by_name}
    new = [name for name in checkout.axioms if name not in known]
    assert len(new) >= 40
    chosen = [option for name in new for option in ("--axiom", name)]
    limits = ("--max-dim", "2", "--symbolic", "1", "--jobs", "1", "--no-cache")
    assert f"{len(new)} of {len(new)} axioms hold" in checkout.run(
        "superopt.cli", "axioms", "validate", *limits, *chosen
    )


def test_rules_about_it_are_proved(checkout: Checkout) -> None:
    rule = "concat[axis=1](softsign(relu(x)), softsign(y)) => softsign(concat[axis=1](relu(x), y))"
    assert "concat-of-softsign" in checkout.run("superopt.cli", "prove", rule)


def test_tests_derived_from_the_registry_run_on_it(checkout: Checkout) -> None:
    chosen = " or ".join((*LAWS, "every_registered_operator", "every_operator_is_mentioned"))
    printed = checkout.run("pytest", "-q", "-p", "no:cacheprovider", "-k", chosen, *DERIVED)
    passed = re.search(r"(\d+) passed", printed)
    assert passed is not None
    assert int(passed.group(1)) > 50
