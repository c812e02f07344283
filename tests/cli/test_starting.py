"""What starting a command imports, and completion in shells."""

from __future__ import annotations

import inspect
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from superopt.cli import choices
from superopt.cli.commands import rule
from superopt.cli.commands.axioms import axiom
from superopt.cli.commands.library import selection
from superopt.cli.main import run
from superopt.cli.registry import COMPLETING
from superopt.journeys.library.peers import PeerFormat
from superopt.journeys.library.trials import CANDIDATES
from superopt.journeys.proving import DEFAULT_SECONDS
from superopt.optimizer.cost import Provider
from superopt.substitution_db import RuleStatus
from superopt.verifier.axiom_checks.validation import SYMBOLIC_CASES
from tests.machine import require_program

HEAVY = {"alembic", "fastapi", "httpx", "lark", "numpy", "onnx", "onnxruntime", "sqlalchemy", "z3"}
"""Packages that take long to import."""

PROGRAM = "import sys; from superopt.cli.main import run; code = run(sys.argv[1:])"
PRINT = "; print('\\n' + repr(sorted({name.partition('.')[0] for name in sys.modules})))"


def imported_by(program: str, *words: str) -> set[str]:
    """The packages that a program imports in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", program + PRINT, *words], capture_output=True, text=True, check=True
    )
    packages = set(json.loads(done.stdout.splitlines()[-1].replace("'", '"')))
    assert "superopt" in packages
    return packages


@pytest.mark.parametrize(
    "words",
    ["--help", "--version", "optimize --help", "prove --help", "serve --help", "library --help",
     "library list --help", "axioms validate --help", "keys create --help", "train-graph --help",
     "completion bash"],
)  # fmt: skip
def test_help_imports_nothing_heavy(words: str) -> None:
    assert imported_by(PROGRAM, *words.split()) & HEAVY == set()


def test_importing_the_package_imports_nothing_heavy() -> None:
    assert imported_by("import sys, superopt; dir(superopt)") & (HEAVY | {"typer", "pydantic"}) == set()


def test_the_process_that_waits_for_an_optimization_imports_little() -> None:
    assert imported_by("import sys, superopt.cli.commands.optimize") & (HEAVY | {"psutil"}) == set()


def test_the_process_that_optimizes_imports_no_prover() -> None:
    """Provers, and the checker of descriptions of training steps, are for other tasks."""
    assert imported_by("import sys, superopt.journeys.optimize_job") & {"z3", "cvc5", "pydantic"} == set()


def test_the_process_that_optimizes_imports_no_networks() -> None:
    """Those of the zoo, which a learned estimator is built with."""
    imported_by("import sys, superopt.journeys.optimize_job; assert 'superopt.zoo' not in sys.modules")


def test_choices_of_options_are_those_of_the_modules_behind_them() -> None:
    assert get_args(choices.StatusName) == tuple(RuleStatus)
    assert get_args(choices.FormatName) == tuple(PeerFormat)
    assert get_args(choices.ProviderName) == tuple(Provider)
    for function, name, default in (
        (selection.select, "candidates", CANDIDATES),
        (axiom.validate, "symbolic", SYMBOLIC_CASES),
        (rule.prove, "seconds", DEFAULT_SECONDS),
    ):
        assert inspect.signature(function).parameters[name].default == default


def completions(line: str, shell: str = "bash") -> str:
    """What the script of a shell gets for a line that ends at the cursor."""
    words = line.split(" ")
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_TYPER_COMPLETE_ARGS": line}
    done = subprocess.run(
        [sys.executable, "-m", "superopt"],
        env={
            **os.environ,
            **asked,
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
            COMPLETING: f"complete_{shell}",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout


def test_completion_knows_commands_options_and_values() -> None:
    assert completions("superopt opti").split() == ["optimize"]
    assert completions("superopt library ex").split() == ["export"]
    assert completions("superopt optimize --bud").split() == ["--budget"]
    assert completions("superopt profile --target c").split() == ["cpu", "cuda"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_descriptions_too(shell: str) -> None:
    assert "Write rules with their proofs as JSON lines." in completions("superopt library ex", shell)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"{COMPLETING}=complete_{shell}" in script
    program = shutil.which(shell)
    if program is not None:
        subprocess.run([program, "-n"], input=script, text=True, check=True)


def test_bash_completes_with_the_script() -> None:
    bash = require_program("bash", "bash")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    script = (
        'eval "$(superopt completion bash)"; COMP_WORDS=(superopt pro); COMP_CWORD=1; '
        '_superopt_completion superopt; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        [bash, "-c", script], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["prove", "profile"]
