"""superopt axioms list: every axiom below its reason, with its marks; one family, or all as JSON."""

from __future__ import annotations

import json

import pytest

from superopt.axioms import load_axioms
from superopt.cli.main import run
from superopt.equations import parse_statement

CONCAT = """
concat

  # ring: The halves of a concat along its axis are its operands.
  split0-of-concat  split0[axis=a](concat[axis=a](x, y)) = x
  split1-of-concat  split1[axis=a](concat[axis=a](x, y)) = y

  # ring: The halves of a tensor joined are the tensor.
  concat-of-halves  concat[axis=a](split0[axis=a](x), split1[axis=a](x)) = x
"""

SCHEMA = """
  # ring, lemma: They work half by half.
  # for f in element_wise and of_two:
  split0-of-sub  split0[axis=a](sub(x, y)) = sub(split0[axis=a](x), split0[axis=a](y))
  split1-of-sub  split1[axis=a](sub(x, y)) = sub(split1[axis=a](x), split1[axis=a](y))
"""


def test_a_family_is_printed_with_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["axioms", "list", "--family", "concat"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(CONCAT)
    assert SCHEMA in printed
    axioms = load_axioms()
    concat = [name for name in axioms.by_name if axioms.families[name] == "concat"]
    assert printed.splitlines()[-1] == (
        f"{len(concat)} axioms, 47 of them valid in every commutative ring, 29 lemmas, "
        f"{len(concat) - 6} instances of schemas; 4 adjoint statements"
    )


def test_all_axioms_and_adjoint_statements_are_listed_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["axioms", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    axioms = load_axioms()
    assert [entry["name"] for entry in listed] == list(axioms.families)
    for entry in listed:
        name = entry["name"]
        statement = axioms.adjoints_by_name[name] if entry["adjoint"] else axioms.by_name[name]
        assert parse_statement(entry["equation"], name) == statement
        assert (entry["family"], entry["reason"]) == (axioms.families[name], axioms.reasons[name])
        assert entry["schema"] == axioms.schemas.get(name)
        for mark, marked in (
            ("ring", axioms.ring),
            ("lemma", axioms.lemmas),
            ("uncut", axioms.uncut),
            ("late", axioms.late),
        ):
            assert entry[mark] == (name in marked)


def test_an_unknown_family_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["axioms", "list", "--family", "cubic"]) == 2
    assert "there is no family cubic; there are: activation, " in capsys.readouterr().err
