"""Fold zero padding of images (Pad nodes) into the convolutions that read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
from onnx import helper

from superopt.domains import Array
from superopt.onnx_io.protos import STANDARD_DOMAINS, captured_names

MARGINS_OF_IMAGE = 8
"""Two numbers for each axis of [n, c, h, w]."""


def without_pads(graph: onnx.GraphProto, contents: Mapping[str, Array]) -> list[onnx.NodeProto] | None:
    """The nodes without such pads; None where there are none. ``contents`` are the known constants. A pad
    with other readers is kept."""
    margins = {
        node.output[0]: (node.input[0], wanted)
        for node in graph.node
        if (wanted := _margins(node, contents)) is not None
    }
    for node in graph.node if margins else ():
        for slot, name in enumerate(node.input):
            if slot > 0 or not _takes_padding(node):
                margins.pop(name, None)
        for name in captured_names(node):
            margins.pop(name, None)
    for value in graph.output:
        margins.pop(value.name, None)
    if not margins:
        return None
    return [
        _widened(node, margins) for node in graph.node if not node.output or node.output[0] not in margins
    ]


def _margins(node: onnx.NodeProto, contents: Mapping[str, Array]) -> Sequence[int] | None:
    """(top, left, bottom, right) of a Pad with zeros around images."""
    if node.op_type != "Pad" or node.domain not in STANDARD_DOMAINS or len(node.input) > 3:
        return None
    attributes = {attribute.name: attribute for attribute in node.attribute}
    if "mode" in attributes and attributes["mode"].s != b"constant":
        return None
    if "pads" in attributes:
        pads = list(attributes["pads"].ints)
        is_zero = "value" not in attributes or attributes["value"].f == 0
    else:
        known = contents.get(node.input[1]) if len(node.input) > 1 else None
        pads = [] if known is None else [int(number) for number in known.reshape(-1)]
        filler = contents.get(node.input[2]) if len(node.input) > 2 and node.input[2] else None
        is_zero = len(node.input) < 3 or not node.input[2] or (filler is not None and not filler.any())
    if not is_zero or len(pads) != MARGINS_OF_IMAGE or min(pads) < 0 or not any(pads):
        return None
    return None if any(pads[axis] for axis in (0, 1, 4, 5)) else (*pads[2:4], *pads[6:8])


def _takes_padding(node: onnx.NodeProto) -> bool:
    if node.op_type != "Conv" or node.domain not in STANDARD_DOMAINS:
        return False
    return all(a.s in (b"NOTSET", b"", b"VALID") for a in node.attribute if a.name == "auto_pad")


def _widened(node: onnx.NodeProto, margins: Mapping[str, tuple[str, Sequence[int]]]) -> onnx.NodeProto:
    if not node.input or node.input[0] not in margins:
        return node
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.input[0], more = margins[node.input[0]]
    is_valid = any(a.s == b"VALID" for a in node.attribute if a.name == "auto_pad")
    given = [list(a.ints) for a in node.attribute if a.name == "pads" and not is_valid]
    own = given[0] if given else [0, 0, 0, 0]
    del copy.attribute[:]
    copy.attribute.extend(a for a in node.attribute if a.name not in ("pads", "auto_pad"))
    total = [a + b for a, b in zip(own, more, strict=True)]
    copy.attribute.append(helper.make_attribute("pads", total))
    return copy
