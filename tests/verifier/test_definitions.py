"""Definitions as text that tells what they compute, and what is reached from them."""

from __future__ import annotations

import pytest

from superopt.verifier.definitions import Closure, Module, module_of

FUNCTION = "def double(x):\n    return x + x\n"


def _only(source: str) -> str:
    return module_of(source).definitions["double"].text


@pytest.mark.parametrize(
    "same",
    [
        "def double(x):\n    # why\n\n    return (x + x)\n",
        'def double(x):\n    """Twice."""\n    return x + x\n',
        "def double(x: int) -> int:\n    return x + x\n",
        "from typing import cast\ndef double(x):\n    return cast('int', x + x)\n",
    ],
    ids=["comment", "docstring", "annotations", "cast"],
)
def test_what_computes_the_same_has_one_text(same: str) -> None:
    assert _only(same) == _only(FUNCTION)


@pytest.mark.parametrize(
    "other",
    [
        "def double(x):\n    return x - x\n",
        "def double(x, y=1):\n    return x + x\n",
        "@twice\ndef double(x):\n    return x + x\n",
    ],
)
def test_what_computes_something_else_has_another(other: str) -> None:
    assert _only(other) != _only(FUNCTION)


def test_the_wording_of_an_error_does_not_count_but_its_kind_and_numbers_do() -> None:
    def text(error: str) -> str:
        return _only(f"def double(x):\n    raise {error}\n")

    assert text("ValueError(f'no {x}')") == text("ValueError('never')")
    assert len({text("ValueError('a', x)"), text("TypeError('a', x)"), text("ValueError('a')")}) == 3


SOURCE = """
class Shape:
    sides: int = 3

    def area(self):
        return helper(self.sides)

    def colour(self):
        return red()

    def __eq__(self, other):
        return compared(self, other)

def helper(x): return x * LIMIT
LIMIT = 4
LIMIT = LIMIT + 1
def red(): return 1
def compared(a, b): return a.sides == b.sides
def far(shape): return shape.area()
def apart(): return Shape()
def unused(): return far
"""


def _reached(monkeypatch: pytest.MonkeyPatch, *roots: str) -> set[str]:
    """The names of the definitions, members without their class, whose text is reached."""
    module = module_of(SOURCE)
    modules: dict[str, Module | None] = {"p.m": module}
    monkeypatch.setattr("superopt.verifier.definitions.read_module", modules.get)
    closure = Closure(("p",))
    closure.extend([("p.m", root) for root in roots])
    every = {**module.definitions, **module.members["Shape"]}
    return {name for name, definition in every.items() if definition.text in closure.texts}


def test_names_are_followed_and_members_that_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _reached(monkeypatch, "helper") == {"helper", "LIMIT"}
    assert _reached(monkeypatch, "apart") == {"apart", "Shape", "__eq__", "compared"}
    assert _reached(monkeypatch, "apart", "far") == {
        *("apart", "Shape", "__eq__", "compared", "far", "area", "helper", "LIMIT"),
    }


def test_a_name_keeps_all_that_is_assigned_to_it() -> None:
    texts = {module_of(f"LIMIT = 4\nLIMIT = LIMIT + {n}\n").definitions["LIMIT"].text for n in (1, 2)}
    assert len(texts) == 2


def test_a_root_that_is_not_there_is_an_error() -> None:
    with pytest.raises(LookupError, match=r"certificates\.replay has no definition of nothing"):
        Closure(("superopt.verifier",)).extend([("superopt.verifier.certificates.replay", "nothing")])
