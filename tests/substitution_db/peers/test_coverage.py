"""What is said of each rule of a peer's file, by function and by command."""

# ruff: noqa: E501

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from superopt.cli.main import run
from superopt.equations import format_equation, parse_equation, rule_id
from superopt.journeys.library import discovery
from superopt.journeys.library.peers import PeerFormat, PeerRule, read_rules
from superopt.journeys.library.peers.coverage import Answer, Covered, counts, coverage
from superopt.rewriting.derivability import Bounds
from superopt.substitution_db import CandidateRule, RuleStatus, open_database
from superopt.substitution_db.rules.currency import current
from tests.substitution_db.peers.samples import CONV, Rule, flexflow_file, taso_file

LIBRARY = (
    "relu(relu(x)) => relu(x)",
    "add(x, add(y, z)) <=> add(y, add(x, z))",
    "concat[axis=1](conv[stride=s, padding=p](x, y), conv[stride=s, padding=p](x, z)) <=> conv[stride=s, padding=p](x, concat[axis=0](y, z)) where groups(x, y) = 1",
)
ONE = CONV.format(0).replace("=3", "=1")
POOL = CONV.format(0)
SPREAD = "PARALLEL_DIM=1 PARALLEL_DEGREE=2"


def judged(rules: Sequence[PeerRule], *, steps: int = 3) -> list[Covered]:
    return list(coverage(rules, LIBRARY, bounds=Bounds(steps=steps), jobs=0))


def of_text(path: Path, *rules: str) -> tuple[PeerRule, ...]:
    path.write_text("".join(f"{rule}\n" for rule in rules))
    return read_rules(path, PeerFormat.TEXT)


@pytest.mark.parametrize(
    ("rule", "verdict", "known", "steps", "reason"),
    [
        ("relu(relu(a)) => relu(a)", Answer.PROVED, True, 1, "from relu-idempotent"),
        ("relu(relu(tanh(x))) => relu(tanh(x))", Answer.PROVED, True, 1, "from relu-idempotent"),
        ("relu(relu(relu(x))) => relu(x)", Answer.PROVED, False, 2, "from relu-idempotent"),
        ("transpose(transpose(x)) => x", Answer.PROVED, False, None, "from transpose-involutive"),
        ("tanh(x) => tanh(x)", Answer.PROVED, False, 0, "from nothing: the sides are alike"),
        (
            "concat[axis=1](conv(x, y), conv(x, z)) => conv(x, concat[axis=0](y, z))",
            Answer.CONDITIONAL,
            True,
            1,
            "where groups(x, y) = 1, and nowhere else (",
        ),
        (
            "scale(relu(x), full[value=a]()) => relu(scale(x, full[value=a]()))",
            Answer.CONDITIONAL,
            False,
            None,
            "as scale(relu(x), full[value=1]) => relu(scale(x, full[value=1])), and sometimes elsewhere (",
        ),
        ("tanh(x) => sigmoid(x)", Answer.REFUTED, False, None, "x: f32"),
        (
            "relu(x) => add(x, y)",
            Answer.MALFORMED,
            False,
            None,
            "malformed rule: the target uses y, which the source does not have",
        ),
        ("relu(x) =>", Answer.MALFORMED, False, None, "line 1: the equation 'relu(x) =>' ends too early"),
        ("relu[k=1](x) => x", Answer.MALFORMED, False, None, "line 1, column 1: relu has no attribute k"),
        (
            "relu(transpose[perm=(1, 0)](conv(x, y))) => conv(x, y)",
            Answer.MALFORMED,
            False,
            None,
            "the source is never well-typed: transpose[perm=(1, 0)](conv(x, y)): ",
        ),
    ],
)
def test_answer(
    rule: str,
    verdict: Answer,
    known: bool,  # noqa: FBT001
    steps: int | None,
    reason: str,
    tmp_path: Path,
) -> None:
    (answer,) = judged(of_text(tmp_path / "rules.txt", rule))
    assert (answer.verdict, answer.known, answer.derivable_steps) == (verdict, known, steps)
    assert answer.reason.startswith(reason)


def test_a_rule_that_holds_only_as_the_file_writes_it(tmp_path: Path) -> None:
    """A mean of a convolution is the convolution of the mean only for kernels of one position."""
    pool = POOL.replace("ACTI=0", "ACTI=0 OP_TYPE=7")
    rule = Rule(
        [f"CONV2D(-1, -2) {ONE}", f"POOL2D_AVG(0) {pool}"], [f"POOL2D_AVG(-1) {pool}", f"CONV2D(0, -2) {ONE}"]
    )
    (answer,) = judged(read_rules(taso_file(tmp_path / "rules.pb", rule), PeerFormat.TASO))
    assert answer.verdict is Answer.PROVED
    assert answer.equation.endswith("where dim(y, 2) = 1, dim(y, 3) = 1")


def test_rules_that_say_the_same_have_one_answer_and_their_own_names(tmp_path: Path) -> None:
    rules = of_text(
        tmp_path / "rules.txt", "relu(relu(x)) => relu(x)", "relu(x) =>", "relu(relu(x)) => relu(x)"
    )
    assert [(a.index, a.name, a.verdict) for a in judged(rules)] == [
        (0, "line 1", Answer.PROVED),
        (1, "line 2", Answer.MALFORMED),
        (2, "line 3", Answer.PROVED),
    ]
    assert judged(()) == []


def test_without_steps_nothing_is_derived(tmp_path: Path) -> None:
    rules = of_text(tmp_path / "rules.txt", "relu(relu(relu(x))) => relu(x)", "relu(relu(x)) => relu(x)")
    assert [(a.known, a.derivable_steps) for a in judged(rules, steps=0)] == [(False, None), (True, 1)]


def test_counts() -> None:
    answers = [
        Covered(0, "a", "relu(x) => x", Answer.REFUTED),
        Covered(1, "b", "relu(x) => relu(x)", Answer.PROVED, derivable_steps=0),
        Covered(2, "c", "relu(relu(x)) => relu(x)", Answer.PROVED, known=True, derivable_steps=1),
        Covered(3, "d", "", Answer.MALFORMED),
    ]
    assert counts(answers) == {
        "rules": 4,
        "proved": 2,
        "conditional": 0,
        "refuted": 1,
        "malformed": 1,
        "undecided": 0,
        "known": 1,
        "derivable": 2,
    }


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database of one verified rule."""
    (tmp_path / "none.jsonl").touch()
    monkeypatch.setenv("SUPEROPT_LIBRARY", os.devnull)
    url = f"sqlite:///{tmp_path}/rules.db"
    with open_database(url) as opened:
        opened.rules.add_candidates([CandidateRule(parse_equation(LIBRARY[0]), "test")])
        assert discovery.verify_pending(opened).verified == 1
    return url


RULES = (
    Rule([f"REPLICATE(-1) {SPREAD}", "RELU(0)"], ["RELU(-1)", f"REPLICATE(0) {SPREAD}"], name="spread"),
    Rule(["RELU(-1)", "RELU(0)"], ["RELU(-1)"], name="twice"),
    Rule(["RELU(-1)"], ["EW_ADD(-1, -3)"], name="lacking"),
    Rule(["TANH(-1)"], ["SIGMOID(-1)"], name="wrong"),
    Rule(["ANY(-1)"], ["RELU(-1)"], name="any"),
)


def test_command(database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = flexflow_file(tmp_path / "rules.json", *RULES)
    assert run(["library", "coverage", str(path), "--database", database, "--jobs", "1"]) == 0
    written = capsys.readouterr().out.splitlines()
    assert [line for line in written if not line.startswith(" ")] == [
        "spread       proved                       relu(replicate[degree=2](x)) => replicate[degree=2](relu(x))",
        "twice        proved       known           relu(relu(x)) => relu(x)",
        "lacking      malformed                    the target uses input -3, which the source lacks",
        "wrong        refuted                      tanh(x) => sigmoid(x)",
        "any          undecided                    ANY stands for every operator",
        "",
        "5 rules: 2 proved, 0 conditional, 1 refuted, 1 malformed, 1 undecided",
        "1 known, 1 derivable from the library (including the known)",
    ]
    assert [line.strip()[:6] for line in written if line.startswith(" ")] == ["x: f32"]


def test_command_as_json(database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = taso_file(tmp_path / "rules.pb", *RULES[1:3])
    assert run(["library", "coverage", str(path), "--database", database, "--jobs", "1", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["format"] == "taso"
    assert document["counts"] == {
        "rules": 2,
        "proved": 1,
        "conditional": 0,
        "refuted": 0,
        "malformed": 1,
        "undecided": 0,
        "known": 1,
        "derivable": 1,
    }
    assert document["rules"][0] == {
        "index": 0,
        "name": "rule 0",
        "verdict": "proved",
        "known": True,
        "derivable_steps": 1,
        "reason": "from relu-idempotent",
        "equation": "relu(relu(x)) => relu(x)",
    }
    assert document["rules"][1]["reason"] == "the target uses input -3, which the source lacks"


@pytest.mark.parametrize(
    ("name", "content", "arguments"),
    [
        ("a.pb", b"\x00\x01", []),
        ("a.json", b"{}", []),
        ("a.txt", b"\xff", []),
        ("a.jsonl", b"{", []),
        ("a.txt", b"relu(x) => relu(x)", ["--format", "taso"]),
        ("a.pb", b"\x0a\x00", ["--format", "onnx"]),
        ("missing.pb", None, []),
    ],
)
@pytest.mark.parametrize("command", ["coverage", "import"])
def test_bad_files(
    command: str,
    name: str,
    content: bytes | None,
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SUPEROPT_LIBRARY", os.devnull)
    if content is not None:
        (tmp_path / name).write_bytes(content)
    url = f"sqlite:///{tmp_path}/rules.db"
    assert run(["library", command, str(tmp_path / name), "--database", url, *arguments]) == 2
    written = capsys.readouterr()
    assert written.out == ""
    assert len(written.err.splitlines()) == 1


def test_import(database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = flexflow_file(tmp_path / "rules.json", *RULES)
    assert run(["library", "import", str(path), "--database", database]) == 0
    *said, refuted, counts = capsys.readouterr().out.splitlines()
    assert said == [
        "2  lacking: the target uses input -3, which the source lacks",
        "4  any: ANY stands for every operator",
    ]
    false = rule_id(parse_equation("tanh(x) => sigmoid(x)"))
    assert refuted.startswith(f"{false}  is false: x: f32[")
    assert counts == "2 new candidates, 1 known before, 2 left out; next: superopt library verify"
    assert run(["library", "import", str(path), "--database", database]) == 0
    assert "0 new candidates, 3 known before, 2 left out\n" in capsys.readouterr().out
    assert run(["library", "import", str(path), "--database", database, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "new": 0,
        "known": 3,
        "refuted": [],
        "left_out": [
            {"index": 2, "name": "lacking", "reason": "the target uses input -3, which the source lacks"},
            {"index": 4, "name": "any", "reason": "ANY stands for every operator"},
        ],
    }
    with open_database(database) as opened:
        assert {rule.equation: rule.status for rule in opened.rules.list()} == {
            "relu(relu(x)) => relu(x)": RuleStatus.VERIFIED,
            "relu(replicate[degree=2](x)) => replicate[degree=2](relu(x))": RuleStatus.CANDIDATE,
            "tanh(x) => sigmoid(x)": RuleStatus.CANDIDATE,
        }
        assert discovery.verify_pending(opened).verified == 1


def test_what_is_imported_is_tried_in_its_general_form_first(database: str, tmp_path: Path) -> None:
    rule = Rule([f"CONV2D(-1, -2) {CONV.format(0)}", "RELU(0)"], [f"CONV2D(-1, -2) {CONV.format(2)}"])
    assert run(["library", "import", str(taso_file(tmp_path / "a.pb", rule)), "--database", database]) == 0
    with open_database(database) as opened:
        assert discovery.verify_pending(opened).verified == 1
        verified = [parse_equation(rule.equation) for rule in opened.rules.verified_rules(current())]
    assert (
        format_equation(verified[-1])
        == "relu(conv[padding=same](x, y)) => conv[padding=same, activation=relu](x, y)"
    )
