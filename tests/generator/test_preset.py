"""Presets are data: the shipped ones load, and a wrong one is answered with what was expected and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from superopt.errors import InvalidFileError, InvalidOptionError
from superopt.generator import load_preset, parse_preset, preset_names

GOOD = """
name = "tiny"
description = "sums"
[types]
matrix = { role = "tensor", shape = [2, 3] }
[[inputs]]
names = ["x", "y"]
type = "matrix"
[[operators]]
operator = "add"
signatures = ["tensor, tensor -> tensor"]
"""

BAD = {
    "not TOML": ("name = ", "not TOML"),
    "unknown key": (f"colour = 1\n{GOOD}", "unknown key colour"),
    "no name": (GOOD.replace('name = "tiny"', ""), "expected text for name"),
    "no types": (GOOD.replace("[types]", "[[stages]]"), r"expected a table \[types\]"),
    "a size of 0": (GOOD.replace("[2, 3]", "[2, 0]"), "expected a shape of positive sizes"),
    "an unknown type": (
        GOOD.replace('type = "matrix"', 'type = "vector"'),
        "unknown type vector; known: matrix",
    ),
    "a name twice": (GOOD.replace('["x", "y"]', '["x", "x"]'), "the names x occur twice"),
    "an unknown operator": (GOOD.replace('"add"', '"plus"'), "unknown operator plus"),
    "an unknown attribute": (
        GOOD.replace('operator = "add"', 'operator = "add"\nvariants = [{ axis = 1 }]'),
        "add has no attribute axis",
    ),
    "no signature": (GOOD.replace("tensor, tensor -> tensor", "tensor"), "expected a signature like"),
    "no operators": (GOOD[: GOOD.index("[[operators]]")], "expected at least one of"),
    "a size that is no number": (f'max_ops = "two"\n{GOOD}', "expected a positive whole number for max_ops"),
    "a stage of unknown inputs": (f'{GOOD}\n[[stages]]\ninputs = ["z"]', "unknown inputs z; known: x, y"),
    "a shape of an unknown input": (
        f"{GOOD}\n[[stages]]\nshapes = {{ z = [1, 2] }}",
        "z is not an input of the stage",
    ),
    "a shape of another rank": (
        f"{GOOD}\n[[stages]]\nshapes = {{ x = [2] }}",
        r"stages 1, shapes: expected a shape of rank 2 for x, got \[2\]",
    ),
    "a shape that is none": (
        f"{GOOD}\n[[stages]]\nshapes = {{ x = [2, 0] }}",
        "stages 1, shapes, x: expected a shape of positive sizes",
    ),
    "an implicit attribute of none": (
        f'{GOOD}\n[[constants]]\noperator = "ones"\nrole = "tensor"\nimplicit = {{ size = 1 }}',
        "ones: size is not an implicit attribute; attributes: shape",
    ),
}


@pytest.mark.parametrize("name", preset_names())
def test_a_shipped_preset_loads(name: str) -> None:
    preset = load_preset(name)
    assert preset.name == name
    assert preset.description
    assert all(stage.inputs and stage.instances for stage in preset.stages)


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD)
def test_a_wrong_preset_is_explained(text: str, message: str) -> None:
    with pytest.raises(InvalidFileError, match=message):
        parse_preset(text, "tiny.toml")


def test_a_preset_may_be_a_file(tmp_path: Path) -> None:
    file = tmp_path / "tiny.toml"
    file.write_text(GOOD, encoding="utf-8")
    assert load_preset(file).max_ops == 2
    with pytest.raises(InvalidFileError, match=r"missing\.toml: cannot be read"):
        load_preset(tmp_path / "missing.toml")


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(InvalidOptionError, match=r"unknown preset matrices; known: .*matrix"):
        load_preset("matrices")
    with pytest.raises(InvalidOptionError, match=r"preset tiny has no operator mul; it has: add"):
        parse_preset(GOOD, "tiny.toml").restricted_to(["mul"])


def test_stages_move_with_the_size_asked_for() -> None:
    preset = load_preset("convolution")
    assert [stage.max_ops for stage in preset.stages_to(3)] == [2, 3, 3]
    assert [stage.max_ops for stage in preset.stages_to(2)] == [1, 2, 2]


def test_a_stage_may_give_inputs_other_shapes() -> None:
    stages = "[[stages]]\n[[stages]]\nshapes = { y = [3, 4] }"
    square, other = parse_preset(f"{GOOD}\n{stages}", "tiny.toml").stages
    assert [tensor.type.shape for tensor in square.inputs] == [(2, 3), (2, 3)]
    assert [tensor.type.shape for tensor in other.inputs] == [(2, 3), (3, 4)]
    assert {tensor.type.role for tensor in other.inputs} == {"tensor"}
