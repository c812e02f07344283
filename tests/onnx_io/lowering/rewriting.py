"""Models rewritten by given rules, or with some of their nodes written anew, and lowered."""

from __future__ import annotations

import onnx

from superopt.equations import parse_equation
from superopt.ir import Graph, NodeId, Plan
from superopt.onnx_io import LiftedModel, lift, load_model, lower
from superopt.rewriting import apply_match, find_matches, substitutions_of
from tests.onnx_io.kit import assert_same_results


def rewritten(lifted: LiftedModel, *rules: str) -> Graph:
    """The graph after each rule was applied at its first match."""
    current = lifted.graph
    for rule in rules:
        (substitution, *_) = substitutions_of(parse_equation(rule), "rule")
        for match in find_matches(current, substitution):
            rewrite = apply_match(current, match)
            if rewrite is not None:
                current = rewrite.graph
                break
        else:
            raise AssertionError(f"{rule} does not apply")
    return current


def after(made: onnx.ModelProto, *rules: str) -> bytes:
    """The model rewritten, checked, and compared with what it was."""
    content = made.SerializeToString()
    lifted = lift(load_model(content))
    result = lower(lifted, rewritten(lifted, *rules), Plan()).to_bytes()
    onnx.checker.check_model(result, full_check=True)
    assert_same_results(content, result, rtol=1e-4)
    return result


RELU_TWICE = "relu(relu(x)) => relu(x)"


COMMUTE = "add(x, y) => add(y, x)"


def touch(lifted: LiftedModel, *which: str | NodeId) -> Graph:
    """The graph with nodes of that id or operator written anew."""
    editor = lifted.graph.edit()
    for old in lifted.graph:
        if old.id in which or old.operator.name in which:
            new = editor.add(old.operator, editor[old.id].inputs)
            editor.redirect(dict(zip(old.values, new.values, strict=True)), lifted.graph.nodes)
            editor.remove([old.id])
    return editor.build()
