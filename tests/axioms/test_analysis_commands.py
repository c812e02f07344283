"""superopt axioms consistency, redundancy: what is planted is named with its chain, and the exit code 1."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from superopt.axioms import AxiomSet, load_axioms
from superopt.cli.main import run
from superopt.equations import parse_equation

FEW = ("split0-of-concat", "split1-of-concat", "relu-idempotent", "add-commutative")


def _axioms(text: str) -> AxiomSet:
    """A few shipped axioms, and one that is planted."""
    shipped = load_axioms()
    return AxiomSet(
        tuple(shipped.by_name[name] for name in FEW), {name: shipped.families[name] for name in FEW}
    ).with_equations(parse_equation(text, "planted"))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def _plant(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("superopt.axioms.load_axioms", lambda: _axioms(text))


ASSOCIATIVE = "concat[axis=a](x, concat[axis=a](y, z)) = concat[axis=a](concat[axis=a](x, y), z)"


def test_an_inconsistent_axiom_is_exit_1_with_its_chain(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _plant(monkeypatch, ASSOCIATIVE)
    assert run(["axioms", "consistency", "--jobs", "1", "--axiom", "planted"]) == 1
    printed = capsys.readouterr().out
    assert "(x, y), z))  by planted, at input 1\n" in printed
    assert "\n  implicit: every step is well-typed, but types determine a term differently in two" in printed
    assert printed.splitlines()[-1].startswith("1 axiom: ")
    assert run(["axioms", "consistency", "--jobs", "1", "--axiom", "planted", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["consistent"] is False
    assert [each["axioms"] for each in document["inconsistencies"]] == [["planted"]]


def test_consistent_axioms_are_exit_0_and_undecided_ones_exit_3(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _plant(monkeypatch, "mul(x, y) = mul(y, x)")
    assert run(["axioms", "consistency", "--jobs", "1", "--budget", "0"]) == 3
    assert "undecided: planted: the time did not suffice" in capsys.readouterr().out
    assert run(["axioms", "consistency", "--jobs", "1"]) == 0
    assert capsys.readouterr().out.endswith("Z3 queries: 0 inconsistencies, 0 notes\n")
    assert run(["axioms", "consistency", "--jobs", "1", "--budget", "0", "--json"]) == 0, "answers are kept"
    document = json.loads(capsys.readouterr().out)
    assert (document["axioms"], document["consistent"], document["undecided"]) == (5, True, [])
    assert run(["axioms", "consistency", "--jobs", "1", "--budget", "0", "--no-cache"]) == 3


def test_a_redundant_axiom_is_exit_1_with_its_proof(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _plant(monkeypatch, "relu(relu(relu(x))) = relu(x)")
    assert run(["axioms", "redundancy", "--jobs", "1", "--axiom", "planted"]) == 1
    assert capsys.readouterr().out == (
        "planted: redundant, follows from relu-idempotent\n"
        "      relu(relu(relu(x)))\n"
        "    = relu(relu(x))        by relu-idempotent, at input 1\n"
        "    = relu(x)              by relu-idempotent\n"
        "\n"
        "1 axiom: 1 redundant, 0 undecided; 0 of 0 lemmas shown to follow from the others\n"
    )
    assert run(["axioms", "redundancy", "--jobs", "1", "--axiom", "planted", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["redundant"] == ["planted"]


def test_no_redundant_axiom_is_exit_0_and_an_undecided_one_exit_3(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _plant(monkeypatch, "relu(tanh(x)) = tanh(relu(x))")
    assert run(["axioms", "redundancy", "--jobs", "1", "--family", "added", "--budget", "0"]) == 3
    assert "undecided: planted: the time did not suffice\n" in capsys.readouterr().out
    assert run(["axioms", "redundancy", "--jobs", "1", "--family", "added"]) == 0
    assert capsys.readouterr().out == (
        "1 axiom: 0 redundant, 0 undecided; 0 of 0 lemmas shown to follow from the others\n"
    )


@pytest.mark.parametrize("command", ["consistency", "redundancy"])
@pytest.mark.parametrize(
    "options", [("--axiom", "nothing"), ("--family", "cubic"), ("--budget", "-1"), ("--jobs", "0")]
)
def test_bad_options_are_exit_2(
    command: str, options: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["axioms", command, *options]) == 2
    assert capsys.readouterr().err.startswith("superopt: ")
