"""A false rule in a database, verified as far as that says, and a model on which it pays."""

# pyright: reportUnknownMemberType=false
# onnx leaves types out.

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from superopt.equations import parse_equation, rule_id
from superopt.substitution_db import CandidateRule, Database, Outcome, Proof
from superopt.substitution_db.rules.currency import current
from superopt.verifier.hashes import operators_hash, operators_in

FALSE = "tanh(softmax[axis=a](x)) => softmax[axis=a](x)"
"""Both sides are well-typed at each rank, and nothing but the values tells them apart."""


def plant(database: Database, text: str = FALSE) -> str:
    """Makes a rule verified that nobody has proved; returns its id."""
    equation = parse_equation(text)
    hashes = current().hashes
    axioms = current().state.axioms
    proof = Proof(
        verdict=Outcome.VERIFIED,
        prover="z3",
        version="0",
        axioms_used=(),
        hashes=type(hashes)(axioms.hash_of(()), operators_hash(operators_in(equation)), hashes.verifier),
        milliseconds=1.0,
        validated_shapes=(),
        counterexample=None,
        reason="",
        grade="replayed",
    )
    database.rules.add_candidates([CandidateRule(equation, "planted")])
    database.rules.record_verdict(rule_id(equation), proof)
    database.library.publish(current(), "planted")
    return rule_id(equation)


def write_model(path: Path, *, is_rounded: bool = False) -> Path:
    """A model with two places for ``FALSE``, and with a Relu of a Relu.

    A second output may round the first.
    """
    rng = np.random.default_rng(0)
    weight = numpy_helper.from_array(rng.normal(size=(64, 64)).astype(np.float32), "w")
    kinds = ("MatMul", "Relu", "Relu", "Softmax", "Tanh", "MatMul", "Softmax", "Tanh")
    nodes, last = list[onnx.NodeProto](), "x"
    for number, kind in enumerate(kinds):
        out = "y" if number == len(kinds) - 1 else f"t{number}"
        inputs = [last, "w"] if kind == "MatMul" else [last]
        nodes.append(helper.make_node(kind, inputs, [out], name=f"{kind}{number}"))
        last = out
    shape, outputs = [512, 64], ["y"]
    if is_rounded:
        nodes.append(helper.make_node("Round", ["y"], ["rounded"]))
        outputs.append("rounded")
    graph = helper.make_graph(
        nodes,
        "planted",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in outputs],
        [weight],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path
