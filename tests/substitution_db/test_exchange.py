from __future__ import annotations

import json
from pathlib import Path

import pytest

from superopt.axioms import axioms_from_text
from superopt.equations import parse_equation, rule_id
from superopt.errors import InvalidFileError, InvalidInputError
from superopt.ir.terms import Equation
from superopt.substitution_db import (
    CandidateRule,
    Database,
    Hashes,
    Outcome,
    Proof,
    RuleStatus,
    open_database,
)
from superopt.substitution_db.rules.currency import Currency
from superopt.substitution_db.rules.exchange import (
    export_rules,
    export_selected,
    import_json_lines,
    import_text,
)
from superopt.substitution_db.store.records import Selection
from superopt.substitution_db.store.rows import new_rule
from superopt.verifier.gate import CurrentState

AXIOMS = axioms_from_text({"activation": "idempotent: relu(relu(x)) = relu(x)"})
HASHES = Hashes(AXIOMS.hash, "o1", "v1")
NOW = Currency(CurrentState(AXIOMS, "v1", lambda _: "o1"))
LATER = Currency(CurrentState(AXIOMS, "v2", lambda _: "o1"))
PROOF = Proof(Outcome.VERIFIED, "z3", "5.4", ("idempotent",), HASHES, 12.34, ("f32[2, 3]",), None, "proved")


@pytest.fixture
def exported(database: Database, equations: tuple[Equation, ...], tmp_path: Path) -> Path:
    """All rules as a file; the first is verified."""
    database.rules.add_candidates(CandidateRule(equation, "generated") for equation in equations)
    database.rules.record_verdict(rule_id(equations[0]), PROOF)
    path = tmp_path / "rules.jsonl"
    assert export_rules(database.rules.list(), path) == len(equations)
    return path


def test_a_line_is_as_the_contract_says(exported: Path) -> None:
    lines = exported.read_text().splitlines()
    assert [json.loads(line)["equation"] for line in lines] == [
        "add(x, y) <=> add(y, x)",
        "relu(relu(x)) => relu(x)",
        "matmul(x, matmul(y, z)) <=> matmul(matmul(x, y), z)",
        "concat[axis=-1](matmul(x, y), matmul(x, z)) <=> matmul(x, concat[axis=-1](y, z))",
    ]
    assert json.loads(lines[0])["proof"] is None
    assert lines[1] == (
        '{"schema":1,"id":"17af882e6e7f2525","equation":"relu(relu(x)) => relu(x)",'
        '"operators_source":["relu","relu"],"operators_target":["relu"],"status":"verified",'
        '"proof":{"verdict":"verified","prover":"z3","version":"5.4","axioms_used":["idempotent"],'
        '"axioms_hash":"'
        + HASHES.axioms
        + '","operators_hash":"o1","verifier_hash":"v1","milliseconds":12.3,'
        '"validated_shapes":["f32[2, 3]"],"counterexample":null,"reason":"proved",'
        '"grade":"","confirmed_by":"","certificate":null},"provenance":"generated"}'
    )


def test_what_is_imported_is_a_candidate(exported: Path, tmp_path: Path, no_library: Path) -> None:
    with open_database(str(tmp_path / "other.db"), library=no_library) as other:
        added = import_json_lines(exported, other.rules)
        assert (added.new, added.known) == (4, 0)
        assert other.rules.verified_rules(NOW) == ()
        assert {rule.status for rule in other.rules.list()} == {RuleStatus.CANDIDATE}
        assert {rule.provenance for rule in other.rules.list()} == {"generated"}
        assert import_json_lines(exported, other.rules).new == 0


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("taso, 3 operators", "taso, 3 operators"),
        ("import a.jsonl; import b.jsonl; taso, 3 operators", "taso, 3 operators"),
        ("import a.jsonl; import b.txt", "import b.txt"),
        ("import taso.pb, rule 7", "import taso.pb, rule 7"),
        ("", "import rules.jsonl"),
    ],
)
def test_an_import_keeps_where_a_rule_was_found(
    exported: Path, tmp_path: Path, no_library: Path, said: str, kept: str
) -> None:
    exported.write_text(exported.read_text().replace('"provenance":"generated"', f'"provenance":"{said}"'))
    with open_database(str(tmp_path / "other.db"), library=no_library) as other:
        import_json_lines(exported, other.rules)
        assert {rule.provenance for rule in other.rules.list()} == {kept}


def test_the_shipped_library_counts_while_its_hashes_are_current(exported: Path, tmp_path: Path) -> None:
    for _ in range(2):
        with open_database(str(tmp_path / "shipped.db"), library=exported) as other:
            assert [rule.equation for rule in other.rules.verified_rules(NOW)] == ["relu(relu(x)) => relu(x)"]
            assert other.rules.verified_rules(LATER) == ()
            assert len(other.rules.proofs(other.rules.verified_rules(NOW)[0].id)) == 1
    exported.write_text(exported.read_text().replace('"v1"', '"v2"'))
    with open_database(str(tmp_path / "shipped.db"), library=exported) as other:
        assert len(other.rules.verified_rules(LATER)) == 1
        assert len(other.rules.verified_rules(NOW)) == 1


def test_a_shipped_rule_is_looked_up_by_the_operators_of_its_equation(exported: Path, tmp_path: Path) -> None:
    """Whether the equation is read, as that of the product is, or its id is the hash of its text."""
    with open_database(str(tmp_path / "shipped.db"), library=exported) as other:
        for rule in other.rules.list():
            again = new_rule(parse_equation(rule.equation), "generated")
            assert (rule.id, rule.conditions) == (again.id, again.conditions)
            assert rule.operators_source == again.operators_source
            assert rule.operators_target == again.operators_target


def test_a_shipped_rule_says_what_its_equation_says(exported: Path, tmp_path: Path) -> None:
    exported.write_text(exported.read_text().replace("relu(relu(x)) => relu(x)", "relu(relu(x)) => x"))
    with pytest.raises(InvalidFileError, match="the id of"):
        open_database(str(tmp_path / "shipped.db"), library=exported)


def test_why_a_rule_ships_is_kept_and_how_long_its_proof_took_is_not(
    exported: Path, tmp_path: Path, database: Database
) -> None:
    verified = next(rule for rule in database.rules.list() if rule.status is RuleStatus.VERIFIED)
    others = {rule.id: Selection(ships=False, why="other rules give it") for rule in database.rules.list()}
    with pytest.raises(InvalidInputError, match="no rules are selected; run `superopt library select` first"):
        export_selected(database.rules.list(), exported)
    database.rules.record_selections(others | {verified.id: Selection(ships=True, why="a search uses it")})
    assert export_selected(database.rules.list(), exported) == 1
    line = exported.read_text()
    assert line.endswith('"provenance":"generated","ships":true,"why":"a search uses it"}\n')
    assert '"milliseconds":null' in line
    with open_database(str(tmp_path / "shipped.db"), library=exported) as other:
        (rule,) = other.rules.list()
        assert rule.selection == Selection(ships=True, why="a search uses it")
        assert rule.proof is not None
        assert rule.proof.milliseconds is None
    exported.write_text(line.replace("a search uses it", "it saves 5%"))
    with open_database(str(tmp_path / "shipped.db"), library=exported) as other:
        assert [rule.selection for rule in other.rules.list()] == [Selection(ships=True, why="it saves 5%")]
    exported.write_text(line.replace('"ships":true', '"ships":"yes"'))
    with pytest.raises(InvalidFileError, match="expected true or false for ships, got 'yes'"):
        open_database(str(tmp_path / "other.db"), library=exported)


def test_import_text(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "rules.txt"
    path.write_text("# two rules\nrelu(relu(x)) => relu(x)  # idempotent\n\nadd(x, y) <=> add(y, x)\n")
    assert import_text(path, database.rules).new == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("relu(", "rules:1: not JSON"),
        ("[]", "rules:1: expected a JSON object, got list"),
        ('{"schema": 2}', "rules:1: expected schema 1, got 2"),
        ('{"schema": 1}', "rules:1: expected a string for id, got None"),
        ('\n{"schema": 1, "id": "", "status": "", "equation": "relu(", "provenance": ""}', "rules:2: "),
        (
            '{"schema":1, "id": "", "status": "", "equation": "relu(x) => x", "provenance": "", "proof": {}}',
            "rules:1: proof: expected a string",
        ),
        (
            '{"schema": 1, "id": "", "status": "", "equation": "relu(x) => add(x, y)", "provenance": ""}',
            "rules:1: ",
        ),
        (b"\xff\xfe", "rules: not UTF-8 text"),
    ],
)
def test_a_damaged_file_changes_nothing(
    database: Database, tmp_path: Path, content: str | bytes, message: str
) -> None:
    path = tmp_path / "rules"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InvalidFileError, match=message):
        import_json_lines(path, database.rules)
    assert database.rules.list() == ()


def test_a_missing_file_is_one_sentence(database: Database, tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError, match="No such file"):
        import_text(tmp_path / "missing", database.rules)


def test_all_wrong_lines_of_a_text_are_named(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "rules.txt"
    path.write_text("relu(x) => relu(relu(x))\n\nno rule\nrelu(x) => relu(y)\n")
    message = "line 3, column 4: unexpected 'rule'; line 4: malformed rule: the target uses y"
    with pytest.raises(InvalidFileError, match=message):
        import_text(path, database.rules)
    path.write_text("no rule\n" * 12)
    with pytest.raises(InvalidFileError, match=r"line 10, column 4: unexpected 'rule'; and 2 more\Z"):
        import_text(path, database.rules)
    assert database.rules.list() == ()
