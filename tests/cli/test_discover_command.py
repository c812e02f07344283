"""superopt axioms discover, as it is typed."""

from __future__ import annotations

import json

import pytest

from superopt.cli.main import run


def test_forms_are_listed_with_their_statements(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["axioms", "discover", "--operator", "log", "--jobs", "1", "--no-cache"]) == 0
    first, second, third, _, counts, *_ = capsys.readouterr().out.splitlines()
    assert first == "log 0: stated"
    assert second == "  1  div(g, x)  adjoint-of-log"
    assert third == "  2  mul(g, div(ones(), x))"
    assert counts == "1 operands: 1 stated, 0 another form, 0 by the chain rule, 0 not found"


def test_the_document_has_every_operand(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--operator", "bias_add", "--operator", "silu", "--size", "1", "--jobs", "1", "--json"]
    assert run(["axioms", "discover", *arguments]) == 0
    document = json.loads(capsys.readouterr().out)
    first, second, third = document["operands"]
    assert (first["operator"], first["input"], first["verdict"]) == ("bias_add", 0, "stated")
    assert (
        second["forms"][0]["statement"]
        == "adjoint[input=1](bias_add[axis=a](x, y), g) = channel_sum[axis=a](g)"
    )
    assert second["forms"][0]["instances"] > 100
    assert (third["verdict"], third["definition"], third["searched_operators"]) == (
        *("by the chain rule", "silu-definition"),
        1,
    )


def test_an_operator_without_goals_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["axioms", "discover", "--operator", "greater"]) == 2
    assert "differentiates no operator greater" in capsys.readouterr().err
