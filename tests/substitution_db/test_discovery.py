from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from superopt.equations import parse_equation, rule_id
from superopt.generator import load_preset
from superopt.journeys.library.discovery import Verification, discover, verify_all, verify_pending
from superopt.journeys.library.gate import gate_database, gate_files
from superopt.journeys.library.judging import prove_equation
from superopt.substitution_db import CandidateRule, Database, RuleFilter, RuleStatus, open_database
from superopt.substitution_db.rules.currency import current
from superopt.substitution_db.rules.exchange import export_rules
from superopt.substitution_db.store.records import Proof
from superopt.verifier.pool import judge_for_good
from tests.substitution_db.slow_judge import GATE, HELD_UP

OPERATORS = ["relu", "transpose"]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of a few discovered and proved rules, as exported."""
    directory = tmp_path_factory.mktemp("library")
    with open_database(str(directory / "rules.db"), library=directory / "none") as database:
        discover(database, load_preset("matrix"), max_ops=2, operators=OPERATORS)
        export_rules(database.rules.list(RuleFilter(status=RuleStatus.VERIFIED)), directory / "library.jsonl")
    return directory / "library.jsonl"


def test_discovery_finds_and_proves_and_continues_where_it_was(database: Database) -> None:
    seen: list[tuple[int, int]] = []

    def interrupt(done: int, total: int) -> None:
        seen.append((done, total))
        if done == 2:
            raise KeyboardInterrupt

    preset = load_preset("matrix")
    with pytest.raises(KeyboardInterrupt):
        discover(database, preset, max_ops=2, operators=OPERATORS, verify_progress=interrupt)
    assert seen == [(1, 3), (2, 3)]
    left = len(database.rules.undecided(current()))
    assert 0 < left < 3
    result = discover(database, preset, max_ops=2, operators=OPERATORS)
    assert result.verification == Verification(
        judged=left, verified=left, refuted=0, unproved=0, superseded=0
    )
    assert [rule.equation for rule in database.rules.verified_rules(current())] == [
        rule.equation for rule in database.rules.list()
    ]
    assert {rule.equation for rule in database.rules.list()} == {
        "relu(relu(x)) => relu(x)",
        "relu(transpose(x)) <=> transpose(relu(x))",
        "transpose(transpose(x)) => x",
    }
    assert verify_pending(database) == Verification(0, 0, 0, 0, 0)
    assert verify_all(database).verified == 3


KILLED_HALF_WAY = """
import os, signal, sys
from pathlib import Path
from superopt.substitution_db import open_database
from superopt.journeys.library.discovery import verify_pending

def end(done, total):
    if done == 3:
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    with open_database(sys.argv[1], library=Path("none")) as database:
        verify_pending(database, jobs=2, progress=end)
"""


def test_verdicts_are_stored_as_they_come(tmp_path: Path) -> None:
    texts = ("relu(relu(x)) => relu(x)", "transpose(transpose(x)) => x", "relu(x) => x", "add(x, x) => x")
    url = str(tmp_path / "rules.db")
    with open_database(url, library=tmp_path / "none") as database:
        database.rules.add_candidates([CandidateRule(parse_equation(text), "test") for text in texts])
        killed = subprocess.run([sys.executable, "-c", KILLED_HALF_WAY, url], check=False)
        assert killed.returncode == -signal.SIGKILL
        assert len(database.rules.undecided(current())) == 2
        assert verify_pending(database).judged == 2
        assert {rule.equation: rule.status for rule in database.rules.list()} == dict(
            zip(texts, ["verified", "verified", "refuted", "refuted"], strict=True)
        )


KILLED_WHILE_ONE_IS_SLOW = """
import os, signal, sys
from pathlib import Path
from superopt.journeys.library import discovery
from superopt.substitution_db import open_database
from tests.substitution_db.slow_judge import judge
from superopt.verifier.conditions import inference as condition_inference

def end(done, total):
    if done == 3:
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    condition_inference.verify_or_condition = judge
    with open_database(sys.argv[1], library=Path("none")) as database:
        discovery.verify_pending(database, jobs=2, progress=end)
"""


def test_a_slow_verdict_holds_up_no_other(tmp_path: Path) -> None:
    """The first rule is still being judged when the process, and its worker with it, is killed at the third
    verdict."""
    texts = ("relu(relu(x)) => relu(x)", "transpose(transpose(x)) => x", "relu(x) => x", "add(x, x) => x")
    url, gate = str(tmp_path / "rules.db"), tmp_path / "gate"
    os.mkfifo(gate)
    with open_database(url, library=tmp_path / "none") as database:
        database.rules.add_candidates([CandidateRule(parse_equation(text), "test") for text in texts])
        first = database.rules.undecided(current())[0]
        environment = {**os.environ, GATE: str(gate), HELD_UP: first.equation}
        killed = subprocess.run(
            [sys.executable, "-c", KILLED_WHILE_ONE_IS_SLOW, url], check=False, env=environment
        )
        assert killed.returncode == -signal.SIGKILL
        left = [rule.id for rule in database.rules.undecided(current())]
        assert len(left) == 2
        assert first.id in left


def _stored(database: Database) -> list[tuple[object, ...]]:
    """All that verdicts leave, but how long they took."""
    return [
        (rule.equation, rule.status, rule.provenance, rule.generalizations, _told(rule.proof))
        for rule in database.rules.list()
    ]


def _told(proof: Proof | None) -> Proof | None:
    return None if proof is None else replace(proof, milliseconds=0.0)


def test_what_is_stored_does_not_depend_on_the_order_of_verdicts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two rules have one general form, spelled by each in its own way; one is that of another; one has a
    condition."""
    general = "concat[axis=a](relu(x), relu(y)) => relu(concat[axis=a](x, y))"
    renamed = "concat[axis=b](relu(p), relu(q)) => relu(concat[axis=b](p, q))"
    tanh = "concat[axis=a](tanh(x), tanh(y)) => tanh(concat[axis=a](x, y))"
    candidates = [
        CandidateRule(parse_equation(special), name, (parse_equation(form),))
        for special, name, form in (
            ("concat[axis=-1](relu(x), relu(y)) => relu(concat[axis=-1](x, y))", "a", general),
            ("concat[axis=-2](relu(x), relu(y)) => relu(concat[axis=-2](x, y))", "b", renamed),
            ("concat[axis=-1](tanh(x), tanh(y)) => tanh(concat[axis=-1](x, y))", "c", tanh),
            (tanh, "d", tanh),
            (
                "conv[padding=same_upper](x, w) => conv[padding=same_lower](x, w)",
                "e",
                "relu(x) => x",
            ),
        )
    ]

    def backwards(*arguments: object, **options: object) -> Iterator[tuple[int, object]]:
        return reversed(list(judge_for_good(*arguments, **options)))  # type: ignore[arg-type]

    found: list[list[tuple[object, ...]]] = []
    for name in ("forwards", "backwards"):
        with open_database(str(tmp_path / name), library=tmp_path / "none") as database:
            database.rules.add_candidates(candidates)
            verify_pending(database)
            found.append(_stored(database))
        monkeypatch.setattr("superopt.verifier.conditions.inference.judge_for_good", backwards)
    assert found[0] == found[1]
    assert len(found[0]) == 4


def test_a_candidate_is_proved_in_its_most_general_form(database: Database) -> None:
    special, general, wrong = map(
        parse_equation,
        (
            "concat[axis=-1](relu(x), relu(y)) => relu(concat[axis=-1](x, y))",
            "concat[axis=a](relu(x), relu(y)) => relu(concat[axis=a](x, y))",
            "concat[axis=a](relu(x), relu(y)) => relu(concat[axis=a](y, x))",
        ),
    )
    database.rules.add_candidates([CandidateRule(special, "test", (wrong, general, special))])
    assert verify_pending(database).verified == 1
    assert [rule.id for rule in database.rules.verified_rules(current())] == [rule_id(general)]
    database.rules.add_candidates([CandidateRule(special, "test", (general, special))])
    assert verify_pending(database) == Verification(0, 0, 0, 0, superseded=1)
    assert len(database.rules.list()) == 1


def test_a_refuted_candidate_is_stored_with_the_condition_under_which_it_holds(database: Database) -> None:
    general = "conv[padding=same_upper](x, w) => conv[padding=same_lower](x, w)"
    never = "relu(x) => sigmoid(x)"
    database.rules.add_candidates([CandidateRule(parse_equation(text), "test") for text in (general, never)])
    result = verify_pending(database)
    assert (result.judged, result.refuted, result.verified, result.conditional) == (2, 2, 0, 1)
    assert {rule.equation: rule.status for rule in database.rules.list()} == {
        general: RuleStatus.REFUTED,
        never: RuleStatus.REFUTED,
        f"{general} where odd(dim(w, 2)), odd(dim(w, 3))": RuleStatus.VERIFIED,
    }
    assert verify_pending(database).judged == 0


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("relu(relu(x)) => relu(x)", "verified"),
        ("relu(x) => x", "refuted"),
        ("matmul(x, y) => matmul(y, x)", "refuted"),
    ],
)
def test_an_equation_is_judged_as_written(text: str, verdict: str) -> None:
    proof = prove_equation(parse_equation(text))
    assert proof.verdict == verdict
    assert (proof.counterexample is not None) == (verdict == "refuted")


def test_the_gate_passes_what_is_proved_now(library: Path, tmp_path: Path) -> None:
    assert gate_files([library], current()).passed
    with open_database(str(tmp_path / "fresh.db"), library=library) as database:
        assert len(database.rules.verified_rules(current())) == 3
        result = gate_database(database, current())
        assert (result.rules, result.offenders) == (3, ())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"status": "candidate"}, "status is candidate"),
        ({"proof": None}, "it has no proof"),
        ({"id": "0" * 16}, "the id of the equation is"),
        ({"equation": "relu(relu(x)) => x"}, "the id of the equation is"),
        ({"status": "verified", "proof.verdict": "refuted"}, "the verdict of its proof is refuted"),
        ({"proof.axioms_hash": "0" * 16}, "an axiom of its proof has changed"),
        ({"proof.axioms_used": ["gone"]}, "axioms are gone: gone"),
        ({"proof.operators_hash": "0" * 16}, "the meaning of an operator has changed"),
        ({"proof.verifier_hash": "0" * 16}, "the checker has changed"),
    ],
)
def test_the_gate_stops_what_is_not(
    library: Path, tmp_path: Path, change: dict[str, object], reason: str
) -> None:
    lines = [json.loads(line) for line in library.read_text().splitlines()]
    for key, value in change.items():
        place = lines[1]
        *outer, last = key.split(".")
        for name in outer:
            place = place[name]
        place[last] = value
    path = tmp_path / "changed.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = gate_files([path], current())
    assert (result.rules, len(result.offenders)) == (3, 1)
    assert reason in result.offenders[0].reason
