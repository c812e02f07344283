"""Real networks: understood completely, and the same after every node was written anew."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

from superopt import zoo
from superopt.ir import Plan
from superopt.onnx_io import lift, load_model, lower
from tests.onnx_io.forcing import touched

LARGE = 200_000_000

SLACK = 40_000
"""Bytes for the names of nodes, and for the transposed copy of a table that the smallest networks share."""

NETWORKS = (
    "squeezenet",
    "resnet50",
    "bert-base",
    "nasrnn",
    *(name for name in zoo.names() if "light-" in name),
)
"""Of the larger ones of the zoo, and of those like these, benchmarks tell."""


def outputs(content: bytes) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    generator = np.random.default_rng(0)
    feeds = {
        given.name: generator.integers(0, 2, given.shape)
        if "int64" in given.type
        else generator.normal(size=given.shape).astype(np.float32)
        for given in session.get_inputs()
    }
    return session.run(None, feeds)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_written_anew_computes_the_same(name: str) -> None:
    before = zoo.build(name, batch=1).SerializeToString()
    lifted = lift(load_model(before))
    assert lifted.opaque == ()
    lowered = lower(lifted, touched(lifted.graph), Plan())
    assert lowered.node_count <= len(lifted.source.proto.graph.node)
    after = lowered.to_bytes()
    assert len(after) <= len(before) * 1.01 + SLACK
    if len(after) < LARGE:
        onnx.checker.check_model(after, full_check=True)
    for expected, got in zip(outputs(before), outputs(after), strict=True):
        assert expected.size == 1 or np.ptp(expected) > 0
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-5 * np.abs(expected).max())
