"""Pad with a number is a concatenation; written anew it is one Pad again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from superopt.onnx_io import lift, load_model
from tests.onnx_io.forcing import written_anew, written_as_it_was
from tests.onnx_io.kit import assert_same_results, model, node, operators, tensor, value


@dataclass(frozen=True)
class Margins:
    """A Pad, the operators that read something in the graph, those written anew, or why it stays."""

    shape: Sequence[int | str]
    pads: Sequence[int]
    lifted: str
    written: str = "Pad"
    number: float | None = None
    mode: str = "constant"
    reason: str = ""
    more: Mapping[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])

    def model(self, opset: int) -> bytes:
        """A model of the node, in the spelling of the operator set."""
        result = [value("y", [None] * len(self.shape))]
        inputs = [value("x", self.shape)]
        if opset < 11:
            number = {} if self.number is None else {"value": self.number}
            made = node("Pad", "x", "y", pads=self.pads, mode=self.mode, **number)
            return model([made], inputs, result, opset=opset).SerializeToString()
        weights = [tensor("p", self.pads, np.int64)]
        weights += [] if self.number is None else [tensor("v", self.number)]
        weights += [tensor("a", axes, np.int64) for axes in self.more.values()]
        names = ["x", "p", "-" if self.number is None else "v", *(["a"] if self.more else [])]
        made = node("Pad", " ".join(names), "y", mode=self.mode)
        return model([made], inputs, result, weights, opset=opset).SerializeToString()


CASES = {
    "before and after": Margins([4, 6], [0, 1, 0, 2], "concat"),
    "before": Margins([4, 6], [3, 0, 0, 0], "concat"),
    "two axes": Margins([1, 2, 4, 6], [0, 0, 1, 1, 0, 0, 2, 1], "concat concat"),
    "an unknown axis besides": Margins(["n", 6], [0, 1, 0, 0], "concat"),
    "of an unknown axis": Margins(["n", 6], [1, 0, 1, 0], "concat"),
    "another number": Margins([4], [1, 1], "concat", number=-2.5),
    "cut": Margins([4, 6], [0, -1, 0, -2], "split", "Slice"),
    "cut and padded": Margins([4, 6], [0, -1, 0, 2], "split concat", "Slice Pad"),
    "nothing": Margins([4, 6], [0, 0, 0, 0], "identity", "Identity"),
    "reflected by nothing": Margins([4, 6], [0, 0, 0, 0], "identity", "Identity", mode="reflect"),
    "reflected": Margins([4, 6], [0, 1, 0, 1], "opaque", mode="reflect", reason="it pads by reflect"),
    "infinite": Margins(
        [4], [1, 1], "opaque", number=np.inf, reason="it pads with what is no number of single precision"
    ),
}


@pytest.mark.parametrize("opset", [7, 10, 11, 13, 18, 23])
@pytest.mark.parametrize("margins", CASES.values(), ids=CASES)
def test_a_pad_is_a_concatenation(margins: Margins, opset: int) -> None:
    content = margins.model(opset)
    if opset < 11 and margins.number == np.inf:
        pytest.skip("an infinite attribute")
    lifted = lift(load_model(content))
    assert " ".join(made.operator.name for made in lifted.graph if made.inputs) == margins.lifted
    assert [why for _, _, why in lifted.opaque] == ([margins.reason] if margins.reason else [])
    assert operators(written_anew(content)) == margins.written
    assert_same_results(content, written_anew(content))
    assert written_as_it_was(content) == content


def test_axes_may_be_named() -> None:
    content = Margins([4, 6], [1, 2], "concat", more={"axes": [-1]}).model(18)
    assert lift(load_model(content)).opaque == ()
    assert_same_results(content, written_anew(content))


def test_a_pad_of_halves_stays() -> None:
    made = node("Pad", "x p", "y")
    content = model(
        [made], [value("x", [4], 10)], [value("y", [6], 10)], [tensor("p", [1, 1], np.int64)]
    ).SerializeToString()
    assert [name for _, name, _ in lift(load_model(content)).opaque] == ["Pad"]
    assert written_as_it_was(content) == content
