"""Changing one axiom makes exactly the rules stale whose proofs used it, and the gate says so."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import superopt.axioms as axioms_package
from superopt.axioms import AxiomSet, load_axioms
from superopt.equations import parse_equation, rule_id
from superopt.journeys.library.discovery import verify_pending
from superopt.journeys.library.gate import gate_database, gate_files
from superopt.substitution_db import CandidateRule, Database, open_database
from superopt.substitution_db.rules.currency import Currency, current
from superopt.substitution_db.rules.exchange import export_rules
from superopt.verifier.gate import current_state

RULES = (
    "relu(relu(x)) => relu(x)",
    "identity(relu(x)) => relu(x)",
    "matmul(x, matmul(y, z)) <=> matmul(matmul(x, y), z)",
    "add(matmul(x, y), matmul(x, z)) => matmul(x, add(z, y))",
    "concat[axis=a](add(x, y), add(z, w)) => add(concat[axis=a](y, w), concat[axis=a](x, z))",
    "split0[axis=a](relu(concat[axis=a](x, y))) => relu(x)",
)
PACKAGE = Path(axioms_package.__file__).parent
AXIOMS = load_axioms()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Database]]:
    """A database of verified rules, and its URL."""
    directory = tmp_path_factory.mktemp("library")
    url = f"sqlite:///{directory}/rules.db"
    with open_database(url, library=directory / "none.jsonl") as database:
        database.rules.add_candidates(CandidateRule(parse_equation(text), "test") for text in RULES)
        assert verify_pending(database).verified == len(RULES)
        yield url, database


def users_of(database: Database, name: str) -> set[str]:
    """The rules whose proofs used the axiom."""
    return {
        rule.id
        for rule in database.rules.verified_rules(current())
        if rule.proof and name in rule.proof.axioms_used
    }


def used_axioms(database: Database) -> list[str]:
    """All axioms that any proof used."""
    rules = database.rules.verified_rules(current())
    return sorted({name for rule in rules if rule.proof for name in rule.proof.axioms_used})


def with_axiom(name: str, equation: str) -> AxiomSet:
    """The axioms with another equation under one name; without it when the equation is empty."""
    new = (parse_equation(equation, name),) if equation else ()
    others = tuple(axiom for axiom in AXIOMS.equations if axiom.name != name)
    return AxiomSet((*others, *new), AXIOMS.families)


@pytest.mark.parametrize("change", ["changed", "gone"])
def test_exactly_the_rules_that_used_an_axiom_are_stale(library: tuple[str, Database], change: str) -> None:
    _, database = library
    used = used_axioms(database)
    assert {"add-commutative", "relu-idempotent", "matmul-associative"} <= set(used)
    for name in used:
        expected = users_of(database, name)
        changed = with_axiom(name, "identity(identity(x)) = x" if change == "changed" else "")
        result = gate_database(database, Currency(current_state(changed)))
        assert {offender.id for offender in result.offenders} == expected != set()
        says = f"axioms are gone: {name}" if change == "gone" else "an axiom of its proof has changed"
        assert all(says in offender.reason and name in offender.reason for offender in result.offenders)
        assert result.rules == len(RULES)
        # what makes a rule stale is undone with it: the proofs are still there
        assert gate_database(database, current()).passed


def test_an_axiom_that_no_proof_used_makes_no_rule_stale(library: tuple[str, Database]) -> None:
    _, database = library
    used = set(used_axioms(database))
    unused = [axiom.name for axiom in AXIOMS.equations if axiom.name not in used]
    assert len(unused) > 300
    for name in unused[::40]:
        for equation in ("identity(identity(x)) = x", ""):
            assert gate_database(database, Currency(current_state(with_axiom(name, equation)))).passed
    added = AXIOMS.with_equations(parse_equation("add(x, y) = add(identity(y), x)", "one-more"))
    assert gate_database(database, Currency(current_state(added))).passed


def test_a_file_of_rules_is_stale_like_a_database(library: tuple[str, Database], tmp_path: Path) -> None:
    _, database = library
    file = tmp_path / "rules.jsonl"
    export_rules(database.rules.list(), file)
    changed = Currency(current_state(with_axiom("relu-idempotent", "relu(relu(relu(x))) = relu(x)")))
    assert gate_files([file], current()).passed
    result = gate_files([file], changed)
    assert {offender.id for offender in result.offenders} == users_of(database, "relu-idempotent")


def gate(url: str, directory: Path) -> tuple[int, dict[str, list[dict[str, str]]]]:
    """``superopt gate`` with the package that ``directory`` has."""
    program = "from superopt.cli import main; main()"
    environment = os.environ | {
        "PYTHONPATH": str(directory),
        "SUPEROPT_LIBRARY": os.devnull,
    }
    done = subprocess.run(
        [sys.executable, "-c", program, "gate", "--json", "--database", url],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def test_the_command_says_which_rules_an_edited_axiom_made_stale(
    library: tuple[str, Database], tmp_path: Path
) -> None:
    url, database = library
    copy = tmp_path / "superopt"
    shutil.copytree(PACKAGE.parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    file = copy / "axioms" / "elementwise.axioms"
    text = file.read_text("utf-8")
    file.write_text(text.replace("# ring: Sums are", "# ring: Sums of numbers are"), encoding="utf-8")
    assert gate(url, tmp_path)[0] == 0, "another reason says nothing else"

    axiom = "add(x, y) = add(y, x)"
    assert text.count(axiom) == 1
    file.write_text(text.replace(axiom, "add(x, y) = add(y, identity(x))"), encoding="utf-8")
    code, document = gate(url, tmp_path)
    expected = {rule_id(parse_equation(rule)) for rule in (RULES[3], RULES[4])}
    assert users_of(database, "add-commutative") == expected
    assert (code, {offender["id"] for offender in document["offenders"]}) == (1, expected)
    for offender in document["offenders"]:
        assert offender["reason"].startswith("stale: an axiom of its proof has changed (add-commutative, ")
