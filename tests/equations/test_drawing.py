"""Drawings of equations: what is drawn, that nothing covers anything, that a reader without eyes is told."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest

from superopt import substitution_db
from superopt.equations import drawing, parse_equation
from superopt.equations.layout import CHARACTER, SMALL_CHARACTER, Box, Kind, Layout, layout

SVG = "{http://www.w3.org/2000/svg}"
MERGE = (
    "(conv(x, y), conv(x, z)) => (split0[axis=1](conv(x, concat[axis=0](y, z))), "
    "split1[axis=1](conv(x, concat[axis=0](y, z)))) where groups(x, y) = 1"
)
LONG = "stride=(2, 1), padding=same_upper, dilation=(1, 2), activation=relu"
EQUATIONS = (
    MERGE,
    "mul(add(x, y), add(x, y)) => add(add(mul(x, x), mul(y, y)), scale(mul(x, y), full[value=2]))",
    f"conv[{LONG}](conv[{LONG}](x, y), z) <=> conv[{LONG}](x, conv[{LONG}](y, z))",
    "(relu(x), tanh(relu(x)), x) => (relu(x), sigmoid(add(y, relu(x))), x)",
    "(split0[axis=0](x), relu(relu(relu(relu(x))))) => (split0[axis=0](x), relu(x))",
)


def largest_shipped() -> list[str]:
    lines = (Path(substitution_db.__file__).parent / "library.jsonl").read_text(encoding="utf-8").splitlines()
    return sorted((json.loads(line)["equation"] for line in lines), key=len)[-150:]


def sides(text: str) -> tuple[Layout, Layout]:
    equation = parse_equation(text)
    return layout(equation.left), layout(equation.right)


def apart(a: Box, b: Box) -> bool:
    beside = a.x + a.width <= b.x or b.x + b.width <= a.x
    return beside or a.y + a.height <= b.y or b.y + b.height <= a.y


def covers(box: Box, x: float, y: float) -> bool:
    return box.x < x < box.x + box.width and box.y < y < box.y + box.height


def test_everything_is_drawn_once() -> None:
    source, target = sides(MERGE)
    assert [(box.kind, box.name, box.attributes) for box in target.boxes] == [
        (Kind.INPUT, "x", ()),
        (Kind.INPUT, "y", ()),
        (Kind.INPUT, "z", ()),
        (Kind.OPERATOR, "concat", ("axis=0",)),
        (Kind.OPERATOR, "conv", ()),
        (Kind.OPERATOR, "split0", ("axis=1",)),
        (Kind.OPERATOR, "split1", ("axis=1",)),
        (Kind.OUTPUT, "1", ()),
        (Kind.OUTPUT, "2", ()),
    ]
    assert (len(source.edges), len(target.edges)) == (6, 8)
    (constant,) = (box for box in sides(EQUATIONS[1])[1].boxes if box.kind is Kind.CONSTANT)
    assert (constant.name, constant.attributes) == ("full", ("value=2",))


@pytest.mark.parametrize("texts", [EQUATIONS, largest_shipped()], ids=["odd", "shipped"])
def test_nothing_covers_anything(texts: list[str]) -> None:
    for text in texts:
        for side in sides(text):
            assert all(apart(a, b) for a, b in combinations(side.boxes, 2)), text
            bends = [point for edge in side.edges for point in edge.points[1:-1]]
            assert not any(covers(box, point.x, point.y) for box in side.boxes for point in bends), text
            for box in side.boxes:
                widest = max((len(line) for line in box.attributes), default=0) * SMALL_CHARACTER
                assert max(len(box.name) * CHARACTER, widest) <= box.width, text
                assert -0.01 <= box.x <= box.x + box.width <= side.width + 0.01, text
                assert 0 <= box.y <= box.y + box.height <= side.height, text


@pytest.mark.parametrize("text", EQUATIONS)
def test_data_flows_down(text: str) -> None:
    for side in sides(text):
        for edge in side.edges:
            heights = [point.y for point in edge.points]
            assert heights == sorted(heights)


@pytest.mark.parametrize("text", EQUATIONS)
def test_both_sides_and_the_condition_lie_within_the_picture(text: str) -> None:
    root = ElementTree.fromstring(drawing(parse_equation(text)))
    left, top, width, height = map(float, root.attrib["viewBox"].split())
    ground, *boxes = root.iter(f"{SVG}rect")
    assert ground.attrib["class"] == "ground"
    expected = [box for side in sides(text) for box in side.boxes if box.kind is not Kind.OUTPUT]
    assert len(boxes) == len(expected)
    for box in boxes:
        x, y = float(box.attrib["x"]), float(box.attrib["y"])
        assert left < x < x + float(box.attrib["width"]) < left + width
        assert top < y < y + float(box.attrib["height"]) < top + height
    for line in root.iter(f"{SVG}text"):
        reach = len(line.text or "") * SMALL_CHARACTER / 2
        assert left < float(line.attrib["x"]) - reach
        assert float(line.attrib["x"]) + reach < left + width
        assert float(line.attrib["y"]) < top + height


def test_a_drawing_says_what_it_shows() -> None:
    root = ElementTree.fromstring(drawing(parse_equation(MERGE)))
    assert root.attrib["role"] == "img"
    assert root.findtext(f"{SVG}title") == MERGE
    assert root.findtext(f"{SVG}desc") == (
        "The graph of conv(x, y), conv(x, z) may be replaced by the graph of "
        "split0[axis=1](conv(x, concat[axis=0](y, z))), split1[axis=1](conv(x, concat[axis=0](y, z))), "
        "where groups(x, y) = 1."
    )
    assert "where groups(x, y) = 1" in [text.text for text in root.iter(f"{SVG}text")]
