"""The equivalence check bites: every small mistake in a real network is found."""

from __future__ import annotations

from superopt import zoo
from superopt.onnx_io import lift, load_model
from superopt.optimizer.check import Reference, Sampling, check_equivalence, plan_inputs
from superopt.optimizer.cost.runtime.session import LoadedModel
from tests.optimizer.mutations import mutants


def test_200_mutations_of_squeezenet_are_all_found() -> None:
    proto = zoo.build("squeezenet")
    original = LoadedModel(proto.SerializeToString(), threads=2)
    inputs = plan_inputs(lift(load_model(proto)), original.inputs, {})
    reference = Reference(original, inputs, Sampling(samples=2))
    missed: list[str] = []
    for mutation, mutant in mutants(proto, 200, seed=1):
        verdict = check_equivalence(reference, LoadedModel(mutant, threads=2))
        if verdict.passed or verdict.weak:
            missed.append(mutation)
    assert not missed
    same = check_equivalence(reference, LoadedModel(proto.SerializeToString(), threads=2))
    assert same.passed
    assert not same.weak
