"""Results of the validation of adjoint statements, as ``superopt axioms validate`` prints them."""

from __future__ import annotations

import json

import pytest

from superopt.axioms import axioms_from_text
from superopt.cli.main import run
from superopt.cli.output import Output
from superopt.cli.views.adjoint import adjoints_document, print_adjoints
from superopt.verifier.adjoints import QUICK, validate_adjoints

TEXT = """
adjoint-of-identity: adjoint[input=0](identity(x), g) = g
adjoint-of-exp: adjoint[input=0](exp(x), g) = g
"""


def test_counts_and_counterexamples_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    axioms = axioms_from_text({"f": TEXT})
    results = list(validate_adjoints(axioms.adjoints, effort=QUICK))
    print_adjoints(results, axioms, Output(as_json=False))
    wrong, counts, missing = capsys.readouterr().out.splitlines()
    assert wrong.startswith("adjoint-of-exp: g: f32[")
    assert "<J v, g> = " in wrong
    count = results[0].instances
    assert count > 12
    assert counts.startswith(
        f"1 of 2 adjoint statements hold: {count} instances, {count} of them exact in a prime field; 0 for"
    )
    assert missing.startswith("inputs of operators without an adjoint statement: absolute 0, add 0, add 1, ")
    assert "identity" not in missing


def test_the_document_has_every_result_and_what_is_missing() -> None:
    axioms = axioms_from_text({"f": TEXT})
    results = list(validate_adjoints(axioms.adjoints, effort=QUICK))
    document = adjoints_document(results, axioms)
    assert (document["statements"], document["instances"]) == (2, results[0].instances)
    assert '"invalid": [{"name": "adjoint-of-exp", "reason": "g: f32[' in json.dumps(document)
    assert {"operator": "conv", "input": 1, "composite": False} in document["missing"]  # pyright: ignore[reportOperatorIssue]


def test_axioms_of_one_name_are_validated_without_statements(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["axioms", "validate", "--axiom", "add-commutative", "--max-dim", "1", "--symbolic", "0"]
    assert run([*arguments, "--jobs", "1", "--no-cache", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["axioms"], document["adjoints"]["statements"]) == (1, 0)
