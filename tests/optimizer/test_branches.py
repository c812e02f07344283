"""Branches of If nodes are compared, each value of what decides them is tried, and those missed are named."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto

from superopt.cli.main import run
from superopt.journeys.comparing import compared_sources
from superopt.onnx_io import lift, load_model
from superopt.optimizer.check import Equivalence, Reference, Sampling, check_equivalence, plan_inputs
from superopt.optimizer.cost.runtime.session import LoadedModel
from tests.onnx_io.kit import graph, model, node, tensor, value

INT, BOOL = TensorProto.INT64, TensorProto.BOOL


def branching(
    decided: Sequence[onnx.NodeProto], ports: Sequence[onnx.ValueInfoProto], then: str, other: str
) -> onnx.ModelProto:
    """A model whose If applies one operator or another to ``x``; ``decided`` compute its condition ``is``."""
    branches = [graph([node(name, "x", "b")], [], [value("b", [2, 8])]) for name in (then, other)]
    choice = node("If", "is", "y", then_branch=branches[0], else_branch=branches[1], name="choice")
    stored = [tensor("rate", 16_000, dtype=int), tensor("most", 1e9)]
    return model([*decided, choice], [value("x", [2, 8]), *ports], [value("y", [2, 8])], stored)


RATE = ([node("Equal", "sr rate", "is")], [value("sr", [], INT)])
FLAG = ([node("Identity", "flag", "is")], [value("flag", [1], BOOL)])
NEGATED = ([node("Not", "flag", "is")], [value("flag", [1], BOOL)])
DIRECT = ([], [value("is", [1], BOOL)])
NEVER = ([node("ReduceMax", "x", "largest", keepdims=0), node("Greater", "largest most", "is")], [])


def compared(first: onnx.ModelProto, second: onnx.ModelProto) -> Equivalence:
    return compared_sources(*(load_model(proto.SerializeToString()) for proto in (first, second)), samples=2)


@pytest.mark.parametrize("kind", [RATE, FLAG, NEGATED, DIRECT], ids=["rate", "flag", "negated", "direct"])
@pytest.mark.parametrize("branches", [("Relu", "Neg"), ("Abs", "Tanh")], ids="-".join)
def test_a_wrong_branch_is_found_whatever_leads_to_it(
    kind: tuple[Sequence[onnx.NodeProto], Sequence[onnx.ValueInfoProto]], branches: tuple[str, str]
) -> None:
    original = branching(*kind, "Relu", "Tanh")
    assert not compared(original, branching(*kind, *branches)).passed
    same = compared(original, original)
    assert same.passed
    assert same.branches_missed == ()


def test_branches_that_no_input_leads_to_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    for file, then in zip(files, ("Relu", "Abs"), strict=True):
        onnx.save(branching(*NEVER, then, "Tanh"), file)
    assert run(["check", *map(str, files)]) == 0
    assert "not compared, because no input led there: the then branch of If choice" in capsys.readouterr().out
    found = compared(branching(*NEVER, "Relu", "Tanh"), branching(*NEVER, "Relu", "Neg"))
    assert not found.passed


def test_a_branch_that_a_rewritten_model_no_longer_has_is_not_missed() -> None:
    original = load_model(branching(*NEVER, "Relu", "Tanh").SerializeToString())
    lone = model([node("Tanh", "x", "y")], [value("x", [2, 8])], [value("y", [2, 8])])
    loaded = LoadedModel(original.original, 1)
    reference = Reference(loaded, plan_inputs(lift(original), loaded.inputs, {}), Sampling(samples=2))
    for other, missed in ((lone.SerializeToString(), 0), (original.original, 1)):
        found = check_equivalence(reference, LoadedModel(other, 1), is_rewritten=True)
        assert found.passed
        assert len(found.branches_missed) == missed
