"""superopt library select, export --selected and compare: from proved rules to those that ship."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from superopt.cli.main import run
from superopt.journeys.library.comparison import compare
from superopt.substitution_db import RuleFilter, open_database
from superopt.substitution_db.rules.exchange import export_rules
from superopt.substitution_db.rules.shipped import SHIPPED_LIBRARY
from superopt.verifier.refute.refutation import Refutation
from superopt.verifier.verdict import CONTRADICTED
from tests.verifier.rules import NEEDS_PETABYTES

KEPT = "add(matmul(x, y), matmul(x, z)) <=> matmul(x, add(y, z))"
LEFT_OUT = "matmul(x, identity_matrix()) => x"


@pytest.fixture(autouse=True)
def _own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SUPEROPT_LIBRARY", os.devnull)
    monkeypatch.setenv("SUPEROPT_DATABASE_URL", str(tmp_path / "rules.db"))


def _verified(tmp_path: Path, *rules: str) -> None:
    (tmp_path / "rules.txt").write_text("\n".join(rules), encoding="utf-8")
    assert run(["library", "import", str(tmp_path / "rules.txt")]) == 0
    assert run(["library", "verify", "--jobs", "1"]) == 0


def test_rules_are_chosen_and_written_with_their_reasons(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _verified(tmp_path, KEPT, LEFT_OUT)
    shipped, whole = tmp_path / "shipped.jsonl", tmp_path / "whole.jsonl"
    assert run(["library", "export", "--selected", str(shipped)]) == 2
    assert "no rules are selected; run `superopt library select` first" in capsys.readouterr().err
    assert run(["library", "select", "--graph", "x W1 + x W2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["rules"], document["ships"]) == (2, 1)
    assert document["reasons"] == [
        {"ships": True, "why": "a search uses it", "rules": 1},
        {"ships": False, "why": "about constants that no model has", "rules": 1},
    ]
    (search,) = document["searches"]
    assert search["with_what_ships"] == search["with_every_rule"] < search["before"]
    assert document["peak_memory_bytes"] > 10_000_000

    assert run(["library", "export", "--selected", str(shipped)]) == 0
    assert run(["library", "export", str(whole)]) == 0
    (line,) = map(json.loads, shipped.read_text(encoding="utf-8").splitlines())
    assert (line["ships"], line["why"]) == (True, "a search uses it: x W1 + x W2")
    assert line["proof"]["milliseconds"] is None
    lines = [json.loads(text) for text in whole.read_text(encoding="utf-8").splitlines()]
    assert {each["ships"] for each in lines} == {True, False}
    assert all(each["proof"]["milliseconds"] > 0 for each in lines)

    assert run(["library", "export", "--left-out", str(tmp_path / "out.txt")]) == 0
    assert (tmp_path / "out.txt").read_text() == f"{LEFT_OUT}  # about constants that no model has\n"
    assert run(["library", "export", "--left-out", "--selected", str(tmp_path / "out.txt")]) == 2

    assert run(["library", "compare", str(shipped), str(shipped)]) == 0
    assert run(["library", "compare", str(whole), str(shipped), "--json"]) == 1
    printed = capsys.readouterr().out
    assert "the same rules with the same proofs" in printed
    document = json.loads(printed[printed.index("\n{") :])
    assert [rule["equation"] for rule in document["lost"]] == [LEFT_OUT]
    assert document["gained"] == document["changed"] == []

    monkeypatch.setenv("SUPEROPT_LIBRARY", str(shipped))
    monkeypatch.setenv("SUPEROPT_DATABASE_URL", str(tmp_path / "new.db"))
    assert run(["library", "show", line["id"]]) == 0
    printed = capsys.readouterr().out
    assert "ships" in printed
    assert "yes: a search uses it: x W1 + x W2" in printed
    assert run(["library", "list", "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["ships"], listed["why"]) == (True, "a search uses it: x W1 + x W2")


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_rule_that_lacks_memory_is_left_undecided(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, jobs: str
) -> None:
    (tmp_path / "rules.txt").write_text(f"{KEPT}\n{NEEDS_PETABYTES}\n", encoding="utf-8")
    assert run(["library", "import", str(tmp_path / "rules.txt")]) == 0
    assert run(["library", "verify", "--jobs", jobs]) == 3
    said = " ".join(capsys.readouterr().err.split())
    assert "1 of 2 were not judged, when tried twice: MemoryError: " in said
    with open_database(None) as opened:
        states = {rule.equation: (rule.status, rule.proof is None) for rule in opened.rules.list()}
    assert states == {KEPT: ("verified", False), NEEDS_PETABYTES: ("candidate", True)}


def test_a_proved_rule_that_chance_refutes_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rules.txt").write_text(KEPT, encoding="utf-8")
    assert run(["library", "import", str(tmp_path / "rules.txt")]) == 0
    drawn = Refutation("x: f32[1]: left[0] = 0, right[0] = 1", ())
    monkeypatch.setattr("superopt.verifier.verification.refute", lambda *_: drawn)
    assert run(["library", "verify", "--jobs", "1"]) == 1
    assert f"proved, and refuted by an unpredictable instance: {KEPT}" in capsys.readouterr().out
    with open_database(None) as opened:
        (rule,) = opened.rules.list()
    assert rule.proof is not None
    assert rule.proof.reason == f"{CONTRADICTED}{drawn.counterexample}"


def test_a_graph_that_there_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["library", "select", "--graph", "alexander"]) == 2
    assert "expected one of bert-base" in capsys.readouterr().err.replace("\n", " ")


def _made_anew(directory: Path, jobs: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The files that the steps of ``make library`` write for one preset, by name."""
    directory.mkdir()
    monkeypatch.setenv("SUPEROPT_DATABASE_URL", str(directory / "rules.db"))
    shipped, left_out = directory / "library.jsonl", directory / "left-out.txt"
    for command in (
        ["generate", "--preset", "gates", "--jobs", jobs],
        ["verify", "--jobs", jobs],
        ["select", "--graph", "x W1 + x W2"],
        ["export", "--selected", str(shipped)],
        ["export", "--left-out", str(left_out)],
    ):
        assert run(["library", *command]) == 0
    return {path.name: path.read_bytes() for path in (shipped, left_out)}


def test_a_preset_made_anew_in_one_process_or_two_gives_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = _made_anew(tmp_path / "alone", "1", monkeypatch)
    assert alone == _made_anew(tmp_path / "together", "2", monkeypatch)
    assert alone["library.jsonl"].count(b"\n") > 4


def test_a_preset_generated_and_proved_anew_gives_what_ships_of_it(tmp_path: Path) -> None:
    assert run(["library", "generate", "--preset", "powers"]) == 0
    assert run(["library", "verify", "--jobs", "2"]) == 0
    with open_database(None) as opened:
        anew = {rule.id: rule for rule in opened.rules.list()}
    with open_database(str(tmp_path / "shipped.db"), library=SHIPPED_LIBRARY) as opened:
        shipped = opened.rules.list(RuleFilter(preset="powers"))
    assert len(shipped) > 10
    assert {rule.id for rule in shipped} <= anew.keys()
    export_rules(shipped, tmp_path / "shipped.jsonl")
    export_rules([anew[rule.id] for rule in shipped], tmp_path / "anew.jsonl")
    found = compare(tmp_path / "shipped.jsonl", tmp_path / "anew.jsonl")
    differences = {what for changed in found.changed for what in changed.what}
    assert not any(what for what in differences if not what.endswith("-> not selected"))
