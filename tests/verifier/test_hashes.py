"""A hash is of what is computed: wording, places and other operators do not count, one sign does."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from superopt.ops import OPERATORS
from superopt.verifier import hashes
from superopt.verifier.definitions import Closure
from superopt.verifier.hashes import CHECKER, MEANING, PACKAGES, code_lines, operators_hash

SOURCES = Path(hashes.__file__).parents[1]
SCRIPT = """
import json
from superopt.verifier.hashes import meanings_now
meanings = meanings_now()
print(json.dumps({"": meanings.checker, **meanings.operators}))
"""
ADDED = '''

@register
@dataclass(frozen=True, slots=True)
class Doubled(UnaryElementwise):
    """Twice its input."""

    name: ClassVar[str] = "doubled_for_a_test"

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """A sum."""
        return (domain.add(arrays[0], arrays[0]),)
'''

Meanings = Mapping[str, str]
Edit = Callable[[Path], None]


def _replaced(file: str, old: str, new: str) -> Edit:
    def edit(copy: Path) -> None:
        path = copy / file
        text = path.read_text("utf-8")
        assert text.count(old) == 1, f"{file} has {text.count(old)} times {old!r}"
        path.write_text(text.replace(old, new), "utf-8")

    return edit


def _appended(file: str, text: str) -> Edit:
    def edit(copy: Path) -> None:
        with (copy / file).open("a", encoding="utf-8") as opened:
            opened.write(text)

    return edit


def _moved(package: str, old: str, new: str) -> Edit:
    def edit(copy: Path) -> None:
        folder = copy.joinpath(*package.split("."))
        (folder / f"{old}.py").rename(folder / f"{new}.py")
        for path in copy.rglob("*.py"):
            text = path.read_text("utf-8")
            imported = rf"({package}\.|{package} import (?:[\w, ]*, )?|^    ){old}\b"
            moved = re.sub(imported, rf"\g<1>{new}", text, flags=re.MULTILINE)
            path.write_text(moved, "utf-8")

    return edit


def _meanings_after(edit: Edit, copy: Path) -> Meanings:
    shutil.copytree(SOURCES, copy / "superopt", ignore=shutil.ignore_patterns("__pycache__"))
    edit(copy)
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, cwd=copy, env={"PYTHONPATH": str(copy)}, capture_output=True, check=True)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def now() -> Meanings:
    meanings = hashes.meanings_now()
    return {"": meanings.checker, **meanings.operators}


_ACTIVATION = "superopt/ops/elementwise/activation.py"


@pytest.mark.parametrize(
    "edit",
    [
        _replaced(_ACTIVATION, '"""Rectified."""', '"""The positive part."""'),
        _replaced(
            _ACTIVATION,
            "rectified(domain: Domain[A], array: A) -> A:",
            "rectified(domain: object, array: object) -> object:",
        ),
        _replaced(_ACTIVATION, 'OnnxForm("Relu", since=6)', 'OnnxForm("Relu", since=14)'),
        _replaced("superopt/ops/images/upsampling.py", "expected a stride of at least 1", "stride below 1"),
        _moved("superopt.ops.images", "upsampling", "resizing"),
        _moved("superopt.verifier.certificates", "positivity", "signs_of_sizes"),
    ],
    ids=["docstring", "annotations", "ONNX form", "error", "moved operators", "moved checker"],
)
def test_wording_places_and_forms_change_no_hash(now: Meanings, edit: Edit, tmp_path: Path) -> None:
    assert _meanings_after(edit, tmp_path) == now


def test_a_new_operator_changes_no_other(now: Meanings, tmp_path: Path) -> None:
    after = _meanings_after(_appended("superopt/ops/elementwise/activation.py", ADDED), tmp_path)
    assert after.keys() - now.keys() == {"doubled_for_a_test"}
    assert {name: after[name] for name in now} == now


@pytest.mark.parametrize(
    ("edit", "changed"),
    [
        (
            _replaced(
                _ACTIVATION,
                "domain.add(sigmoid, sigmoid), domain.rational(1))",
                "domain.add(sigmoid, sigmoid), domain.rational(-1))",
            ),
            {
                "tanh",
                "gelu",
                "conv",
                "bilinear_conv",
                "conv_transpose",
                "kernel_response",
                "conv_data_gradient",
                "conv_weight_gradient",
                "avgpool_gradient",
                "maxpool_gradient",
            },
        ),
        (
            _replaced(_ACTIVATION, "line, domain.rational(1))", "line, domain.rational(2))"),
            {"hard_sigmoid", "hard_swish"},
        ),
        (_replaced("superopt/verifier/certificates/positivity.py", "_DEPTH = 3", "_DEPTH = 4"), {""}),
    ],
    ids=["a sign of tanh", "a bound of a clipped line", "the checker"],
)
def test_what_is_computed_changes_exactly_its_hashes(
    now: Meanings, edit: Edit, changed: set[str], tmp_path: Path
) -> None:
    after = _meanings_after(edit, tmp_path)
    assert {name for name in now if after[name] != now[name]} == changed


def test_every_operator_has_a_meaning_of_its_own(now: Meanings) -> None:
    assert len(set(now.values())) == len(now) == len(OPERATORS) + 1
    assert operators_hash(["add", "mul"]) == operators_hash(["mul", "add", "mul"]) != operators_hash(["add"])


def test_what_is_handed_to_the_checker_is_hashed_too() -> None:
    """Annotations are not followed: a class whose objects come in as arguments has to be among the roots."""
    places = {name: (cls.__module__, cls.__qualname__) for name, cls in OPERATORS.items()}
    closure = Closure(PACKAGES)
    closure.extend((*CHECKER, *places.values()), MEANING)
    protocols = {
        ("superopt.domains.arrays", "Namespace"),
        ("superopt.domains.arrays", "_Cupy"),
        ("superopt.ops.sharded.sharding", "Divisible"),
    }
    assert closure.only_annotated() == protocols


def test_comments_and_blank_lines_are_no_code() -> None:
    assert code_lines("a = 1\n\n# why\n    # indented\nb = 2  \n") == "a = 1\nb = 2"
